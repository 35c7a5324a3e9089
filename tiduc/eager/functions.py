"""Implementations of NumPy's functions for eager arrays. NumPy calls them by `__array_function__`.

A function without a derivative, such as `argmax`, calls NumPy's own function on the elements. Other functions are in
`elementwise`, `totals`, `moves`, `arrangement`, `norms`, `linear_algebra` and `fourier`.
"""

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index
from numpy.typing import ArrayLike, DTypeLike, NDArray

from tiduc.eager import movement, products
from tiduc.eager.array import Array, array, valued
from tiduc.eager.moves import at, plain
from tiduc.eager.record import EagerInput
from tiduc.eager.registry import FUNCTIONS, NumpyFunction, Result, implements
from tiduc.eager.session import constant
from tiduc.runtime.arrays import refuse_masked

# ---- products ----------------------------------------------------------------------------------------------


@implements(np.dot)
def dot(a: ArrayLike, b: ArrayLike) -> Array:
    x, y = valued(a), valued(b)
    if not x.data.ndim or not y.data.ndim:
        product: Array = array(a) * b
        return product
    last = y.data.ndim - 2 if y.data.ndim > 1 else 0
    return Array.of(products.tensordot(x, y, ([x.data.ndim - 1], [last])))


@implements(np.tensordot)
def tensordot(
    a: ArrayLike, b: ArrayLike, axes: int | tuple[int | Sequence[int], int | Sequence[int]] = 2
) -> Array:
    x, y = valued(a), valued(b)
    if isinstance(axes, int):
        axes = list(range(x.data.ndim - axes, x.data.ndim)), list(range(axes))
    of_x, of_y = ([d] if isinstance(d, int) else list(d) for d in axes)
    return Array.of(products.tensordot(x, y, (of_x, of_y)))


@implements(np.outer)
def outer(a: ArrayLike, b: ArrayLike) -> Array:
    return Array.of(products.tensordot(array(a).ravel().value, array(b).ravel().value, ([], [])))


@implements(np.inner)
def inner(a: ArrayLike, b: ArrayLike) -> Array:
    x, y = valued(a), valued(b)
    return Array.of(products.tensordot(x, y, ([x.data.ndim - 1], [y.data.ndim - 1])))


@implements(np.einsum)
def einsum(spelled: str, *operands: ArrayLike, optimize: products.Optimize = True) -> Array:
    return Array.of(products.einsum(spelled, [valued(x) for x in operands], optimize))


@implements(np.kron)
def kron(a: ArrayLike, b: ArrayLike) -> Result:
    x, y = array(a), array(b)
    rank = max(x.ndim, y.ndim)
    sizes = [[1] * (rank - z.ndim) + list(z.shape) for z in (x, y)]
    x = x.reshape([n for size in sizes[0] for n in (size, 1)])
    y = y.reshape([n for size in sizes[1] for n in (1, size)])
    return (x * y).reshape([m * n for m, n in zip(*sizes, strict=True)])


@implements(np.vdot)
def vdot(a: ArrayLike, b: ArrayLike) -> Array:
    return dot(np.conj(array(a).ravel()), array(b).ravel())


FUNCTIONS[np.linalg.matmul] = np.matmul
FUNCTIONS[np.linalg.outer] = lambda x1, x2, /: outer(x1, x2)
FUNCTIONS[np.linalg.tensordot] = lambda x1, x2, /, *, axes=2: tensordot(x1, x2, axes)
FUNCTIONS[np.linalg.vecdot] = np.vecdot

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
def where(condition: ArrayLike, x: ArrayLike | None = None, y: ArrayLike | None = None) -> Result:
    if x is None or y is None:
        return np.nonzero(array(condition))
    (a, c), dtype = _alike(x, y)
    return Array.of(movement.select(valued(condition), a, c, dtype))


@implements(np.clip)
def clip(
    a: ArrayLike,
    a_min: ArrayLike | None = None,
    a_max: ArrayLike | None = None,
    min: ArrayLike | None = None,
    max: ArrayLike | None = None,
) -> Result:
    """`np.clip`. The bounds may be named `a_min` and `a_max`, or `min` and `max`."""
    if (min is not None or max is not None) and (a_min is not None or a_max is not None):
        raise ValueError("np.clip takes a_min and a_max, or min and max")
    low, high = a_min if min is None else min, a_max if max is None else max
    if low is None:
        return array(a).copy() if high is None else np.minimum(a, high)
    if high is None:
        return np.maximum(a, low)
    (of, below, above), dtype = _alike(a, low, high)
    return Array.of(movement.clip(of, below, above, dtype))


@implements(np.take_along_axis)
def take_along_axis(arr: ArrayLike, indices: NDArray[Any] | Array, axis: int | None = -1) -> Array:
    x, chosen = array(arr), np.asarray(plain(indices))
    if axis is None:
        x, axis = x.ravel(), 0
    axis = normalize_axis_index(axis, x.ndim)
    if chosen.dtype.kind not in "iu":
        raise IndexError("`indices` must be an integer array")
    if chosen.ndim != x.ndim:
        raise ValueError("`indices` and `arr` must have the same number of dimensions")
    count = x.shape[axis]
    if chosen.size and (chosen.max() >= count or chosen.min() < -count):
        raise IndexError(f"an index is out of bounds for axis {axis} with size {count}")
    step = math.prod(x.shape[axis + 1 :])
    return at(x, _starts(x.shape, axis) + chosen.astype(np.int64) % max(count, 1) * step)


