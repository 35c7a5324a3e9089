"""Turns weights from inputs into constants and back.

    func @main(%w: T {tidu.name = "w"}, %x: T)      freeze ->      func @main(%x: T)
                                                                     %w = stablehlo.constant dense_resource<w>
                                                    <- lift

A large constant is a resource, whose bytes MLIR stores separately from the ops, also in bytecode files. The resource of
an array refers to the memory of the array, and does not copy it.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from torch_mlir import ir

from tiduc.backends.reference.interpreter import evaluate
from tiduc.dialect.errors import RequestError
from tiduc.dialect.graph.functions import functions_in
from tiduc.dialect.mlir.constants import constants_in, dense, is_splat, resource_name
from tiduc.dialect.mlir.context import stage
from tiduc.dialect.ops.ir_types import IrOp
from tiduc.dialect.ops.verify import NAME
from tiduc.runtime.arrays import Array, refuse_masked
from tiduc.runtime.signature import DTYPES

INLINE = 4096  # bytes; smaller constants stay in the text, where passes may fold them

_CONSTANT = "stablehlo.constant"
_HEX = re.compile(r': "0x([0-9A-Fa-f]*)"')
_ALIGNMENT = 4  # the number of bytes before a resource's data that store the alignment


def entry_of(module: ir.Module, entry: str | None = None) -> ir.Operation:
    """The function named `entry`. Without a name, the function `main`, or else the only public function.

    Raises `RequestError` if there is no such function.
    """
    public = [op for op in functions_in(module) if _is_public(op)]
    named = [op for op in public if ir.StringAttr(op.attributes["sym_name"]).value == (entry or "main")]
    if entry and not named:
        raise RequestError(f"no public function @{entry}")
    if len(named or public) != 1:
        raise RequestError(
            f"expects a function @main, or one public function; the module has {len(public)} public functions"
        )
    return (named or public)[0]


def _is_public(function: IrOp) -> bool:
    visibility = function.attributes.get("sym_visibility")
    return bool(len(function.regions[0].blocks)) and (
        visibility is None or ir.StringAttr(visibility).value == "public"
    )


def _argument_attributes(function: IrOp) -> list[ir.DictAttr]:
    if "arg_attrs" in function.attributes:
        return [ir.DictAttr(each) for each in function.attributes["arg_attrs"]]
    return [ir.DictAttr.get({}) for _ in function.regions[0].blocks[0].arguments]


def _resign(function: IrOp, attributes: Sequence[ir.DictAttr]) -> None:
    """Sets the input types of a function to the types of its block's arguments, and sets its argument attributes."""
    inputs = [x.type for x in function.regions[0].blocks[0].arguments]
    results = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value).results
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, results))
    function.attributes["arg_attrs"] = ir.ArrayAttr.get(list(attributes))


# ---- inputs to constants -----------------------------------------------------------------------------------


@stage
def freeze(module: ir.Module, weights: Mapping[str, Array]) -> None:
    """Turns the inputs named in `weights` into constants, in place. Large arrays are not copied."""
    function = entry_of(module)
    block = function.regions[0].blocks[0]
    kept = []
    for argument, attributes in zip(list(block.arguments), _argument_attributes(function), strict=True):
        name = ir.StringAttr(attributes[NAME]).value if NAME in attributes else None
        if name is None or name not in weights:
            kept.append(attributes)
            continue
        op = ir.Operation.create(
            _CONSTANT,
            results=[argument.type],
            attributes={"value": elements(weights[name], argument.type, name)},
            loc=ir.Location.name(name),
            ip=ir.InsertionPoint.at_block_begin(block),
        )
        argument.replace_all_uses_with(op.result)
        block.erase_argument(len(kept))
    _resign(function, kept)


def elements(array: Array, type_: ir.RankedTensorType, name: str) -> Any:
    """The array as the attribute of a constant of type `type_`.

    The attribute of a large array is a resource named `name`.
    """
    refuse_masked(array, f"the array {name!r}")
    array = np.asarray(array, order="C")
    if not array.size:
        return dense(0, type_)
    raw = array.reshape(-1).view(np.uint8)
    # Booleans are never resources, because some resources store a boolean as a bit and others as a byte. Complex f64
    # elements stay in the text, because backends may need their parts.
    if array.nbytes > INLINE and array.dtype not in (np.bool_, np.complex128):
        return ir.DenseResourceElementsAttr.get_from_buffer(raw, name, type_, alignment=array.itemsize)
    return ir.DenseElementsAttr.get(raw, type=type_)


