"""Broadcasts of reductions on SPIR-V, whose threads read values that other threads have not written yet.

    %s = reduce(%x);  %m = divide %s, %n                  %s = reduce(%x);  %m = divide %s, %n
    %r = broadcast_in_dim %m;  subtract %x, %r     ->     %made = optimization_barrier %m
                                                          %r = broadcast_in_dim %made;  subtract %x, %r

IREE's compiler fuses all of this into one dispatch. Each thread reduces for itself, and the threads do not
wait for one another. A softmax over the columns of 7 rows of 9 was wrong in one of two calls.
"""

from collections.abc import Sequence
from typing import Any

from tiduc.backends.iree.dependences import computed_from
from tiduc.backends.iree.emitter import ON_SPIRV, Emitter, legalize
from tiduc.backends.iree.fault import wrong
from tiduc.backends.iree.missing.dynamic.arrays import of_sizes, sizes_of
from tiduc.dialect.traits import PRODUCTS

_SUMS = PRODUCTS | {"stablehlo.reduce", "stablehlo.reduce_window"}


@legalize("stablehlo.broadcast_in_dim", "stablehlo.dynamic_broadcast_in_dim", where=ON_SPIRV)
@wrong(
    "Fused with a reduction, reads its result before all threads wrote it; puts a barrier between.",
    "vulkan/softmax",
)
def repeated(b: Emitter, op: Any) -> Sequence[Any] | None:
    """The broadcast, of a value behind a barrier."""
    x = op.operands[0]
    if _follows_from_sum(x):
        (made,) = b.barrier(x)
        op.operands[0] = of_sizes(b, made, sizes_of(b, x))
    return None


def _follows_from_sum(x: Any) -> bool:
    """Whether a value depends on a reduction with no barrier between."""
    barrier = "stablehlo.optimization_barrier"
    return computed_from(x, lambda op: op.name in _SUMS, lambda op: op.name != barrier)
