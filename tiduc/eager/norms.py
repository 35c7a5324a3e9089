"""Norms of vectors and matrices, and the cross product, on eager arrays."""

import math
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple
from numpy.typing import ArrayLike

from tiduc.eager.array import Array, valued
from tiduc.eager.elementwise import convert
from tiduc.eager.linear_algebra import svdvals
from tiduc.eager.reductions import Axes
from tiduc.eager.registry import FUNCTIONS, Result, implements

_NORMS: dict[Any, Any] = {math.inf: np.max, -math.inf: np.min, 1: np.sum}
"""Maps the order of a vector norm to the reduction of absolute values that computes it."""

_OF_SINGULAR_VALUES: dict[Any, Any] = {"nuc": np.sum, 2: np.max, -2: np.min}
"""Maps the order of a matrix norm to the reduction of singular values that computes it."""


@implements(np.linalg.vector_norm)
def vector_norm(x: ArrayLike, axis: Axes = None, keepdims: bool = False, ord: float = 2) -> Result:
    value = valued(x)
    array: Any = Array.of(convert(value, np.dtype("f8")) if value.data.dtype.kind in "iub" else value)
    size: Any = np.abs(array)
    if ord == 0:
        return np.sum((size != 0).astype(size.dtype), axis=axis, keepdims=keepdims)
    if ord in _NORMS:
        return _NORMS[ord](size, axis=axis, keepdims=keepdims)
    if ord == 2:
        return np.sqrt(np.sum(np.square(size), axis=axis, keepdims=keepdims))
    return np.sum(size**ord, axis=axis, keepdims=keepdims) ** (1 / ord)


@implements(np.linalg.matrix_norm)
def matrix_norm(x: ArrayLike, keepdims: bool = False, ord: float | str | None = "fro") -> Result:
    array: Any = Array.of(valued(x))
    if ord in ("fro", "f", None):
        return vector_norm(array, (-2, -1), keepdims)
    if ord in ("nuc", 2, -2):
        result: Any = _OF_SINGULAR_VALUES[ord](svdvals(array), axis=-1)
        return result[..., None, None] if keepdims else result
    if ord not in (1, -1, math.inf, -math.inf):
        raise ValueError(f"np.linalg.norm of matrices has no ord={ord!r}")
    sums = vector_norm(array, -2 if abs(ord) == 1 else -1, True, 1)
    return _NORMS[math.copysign(math.inf, ord)](sums, axis=(-2, -1), keepdims=keepdims)


@implements(np.linalg.norm)
def norm(x: ArrayLike, ord: float | str | None = None, axis: Axes = None, keepdims: bool = False) -> Result:
    """The norm of vectors along one axis, or of matrices along two axes.

    If `ord` is None, it is the 2-norm of the elements along `axis`, or of all elements if `axis` is None as well.
    """
    array: Any = Array.of(valued(x))
    axes = normalize_axis_tuple(range(array.ndim) if axis is None else axis, array.ndim)
    if ord is None and (axis is None or len(axes) < 3):
        return vector_norm(array, axes, keepdims)
    if len(axes) == 1 and not isinstance(ord, str):
        return vector_norm(array, axes, keepdims, ord=2 if ord is None else ord)
    if len(axes) != 2:
        raise ValueError(f"np.linalg.norm over {len(axes)} axes does not support ord={ord!r}")
    result = matrix_norm(np.moveaxis(array, axes, (-2, -1)), ord=ord)
    return np.expand_dims(result, axes) if keepdims else result


@implements(np.cross)
def cross(a: ArrayLike, b: ArrayLike, axis: int | None = -1) -> Result:
    """The cross product of vectors of three elements."""
    axis = -1 if axis is None else axis
    operands: list[Any] = [Array.of(valued(x)) for x in (a, b)]
    pair = [np.moveaxis(x, axis, -1) for x in operands]
    if any(x.shape[-1] != 3 for x in pair):
        raise ValueError("np.cross of eager arrays requires vectors of three elements")
    (x0, x1, x2), (y0, y1, y2) = ([x[..., i] for i in range(3)] for x in pair)
    parts = [x1 * y2 - x2 * y1, x2 * y0 - x0 * y2, x0 * y1 - x1 * y0]
    return np.stack(parts, axis=axis)


FUNCTIONS[np.linalg.cross] = lambda x1, x2, /, *, axis=-1: cross(x1, x2, axis)
