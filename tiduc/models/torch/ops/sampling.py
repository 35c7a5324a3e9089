"""Decomposes PyTorch's adaptive pooling, resizing, and sampling at the points of a grid."""

from collections.abc import Callable, Mapping, Sequence
from math import floor, inf
from typing import Any

import numpy as np

from tiduc.models.interpolation import table
from tiduc.models.torch.ops.fills import tabulated
from tiduc.models.torch.ops.framework import TABLE, aten, decomposes, torch
from tiduc.runtime.arrays import Array

# ---- adaptive pooling --------------------------------------------------------------------------------------


@decomposes(*(getattr(aten, f"adaptive_max_pool{rank}d").default for rank in (1, 2, 3)))
def adaptive_max_pool(x: torch.Tensor, sizes: Sequence[int]) -> Any:
    """The maximum of each window, and the index of its first occurrence in the flattened image. NaN is a maximum."""
    image = x.shape[-len(sizes) :]
    if not all(isinstance(n, int) for n in image):
        return NotImplemented
    places, inside = _windows(image, sizes)
    flat, (count, most) = x.flatten(-len(sizes)), places.shape
    found = torch.index_select(flat, -1, tabulated(places.flatten())).unflatten(-1, (count, most))
    found = torch.where(tabulated(inside.astype(np.int64)) != 0, found, -inf)
    first = torch.argmax(found, -1, keepdim=True)
    values = torch.gather(found, -1, first).squeeze(-1)
    at = torch.gather(tabulated(places).expand(found.shape), -1, first).squeeze(-1)
    return values.unflatten(-1, sizes), at.unflatten(-1, sizes)


@decomposes(
    aten.adaptive_avg_pool1d.default, aten._adaptive_avg_pool2d.default, aten._adaptive_avg_pool3d.default
)
def adaptive_avg_pool(x: torch.Tensor, sizes: Sequence[int]) -> Any:
    """The mean of each window, computed along one axis after the other."""
    if not all(isinstance(n, int) and n for n in (*x.shape[-len(sizes) :], *sizes)):
        return NotImplemented
    for axis, count in enumerate(sizes, -len(sizes)):
        x = _means(x, axis, count)
    return x


