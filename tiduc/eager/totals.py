"""NumPy's reductions of eager arrays, with NumPy's parameters in NumPy's order.

The parameters `out`, `where` and `initial` raise TypeError; norms of matrices other than Frobenius raise ValueError.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple
from numpy.typing import ArrayLike, DTypeLike, NDArray

from tiduc.eager.array import Array, valued
from tiduc.eager.elementwise import convert
from tiduc.eager.record import EagerInput
from tiduc.eager.reductions import Axes, cumulated, reduce, variance


def _source(
    function: str, x: ArrayLike, dtype: DTypeLike | None, out: Array | NDArray[Any] | None
) -> EagerInput:
    """The operand of a reduction, converted to `dtype` if there is one."""
    if out is not None:
        raise TypeError(f"np.{function} of eager arrays gives a new array, and takes no out=")
    return valued(x) if dtype is None else convert(valued(x), np.dtype(dtype))


def _with_name(function: str, implementation: Callable[..., Array]) -> Callable[..., Array]:
    """The implementation with the name of NumPy's function, which Python shows in a `TypeError` about arguments."""
    implementation.__qualname__ = f"np.{function}"
    return implementation


def _reduction(name: str) -> Callable[..., Array]:
    def implementation(
        a: Array,
        axis: Axes = None,
        dtype: DTypeLike | None = None,
        out: Array | NDArray[Any] | None = None,
        keepdims: bool = False,
    ) -> Array:
        return Array.of(reduce(name, _source(name, a, dtype, out), axis, keepdims, dtype))

    return _with_name(name, implementation)


def _choice(name: str) -> Callable[..., Array]:
    def implementation(
        a: Array, axis: Axes = None, out: Array | NDArray[Any] | None = None, keepdims: bool = False
    ) -> Array:
        return Array.of(reduce(name, _source(name, a, None, out), axis, keepdims))

    return _with_name(name, implementation)


def _spread(name: str) -> Callable[..., Array]:
    def implementation(
        a: Array,
        axis: Axes = None,
        dtype: type | None = None,
        out: Array | NDArray[Any] | None = None,
        ddof: float = 0,
        keepdims: bool = False,
    ) -> Array:
        if dtype is not None and np.dtype(dtype).kind != "f":
            raise TypeError(f"np.{name} of eager arrays is not computed in {np.dtype(dtype)}")
        return Array.of(variance(_source(name, a, dtype, out), axis, keepdims, ddof, root=name == "std"))

    return _with_name(name, implementation)


def cumsum(
    a: ArrayLike,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    out: Array | NDArray[Any] | None = None,
) -> Array:
    """`np.cumsum`. Without an axis, it sums the elements in row-major order."""
    x = Array.of(_source("cumsum", a, dtype, out))
    flat = x.ravel() if axis is None else x
    return Array.of(cumulated(flat.value, normalize_axis_index(axis or 0, flat.ndim), dtype))


def norm(x: ArrayLike, ord: float | str | None = None, axis: Axes = None, keepdims: bool = False) -> Array:
    """`np.linalg.norm`: the orders 1, 2, inf and -inf of vectors, and the Frobenius norm of matrices.

    The default is the norm of all elements.
    """
    value = valued(x)
    array: Any = Array.of(convert(value, np.dtype("f8")) if value.data.dtype.kind in "iub" else value)
    axes = normalize_axis_tuple(range(array.ndim) if axis is None else axis, array.ndim)
    if ord is None and axis is not None and len(axes) not in (1, 2):
        raise ValueError(f"np.linalg.norm takes one axis or two axes, not {len(axes)}")
    size: Any = np.abs(array)
    if ord is None or (ord == 2 and len(axes) == 1) or (ord in ("fro", "f") and len(axes) == 2):
        result: Any = np.sqrt(np.sum(np.square(size), axis=axes, keepdims=keepdims))
    elif len(axes) == 1 and ord in _NORMS:
        result = _NORMS[ord](size, axis=axes, keepdims=keepdims)
    else:
        raise ValueError(
            f"np.linalg.norm of eager arrays has no ord={ord!r} over {len(axes)} axes; "
            "ord may be 1, 2, inf or -inf over one axis, 'fro' over two axes, or None"
        )
    return result  # type: ignore[no-any-return]


_NORMS: dict[Any, Any] = {1: np.sum, math.inf: np.max, -math.inf: np.min}
"""The reduction of the absolute values, by the order of a vector norm. `norm` itself handles order 2."""

REDUCTIONS: dict[Any, Callable[..., Array]] = {
    np.all: _choice("all"),
    np.amax: _choice("max"),
    np.amin: _choice("min"),
    np.any: _choice("any"),
    np.cumsum: cumsum,
    np.linalg.norm: norm,
    np.max: _choice("max"),
    np.mean: _reduction("mean"),
    np.min: _choice("min"),
    np.prod: _reduction("prod"),
    np.std: _spread("std"),
    np.sum: _reduction("sum"),
    np.var: _spread("var"),
}
"""The implementation of each of NumPy's functions."""
