"""Losses: scalars that compare the output y of a model with targets t.

    mse                     the mean of (y - t)^2 over all elements; t has y's type
    softmax-cross-entropy   the mean of log(sum_c exp y_c) - y_t over all rows; the last dimension of y has the classes
                            c, and a row is an index of the other dimensions; t has one class number (i32) for each row
    none                    the model's only output is the loss

Elements narrower than f32 are first converted to f32. The first two losses are PyTorch's `MSELoss` and
`CrossEntropyLoss` (with classes last), both with mean reduction. The mean leaves out rows with the target -100. If any
other target is not a class number, the loss is NaN, whereas `CrossEntropyLoss` raises an error. Any other loss is a
program. Its first inputs are the model's outputs. Its other inputs, the targets, become inputs of the training step.
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
"""The target that excludes a row from `softmax-cross-entropy`. It is PyTorch's default `ignore_index`."""
UPDATED = ".updated"
"""Suffix of the names of some outputs. The output `NAME.updated` is the new value of the input `NAME`."""


@stage
def with_loss(model: Program, loss: str | Program) -> Program:
    """Returns the program (inputs..., targets...) -> (loss, the model's outputs whose names end in `UPDATED`).

    `loss` is a key of `LOSSES`, "none", or a program. Raises `RequestError` for an unknown loss, and if the number or
    the types of the model's other outputs do not fit the loss.
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
    """Returns the type of the targets, and the loss.

    The largest element of each row is subtracted from the row first, so that no exponential overflows.
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
    """Returns the mean of the losses whose targets are not `IGNORED`.

    The mean is NaN if another target is not a class number.
    """
    zeros, every = b.zeros_like(losses), range(rank(losses))
    counts = b.compare(target, b.constant(IGNORED, target), "NE")
    classes = b.broadcast_in_dim(b.size(shape(y)[-1]), (), target)
    is_class = b.and_(b.compare(target, b.constant(0, target), "GE"), b.compare(target, classes, "LT"))
    invalid = b.select(counts, b.constant(np.nan, losses), zeros)
    total = b.reduce_sum(b.select(is_class, losses, invalid), every)
    return b.divide(total, b.reduce_sum(b.convert(counts, element(losses)), every))


def _along_classes(b: StablehloBuilder, target: Value, y: Value, table: ir.Type) -> Value:
    """Broadcasts the targets along the dimension of classes.

    Dynamic dimensions of rows are declared nonexpanding, so that a dimension of size 1 is not broadcast.
    """
    rows = range(rank(y) - 1)
    if not is_dynamic(table):
        return b.broadcast_in_dim(target, rows, y)
    attributes = {"broadcast_dimensions": dims(rows), "known_nonexpanding_dimensions": dims(rows)}
    return b.emit("stablehlo.dynamic_broadcast_in_dim", (target, b.sizes(shape(y))), table, attributes)


def wide(type_: ir.FloatType) -> ir.FloatType:
    """Returns the element type in which elements of `type_` are summed. It is at least f32."""
    return type_ if type_.width >= 32 else ir.F32Type.get()


def _widened(b: StablehloBuilder, x: Value) -> Value:
    return b.convert(x, wide(element(x)))


def _mean(b: StablehloBuilder, x: Value) -> Value:
    """Emits the mean of all elements of x, which may have dynamic sizes."""
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
"""The losses by name, as functions (builder, the model's output, key of the targets) -> (type of the targets, loss)."""
