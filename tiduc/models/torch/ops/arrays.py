"""Decompositions of PyTorch's functions that rearrange, select or accumulate elements of tensors."""

import functools
import math
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

from tiduc.dialect.errors import Unsupported
from tiduc.models.torch.ops.framework import TABLE, aten, decomposes, torch
from tiduc.models.torch.ops.masks import assigned

# ---- uninitialized tensors ----------------------------------------------------------------------------------


@decomposes(aten.empty_like.default, aten.new_empty.default, aten.empty.memory_format)
def empty(
    x: torch.Tensor | Sequence[int],
    size: Sequence[int] | None = None,
    *,
    dtype: torch.dtype | None = None,
    **keywords: object,
) -> Any:
    """A tensor of zeros. Its shape is `size` if given, otherwise the shape of x. If x is a list, the shape is x."""
    if not isinstance(x, torch.Tensor):
        return torch.zeros(x, dtype=dtype)
    return torch.zeros(x.shape if size is None else size, dtype=dtype or x.dtype)


# ---- concatenations -----------------------------------------------------------------------------------------


@decomposes(aten.cat.default)
def cat(tensors: Sequence[torch.Tensor], dim: int = 0) -> Any:
    """A concatenation without empty tensors, because torch-mlir gives a concatenation of no operands to StableHLO."""
    parts = [x for x in tensors if not _is_empty(x)]
    if len(parts) == len(tensors):
        return NotImplemented
    dtype = functools.reduce(torch.promote_types, [x.dtype for x in tensors])
    if parts:
        return torch.cat([x.to(dtype) for x in parts], dim)
    most = max(x.dim() for x in tensors)  # PyTorch ignores empty vectors beside other tensors
    shapes = [list(x.shape) for x in tensors if x.dim() == most]
    shapes[0][dim] = sum(shape[dim] for shape in shapes)
    return torch.zeros(shapes[0], dtype=dtype)


def _is_empty(x: torch.Tensor) -> bool:
    return any(isinstance(n, int) and n == 0 for n in x.shape)


# ---- parts of arrays ---------------------------------------------------------------------------------------


