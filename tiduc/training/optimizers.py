"""Optimizers: the update of a parameter p, given its gradient g and the learning rate r.

    sgd        p - r g
    momentum   v = m v + g;  p - r v                                                             keeps v
    adam       m = b m + (1 - b) g;  v = c v + (1 - c) g^2;                                      keeps m, v,
               p - r / (1 - b^n) m / (sqrt(v) / sqrt(1 - c^n) + e), at step n                    and one n for all
    adamw      adam's step, from (1 - r d) p                                                     as adam
    lion       p - r (sign(b m + (1 - b) g) + d p);  m = c m + (1 - c) g                         keeps m

`sgd`, `adam` and `adamw` compute the same updates as PyTorch's `SGD`, `Adam` and `AdamW`. States begin with zeros. The
decay d is 0 for parameters whose name matches no pattern of `decay` in `train_step`. Sources: Kingma, Ba, "Adam: A
Method for Stochastic Optimization" (2015), algorithm 1; Loshchilov, Hutter, "Decoupled Weight Decay Regularization"
(2019), algorithm 2; Chen et al., "Symbolic Discovery of Optimization Algorithms" (2023), program 1.
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

    state_names: tuple[str, ...] = ()  # the state arrays of each parameter, of its shape
    counts = False  # whether `update` needs the number of the step

    def update(
        self, b: StablehloBuilder, p: Value, g: Value, state: Sequence[Value], rate: Value, step: Value | None
    ) -> tuple[Any, list[Any]]:
        """The new parameter, and its new state."""
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
        """The new parameter, and its new velocity."""
        velocity = b.add(b.multiply(b.constant(self.momentum, p), state[0]), g)
        return _less(b, p, rate, velocity), [velocity]


@dataclass(frozen=True)
class Adam:
    """Adam: each entry changes by about the learning rate, for gradients of any size."""

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
        """The new parameter, and the new moments of its gradient."""
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
        """The new parameter, and the new moments of its gradient."""
        return super().update(b, _decayed(b, p, rate, self.weight_decay), g, state, rate, step)


@dataclass(frozen=True)
class Lion:
    """Lion: each entry changes by the learning rate, against the sign of a weighted mean of gradients."""

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
        """The new parameter, and the new moment of its gradient."""
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
    """The optimizer with a name; raises `RequestError` for an unknown name or setting, or a setting out of range."""
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
    """The optimizer with weight decay 0, for a parameter that does not decay."""
    return replace(chosen, weight_decay=0.0) if isinstance(chosen, AdamW | Lion) else chosen


def clipping(b: StablehloBuilder, gradients: Sequence[Value], largest: float) -> Value:
    """The scalar min(1, largest / norm), in f32 or f64. The norm is the Euclidean norm of all gradients together.

    PyTorch's `clip_grad_norm_` adds 1e-6 to the norm; this function does not.
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
    """A gradient times a scalar."""
    return b.multiply(_filled(b, factor, g), g)


def _decayed(b: StablehloBuilder, p: Value, rate: Value, decay: float) -> Value:
    """(1 - rate decay) p."""
    return p if not decay else _less(b, p, b.multiply(rate, b.constant(decay, rate)), p)


def _mixed(b: StablehloBuilder, old: float, x: Value, y: Value) -> Value:
    return b.add(b.multiply(b.constant(old, x), x), b.multiply(b.constant(1 - old, x), y))


def _bias(b: StablehloBuilder, beta: float, step: Value | None) -> Value:
    """1 - beta^step, as -expm1(step log beta), which avoids cancellation if beta is near 1."""
    assert step is not None  # `counts` is set
    if not beta:
        return b.constant(1, step)
    power = b.multiply(step, b.constant(log(beta), step))
    return b.negate(b.emit("stablehlo.exponential_minus_one", (power,), power.type))


def _less(b: StablehloBuilder, p: Value, rate: Value, direction: Value) -> Value:
    """p - rate direction."""
    return b.subtract(p, b.multiply(_filled(b, rate, p), direction))


def _filled(b: StablehloBuilder, scalar: Value, p: Value) -> Value:
    """A scalar, converted to p's element type and broadcast to p's shape."""
    return b.broadcast_in_dim(b.convert(scalar, element(p)), [], shape(p))
