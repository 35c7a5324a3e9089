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
def abs_(x: Any) -> Any:
    if x.is_complex():
        return magnitude(x)
    return x * torch.sign(x) if x.is_floating_point() else NotImplemented


def _slope_at_bound() -> float:
    """The derivative of PyTorch's `clamp` at a bound: one before version 2.15, and zero from then on."""
    with torch.enable_grad():
        x = torch.zeros((), requires_grad=True)
        (slope,) = torch.autograd.grad(x.clamp(min=0), x)
    return float(slope)


_BELOW, _ABOVE = (torch.lt, torch.gt) if _slope_at_bound() else (torch.le, torch.ge)


@decomposes(aten.clamp.default, aten.clamp_min.default)
def clamp(x: Any, low: Any = None, high: Any = None) -> Any:
    x = x if low is None else where(_BELOW(x, low), low, x)
    return x if high is None else where(_ABOVE(x, high), high, x)


@decomposes(aten.hardtanh.default)
def hardtanh(x: Any, low: Any = -1, high: Any = 1) -> Any:
    """The derivative at a bound is zero."""
    x = where(x <= low, low, x)
    return where(x >= high, high, x)


@decomposes(aten.elu.default)
def elu(x: Any, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Any:
    below = where(x > 0, 0, x)  # keeps exp(x) from overflowing in the branch that is not selected
    return where(x > 0, x * scale, torch.expm1(below * input_scale) * (alpha * scale))


@decomposes(aten.remainder.Scalar, aten.remainder.Tensor, aten.remainder.Scalar_Tensor)
def remainder(x: Any, y: Any) -> Any:
    """The rest of the quotient rounded down; the derivative toward y is minus that quotient."""
    x, y = as_tensors(x, y)
    rest = torch.fmod(x, y)
    return where((rest != 0) & ((rest < 0) != (y < 0)), rest + y, rest)


@decomposes(aten.std.correction)
def std(x: Any, dim: Any = None, **keywords: Any) -> Any:
    """The derivative of a standard deviation of zero is zero."""
    return NotImplemented if x.is_complex() else _root(torch.var(x, dim, **keywords))


@decomposes(aten.linalg_vector_norm.default)
def vector_norm(x: Any, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The derivative of the Euclidean norm of a zero vector is zero."""
    if ord != 2 or x.is_complex() or x.dim() == 0:
        return NotImplemented
    x = x if dtype is None else x.to(dtype)
    dims = list(range(x.dim())) if dim is None else dim
    return _root((x * x).sum(dims, keepdim=keepdim))


def _root(x: Any) -> Any:
    """The square root, with the derivative zero at zero."""
    return where(x == 0, 0, torch.sqrt(where(x == 0, 1, x)))


TABLE[aten.clamp_max.default] = lambda x, high: clamp(x, None, high)
TABLE[aten.hardsigmoid.default] = lambda x: hardtanh(x / 6 + 0.5, 0, 1)
TABLE[aten.leaky_relu.default] = lambda x, slope=0.01: where(x > 0, x, x * slope)
TABLE[aten.relu.default] = lambda x: where(x <= 0, 0, x)
TABLE[aten.selu.default] = lambda x: elu(x, _SELU_ALPHA, _SELU_SCALE)
