"""loops_by_count: loops of known trip count count their iterations from zero.

    while(%i = 9, %k = 0, %x) cond { %i >= 0 } do { return %i - 1, %k + 2, f(%x, %i, %k) }
    ->  while(%t = 0, %x) cond { %t < 10 } do { return %t + 1, f(%x, 9 - %t, 2 * %t) }

IREE turns loops of this form into host loops whose counter is a number on the host. In other loops the counters are
arrays on the device: each iteration has a dispatch for each counter, copies the condition's result, and waits for it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.backends.iree.emit.emitter import Emitter, signless, within
from tiduc.backends.iree.emit.known import splat
from tiduc.backends.iree.fault import slow
from tiduc.dialect.graph.dependences import defined_by
from tiduc.dialect.graph.functions import replace
from tiduc.dialect.graph.graph import operations
from tiduc.dialect.mlir.context import stage
from tiduc.dialect.shapes.types import element

_WIDTH = 32  # bits of a counter, at least, so that no sum of a counter and a size overflows
_MOST = 2**31 - 1  # iterations of a rewritten loop


@dataclass(frozen=True)
class Counter:
    """A carry (loop-carried value) that is `start + step * t` in iteration t."""

    start: int
    step: int


@slow(
    "Keeps counters on the device, but for those that rise to a limit; loops count their iterations instead."
)
@stage
def loops_by_count(module: Any) -> int:
    """Rewrites the loops of a module whose trip counts are known, in place; gives the number of loops rewritten."""
    loops = within(module.operation, ("stablehlo.while",))
    return sum(map(_rewritten, loops[::-1]))  # inner loops first


def trip_count(loop: Any) -> int | None:
    """The trip count of a loop whose condition compares a counter with a constant; None for others."""
    block = loop.regions[0].blocks[0]
    op = defined_by(list(operations(block))[-1].operands[0], "stablehlo.compare")
    if op is None:
        return None
    direction = str(hlo.ComparisonDirectionAttr(op.attributes["comparison_direction"]).value)
    x, y = op.operands
    if x.owner != block:
        x, y, direction = y, x, _SWAPPED.get(direction, direction)
    limit = splat(y)
    if x.owner != block or limit is None:
        return None
    counter = counter_of(loop, x.arg_number)
    if counter is None:
        return None
    count = _count(counter, direction, int(limit.value))
    least, most = -(2 ** (element(x).width - 1)), 2 ** (element(x).width - 1) - 1
    if count is None or count > _MOST or not least <= counter.start + count * counter.step <= most:
        return None
    return count


_SWAPPED = {"LT": "GT", "LE": "GE", "GT": "LT", "GE": "LE"}


def _count(counter: Counter, direction: str, limit: int) -> int | None:
    """The number of iterations until a counter reaches a limit; None if the counter moves away from it."""
    start, step = counter.start, counter.step
    ways = {"LT": (1, 0), "LE": (1, 1), "GT": (-1, 0), "GE": (-1, 1)}
    sign, beyond = ways.get(direction, (0, 0))
    if sign * step <= 0:
        return None
    return max(0, -((sign * (start - limit) - beyond) // (sign * step)))


def loop_counter(loop: Any) -> tuple[int | None, Any]:
    """The index of the carry that counts a loop's iterations from zero to a limit, and the limit; or None, None."""
    block = loop.regions[0].blocks[0]
    op = defined_by(list(operations(block))[-1].operands[0], "stablehlo.compare")
    if op is None or "LT" not in str(op.attributes["comparison_direction"]):
        return None, None
    x, limit = op.operands
    outside = not isinstance(limit.owner, ir.Block) and limit.owner.operation.block != block
    if x.owner != block or not is_count(x) or counter_of(loop, x.arg_number) != Counter(0, 1) or not outside:
        return None, None
    return x.arg_number, limit


def counter_of(loop: Any, i: int) -> Counter | None:
    """Carry i of a loop as a counter; None if its start or step is unknown."""
    start, step = splat(loop.operands[i]), step_of_carry(loop, i)
    return None if start is None or not step else Counter(int(start.value), step)


def step_of_carry(loop: Any, i: int) -> int | None:
    """The constant that each iteration adds to carry i, 0 if it does not change; None if it changes in another way."""
    body = loop.regions[1].blocks[0]
    x, new = body.arguments[i], list(operations(body))[-1].operands[i]
    if not is_index(x.type):
        return None
    if new == x:
        return 0
    op = defined_by(new, "stablehlo.add", "stablehlo.subtract")
    if op is None or x not in op.operands or op.operation.block != body:
        return None
    left, right = op.operands
    is_difference = op.name == "stablehlo.subtract"
    if is_difference and left != x:
        return None
    number = splat(right if left == x else left)
    return None if number is None else int(number.value) * (-1 if is_difference else 1)


def is_index(type_: Any) -> bool:
    """Whether a type is a scalar signed integer, wide enough that sums with sizes do not overflow."""
    if not isinstance(type_, ir.RankedTensorType) or type_.rank:
        return False
    kind = type_.element_type
    return isinstance(kind, ir.IntegerType) and not kind.is_unsigned and kind.width >= _WIDTH


def _rewritten(loop: Any) -> bool:
    """Replaces a loop by a loop that counts from zero, if its trip count is known and greater than one."""
    count = trip_count(loop)
    if count is None or count < 2:
        return False
    every = {i: counter_of(loop, i) for i in range(len(loop.operands))}
    counters = {i: counter for i, counter in every.items() if counter is not None}
    if len(counters) == 1 and loop_counter(loop)[0] is not None:
        return False
    others = [i for i in every if i not in counters]
    b = Emitter(ir.InsertionPoint(loop), loop.location)
    kind = ir.RankedTensorType.get([], signless(32))
    limit = b.constant(count, kind)

    def condition(b: Emitter, t: Any, *xs: Any) -> Any:
        return b.compare(t, limit, "LT")

    def body(b: Emitter, t: Any, *xs: Any) -> Sequence[Any]:
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


def is_count(x: Any) -> bool:
    """Whether a value has the type of the counters that `loops_by_count` makes."""
    return str(x.type) == "tensor<i32>"


def values_of(b: Emitter, loop: Any, counters: Mapping[int, Counter], t: Any) -> dict[int, Any]:
    """The values of the counters of a loop in iteration t, by the index of the carry."""
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
