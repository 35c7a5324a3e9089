"""Queries and creates tensor types, and converts dimension numbers to attributes.

The results are cached, because programs query few types many times, and a query of the bindings takes ten times as
long as a look-up in a cache. Types and attributes can be keys, because a context stores equal ones only once.
"""

import functools
from collections.abc import Iterable, Sequence
from typing import Any, SupportsInt, cast

from torch_mlir import ir

from tiduc.dialect.errors import UnknownSize, Unsupported
from tiduc.dialect.graph.graph import Value
from tiduc.dialect.ops.ir_types import Typed
from tiduc.dialect.shapes.origins import DYNAMIC, size_of, sizes_in
from tiduc.dialect.shapes.sizes import Extent, Size

LARGEST = 2**63
"""All sizes that MLIR can represent are less than this number."""


def shape(x: Typed) -> list[Any]:
    """The sizes of a value's dimensions: an int for a static dimension, and a `Size` for a dynamic dimension."""
    sizes = sizes_in(x.type)
    if DYNAMIC in sizes:
        return [size_of(cast(Value, x), d) for d in range(len(sizes))]
    return list(sizes)


def is_empty(x: Typed) -> bool:
    """Whether a value is known to have no elements."""
    return 0 in sizes_in(x.type)


@functools.cache
def is_dynamic(type_: ir.RankedTensorType) -> bool:
    """Whether a tensor type has dynamic dimensions."""
    return not type_.has_static_shape


@functools.cache
def _rank(type_: ir.RankedTensorType) -> int:
    return int(type_.rank)


def rank(x: Typed) -> int:
    """The number of dimensions of a value."""
    return _rank(x.type)


def element(x: Typed | ir.Type) -> Any:
    """The element type of a value or a tensor type."""
    return _element(x if isinstance(x, ir.Type) else x.type)


@functools.cache
def _element(type_: ir.RankedTensorType) -> Any:
    return type_.element_type


def is_complex(x: Typed | ir.Type) -> bool:
    """Whether the elements of a value or tensor type are complex."""
    return _is_complex(x if isinstance(x, ir.Type) else x.type)


@functools.cache
def _is_complex(type_: ir.RankedTensorType) -> bool:
    return isinstance(type_.element_type, ir.ComplexType)


def is_f64(x: Typed) -> bool:
    """Whether the elements of a value are f64."""
    return bool(element(x) == ir.F64Type.get())


def is_float(x: Typed | ir.Type) -> bool:
    """Whether the elements of a value or tensor type are real floating-point numbers."""
    return isinstance(element(x), ir.FloatType)


@functools.cache
def with_element(type_: ir.RankedTensorType, element_type: ir.Type) -> ir.RankedTensorType:
    """The tensor type with the shape of `type_` and the given element type."""
    return ir.RankedTensorType.get(type_.shape, element_type)


def with_shape(type_: ir.RankedTensorType, sizes: Sequence[Extent]) -> ir.RankedTensorType:
    """The tensor type with the given sizes and the element type of `type_`. A `Size` becomes a dynamic dimension.

    Raises `Unsupported` for a size that MLIR cannot represent.
    """
    try:
        return _with_shape(type_, tuple(sizes))
    except UnknownSize:  # a `Size` is not hashable
        return _with_shape(type_, tuple([DYNAMIC if isinstance(n, Size) else n for n in sizes]))


@functools.cache
def _with_shape(type_: ir.RankedTensorType, sizes: tuple[int, ...]) -> ir.RankedTensorType:
    if any(n >= LARGEST for n in sizes):
        raise Unsupported(f"a dimension of a result would have {max(sizes)} elements, more than MLIR allows")
    return ir.RankedTensorType.get(sizes, type_.element_type)


def predicate(type_: ir.RankedTensorType) -> ir.RankedTensorType:
    """The tensor type of the result of a comparison: it has i1 elements and the shape of `type_`."""
    return with_element(type_, ir.IntegerType.get_signless(1))


def dims(values: Iterable[SupportsInt]) -> ir.DenseI64ArrayAttr:
    """Converts integers, such as indices of dimensions, to the attribute `array<i64: ...>`."""
    return _dims(values if isinstance(values, tuple) else tuple([int(v) for v in values]))


@functools.cache
def _dims(values: tuple[int, ...]) -> ir.DenseI64ArrayAttr:
    return ir.DenseI64ArrayAttr.get([int(v) for v in values])


def i64(value: SupportsInt) -> ir.IntegerAttr:
    """Converts an integer to the attribute `value : i64`."""
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), int(value))


def along(name: str, values: Iterable[SupportsInt]) -> dict[str, ir.Attribute]:
    """Returns a dictionary that maps `name` to `values`, converted to the attribute `array<i64: ...>`.

    Calls with equal arguments return the same dictionary, which must not be changed.
    """
    return _along(name, values if isinstance(values, tuple) else tuple([int(v) for v in values]))


@functools.cache
def _along(name: str, values: tuple[int, ...]) -> dict[str, ir.Attribute]:
    return {name: _dims(values)}


@functools.cache
def dimensions_in(attribute: ir.DenseI64ArrayAttr) -> tuple[int, ...]:
    """The integers, such as indices of dimensions, in an attribute `array<i64: ...>`."""
    return tuple(attribute)


@functools.cache
def reduced(type_: ir.RankedTensorType, dimensions: tuple[int, ...]) -> ir.RankedTensorType:
    """The tensor type that is left of `type_` after the dimensions in `dimensions` are removed."""
    return _with_shape(type_, tuple([n for i, n in enumerate(sizes_in(type_)) if i not in dimensions]))


@functools.cache
def permuted(type_: ir.RankedTensorType, order: tuple[int, ...]) -> ir.RankedTensorType:
    """The tensor type with permuted dimensions: dimension i of the result is dimension `order[i]` of `type_`."""
    sizes = sizes_in(type_)
    return _with_shape(type_, tuple([sizes[i] for i in order]))


def bits(x: Typed | ir.Type) -> int:
    """The width in bits of the elements of a value or tensor type. A complex element has the width of both parts."""
    type_ = element(x)
    return 2 * int(type_.element_type.width) if is_complex(x) else int(type_.width)


def is_wide(element: ir.Type) -> bool:
    """Whether an element type is f32 or f64, or complex with such parts."""
    part = element.element_type if isinstance(element, ir.ComplexType) else element
    return isinstance(part, ir.F32Type | ir.F64Type)
