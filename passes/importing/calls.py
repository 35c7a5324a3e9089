"""Inlines function calls where inlining is cheap, and turns other calls into calls of graphs; part of import.

A function is inlined if it is called once, is small or draws random numbers. It is also inlined if it returns
eigenvectors, singular vectors, LU factors, or the logarithm of a determinant, because rules (`passes/rules/spectral.py`
and `determinant.py`) inspect the ops that read such results. A `no_inline` function is inlined only if it draws random
numbers, or if the user asks to inline all calls. A function that names its own derivative, or has a rule, is never
inlined. A function with `tidu.checkpoint` is always inlined, and its ops get that attribute. Any other function becomes
a graph, which is linearized and transposed once for all call sites.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from torch_mlir import ir

from tiduc.dialect.control.control import holds_draws
from tiduc.dialect.errors import Unsupported
from tiduc.dialect.facts.lapack import targets
from tiduc.dialect.graph.functions import replace, replace_by_call, within
from tiduc.dialect.graph.graph import operations
from tiduc.dialect.ops.control_ops import CALL, CUSTOM_CALL, GRAPHS, TARGET, call_target
from tiduc.dialect.ops.ir_types import IrOp
from tiduc.dialect.ops.traits import CONTROL
from tiduc.dialect.ops.verify import CHECKPOINT
from tiduc.passes.rules.determinant import SELECT, sizes_of_pivots

SMALL = 12
"""A function of at most this many ops is small: inlining it costs less than calling it."""

MOST = 2**18
"""The largest number of ops of a function after its calls are inlined. Import refuses larger functions.

If each function calls the next one twice, the number doubles from callee to caller.
"""

_INLINED = frozenset((*targets("Eigh", "gesdd", "gesvd", "gesvdj", "getrf", "syevd"), "LuDecomposition"))
_MOVED = {"stablehlo.select": 1, "stablehlo.slice": 0, "stablehlo.transpose": 0}
"""Ops that may stand between a factorization and the result of a function that returns a part of the factorization.

Each op is mapped to the index of the operand from which the elements of its result come.
"""

Calls = dict[str, list[tuple[Any, str]]]
"""Maps the name of each function to the function's call ops, each with the name of its callee."""


def convert_calls(functions: Mapping[str, IrOp], roots: list[str], inline: bool) -> list[str]:
    """Inlines the calls in all functions that the functions `roots` reach, or turns them into `tidu.call`s.

    Returns the names of the functions that the remaining calls call. With `inline`, every call that may be inlined is
    inlined. Raises `Unsupported` if a function is recursive, if a function that may not be inlined is called in a
    region that cannot hold calls, or if a function has more than `MOST` ops after inlining.
    """
    calls, order = _calls_first(functions, roots)
    uses = Counter(callee for inner in calls.values() for _, callee in inner)
    flat, flat_sizes = _without_calls(functions, calls, order)
    called: dict[str, None] = {}
    sizes: dict[str, int] = {}
    for name in order:
        sizes[name] = _size(functions[name])
        for call, callee in calls[name]:
            function = functions[callee]
            wanted = "no_inline" not in function.attributes or CHECKPOINT in function.attributes
            cheap = wanted and (
                CHECKPOINT in function.attributes
                or uses[callee] == 1
                or _size(function) <= SMALL
                or _returns_part(function)
            )
            if _holder(call) is not None:
                _grow(sizes, name, flat_sizes[callee], call)
                _inline(call, flat[callee])
            elif _may_be_inlined(function) and (inline or cheap or holds_draws(function)):
                _grow(sizes, name, sizes[callee], call)
                _inline(call, function)
            else:
                called[callee] = None
                _to_graph_call(call, callee)
    return list(called)


def _calls(function: IrOp) -> list[tuple[ir.Operation, str]]:
    return [(op, op.attributes["callee"].value) for op in within(function, ("func.call",))]


