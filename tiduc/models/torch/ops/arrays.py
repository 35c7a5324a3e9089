"""Decompositions of PyTorch's functions that move, select, sort or accumulate elements."""

import math
import sys
import threading
from collections.abc import Sequence
from typing import Any

from tiduc.dialect.errors import Unsupported
from tiduc.models.torch.ops.framework import TABLE, aten, decomposes, torch
from tiduc.models.torch.ops.masks import assigned

# ---- arrays without values ----------------------------------------------------------------------------------


@decomposes(aten.empty_like.default, aten.new_empty.default, aten.empty.memory_format)
def empty(x: Any, size: Any = None, *, dtype: Any = None, **keywords: Any) -> Any:
    """Zeros of the sizes `size` if given, else of the sizes of x. x itself may be the sizes."""
    if not isinstance(x, torch.Tensor):
        return torch.zeros(x, dtype=dtype)
    return torch.zeros(x.shape if size is None else size, dtype=dtype or x.dtype)


# ---- parts of arrays ---------------------------------------------------------------------------------------


@decomposes(aten.diagonal.default, aten.diagonal_copy.default)
def diagonal(x: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """A gather of the flat matrix: element i of the diagonal is `start + i (n + 1)`."""
    dim1, dim2 = dim1 % x.dim(), dim2 % x.dim()
    x = x.movedim((dim1, dim2), (-2, -1))
    m, n = x.shape[-2:]
    return torch.index_select(x.reshape(*x.shape[:-2], m * n), -1, _places(m, n, offset))


def _places(m: int, n: int, offset: int) -> Any:
    """The places of a diagonal in the flat matrix."""
    first, start = (0, offset) if offset >= 0 else (-offset, -offset * n)
    count = max(0, min(m - first, n - max(offset, 0)))
    return start + torch.arange(count) * (n + 1)


@decomposes(aten.diagonal_scatter.default)
def diagonal_scatter(x: Any, values: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
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
    x: Any, values: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Any:
    """Concatenates the parts before, inside and after the slice.

    With steps, selects between x and the spread values.
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


def _scattered_to_end(x: Any, values: Any, dim: int, first: Any, end: Any, step: int) -> Any:
    """`slice_scatter` along a dynamic dimension, to which torch-mlir gives unlimited memory."""
    if step != 1 or not isinstance(first, int) or first < 0 or (isinstance(end, int) and end < sys.maxsize):
        raise Unsupported("an assignment to a slice of a dynamic dimension must reach its end, in steps of 1")
    return torch.cat([x.narrow(dim, 0, first), values], dim) if first else values.clone()


@decomposes(aten.select_scatter.default)
def select_scatter(x: Any, values: Any, dim: int, index: int) -> Any:
    index = index % x.shape[dim]
    return slice_scatter(x, values.unsqueeze(dim), dim, index, index + 1)


@decomposes(aten.unfold.default, aten.unfold_copy.default)
def unfold(x: Any, dim: int, size: int, step: int) -> Any:
    if x.dim() == 0:
        return x.reshape(1)
    dim = dim % x.dim()
    count = (x.shape[dim] - size) // step + 1
    index = (torch.arange(count).unsqueeze(-1) * step + torch.arange(size)).flatten()
    rows = torch.index_select(x, dim, index)
    return rows.reshape(*x.shape[:dim], count, size, *x.shape[dim + 1 :]).movedim(dim + 1, -1)


@decomposes(aten.roll.default)
def roll(x: torch.Tensor, shifts: Sequence[int], dims: Sequence[int] = ()) -> torch.Tensor:
    """Exchanges two parts, or gathers along a dynamic dimension. Without dimensions, rolls the flat tensor."""
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


@decomposes(aten.take.default)
def take(x: Any, index: Any) -> Any:
    return torch.index_select(x.reshape(-1), 0, index.reshape(-1)).reshape(index.shape)


@decomposes(aten.block_diag.default)
def block_diag(blocks: Any) -> Any:
    blocks = [torch.atleast_2d(x) for x in blocks]
    width = sum(x.shape[1] for x in blocks)
    rows, before = [], 0
    for x in blocks:
        rows.append(torch.nn.functional.pad(x, (before, width - before - x.shape[1])))
        before += x.shape[1]
    return torch.cat(rows)


@decomposes(aten.put.default)
def put(x: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    flat = x.reshape(-1).index_put((index.reshape(-1),), source.reshape(-1), accumulate)
    return flat.reshape(x.shape)


# ---- sorting -----------------------------------------------------------------------------------------------


@decomposes(aten.sort.stable)
def sort(x: torch.Tensor, *, stable: bool | None = None, dim: int = -1, descending: bool = False) -> Any:
    return torch.sort(x, dim, descending)  # torch-mlir lowers it to a stable sort


def _at(x: Any, index: Any, dim: int, keepdim: bool) -> tuple[Any, Any]:
    """The elements at one index per row, and the indices."""
    values = torch.gather(x, dim, index)
    return (values, index) if keepdim else (values.squeeze(dim), index.squeeze(dim))


@decomposes(aten.topk.default)
def topk(x: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """The result is in order, although any order would be allowed."""
    return NotImplemented if sorted else torch.topk(x, k, dim, largest)


@decomposes(aten.kthvalue.default)
def kthvalue(x: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    index = torch.argsort(x, dim=dim, stable=True).narrow(dim, k - 1, 1)
    return _at(x, index, dim, keepdim)


@decomposes(aten.median.dim)
def median(x: Any, dim: int = -1, keepdim: bool = False) -> Any:
    """The lower median, or the first NaN if there is one: PyTorch sorts NaN last."""
    order = torch.argsort(x, dim=dim, stable=True)
    index = order.narrow(dim, (x.shape[dim] - 1) // 2, 1)
    if x.is_floating_point():
        is_nan = torch.isnan(x)
        first = torch.argmax(is_nan.to(torch.int32), dim, keepdim=True)
        index = torch.where(is_nan.any(dim, keepdim=True), first, index)
    return _at(x, index, dim, keepdim)


@decomposes(aten.nanmedian.dim)
def nanmedian(x: Any, dim: int = -1, keepdim: bool = False) -> Any:
    order = torch.argsort(x, dim=dim, stable=True)
    count = (~torch.isnan(x)).sum(dim, keepdim=True)
    index = torch.gather(order, dim, torch.clamp((count - 1) // 2, min=0))
    return _at(x, index, dim, keepdim)


def _of_all(found: Any, x: Any) -> Any:
    """The median of all elements; elements that equal it share its derivative."""
    equal = (x == found) & torch.isfinite(x)
    rest = torch.where(equal, x - x.detach(), 0) if x.is_floating_point() else None
    return found if rest is None else found.detach() + rest.sum() / equal.sum()


TABLE[aten.median.default] = lambda x: _of_all(median(x.reshape(-1))[0], x)
TABLE[aten.nanmedian.default] = lambda x: _of_all(nanmedian(x.reshape(-1))[0], x)


@decomposes(aten.mode.default)
def mode(x: Any, dim: int = -1, keepdim: bool = False) -> Any:
    """The smallest of the most frequent elements, with its last position. Compares all pairs in a row."""
    last = x.movedim(dim, -1)
    counts = (last.unsqueeze(-1) == last.unsqueeze(-2)).sum(-1)
    is_most = counts == counts.amax(-1, keepdim=True)
    order = torch.argsort(last, dim=-1, stable=True)
    smallest = torch.argmax(torch.gather(is_most, -1, order).to(torch.int32), -1, keepdim=True)
    value = torch.gather(last, -1, torch.gather(order, -1, smallest))
    places = torch.where(last == value, torch.arange(last.shape[-1]), -1)
    return _at(x, places.amax(-1, keepdim=True).movedim(-1, dim), dim, keepdim)


@decomposes(aten.searchsorted.Tensor)
def searchsorted(
    edges: Any,
    x: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Any = None,
) -> Any:
    """The number of edges before each value."""
    if sorter is not None:
        edges = torch.gather(edges, -1, sorter)
    edges, values = edges.unsqueeze(-2), x.unsqueeze(-1)
    is_before = edges <= values if right or side == "right" else edges < values
    return is_before.sum(-1).to(torch.int32 if out_int32 else torch.int64)


@decomposes(aten.bucketize.Tensor)
def bucketize(x: Any, edges: Any, *, out_int32: bool = False, right: bool = False) -> Any:
    return searchsorted(edges, x, out_int32=out_int32, right=right)


@decomposes(aten.histc.default)
def histc(x: torch.Tensor, bins: int = 100, min: float = 0, max: float = 0) -> torch.Tensor:  # noqa: A002  PyTorch's names
    """The number of elements in each of `bins` equal intervals; the last interval contains its end."""
    flat = x.reshape(-1).to(x.dtype if x.is_floating_point() else torch.float64).detach()
    low, high = (torch.full([], n, dtype=flat.dtype) for n in (min, max))
    if min == max:
        low, high = flat.amin(), flat.amax()
        is_point = low == high
        low, high = torch.where(is_point, low - 1, low), torch.where(is_point, high + 1, high)
    place = ((flat - low) * bins / (high - low)).floor().clamp(max=bins - 1).unsqueeze(-1)
    is_inside = ((flat >= low) & (flat <= high)).unsqueeze(-1)
    return ((place == torch.arange(bins)) & is_inside).sum(0).to(x.dtype)


# ---- accumulation ------------------------------------------------------------------------------------------


@decomposes(aten.cumprod.default)
def cumprod(x: torch.Tensor, dim: int, *, dtype: Any = None) -> torch.Tensor:
    """Prefix products by doubling: after step k, element i is the product of elements i - 2^k + 1 to i."""
    x = x.to(dtype or (x.dtype if x.is_floating_point() or x.is_complex() else torch.int64))
    return _prefixes(x, dim, torch.mul)


@decomposes(aten.cumsum.default)
def cumsum(x: torch.Tensor, dim: int, *, dtype: Any = None) -> Any:
    """The sums of masked rows along a dynamic dimension. torch-mlir has no prefix sum for this case."""
    if x.dim() == 0 or isinstance(x.shape[dim], int):
        return NotImplemented
    n = x.shape[dim]
    x = x.to(dtype or (x.dtype if x.is_floating_point() or x.is_complex() else torch.int64)).movedim(dim, -1)
    is_before = torch.arange(n) <= torch.arange(n).unsqueeze(-1)
    return torch.where(is_before, x.unsqueeze(-2), 0).sum(-1).movedim(-1, dim)


@decomposes(aten.var_mean.correction)
def var_mean(x: Any, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    """The variance and the mean, computed in f32, or in f64 for f64.

    torch-mlir computes both in f64, and computes the mean twice. It also asserts that a dynamic dimension has enough
    elements.
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
def var(x: Any, dim: Any = None, **keywords: Any) -> torch.Tensor:
    both = var_mean(x, dim, **keywords)
    return both if both is NotImplemented else both[0]


def _prefixes(x: torch.Tensor, dim: int, combine: Any) -> torch.Tensor:
    if x.dim() == 0:
        return x.clone()
    size, width = x.shape[dim], 1
    while width < size:
        first = x.narrow(dim, 0, width)
        rest = combine(x.narrow(dim, 0, size - width), x.narrow(dim, width, size - width))
        x, width = torch.cat([first, rest], dim), 2 * width
    return x


@decomposes(aten.prod.dim_int)
def product(x: Any, dim: int, keepdim: bool = False, *, dtype: Any = None) -> Any:
    if not x.is_complex():
        return NotImplemented
    last = _prefixes(x, dim, torch.mul).narrow(dim, -1, 1)
    return last if keepdim else last.squeeze(dim)


def _extremes(x: torch.Tensor, dim: int, is_later: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Running extremes and their places; equal elements yield the last place."""
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
"""Functions whose result's size depends on data, and their replacements."""


def _sized(name: str, instead: str) -> Any:
    def refuse(*arguments: Any, **keywords: Any) -> Any:
        raise Unsupported(f"the size of the result of {name} depends on data; use {instead}")

    return refuse


TABLE.update({overload: _sized(*names) for overload, names in _FIXED.items()})


_is_counted = threading.local()
"""Its attribute `now` is set while the indices of an op count from the start."""


def _from_start(op: Any, x: torch.Tensor, indices: Sequence[torch.Tensor | None], *others: Any) -> Any:
    """The op with indices that count from the start, because torch-mlir treats negative indices as 0."""
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
def index_put(x: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """Rewrites y[mask] = number, or = row, as a select."""
    if not any(i is not None and i.dtype == torch.bool for i in indices):
        return _from_start(aten.index_put.default, x, indices, values, accumulate)
    return assigned(x, indices, values, accumulate)