# ---- constants to inputs -----------------------------------------------------------------------------------


@stage
def lift(module: ir.Module, entry: str | None = None) -> dict[str, Array]:
    """Turns constants of a function into inputs, in place. Returns the arrays by name, in the order of the inputs.

    Only constants that may be weights become inputs: floats and complex numbers that are not splats. The name of an
    input is that of the constant's location, or of its resource, or else `constantN`. The new inputs come first.
    """
    function = entry_of(module, entry)
    block = function.regions[0].blocks[0]
    before = _argument_attributes(function)
    taken = {ir.StringAttr(each[NAME]).value for each in before if NAME in each}
    weights: dict[str, Array] = {}
    inputs: dict[Any, Any] = {}
    for op in constants_in(function):
        value, type_ = op.attributes["value"], op.result.type
        if not _may_be_weight(value, type_):
            continue
        if value not in inputs:
            name = _fresh(_name(op, value, len(weights)), taken)
            weights[name] = _array(value)
            inputs[value] = block.add_argument(type_, ir.Location.name(name))
        op.result.replace_all_uses_with(inputs[value])
        op.erase()
    for argument in list(block.arguments)[
        : len(before)
    ]:  # the bindings can only append arguments, so the old ones are appended as well
        argument.replace_all_uses_with(block.add_argument(argument.type, argument.location))
    for _ in before:
        block.erase_argument(0)
    named = [ir.DictAttr.get({NAME: ir.StringAttr.get(name)}) for name in weights]
    _resign(function, [*named, *before])
    return weights


def _may_be_weight(value: ir.DenseFPElementsAttr, type_: ir.RankedTensorType) -> bool:
    if not isinstance(type_.element_type, ir.FloatType | ir.ComplexType):
        return False
    return not is_splat(value)


def _name(op: IrOp, value: ir.DenseFPElementsAttr, count: int) -> str:
    where = op.location
    # The function `freeze` gives constants such locations.
    if isinstance(where, ir.NameLoc) and where.child_loc == ir.Location.unknown():
        return str(where.name_str)
    return resource_name(value) or f"constant{count}"


def _fresh(name: str, taken: set[str]) -> str:
    fresh, copy = name, 1
    while fresh in taken:
        copy += 1
        fresh = f"{name}.{copy}"
    taken.add(fresh)
    return fresh


def _array(value: ir.DenseFPElementsAttr) -> Array:
    """The elements of a constant. A resource is read from its text, because the bindings give no other access."""
    type_ = ir.ShapedType(value.type)
    dtype = DTYPES.get(str(type_.element_type))
    if dtype is None:
        raise RequestError(f"a constant of type {value.type} cannot be an array")
    if resource_name(value) is not None:
        digits = _HEX.search(str(_returning(value)))
        assert digits is not None
        return np.frombuffer(bytes.fromhex(digits[1]), dtype, offset=_ALIGNMENT).reshape(type_.shape)
    if dtype.kind == "f" and dtype.isbuiltin == 1:
        return np.array(value)
    if dtype.kind == "c":
        return evaluate(str(_returning(value)), ())[0]
    # Python's buffers do not support the types of ml_dtypes, so the elements are read as unsigned integers.
    bits = ir.IntegerType.get_unsigned(8 * dtype.itemsize)
    return evaluate(str(_returning(value, bits)), ())[0].view(dtype)


def _returning(value: ir.DenseElementsAttr, bits: ir.Type | None = None) -> ir.Module:
    """A module whose only function, `main`, returns the constant.

    If `bits` is given, the constant is bitcast to this element type.
    """
    module = ir.Module.create()
    result = (
        ir.RankedTensorType.get(ir.ShapedType(value.type).shape, bits) if bits is not None else value.type
    )
    type_ = ir.TypeAttr.get(ir.FunctionType.get([], [result]))
    attributes = {"sym_name": ir.StringAttr.get("main"), "function_type": type_}
    function = ir.Operation.create(
        "func.func", attributes=attributes, regions=1, ip=ir.InsertionPoint(module.body)
    )
    with ir.InsertionPoint(function.regions[0].blocks.append()):
        x = ir.Operation.create(_CONSTANT, results=[value.type], attributes={"value": value}).result
        if bits is not None:
            x = ir.Operation.create("stablehlo.bitcast_convert", results=[result], operands=[x]).result
        ir.Operation.create("func.return", operands=[x])
    return module
