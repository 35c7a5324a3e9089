"""Emits code for arrays of dynamic shape: their sizes, slices, reshapes and elementwise computations.

    %n = tensor.dim %x, %c0 : tensor<?x4xf32>
    %y = tensor.extract_slice %x[0, 1] [%n, 2] [1, 1] : tensor<?x4xf32> to tensor<?x2xf32>

IREE accepts ops of the dialects `tensor` and `linalg` in a StableHLO program, but not on unsigned integers. Unsigned
integers are therefore bitcast to signless integers. The sizes are integers, or `RunTimeSize`s (`sizes.py`).
"""

import functools
import math
import operator
from collections.abc import Callable, Sequence

import numpy as np
from torch_mlir import ir

from tiduc.backends.iree.emit.emitter import Emitter, is_boolean, is_unsigned, signless
from tiduc.backends.iree.emit.kernels import Kernel
from tiduc.backends.iree.emit.sizes import SizeLike, are_known, broadcast, read
from tiduc.dialect.graph.graph import terminator
from tiduc.dialect.graph.matching import defined_by, definition
from tiduc.dialect.mlir.context import context
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.shapes.origins import DYNAMIC
from tiduc.dialect.shapes.types import dims, element, i64, is_dynamic, with_element

_LARGEST = 2**31 - 1


def has_dynamic_shape(op: IrOp) -> bool:
    """Whether an operand or result of an op has a dynamic shape."""
    types = [x.type for x in (*op.operands, *op.results)]
    return any(isinstance(type_, ir.RankedTensorType) and is_dynamic(type_) for type_ in types)


def sizes_of(b: Emitter, x: IrValue) -> list[SizeLike]:
    """The sizes of an array's dimensions."""
    k = _numbers(b)
    if is_dynamic(x.type):
        x = as_signless(b, x)
    return [
        read(k.emit("tensor.dim", (x, k.index(d)), ir.IndexType.get())) if n == DYNAMIC else n
        for d, n in enumerate(x.type.shape)
    ]


def type_of(sizes: Sequence[SizeLike], element_type: ir.Type) -> ir.RankedTensorType:
    """The type of an array with these sizes. A size that is known only at run time is dynamic in the type."""
    return ir.RankedTensorType.get(_static(sizes), element_type)


def number(b: Emitter, x: IrValue, *place: int) -> SizeLike:
    """Returns a scalar, or the entry of a vector at index `place`, as a size.

    Constants, sizes of arrays, and sums, differences and products of them are recognized. Any other integer is read
    through a barrier, so that IREE reads it once, outside of dispatches. Without the barrier, IREE reads it inside
    dispatches, some of which then fail to compile.
    """
    size = _known(b, x, *place)
    if size is not None:
        return size
    k, x, index = _numbers(b), wide(b, x), ir.IndexType.get()
    context().allow_unregistered_dialects = True  # the MLIR bindings do not define the dialect `util`
    return read(k.emit("util.optimization_barrier", (k.cast(k.element(x, *place), index),), index))


def _known(b: Emitter, x: IrValue, i: int = 0, steps: int = 4) -> SizeLike | None:
    """Returns entry i of a vector as a size if constants and sizes of arrays determine it, else None.

    Follows at most `steps` sums, differences and products. Only those of 64-bit integers count, because those of narrow
    integers may overflow.
    """
    value = _constant(x, i)
    size = _shape(b, x, i) if value is None else value
    if size is not None:
        return size
    x, i = _source(x, i)
    op = definition(x)
    if op is None or op.name not in _ARITHMETIC or element(x) != signless(64) or not steps:
        return None
    m, n = (_known(b, y, i, steps - 1) for y in op.operands)
    return None if m is None or n is None else _ARITHMETIC[op.name](m, n)


_ARITHMETIC: dict[str, Callable[[SizeLike, SizeLike], SizeLike]] = {
    "stablehlo.add": operator.add,
    "stablehlo.multiply": operator.mul,
    "stablehlo.subtract": operator.sub,
}


