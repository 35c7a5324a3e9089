"""select_reruns: replaces the barriers of rematerialized ops by selects, which also keep IREE from merging ops.

    %0:2 = optimization_barrier %x, %ct        ->   %0 = select (compare GE, broadcast %o, 0), %x, 0
        {tidu.recomputed}                           %o = optimization_barrier 0 : i32, at the start of the function

The stage `rematerialize` emits such barriers before each op that it computes a second time, so that the second op is
not merged with the first one. No op reads %0#1; %ct is the value before which the second op need not run. IREE ends an
execution region at each barrier. All values that a region passes to later regions share one allocation, which IREE
frees after the last use of any of them, or never, so that the peak of memory rises. IREE cannot know that %o is not
negative, so it does not merge the ops behind the select either, and it fuses the select with the second op. The order
of the ops needs no barrier, since IREE runs ops in the given order. Each select hides a number of its own: IREE merges
barriers of equal constants, and would then merge a second run of an op with a third one. All selects compare with 0, so
that the kernels of equal layers are one executable.
"""

from itertools import count
from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.emitter import Emitter, rewriting, signless, within
from tiduc.backends.iree.fault import slow
from tiduc.backends.iree.known import known_number
from tiduc.backends.iree.missing.dynamic.arrays import has_dynamic_shape
from tiduc.dialect.context import stage
from tiduc.dialect.dependences import defined_by, traced
from tiduc.dialect.graph import operations
from tiduc.dialect.verify import RECOMPUTED


@slow("Keeps values in memory that go through a barrier, and values of the same execution region.")
@stage
def select_reruns(module: Any) -> int:
    """Replaces the barriers of rematerialized ops in place; gives the number of selects."""
    numbers = count()
    for function in operations(module.operation.regions[0].blocks[0]):
        reruns = [op for op in within(function) if RECOMPUTED in op.attributes and not has_dynamic_shape(op)]
        for op in reruns:
            with rewriting(op) as b:
                for x, y in zip(op.operands, op.results, strict=True):
                    if len(list(y.uses)):
                        y.replace_all_uses_with(selected(b, hidden_number(b, function, next(numbers)), x))
            op.erase()
    return next(numbers)


def hidden_number(b: Emitter, function: Any, number: int) -> Any:
    """A number behind a barrier at the start of a function, so that IREE does not know it."""
    first = Emitter(ir.InsertionPoint.at_block_begin(function.regions[0].blocks[0]), b.location)
    (hidden,) = first.barrier(first.table(number, signless(32)))
    return hidden


def selected(b: Emitter, hidden: Any, x: Any) -> Any:
    """x where a hidden number is not negative; it never is, though IREE cannot know that."""
    not_negative = b.compare(b.broadcast_in_dim(hidden, [], x.type.shape), 0, "GE")
    return b.select(not_negative, x, b.zero(x.type))


def before_rerun(x: Any) -> Any:
    """The value that a select of `selected` gives; x itself if it is not such a value."""
    select = defined_by(x, "stablehlo.select")
    compare = defined_by(select.operands[0], "stablehlo.compare") if select else None
    if not select or not compare or "GE" not in str(compare.attributes["comparison_direction"]):
        return x
    left, right = compare.operands
    *_, hidden = traced(left, ["stablehlo.broadcast_in_dim", "stablehlo.optimization_barrier"])
    number, least = known_number(hidden), known_number(right)
    return x if number is None or least is None or number < least else select.operands[1]
