"""Creates and reads elements attributes, which hold the values of constants."""

import functools
import re
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import ArrayLike
from torch_mlir import ir

from tiduc.dialect.ops.ir_types import IrOp

_RESOURCE = re.compile(r'dense_resource<("(?:[^"\\]|\\.)*"|[^>]*)>')


def dense(value: ArrayLike | complex, type_: ir.RankedTensorType) -> Any:
    """Converts `value` to an elements attribute of a static tensor type.

    A number is converted to a splat. Raises `ValueError` for an array whose shape is not that of the type.
    """
    array = np.asarray(value)
    if array.ndim and array.shape != tuple(type_.shape):
        raise ValueError(f"a constant of shape {array.shape} does not fit the type {type_}")
    if isinstance(type_.element_type, ir.ComplexType):
        kind = np.complex64 if type_.element_type.element_type.width == 32 else np.complex128
        values = np.ascontiguousarray(array if array.size else 0, kind)
        return ir.DenseElementsAttr.get(values, type=type_.element_type, shape=type_.shape)
    integer = type_.element_type
    if array.ndim and array.size and isinstance(integer, ir.IntegerType) and integer.width in (32, 64):
        values = np.ascontiguousarray(array, f"i{integer.width // 8}")
        return ir.DenseElementsAttr.get(values, type=integer, shape=type_.shape).maybe_downcast()
    if array.ndim and array.size:
        entries = [_scalar(v, type_.element_type) for v in array.reshape(-1).tolist()]
        return ir.DenseElementsAttr.get(entries, type_).maybe_downcast()
    entry = _scalar(array.item() if array.size else 0, type_.element_type)
    return ir.DenseElementsAttr.get_splat(type_, entry).maybe_downcast()


def is_splat(value: ir.Attribute | None) -> TypeGuard[ir.DenseElementsAttr]:
    """Whether an attribute is a `dense` attribute that is a splat.

    Returns False for a resource, for any other attribute, and for None.
    """
    return isinstance(value, ir.DenseElementsAttr) and bool(value.is_splat)


def splat_number(value: ir.DenseElementsAttr) -> float:
    """The number in a splat of real numbers."""
    entry: Any = value.get_splat_value()
    number: float = entry.value
    return number


@functools.cache
def integer_splat(value: int, type_: ir.RankedTensorType) -> Any:
    """The splat of an integer. Results are cached."""
    return dense(value, type_)


def integer_in(value: ir.Attribute) -> int | None:
    """The integer in a splat of integers, where true is 1; None for any other attribute."""
    if not isinstance(value, ir.DenseIntElementsAttr) or not value.is_splat:
        return None
    # The bindings cannot iterate over the elements if these have fewer than 8 bits.
    entry = ir.IntegerAttr(value.get_splat_value())
    return abs(entry.value) if ir.IntegerType(entry.type).width == 1 else int(entry.value)


@functools.cache
def as_floats(value: ir.Attribute, integers: ir.RankedTensorType, floats: ir.RankedTensorType) -> Any | None:
    """Converts a splat of type `integers` to a splat of type `floats`.

    Returns None for any other attribute, and if `floats` is dynamic or its elements are not floats. Also returns None
    for an integer over 2^53 in magnitude, because it could be rounded twice, and for floats of fewer than 16 bits,
    because their overflow differs.
    """
    number = integer_in(value) if value.type == integers else None
    element = floats.element_type
    if number is None or abs(number) > 2**53 or not floats.has_static_shape:
        return None
    return dense(number, floats) if isinstance(element, ir.FloatType) and element.width >= 16 else None


def _scalar(value: float, element_type: ir.Type) -> ir.Attribute:
    if isinstance(element_type, ir.FloatType):
        return ir.FloatAttr.get(element_type, float(value))
    return ir.IntegerAttr.get(element_type, int(value))


def resource_name(value: ir.Attribute) -> str | None:
    """The name of the resource that an elements attribute refers to; None if the attribute holds its elements."""
    if isinstance(value, ir.DenseElementsAttr):
        return None
    match = _RESOURCE.match(str(value))
    if match is None:
        return None
    if not match[1].startswith('"'):
        return match[1]
    return str(ir.StringAttr(ir.Attribute.parse(match[1], value.context)).value)


def constants_in(op: IrOp) -> list[ir.Operation]:
    """The `stablehlo.constant` ops nested in an op, at any depth."""
    constants: list[Any] = []

    def look(inner: IrOp) -> ir.WalkResult:
        if inner.name == "stablehlo.constant":
            constants.append(inner)
        return ir.WalkResult.ADVANCE

    op.walk(look, ir.WalkOrder.PRE_ORDER)
    return constants


def has_resources(module: ir.Module | IrOp) -> bool:
    """Whether a constant of the module is a resource. A resource takes twice as many bytes in text as in bytecode."""
    return any(resource_name(op.attributes["value"]) is not None for op in constants_in(module.operation))
