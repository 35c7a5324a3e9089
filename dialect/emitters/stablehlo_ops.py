"""`StablehloOps`: one short method for each op that rules emit. Methods of elementwise ops are in `elementwise.py`.

The Python bindings have attribute builders for StableHLO, but no op classes, so emitters create ops by name.
"""

import functools
from collections.abc import Sequence
from typing import Any, Never

from numpy.typing import ArrayLike
from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.dialect.emitters.dynamic_shapes import Sizes, unknown_sizes
from tiduc.dialect.emitters.elementwise import Elementwise
from tiduc.dialect.emitters.protocol import Dims, Fill, N, V
from tiduc.dialect.errors import Unsupported
from tiduc.dialect.graph.graph import Value
from tiduc.dialect.mlir.constants import dense, integer_splat
from tiduc.dialect.ops.contractions import NUMBERS, Contraction
from tiduc.dialect.ops.ir_types import Attributes
from tiduc.dialect.shapes.origins import DYNAMIC, sizes_in
from tiduc.dialect.shapes.sizes import Extent, any_dynamic, known_equal
from tiduc.dialect.shapes.types import (
    along,
    dims,
    element,
    i64,
    is_complex,
    is_dynamic,
    is_float,
    permuted,
    reduced,
    shape,
    with_element,
    with_shape,
)


@functools.cache
def _contraction(
    x_type: ir.RankedTensorType,
    y_type: ir.RankedTensorType,
    batching: tuple[tuple[int, ...], ...],
    contracting: tuple[tuple[int, ...], ...],
    given: tuple[tuple[str, ir.Attribute], ...],
) -> tuple[ir.Type, dict[str, ir.Attribute]]:
    """The result type of a `dot_general`, and the attributes of the op: `given` and the dimension numbers."""
    of_x, of_y = zip(batching, contracting, strict=True)
    sizes = [sizes_in(x_type)[i] for i in of_x[0]]
    for type_, taken in ((x_type, of_x), (y_type, of_y)):
        sizes += [n for i, n in enumerate(sizes_in(type_)) if i not in taken[0] and i not in taken[1]]
    return with_shape(x_type, sizes), {
        **dict(given),
        NUMBERS: Contraction.new(batching, contracting).attribute,
    }


