"""Decompositions of PyTorch's pooling with `ceil_mode`. torch-mlir would ignore the option.

With `ceil_mode`, the last window may reach beyond the padding. The operand is padded further, so that it contains the
window. The additional elements are -inf for a maximum, and are not counted for a mean. The original padding is counted
only with `count_include_pad`.
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from tiduc.dialect.errors import Unsupported
from tiduc.models.torch.ops.framework import TABLE, aten, torch


def _largest(pool: torch._ops.OpOverload, rank: int) -> Callable[..., Any]:
    def emit(
        x: torch.Tensor,
        size: Sequence[int],
        stride: Sequence[int] = (),
        padding: int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        ceil_mode: bool = False,
    ) -> Any:
        if not ceil_mode:
            return NotImplemented
        size, stride, padding, dilation = _of_rank(rank, size, stride, padding, dilation)
        beyond = _beyond(x.shape[-rank:], size, stride, padding, dilation)
        lowest = float("-inf") if x.is_floating_point() else torch.iinfo(x.dtype).min
        padded = torch.nn.functional.pad(x, _widths(padding, beyond), value=lowest)
        return pool(padded, size, stride, [0] * rank, dilation, False)

    return emit


def _with_indices(pool: torch._ops.OpOverload, rank: int) -> Callable[..., Any]:
    def emit(
        x: torch.Tensor,
        size: Sequence[int],
        stride: Sequence[int] = (),
        padding: int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        ceil_mode: bool = False,
    ) -> Any:
        if ceil_mode and any(_beyond(x.shape[-rank:], *_of_rank(rank, size, stride, padding, dilation))):
            raise Unsupported(
                "max pooling with both ceil_mode and indices is not supported; leave out ceil_mode and pad the operand"
            )
        if not stride:  # torch-mlir would use 1 instead of the window size
            return pool(x, size, size, padding, dilation, ceil_mode)
        return NotImplemented

    return emit


def _mean(rank: int) -> Callable[..., Any]:
    def emit(
        x: torch.Tensor,
        size: Sequence[int],
        stride: Sequence[int] = (),
        padding: int | Sequence[int] = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Any:
        if not ceil_mode:
            return NotImplemented
        size, stride, padding, ones = _of_rank(rank, size, stride, padding, 1)
        sizes = x.shape[-rank:]
        beyond = _beyond(sizes, size, stride, padding, ones)
        pad, pool = torch.nn.functional.pad, getattr(torch.nn.functional, f"avg_pool{rank}d")
        mean = pool(pad(x, _widths(padding, beyond)), size, stride)
        if divisor_override:
            return mean * (prod(size) / divisor_override)
        weights = torch.ones([1, 1, *sizes], dtype=x.dtype)
        weights = pad(weights, _widths(padding, [0] * rank), value=float(count_include_pad))
        share = pool(pad(weights, _widths([0] * rank, beyond)), size, stride)
        return mean / share.reshape(share.shape[-rank:])

    return emit


def _of_rank(
    rank: int,
    size: Sequence[int],
    stride: Sequence[int],
    padding: int | Sequence[int],
    dilation: int | Sequence[int],
) -> list[list[int]]:
    """Converts the four parameters to lists with one number per dimension. The stride defaults to the window size."""
    given = [size, size if stride is None or stride == [] or stride == () else stride, padding, dilation]
    lists = []
    for each in given:
        numbers = [each] if isinstance(each, int) else list(each)
        lists.append(numbers * rank if len(numbers) == 1 else numbers)
    return lists


def _beyond(
    sizes: Sequence[int],
    size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> list[int]:
    """For each dimension, the number of elements by which the last window reaches beyond the padding at the end.

    No window begins in the padding at the end.
    """
    widths = []
    for n, k, s, p, d in zip(sizes, size, stride, padding, dilation, strict=True):
        if not isinstance(n, int):
            raise Unsupported("pooling with ceil_mode needs static shapes")
        whole = d * (k - 1) + 1
        count = -(-(n + 2 * p - whole) // s) + 1
        if (count - 1) * s >= n + p:
            count -= 1
        widths.append(max(0, (count - 1) * s + whole - n - 2 * p))
    return widths


def _widths(padding: Sequence[int], beyond: Sequence[int]) -> list[int]:
    """The widths of the padding in the order of `torch.nn.functional.pad`: the last dimension is first."""
    return [w for p, more in zip(reversed(padding), reversed(beyond), strict=True) for w in (p, p + more)]


for _rank in (1, 2, 3):
    _pool = getattr(aten, f"max_pool{_rank}d").default
    TABLE[_pool] = _largest(_pool, _rank)
    TABLE[getattr(aten, f"avg_pool{_rank}d").default] = _mean(_rank)
for _rank in (2, 3):
    _pool = getattr(aten, f"max_pool{_rank}d_with_indices").default
    TABLE[_pool] = _with_indices(_pool, _rank)
