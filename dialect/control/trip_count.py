"""Derives the trip count of a loop, or an upper bound of the trip count, from the loop's induction variable."""

from collections.abc import Callable
from typing import Protocol

from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.dialect.graph.graph import Graph, Value
from tiduc.dialect.mlir.constants import integer_in

_SWAPPED = {"LT": "GT", "GT": "LT", "LE": "GE", "GE": "LE", "NE": "NE", "EQ": "EQ"}


class CountedLoop(Protocol):
    """The properties of a `Loop` that determine its trip count."""

    @property
    def inits(self) -> tuple[Value, ...]: ...
    @property
    def sequences(self) -> tuple[Value, ...]: ...
    @property
    def invariants(self) -> tuple[Value, ...]: ...
    @property
    def body(self) -> Graph: ...
    @property
    def cond(self) -> Graph | None: ...


def trip_count(loop: CountedLoop) -> int | None:
    """Returns the trip count of a loop, or None if it is not known.

    The trip count is known if the condition compares an induction variable with a limit, if start, step and limit are
    constants, and if the comparison fails before the variable might overflow. The variable may have any integer type,
    and may count up or down. The comparison may have any direction, such as LT.
    """
    if loop.cond is None:
        return None
    (test,) = loop.cond.outputs
    return _iterations(loop, loop.cond, test)


def most_iterations(loop: CountedLoop) -> int | None:
    """Returns an upper bound of the trip count, or None if no bound is known.

    If the condition is a conjunction, the bound is the smallest that one of its terms gives. For example, a loop with
    the condition `i < 200 and error > 1e-6` runs at most 200 times.
    """
    if loop.cond is None:
        return None
    waiting, seen, counts = list(loop.cond.outputs), set[Value](), list[int]()
    while waiting:
        test = waiting.pop()
        if test is None:
            continue
        if test.definition is not None and test.definition.name == "stablehlo.and":
            waiting += (x for x in test.definition.operands if x not in seen)
            seen.update(test.definition.operands)
        elif (count := _iterations(loop, loop.cond, test)) is not None:
            counts.append(count)
    return min(counts, default=None)


def _iterations(loop: CountedLoop, cond: Graph, test: Value | None) -> int | None:
    """Returns the number of iterations before `test` fails for the first time.

    Returns None if the number is unknown, for example because `test` does not compare an induction variable.
    """
    op = None if test is None else test.definition
    if op is None or op.name != "stablehlo.compare":
        return None
    direction = hlo.ComparisonDirectionAttr(op.attributes["comparison_direction"]).value
    for (induction, limit), way in (
        (op.operands, direction),
        (op.operands[::-1], _SWAPPED[direction]),
    ):
        inputs = list(cond.inputs.values())
        if induction in inputs[: len(loop.inits)]:
            i = inputs.index(induction)
            start, step = integer(loop.inits[i]), _step(loop, i)
            stop = integer(_outside(loop, inputs, limit))
            if start is not None and step is not None and stop is not None:
                return _count(start, step, stop, way, induction.type.element_type)
    return None


def integer(x: Value | None) -> int | None:
    """The value of a scalar integer constant, even if `convert` widens the constant; None for any other value."""
    op = x.definition if x is not None else None
    if op is None:
        return None
    if op.name == "stablehlo.convert":
        of, to = (y.type.element_type for y in (op.operands[0], op.result))
        widened = isinstance(of, ir.IntegerType) and isinstance(to, ir.IntegerType) and of.width <= to.width
        return integer(op.operands[0]) if widened else None
    if op.name != "stablehlo.constant":
        return None
    attribute = op.attributes["value"]
    return None if attribute.type.rank else integer_in(attribute)


def _outside(loop: CountedLoop, inputs: list[Value], x: Value) -> Value | None:
    """Maps a value x that the condition reads to its value outside the loop.

    Returns x itself if an op computes x, the loop's operand if x is a loop invariant, and None if x is loop-carried.
    """
    if x.definition is not None:
        return x
    i = inputs.index(x) - len(loop.inits)
    return loop.invariants[i] if i >= 0 else None


def _step(loop: CountedLoop, i: int) -> int | None:
    """The constant that the body adds to loop-carried value number i; None if the body does not add a constant."""
    inputs = list(loop.body.inputs.values())
    return increment(
        inputs[i],
        loop.body.outputs[i],
        lambda y: y if y.definition is not None else _invariant(loop, inputs, y),
    )


def increment(x: Value, after: Value | None, outside: Callable[[Value], Value | None]) -> int | None:
    """Returns the constant integer that an iteration adds to a loop-carried value x, whose next value is `after`.

    Returns None if `after` is not x plus or minus a constant. `outside(y)` is the value outside the loop that equals y
    in each iteration, or None if there is no such value.
    """
    op = None if after is None else after.definition
    if op is None or op.name not in ("stablehlo.add", "stablehlo.subtract"):
        return None
    y, step = op.operands
    if step is x and op.name == "stablehlo.add":
        y, step = step, y
    by = integer(outside(step)) if y is x else None
    return -by if by is not None and op.name == "stablehlo.subtract" else by


def _invariant(loop: CountedLoop, inputs: list[Value], x: Value) -> Value | None:
    i = inputs.index(x) - len(loop.inits) - len(loop.sequences)
    return loop.invariants[i] if i >= 0 else None


def _count(start: int, step: int, stop: int, direction: str, type_: ir.IntegerType) -> int | None:
    """The first k = 0, 1, ... for which `start + k step DIRECTION stop` is false.

    Returns None if there is no such k, or if `start + k step` might overflow the type before it reaches this k.
    """
    if direction == "EQ":
        return 0 if start != stop else (1 if step else None)
    if direction == "NE":
        steps, rest = divmod(stop - start, step) if step else (0, start != stop)
        return steps if not rest and steps >= 0 else None
    if direction in ("GT", "GE"):
        start, step, stop = -start, -step, -stop
    if direction in ("LE", "GE"):
        stop += 1
    if start >= stop:
        return 0
    if step <= 0:
        return None
    count = -((start - stop) // step)
    bits = type_.width
    last = start + count * step
    return count if -(2 ** (bits - 1)) < last < 2 ** (bits - 1) else None
