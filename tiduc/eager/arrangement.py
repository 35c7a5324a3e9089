"""NumPy's functions that reshape, join or split eager arrays."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple
from numpy.typing import ArrayLike, NDArray

from tiduc.eager import movement, views
from tiduc.eager.array import Array, array, valued
from tiduc.eager.moves import plain
from tiduc.eager.registry import FUNCTIONS, NumpyFunction, Result, implements

# ---- shapes ------------------------------------------------------------------------------------------------


@implements(np.reshape)
def reshape(a: ArrayLike, shape: int | Sequence[int], copy: bool | None = None) -> Array:
    result: Array = array(a).reshape(shape)
    return result.copy() if copy else result


@implements(np.ravel)
def ravel(a: ArrayLike) -> Result:
    return array(a).ravel()


@implements(np.transpose)
def transpose(a: ArrayLike, axes: Sequence[int] | None = None) -> Result:
    return array(a).transpose(*([] if axes is None else [axes]))


@implements(np.swapaxes)
def swapaxes(a: ArrayLike, axis1: int, axis2: int) -> Result:
    order = list(range(array(a).ndim))
    order[axis1], order[axis2] = order[axis2], order[axis1]
    return array(a).transpose(order)


@implements(np.matrix_transpose)
def matrix_transpose(x: ArrayLike) -> Result:
    if array(x).ndim < 2:
        raise ValueError(f"a matrix must have at least two dimensions, but the array has {array(x).ndim}")
    return swapaxes(x, -1, -2)


FUNCTIONS[np.linalg.matrix_transpose] = matrix_transpose


@implements(np.moveaxis)
def moveaxis(a: ArrayLike, source: int | Sequence[int], destination: int | Sequence[int]) -> Result:
    rank = array(a).ndim
    moved = dict(
        zip(normalize_axis_tuple(destination, rank), normalize_axis_tuple(source, rank), strict=True)
    )
    rest = iter(d for d in range(rank) if d not in moved.values())
    return array(a).transpose([moved[d] if d in moved else next(rest) for d in range(rank)])


@implements(np.expand_dims)
def expand_dims(a: ArrayLike, axis: int | Sequence[int]) -> Result:
    rank = array(a).ndim + (1 if isinstance(axis, int) else len(axis))
    new = normalize_axis_tuple(axis, rank)
    sizes = iter(array(a).shape)
    return array(a).reshape([1 if d in new else next(sizes) for d in range(rank)])


@implements(np.squeeze)
def squeeze(a: ArrayLike, axis: int | Sequence[int] | None = None) -> Result:
    sizes = array(a).shape
    dropped = (
        [d for d, n in enumerate(sizes) if n == 1] if axis is None else normalize_axis_tuple(axis, len(sizes))
    )
    if any(sizes[d] != 1 for d in dropped):
        raise ValueError(f"axis {axis} of shape {sizes} is not of size 1")
    return array(a).reshape([n for d, n in enumerate(sizes) if d not in dropped])


@implements(np.broadcast_to)
def broadcast_to(array: ArrayLike, shape: int | Sequence[int]) -> Array:
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    return Array.of(movement.broadcast_to(valued(array), sizes))


@implements(np.broadcast_arrays)
def broadcast_arrays(*args: ArrayLike) -> tuple[Array, ...]:
    sizes = np.broadcast_shapes(*[array(x).shape for x in args])
    return tuple(broadcast_to(x, sizes) for x in args)


@implements(np.meshgrid)
def meshgrid(
    *xi: ArrayLike, copy: bool = True, sparse: bool = False, indexing: str = "xy"
) -> tuple[Result, ...]:
    if indexing not in ("xy", "ij"):
        raise ValueError("Valid values for `indexing` are 'xy' and 'ij'.")
    places = [1, 0, *range(2, len(xi))] if indexing == "xy" and len(xi) > 1 else range(len(xi))
    parts = [
        array(x).reshape([-1 if d == i else 1 for d in range(len(xi))])
        for x, i in zip(xi, places, strict=True)
    ]
    return tuple(parts) if sparse else broadcast_arrays(*parts)


@implements(np.flip)
def flip(m: ArrayLike, axis: int | Sequence[int] | None = None) -> Result:
    """A view with the elements in reverse order along `axis`. By default, all axes are reversed."""
    x = array(m)
    axes = normalize_axis_tuple(range(x.ndim) if axis is None else axis, x.ndim)
    return array(x.view(views.flipped(axes, x.ndim)))


# ---- joining and splitting ---------------------------------------------------------------------------------


@implements(np.concatenate)
def concatenate(arrays: Sequence[ArrayLike], axis: int | None = 0) -> Array:
    if axis is None:
        arrays, axis = [array(x).ravel() for x in arrays], 0
    return Array.of(movement.concatenate([valued(x) for x in arrays], axis))


@implements(np.stack)
def stack(arrays: Sequence[ArrayLike], axis: int = 0) -> Array:
    return concatenate([expand_dims(x, axis) for x in arrays], axis)


@implements(np.vstack)
def vstack(tup: Sequence[ArrayLike]) -> Array:
    return concatenate([x if array(x).ndim > 1 else array(x).reshape(1, -1) for x in tup], 0)


@implements(np.hstack)
def hstack(tup: Sequence[ArrayLike]) -> Array:
    parts = [x if array(x).ndim else array(x).reshape(1) for x in tup]
    return concatenate(parts, 0 if array(parts[0]).ndim == 1 else 1)


@implements(np.pad)
def pad(array: ArrayLike, pad_width: ArrayLike, mode: str = "constant", **options: ArrayLike) -> Array:
    value = options.pop("constant_values", 0)
    if mode != "constant" or np.ndim(value) or options:
        raise ValueError("np.pad of eager arrays pads with a single constant only")
    x = valued(array)
    widths = np.broadcast_to(np.asarray(pad_width), (x.data.ndim, 2)).tolist()
    return Array.of(movement.pad(x, tuple(map(tuple, widths)), valued(value)))


@implements(np.diff)
def diff(
    a: ArrayLike,
    n: int = 1,
    axis: int = -1,
    prepend: ArrayLike | None = None,
    append: ArrayLike | None = None,
) -> Result:
    result = array(a)
    axis = normalize_axis_index(axis, result.ndim)
    ends = [None if x is None else array(x) for x in (prepend, append)]
    one = (*result.shape[:axis], 1, *result.shape[axis + 1 :])
    before, after = ([] if x is None else [x if x.ndim else broadcast_to(x, one)] for x in ends)
    result = concatenate([*before, result, *after], axis) if before or after else result
    start = (slice(None),) * axis
    for _ in range(n):
        low, high = result[(*start, slice(None, -1))], result[(*start, slice(1, None))]
        result = low != high if result.dtype.kind == "b" else high - low
    return result


def _split(function: NumpyFunction) -> NumpyFunction:
    """An implementation of `np.split` or `np.array_split` that returns views.

    NumPy's own function splits the positions along the axis, and checks the arguments.
    """

    def implementation(
        ary: Array, indices_or_sections: int | NDArray[Any] | Sequence[int], axis: int = 0
    ) -> list[Result]:
        x = array(ary)
        axis = normalize_axis_index(axis, x.ndim)
        positions = function(np.arange(x.shape[axis]), plain(indices_or_sections))
        before = (slice(None),) * axis
        return [x[(*before, slice(int(p[0]), int(p[-1]) + 1) if len(p) else slice(0, 0))] for p in positions]

    return implementation


implements(np.split)(_split(np.split))
implements(np.array_split)(_split(np.array_split))


@implements(np.unstack)
def unstack(x: ArrayLike, axis: int = 0) -> tuple[Result, ...]:
    return tuple(moveaxis(x, axis, 0))