def _shape(b: Emitter, x: IrValue, i: int = 0) -> SizeLike | None:
    """Returns entry i of a vector as a size if the entry is computed from sizes of arrays only, else None.

    Recognizes ops of the dialect `shape`, to which CHLO's ops on dynamic shapes expand, and the concatenations of sizes
    that JAX emits.
    """
    if of := defined_by(x, "shape.shape_of"):
        return sizes_of(b, of.operands[0])[i]
    if of := defined_by(x, "shape.broadcast"):
        rank = x.type.shape[0]
        places = [(shape, i - rank + shape.type.shape[0]) for shape in of.operands]
        return functools.reduce(broadcast, (number(b, shape, at) for shape, at in places if at >= 0))
    x, _ = _source(x, i)
    if of := defined_by(x, "stablehlo.get_dimension_size"):
        return sizes_of(b, of.operands[0])[ir.IntegerAttr(of.attributes["dimension"]).value]
    return None


def _source(x: IrValue, i: int) -> tuple[IrValue, int]:
    """Traces entry i of x back through ops that do not change entries.

    Returns the vector from which the entry comes, and the index of the entry in this vector.
    """
    while (op := definition(x)) is not None and (op.name in _JOINS or _keeps_size(op)):
        x = op.operands[ir.OpResult(x).result_number if op.name == "stablehlo.optimization_barrier" else 0]
        if op.name == "stablehlo.concatenate":
            for x in op.operands:
                if i < x.type.shape[0]:
                    break
                i -= x.type.shape[0]
    return x, i


_JOINS = "stablehlo.concatenate", "stablehlo.optimization_barrier"


def _keeps_size(op: IrOp) -> bool:
    """Whether an op does not change the size that it reads: it reshapes one element, or converts an integer.

    Sizes have at most 31 bits, so conversions between signless integers of at least 32 bits do not change them.
    """
    if op.name == "stablehlo.convert":
        kinds = element(op.operands[0]), element(op.results[0])
        return all(
            isinstance(kind, ir.IntegerType) and kind.is_signless and kind.width >= 32 for kind in kinds
        )
    return op.name == "stablehlo.reshape" and math.prod(op.operands[0].type.shape) == 1


def known_sizes(b: Emitter, x: IrValue) -> list[SizeLike] | None:
    """Returns the entries of a vector as sizes.

    Returns None unless each entry is a constant, or is computed from sizes of arrays only.
    """
    found: list[SizeLike] = []
    for i in range(x.type.shape[0]):
        value = _constant(x, i)
        size = _shape(b, x, i) if value is None else value
        if size is None:
            return None
        found.append(size)
    return found


def with_known_sizes(b: Emitter, x: IrValue) -> IrValue:
    """Returns a vector equal to x, built from constants and array sizes.

    IREE would read x itself inside dispatches, some of which then fail to compile. Returns x if `known_sizes` does not
    know all its entries, or if all are constants.
    """
    sizes = None if is_dynamic(x.type) else known_sizes(b, x)
    return x if sizes is None or are_known(sizes) else _vector(b, sizes)


def _constant(x: IrValue, i: int = 0) -> int | None:
    """Returns entry i of a vector if that entry is constant, else None. The other entries need not be constant."""
    x, i = _source(x, i)
    constant = defined_by(x, "stablehlo.constant")
    if constant is None:
        return None
    return int(np.array(ir.DenseIntElementsAttr(constant.attributes["value"])).reshape(-1)[i])


def wide(b: Emitter, x: IrValue, largest: int = _LARGEST) -> IrValue:
    """Converts integers to i64. Integers that may not fit in i32 are first clamped to [-largest, largest].

    They are clamped because IREE may read indices as 32-bit integers.
    """
    if is_unsigned(x) and element(x).width >= 32:
        x = b.minimum(x, b.repeated(min(largest, 2 ** element(x).width - 1), element(x), x))
    elif element(x).width > 32:
        low, high = (b.repeated(n, element(x), x) for n in (-largest, largest))
        x = b.minimum(b.maximum(x, low), high)
    return b.convert(x, signless(64))


def tied_to_sizes(b: Emitter, x: IrValue, sizes: Sequence[SizeLike]) -> IrValue:
    """Emits an op that tells the compiler the dynamic sizes of x, which it cannot infer through a barrier.

    Returns the result of the op, which is to be used instead of x. Returns x itself if its shape is static.
    """
    if not is_dynamic(x.type):
        return x
    context().allow_unregistered_dialects = True  # the MLIR bindings do not define the dialect `flow`
    operands = _numbers(b).dynamic(sizes)
    return _signless(b, x, lambda x: b.emit("flow.tensor.tie_shape", (x, *operands), x.type))


