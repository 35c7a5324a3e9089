"""loops_by_count: rewrites each loop of known trip count so that its only counter counts iterations from zero.

    while(%i = 9, %k = 0, %x) cond { %i >= 0 } do { return %i - 1, %k + 2, f(%x, %i, %k) }
    ->  while(%t = 0, %x) cond { %t < 10 } do { return %t + 1, f(%x, 9 - %t, 2 * %t) }

If a loop counts from zero up to a limit, IREE keeps the counter on the host. In other loops, counters are arrays on the
device: each iteration runs a dispatch for each counter, copies the condition's result to the host, and waits for the
copy.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from torch_mlir import ir

from tiduc.backends.iree.emit.emitter import Emitter, signless
from tiduc.backends.iree.fast.loops.counters import Counter, counter_of, trip_count
from tiduc.backends.iree.fast.loops.loop_forms import COUNTED
from tiduc.backends.iree.fault import slow
from tiduc.dialect.graph.functions import outer_first, replace
from tiduc.dialect.mlir.context import stage
from tiduc.dialect.ops.ir_types import IrOp, IrValue


@slow(
    "IREE keeps counters on the device unless they rise to a limit; tiduc makes loops count their iterations.",
    "flags.py: countdown",
)
@stage
def loops_by_count(module: ir.Module) -> int:
    """Rewrites, in place, the loops of a module whose trip counts are known. Returns the number of rewritten loops."""
    loops = outer_first(module.operation, ("stablehlo.while",))
    return sum(map(_rewritten, loops[::-1]))  # rewrites inner loops first


def _rewritten(loop: ir.Operation) -> bool:
    """Replaces a loop by a loop that counts from zero. Returns whether the loop was replaced.

    It is not replaced if its trip count is unknown, or if `COUNTED.against` gives another reason.
    """
    count = trip_count(loop)
    if count is None or COUNTED.against(loop):
        return False
    every = {i: counter_of(loop, i) for i in range(len(loop.operands))}
    counters = {i: counter for i, counter in every.items() if counter is not None}
    others = [i for i in every if i not in counters]
    b = Emitter(ir.InsertionPoint(loop), loop.location)
    kind = ir.RankedTensorType.get([], signless(32))
    limit = b.constant(count, kind)

    def condition(b: Emitter, t: IrValue, *xs: IrValue) -> IrValue:
        return b.compare(t, limit, "LT")

    def body(b: Emitter, t: IrValue, *xs: IrValue) -> Sequence[IrValue]:
        carries = dict(zip(others, xs, strict=True))
        carries |= values_of(b, loop, counters, t)
        results = b.inlined(loop.regions[1], [carries[i] for i in every])
        return [b.add(t, b.constant(1, kind)), *(results[i] for i in others)]

    initial = [b.constant(0, kind), *(loop.operands[i] for i in others)]
    results = dict(zip(others, b.while_(initial, condition, body)[1:], strict=True))
    for i, counter in counters.items():
        results[i] = b.constant(counter.start + count * counter.step, loop.operands[i].type)
    replace(loop, [results[i] for i in every])
    return True


def values_of(b: Emitter, loop: IrOp, counters: Mapping[int, Counter], t: IrValue) -> dict[int, IrValue]:
    """Emits the value `start + step * t` of each counter of a loop in iteration t. Returns them by carry index."""
    values = {}
    for i, counter in counters.items():
        type_ = loop.operands[i].type
        x = t if type_ == t.type else b.emit("stablehlo.convert", (t,), type_)
        if abs(counter.step) != 1:
            x = b.multiply(x, b.constant(np.int64(counter.step), type_))
        start = b.constant(np.int64(counter.start), type_)
        if counter.step == -1:
            x = b.subtract(start, x)
        elif counter.start:
            x = b.add(start, x)
        values[i] = x
    return values