def _calls_first(functions: Mapping[str, IrOp], roots: list[str]) -> tuple[Calls, list[str]]:
    """The calls in each function that the roots reach, and the names of these functions, callees before callers.

    Raises `Unsupported` if a call is recursive, or if a called function has no body.
    """
    calls: Calls = {}
    order: list[str] = []
    done: set[str] = set()
    stack: list[tuple[str, Any]] = [(name, None) for name in roots]
    while stack:
        name, call = stack[-1]
        if name in calls:
            stack.pop()
            if name not in done:
                done.add(name)
                order.append(name)
            continue
        function = functions.get(name)
        if function is None or not len(function.regions[0].blocks):
            raise Unsupported(
                f"@{name} is called, but has no body", call.location if call is not None else None
            )
        calls[name] = _calls(function)
        for inner, callee in calls[name]:
            if callee not in calls:
                stack.append((callee, inner))
            elif callee not in done:
                raise Unsupported(f"the call of @{callee} is recursive", inner.location)
    return calls, order


def _without_calls(
    functions: Mapping[str, IrOp], calls: Calls, order: list[str]
) -> tuple[dict[str, ir.Operation], dict[str, int]]:
    """Copies of functions in which all calls are inlined, and the sizes of the copies.

    Such a copy replaces a call in a region that cannot hold calls of graphs, such as the body of a reduction.
    """
    wanted: dict[str, tuple[Any, str]] = {}
    for name in reversed(order):  # callers come before callees
        for call, callee in calls[name]:
            holder = _holder(call)
            if holder is not None or name in wanted:
                wanted.setdefault(callee, (call, holder.name if holder is not None else wanted[name][1]))
    flat: dict[str, Any] = {}
    sizes: dict[str, int] = {}
    for name in order:
        if name in wanted:
            function, (call, around) = functions[name], wanted[name]
            if not _may_be_inlined(function):
                message = f"@{name} is called in a region of {around}, but may not be inlined"
                raise Unsupported(message, call.location)
            flat[name], sizes[name] = function.clone().operation, _size(function)
            for inner, callee in _calls(flat[name]):
                _grow(sizes, name, sizes[callee], inner)
                _inline(inner, flat[callee])
    return flat, sizes


def _holder(call: IrOp) -> IrOp | None:
    """The innermost op around a call whose region cannot hold calls of graphs; None if there is no such op."""
    op = call.operation.parent
    while op is not None and op.name != "func.func":
        if op.name not in CONTROL:
            return op
        op = op.operation.parent
    return None


def _may_be_inlined(function: IrOp) -> bool:
    if any(name.startswith("tidu.") and name != CHECKPOINT for name in function.attributes):
        return False
    return len(function.regions[0].blocks) == 1


def _returns_part(function: IrOp) -> bool:
    """Whether a function returns the logarithm of a determinant, or a result of a factorization in `_INLINED`, or
    elements of such a result.
    """
    for y in list(operations(function.regions[0].blocks[0]))[-1].operands:
        op = y.owner
        if not isinstance(op, ir.Block) and op.name == SELECT and sizes_of_pivots(op) is not None:
            return True
        while not isinstance(op, ir.Block) and op.name in _MOVED:
            op = op.operands[_MOVED[op.name]].owner
        if not isinstance(op, ir.Block) and op.name == CUSTOM_CALL and call_target(op) in _INLINED:
            return True
    return False


def _size(function: IrOp) -> int:
    return len(function.regions[0].blocks[0].operations) - 1


def _grow(sizes: dict[str, int], name: str, more: int, call: IrOp) -> None:
    sizes[name] += more
    if sizes[name] > MOST:
        raise Unsupported(f"@{name} has more than {MOST} ops once its calls are inlined", call.location)


def _inline(call: IrOp, function: IrOp) -> None:
    copy = function.clone()  # only in a clone of the whole function, cloned ops read each other's results
    block = copy.regions[0].blocks[0]
    for argument, x in zip(block.arguments, list(call.operands), strict=True):
        argument.replace_all_uses_with(x)
    *body, end = list(operations(block))
    if CHECKPOINT in function.attributes:
        results = {x.owner.operation for x in end.operands if not isinstance(x.owner, ir.Block)}
        for op in body:
            if op not in results:
                op.attributes[CHECKPOINT] = ir.UnitAttr.get()
    for op in body:
        op.move_before(call)
    replace(call, end.operands)
    copy.erase()


def _to_graph_call(call: IrOp, callee: str) -> None:
    graphs = ir.ArrayAttr.get([ir.FlatSymbolRefAttr.get(callee)])
    replace_by_call(call, callee, CUSTOM_CALL, {TARGET: ir.StringAttr.get(CALL), GRAPHS: graphs})