@functools.lru_cache
def _starts(sizes: tuple[int, ...], axis: int) -> NDArray[np.int64]:
    """For each line of elements along the axis: the position in the flattened array of the line's first element."""
    return np.arange(math.prod(sizes)).reshape(sizes).take([0], axis)


@implements(np.sort)
def sort(a: ArrayLike, axis: int | None = -1) -> Result:
    """The elements in the order of NumPy's stable argsort."""
    return np.take_along_axis(array(a), np.argsort(array(a).data, axis=axis, kind="stable"), axis)


@implements(np.trace)
def trace(
    a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: DTypeLike | None = None
) -> Result:
    return np.sum(np.diagonal(array(a), offset, axis1, axis2), axis=-1, dtype=dtype)


@implements(np.linalg.trace)
def trace_of_matrices(x: ArrayLike, offset: int = 0, dtype: DTypeLike | None = None) -> Result:
    return trace(x, offset, -2, -1, dtype)


def _triangle(function: NumpyFunction) -> NumpyFunction:
    def implementation(m: Array, k: int = 0) -> Result:
        return where(function(np.ones(array(m).shape[-2:], np.bool_), k), m, array(m).dtype.type(0))

    return implementation


implements(np.tril)(_triangle(np.tril))
implements(np.triu)(_triangle(np.triu))


def _unique(function: NumpyFunction) -> NumpyFunction:
    """An implementation of `np.unique_all` or a similar function.

    The distinct elements are a gather, so they have a derivative. NumPy computes positions and counts.
    """

    def implementation(x: ArrayLike) -> Result:
        found, result = np.unique_all(plain(x)), function(plain(x))
        values = at(x, found.indices)
        if isinstance(result, np.ndarray):
            return values
        known = {**found._asdict(), "values": values}
        return type(result)(*[array(known[name]) for name in result._fields])

    return implementation


for _name in ("unique_all", "unique_counts", "unique_inverse", "unique_values"):
    implements(getattr(np, _name))(_unique(getattr(np, _name)))


# ---- functions of other functions --------------------------------------------------------------------------


@implements(np.interp)
def interp(
    x: ArrayLike, xp: ArrayLike, fp: ArrayLike, left: ArrayLike | None = None, right: ArrayLike | None = None
) -> Result:
    """Piecewise linear interpolation between the points (xp, fp).

    Outside of the points, the result is `left` or `right`. The defaults are the first and the last element of fp.
    """
    of, places, values = array(x), array(xp), array(fp)
    i = np.clip(np.searchsorted(places.data, of.data, side="right"), 1, max(places.size - 1, 1))
    before, after = np.maximum(i - 1, 0), np.minimum(i, places.size - 1)
    gap, rise = places[after] - places[before], values[after] - values[before]
    slope = where(gap == 0, 0.0, rise / where(gap == 0, 1.0, gap))
    inside = values[before] + (of - places[before]) * slope
    inside = where(of < places[0], values[0] if left is None else left, inside)
    return where(of > places[-1], values[-1] if right is None else right, inside)


@implements(np.round)
def round_(a: ArrayLike, decimals: int = 0) -> Result:
    x = array(a)
    if x.dtype.kind in "iub":
        if decimals < 0:
            raise TypeError("np.round of an eager array of integers does not support negative decimals")
        return x.copy()
    return np.rint(x) if not decimals else np.rint(x * 10.0**decimals) / 10.0**decimals


# ---- positions and sizes -----------------------------------------------------------------------------------


def _by_numpy(function: NumpyFunction) -> NumpyFunction:
    def eager(y: object) -> object:
        if isinstance(y, tuple):
            return tuple(map(eager, y))
        return (
            Array(y)
            if isinstance(y, np.ndarray)
            else Array.of(constant(y))
            if isinstance(y, np.generic)
            else y
        )

    def implementation(*args: object, **kwargs: object) -> object:
        return eager(function(*map(plain, args), **{name: plain(x) for name, x in kwargs.items()}))

    return implementation


_ON_ELEMENTS = """allclose argmax argmin argsort argwhere array_equal can_cast count_nonzero empty_like flatnonzero
full_like iscomplexobj isin isrealobj ndim nonzero ones_like result_type searchsorted shape size zeros_like"""
"""The functions without a derivative. NumPy's own functions compute them from the elements."""

FUNCTIONS.update({getattr(np, name): _by_numpy(getattr(np, name)) for name in _ON_ELEMENTS.split()})
FUNCTIONS[np.linalg.matrix_rank] = _by_numpy(np.linalg.matrix_rank)


@implements(np.astype)
def astype(x: Array, dtype: DTypeLike, copy: bool = True) -> Array:
    return x.copy() if x.dtype == dtype and copy else x.astype(dtype)


@implements(np.copy)
def copy(a: Array) -> Array:
    return a.copy()


@implements(np.real)
def real(val: Array) -> Array:
    return val.real


@implements(np.imag)
def imag(val: Array) -> Array:
    return val.imag
