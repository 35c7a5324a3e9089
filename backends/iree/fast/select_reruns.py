"""select_reruns: keeps IREE from merging the second run of an op with the first, without a barrier.

    %0:2 = optimization_barrier %x, %ct        ->   %0 = select (compare EQ, broadcast %o, 0), %x, 0
        {tidu.recomputed}                           %o = optimization_barrier 0 : i32, at the start of the function

The stage `rematerialize` emits such barriers: nothing reads %0#1, and %ct is what the second run waits for.
IREE ends an execution region at each barrier. All values that a region gives to later ones share one allocation, which
it frees when the last of them is dead, or never, so that the peak of memory rises. No operand of a barrier waits for
another in IREE; but ops run in the given order, as long as nothing merges them. IREE cannot know that `%o` is 0, and
fuses the select with the second run. Each select has a barrier of its own, which IREE does not merge with others.
"""

from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.emitter import Emitter, rewriting, signless, within
from tiduc.backends.iree.fault import slow
from tiduc.backends.iree.missing.dynamic.arrays import has_dynamic_shape
from tiduc.dialect.context import stage
from tiduc.dialect.graph import operations
from tiduc.dialect.verify import RECOMPUTED


@slow("Keeps values in memory that go through a barrier, and those computed along with them.")
@stage
def select_reruns(module: Any) -> int:
    """Replaces the barriers of second runs in place; gives the number of their results."""
    count = 0
    for function in operations(module.operation.regions[0].blocks[0]):
        reruns = [op for op in within(function) if RECOMPUTED in op.attributes and not has_dynamic_shape(op)]
        if not reruns:
            continue
        begin = ir.InsertionPoint.at_block_begin(function.regions[0].blocks[0])
        first = Emitter(begin, function.location)
        zero = first.table(0, signless(32))
        for op in reruns:
            with rewriting(op) as b:
                for x, y in zip(op.operands, op.results, strict=True):
                    if len(list(y.uses)):
                        count += 1
                        opaque = b.broadcast_in_dim(first.barrier(zero)[0], [], x.type.shape)
                        y.replace_all_uses_with(b.select(b.compare(opaque, 0, "EQ"), x, b.zero(x.type)))
            op.erase()
    return count
