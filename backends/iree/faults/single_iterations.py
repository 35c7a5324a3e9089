"""simplify_loops: inlines calls of functions with loops and removes loops that run at most once.

Runs before the patterns. The compiler crashes on loops that it knows to run once, or takes all memory. It
inlines calls itself, so that only inlining shows whether a loop follows another one. A slice that is the
whole array is replaced by the array: a loop-carried value would seem to depend on an old value that the
compiler finds to be replaced whole.
"""

import operator
from collections.abc import Callable
from typing import Any

from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.backends.iree.emitter import Emitter, within
from tiduc.backends.iree.fault import crash
from tiduc.dialect.constants import integer_in
from tiduc.dialect.context import run_passes
from tiduc.dialect.graph import operations

_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "stablehlo.add": operator.add,
    "stablehlo.multiply": operator.mul,
    "stablehlo.subtract": operator.sub,
}
_RELATIONS: dict[str, Callable[[int, int], bool]] = {
    name.upper(): getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")
}
_WHOLE = {"stablehlo.dynamic_slice": 0, "stablehlo.dynamic_update_slice": 1}
"""The operand that is the result where the slice is the whole array."""

Known = dict[Any, int]
"""Values whose integers are known at compile time."""


@crash(
    "Crashes, or takes all memory, on a loop that runs once; inlines the iteration.",
    "while_once",
    untested="takes all memory on some machines",
)
@crash(
    "Finds that a slice is the whole array, and then not the value that it replaces; removes such slices.",
    "while_whole_updates",
)
def simplify_loops(module: Any) -> None:
    """Inlines calls if a callee has a loop, and removes loops that run once or never."""
    ops = within(module.operation)
    callees = {str(op.attributes["callee"])[1:] for op in ops if op.name == "func.call"}
    functions = [op for op in ops if op.name == "func.func" and op.attributes["sym_name"].value in callees]
    if any(inner.name == "stablehlo.while" for function in functions for inner in within(function)):
        run_passes(module.operation, "builtin.module(inline,symbol-dce)")
    _whole_slices(module)
    waiting = [op for op in within(module.operation) if op.name == "stablehlo.while"][::-1]
    while waiting:
        op = waiting.pop()
        times = few_iterations(op)
        if times is None:
            continue
        inside = set(within(op))
        waiting = [inner for inner in waiting if inner not in inside]
        b = Emitter(ir.InsertionPoint(op), op.location)
        results = b.inlined(op.regions[1], op.operands) if times else list(op.operands)
        inlined = [inner for copy in b.emitted for inner in within(copy)]
        waiting += [inner for inner in inlined if inner.name == "stablehlo.while"][::-1]
        for old, new in zip(op.results, results, strict=True):
            old.replace_all_uses_with(new)
        op.erase()


def _whole_slices(module: Any) -> None:
    """Replaces slices of the whole array by the array, and updates of it by the update: starts clamp to 0."""
    for op in within(module.operation):
        whole = _WHOLE.get(op.name)
        if whole is not None and op.operands[0].type == op.operands[whole].type == op.results[0].type:
            if op.results[0].type.has_static_shape:
                op.results[0].replace_all_uses_with(op.operands[whole])
                op.erase()


def few_iterations(op: Any) -> int | None:
    """The trip count of a loop where constants show that it is 0 or 1; else None."""
    condition, body = (region.blocks[0] for region in op.regions)
    carries = [_integer(x, {}) for x in op.operands]
    holds = _returned(condition, carries)[0]
    if holds is None or not holds:
        return holds
    return 1 if _returned(condition, _returned(body, carries))[0] == 0 else None


def _returned(block: Any, arguments: list[int | None]) -> list[int | None]:
    """The integers that a block returns, as far as known, for arguments of which some are known."""
    known: Known = {
        x: value for x, value in zip(block.arguments, arguments, strict=True) if value is not None
    }
    for op in operations(block):
        if op.name == "stablehlo.return":
            return [_integer(x, known) for x in op.operands]
        value = _computed(op, known)
        if value is not None:
            known[op.results[0]] = value
    raise AssertionError("a region without a return")


def _integer(x: Any, known: Known) -> int | None:
    """The integer that a value is, by `known` or as a constant; else None."""
    if x in known:
        return known[x]
    if not isinstance(x, ir.OpResult) or x.owner.name != "stablehlo.constant":
        return None
    return None if x.type.rank else integer_in(x.owner.attributes["value"])


def _computed(op: Any, known: Known) -> int | None:
    """The result of an op on known integers, wrapped to the width of its type; else None."""
    if len(op.operands) != 2 or len(op.results) != 1 or not _is_integer(op.operands[0]):
        return None
    x, y = (_integer(operand, known) for operand in op.operands)
    if x is None or y is None:
        return None
    if op.name == "stablehlo.compare":
        direction = hlo.ComparisonDirectionAttr(op.attributes["comparison_direction"]).value
        return int(_RELATIONS[direction](x, y))
    if op.name not in _ARITHMETIC:
        return None
    type_ = op.results[0].type.element_type
    size: int = 2**type_.width
    value = _ARITHMETIC[op.name](x, y) % size
    return value if type_.is_unsigned or value < size // 2 else value - size


def _is_integer(x: Any) -> bool:
    """Whether a value is a scalar integer and no predicate."""
    type_ = x.type
    scalar = isinstance(type_, ir.RankedTensorType) and not type_.rank
    return scalar and isinstance(type_.element_type, ir.IntegerType) and type_.element_type.width > 1
