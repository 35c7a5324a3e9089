"""NumPy's functions on eager arrays, as NumPy dispatches them through `__array_function__`.

Functions such as `argmax` have no derivative: NumPy itself runs these on the elements.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple
from numpy.typing import ArrayLike, DTypeLike, NDArray

from tiduc.eager import movement, products, views
from tiduc.eager.array import Array, valued
from tiduc.eager.indexing import Positions, get
from tiduc.eager.record import EagerInput
from tiduc.eager.registry import FUNCTIONS, implements
from tiduc.eager.session import constant
from tiduc.eager.totals import REDUCTIONS
from tiduc.runtime.arrays import refuse_masked

T = TypeVar("T")

FUNCTIONS.update(REDUCTIONS)


def array(x: ArrayLike) -> Array:
    """An eager array of an object that NumPy converts to an array. An eager array is returned unchanged."""
    return x if isinstance(x, Array) else Array(x)


# ---- products ----------------------------------------------------------------------------------------------


@implements(np.dot)
def dot(x: ArrayLike, y: ArrayLike) -> Array:
    a, c = valued(x), valued(y)
    if not a.data.ndim or not c.data.ndim:
        product: Array = array(x) * y
        return product
    last = c.data.ndim - 2 if c.data.ndim > 1 else 0
    return Array.of(products.tensordot(a, c, ([a.data.ndim - 1], [last])))


@implements(np.tensordot)
def tensordot(
    x: ArrayLike, y: ArrayLike, axes: int | tuple[int | Sequence[int], int | Sequence[int]] = 2
) -> Array:
    a, c = valued(x), valued(y)
    if isinstance(axes, int):
        axes = list(range(a.data.ndim - axes, a.data.ndim)), list(range(axes))
    of_x, of_y = ([d] if isinstance(d, int) else list(d) for d in axes)
    return Array.of(products.tensordot(a, c, (of_x, of_y)))


@implements(np.outer)
def outer(x: ArrayLike, y: ArrayLike) -> Array:
    return Array.of(products.tensordot(valued(array(x).ravel()), valued(array(y).ravel()), ([], [])))


@implements(np.inner)
def inner(x: ArrayLike, y: ArrayLike) -> Array:
    a, c = valued(x), valued(y)
    return Array.of(products.tensordot(a, c, ([a.data.ndim - 1], [c.data.ndim - 1])))


@implements(np.einsum)
def einsum(spelled: str, *operands: ArrayLike, optimize: products.Optimize = True) -> Array:
    return Array.of(products.einsum(spelled, [valued(x) for x in operands], optimize))


# ---- shapes ------------------------------------------------------------------------------------------------


@implements(np.reshape)
def reshape(x: ArrayLike, shape: int | Sequence[int]) -> Array:
    return array(x).reshape(shape)


@implements(np.ravel)
def ravel(x: ArrayLike) -> Array:
    return array(x).ravel()


@implements(np.transpose)
def transpose(x: ArrayLike, axes: Sequence[int] | None = None) -> Array:
    return array(x).transpose(*([] if axes is None else [axes]))


@implements(np.swapaxes)
def swapaxes(x: ArrayLike, axis1: int, axis2: int) -> Array:
    order = list(range(array(x).ndim))
    order[axis1], order[axis2] = order[axis2], order[axis1]
    return array(x).transpose(order)


@implements(np.moveaxis)
def moveaxis(x: ArrayLike, source: int | Sequence[int], destination: int | Sequence[int]) -> Array:
    rank = array(x).ndim
    moved = dict(
        zip(normalize_axis_tuple(destination, rank), normalize_axis_tuple(source, rank), strict=True)
    )
    rest = iter(d for d in range(rank) if d not in moved.values())
    return array(x).transpose([moved[d] if d in moved else next(rest) for d in range(rank)])


@implements(np.expand_dims)
def expand_dims(x: ArrayLike, axis: int | Sequence[int]) -> Array:
    rank = array(x).ndim + (1 if isinstance(axis, int) else len(axis))
    new = normalize_axis_tuple(axis, rank)
    sizes = iter(array(x).shape)
    return array(x).reshape([1 if d in new else next(sizes) for d in range(rank)])


@implements(np.squeeze)
def squeeze(x: ArrayLike, axis: int | Sequence[int] | None = None) -> Array:
    sizes = array(x).shape
    dropped = (
        [d for d, n in enumerate(sizes) if n == 1] if axis is None else normalize_axis_tuple(axis, len(sizes))
    )
    if any(sizes[d] != 1 for d in dropped):
        raise ValueError(f"axis {axis} of shape {sizes} is not of size 1")
    return array(x).reshape([n for d, n in enumerate(sizes) if d not in dropped])


@implements(np.broadcast_to)
def broadcast_to(x: ArrayLike, shape: int | Sequence[int]) -> Array:
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    return Array.of(movement.broadcast_to(valued(x), sizes))


@implements(np.flip)
def flip(x: ArrayLike, axis: int | Sequence[int] | None = None) -> Array:
    """A view, as in NumPy."""
    x = array(x)
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
def pad(
    x: ArrayLike, pad_width: ArrayLike, mode: str = "constant", *, constant_values: ArrayLike = 0
) -> Array:
    if mode != "constant" or np.ndim(constant_values):
        raise ValueError("np.pad of eager arrays pads with a single constant only")
    widths = np.broadcast_to(np.asarray(pad_width), (array(x).ndim, 2)).tolist()
    return Array.of(movement.pad(valued(x), tuple(map(tuple, widths)), valued(constant_values)))


@implements(np.diff)
def diff(x: ArrayLike, n: int = 1, axis: int = -1) -> Array:
    result = array(x)
    before = (slice(None),) * normalize_axis_index(axis, result.ndim)
    for _ in range(n):
        result = result[(*before, slice(1, None))] - result[(*before, slice(None, -1))]
    return result


def _split(function: Callable[..., list[NDArray[Any]]]) -> Callable[..., list[Array]]:
    """An eager version of `np.split` or `np.array_split`, which returns views. The NumPy function checks `parts`."""

    def implementation(x: Array, parts: int | NDArray[Any] | Sequence[int], axis: int = 0) -> list[Array]:
        x = array(x)
        axis = normalize_axis_index(axis, x.ndim)
        positions = function(np.arange(x.shape[axis]), _plain(parts))
        before = (slice(None),) * axis
        return [x[(*before, slice(int(p[0]), int(p[-1]) + 1) if len(p) else slice(0, 0))] for p in positions]

    return implementation


FUNCTIONS.update({np.split: _split(np.split), np.array_split: _split(np.array_split)})


# ---- selection ---------------------------------------------------------------------------------------------


def _alike(*operands: ArrayLike) -> tuple[list[EagerInput], "np.dtype[Any]"]:
    """The operands as values, and their common NumPy type. Python numbers take the type of the other operands."""
    refuse_masked(operands)
    known = [
        x if hasattr(x, "dtype") or isinstance(x, (bool, int, float, complex)) else np.asarray(x)
        for x in operands
    ]
    dtype: np.dtype[Any] = np.result_type(*[getattr(x, "dtype", x) for x in known])
    return [x.value if isinstance(x, Array) else constant(x, dtype) for x in known], dtype


@implements(np.where)
def where(condition: ArrayLike, x: ArrayLike, y: ArrayLike) -> Array:
    (a, c), dtype = _alike(x, y)
    return Array.of(movement.select(valued(condition), a, c, dtype))


@implements(np.clip)
def clip(
    x: ArrayLike,
    a_min: ArrayLike | None = None,
    a_max: ArrayLike | None = None,
    out: Array | NDArray[Any] | None = None,
    **bounds: ArrayLike | None,
) -> Array:
    """`np.clip`, whose bounds may also be named `min` and `max`."""
    if out is not None or not set(bounds) <= {"min", "max"}:
        raise TypeError(f"np.clip of eager arrays takes two bounds, and no {[*bounds] if bounds else 'out='}")
    if bounds and (a_min is not None or a_max is not None):
        raise ValueError("np.clip takes a_min and a_max, or min and max")
    low, high = bounds.get("min", a_min), bounds.get("max", a_max)
    if low is None:
        return array(x).copy() if high is None else array(np.minimum(x, high))
    if high is None:
        return array(np.maximum(x, low))
    (of, below, above), dtype = _alike(x, low, high)
    return Array.of(movement.clip(of, below, above, dtype))


def _at(x: ArrayLike, positions: NDArray[Any]) -> Array:
    """The elements at these positions of the flattened x."""
    return Array.of(get(valued(x), Positions(np.ascontiguousarray(positions, np.int64))))


def _every(x: ArrayLike) -> NDArray[Any]:
    """The position of each element of x in the flattened x, in the shape of x."""
    return np.arange(array(x).size).reshape(array(x).shape)


def _plain(x: int | str | NDArray[Any] | Array | Sequence[int]) -> Any:
    return x.data if isinstance(x, Array) else x


@implements(np.take)
def take(x: ArrayLike, indices: int | NDArray[Any] | Array | Sequence[int], axis: int | None = None) -> Array:
    return _at(x, np.take(_every(x), _plain(indices), axis=axis))


@implements(np.take_along_axis)
def take_along_axis(x: ArrayLike, indices: NDArray[Any] | Array, axis: int) -> Array:
    return _at(x, np.take_along_axis(_every(x), _plain(indices), axis=axis))


@implements(np.sort)
def sort(x: ArrayLike, axis: int = -1) -> Array:
    """The elements in the order of NumPy's stable argsort."""
    return take_along_axis(x, np.argsort(array(x).data, axis=axis, kind="stable"), axis)


