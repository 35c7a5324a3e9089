"""Mixed precision: computes matrix products of f32 operands in bf16 or f16, and scales the loss for f16.

    dot(x, y)    ->    convert(dot(convert(x), convert(y)))

The model is rewritten before it is differentiated, so its derivative has such products, too. With f16, the loss is
multiplied by `loss_scale`, so that gradients are in f16's range, and the gradient is divided by `loss_scale`. If an
element of the gradient is not finite, the step changes no parameter and halves the scale. After `INTERVAL` steps with
finite gradients, the scale is doubled. These are the rules of PyTorch's `autocast` for products, and of its
`GradScaler`. Source: Micikevicius et al., "Mixed Precision Training" (2018), section 3.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from torch_mlir import ir

from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.errors import RequestError
from tiduc.dialect.graph.functions import within
from tiduc.dialect.graph.graph import Value
from tiduc.dialect.mlir.context import parse, stage
from tiduc.dialect.mlir.emit import bytecode
from tiduc.dialect.shapes.types import predicate, rank, with_element
from tiduc.models.model import Model, model_of
from tiduc.ports import InputPort, OutputPort, with_ports
from tiduc.program import Program, from_module
from tiduc.runtime.arrays import Array
from tiduc.training.optimizers import scaled

Tensor = ir.Value[ir.RankedTensorType]
F32, BF16, F16 = "f32", "bf16", "f16"
PRECISIONS = (F32, BF16, F16)
"""The element types in which a step can compute products."""

INITIAL, INTERVAL = 2.0**16, 2000
"""The initial loss scale, and the number of steps with finite gradients after which the scale is doubled.

Both are the defaults of PyTorch's `GradScaler`.
"""

NAMES = ("loss_scale", "loss_scale.steps")
"""The names of two inputs of a step: the scale, and the number of steps since the scale was last changed."""

_PRODUCTS = ("stablehlo.dot_general", "stablehlo.convolution")


@stage
def with_precision(model: Program, precision: str) -> Program:
    """Returns the model with its f32 products and convolutions computed in the element type `precision`.

    Returns the model itself for "f32". Raises `RequestError` if the precision is not in `PRECISIONS`, or if the model
    has no product or convolution of f32.
    """
    if precision not in PRECISIONS:
        raise RequestError(f"unknown precision {precision!r}; there are {', '.join(PRECISIONS)}")
    if precision == F32:
        return model
    module = parse(bytecode(model.module))
    with module.context:
        narrow: ir.FloatType = ir.BF16Type.get() if precision == BF16 else ir.F16Type.get()
        products = [op for op in within(module.operation, _PRODUCTS) if _is_single(op)]
        for op in products:
            _narrow(op, narrow)
    if not products:
        raise RequestError(f"the model has no product or convolution of f32 to compute in {precision}")
    made: Program
    if isinstance(model, Model):
        made = model_of(module, model.weights, model.name, model.opset)
    else:
        made = from_module(module, model.name, model.opset)
    return replace(made, loop_memory=model.loop_memory, memory=model.memory)


def _is_single(op: ir.Operation) -> bool:
    return all(isinstance(x.type.element_type, ir.F32Type) for x in (*op.operands, *op.results))


def _narrow(op: ir.Operation, element: ir.FloatType) -> None:
    """Makes an op compute in the narrower type `element`: converts its operands to this type, and the result to f32."""
    ip = ir.InsertionPoint(op)

    def converted(x: Tensor, to: ir.Type) -> Tensor:
        type_ = with_element(x.type, to)
        made = ir.Operation.create("stablehlo.convert", [type_], [x], ip=ip, loc=op.location)
        result: Tensor = made.results[0]
        return result

    operands = [converted(x, element) for x in op.operands]
    attributes = {name: op.attributes[name] for name in op.attributes}
    type_ = with_element(op.results[0].type, element)
    product = ir.Operation.create(op.name, [type_], operands, attributes, ip=ip, loc=op.location)
    op.results[0].replace_all_uses_with(converted(product.results[0], ir.F32Type.get()))
    op.erase()


class LossScale:
    """A program that multiplies the loss of `lossy` by a scale. It has the additional inputs `NAMES`.

    `program` is this program, whose only output is the scaled loss, and `ports` are the two inputs.
    """

    def __init__(self, lossy: Program) -> None:
        """The first output of the program `lossy` must be the loss."""
        b: Any = lossy.opset.builder(lossy.view, lossy.view.fresh("scaling"))
        scalar = ir.RankedTensorType.get([], ir.F32Type.get())
        ports = [InputPort(name, scalar, f"{b.graph.name}.{name}") for name in NAMES]
        scale, steps = (b.input(port.key, scalar) for port in ports)
        loss = lossy.outputs[0]
        value = b.multiply(loss.value, scale)
        b.finish([value, steps])
        inputs = with_ports(lossy.inputs, ports)
        self.ports = inputs[-2:]
        self.program = replace(lossy, inputs=inputs, outputs=(OutputPort(loss.name, value.type, value),))

    @property
    def keys(self) -> tuple[str, str]:
        """The graph keys of the inputs `NAMES`."""
        scale, steps = self.ports
        return scale.key, steps.key

    def initial(self) -> dict[str, Array]:
        """Returns the initial values of the inputs `NAMES`."""
        values = zip(self.ports, (INITIAL, 0.0), strict=True)
        return {port.name: np.array(x, np.float32) for port, x in values}


class Unscaled:
    """The gradient of a scaled loss, divided by the scale (`slopes`), and the new values of `NAMES` (`values`)."""

    def __init__(self, b: StablehloBuilder, old: Sequence[Value], slopes: Sequence[Value]) -> None:
        """`old` are the old values of the inputs `NAMES`, and `slopes` is the gradient of the scaled loss."""
        scale, steps = old
        one = b.constant(1.0, scale)
        factor = b.divide(one, scale)
        self.slopes = [scaled(b, factor, g) for g in slopes]
        least = one
        for g in self.slopes:
            finite = b.convert(b.emit("stablehlo.is_finite", (g,), predicate(g.type)), ir.F32Type.get())
            each = b.reduce(finite, one, range(rank(g)), "stablehlo.minimum")
            least = b.emit("stablehlo.minimum", (least, each), least.type)
        self._b, self._finite = b, b.compare(least, one, "EQ")
        number = b.add(steps, one)
        is_due = b.compare(number, b.constant(float(INTERVAL), number), "GE")
        zero, two, half = (b.constant(x, scale) for x in (0.0, 2.0, 0.5))
        grown = b.select(is_due, b.multiply(scale, two), scale)
        self.values = [
            b.select(self._finite, grown, b.multiply(scale, half)),
            b.select(self._finite, b.select(is_due, zero, number), zero),
        ]

    def new_or_old(self, new: Value, old: Value) -> Value:
        """Selects the value `new` if all elements of the gradient are finite, else `old`."""
        return self._b.select(self._finite, new, old)
