"""Arrays of dynamic shape: their sizes, slices and reshapes, and arrays computed element by element.

    %n = tensor.dim %x, %c0 : tensor<?x4xf32>
    %y = tensor.extract_slice %x[0, 1] [%n, 2] [1, 1] : tensor<?x4xf32> to tensor<?x2xf32>

The ops are from the dialects `tensor` and `linalg`, which IREE accepts among those of StableHLO, but not on
unsigned integers, which are bitcast to signless ones. A size here is an int, or a value of type
`index` where it is known at run time only.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from torch_mlir import ir

from tiduc.backends.iree.emitter import Emitter, is_unsigned, signless
from tiduc.backends.iree.fast.kernels import Kernel
from tiduc.dialect.context import context
from tiduc.dialect.dynamic.origins import DYNAMIC
from tiduc.dialect.types import element, is_open

_FAR = 2**31 - 1


def has_open_sizes(op: Any) -> bool:
    """Whether an operand or result of an op has a dynamic shape."""
    types = [x.type for x in (*op.operands, *op.results)]
    return any(isinstance(type_, ir.RankedTensorType) and is_open(type_) for type_ in types)


def sizes_of(b: Emitter, x: Any) -> list[Any]:
    """The sizes of an array's dimensions."""
    k = _numbers(b)
    if is_open(x.type):
        x = _below_sign(b, x)
    return [
        k.emit("tensor.dim", (x, k.index(d)), ir.IndexType.get()) if n == DYNAMIC else n
        for d, n in enumerate(x.type.shape)
    ]


def known(type_: Any, sizes: Sequence[Any]) -> list[Any]:
    """`sizes`, with the static sizes of a type in place of values."""
    return [m if m != DYNAMIC else n for m, n in zip(type_.shape, sizes, strict=True)]


def type_of(sizes: Sequence[Any], element_type: Any) -> Any:
    """The type of an array of these sizes."""
    return ir.RankedTensorType.get([n if isinstance(n, int) else DYNAMIC for n in sizes], element_type)


def plus(b: Emitter, m: Any, n: Any) -> Any:
    """m + n."""
    return m + n if isinstance(m, int) and isinstance(n, int) else _arith(b, "addi", m, n)


def minus(b: Emitter, m: Any, n: Any) -> Any:
    """m - n."""
    return m - n if isinstance(m, int) and isinstance(n, int) else _arith(b, "subi", m, n)


def times(b: Emitter, m: Any, n: Any) -> Any:
    """m n."""
    return m * n if isinstance(m, int) and isinstance(n, int) else _arith(b, "muli", m, n)


def over(b: Emitter, m: Any, n: Any) -> Any:
    """m / n, rounded down."""
    return m // n if isinstance(m, int) and isinstance(n, int) else _arith(b, "floordivsi", m, n)


def larger(b: Emitter, m: Any, n: Any) -> Any:
    """The larger of m and n."""
    return max(m, n) if isinstance(m, int) and isinstance(n, int) else _arith(b, "maxsi", m, n)


def smaller(b: Emitter, m: Any, n: Any) -> Any:
    """The smaller of m and n."""
    return min(m, n) if isinstance(m, int) and isinstance(n, int) else _arith(b, "minsi", m, n)


def product(b: Emitter, sizes: Sequence[Any]) -> Any:
    """The number of elements of an array of these sizes."""
    return functools.reduce(lambda m, n: times(b, m, n), sizes, 1)


def number(b: Emitter, x: Any, *place: int) -> Any:
    """The integer at a place of a vector, or in a scalar, as a size."""
    value = _constant(x, *place)
    if value is not None:
        return value
    k, x = _numbers(b), wide(b, x)
    return k.cast(k.element(x, *map(k.index, place)), ir.IndexType.get())


