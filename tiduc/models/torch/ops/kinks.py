"""Decompositions of PyTorch functions with kinks, so that the derivative at the kink equals PyTorch's.

torch-mlir lowers a ReLU to a maximum, for example, whose derivative at a tie is one half, as in JAX;
PyTorch's is zero. A select between two formulas has the derivative of the selected formula.
"""

from typing import Any

from tiduc.models.torch.ops.complexes import magnitude
from tiduc.models.torch.ops.fills import as_tensors
from tiduc.models.torch.ops.framework import TABLE, aten, decomposes, torch

where = torch.where

_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946
"""The constants of self-normalizing networks: Klambauer et al. 2017, equation 14."""


@decomposes(aten.abs.default)
def abs_(x: torch.Tensor) -> torch.Tensor:
    if x.is_complex():
        return magnitude(x)
    return x * torch.sign(x) if x.is_floating_point() else NotImplemented


def _slope_at_bound() -> float:
    """The derivative of PyTorch's `clamp` at a bound: one before version 2.15, and zero since that version."""
    with torch.enable_grad():
        x = torch.zeros((), requires_grad=True)
        (slope,) = torch.autograd.grad(x.clamp(min=0), x)
    return float(slope)


_BELOW, _ABOVE = (torch.lt, torch.gt) if _slope_at_bound() else (torch.le, torch.ge)


@decomposes(*(getattr(op, kind) for op in (aten.clamp, aten.clamp_min) for kind in ("default", "Tensor")))
def clamp(x: torch.Tensor, low: int | None = None, high: int | None = None) -> Any:
    """x clamped to two bounds. A tensor `low` has derivative zero where it equals `high`."""
    if isinstance(low, torch.Tensor) and isinstance(high, torch.Tensor):
        low = where(low == high, low.detach(), low)
    x = x if low is None else where(_BELOW(x, low), low, x)
    return x if high is None else where(_ABOVE(x, high), high, x)


@decomposes(aten.copysign.Tensor, aten.copysign.Scalar)
def copysign(x: float | torch.Tensor, y: float | torch.Tensor) -> Any:
    """|x| with the sign of y; the derivative at x = 0 is zero."""
    x, y = as_tensors(x, y)
    size = abs_(x if x.is_floating_point() else x.float())
    return where(torch.signbit(y), -size, size)


@decomposes(aten.fmax.default)
def fmax(x: torch.Tensor, y: torch.Tensor) -> Any:
    """The maximum; a NaN is ignored if the other operand is a number.

    For equal operands, the first has the derivative.
    """
    x, y = as_tensors(x, y)
    return where((x >= y) | torch.isnan(y), x, y)


@decomposes(aten.fmin.default)
def fmin(x: torch.Tensor, y: torch.Tensor) -> Any:
    x, y = as_tensors(x, y)
    return where((x <= y) | torch.isnan(y), x, y)


@decomposes(aten.hardtanh.default)
def hardtanh(x: torch.Tensor, low: float = -1, high: float = 1) -> torch.Tensor:
    """The derivative at a bound is zero."""
    x = where(x <= low, low, x)
    return where(x >= high, high, x)


@decomposes(aten.elu.default)
def elu(x: torch.Tensor, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> torch.Tensor:
    """At zero, the first derivative is the one from below, and the second derivative is zero."""
    below = where(x < 0, x, 0)  # keeps exp(x) from overflowing in the branch that is not selected
    above = where(x == 0, x * (alpha * input_scale), x) * scale
    return where(x < 0, torch.expm1(below * input_scale) * (alpha * scale), above)


@decomposes(aten.log_sigmoid_forward.default)
def log_sigmoid_forward(x: torch.Tensor) -> Any:
    """-log(1 + exp(-x)), split into two parts that are smooth at zero, so that the second derivative is right there."""
    above, below = where(x > 0, x, 0), where(x > 0, 0, x)
    y = where(x > 0, -torch.log1p(torch.exp(-above)), below - torch.log1p(torch.exp(below)))
    return y, x.new_zeros([0])


@decomposes(aten.rrelu.default)
def rrelu(
    x: torch.Tensor,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    generator: torch.Generator | None = None,
) -> Any:
    return NotImplemented if training else where(x > 0, x, x * ((lower + upper) / 2))


@decomposes(aten.remainder.Scalar, aten.remainder.Tensor, aten.remainder.Scalar_Tensor)
def remainder(x: float | torch.Tensor, y: float | torch.Tensor) -> torch.Tensor:
    """x - floor(x / y) y; the derivative with respect to y is -floor(x / y)."""
    x, y = as_tensors(x, y)
    rest = torch.fmod(x, y)
    return where((rest != 0) & ((rest < 0) != (y < 0)), rest + y, rest)


def _between(y: torch.Tensor, x: torch.Tensor, above: torch.Tensor) -> torch.Tensor:
    """y where x is between -3 and 3, 0 where x is less, and `above` where x is greater.

    The comparisons are with x, because y may be rounded at the ends.
    """
    return where(x <= -3, 0, where(x >= 3, above, y))


TABLE[aten.celu.default] = lambda x, alpha=1: elu(x, alpha, 1, 1 / alpha)
TABLE[aten.clamp_max.default] = TABLE[aten.clamp_max.Tensor] = lambda x, high: clamp(x, None, high)
TABLE[aten._prelu_kernel.default] = lambda x, weight: where(x > 0, x, x * weight)
TABLE[aten.hardsigmoid.default] = lambda x: _between(x / 6 + 0.5, x, 1)
TABLE[aten.hardswish.default] = lambda x: _between(x * (x + 3) / 6, x, x)
TABLE[aten.leaky_relu.default] = lambda x, slope=0.01: where(x > 0, x, x * slope)
TABLE[aten.relu.default] = lambda x: where(x <= 0, 0, x)
TABLE[aten.selu.default] = lambda x: elu(x, _SELU_ALPHA, _SELU_SCALE)
