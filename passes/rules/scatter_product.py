"""Multiplies, for each position, all updates of a scatter at this position, by ops with derivatives of every order.

Updates are sorted by position, and prefix products multiply the updates of each position. The derivative in an update
is then the product of the other updates. No division is needed, so it is exact even where factors are zero.
"""

import math
from collections.abc import Sequence

from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.dialect.emitters.associative import prefixes
from tiduc.dialect.emitters.bodies import RegionBuilder
from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.shapes.types import element, i64, shape, with_element, with_shape
from tiduc.passes.rules.landing import count_from_one, landed
from tiduc.passes.rules.selection import take_elements


def by_place(b: StablehloBuilder, op: Definition, updates: Value) -> Value:
    """Returns for each element of the operand the product of the updates at its position, or 1 if there is none."""
    x = op.operands[0]
    size, count = math.prod(shape(x)), math.prod(shape(updates))
    places = b.reshape(landed(b, op, count_from_one(b, x)), [count])
    places, order = _sorted(b, places)
    dropped = b.compare(places, b.zeros_like(places), "EQ")
    values = take_elements(b, updates, order, None)
    values = b.select(dropped, b.constant(1, values), values)
    _, products = prefixes(b, lambda u, v: _multiply(b, u, v), [_differs(b, places, 1), values], 0)
    beyond = b.constant(size, places)
    is_inner = b.or_(dropped, b.not_(_differs(b, places, -1)))
    at = b.select(is_inner, beyond, b.subtract(places, b.constant(1, places)))
    numbers = hlo.ScatterDimensionNumbers.get([], [0], [], [], [0], 1)
    ones = b.constant(1, with_shape(x.type, [size]))
    factors = b.scatter(ones, b.reshape(at, [count, 1]), products, numbers, None, unique=True)
    return b.reshape(factors, shape(x))


def _multiply(b: StablehloBuilder, u: Sequence[Value], v: Sequence[Value]) -> Sequence[Value]:
    """Combines two adjacent segments of updates. A run is a sequence of updates with one position.

    A segment is a pair: whether a run begins in it, and the product of the updates of its last run. A factor of another
    run is replaced by 1 before the product, so that its infinities and NaNs do not propagate.
    """
    one = b.constant(1, u[1].type)
    return b.or_(u[0], v[0]), b.multiply(b.select(v[0], one, u[1]), v[1])


def _sorted(b: StablehloBuilder, keys: Value) -> tuple[Value, Value]:
    """Returns the integers `keys` in ascending order, and the original index of each."""
    where = b.iota(0, keys.type)

    def fill(region: ir.Region) -> None:
        body = RegionBuilder(region, [with_shape(keys.type, [])] * 4, b.location)
        x, y, *_ = body.arguments
        body.returns(body.compare(x, y, "LT"))

    attributes = {"dimension": i64(0), "is_stable": ir.BoolAttr.get(True)}
    places, order = b.emit_all("stablehlo.sort", (keys, where), (keys.type, keys.type), attributes, [fill])
    return places, order


def _differs(b: StablehloBuilder, v: Value, step: int) -> Value:
    """Whether each element differs from the previous (step 1) or next one (step -1). True if there is no such one."""
    count = shape(v)[0]
    low, high = max(step, 0), max(-step, 0)
    inner = b.slice(v, [high], [count - low], [1])
    outer = b.slice(v, [low], [count - high], [1])
    differs = b.compare(inner, outer, "NE")
    true = b.constant(True, with_element(with_shape(v.type, []), element(differs)))
    return b.pad(differs, true, [low], [high], [0])