class StablehloOps(Elementwise[V, N]):
    """Emits StableHLO and CHLO ops. Tangents are tensors of float or complex elements."""

    # ---- tangents form a vector space -------------------------------------------------------------------------

    @staticmethod
    @functools.cache
    def tangent_type(type_: ir.Type) -> ir.Type | None:
        """The tangent type: `type_` itself if its elements are float (except f8E8M0FNU) or complex, else None.

        Raises `Unsupported` for floats outside a ranked tensor, and for complex types that StableHLO lacks.
        """
        if not isinstance(type_, ir.RankedTensorType):
            if _holds_floats(type_):
                raise Unsupported(
                    f"a value of type {type_} cannot be differentiated; only ranked tensors can"
                )
            return None
        # f8E8M0FNU, an exponent alone, has neither zero nor sign, so its values form no vector space.
        if isinstance(type_.element_type, ir.Float8E8M0FNUType):
            return None
        if is_complex(type_) and type_.element_type.element_type.width not in (32, 64):
            raise Unsupported(
                f"a value of type {type_} cannot be differentiated; its parts must be f32 or f64"
            )
        return type_ if is_float(type_) or is_complex(type_) else None

    def zero(self, type_: ir.Type) -> V:
        return self.constant(0, type_)

    def zeros_like(self, x: V) -> V:
        return self.constant(0, x)

    # ---- these methods emit constants -------------------------------------------------------------------------

    def constant(self, value: ArrayLike | complex, like: V | ir.Type) -> V:
        """A constant with the type and sizes of `like`, which is a tensor type or a value.

        `value` is a number, or an array of the shape of `like`.
        """
        type_: Any = like if isinstance(like, ir.Type) else like.type
        if is_dynamic(type_):
            if isinstance(like, ir.Type):
                raise unknown_sizes(like)
            return self.repeated(value, element(type_), like)
        attribute = integer_splat(value, type_) if type(value) is int else dense(value, type_)
        constant_op = self.constants.get(attribute)
        if constant_op is None:
            constant_op = self.constants[attribute] = self.emit(
                "stablehlo.constant", (), type_, {"value": attribute}
            )
        return constant_op

    def iota(self, dimension: int, type_: ir.Type, sizes: Sequence[Extent] | None = None) -> V:
        """An array of the type `type_` with 0, 1, 2, ... along a dimension. A dynamic type requires `sizes`."""
        if is_dynamic(type_):
            if sizes is None:
                raise unknown_sizes(type_)
            return self.dynamic_iota(dimension, type_, sizes)
        return self.emit("stablehlo.iota", (), type_, {"iota_dimension": i64(dimension)})

    # ---- these ops move elements, but do not change them ------------------------------------------------------

    def broadcast_in_dim(self, x: V, dimensions: Dims, like: V | ir.Type | list[Extent]) -> V:
        """x broadcast; dimension i of x becomes dimension `dimensions[i]` of the result.

        `like` is the result type, a value with the result's shape, or a list of sizes.
        """
        if isinstance(like, ir.Type):
            type_ = like
        elif isinstance(like, list):
            type_ = with_shape(x.type, like)
        else:
            type_ = with_element(like.type, element(x))
        if is_dynamic(type_):
            if isinstance(like, ir.Type):
                raise unknown_sizes(like)
            sizes = like if isinstance(like, list) else shape(like)
            return self.dynamic_broadcast_in_dim(x, dimensions, type_, sizes)
        return self.emit("stablehlo.broadcast_in_dim", (x,), type_, along("broadcast_dimensions", dimensions))

    def concatenate(self, parts: Sequence[V], dimension: int) -> V:
        """The parts concatenated along a dimension; a single part is returned unchanged."""
        if len(parts) == 1:
            return parts[0]
        sizes = shape(parts[0])
        sizes[dimension] = sum(shape(x)[dimension] for x in parts)
        attributes = {"dimension": i64(dimension)}
        return self.emit("stablehlo.concatenate", parts, with_shape(parts[0].type, sizes), attributes)

    def pad(
        self,
        x: V,
        value: V,
        low: Sequence[Extent],
        high: Sequence[Extent],
        interior: Sequence[Extent],
    ) -> V:
        """x padded with `value`: `low` and `high` elements at the ends, and `interior` elements between neighbours.

        Negative `low` and `high` remove elements.
        """
        sizes = [_padded(*ends) for ends in zip(shape(x), low, high, interior, strict=True)]
        type_ = with_shape(x.type, sizes)
        if any_dynamic(low, high, interior):
            return self.dynamic_pad(x, value, (low, high, interior), type_)
        attributes = {
            "edge_padding_low": dims(low),
            "edge_padding_high": dims(high),
            "interior_padding": dims(interior),
        }
        return self.emit("stablehlo.pad", (x, value), type_, attributes)

    def reshape(self, x: V, sizes: Sequence[Extent]) -> V:
        """x reshaped to these sizes; x itself if it has them.

        If x is itself a reshape of z, reshapes x, not z, because some derivative rules know the tangent of x but not
        that of z. The identities in `dialect/facts/identities.py` compose the two reshapes later.
        """
        type_ = with_shape(x.type, sizes)
        if is_dynamic(type_) or is_dynamic(x.type):
            own = shape(x)
            if len(own) == len(sizes) and all(map(known_equal, own, sizes)):
                return x
        elif type_ == x.type:
            return x
        if is_dynamic(type_):
            return self.dynamic_reshape(x, type_, sizes)
        return self.emit("stablehlo.reshape", (x,), type_)

    def reverse(self, x: V, dimensions: Dims) -> V:
        """x with its elements reversed along the dimensions."""
        return self.emit("stablehlo.reverse", (x,), x.type, {"dimensions": dims(dimensions)})

    def slice(self, x: V, start: Sequence[Extent], limit: Sequence[Extent], strides: Sequence[Extent]) -> V:
        """x[start:limit:strides], along all dimensions."""
        if any_dynamic(start, limit, strides):
            counts = [-((lo - hi) // s) for lo, hi, s in zip(start, limit, strides, strict=True)]
            return self.real_dynamic_slice(x, (start, limit, strides), with_shape(x.type, counts))
        sizes = [-(-(int(hi) - int(lo)) // int(s)) for lo, hi, s in zip(start, limit, strides, strict=True)]
        attributes = {"start_indices": dims(start), "limit_indices": dims(limit), "strides": dims(strides)}
        return self.emit("stablehlo.slice", (x,), with_shape(x.type, sizes), attributes)

    def transpose(self, x: V, permutation: Dims) -> V:
        """x with permuted dimensions: dimension i of the result is dimension `permutation[i]` of x."""
        order = tuple([int(i) for i in permutation])
        if order == tuple(range(len(order))):
            return x
        return self.emit("stablehlo.transpose", (x,), permuted(x.type, order), along("permutation", order))

    # ---- these ops combine or select elements -------------------------------------------------------------------

    def reduce(self, x: V, init: V, dimensions: Dims, reducer: str = "stablehlo.add") -> V:
        """x reduced along the dimensions by the op named `reducer`, starting with `init`."""
        dimensions = tuple([int(i) for i in dimensions])
        return self.emit_all(
            "stablehlo.reduce",
            (x, init),
            (reduced(x.type, dimensions),),
            along("dimensions", dimensions),
            (combiner(reducer, element(x)),),
        )[0]

    def reduce_sum(self, x: V, dimensions: Dims) -> V:
        """The sum of x along the dimensions; x itself if there are none."""
        if not len(dimensions):
            return x
        return self.reduce(x, self.zero(with_shape(x.type, [])), dimensions)

    def dot_general(
        self,
        x: V,
        y: V,
        batching: Sequence[Sequence[int]],
        contracting: Sequence[Sequence[int]],
        attributes: Attributes,
    ) -> V:
        """The `dot_general` of x and y, which have equal element types.

        `batching` and `contracting` are pairs: a list of x's dimensions and a list of y's dimensions. The result has
        the batching dimensions first, then the other dimensions of x that are not contracted, then those of y.
        """
        pairs = tuple(map(tuple, batching)), tuple(map(tuple, contracting))
        type_, given = _contraction(x.type, y.type, *pairs, tuple(attributes.items()))
        return self.emit("stablehlo.dot_general", (x, y), type_, given)

    def dynamic_slice(self, x: V, start: Sequence[V], sizes: Sequence[int]) -> V:
        """The slice of x that has these sizes and begins at `start`.

        The scalars in `start` are clamped, so that the slice is in bounds.
        """
        attributes = {"slice_sizes": dims(sizes)}
        return self.emit("stablehlo.dynamic_slice", (x, *start), with_shape(x.type, sizes), attributes)

    def dynamic_update_slice(self, x: V, update: V, start: Sequence[V]) -> V:
        """A copy of x in which `update` replaces the slice at `start`, which is clamped as in `dynamic_slice`."""
        return self.emit("stablehlo.dynamic_update_slice", (x, update, *start), x.type)

    def gather(
        self,
        operand: V,
        indices: V,
        numbers: hlo.GatherDimensionNumbers,
        sizes: Sequence[Extent],
        type_: ir.Type,
        sorted_: bool = False,
    ) -> V:
        """Gathers slices of these sizes from the operand. Indices are clamped, so that slices are in bounds."""
        attributes: dict[str, ir.Attribute] = {
            "dimension_numbers": numbers,
            "indices_are_sorted": ir.BoolAttr.get(sorted_),
        }
        if any_dynamic(sizes):
            operands = (operand, indices, self.sizes(list(sizes)))
            return self.emit("stablehlo.dynamic_gather", operands, type_, attributes)
        attributes["slice_sizes"] = dims(sizes)
        return self.emit("stablehlo.gather", (operand, indices), type_, attributes)

    def scatter(
        self,
        operand: V,
        indices: V,
        updates: V,
        numbers: hlo.ScatterDimensionNumbers,
        reducer: str | None = "stablehlo.add",
        sorted_: bool = False,
        unique: bool = False,
    ) -> V:
        """Combines updates with the elements of the operand at the indices. Updates out of bounds are dropped.

        `reducer` names an op of two scalars. If it is None, an update replaces the operand's element.
        """
        attributes: dict[str, ir.Attribute] = {
            "scatter_dimension_numbers": numbers,
            "indices_are_sorted": ir.BoolAttr.get(sorted_),
            "unique_indices": ir.BoolAttr.get(unique),
        }
        body = [combiner(reducer, element(operand))]
        operands = (operand, indices, updates)
        return self.emit_all("stablehlo.scatter", operands, (operand.type,), attributes, body)[0]


class RecordEmitter(StablehloOps[Value, Never], Sizes):
    """Emits StableHLO and CHLO ops into a graph."""

    def conj(self, x: Value) -> Value:
        """The conjugate of a complex x as one CHLO op, which identities can match; x itself if it is not complex."""
        return self.emit("chlo.conj", (x,), x.type) if is_complex(x) else x


def _holds_floats(type_: ir.Type) -> bool:
    """Whether a type that is not a ranked tensor holds floats or complex numbers."""
    if isinstance(type_, ir.TupleType):
        return any(_holds_floats(type_.get_type(i)) for i in range(type_.num_types))
    inner = type_.element_type if isinstance(type_, ir.ShapedType) else type_
    return isinstance(inner, ir.FloatType | ir.ComplexType)


@functools.cache
def combiner(name: str | None, element_type: ir.Type) -> Fill:
    """Returns a function that fills the region of a reduction: the region applies the op `name` to its two scalars.

    If `name` is None, the region returns its second scalar.
    """

    def fill(region: ir.Region) -> None:
        scalar = ir.RankedTensorType.get([], element_type)
        block = region.blocks.append(scalar, scalar)
        ip = ir.InsertionPoint(block)
        combined = block.arguments[1]
        if name is not None:
            combined = ir.Operation.create(name, [scalar], list(block.arguments), ip=ip).result
        ir.Operation.create("stablehlo.return", operands=[combined], ip=ip)

    return fill


def _padded(n: Extent, low: Extent, high: Extent, interior: Extent) -> int:
    """The size of a padded dimension in a type; `DYNAMIC` if an argument is a `Size`."""
    if any_dynamic((n, low, high, interior)):
        return DYNAMIC
    return int(low + high + n + max(n - 1, 0) * interior)
