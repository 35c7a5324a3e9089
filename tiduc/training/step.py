"""train_step: makes one program of a model, its loss, the gradient of the loss, and an optimizer.

    (parameters..., optimizer state..., buffers..., seed, frozen weights..., inputs..., targets..., rate)
        -> (loss, new parameters..., new optimizer state..., new buffers..., new seed)

Each output except the loss is the new value of the input with the output's name. The program writes it into the memory
of that input, so that a loop over batches copies no parameter. If the model draws random numbers, the program has an
input for their seed. The second word of the seed counts the steps, so that different steps draw different numbers. The
forward and the backward pass of a step draw equal numbers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
from torch_mlir import ir

from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.errors import RequestError
from tiduc.dialect.graph.graph import Value
from tiduc.dialect.mlir.context import stage
from tiduc.dialect.ops.verify import HELD
from tiduc.dialect.shapes.types import element, is_float, with_element
from tiduc.models.model import Model
from tiduc.passes.materialize_merge import Zero
from tiduc.ports import InputPort, OutputPort, described, held_because, with_attributes, with_ports
from tiduc.program import Program
from tiduc.runtime.arrays import Array
from tiduc.runtime.random_seed import MOST, is_random_seed, random_seed
from tiduc.training.accumulate import Accumulation
from tiduc.training.identity import check_identity, identity_of
from tiduc.training.losses import UPDATED, wide, with_loss
from tiduc.training.optimizers import Optimizer, clipping, scaled, without_decay
from tiduc.training.optimizers import optimizer as optimizer_of
from tiduc.training.precision import F16, F32, LossScale, Unscaled, with_precision
from tiduc.training.quantization import quantized
from tiduc.training.roles import (
    FROZEN,
    INPUT,
    RATE,
    STATE,
    TARGET,
    with_role,
)
from tiduc.training.shipment import TrainStep, as_step, with_inference

DONATED = "iree.abi.output"
"""The name of an attribute of inputs. Its value is the index of the output that overwrites the input."""

BUFFERS = ("*running_mean", "*running_var")
"""Patterns of the names of weights that the optimizer does not update by default: running statistics of PyTorch."""


@stage
def train_step(
    model: Program,
    loss: str | Program = "mse",
    optimizer: str = "sgd",
    *,
    train: Sequence[str] = (),
    freeze: Sequence[str] = BUFFERS,
    decay: Sequence[str] = ("*",),
    clip_norm: float | None = None,
    accumulate: int = 1,
    precision: str = F32,
    quantize: str = "",
    seed: int = 0,
    infer: Program | None = None,
    identity: str = "",
    **settings: float,
) -> TrainStep:
    """Returns the training step of a model.

    Its `weights` are those of the model, zeros for the state of the optimizer, and the seed of random numbers, which
    depends on `seed`. With `infer`, the model in evaluation mode, the compiled step also has the functions `loss` and
    `infer`. `identity` names the model in the files of a state; the default is a hash of the model.

    `loss` is "mse", "softmax-cross-entropy", "none" if the model's output is the loss, or a program that takes the
    model's outputs and the targets. `optimizer` is "sgd", "momentum" (momentum), "adam" (beta1, beta2, epsilon),
    "adamw" (also weight_decay) or "lion" (beta1, beta2, weight_decay). Its `settings` are in parentheses. Weight decay
    applies only to parameters that match `decay`. `clip_norm` is the largest norm of all gradients together; if the
    norm exceeds it, the gradients are scaled down. With `accumulate` K, every K-th call updates the parameters by the
    mean gradient of K batches. `precision` is the element type of matrix products, which is "f32", "bf16" or "f16"; for
    f16, the state has a loss scale. `quantize` is "int8", "int4", or "int4:32" for groups of 32: frozen matrices are
    then stored as integers with scales. `train` are patterns, as for file names, of the names of the parameters to
    train; the default is all float weights of a `Model` that are not in `Model.held`. Parameters that match `freeze` or
    do not affect the loss do not change. Raises `RequestError` if no parameter is left or one is not float.
    """
    check_identity(identity)
    chosen = optimizer_of(optimizer, **settings)
    names = trained_names(model, train, freeze)
    if quantize:
        model, infer = quantized(model, quantize, names), infer and quantized(infer, quantize, names)
    weights = dict(model.weights) if isinstance(model, Model) else {}
    lossy = with_loss(with_precision(model, precision), loss)
    scale = _scale(lossy, precision, accumulate)
    updated = {port.name.removesuffix(UPDATED): port for port in lossy.outputs[1:]}
    gradient, parameters = _gradient(lossy, scale, names)
    added, values = _update(gradient, parameters, chosen, decay, clip_norm, accumulate, scale)
    *states, rate = with_ports(gradient.inputs, added)[len(gradient.inputs) :]
    scales = [port for port in gradient.inputs if scale and port.key in scale.keys]
    buffers = [port for port in gradient.inputs if port.name in updated]
    seeds = [port for port in gradient.inputs if is_random_seed(described(port))]
    places = _with_roles(parameters, [*states, *scales], buffers, seeds)
    results = [*values, *(updated[port.name].value for port in buffers), *_next_seeds(gradient, seeds)]
    rest = [port for port in gradient.inputs if port not in (*parameters, *scales, *buffers, *seeds)]
    fixed = [_fixed(port, model, weights, names) for port in _weights_first(rest, weights)]
    donated = [_donated(port, i) for i, port in enumerate(places, start=1)]
    new = [OutputPort(port.name, port.type, value) for port, value in zip(places, results, strict=True)]
    inputs = (*donated, *fixed, with_role(rate, RATE))
    program = replace(gradient, inputs=inputs, outputs=(gradient.outputs[0], *new))
    arrays = {**weights, **_zeros(states), **_seeds(seed, seeds), **(scale.initial() if scale else {})}
    step = as_step(program, arrays, identity or identity_of(model))
    return step if infer is None else with_inference(step, infer, loss)


def _with_roles(*ports: Sequence[InputPort]) -> list[InputPort]:
    """Gives each input that a step updates its role. Each argument lists the inputs for one role of `STATE`."""
    return [with_role(port, role) for role, each in zip(STATE, ports, strict=True) for port in each]


def _weights_first(ports: Sequence[InputPort], weights: Mapping[str, Array]) -> list[InputPort]:
    """Sorts the inputs so that weights precede all other inputs. The order is otherwise kept."""
    return sorted(ports, key=lambda port: port.name not in weights)


def _seeds(seed: int, ports: Sequence[InputPort]) -> dict[str, Array]:
    """Returns the initial values of the seeds `ports`. Raises `RequestError` if `seed` is out of range."""
    if not 0 <= seed <= MOST:
        raise RequestError(f"seed must be from 0 to {MOST}, not {seed}")
    return {port.name: random_seed(seed, i) for i, port in enumerate(ports)}


def _scale(lossy: Program, precision: str, accumulate: int) -> LossScale | None:
    """Returns the loss scale if the precision is f16, else None.

    Raises `RequestError` for f16 with gradient accumulation.
    """
    if precision != F16:
        return None
    if accumulate != 1:
        raise RequestError("the precision f16 is not supported with accumulate: use bf16")
    return LossScale(lossy)


def _gradient(
    lossy: Program, scale: LossScale | None, names: Sequence[str]
) -> tuple[Program, list[InputPort]]:
    """Returns the program that computes the loss and its gradient, and the parameters that affect the loss.

    With `scale`, the gradient is that of the scaled loss. Parameters that do not affect the loss are left out, because
    weight decay would change them; PyTorch's optimizers do not change them, either. Raises `RequestError` if no
    parameter is left.
    """
    minimized = scale.program if scale else replace(lossy, outputs=lossy.outputs[:1])
    gradient = minimized.grad(names, value=True)
    slopes = dict(zip(names, gradient.outputs[1:], strict=True))
    reached = {name: port for name, port in slopes.items() if not isinstance(port.value, Zero)}
    if not reached:
        raise RequestError(f"the loss has no derivative in any parameter: {', '.join(names)}")
    parameters = [port for port in gradient.inputs if port.name in reached]
    outputs = [
        lossy.outputs[0] if scale else gradient.outputs[0],
        *(reached[port.name] for port in parameters),
    ]
    return replace(gradient, outputs=tuple(outputs)), parameters


def _fixed(port: InputPort, model: Program, weights: Mapping[str, Array], names: Sequence[str]) -> InputPort:
    """Gives an input that the step does not update its role. A weight also gets the reason why it is not updated."""
    if port.name not in weights:
        return with_role(port, INPUT if port.name in {x.name for x in model.inputs} else TARGET)
    if held_because(port) and port.name not in names:
        return with_role(port, FROZEN)
    reason = "the loss has no derivative in it" if port.name in names else "frozen"
    reason = reason if is_float(port.type) else "no floats"
    return with_role(with_attributes(port, {HELD: ir.StringAttr.get(reason)}), FROZEN)


def _update(
    gradient: Program,
    parameters: Sequence[InputPort],
    chosen: Optimizer,
    decay: Sequence[str],
    clip_norm: float | None,
    accumulate: int,
    scale: LossScale | None,
) -> tuple[list[InputPort], list[Value]]:
    """Emits the update of the parameters and of the optimizer's state.

    Returns the added inputs, which are the optimizer's state and the learning rate, and the new values of the
    parameters and of the state. Parameters narrower than f32 are updated in f32, because sums of many small updates
    need this precision.
    """
    b: Any = gradient.opset.builder(gradient.view, gradient.view.fresh("update"))
    rate, step = _scalar(b, "rate"), _scalar(b, "step")
    r = b.input(rate.key, rate.type)
    old_n = b.input(step.key, step.type) if chosen.counts else None
    n = b.add(old_n, b.constant(1, step.type)) if chosen.counts else None
    slopes = []
    for port, slope in zip(parameters, gradient.outputs[1:], strict=True):
        p = gradient.view.input(port.key)
        slopes.append(b.convert(slope.value, wide(element(p))))
    sums = Accumulation(b, parameters, slopes, accumulate) if accumulate != 1 else None
    finite = Unscaled(b, [gradient.view.input(key) for key in scale.keys], slopes) if scale else None
    chooser = sums or finite
    slopes = slopes if chooser is None else chooser.slopes

    def taken(value: Value, old: Value) -> Value:
        return value if chooser is None else chooser.new_or_old(value, old)

    states, new = [step][: chosen.counts], []
    kept = [] if n is None or old_n is None else [taken(n, old_n)]
    if clip_norm is not None:
        factor = clipping(b, slopes, clip_norm)
        slopes = [scaled(b, factor, g) for g in slopes]
    for port, g in zip(parameters, slopes, strict=True):
        p = gradient.view.input(port.key)
        type_ = with_element(port.type, wide(element(p)))
        beside = [
            InputPort(f"{port.name}.{state_name}", type_, f"{b.graph.name}.{port.key}.{state_name}")
            for state_name in chosen.state_names
        ]
        state = [b.input(each.key, each.type) for each in beside]
        decays = any(fnmatchcase(port.name, pattern) for pattern in decay)
        own = chosen if decays else without_decay(chosen)
        new_p, more = own.update(b, b.convert(p, element(type_)), g, state, r, n)
        states += beside
        new.append(taken(b.convert(new_p, element(p)), p))
        kept += [taken(value, old) for value, old in zip(more, state, strict=True)]
    if sums is not None:
        states, kept = [*states, *sums.ports], [*kept, *sums.values]
    if finite is not None:
        kept = [*kept, *finite.values]
    b.finish([*new, *kept])
    return [*states, rate], [*new, *kept]


def _next_seeds(program: Program, seeds: Sequence[InputPort]) -> list[Value]:
    """Emits the seeds of the next step: the second word of each seed is increased by 1."""
    b: Any = program.opset.builder(program.view, program.view.fresh("next"))
    old = [program.view.input(port.key) for port in seeds]
    new = [b.add(x, b.constant([0, 1], x)) for x in old]
    b.finish(new)
    return new


def trained_names(model: Program, train: Sequence[str], freeze: Sequence[str]) -> list[str]:
    """Returns the names of the parameters to train, in the order of the inputs.

    Only float inputs can be parameters. If the model has weights, only float weights can be parameters. `train` and
    `freeze` are patterns as in `train_step`. Raises `RequestError` if there is no parameter to train, and if `train`
    contains the name of an input that cannot be a parameter.
    """
    trained: list[str] = []
    frozen: list[str] = []
    weights = model.weights if isinstance(model, Model) else {}
    held = model.held if isinstance(model, Model) else {}
    left = {
        *held,
        *(port.name.removesuffix(UPDATED) for port in model.outputs if port.name.endswith(UPDATED)),
    }
    for port in model.inputs:
        is_able = is_float(port.type) and not is_random_seed(described(port))
        if port.name in train and not is_able:
            raise RequestError(f"input {port.name!r} of type {port.type} cannot be trained")
        if port.name in train and weights and port.name not in weights:
            raise RequestError(f"{port.name!r} is an input of the model, not a weight: it cannot be trained")
        is_able = is_able and (port.name in weights or (bool(train) and not weights))
        is_wanted = (
            any(fnmatchcase(port.name, pattern) for pattern in train) if train else port.name not in left
        )
        if is_able and is_wanted:
            is_frozen = any(fnmatchcase(port.name, pattern) for pattern in freeze)
            (frozen if is_frozen else trained).append(port.name)
    if not trained and frozen:
        raise RequestError(f"no parameter is left to train; frozen: {', '.join(frozen)}")
    if not trained and held:
        listed = ", ".join(f"{name} ({reason})" for name, reason in held.items())
        raise RequestError(f"no parameter is left to train: name some; held: {listed}")
    if not trained:
        names = ", ".join(port.name for port in model.inputs)
        raise RequestError(f"no input is a parameter: name some; the inputs are {names or 'none'}")
    return trained


def _scalar(b: StablehloBuilder, name: str) -> InputPort:
    return InputPort(name, ir.RankedTensorType.get([], ir.F32Type.get()), f"{b.graph.name}.{name}")


def _donated(port: InputPort, output: int) -> InputPort:
    return with_attributes(port, {DONATED: ir.IntegerAttr.get(ir.IndexType.get(), output)})


def _zeros(ports: Sequence[InputPort]) -> dict[str, Array]:
    types = {port.name: described(port).type for port in ports}
    return {name: np.zeros(type_.shape, type_.dtype) for name, type_ in types.items()}