def _means(x: torch.Tensor, axis: int, count: int) -> torch.Tensor:
    """The means of `count` windows along an axis."""
    n = x.shape[axis]
    if n % count == 0:
        return x.unflatten(axis, (count, n // count)).mean(axis)
    places, inside = _windows([n], [count])
    sizes = inside.sum(1, keepdims=True)
    if sizes.max() <= 2:
        weights = np.zeros([count, n])
        np.add.at(weights, (np.arange(count)[:, None], places), inside / sizes)
        return _along_axis(x, axis, weights)
    shape = [*inside.shape, *[1] * (-axis - 1)]
    found = torch.index_select(x, axis, tabulated(places.flatten())).unflatten(axis, places.shape)
    found = torch.where(tabulated(inside.reshape(shape).astype(np.int64)) != 0, found, 0)
    return found.sum(axis) * tabulated(1 / sizes.reshape(count, *shape[2:])).to(x.dtype)


def _windows(image: Sequence[int], sizes: Sequence[int]) -> tuple[Array, Array]:
    """Two arrays of shape (windows, elements): indices into the flattened image, and masks of the valid indices.

    The masks are needed because windows have different numbers of elements.
    """
    places, inside = np.zeros([1, 1], np.int64), np.ones([1, 1], bool)
    for n, count in zip(image, sizes, strict=True):
        ends = [(i * n // count, -(-(i + 1) * n // count)) for i in range(count)]
        taps = np.arange(max(last - first for first, last in ends))
        own = np.array([np.minimum(first + taps, n - 1) for first, _ in ends])
        is_own = np.array([first + taps < last for first, last in ends])
        places = _crossed(places * n, own, np.add)
        inside = _crossed(inside, is_own, np.logical_and)
    return places, inside


def _crossed(outer: Array, inner: Array, combine: Callable[[Array, Array], Array]) -> Array:
    """For each row of `outer` and each row of `inner`, one row with `combine` of all pairs of their elements."""
    crossed = combine(outer[:, None, :, None], inner[None, :, None, :])
    result: Array = crossed.reshape(len(outer) * len(inner), -1)
    return result


# ---- resizing -----------------------------------------------------------------------------------------------


def _resized(mode: str, attributes: Mapping[str, float | str], rank: int = 2) -> Callable[..., Any]:
    """Returns a decomposition that interpolates along one of the last `rank` axes after the other.

    Each element of the result is a sum of weighted elements. If at most two weights of each sum are not zero, the sum
    reads only these elements, so that an infinite element has no effect on others. Otherwise, all sums along an axis
    are a product of matrices. `attributes` are those of ONNX's Resize.
    """

    def emit(
        x: torch.Tensor, sizes: Sequence[int], align_corners: bool, factors: Sequence[float] | None = None
    ) -> Any:
        image = x.shape[-rank:]
        if not all(isinstance(n, int) for n in image):
            return NotImplemented
        sizes = sizes or [floor(n * factor) for n, factor in zip(image, factors or (), strict=True)]
        for axis, (n, m) in enumerate(zip(image, sizes, strict=True)):
            factor = m / n if factors is None else factors[axis]
            given = {**attributes, "mode": mode}
            if align_corners and given["antialias"]:
                factor = (m - 1) / (n - 1) if m > 1 and n > 1 else inf
            elif align_corners:
                factor, given["coordinate_transformation_mode"] = m / n, "align_corners"
            weights = np.asarray(table(n, m, factor, None, given)[0])
            x = _along_axis(x, axis - rank, weights)
        return x

    return emit


def _along_axis(x: torch.Tensor, axis: int, weights: Array) -> torch.Tensor:
    """The sums of elements of x along an axis, with one row of weights for each element of the result."""
    if np.count_nonzero(weights, axis=1).max() > 2:
        return torch.movedim(torch.movedim(x, axis, -1) @ tabulated(weights).to(x.dtype).mT, -1, axis)
    places = np.argsort(weights == 0, axis=1, kind="stable")[:, :2]  # nonzero weights first
    kept = np.take_along_axis(weights, places, axis=1)
    alone = (
        kept[:, -1:] == 0
    )  # such a sum reads one element twice, because 0 times an infinite element is NaN
    places, kept = np.where(alone, places[:, :1], places), np.where(alone, kept[:, :1] / kept.shape[1], kept)
    terms = []
    for i in range(places.shape[1]):
        factor = tabulated(kept[:, i].reshape(-1, *[1] * (-axis - 1))).to(x.dtype)
        terms.append(torch.index_select(x, axis, tabulated(places[:, i])) * factor)
    return sum(terms[1:], start=terms[0])


_PLAIN: dict[str, float | str] = {
    "coordinate_transformation_mode": "half_pixel",
    "antialias": 0,
    "exclude_outside": 0,
}
_ANTIALIASED: dict[str, float | str] = {**_PLAIN, "antialias": 1, "exclude_outside": 1}

TABLE[aten._upsample_bilinear2d_aa.vec] = _resized("linear", _ANTIALIASED)
TABLE[aten._upsample_bicubic2d_aa.vec] = _resized("cubic", {**_ANTIALIASED, "cubic_coeff_a": -0.5})
for rank, name in enumerate(("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d"), 1):
    TABLE[getattr(aten, name).vec] = _resized("linear", _PLAIN, rank)
TABLE[aten.upsample_bicubic2d.vec] = _resized("cubic", {**_PLAIN, "cubic_coeff_a": -0.75})

# ---- points of a grid --------------------------------------------------------------------------------------

_BILINEAR, _ZEROS, _REFLECTION = 0, 0, 2
"""The numbers that PyTorch uses for modes and paddings."""


@decomposes(aten.grid_sampler_2d.default)
def grid_sampler(
    x: torch.Tensor, grid: torch.Tensor, mode: int, padding: int, align_corners: bool
) -> torch.Tensor:
    """Applies PyTorch's decomposition, with another derivative for bilinear sampling with border or reflection padding.

    The derivative with respect to a coordinate is zero if the coordinate, after reflection, is not between the centers
    of the first and the last element.
    """
    if mode == _BILINEAR and padding != _ZEROS:
        sizes = zip((0, 1), (x.shape[-1], x.shape[-2]), strict=True)
        inside = [_is_inside(grid[..., i], n, padding == _REFLECTION, align_corners) for i, n in sizes]
        grid = torch.where(torch.stack(inside, -1), grid, grid.detach())
    (decomposition,) = torch._decomp.get_decompositions([aten.grid_sampler_2d.default]).values()
    return decomposition(x, grid, mode, padding, align_corners)


def _is_inside(at: torch.Tensor, size: int, reflects: bool, align_corners: bool) -> torch.Tensor:
    """Whether the coordinates `at` are between the centers of the first and the last of `size` elements.

    The coordinates -1 and 1 are the ends of the image. With `reflects`, coordinates outside are reflected first.
    """
    middle = size * 0.5 - 0.5
    place = at * (middle if align_corners else size * 0.5) + middle
    if reflects:
        low, span = (0.0, size - 1) if align_corners else (-0.5, size)
        if isinstance(span, int) and span == 0:
            return torch.zeros_like(at, dtype=torch.bool)
        rest = torch.remainder(place - low, 2 * span)
        place = torch.where(rest > span, 2 * span - rest, rest) + low
    return (place > 0) & (place < size - 1)
