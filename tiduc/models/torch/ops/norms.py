"""Decompositions of PyTorch's norms and distances, so that derivatives at zero equal PyTorch's.

A norm is the root of a sum of powers. At zero, the derivative of a root or a power may be infinite, and its product
with zero is NaN. Before each power and each root, a select therefore replaces zeros by ones.
"""

from collections.abc import Sequence
from math import inf
from typing import Any

from tiduc.models.torch.ops.complexes import parts
from tiduc.models.torch.ops.framework import aten, decomposes, torch

where = torch.where


@decomposes(aten.linalg_vector_norm.default)
def vector_norm(
    x: torch.Tensor,
    ord: float = 2,
    dim: Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> torch.Tensor:
    x = x if dtype is None else x.to(dtype)
    if x.dim() == 0:
        return vector_norm(x.reshape(1), ord).reshape([])
    dims = list(range(x.dim())) if dim is None or dim == [] else dim
    return _norm(x, ord, dims, keepdim)


@decomposes(
    aten.norm.Scalar, aten.norm.ScalarOpt_dim, aten.norm.ScalarOpt_dtype, aten.norm.ScalarOpt_dim_dtype
)
def norm(
    x: torch.Tensor,
    p: float | None = 2,
    dim: Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> torch.Tensor:
    return vector_norm(x, 2 if p is None else p, dim, keepdim, dtype=dtype)


@decomposes(aten.dist.default)
def dist(x: torch.Tensor, y: torch.Tensor, p: float = 2) -> torch.Tensor:
    return vector_norm(x - y, p)


@decomposes(aten.pairwise_distance.default)
def pairwise_distance(
    x: torch.Tensor, y: torch.Tensor, p: float = 2, eps: float = 1e-6, keepdim: bool = False
) -> torch.Tensor:
    return vector_norm(x - y + eps, p, [-1], keepdim)


@decomposes(aten._cdist_forward.default)
def cdist(x: torch.Tensor, y: torch.Tensor, p: float, compute_mode: int | None = None) -> torch.Tensor:
    return _distance(x.unsqueeze(-2) - y.unsqueeze(-3), p)


@decomposes(aten._pdist_forward.default)
def pdist(x: torch.Tensor, p: float = 2.0) -> torch.Tensor:
    rows, columns = torch.triu_indices(x.shape[0], x.shape[0], 1)
    return _distance(torch.index_select(x, 0, rows) - torch.index_select(x, 0, columns), p)


@decomposes(aten.std.correction)
def std(
    x: torch.Tensor,
    dim: Sequence[int] | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
) -> torch.Tensor:
    """The standard deviation. Where it is zero, its derivative is zero."""
    if x.is_complex():
        return NotImplemented
    return root(torch.var(x, dim, correction=correction, keepdim=keepdim))


@decomposes(aten.std_mean.correction)
def std_mean(
    x: torch.Tensor,
    dim: Sequence[int] | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
) -> Any:
    """The standard deviation and the mean. Where the standard deviation is zero, its derivative is zero."""
    if x.is_complex():
        return NotImplemented
    variance, mean = torch.var_mean(x, dim, correction=correction, keepdim=keepdim)
    return root(variance), mean


def root(x: torch.Tensor) -> torch.Tensor:
    """The square root of x. Its derivative at zero is zero."""
    return where(x == 0, 0, torch.sqrt(where(x == 0, 1, x)))


def _distance(x: torch.Tensor, p: float) -> torch.Tensor:
    """The p-norm of each row. If p = inf, the derivative toward each coordinate that attains the maximum is 1 or -1."""
    if p != inf or x.shape[-1] == 0:
        return _norm(x, p, [-1], False)
    size = torch.abs(x)
    fixed = size.detach()
    greatest = fixed.amax(-1, keepdim=True)
    moves = where((fixed == greatest) & torch.isfinite(fixed), size - fixed, 0)
    return greatest.squeeze(-1) + moves.sum(-1)


def _norm(x: torch.Tensor, p: float, dims: Sequence[int], keepdim: bool) -> torch.Tensor:
    """The p-norm along `dims`. Its derivative is zero at a zero vector and, if p <= 1, at a zero component."""
    if p == 0:
        size = torch.abs(x)
        return (size != 0).to(size.dtype).sum(dims, keepdim=keepdim)
    if p == 2:
        squares = sum(part * part for part in (parts(x) if x.is_complex() else (x,)))
        return root(squares.sum(dims, keepdim=keepdim))
    size = torch.abs(x)
    if p in (inf, -inf):
        return size.amax(dims, keepdim=keepdim) if p > 0 else size.amin(dims, keepdim=keepdim)
    if p == 1:
        return size.sum(dims, keepdim=keepdim)
    total = _power(size, p).sum(dims, keepdim=keepdim)
    return _power(total, 1 / p)


def _power(x: torch.Tensor, p: float) -> torch.Tensor:
    """Computes x^p for nonnegative x. The derivative at x = 0 is zero."""
    return where(x == 0, 0.0 if p > 0 else inf, where(x == 0, 1, x) ** p)