def _constant(x: Any, i: int = 0) -> int | None:
    """The integer at place i of a constant vector, perhaps an operand of a concatenation; else None."""
    while isinstance(x, ir.OpResult) and x.owner.name == "stablehlo.concatenate":
        for y in x.owner.operands:
            if i < y.type.shape[0]:
                break
            i -= y.type.shape[0]
        x = y
    if not isinstance(x, ir.OpResult) or x.owner.name != "stablehlo.constant":
        return None
    values = np.array(ir.DenseIntElementsAttr(x.owner.attributes["value"]))
    return int(values.reshape(-1)[i])


def wide(b: Emitter, x: Any) -> Any:
    """Integers as i64, clamped to the range of 32 bits: IREE may read indices as 32-bit integers."""
    if is_unsigned(x) and element(x).width >= 32:
        x = b.minimum(x, b.repeated(_FAR, element(x), x))
    elif element(x).width > 32:
        low, high = (b.repeated(n, element(x), x) for n in (-_FAR, _FAR))
        x = b.minimum(b.maximum(x, low), high)
    return b.convert(x, signless(64))


def of_sizes(b: Emitter, x: Any, sizes: Sequence[Any]) -> Any:
    """x, tied to these sizes for the compiler, which does not see them through a barrier."""
    if not is_open(x.type):
        return x
    context().allow_unregistered_dialects = True  # MLIR here has no definition of the dialect `flow`
    return _signless(b, x, lambda x: b.emit("flow.tensor.tie_shape", (x, *_split(sizes)[1]), x.type))


def scalar_of(b: Emitter, n: Any) -> Any:
    """A size as a scalar i32."""
    i32, k = signless(32), _numbers(b)
    if isinstance(n, int):
        return b.constant(n, ir.RankedTensorType.get([], i32))
    return k.scalar(k.cast(n, i32))


def transposed(b: Emitter, x: Any, order: Sequence[int]) -> Any:
    """x with its dimensions in another order."""
    if list(order) == sorted(order):
        return x
    type_ = ir.RankedTensorType.get([x.type.shape[j] for j in order], element(x))
    return b.emit("stablehlo.transpose", (x,), type_, {"permutation": ir.DenseI64ArrayAttr.get(list(order))})


def part(b: Emitter, x: Any, start: Sequence[Any], sizes: Sequence[Any], strides: Sequence[int]) -> Any:
    """The slice of x of these sizes, with a start and a stride for each dimension."""

    def taken(x: Any) -> Any:
        (starts, open_starts), (counts, open_counts) = _split(start), _split(sizes)
        attributes = {
            "static_offsets": _i64s(starts),
            "static_sizes": _i64s(counts),
            "static_strides": _i64s(strides),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, len(open_starts), len(open_counts), 0]),
        }
        type_ = type_of(sizes, element(x))
        return b.emit("tensor.extract_slice", (x, *open_starts, *open_counts), type_, attributes)

    return _signless(b, x, taken)


def in_shape(b: Emitter, x: Any, sizes: Sequence[Any]) -> Any:
    """x reshaped to these sizes."""
    if not is_open(x.type) and all(isinstance(n, int) for n in sizes):
        return b.reshape(x, sizes)
    return in_shape_of(b, x, _vector(b, sizes), type_of(sizes, element(x)))


def spread(b: Emitter, x: Any, dimensions: Sequence[int], sizes: Sequence[Any]) -> Any:
    """x broadcast to these sizes; its dimensions, which are not repeated, become those named."""
    attributes = {
        "broadcast_dimensions": _i64s(dimensions),
        "known_nonexpanding_dimensions": _i64s(range(len(dimensions))),
    }
    type_ = type_of(sizes, element(x))
    return b.emit("stablehlo.dynamic_broadcast_in_dim", (x, _vector(b, sizes)), type_, attributes)


def _vector(b: Emitter, sizes: Sequence[Any]) -> Any:
    """A vector of sizes."""
    k = _numbers(b)
    i64 = signless(64)  # a dispatch may have no array of type index
    numbers = tuple(k.cast(k.index(n), i64) for n in sizes)
    return b.emit("tensor.from_elements", numbers, ir.RankedTensorType.get([len(numbers)], i64))