@decomposes(aten.diagonal.default, aten.diagonal_copy.default)
def diagonal(x: torch.Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """Gathers the diagonal from the flattened matrix. Element i of the diagonal is at the index `start + i (n + 1)`."""
    dim1, dim2 = dim1 % x.dim(), dim2 % x.dim()
    x = x.movedim((dim1, dim2), (-2, -1))
    m, n = x.shape[-2:]
    return torch.index_select(x.reshape(*x.shape[:-2], m * n), -1, _places(m, n, offset))


def _places(m: int, n: int, offset: int) -> Any:
    """The indices of the elements of a diagonal in a flattened m by n matrix."""
    first, start = (0, offset) if offset >= 0 else (-offset, -offset * n)
    count = max(0, min(m - first, n - max(offset, 0)))
    return start + torch.arange(count) * (n + 1)


@decomposes(aten.diagonal_scatter.default)
def diagonal_scatter(
    x: torch.Tensor, values: torch.Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Any:
    dim1, dim2 = dim1 % x.dim(), dim2 % x.dim()
    moved = x.movedim((dim1, dim2), (-2, -1))
    m, n = moved.shape[-2:]
    rows, columns = torch.arange(m).unsqueeze(-1), torch.arange(n)
    spread = torch.index_select(
        values,
        -1,
        (rows + 0 * columns if offset >= 0 else columns + 0 * rows)
        .flatten()
        .clamp(0, max(0, values.shape[-1] - 1)),
    )
    spread = spread.reshape(moved.shape)
    return torch.where(columns - rows == offset, spread, moved).movedim((-2, -1), (dim1, dim2))


@decomposes(aten.slice_scatter.default)
def slice_scatter(
    x: torch.Tensor,
    values: torch.Tensor,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Any:
    """Replaces a slice of x by `values`. Concatenates the part before the slice, `values`, and the part after it.

    If `step` is not 1, selects `values` at the positions of the slice, and x elsewhere.
    """
    size = x.shape[dim]
    if not isinstance(size, int):
        return _scattered_to_end(x, values, dim, start or 0, end, step)
    first, last, _ = slice(start, end).indices(size)
    if last <= first:
        return x.clone()
    if step == 1:
        parts = (x.narrow(dim, 0, first), values, x.narrow(dim, last, size - last))
        return torch.cat([part for part in parts if part.shape[dim]], dim)
    index = torch.arange(size)
    is_inside = (index >= first) & (index < last) & ((index - first) % step == 0)
    spread = torch.index_select(values, dim, ((index - first) // step).clamp(0, values.shape[dim] - 1))
    shape = [1] * x.dim()
    shape[dim] = size
    return torch.where(is_inside.reshape(shape), spread, x)


def _scattered_to_end(
    x: torch.Tensor,
    values: torch.Tensor,
    dim: int,
    first: int | torch.SymInt,
    end: int | torch.SymInt | None,
    step: int,
) -> Any:
    """Decomposes `slice_scatter` along a dynamic dimension, because torch-mlir would exhaust memory on the op.

    Raises `Unsupported` unless the slice has step 1 and reaches the end of the dimension.
    """
    if step != 1 or not isinstance(first, int) or first < 0 or (isinstance(end, int) and end < sys.maxsize):
        raise Unsupported(
            "a slice of a dynamic dimension can only be assigned if it has step 1 and reaches the end"
        )
    return torch.cat([x.narrow(dim, 0, first), values], dim) if first else values.clone()


@decomposes(aten.select_scatter.default)
def select_scatter(x: torch.Tensor, values: torch.Tensor, dim: int, index: int) -> Any:
    index = index % x.shape[dim]
    return slice_scatter(x, values.unsqueeze(dim), dim, index, index + 1)


@decomposes(aten.unfold.default, aten.unfold_copy.default)
def unfold(x: torch.Tensor, dim: int, size: int, step: int) -> Any:
    if x.dim() == 0:
        return x.reshape(1)
    dim = dim % x.dim()
    count = (x.shape[dim] - size) // step + 1
    index = (torch.arange(count).unsqueeze(-1) * step + torch.arange(size)).flatten()
    rows = torch.index_select(x, dim, index)
    return rows.reshape(*x.shape[:dim], count, size, *x.shape[dim + 1 :]).movedim(dim + 1, -1)


@decomposes(aten.roll.default)
def roll(x: torch.Tensor, shifts: Sequence[int], dims: Sequence[int] = ()) -> torch.Tensor:
    """Swaps two slices of each dimension, or gathers if it is dynamic. Without `dims`, rolls the flat tensor."""
    if not dims:
        return roll(x.reshape(-1), shifts, [0]).reshape(x.shape)
    for shift, dim in zip(shifts, dims, strict=True):
        size = x.shape[dim]
        if not (isinstance(size, int) and isinstance(shift, int)):
            count = torch.arange(size).amax() + 1
            x = torch.index_select(x, dim, torch.remainder(torch.arange(size) - shift, count))
        elif size and shift % size:
            first = size - shift % size
            x = torch.cat([x.narrow(dim, first, size - first), x.narrow(dim, 0, first)], dim)
    return x.clone()


# Indexing with brackets handles negative indices, which count from the end.
TABLE[aten.take.default] = lambda x, index: x.reshape(-1)[index]


@decomposes(aten.block_diag.default)
def block_diag(blocks: Sequence[torch.Tensor]) -> Any:
    blocks = [torch.atleast_2d(x) for x in blocks]
    width = sum(x.shape[1] for x in blocks)
    rows, before = [], 0
    for x in blocks:
        rows.append(torch.nn.functional.pad(x, (before, width - before - x.shape[1])))
        before += x.shape[1]
    return torch.cat(rows)


@decomposes(aten.put.default)
def put(x: torch.Tensor, index: torch.Tensor, source: torch.Tensor, accumulate: bool = False) -> Any:
    flat = x.reshape(-1).index_put((index.reshape(-1),), source.reshape(-1), accumulate)
    return flat.reshape(x.shape)


# ---- accumulation ------------------------------------------------------------------------------------------


@decomposes(aten.cumprod.default)
def cumprod(x: torch.Tensor, dim: int, *, dtype: torch.dtype | None = None) -> torch.Tensor:
    """Prefix products by doubling. After step k, element i is the product of the elements i - 2^k + 1 to i of x."""
    x = x.to(dtype or (x.dtype if x.is_floating_point() or x.is_complex() else torch.int64))
    return _prefixes(x, dim, torch.mul)


@decomposes(aten.cumsum.default)
def cumsum(x: torch.Tensor, dim: int, *, dtype: torch.dtype | None = None) -> Any:
    """Decomposes `cumsum` along a dynamic dimension, which torch-mlir cannot lower, into sums of masked rows."""
    if x.dim() == 0 or isinstance(x.shape[dim], int):
        return NotImplemented
    n = x.shape[dim]
    x = x.to(dtype or (x.dtype if x.is_floating_point() or x.is_complex() else torch.int64)).movedim(dim, -1)
    is_before = torch.arange(n) <= torch.arange(n).unsqueeze(-1)
    return torch.where(is_before, x.unsqueeze(-2), 0).sum(-1).movedim(-1, dim)


@decomposes(aten.var_mean.correction)
def var_mean(
    x: torch.Tensor,
    dim: Sequence[int] | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
) -> Any:
    """The variance and the mean, computed in f32, or in f64 if x is f64.

    torch-mlir's own decomposition computes both in f64, computes the mean twice, and asserts that a dynamic dimension
    has enough elements.
    """
    if x.is_complex():
        return NotImplemented
    dims = dim or list(range(x.dim()))
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    mean = wide.mean(dims, keepdim=True)
    centered = wide - mean
    count = math.prod(x.shape[d] for d in dims) - (1 if correction is None else correction)
    count = count if isinstance(count, torch.SymInt | torch.SymFloat) else max(count, 0)
    variance = (centered * centered).sum(dims, keepdim=keepdim) / count
    return variance.to(x.dtype), (mean if keepdim else wide.mean(dims)).to(x.dtype)


@decomposes(aten.var.correction)
def var(
    x: torch.Tensor,
    dim: Sequence[int] | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
) -> torch.Tensor:
    both = var_mean(x, dim, correction=correction, keepdim=keepdim)
    return both if both is NotImplemented else both[0]


def _prefixes(
    x: torch.Tensor, dim: int, combine: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
) -> torch.Tensor:
    if x.dim() == 0:
        return x.clone()
    size, width = x.shape[dim], 1
    while width < size:
        first = x.narrow(dim, 0, width)
        rest = combine(x.narrow(dim, 0, size - width), x.narrow(dim, width, size - width))
        x, width = torch.cat([first, rest], dim), 2 * width
    return x


@decomposes(aten.prod.dim_int)
def product(x: torch.Tensor, dim: int, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Any:
    if not x.is_complex():
        return NotImplemented
    last = _prefixes(x, dim, torch.mul).narrow(dim, -1, 1)
    return last if keepdim else last.squeeze(dim)


def _extremes(
    x: torch.Tensor, dim: int, is_later: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
) -> tuple[torch.Tensor, torch.Tensor]:
    """The running maxima or minima along a dimension, and their indices. For equal elements, the last index counts."""
    if x.dim() == 0:
        return x.clone(), torch.zeros((), dtype=torch.int64)
    dim = dim % x.dim()
    shape = [1] * x.dim()
    shape[dim] = x.shape[dim]
    index = torch.arange(x.shape[dim]).reshape(shape).expand(x.shape)
    size, width, values = x.shape[dim], 1, x.detach()
    while width < size:
        left, right = (torch.narrow(values, dim, start, size - width) for start in (0, width))
        of_left, of_right = (torch.narrow(index, dim, start, size - width) for start in (0, width))
        takes_right = is_later(left, right)
        values = torch.cat([values.narrow(dim, 0, width), torch.where(takes_right, right, left)], dim)
        index = torch.cat([index.narrow(dim, 0, width), torch.where(takes_right, of_right, of_left)], dim)
        width *= 2
    return torch.gather(x, dim, index), index


TABLE[aten.cummax.default] = lambda x, dim: _extremes(
    x, dim, lambda old, new: (new >= old) | torch.isnan(new)
)
TABLE[aten.cummin.default] = lambda x, dim: _extremes(
    x, dim, lambda old, new: (new <= old) | torch.isnan(new)
)


# ---- functions with sizes that depend on data --------------------------------------------------------------


_FIXED = {
    aten._unique2.default: ("torch.unique", "torch.sort"),
    aten.bincount.default: ("torch.bincount", "torch.nn.functional.one_hot(x, SIZE).sum(0)"),
    aten.masked_select.default: ("torch.masked_select", "torch.where"),
    aten.nonzero.default: ("torch.nonzero", "torch.where with three arguments"),
    aten.repeat_interleave.Tensor: ("torch.repeat_interleave", "numbers as repeats, or torch.searchsorted"),
    aten.unique_consecutive.default: ("torch.unique_consecutive", "torch.sort"),
    aten.unique_dim.default: ("torch.unique", "torch.sort"),
}
"""Maps each op whose result's size depends on data to the function's name and the replacement that a message names."""


def _sized(name: str, instead: str) -> Any:
    def refuse(*arguments: object, **keywords: object) -> Any:
        raise Unsupported(f"the size of the result of {name} depends on data; use {instead}")

    return refuse


TABLE.update({overload: _sized(*names) for overload, names in _FIXED.items()})


_is_counted = threading.local()
"""Has the attribute `now` while `_from_start` calls an op. The op's decomposition then keeps the op."""


def _from_start(
    op: torch._ops.OpOverload,
    x: torch.Tensor,
    indices: Sequence[torch.Tensor | None],
    *others: torch.Tensor | bool,
) -> Any:
    """Calls the op with negative indices converted to nonnegative ones, because torch-mlir treats them as 0."""
    if hasattr(_is_counted, "now"):
        return NotImplemented
    places = [i if i is None else torch.where(i < 0, i + x.shape[d], i) for d, i in enumerate(indices)]
    _is_counted.now = True
    try:
        return op(x, places, *others)
    finally:
        del _is_counted.now


@decomposes(aten.index.Tensor)
def index(x: torch.Tensor, indices: Sequence[torch.Tensor | None]) -> Any:
    if any(i is not None and i.dtype == torch.bool for i in indices):
        raise Unsupported("the size of the result of x[mask] depends on data; use torch.where(mask, x, 0)")
    return _from_start(aten.index.Tensor, x, indices)


@decomposes(aten.index_put.default)
def index_put(
    x: torch.Tensor, indices: Sequence[torch.Tensor | None], values: torch.Tensor, accumulate: bool = False
) -> Any:
    """Rewrites y[mask] = value as a select. If all indices are integers, converts negative ones to nonnegative ones."""
    if not any(i is not None and i.dtype == torch.bool for i in indices):
        return _from_start(aten.index_put.default, x, indices, values, accumulate)
    return assigned(x, indices, values, accumulate)
