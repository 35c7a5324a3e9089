"""Decompositions of PyTorch's functions that sort elements, or count elements in intervals."""

from typing import Any

from tiduc.models.torch.ops.framework import TABLE, aten, decomposes, torch


@decomposes(aten.sort.stable)
def sort(x: torch.Tensor, *, stable: bool | None = None, dim: int = -1, descending: bool = False) -> Any:
    return torch.sort(x, dim, descending)  # its lowering is a stable sort, even if `stable` is false


def _at(x: torch.Tensor, index: torch.Tensor, dim: int, keepdim: bool) -> tuple[Any, Any]:
    """The elements of x at `index`, and `index`. `index` has size 1 along `dim`, which is dropped unless `keepdim`."""
    values = torch.gather(x, dim, index)
    return (values, index) if keepdim else (values.squeeze(dim), index.squeeze(dim))


@decomposes(aten.topk.default)
def topk(x: torch.Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """Rewrites a `topk` without `sorted`, which may return elements in any order, as one that sorts them."""
    return NotImplemented if sorted else torch.topk(x, k, dim, largest)


@decomposes(aten.kthvalue.default)
def kthvalue(x: torch.Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    index = torch.argsort(x, dim=dim, stable=True).narrow(dim, k - 1, 1)
    return _at(x, index, dim, keepdim)


@decomposes(aten.median.dim)
def median(x: torch.Tensor, dim: int = -1, keepdim: bool = False) -> Any:
    """The lower median and its index, or the first NaN and its index if there is a NaN."""
    order = torch.argsort(x, dim=dim, stable=True)
    index = order.narrow(dim, (x.shape[dim] - 1) // 2, 1)
    if x.is_floating_point():
        is_nan = torch.isnan(x)
        first = torch.argmax(is_nan.to(torch.int32), dim, keepdim=True)
        index = torch.where(is_nan.any(dim, keepdim=True), first, index)
    return _at(x, index, dim, keepdim)


@decomposes(aten.nanmedian.dim)
def nanmedian(x: torch.Tensor, dim: int = -1, keepdim: bool = False) -> Any:
    order = torch.argsort(x, dim=dim, stable=True)
    count = (~torch.isnan(x)).sum(dim, keepdim=True)
    index = torch.gather(order, dim, torch.clamp((count - 1) // 2, min=0))
    return _at(x, index, dim, keepdim)


def _of_all(found: torch.Tensor, x: torch.Tensor) -> Any:
    """Returns `found`, the median of all elements. Its derivative is shared by all elements of x that equal it."""
    equal = (x == found) & torch.isfinite(x)
    rest = torch.where(equal, x - x.detach(), 0) if x.is_floating_point() else None
    return found if rest is None else found.detach() + rest.sum() / equal.sum()


TABLE[aten.median.default] = lambda x: _of_all(median(x.reshape(-1))[0], x)
TABLE[aten.nanmedian.default] = lambda x: _of_all(nanmedian(x.reshape(-1))[0], x)


@decomposes(aten.mode.default)
def mode(x: torch.Tensor, dim: int = -1, keepdim: bool = False) -> Any:
    """The smallest of the most frequent elements of each row, and the index of its last occurrence in the row."""
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
    edges: torch.Tensor,
    x: torch.Tensor,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: torch.Tensor | None = None,
) -> Any:
    """For each value in x, the number of edges that are less than the value, or with `right` at most the value."""
    if sorter is not None:
        edges = torch.gather(edges, -1, sorter)
    edges, values = edges.unsqueeze(-2), x.unsqueeze(-1)
    is_before = edges <= values if right or side == "right" else edges < values
    return is_before.sum(-1).to(torch.int32 if out_int32 else torch.int64)


@decomposes(aten.bucketize.Tensor)
def bucketize(x: torch.Tensor, edges: torch.Tensor, *, out_int32: bool = False, right: bool = False) -> Any:
    return searchsorted(edges, x, out_int32=out_int32, right=right)


@decomposes(aten.histc.default)
def histc(x: torch.Tensor, bins: int = 100, min: float = 0, max: float = 0) -> torch.Tensor:  # noqa: A002  PyTorch's names
    """The number of elements in each of `bins` intervals of equal width. Only the last interval contains its end."""
    flat = x.reshape(-1).to(x.dtype if x.is_floating_point() else torch.float64).detach()
    low, high = (torch.full([], n, dtype=flat.dtype) for n in (min, max))
    if min == max:
        low, high = flat.amin(), flat.amax()
        is_point = low == high
        low, high = torch.where(is_point, low - 1, low), torch.where(is_point, high + 1, high)
    place = ((flat - low) * bins / (high - low)).floor().clamp(max=bins - 1).unsqueeze(-1)
    is_inside = ((flat >= low) & (flat <= high)).unsqueeze(-1)
    return ((place == torch.arange(bins)) & is_inside).sum(0).to(x.dtype)