def in_shape_of(b: Emitter, x: Any, sizes: Any, type_: Any) -> Any:
    """x reshaped to a type whose sizes a vector holds."""

    def reshaped(x: Any) -> Any:
        of = ir.RankedTensorType.get(type_.shape, element(x))
        return b.emit("tensor.reshape", (x, sizes), of)

    return _signless(b, x, reshaped)


def repeated(b: Emitter, x: Any, sizes: Sequence[Any]) -> Any:
    """An array of these sizes with the scalar x in each place."""
    return computed(b, sizes, element(x), [x], lambda k, places, x: k.element(x))


def computed(
    b: Emitter, sizes: Sequence[Any], element_type: Any, read: Sequence[Any], fill: Callable[..., Any]
) -> Any:
    """An array of these sizes with elements `fill(kernel, places, *read)`; `places` has an index per dimension.

    `fill` may read only the arrays in `read`, which it gets with unsigned integers as signless ones.
    """
    plain = [_below_sign(b, x) for x in read]
    own = _signed(element_type)
    type_, k = type_of(sizes, own), _numbers(b)
    empty = k.empty(type_, sizes)
    rank = len(sizes)
    parallel = ir.Attribute.parse("#linalg.iterator_type<parallel>")
    attributes = {
        "indexing_maps": ir.ArrayAttr.get([ir.AffineMapAttr.get(ir.AffineMap.get_identity(rank))]),
        "iterator_types": ir.ArrayAttr.get([parallel] * rank),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([0, 1]),
    }

    def run(region: Any) -> None:
        block = region.blocks.append(own, arg_locs=[b.location])
        inner = Kernel(ir.InsertionPoint(block), b.location, b.cpu)
        i64 = signless(64)
        places = [
            inner.emit("linalg.index", (), ir.IndexType.get(), {"dim": ir.IntegerAttr.get(i64, d)})
            for d in range(rank)
        ]
        inner.emit_all("linalg.yield", (fill(inner, places, *plain),), ())

    y = b.emit_all("linalg.generic", (empty,), (type_,), attributes, [run])[0]
    return y if own == element_type else b.bitcast(y, element_type)


def inside(k: Kernel, place: Sequence[Any], sizes: Sequence[Any]) -> Any:
    """Whether a place is within an array of these sizes."""
    met = None
    for i, n in zip(place, sizes, strict=True):
        below = k.below(i, k.index(n))
        met = below if met is None else k.arith("andi", met, below)
    return met


def _numbers(b: Emitter) -> Kernel:
    return Kernel(b.place, b.location)


def _arith(b: Emitter, name: str, *sizes: Any) -> Any:
    k = _numbers(b)
    return k.arith(name, *map(k.index, sizes))


def _split(sizes: Sequence[Any]) -> tuple[list[int], list[Any]]:
    """The sizes with a marker for each dynamic one, as attributes have them; and the dynamic sizes."""
    return [n if isinstance(n, int) else DYNAMIC for n in sizes], [n for n in sizes if not isinstance(n, int)]


def _signed(type_: Any) -> Any:
    """The element type, with signless integers for unsigned ones."""
    return signless(type_.width) if isinstance(type_, ir.IntegerType) and type_.is_unsigned else type_


def _below_sign(b: Emitter, x: Any) -> Any:
    """x with unsigned integers bitcast to signless ones."""
    return b.bitcast(x, signless(element(x).width)) if is_unsigned(x) else x


def _signless(b: Emitter, x: Any, made: Callable[[Any], Any]) -> Any:
    """`made(x)`, on signless integers for unsigned ones; `made` only moves elements."""
    y = made(_below_sign(b, x))
    return b.bitcast(y, element(x)) if is_unsigned(x) else y


def _i64s(values: Sequence[int]) -> Any:
    return ir.DenseI64ArrayAttr.get(list(values))
