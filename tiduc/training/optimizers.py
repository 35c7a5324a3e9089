"""Optimizers: the update of a parameter p, given its gradient g and the learning rate r.

               new value of p                                                                    state
    sgd        p - r g                                                                           none
    momentum   p - r v,  where  v = m v + g                                                      v
    adam       p - r / (1 - b^n) m / (sqrt(v) / sqrt(1 - c^n) + e),  where                       m, v, and n, the
               m = b m + (1 - b) g,  v = c v + (1 - c) g^2                                       number of the step
    adamw      as adam, with (1 - r d) p instead of p                                            as adam
    lion       p - r (sign(b m + (1 - b) g) + d p),  then  m = c m + (1 - c) g                   m

`sgd`, `adam` and `adamw` compute the updates of PyTorch's `SGD`, `Adam` and `AdamW`. All initial states are zeros, and
all parameters share n. The decay d is 0 for parameters whose name matches no pattern of `decay` in `train_step`.
Sources: Kingma, Ba, "Adam: A Method for Stochastic Optimization" (2015), algorithm 1; Loshchilov, Hutter, "Decoupled
Weight Decay Regularization" (2019), algorithm 2; Chen et al., "Symbolic Discovery of Optimization Algorithms" (2023),
program 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, log
from typing import Any

from torch_mlir import ir

from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.errors import RequestError
from tiduc.dialect.graph.graph import Value
from tiduc.dialect.shapes.types import element, rank, shape


@dataclass(frozen=True)
class Sgd:
    """Gradient descent."""

    state_names: tuple[str, ...] = ()  # the names of state arrays that have the parameter's shape
    counts = False  # whether `update` reads the number of the step

    def update(
        self, b: StablehloBuilder, p: Value, g: Value, state: Sequence[Value], rate: Value, step: Value | None
    ) -> tuple[Any, list[Any]]:
        """Returns the new value of the parameter `p`, and an empty list, because the optimizer has no state."""
        return _less(b, p, rate, g), []


@dataclass(frozen=True)
class Momentum:
    """Gradient descent along a decaying sum of gradients."""

    momentum: float = 0.9
    state_names: tuple[str, ...] = ("velocity",)
    counts = False

    def __post_init__(self) -> None:
        _is_fraction("momentum", self.momentum)

    def update(
        self, b: StablehloBuilder, p: Value, g: Value, state: Sequence[Value], rate: Value, step: Value | None
    ) -> tuple[Any, list[Any]]:
        """Returns the new value of the parameter `p`, and its new velocity."""
        velocity = b.add(b.multiply(b.constant(self.momentum, p), state[0]), g)
        return _less(b, p, rate, velocity), [velocity]


@dataclass(frozen=True)
class Adam:
    """Adam. Each element of a parameter changes by about the learning rate, whatever the size of the gradient is."""

    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    state_names: tuple[str, ...] = ("first_moment", "second_moment")
    counts = True

    def __post_init__(self) -> None:
        _is_fraction("beta1", self.beta1)
        _is_fraction("beta2", self.beta2)
        if not 0 <= self.epsilon < inf:
            raise RequestError(f"epsilon must be at least 0, not {self.epsilon}")

    def update(
        self, b: StablehloBuilder, p: Value, g: Value, state: Sequence[Value], rate: Value, step: Value | None
    ) -> tuple[Any, list[Any]]:
        """Returns the new value of the parameter `p`, and the new moments of its gradient."""
        first = _mixed(b, self.beta1, state[0], g)
        second = _mixed(b, self.beta2, state[1], b.multiply(g, g))
        spread = b.divide(b.sqrt(second), _filled(b, b.sqrt(_bias(b, self.beta2, step)), p))
        direction = b.divide(first, b.add(spread, b.constant(self.epsilon, p)))
        return _less(b, p, b.divide(rate, _bias(b, self.beta1, step)), direction), [first, second]


@dataclass(frozen=True)
class AdamW(Adam):
    """Adam with decoupled weight decay."""

    weight_decay: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        _is_positive("weight_decay", self.weight_decay)

    def update(
        self, b: StablehloBuilder, p: Value, g: Value, state: Sequence[Value], rate: Value, step: Value | None
    ) -> tuple[Any, list[Any]]:
        """Returns the new value of the parameter `p`, and the new moments of its gradient."""
        return super().update(b, _decayed(b, p, rate, self.weight_decay), g, state, rate, step)


@dataclass(frozen=True)
class Lion:
    """Lion. Each element of a parameter changes by the learning rate, against the sign of a mean of gradients."""

    beta1: float = 0.9
    beta2: float = 0.99
    weight_decay: float = 0.0
    state_names: tuple[str, ...] = ("first_moment",)
    counts = False

    def __post_init__(self) -> None:
        _is_fraction("beta1", self.beta1)
        _is_fraction("beta2", self.beta2)
        _is_positive("weight_decay", self.weight_decay)

    def update(
        self, b: StablehloBuilder, p: Value, g: Value, state: Sequence[Value], rate: Value, step: Value | None
    ) -> tuple[Any, list[Any]]:
        """Returns the new value of the parameter `p`, and the new moment of its gradient."""
        mixed = _mixed(b, self.beta1, state[0], g)
        direction = b.emit("stablehlo.sign", (mixed,), mixed.type)
        decayed = _decayed(b, p, rate, self.weight_decay)
        return _less(b, decayed, rate, direction), [_mixed(b, self.beta2, state[0], g)]


Optimizer = Sgd | Momentum | Adam | AdamW | Lion
OPTIMIZERS: dict[str, type[Optimizer]] = {
    "sgd": Sgd,
    "momentum": Momentum,
    "adam": Adam,
    "adamw": AdamW,
    "lion": Lion,
}


def optimizer(name: str, **settings: float) -> Optimizer:
    """Returns the optimizer `name` with some settings, such as `beta1`.

    Raises `RequestError` for an unknown name or setting, and for a setting that is out of range.
    """
    if name not in OPTIMIZERS:
        raise RequestError(f"unknown optimizer {name!r}; there are {', '.join(OPTIMIZERS)}")
    try:
        return OPTIMIZERS[name](**settings)  # type: ignore[arg-type]
    except TypeError:
        raise RequestError(f"{name} has no setting {', '.join(settings)}") from None


def _is_fraction(name: str, value: float) -> None:
    if not 0 <= value < 1:
        raise RequestError(f"{name} must be at least 0 and less than 1, not {value}")


def _is_positive(name: str, value: float) -> None:
    if not 0 <= value < inf:
        raise RequestError(f"{name} must be at least 0, not {value}")


def without_decay(chosen: Optimizer) -> Optimizer:
    """Returns the optimizer with the weight decay 0. An optimizer without weight decay is returned unchanged."""
    return replace(chosen, weight_decay=0.0) if isinstance(chosen, AdamW | Lion) else chosen


def clipping(b: StablehloBuilder, gradients: Sequence[Value], largest: float) -> Value:
    """Returns the factor min(1, largest / norm) for gradients.

    The norm is the Euclidean norm of all gradients together.

    The result is an f32 scalar, or f64 if a gradient is f64. Unlike PyTorch's `clip_grad_norm_`, this function does not
    add 1e-6 to the norm.
    """
    _is_positive("clip_norm", largest)
    total = b.constant(0.0, ir.RankedTensorType.get([], ir.F32Type.get()))
    for g in gradients:
        square = b.reduce_sum(b.multiply(g, g), range(rank(g)))
        widest = max(element(total), element(square), key=lambda type_: type_.width)
        total = b.add(b.convert(total, widest), b.convert(square, widest))
    factor = b.divide(b.constant(largest, total), b.sqrt(total))
    return b.emit("stablehlo.minimum", (b.constant(1.0, total), factor), total.type)


def scaled(b: StablehloBuilder, factor: Value, g: Value) -> Value:
    """Returns the gradient `g` times the scalar `factor`."""
    return b.multiply(_filled(b, factor, g), g)


def _decayed(b: StablehloBuilder, p: Value, rate: Value, decay: float) -> Value:
    """Computes (1 - rate decay) p."""
    return p if not decay else _less(b, p, b.multiply(rate, b.constant(decay, rate)), p)


def _mixed(b: StablehloBuilder, old: float, x: Value, y: Value) -> Value:
    return b.add(b.multiply(b.constant(old, x), x), b.multiply(b.constant(1 - old, x), y))


def _bias(b: StablehloBuilder, beta: float, step: Value | None) -> Value:
    """Computes 1 - beta^step as -expm1(step log beta), which avoids cancellation if beta is near 1."""
    assert step is not None  # because `counts` is set
    if not beta:
        return b.constant(1, step)
    power = b.multiply(step, b.constant(log(beta), step))
    return b.negate(b.emit("stablehlo.exponential_minus_one", (power,), power.type))


def _less(b: StablehloBuilder, p: Value, rate: Value, direction: Value) -> Value:
    """Computes p - rate direction."""
    return b.subtract(p, b.multiply(_filled(b, rate, p), direction))


def _filled(b: StablehloBuilder, scalar: Value, p: Value) -> Value:
    """Emits ops that convert a scalar to the element type of p and broadcast it to the shape of p."""
    return b.broadcast_in_dim(b.convert(scalar, element(p)), [], shape(p))
