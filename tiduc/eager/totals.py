"""NumPy's reductions, and cumulative sums and products, of eager arrays."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index
from numpy.typing import ArrayLike, DTypeLike

from tiduc.eager.array import Array, valued
from tiduc.eager.elementwise import convert
from tiduc.eager.record import EagerInput
from tiduc.eager.reductions import Axes, cumulated, reduce, variance
from tiduc.eager.registry import implements


def _source(x: ArrayLike, dtype: DTypeLike | None) -> EagerInput:
    """The value of x, converted to `dtype` unless `dtype` is None."""
    return valued(x) if dtype is None else convert(valued(x), np.dtype(dtype))


def _total(
    name: str, a: Array, axis: Axes = None, dtype: DTypeLike | None = None, keepdims: bool = False
) -> Array:
    return Array.of(reduce(name, _source(a, dtype), axis, keepdims, dtype))


def _choice(name: str, a: Array, axis: Axes = None, keepdims: bool = False) -> Array:
    return Array.of(reduce(name, valued(a), axis, keepdims))


def _spread(
    name: str,
    a: Array,
    axis: Axes = None,
    dtype: type | None = None,
    ddof: float = 0,
    keepdims: bool = False,
    correction: float | None = None,
) -> Array:
    if dtype is not None and np.dtype(dtype).kind != "f":
        raise TypeError(f"np.{name} of eager arrays is not computed in {np.dtype(dtype)}")
    ddof = ddof if correction is None else correction
    return Array.of(variance(_source(a, dtype), axis, keepdims, ddof, root=name == "std"))


def _running(name: str, a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None) -> Array:
    """`np.cumsum` or `np.cumprod`. If `axis` is None, flattens the array first."""
    x = Array.of(_source(a, dtype))
    flat = x.ravel() if axis is None else x
    return Array.of(cumulated(name, flat.value, normalize_axis_index(axis or 0, flat.ndim), dtype))


def _cumulative(
    name: str,
    x: Array,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
) -> Array:
    """`np.cumulative_sum` or `np.cumulative_prod`. With `include_initial`, the result begins with 0 or 1."""
    if axis is None and x.ndim > 1:
        raise ValueError(f"np.cumulative_{name} needs an axis for an array of {x.ndim} dimensions")
    axis = normalize_axis_index(axis or 0, x.ndim)
    totals: Any = _running(name, x, axis, dtype)
    if include_initial:
        first = np.full((*x.shape[:axis], 1, *x.shape[axis + 1 :]), int(name == "prod"), totals.dtype)
        totals = np.concatenate([first, totals], axis)
    return totals  # type: ignore[no-any-return]


_FAMILIES: dict[Callable[..., Array], str] = {
    _total: "mean prod sum",
    _choice: "all amax amin any max min",
    _spread: "std var",
    _running: "cumprod cumsum",
    _cumulative: "cumulative_prod cumulative_sum",
}
"""Maps an implementation to the names of the functions of NumPy that it implements."""

for _family, _names in _FAMILIES.items():
    for _name in _names.split():
        _own = (
            _name.removeprefix("cumulative_")
            .removeprefix("cum")
            .removeprefix("a" if _name[:2] == "am" else "")
        )
        implements(getattr(np, _name))(partial(_family, _own))
