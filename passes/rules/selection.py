"""Finds the element that a reduction or sort selects, so that the result gets the tangent of that element.

Elements are numbered from 0 in row-major order, and the op selects numbers together with values. An initial value, or
the padding of a window, has the number that follows the last element's. Numbers have no derivative.
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Never

from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.dialect.emitters.associative import over_windows
from tiduc.dialect.emitters.bodies import RegionBuilder, returned
from tiduc.dialect.emitters.protocol import Fill, V
from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.emitters.stablehlo_ops import StablehloOps
from tiduc.dialect.emitters.windows import reduce_window
from tiduc.dialect.facts.matchers import splat
from tiduc.dialect.facts.windows import Window
from tiduc.dialect.graph.graph import Definition, Value, operations
from tiduc.dialect.ops.attributes import without
from tiduc.dialect.ops.ir_types import IrValue, Typed
from tiduc.dialect.ops.traits import NEUTRAL
from tiduc.dialect.ops.verify import ACTIVE
from tiduc.dialect.shapes.sizes import Size, product
from tiduc.dialect.shapes.types import element, rank, shape, with_element, with_shape
from tiduc.passes.rules.elementwise import widened
from tiduc.passes.rules.gather import type_range

EXTREMA = {"stablehlo.maximum": "GE", "stablehlo.minimum": "LE"}
"""For each extremum, the comparison that holds between its result and each operand."""

LONG = 32
"""Longer windows are combined from shorter ones. The work then grows only with log(size), but with a larger factor."""


def is_identity(init: Value, reducer: str) -> bool:
    """Whether an initial value is a compile-time constant that is the identity of the reducer."""
    return splat(init) == NEUTRAL[reducer]


def numbers(b: StablehloOps[V, Never], x: V) -> V:
    """Returns the row-major number of each element of x, as an array of x's shape."""
    count = product(shape(x))
    integer = ir.IntegerType.get_signless(32 if not isinstance(count, Size) and count < 2**31 - 1 else 64)
    line = with_element(with_shape(x.type, [count]), integer)
    return b.reshape(b.iota(0, line, [count]), shape(x))


def none(b: StablehloOps[V, Never], x: Typed, at: Typed) -> V:
    """Returns a scalar of the type of `at`, the number that stands for no element of x."""
    count = product(shape(x))
    number = type_range(at)[1] if isinstance(count, Size) else count  # a region cannot read a dynamic size
    return b.constant(number, with_shape(at.type, []))


def even_share(b: StablehloBuilder, number: Value, like: Value) -> Value:
    """Returns 1 / number in the element type of `like`, even if `number` itself is too large for this type."""
    number = b.convert(number, widened(element(like)))
    return b.convert(b.divide(b.constant(1, number), number), element(like))


def repeated(b: StablehloOps[V, Never], scalar: V, like: Typed) -> V:
    """A scalar broadcast to the shape of `like`."""
    return b.broadcast_in_dim(scalar, [], shape(like))


def take_elements(b: StablehloBuilder, dx: Value, at: Value, otherwise: Value | None) -> Value:
    """Returns the elements of dx with the numbers `at`, or the scalar `otherwise` for a number of no element.

    `otherwise` is appended after the last element, so that every number is in range. It is None if it is not needed.
    """
    count = product(shape(dx))
    flat = b.reshape(dx, [count])
    if otherwise is not None:
        flat = b.pad(flat, otherwise, [0], [1], [0])
        if isinstance(count, Size):
            at = b.minimum(at, repeated(b, b.convert(b.size(count), element(at)), at))
    numbering = hlo.GatherDimensionNumbers.get([], [0], [], [], [0], rank(at))
    indices = b.reshape(at, [*shape(at), 1])
    return b.gather(flat, indices, numbering, [1], with_element(at.type, element(dx)))


def numbers_along(b: StablehloBuilder, x: Value, indices: Value, d: int) -> Value:
    """Returns the row-major numbers of the elements of x at the given indices along dimension d."""
    number, sizes = numbers(b, x), shape(x)
    others = [n for i, n in enumerate(sizes) if i != d]
    first = b.slice(
        number, [0] * len(sizes), [1 if i == d else n for i, n in enumerate(sizes)], [1] * len(sizes)
    )
    kept = [i for i in range(len(sizes)) if i != d]
    firsts = b.broadcast_in_dim(b.reshape(first, others), kept, shape(indices))
    along = b.convert(indices, element(number))
    return b.add(firsts, b.multiply(along, b.constant(prod(sizes[d + 1 :]), along)))


# ---- windows that select an element by a comparison ---------------------------------------------------------