@implements(np.diagonal)
def diagonal(x: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    return _at(x, np.diagonal(_every(x), offset, axis1, axis2))


@implements(np.trace)
def trace(x: ArrayLike, offset: int = 0) -> Array:
    return diagonal(x, offset).sum(axis=-1)


@implements(np.roll)
def roll(x: ArrayLike, shift: int | Sequence[int], axis: int | Sequence[int] | None = None) -> Array:
    return _at(x, np.roll(_every(x), shift, axis))


@implements(np.repeat)
def repeat(
    x: ArrayLike, repeats: int | NDArray[Any] | Array | Sequence[int], axis: int | None = None
) -> Array:
    return _at(x, np.repeat(_every(x), _plain(repeats), axis))


@implements(np.tile)
def tile(x: ArrayLike, reps: int | Sequence[int]) -> Array:
    return _at(x, np.tile(_every(x), reps))


def _triangle(function: Callable[..., NDArray[Any]]) -> Callable[..., Array]:
    def implementation(x: Array, k: int = 0) -> Array:
        inside = function(np.ones(array(x).shape[-2:], np.bool_), k)
        return where(inside, x, 0)

    return implementation


FUNCTIONS.update({np.tril: _triangle(np.tril), np.triu: _triangle(np.triu)})


# ---- positions and sizes -----------------------------------------------------------------------------------


def _by_numpy(function: Callable[..., T]) -> Callable[..., T]:
    def implementation(*args: Array, **kwargs: NDArray[Any] | Array | int | str) -> T:
        return function(*map(_plain, args), **{name: _plain(x) for name, x in kwargs.items()})

    return implementation


for _function in (np.argmax, np.argmin, np.argsort, np.nonzero, np.searchsorted, np.shape, np.ndim, np.size):
    FUNCTIONS[_function] = _by_numpy(_function)
FUNCTIONS[np.array_equal] = _by_numpy(np.array_equal)
FUNCTIONS[np.allclose] = _by_numpy(np.allclose)


@implements(np.zeros_like)
def zeros_like(x: Array, dtype: DTypeLike | None = None) -> Array:
    return Array(np.zeros(x.shape, dtype or x.dtype))


@implements(np.ones_like)
def ones_like(x: Array, dtype: DTypeLike | None = None) -> Array:
    return Array(np.ones(x.shape, dtype or x.dtype))


@implements(np.copy)
def copy(x: Array) -> Array:
    return x.copy()


@implements(np.real)
def real(x: Array) -> Array:
    return x.real


@implements(np.imag)
def imag(x: Array) -> Array:
    return x.imag
