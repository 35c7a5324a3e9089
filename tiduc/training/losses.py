"""Losses: one number that compares the output of a model with targets.

    mse                     mean of (y - t)^2 over all elements; targets t of y's type
    softmax-cross-entropy   mean of log(sum_c exp y_c) - y_t over all dimensions but the last, whose index c is the
                            class; targets t are class numbers of type i32, and a target of -100 leaves its row out
    none                    the model's only output is the loss

Elements narrower than f32 are first converted to f32. The first two losses are PyTorch's `MSELoss` and
`CrossEntropyLoss` (with classes last), both with mean reduction. If a target is not the number of a class, the
loss is NaN; `CrossEntropyLoss` raises an error. Any other loss is a program: its first inputs are the model's outputs,
and its other inputs, the targets, become inputs of the training step.
"""

from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
from torch_mlir import ir

from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.errors import RequestError
from tiduc.dialect.graph.graph import Value
from tiduc.dialect.mlir.context import stage
from tiduc.dialect.shapes.types import (
    dims,
    element,
    is_dynamic,
    is_float,
    rank,
    shape,
    with_element,
    with_shape,
)
from tiduc.ports import InputPort, OutputPort, with_ports
from tiduc.program import Program
from tiduc.training.compose import compose

IGNORED = -100
"""The class number that excludes a row from `softmax-cross-entropy`: PyTorch's default `ignore_index`."""
UPDATED = ".updated"
"""Suffix of an output's name: the output is the new value of the input whose name precedes the suffix."""


@stage
def with_loss(model: Program, loss: str | Program) -> Program:
    """The program (inputs..., targets...) -> (loss, the outputs of the model that update an input).

    `loss` is a name of `LOSSES`, "none", or a program. Raises `RequestError` if the loss cannot take the outputs.
    """
    given = [port for port in model.outputs if not port.name.endswith(UPDATED)]
    updated = tuple([port for port in model.outputs if port.name.endswith(UPDATED)])
    if isinstance(loss, Program):
        return compose(model, loss, given, updated)
    if len(given) != 1:
        names = ", ".join(port.name for port in given)
        raise RequestError(
            f"the loss {loss} takes one output, and the model has {len(given)} ({names}): use a loss that is a program"
        )
    if loss == "none":
        return replace(model, outputs=(*given, *updated))
    if loss not in LOSSES:
        raise RequestError(f"unknown loss {loss!r}; there are {', '.join(LOSSES)}, and none")
    (y,) = given
    if not is_float(y.type):
        raise RequestError(f"the loss {loss} needs floats; {y.name!r} is {y.type}")
    b: Any = model.opset.builder(model.view, model.view.fresh("loss"))
    target_type, value = LOSSES[loss](b, y.value, f"{b.graph.name}.target")
    b.finish([value])
    target = InputPort("target", target_type, f"{b.graph.name}.target")
    inputs = with_ports(model.inputs, [target])
    return replace(model, inputs=inputs, outputs=(OutputPort("loss", value.type, value), *updated))


def _mse(b: StablehloBuilder, y: Value, key: str) -> tuple[Any, Any]:
    error = b.subtract(_widened(b, y), _widened(b, b.input(key, y.type)))
    return y.type, _mean(b, b.multiply(error, error))


def _softmax_cross_entropy(b: StablehloBuilder, y: Value, key: str) -> tuple[Any, Any]:
    """The type of the targets, and the loss.

    Each row's largest element is subtracted first, so that no exponential overflows.
    """
    if not rank(y):
        raise RequestError(
            f"the loss softmax-cross-entropy needs a dimension of classes; the output is {y.type}"
        )
    y, last, i32 = _widened(b, y), rank(y) - 1, ir.IntegerType.get_signless(32)
    rows, table = range(last), with_element(y.type, i32)
    target = b.input(key, with_shape(table, shape(y)[:-1]))
    largest = b.reduce(y, b.constant(-np.inf, with_shape(y.type, [])), [last], "stablehlo.maximum")
    shifted = b.subtract(y, b.broadcast_in_dim(largest, rows, y))
    classes = b.iota(last, table, shape(y))
    is_target = b.compare(classes, _along_classes(b, target, y, table), "EQ")
    of_target = b.reduce_sum(b.select(is_target, shifted, b.zeros_like(y)), [last])
    losses = b.subtract(b.log(b.reduce_sum(b.exponential(shifted), [last])), of_target)
    return target.type, _mean_of_classes(b, losses, target, y)


def _mean_of_classes(b: StablehloBuilder, losses: Value, target: Value, y: Value) -> Value:
    """The mean of the losses whose targets are not `IGNORED`; NaN if a target is not the number of a class."""
    zeros, every = b.zeros_like(losses), range(rank(losses))
    counts = b.compare(target, b.constant(IGNORED, target), "NE")
    classes = b.broadcast_in_dim(b.size(shape(y)[-1]), (), target)
    is_class = b.and_(b.compare(target, b.constant(0, target), "GE"), b.compare(target, classes, "LT"))
    invalid = b.select(counts, b.constant(np.nan, losses), zeros)
    total = b.reduce_sum(b.select(is_class, losses, invalid), every)
    return b.divide(total, b.reduce_sum(b.convert(counts, element(losses)), every))


def _along_classes(b: StablehloBuilder, target: Value, y: Value, table: ir.Type) -> Value:
    """The targets, repeated for each class. Each row must have a target: a dimension of size 1 is not broadcast."""
    rows = range(rank(y) - 1)
    if not is_dynamic(table):
        return b.broadcast_in_dim(target, rows, y)
    attributes = {"broadcast_dimensions": dims(rows), "known_nonexpanding_dimensions": dims(rows)}
    return b.emit("stablehlo.dynamic_broadcast_in_dim", (target, b.sizes(shape(y))), table, attributes)


def wide(type_: ir.FloatType) -> ir.FloatType:
    """The element type for sums of numbers of a type: f32 for a narrower type, else the type itself."""
    return type_ if type_.width >= 32 else ir.F32Type.get()


def _widened(b: StablehloBuilder, x: Value) -> Value:
    return b.convert(x, wide(element(x)))


def _mean(b: StablehloBuilder, x: Value) -> Value:
    """The mean of all elements; x may have dynamic dimensions."""
    total = b.reduce_sum(x, range(rank(x)))
    known = [n for n in shape(x) if isinstance(n, int)]
    count = b.constant(float(prod(known)), total)
    for n in shape(x):
        if not isinstance(n, int):
            count = b.multiply(count, b.convert(b.size(n), element(total)))
    return b.divide(total, count)


LOSSES: dict[str, Callable[[Any, Any, str], tuple[Any, Any]]] = {
    "mse": _mse,
    "softmax-cross-entropy": _softmax_cross_entropy,
}
"""(builder, the model's output, the key of the targets) -> (type of the targets, the loss)."""
