"""Decompositions of PyTorch functions with kinks, so that the derivative at a kink equals PyTorch's.

For example, torch-mlir lowers a ReLU to a maximum with 0. If the operands of a maximum are equal, its derivative is one
half, as in JAX, but PyTorch's derivative of a ReLU at zero is zero. The decompositions use selects between two
formulas, because a select has the derivative of the selected formula.
"""

from typing import Any

from tiduc.models.torch.ops.complexes import magnitude
from tiduc.models.torch.ops.fills import as_tensors
from tiduc.models.torch.ops.framework import TABLE, aten, decomposes, torch

where = torch.where

_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946
"""The constants alpha and lambda of the SELU. Source: Klambauer et al. 2017, equation 14."""


@decomposes(aten.abs.default)
def abs_(x: torch.Tensor) -> torch.Tensor:
    if x.is_complex():
        return magnitude(x)
    return x * torch.sign(x) if x.is_floating_point() else NotImplemented


def _slope_at_bound() -> float:
    """The derivative of PyTorch's `clamp` at a bound. It is one before version 2.15, and zero since that version."""
    with torch.enable_grad():
        x = torch.zeros((), requires_grad=True)
        (slope,) = torch.autograd.grad(x.clamp(min=0), x)
    return float(slope)


_BELOW, _ABOVE = (torch.lt, torch.gt) if _slope_at_bound() else (torch.le, torch.ge)


@decomposes(*(getattr(op, kind) for op in (aten.clamp, aten.clamp_min) for kind in ("default", "Tensor")))
def clamp(x: torch.Tensor, low: int | None = None, high: int | None = None) -> Any:
    """Clamps x to [low, high]. If both bounds are tensors, the derivative toward `low` is zero where they are equal."""
    if isinstance(low, torch.Tensor) and isinstance(high, torch.Tensor):
        low = where(low == high, low.detach(), low)
    x = x if low is None else where(_BELOW(x, low), low, x)
    return x if high is None else where(_ABOVE(x, high), high, x)


@decomposes(aten.copysign.Tensor, aten.copysign.Scalar)
def copysign(x: float | torch.Tensor, y: float | torch.Tensor) -> Any:
    """The absolute value of x with the sign of y. The derivative at x = 0 is zero."""
    x, y = as_tensors(x, y)
    size = abs_(x if x.is_floating_point() else x.float())
    return where(torch.signbit(y), -size, size)


@decomposes(aten.fmax.default)
def fmax(x: torch.Tensor, y: torch.Tensor) -> Any:
    """The maximum. If exactly one operand is NaN, the result is the other operand.

    If the operands are equal, the derivative is one toward the first operand, and zero toward the second.
    """
    x, y = as_tensors(x, y)
    return where((x >= y) | torch.isnan(y), x, y)


@decomposes(aten.fmin.default)
def fmin(x: torch.Tensor, y: torch.Tensor) -> Any:
    x, y = as_tensors(x, y)
    return where((x <= y) | torch.isnan(y), x, y)


@decomposes(aten.hardtanh.default)
def hardtanh(x: torch.Tensor, low: float = -1, high: float = 1) -> torch.Tensor:
    """Clamps x to [low, high]. The derivative at a bound is zero."""
    x = where(x <= low, low, x)
    return where(x >= high, high, x)


@decomposes(aten.elu.default)
def elu(x: torch.Tensor, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> torch.Tensor:
    """The exponential linear unit. At zero, its first derivative is the one from below, and its second one is zero."""
    below = where(x < 0, x, 0)  # keeps exp(x) from overflowing in the branch that is not selected
    above = where(x == 0, x * (alpha * input_scale), x) * scale
    return where(x < 0, torch.expm1(below * input_scale) * (alpha * scale), above)


@decomposes(aten.log_sigmoid_forward.default)
def log_sigmoid_forward(x: torch.Tensor) -> Any:
    """Computes -log(1 + exp(-x)), as one of two formulas that are smooth at zero.

    The second derivative at zero is therefore right.
    """
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
    """Computes x - floor(x / y) y. The derivative with respect to y is -floor(x / y)."""
    x, y = as_tensors(x, y)
    rest = torch.fmod(x, y)
    return where((rest != 0) & ((rest < 0) != (y < 0)), rest + y, rest)


def _between(y: torch.Tensor, x: torch.Tensor, above: torch.Tensor) -> torch.Tensor:
    """y where -3 < x < 3, zero where x <= -3, and `above` where x >= 3.

    The comparisons use x instead of y, because y may be rounded near the bounds.
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