def behind_barrier(b: Emitter, *xs: IrValue) -> list[IrValue]:
    """Passes values through one optimization barrier. The compiler is told the sizes of the results."""
    sizes = [sizes_of(b, x) for x in xs]
    return [tied_to_sizes(b, x, n) for x, n in zip(b.barrier(*xs), sizes, strict=True)]


def not_fused(b: Emitter, x: IrValue) -> IrValue:
    """Passes x through a barrier that only prevents fusion. The compiler is told the sizes of the result."""
    return tied_to_sizes(b, b.stored(x), sizes_of(b, x))


def scalar_of(b: Emitter, n: SizeLike) -> IrValue:
    """Converts a size to a value of type tensor<i32>."""
    i32, k = signless(32), _numbers(b)
    return b.constant(n, ir.RankedTensorType.get([], i32)) if isinstance(n, int) else k.scalar(k.cast(n, i32))


def part(
    b: Emitter, x: IrValue, start: Sequence[SizeLike], sizes: Sequence[SizeLike], strides: Sequence[int]
) -> IrValue:
    """Slices x: takes `sizes[d]` elements along each dimension d, from `start[d]` on, with the stride `strides[d]`."""
    if not is_dynamic(x.type) and are_known(start) and are_known(sizes):
        ends = [first + (n - 1) * step + 1 for first, n, step in zip(start, sizes, strides, strict=True)]
        return b.slice(x, start, ends, strides)
    k = _numbers(b)

    def taken(x: IrValue) -> IrValue:
        starts, counts = k.dynamic(start), k.dynamic(sizes)
        attributes = {
            "static_offsets": dims(_static(start)),
            "static_sizes": dims(_static(sizes)),
            "static_strides": dims(strides),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, len(starts), len(counts), 0]),
        }
        return b.emit("tensor.extract_slice", (x, *starts, *counts), type_of(sizes, element(x)), attributes)

    return _signless(b, x, taken)


def in_shape(b: Emitter, x: IrValue, sizes: Sequence[SizeLike]) -> IrValue:
    """Reshapes x to these sizes."""
    if not is_dynamic(x.type) and are_known(sizes):
        return b.reshape(x, sizes)
    return in_shape_of(b, x, _vector(b, sizes), type_of(sizes, element(x)))


def spread(b: Emitter, x: IrValue, dimensions: Sequence[int], sizes: Sequence[SizeLike]) -> IrValue:
    """Broadcasts x to these sizes. Dimension i of x becomes dimension `dimensions[i]` of the result."""
    attributes = {
        "broadcast_dimensions": dims(dimensions),
        "known_nonexpanding_dimensions": dims(range(len(dimensions))),
    }
    type_ = type_of(sizes, element(x))
    return b.emit("stablehlo.dynamic_broadcast_in_dim", (x, _vector(b, sizes)), type_, attributes)


def read_by_host(b: Emitter, x: IrValue) -> IrValue:
    """Returns a vector equal to the sizes x of an array. The host reads each entry of x once, outside of dispatches.

    Returns x if it is empty or has entries of type index, which IREE computes on the host.
    """
    count = x.type.shape[0]
    if not count or isinstance(element(x), ir.IndexType):
        return with_known_sizes(b, x) if count else x
    return _vector(b, [number(b, x, i) for i in range(count)])


def _vector(b: Emitter, sizes: Sequence[SizeLike]) -> IrValue:
    """Emits a vector of i64 with these sizes as its entries."""
    k = _numbers(b)
    i64 = signless(64)  # because a dispatch may not read an array of type index
    numbers = tuple(k.cast(n, i64) for n in sizes)
    return b.emit("tensor.from_elements", numbers, ir.RankedTensorType.get([len(numbers)], i64))


