"""widen: converts a program to double precision. f64 replaces each other float type, also as the element of complex
types.

    %0 = stablehlo.constant dense<2.0> : tensor<3xf32>     ->   %0 = stablehlo.constant dense<2.0> : tensor<3xf64>
    %1 = stablehlo.convert %x : (tensor<3xbf16>)                %1 = stablehlo.convert %x : (tensor<3xf64>)
           -> tensor<3xf32>                                            -> tensor<3xf64>

The pass changes the types of values, attributes and block arguments. Conversions between float types and
`reduce_precision` remain, but have no effect. A call of a LAPACK routine becomes a call of the routine for double
precision. An op that depends on the bits of its types, such as a bitcast or a quantization, keeps its types. The pass
then converts its operands to these types and its results to f64.

`tiduc check` runs the widened program, because rounding errors in f64 are far smaller than the error of a wrong rule.
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
_DOUBLE = {"s": "d", "c": "z"}  # the type letters of LAPACK's routines: single to double precision
_BITS = {"exponent_bits": 11, "mantissa_bits": 52}
_ALGORITHM = "algorithm"  # the attribute of dot_general that names element types; removed from the widened op


@stage
def widen(module: ir.Module) -> None:
    """Widens a program to double precision: replaces every float type by f64.

    Changes all functions and graphs of the module in place.
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
    """Returns the type with f64 in place of each float type. Also accepts complex, tensor, tuple and function types."""
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
    """Widens the types and float constants in the attributes of an op.

    Returns False if the op is a constant whose elements MLIR's Python bindings cannot read.
    """
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
    """Returns the elements of a constant as f64, or None if MLIR's Python bindings cannot read them."""
    if not isinstance(value, ir.DenseElementsAttr):  # a dense_resource attribute
        return None
    wide = ir.RankedTensorType(f64_type(value.type))
    if isinstance(value, ir.DenseFPElementsAttr):
        if value.is_splat:
            return dense(ir.FloatAttr(value.get_splat_value()).value, wide)
        if isinstance(ir.ShapedType(value.type).element_type, ir.F16Type | ir.F32Type):
            return dense(np.array(value), wide)
    text = str(value)
    if "0x" in text:  # hexadecimal text encodes bits, which would mean another number in f64
        return None
    return ir.Attribute.parse(text.removesuffix(str(value.type)) + str(wide))


def _convert(op: IrOp, types: Sequence[ir.Type]) -> None:
    """Converts the f64 operands of an op back to their original types `types`, and converts its results to f64."""
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
