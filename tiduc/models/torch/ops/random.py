"""Decompositions of random functions, to uniform numbers between 0 and 1; neither bound is ever drawn.

torch-mlir's dropout divides 0 by 0 where p is 1, its uniform numbers for dropout are of f64, and its normal ones need
two uniform numbers each, of the type of the result, which may have 8 digits.
"""

from math import sqrt
from typing import Any

from tiduc.models.torch.ops.framework import aten, decomposes, torch


@decomposes(aten.native_dropout.default)
def native_dropout(x: Any, p: float, train: bool | None) -> tuple[Any, Any]:
    """x / (1 - p) where the mask is True, else 0; and the mask."""
    if train is False or p == 0:
        return x.clone(), torch.ones_like(x, dtype=torch.bool)
    mask = torch.rand_like(x, dtype=torch.float32) < 1 - p
    return torch.where(mask, x * (0 if p == 1 else 1 / (1 - p)), 0), mask


@decomposes(aten.dropout.default)
def dropout(x: Any, p: float, train: bool) -> Any:
    """The first result of `native_dropout`; x itself outside of training."""
    return native_dropout(x, p, train)[0] if train and p else x


def _normal(uniform: Any, dtype: Any) -> Any:
    """Standard normal numbers from uniform ones."""
    return (sqrt(2) * torch.special.erfinv(2 * uniform - 1)).to(dtype)


def _wide(dtype: Any) -> Any:
    """The type to compute in: no narrower than f32."""
    return torch.float64 if dtype == torch.float64 else torch.float32


@decomposes(aten.randn.default)
def randn(size: Any, *, dtype: Any = None, **_: Any) -> Any:
    """Standard normal numbers of this shape."""
    dtype = torch.get_default_dtype() if dtype is None else dtype
    return _normal(torch.rand(size, dtype=_wide(dtype)), dtype)


@decomposes(aten.randn_like.default)
def randn_like(x: Any, *, dtype: Any = None, **_: Any) -> Any:
    """Standard normal numbers of the shape of x."""
    dtype = x.dtype if dtype is None else dtype
    return _normal(torch.rand_like(x, dtype=_wide(dtype)), dtype)


@decomposes(
    aten.normal.Tensor_Tensor,
    aten.normal.Tensor_float,
    aten.normal.float_Tensor,
    aten.normal_functional.default,
)
def normal(mean: Any, std: Any = 1.0, *deviation: Any, generator: Any = None) -> Any:
    """Normal numbers; `normal_functional` takes an array of the shape before the mean and the deviation."""
    like = next(x for x in (mean, std) if isinstance(x, torch.Tensor))
    if deviation:
        mean, std = std, *deviation
    if isinstance(mean, torch.Tensor) and isinstance(std, torch.Tensor):
        like = mean + std
    return mean + std * randn_like(like)


@decomposes(aten.normal.float_float)
def normal_of_size(mean: float, std: float, size: Any, *, dtype: Any = None, **_: Any) -> Any:
    """Normal numbers of this shape."""
    return mean + std * randn(size, dtype=dtype)
