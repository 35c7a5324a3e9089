"""`Counter`: a loop-carried value to which each iteration adds a constant. `trip_count` derives a loop's trip count."""

from dataclasses import dataclass

from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.backends.iree.emit.known import constant_splat
from tiduc.dialect.graph.graph import operations
from tiduc.dialect.graph.matching import defined_by
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.shapes.types import element

_WIDTH = 32
"""The fewest bits of a counter. With fewer bits, the sum of a counter and a size could overflow."""
_MOST = 2**31 - 1
"""The largest trip count that `trip_count` returns."""


@dataclass(frozen=True)
class Counter:
    """A loop-carried value that equals `start + step * t` in iteration t."""

    start: int
    step: int


def trip_count(loop: IrOp) -> int | None:
    """The trip count of a loop whose condition compares a counter with a constant.

    Returns None for other loops, if the counter does not move toward the constant, if the trip count exceeds `_MOST`,
    and if the counter would overflow.
    """
    block = loop.regions[0].blocks[0]
    op = defined_by(list(operations(block))[-1].operands[0], "stablehlo.compare")
    if op is None:
        return None
    direction = str(hlo.ComparisonDirectionAttr(op.attributes["comparison_direction"]).value)
    x, y = op.operands
    if x.owner != block:
        x, y, direction = y, x, _SWAPPED.get(direction, direction)
    limit = constant_splat(y)
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
    """The number of iterations until the comparison of a counter with `limit` is false for the first time.

    Returns None if the counter does not move toward the limit, and for the directions EQ and NE.
    """
    start, step = counter.start, counter.step
    ways = {"LT": (1, 0), "LE": (1, 1), "GT": (-1, 0), "GE": (-1, 1)}
    sign, beyond = ways.get(direction, (0, 0))
    if sign * step <= 0:
        return None
    return max(0, -((sign * (start - limit) - beyond) // (sign * step)))


def loop_counter(loop: IrOp) -> tuple[int, IrValue] | tuple[None, None]:
    """Returns the index of the carry that counts iterations from zero up to a limit, and the limit.

    Returns (None, None) unless the loop's condition is that such a counter is less than a limit from outside the block.
    """
    block = loop.regions[0].blocks[0]
    op = defined_by(list(operations(block))[-1].operands[0], "stablehlo.compare")
    if op is None or "LT" not in str(op.attributes["comparison_direction"]):
        return None, None
    x, limit = op.operands
    outside = not isinstance(limit.owner, ir.Block) and limit.owner.operation.block != block
    if x.owner != block or not is_count(x) or counter_of(loop, x.arg_number) != Counter(0, 1) or not outside:
        return None, None
    return x.arg_number, limit


def counter_of(loop: IrOp, i: int) -> Counter | None:
    """Returns carry i of a loop as a `Counter`, or None if its start or step is unknown, or if its step is 0."""
    start, step = constant_splat(loop.operands[i]), step_of_carry(loop, i)
    return None if start is None or not step else Counter(int(start.value), step)


def step_of_carry(loop: IrOp, i: int) -> int | None:
    """Returns the constant that each iteration adds to carry i of a loop: 0 if the carry does not change.

    Returns None if the carry's type is not a counter's type (`is_index`), or if an iteration does anything else with
    the carry than to add or subtract a constant.
    """
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
    number = constant_splat(right if left == x else left)
    return None if number is None else int(number.value) * (-1 if is_difference else 1)


def is_index(type_: ir.Type) -> bool:
    """Whether a type is a tensor of one signed integer, with enough bits to add sizes without overflow."""
    if not isinstance(type_, ir.RankedTensorType) or type_.rank:
        return False
    kind = type_.element_type
    return isinstance(kind, ir.IntegerType) and not kind.is_unsigned and kind.width >= _WIDTH


def is_count(x: IrValue) -> bool:
    """Whether a value has the type of the counters that `loops_by_count` creates."""
    return str(x.type) == "tensor<i32>"
