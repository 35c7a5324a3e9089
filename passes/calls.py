"""Calls of functions, as graphs have them: inlined where that costs nothing, else calls of graphs.

A function that is called once, is small, or draws random numbers is inlined; one whose attributes say `no_inline` is
if all are to be, and one that names a rule of its own never. What is left is linearized and transposed once for all
its calls.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from torch_mlir import ir

from tiduc.dialect.control import CALL, GRAPHS, holds_draws
from tiduc.dialect.errors import Unsupported
from tiduc.dialect.graph import CARRIER, TARGET, operations

SMALL = 12
"""As many ops of a function cost less than what is spent on calling it."""


def settle_calls(functions: Mapping[str, Any], roots: list[str], inline: bool) -> list[str]:
    """Inlines, or makes `tidu.call`s of, all calls that the roots lead to; the functions still called.

    With `inline`, all are inlined that may be. `Unsupported` where a function calls itself, through whichever others.
    """
    order = _callees_first(functions, roots)
    count = Counter(callee for name in order for _, callee in _calls(functions[name]))
    called: dict[str, None] = {}
    for name in order:
        for call, callee in _calls(functions[name]):
            function = functions.get(callee)
            if function is None or not len(function.regions[0].blocks):
                raise Unsupported(f"@{callee} is called, but has no body", call.location)
            wanted = "no_inline" not in function.attributes
            cheap = wanted and (count[callee] == 1 or _size(function) <= SMALL)
            if _may_be_inlined(function) and (inline or cheap or holds_draws(function)):
                _inline(call, function)
            else:
                called[callee] = None
                _to_graph_call(call, callee)
    return list(called)


def _calls(function: Any) -> list[tuple[Any, str]]:
    found: list[tuple[Any, str]] = []

    def look(op: Any) -> Any:
        if op.name == "func.call":
            found.append((op, op.attributes["callee"].value))
        return ir.WalkResult.ADVANCE

    function.walk(look)
    return found


def _callees_first(functions: Mapping[str, Any], roots: list[str]) -> list[str]:
    order: list[str] = []
    state: dict[str, bool] = {}
    stack: list[tuple[str, Any]] = [(name, None) for name in roots]
    while stack:
        name, call = stack[-1]
        if name not in state:
            state[name] = False
            for inner, callee in _calls(functions[name]) if name in functions else ():
                if state.get(callee) is False:
                    raise Unsupported(f"the call of @{callee} is recursive", inner.location)
                if callee not in state:
                    stack.append((callee, inner))
        else:
            stack.pop()
            if not state[name]:
                state[name] = True
                if name in functions:
                    order.append(name)
    return order


def _may_be_inlined(function: Any) -> bool:
    if any(name.startswith("tidu.") for name in function.attributes):
        return False
    return len(function.regions[0].blocks) == 1


def _size(function: Any) -> int:
    return len(function.regions[0].blocks[0].operations) - 1


def _inline(call: Any, function: Any) -> None:
    copy = function.clone()  # a copy as a whole, since the ops of its regions read each other
    block = copy.regions[0].blocks[0]
    for argument, x in zip(block.arguments, list(call.operands), strict=True):
        argument.replace_all_uses_with(x)
    *body, end = list(operations(block))
    for op in body:
        op.move_before(call)
    for y, x in zip(list(call.results), list(end.operands), strict=True):
        y.replace_all_uses_with(x)
    call.erase()
    copy.erase()


def _to_graph_call(call: Any, callee: str) -> None:
    made = ir.Operation.create(
        CARRIER,
        [y.type for y in call.results],
        list(call.operands),
        {
            TARGET: ir.StringAttr.get(CALL),
            GRAPHS: ir.ArrayAttr.get([ir.FlatSymbolRefAttr.get(callee)]),
        },
        loc=call.location,
        ip=ir.InsertionPoint(call),
    )
    for y, x in zip(list(call.results), list(made.results), strict=True):
        y.replace_all_uses_with(x)
    call.erase()
