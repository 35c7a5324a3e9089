"""widen: converts a program to double precision. f64 replaces every float type, also within complex types.

    %0 = stablehlo.constant dense<2.0> : tensor<3xf32>     ->   %0 = stablehlo.constant dense<2.0> : tensor<3xf64>
    %1 = stablehlo.convert %x : (tensor<3xbf16>)                %1 = stablehlo.convert %x : (tensor<3xf64>)
           -> tensor<3xf32>                                            -> tensor<3xf64>

The types of values, attributes and regions change. Conversions between float types and `reduce_precision` stay, but
have no effect. A LAPACK call becomes a call of the routine for the new type. An op that depends on the bits of a type,
such as a bitcast or a quantization, keeps its types; conversions surround it.

`tiduc check` runs the widened program: its rounding errors are far below the error of a wrong rule.
"""

import functools
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir.dialects import quant

from tiduc.dialect.graph.functions import within
from tiduc.dialect.mlir.constants import dense
from tiduc.dialect.mlir.context import stage
from tiduc.dialect.ops.control_ops import TARGET
from tiduc.dialect.ops.ir_types import IrOp

_CONVERT = "stablehlo.convert"
_LAPACK = re.compile(r"(?<=lapack_)[sc](?=\w+_ffi$)")
_DOUBLE = {"s": "d", "c": "z"}  # the letters for types in the names of LAPACK's routines
_BITS = {"exponent_bits": 11, "mantissa_bits": 52}
_ALGORITHM = "algorithm"  # a dot_general's algorithm, which names the operands' types


@stage
def widen(module: ir.Module) -> None:
    """Widens a program to double precision: replaces every float type by f64.

    It changes every function and graph of the module in place.
    """
    ops = within(module.operation)
    types = [[x.type for x in op.operands] if _depends_on_bits(op) else None for op in ops]
    kept: list[tuple[Any, Sequence[Any]]] = []
    for op, before in zip(ops, types, strict=True):
        for region in op.regions:
            for x in (x for block in region.blocks for x in block.arguments):
                x.set_type(f64_type(x.type))
        if before is not None or not _widen_attributes(op):
            kept.append((op, before or ()))
            continue
        for y in op.results:
            y.set_type(f64_type(y.type))
    for op, narrow in kept:
        _convert(op, narrow)


@functools.cache
def f64_type(type_: ir.Type) -> ir.Type:
    """A type, or function type, with its float types replaced by f64."""
    if isinstance(type_, ir.FloatType):
        return ir.F64Type.get()
    if isinstance(type_, ir.ComplexType):
        return ir.ComplexType.get(f64_type(type_.element_type))
    if isinstance(type_, ir.RankedTensorType):
        return ir.RankedTensorType.get(type_.shape, f64_type(type_.element_type), type_.encoding)
    if isinstance(type_, ir.TupleType):
        return ir.TupleType.get_tuple([f64_type(type_.get_type(i)) for i in range(type_.num_types)])
    if isinstance(type_, ir.FunctionType):
        return ir.FunctionType.get([f64_type(x) for x in type_.inputs], [f64_type(y) for y in type_.results])
    return type_


def _depends_on_bits(op: IrOp) -> bool:
    types = [x.type for x in (*op.operands, *op.results)]
    if op.name == "stablehlo.bitcast_convert":
        return bool(types[0] != types[1])
    return any(isinstance(getattr(t, "element_type", None), quant.QuantizedType) for t in types)


def _widen_attributes(op: IrOp) -> bool:
    """Widens types and numbers in an op's attributes; False for a constant whose elements the bindings cannot read."""
    for name in list(op.attributes):
        value = op.attributes[name]
        if isinstance(value, ir.TypeAttr):
            op.attributes[name] = ir.TypeAttr.get(f64_type(value.value))
        elif name == "value" and isinstance(value, ir.FloatAttr):
            op.attributes[name] = ir.FloatAttr.get(f64_type(value.type), value.value)
        elif name == "value" and f64_type(value.type) != value.type:
            elements = _elements(value)
            if elements is None:
                return False
            op.attributes[name] = elements
        elif name in _BITS:
            op.attributes[name] = ir.IntegerAttr.get(value.type, _BITS[name])
        elif name == TARGET:
            double = _LAPACK.sub(lambda letter: _DOUBLE[letter[0]], value.value)
            op.attributes[name] = ir.StringAttr.get(double)
        elif name == _ALGORITHM:
            del op.attributes[name]
    return True


def _elements(value: ir.DenseFPElementsAttr) -> Any | None:
    """The elements of a constant, widened; None if the bindings cannot read them."""
    if not isinstance(value, ir.DenseElementsAttr):  # a resource
        return None
    wide = ir.RankedTensorType(f64_type(value.type))
    if isinstance(value, ir.DenseFPElementsAttr):
        if value.is_splat:
            return dense(ir.FloatAttr(value.get_splat_value()).value, wide)
        if isinstance(ir.ShapedType(value.type).element_type, ir.F16Type | ir.F32Type):
            return dense(np.array(value), wide)
    text = str(value)
    if "0x" in text:  # hexadecimal text gives the bits, which are another number in another type
        return None
    return ir.Attribute.parse(text.removesuffix(str(value.type)) + str(wide))


def _convert(op: IrOp, types: Sequence[ir.Type]) -> None:
    """Converts the widened operands of an op to these types, and widens its results."""
    before = ir.InsertionPoint(op)
    for i, type_ in enumerate(types):
        if op.operands[i].type != type_:
            narrowed = ir.Operation.create(_CONVERT, [type_], [op.operands[i]], loc=op.location, ip=before)
            op.operands[i] = narrowed.result
    for y in op.results:
        if (wide := f64_type(y.type)) != y.type:
            widening = ir.Operation.create(
                _CONVERT, [wide], [y], loc=op.location, ip=ir.InsertionPoint.after(op)
            )
            y.replace_all_uses_except(widening.result, widening)