def in_shape_of(b: Emitter, x: IrValue, sizes: IrValue, type_: ir.RankedTensorType) -> IrValue:
    """Reshapes x to `type_`. The vector `sizes` holds the sizes of the result at run time."""

    def reshaped(x: IrValue) -> IrValue:
        of = ir.RankedTensorType.get(type_.shape, element(x))
        return b.emit("tensor.reshape", (x, sizes), of)

    return _signless(b, x, reshaped)


def repeated(b: Emitter, x: IrValue, sizes: Sequence[SizeLike]) -> IrValue:
    """Emits an array of these sizes, filled with the scalar x."""
    if are_known(sizes):
        return b.broadcast_in_dim(x, [], list(sizes))
    return computed(b, sizes, element(x), [x], lambda k, places, x: k.element(x))


def computed(
    b: Emitter,
    sizes: Sequence[SizeLike],
    element_type: ir.Type,
    arrays: Sequence[IrValue],
    fill: Callable[..., IrValue],
) -> IrValue:
    """Computes an array of these sizes, element by element, with `fill(kernel, places, *arrays)`.

    `fill` returns the element at the indices `places`, one for each dimension. It may read no arrays but `arrays`,
    whose unsigned integers it receives as signless integers.
    """
    plain = [as_signless(b, x) for x in arrays]
    k = Kernel(b.place, b.location, b.settings)

    def at_place(k: Kernel, _: IrValue) -> IrValue:
        numbers = [{"dim": i64(d)} for d in range(len(sizes))]
        return fill(k, [read(k.emit("linalg.index", (), ir.IndexType.get(), n)) for n in numbers], *plain)

    y = k.generic([], k.empty(type_of(sizes, _signed(element_type)), sizes), at_place)
    return restored(b, y, element_type)


def mapped(b: Emitter, region: ir.Region, xs: Sequence[IrValue], i: int = 0) -> IrValue:
    """Applies a region on scalars to the elements of arrays of equal shape.

    Returns the array of the region's result i.
    """
    body = b.region(
        [ir.RankedTensorType.get([], element(x)) for x in xs], lambda b, *vs: [b.inlined(region, vs)[i]]
    )
    type_ = with_element(xs[0].type, element(terminator(region.blocks[0]).operands[i]))
    dimensions = {"dimensions": dims(range(len(type_.shape)))}
    return b.emit_all("stablehlo.map", xs, (type_,), dimensions, [body])[0]


def is_inside(k: Kernel, place: Sequence[SizeLike], sizes: Sequence[SizeLike]) -> IrValue:
    """Emits the condition that the indices `place` are in range for an array of these sizes."""
    return k.all(k.below(i, n) for i, n in zip(place, sizes, strict=True))


def _numbers(b: Emitter) -> Kernel:
    return Kernel(b.place, b.location)


def _static(sizes: Sequence[SizeLike]) -> list[int]:
    """Returns the sizes as integers for an attribute, with `DYNAMIC` for each size that is known only at run time."""
    return [n if isinstance(n, int) else DYNAMIC for n in sizes]


def _signed(type_: ir.Type) -> ir.Type:
    """Returns the element type, or the signless integer type of equal width if it is unsigned."""
    return signless(type_.width) if isinstance(type_, ir.IntegerType) and type_.is_unsigned else type_


def as_signless(b: Emitter, x: IrValue) -> IrValue:
    """Bitcasts x to signless integers if its elements are unsigned integers; otherwise returns x."""
    return b.bitcast(x, signless(element(x).width)) if is_unsigned(x) else x


def stored(b: Emitter, x: IrValue) -> IrValue:
    """Converts an array to an element type that dispatches accept: unsigned integers become signless, i1 becomes i8."""
    return b.convert(x, signless(8)) if is_boolean(x) else as_signless(b, x)


def restored(b: Emitter, v: IrValue, kind: ir.Type) -> IrValue:
    """The inverse of `stored`: converts the array back to the element type `kind`."""
    if element(v) == kind:
        return v
    return b.compare(v, b.constant(0, v), "NE") if kind == signless(1) else b.bitcast(v, kind)


def _signless(b: Emitter, x: IrValue, moved: Callable[[IrValue], IrValue]) -> IrValue:
    """Returns `moved(x)`, where `moved` must only move elements.

    Unsigned integers are bitcast to signless integers before `moved` is called, and back afterwards.
    """
    return restored(b, moved(as_signless(b, x)), element(x))