def selected(
    b: StablehloOps[V, Never],
    x: V,
    init: V,
    window: Window,
    prefers: Callable[[Any, Any, Any], Any],
    in_body: bool = True,
) -> tuple[V, V]:
    """Returns the value and the number that each window over x selects. An empty window selects `init` and its number.

    `prefers(b, u, v)` emits whether u is preferred to v, which comes later in row-major order. The reduce_window's body
    sorts its arguments by number, so that the order in which a compiler combines elements does not matter. If `in_body`
    is false, `prefers` cannot be emitted in a body. Then, and for long windows, it is emitted on whole tensors.
    """
    at = numbers(b, x)
    if not in_body or max(window.sizes, default=0) > LONG:
        return _selected_of_tensors(b, [x, at], [init, none(b, x, at)], window, prefers)

    def fill(region: ir.Region) -> None:
        scalars = [with_shape(x.type, []), with_shape(at.type, [])]
        body = RegionBuilder(region, scalars * 2, b.location)
        x0, n0, x1, n1 = body.arguments
        ordered = body.compare(n0, n1, "LE")
        u, v = body.select(ordered, x0, x1), body.select(ordered, x1, x0)
        m, n = body.minimum(n0, n1), body.maximum(n0, n1)
        kept = body.or_(prefers(body, u, v), body.compare(n, none(body, x, at), "EQ"))
        body.returns(body.select(kept, u, v), body.select(kept, m, n))

    value, number = reduce_window(b, [x, at], [init, none(b, x, at)], window, fill)
    return value, number


def _selected_of_tensors(
    b: StablehloOps[V, Never],
    values: Sequence[V],
    inits: Sequence[V],
    window: Window,
    prefers: Callable[[Any, Any, Any], Any],
) -> tuple[V, V]:
    """Like `selected`, but combines windows of doubling size, by ops on whole tensors."""

    def combine(first: Sequence[V], second: Sequence[V]) -> Sequence[Any]:
        (u, m), (v, n) = first, second
        last = repeated(b, inits[1], m)
        wins = b.and_(prefers(b, u, v), b.compare(m, last, "NE"))
        kept = b.or_(wins, b.compare(n, last, "EQ"))
        return b.select(kept, u, v), b.select(kept, m, n)

    value, at = over_windows(b, combine, values, inits, window, neutral=True)
    return value, at


# ---- reductions whose body selects one of its arguments ----------------------------------------------------


def selects(op: Definition, result: int) -> bool:
    """Whether the body computes `result` only by selecting one of the two arguments of that result."""
    block = op.regions[0].blocks[0]
    definitions = {y: inner for inner in operations(block) for y in inner.results}
    arguments = list(block.arguments)
    leaves = arguments[result], arguments[len(arguments) // 2 + result]
    stack = [returned(op)[result]]
    while stack:
        value = stack.pop()
        inner = definitions.get(value)
        if inner is None:
            if value not in leaves:
                return False
        elif inner.name == "stablehlo.select":
            stack += inner.operands[1], inner.operands[2]
        elif inner.name in EXTREMA:
            stack += inner.operands
        else:
            return False
    return True


def selected_by(b: StablehloBuilder, op: Definition, result: int) -> Value:
    """Returns the number of the element that a reduce or reduce_window selects for `result`, if `selects` is true.

    Emits the op again with the numbers as a further operand. The new body selects numbers as it selects values.
    """
    count = len(op.results)
    x = op.operands[result]
    at = numbers(b, x)
    operands = [*op.operands[:count], at, *op.operands[count:], none(b, x, at)]
    types = [*(y.type for y in op.results), with_shape(at.type, shape(op.results[0]))]
    attributes = without(op.attributes, ACTIVE)
    return b.emit_all(op.name, operands, types, attributes, [numbering(b, op, result, at)])[count]


def numbering(b: StablehloBuilder, op: Definition, result: int, at: Value) -> Fill:
    """Returns a function that fills a region with the body of `op`, extended to select numbers like `result`."""
    block, count = op.regions[0].blocks[0], len(op.results)
    definitions = {y: inner for inner in operations(block) for y in inner.results}

    def fill(region: ir.Region) -> None:
        scalars = [*(x.type for x in list(block.arguments)[:count]), with_shape(at.type, [])]
        body = RegionBuilder(region, scalars * 2, b.location)
        first, second = body.arguments[: count + 1], body.arguments[count + 1 :]
        values = body.copy_of(op, 0, [*first[:count], *second[:count]])

        def number(value: IrValue) -> IrValue:
            inner = definitions.get(value)
            if inner is None:
                return first[count] if values[value] == first[result] else second[count]
            if inner.name == "stablehlo.select":
                condition, x, y = inner.operands
                return body.select(values[condition], number(x), number(y))
            x, y = inner.operands
            kept = body.compare(values[x], values[y], EXTREMA[inner.name])
            return body.select(kept, number(x), number(y))

        body.returns(*(values[y] for y in returned(op)), number(returned(op)[result]))

    return fill
