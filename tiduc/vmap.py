"""vmap: makes a program compute a batch of examples. Some inputs and outputs get a batch dimension at any position.

    f(x: 3, w: 3x2) -> y: 2      batched in x, size 8, out axis 1      f(x: 8x3, w: 3x2) -> y: 2x8

In the graphs of `passes/batch.py`, the batch dimension is the first one. This file therefore transposes the inputs and
outputs whose batch dimension has another position.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch_mlir import ir

from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.errors import RequestError
from tiduc.dialect.graph.graph import Value
from tiduc.dialect.ops.control_ops import sequence_type as stacked
from tiduc.dialect.ops.shardy import shardings_among
from tiduc.dialect.shapes.types import is_dynamic, rank, shape, with_shape
from tiduc.passes.batch import batch
from tiduc.passes.materialize_merge import Zero
from tiduc.ports import Function, InputPort, OutputPort, Port

Axes = int | None | Sequence[int | None] | Mapping[str, int | None]
"""The positions of batch dimensions: one for all ports, a sequence with one for each port, or a mapping from names.

None means that a port has no batch dimension.
"""


def vmap(
    program: Function, size: int, in_axes: Axes, out_axes: Axes
) -> tuple[list[InputPort], list[OutputPort]]:
    """Returns the inputs and outputs of the batched program.

    They have the names of the inputs and outputs of `program`.

    If a mapping `in_axes` omits an input, all `size` examples share this input. If a mapping `out_axes` omits an
    output, the batch dimension of this output is the first one. Raises `RequestError` if:
    - an output with axis None depends on a batched input;
    - an axis is out of range;
    - a type cannot have a batch dimension;
    - no input is batched.
    """
    axes = _axes("in_axes", in_axes, program.inputs, None)
    ends = _axes("out_axes", out_axes, program.outputs, 0)
    if all(axis is None for axis in axes.values()):
        raise RequestError("in_axes has no batched input")
    mapped = [port for port in program.inputs if axes[port.name] is not None]
    values = list(dict.fromkeys(y.value for y in program.outputs if not isinstance(y.value, Zero)))
    keys = [port.key for port in mapped]
    graph = batch(program.view, values, keys, size, program.opset)
    results = dict(zip(values, graph.outputs, strict=True))
    b: Any = program.opset.builder(program.view, program.view.fresh("V"))
    given = {
        port.name: _input(program, b, port, key, size, axes[port.name])
        for port, key in zip(mapped, graph.keys, strict=True)
    }
    shared = {p.name: replace(p, attributes=shardings_among(p.attributes)) for p in program.inputs}
    outputs = [_output(b, port, results, size, ends[port.name]) for port in program.outputs]
    b.finish([])
    return [given.get(port.name, shared[port.name]) for port in program.inputs], outputs


def _axes(option: str, given: Axes, ports: Sequence[Port], default: int | None) -> dict[str, int | None]:
    """Maps the name of each port to its batch dimension, from 0 to the rank of the port, or to None."""
    names = [port.name for port in ports]
    if given is None or isinstance(given, int):
        axes: dict[str, int | None] = dict.fromkeys(names, given)
    elif isinstance(given, Mapping):
        if unknown := [name for name in given if name not in names]:
            raise RequestError(f"{option}: no {unknown[0]!r}; there are {', '.join(names) or 'none'}")
        axes = {name: given.get(name, default) for name in names}
    else:
        if len(given) != len(names):
            raise RequestError(
                f"{option} has {len(given)} axes for {len(names)} ({', '.join(names) or 'none'})"
            )
        axes = dict(zip(names, given, strict=True))
    return {port.name: _axis(option, port, axes[port.name]) for port in ports}


def _axis(option: str, port: Port, axis: int | None) -> int | None:
    """Returns the position of a port's batch dimension from the front. A negative `axis` counts from the end.

    Raises `RequestError` if the port cannot be batched, or if the axis is out of range.
    """
    if axis is None:
        return None
    if not isinstance(port.type, ir.RankedTensorType) or is_dynamic(port.type):
        raise RequestError(
            f"{port.name!r} of type {port.type} cannot be batched; only tensors of static shape can"
        )
    if not -rank(port) - 1 <= axis <= rank(port):
        raise RequestError(
            f"{option}: {port.name!r} batched has rank {rank(port) + 1}, and the axis is {axis}"
        )
    return axis % (rank(port) + 1)


def _input(
    program: Function, b: StablehloBuilder, port: InputPort, key: str, size: int, axis: int | None
) -> InputPort:
    """Returns the input of the batched program for `port`, with the batch dimension at `axis`.

    The batched graph reads it under `key`, with the batch dimension as the first one.
    """
    assert axis is not None
    type_ = stacked(port.type, size)
    if axis == 0:
        return InputPort(port.name, type_, key)
    own = f"{b.graph.name}.{key}"
    sizes = shape(port)
    x = b.input(own, with_shape(type_, [*sizes[:axis], size, *sizes[axis:]]))
    program.view.bind(key, b.transpose(x, [axis, *(d for d in range(rank(x)) if d != axis)]))
    return InputPort(port.name, x.type, own)


def _output(
    b: StablehloBuilder, port: OutputPort, results: Mapping[Value, Value | None], size: int, axis: int | None
) -> OutputPort:
    """Returns the output of the batched program for `port`, with the batch dimension at `axis`.

    If `axis` is None, the output must not be batched. `results` maps the value of each output that is not a symbolic
    `Zero` to its value in the batched graph.
    """
    value = None if isinstance(port.value, Zero) else results.get(port.value)
    batched = value is not None and value.type != port.type
    if axis is None:
        if batched:
            raise RequestError(f"out_axes: {port.name!r} depends on a batched input and needs an axis")
        return replace(port, attributes=shardings_among(port.attributes))
    type_ = stacked(port.type, size)
    sizes = shape(port)
    moved = with_shape(type_, [*sizes[:axis], size, *sizes[axis:]])
    if value is None:
        return OutputPort(port.name, moved, Zero(moved))
    others = range(1, type_.rank)
    if not batched:
        return OutputPort(
            port.name, moved, b.broadcast_in_dim(value, [d for d in range(moved.rank) if d != axis], moved)
        )
    order = [*others[:axis], 0, *others[axis:]]
    return OutputPort(port.name, moved, value if axis == 0 else b.transpose(value, order))
