"""Runs StableHLO's reference interpreter, which may abort the process. `interpreter.py` runs it in another process."""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo

from tiduc.dialect.errors import InputError
from tiduc.dialect.graph.functions import replace, within
from tiduc.dialect.mlir.context import parse, run_passes, stage
from tiduc.dialect.mlir.resources import inlined
from tiduc.dialect.ops.contractions import Contraction
from tiduc.dialect.ops.control_ops import CUSTOM_CALL, call_target
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.ops.shardy import CONSTRAINTS

_LEGAL = (
    "builtin.module(func.func("
    "chlo-legalize-to-stablehlo,stablehlo-legalize-deprecated-ops{fail-on-unused=false}))"
)


class PreparedFunction:
    """The function `main` of a StableHLO or CHLO module, prepared once and called with arrays."""

    @stage
    def __init__(self, text: str) -> None:
        self._module = parse(inlined(text))  # inlines resources, because the interpreter reads them wrongly
        function = next(op.operation for op in self._module.body.operations if _symbol(op) == "main")
        self._type = ir.TypeAttr(function.attributes["function_type"]).value
        _drop_constraints(self._module)
        run_passes(self._module.operation, _LEGAL)
        _reorder_convolutions(self._module)
        _fill_empty_products(self._module)
        _split_complex(self._module, function, self._type.inputs, self._type.results)

    @stage
    def __call__(self, arguments: Sequence[NDArray[Any]]) -> tuple[NDArray[Any], ...]:
        """Runs `main` and returns its results. Raises `InputError` for a wrong number or a wrong shape of arguments."""
        inputs = self._type.inputs
        if len(inputs) != len(arguments):
            raise InputError(f"the program takes {len(inputs)} arguments, but the call has {len(arguments)}")
        flat = []
        for i, (x, wanted) in enumerate(zip(arguments, inputs, strict=True)):
            x = np.asarray(x)
            if list(x.shape) != list(wanted.shape):
                raise InputError(f"argument {i} has the shape {x.shape}, expects {wanted}")
            flat += [x.real, x.imag] if isinstance(wanted.element_type, ir.ComplexType) else [x]
        results = iter(_stablehlo.eval_module(self._module, [_attribute(x) for x in flat]))
        outputs = []
        for wanted in self._type.results:
            value = _array(next(results))
            if isinstance(wanted.element_type, ir.ComplexType):
                value = value + 1j * _array(next(results))
            outputs.append(value)
        return tuple(outputs)


@functools.lru_cache(8)
def interpreted(text: str) -> PreparedFunction:
    """Prepares the function `main` of a module. The functions of the 8 most recently used modules stay prepared."""
    return PreparedFunction(text)


def prepare(text: str) -> None:
    """Prepares a module for a later `run`. Raises an error if the module cannot be parsed."""
    interpreted(text)


def run(text: str, arguments: Sequence[NDArray[Any]]) -> tuple[NDArray[Any], ...]:
    """Runs a module's `main` and returns its results."""
    return interpreted(text)(arguments)


def _symbol(op: IrOp) -> str:
    return str(ir.StringAttr(op.operation.attributes["sym_name"]).value)


def _drop_constraints(module: ir.Module) -> None:
    """Replaces sharding constraints by their operands, because the interpreter runs on one device."""
    for op in within(module.operation, (CUSTOM_CALL,)):
        if call_target(op) in CONSTRAINTS:
            replace(op, list(op.operands))


def _split_complex(
    module: ir.Module,
    function: IrOp,
    inputs: Sequence[ir.RankedTensorType],
    outputs: Sequence[ir.RankedTensorType],
) -> None:
    """Wraps the program in a `main` that takes and returns the real and imaginary parts of complex values.

    Does nothing if no input and no output is complex.
    """
    if not any(isinstance(t.element_type, ir.ComplexType) for t in [*inputs, *outputs]):
        return
    function.attributes["sym_name"] = ir.StringAttr.get("complex_main")
    parts = [_parts(t) for t in inputs]
    results = [part for t in outputs for part in _parts(t)]
    outer = ir.Operation.create(
        "func.func",
        attributes={
            "sym_name": ir.StringAttr.get("main"),
            "function_type": ir.TypeAttr.get(ir.FunctionType.get(sum(parts, []), results)),
        },
        regions=1,
        ip=ir.InsertionPoint(module.body),
    )
    block = outer.regions[0].blocks.append(*sum(parts, []))
    ip, arguments = ir.InsertionPoint(block), iter(block.arguments)
    whole = []
    for t, pair in zip(inputs, parts, strict=True):
        values = [next(arguments) for _ in pair]
        whole.append(_emit(ip, "stablehlo.complex", values, t) if len(pair) == 2 else values[0])
    callee = {"callee": ir.FlatSymbolRefAttr.get("complex_main")}
    call = ir.Operation.create("func.call", list(outputs), whole, callee, ip=ip)
    returned: list[IrValue] = []
    for t, y in zip(outputs, call.results, strict=True):
        pair = _parts(t)
        names = ("stablehlo.real", "stablehlo.imag")
        returned += (
            [_emit(ip, n, [y], p) for n, p in zip(names, pair, strict=True)] if len(pair) == 2 else [y]
        )
    ir.Operation.create("func.return", operands=returned, ip=ip)


def _reorder_convolutions(module: ir.Module) -> None:
    """Makes convolutions return the dimensions (batch, spatial..., features), and transposes their results back.

    Changes only convolutions whose result has the features before the batch: on these, the interpreter aborts.
    """
    convolutions: list[ir.Operation] = []

    def note(op: IrOp) -> ir.WalkResult:
        if op.operation.name == "stablehlo.convolution":
            convolutions.append(op.operation)
        return ir.WalkResult.ADVANCE

    module.operation.walk(note)
    for op in convolutions:
        n = _stablehlo.ConvDimensionNumbers(op.attributes["dimension_numbers"])
        order = [n.output_batch_dimension, *n.output_spatial_dimensions, n.output_feature_dimension]
        if n.output_batch_dimension < n.output_feature_dimension:
            continue
        type_, last = op.results[0].type, len(order) - 1
        op.attributes["dimension_numbers"] = _stablehlo.ConvDimensionNumbers.get(
            n.input_batch_dimension,
            n.input_feature_dimension,
            n.input_spatial_dimensions,
            n.kernel_input_feature_dimension,
            n.kernel_output_feature_dimension,
            n.kernel_spatial_dimensions,
            0,
            last,
            range(1, last),
        )
        plain = ir.RankedTensorType.get([type_.shape[d] for d in order], type_.element_type)
        ip = ir.InsertionPoint(op)
        attributes = {name: op.attributes[name] for name in op.attributes}
        canonical = ir.Operation.create(op.name, [plain], list(op.operands), attributes, ip=ip)
        back = ir.DenseI64ArrayAttr.get(np.argsort(order).tolist())
        turned = ir.Operation.create(
            "stablehlo.transpose", [type_], [canonical.result], {"permutation": back}, ip=ip
        )
        op.results[0].replace_all_uses_with(turned.result)
        op.erase()


def _fill_empty_products(module: ir.Module) -> None:
    """Replaces products that contract a dimension of size 0 by zeros, because the interpreter aborts on them."""
    products: list[ir.Operation] = []

    def note(op: IrOp) -> ir.WalkResult:
        if op.operation.name == "stablehlo.dot_general":
            sizes = ir.RankedTensorType(op.operands[0].type).shape
            if any(sizes[d] == 0 for d in Contraction.of(op).summed[0]):
                products.append(op.operation)
        return ir.WalkResult.ADVANCE

    module.operation.walk(note)
    for op in products:
        type_, number, ip = op.results[0].type, ir.IntegerType.get_signless(32), ir.InsertionPoint(op)
        integers = ir.RankedTensorType.get(type_.shape, number)
        zero = ir.DenseElementsAttr.get_splat(integers, ir.IntegerAttr.get(number, 0))
        zeros = ir.Operation.create("stablehlo.constant", [integers], [], {"value": zero}, ip=ip)
        converted = ir.Operation.create("stablehlo.convert", [type_], [zeros.result], ip=ip)
        op.results[0].replace_all_uses_with(converted.result)
        op.erase()


def _parts(type_: ir.RankedTensorType) -> list[ir.RankedTensorType]:
    if not isinstance(type_.element_type, ir.ComplexType):
        return [type_]
    return [ir.RankedTensorType.get(type_.shape, type_.element_type.element_type)] * 2


def _emit(ip: ir.InsertionPoint, name: str, operands: list[IrValue], type_: ir.RankedTensorType) -> IrValue:
    return ir.Operation.create(name, [type_], operands, ip=ip).result


def _attribute(x: NDArray[Any]) -> ir.DenseElementsAttr:
    x = np.array(x, order="C")
    if x.dtype == np.bool_:
        boolean = ir.RankedTensorType.get(x.shape, ir.IntegerType.get_signless(1))
        if not x.size:  # MLIR refuses an empty list
            return ir.DenseElementsAttr.get(np.zeros(0, np.uint8), type=boolean)
        return ir.DenseElementsAttr.get([ir.BoolAttr.get(bool(v)) for v in x.reshape(-1)], boolean)
    signless = {"i": ir.IntegerType.get_signless, "u": ir.IntegerType.get_unsigned}.get(x.dtype.kind)
    if signless is not None:
        return ir.DenseElementsAttr.get(
            x, type=ir.RankedTensorType.get(x.shape, signless(x.dtype.itemsize * 8))
        )
    return ir.DenseElementsAttr.get(x)


def _array(attribute: ir.Attribute) -> NDArray[Any]:
    return np.array(attribute).reshape(ir.ShapedType(attribute.type).shape)
