"""The pattern of the Jacobian of one op: the elements of an operand on which each element of a result may depend.

`sources(op, i, y, known)` is an integer array [size of y, m]: row j has the flat indices of the elements of operand i
that element j of the result y may depend on, padded with -1. If no rule in this file applies, row j lists all operand
elements whose indices along aligned dimensions (`alignment.py`) equal those of element j. Such a row may be too long,
but misses no dependence. `known(x)` returns the elements of an integer operand x, such as the indices of a gather, or
None if they are not known.
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.dialect.facts.windows import Window, window_of, window_of_convolution
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.shapes.types import rank, shape
from tiduc.passes.batching.alignment import aligned_dimensions

Places = NDArray[np.int64]
Known = Callable[[Value], "NDArray[Any] | None"]

MOST = 2**24
"""The largest number of entries of a pattern, and of elements of a value. A larger number raises `TooManyPlaces`."""


class TooManyPlaces(Exception):
    """Raised if a pattern is not sparse, or so large that finding it would not pay off."""


def sources(op: Definition, i: int, y: Value, known: Known) -> Places:
    """Returns, for each element of the result y, the flat indices of the elements of operand i on which it may depend.

    Raises `TooManyPlaces` if there are too many indices.
    """
    if max(_size(shape(v)) for v in (y, *op.operands)) > MOST:
        raise TooManyPlaces
    rule = _RULES.get(op.name)
    found = rule(op, i, known) if rule is not None else None
    return found if found is not None else _along_aligned(op, i, y)


def _along_aligned(op: Definition, i: int, y: Value) -> Places:
    """Lists, for each result element, all operand elements with the same indices along the aligned dimensions."""
    x = op.operands[i]
    of_x, of_y = shape(x), shape(y)
    aligned = aligned_dimensions(op, i)
    if not aligned and not of_x:
        return np.zeros((_size(of_y), 1), np.int64)
    free = [d for d in range(len(of_x)) if d not in aligned]
    count = _size([of_x[d] for d in free])
    if _size(of_y) * count > MOST:
        raise TooManyPlaces
    strides = _strides(of_x)
    places = np.zeros([*of_y, count], np.int64)
    for d, e in aligned.items():
        index = np.arange(of_y[e]) * strides[d]
        places += index.reshape([-1 if k == e else 1 for k in range(len(of_y))] + [1])
    inner = np.zeros([of_x[d] for d in free], np.int64)
    for k, d in enumerate(free):
        inner += (np.arange(of_x[d]) * strides[d]).reshape([-1 if j == k else 1 for j in range(len(free))])
    return (places + inner.reshape(-1)).reshape(_size(of_y), count)


def _size(sizes: Sequence[int]) -> int:
    return prod(sizes)


def _strides(sizes: Sequence[int]) -> list[int]:
    return [_size(sizes[d + 1 :]) for d in range(len(sizes))]


def numbered(x: Value) -> Places:
    """An array of the value's shape that holds the flat index of each element.

    Raises `TooManyPlaces` if there are too many elements.
    """
    if _size(shape(x)) > MOST:
        raise TooManyPlaces
    return np.arange(_size(shape(x)), dtype=np.int64).reshape(shape(x))


def _column(places: ArrayLike) -> Places:
    return np.asarray(places, np.int64).reshape(-1, 1)


# ---- each rule below finds the operand elements that the elements of one op's result depend on -------------


def _broadcast_in_dim(op: Definition, i: int, known: Known) -> Places:
    sizes, at = shape(op.result), list(op.attributes["broadcast_dimensions"])
    spread = [1] * len(sizes)
    for d, e in enumerate(at):
        spread[e] = shape(op.operands[0])[d]
    order = np.argsort(at)
    turned = np.transpose(numbered(op.operands[0]), order) if at else numbered(op.operands[0])
    return _column(np.broadcast_to(turned.reshape(spread), sizes))


def _concatenate(op: Definition, i: int, known: Known) -> Places:
    parts = [numbered(x) if j == i else np.full(shape(x), -1) for j, x in enumerate(op.operands)]
    return _column(np.concatenate(parts, int(op.attributes["dimension"].value)))


def _dynamic_slice(op: Definition, i: int, known: Known) -> Places | None:
    starts = [known(x) for x in op.operands[1:]]
    if i or any(start is None for start in starts):
        return None
    sizes, own = shape(op.result), shape(op.operands[0])
    at = [min(max(int(s), 0), n - k) for s, n, k in zip(starts, own, sizes, strict=True)]  # type: ignore[arg-type]
    return _column(numbered(op.operands[0])[tuple(slice(s, s + k) for s, k in zip(at, sizes, strict=True))])


def _dynamic_update_slice(op: Definition, i: int, known: Known) -> Places | None:
    starts = [known(x) for x in op.operands[2:]]
    if i > 1 or any(start is None for start in starts):
        return None
    sizes, own = shape(op.operands[1]), shape(op.operands[0])
    at = [min(max(int(s), 0), n - k) for s, n, k in zip(starts, own, sizes, strict=True)]  # type: ignore[arg-type]
    places = numbered(op.operands[0]) if i == 0 else np.full(own, -1)
    within = tuple(slice(s, s + k) for s, k in zip(at, sizes, strict=True))
    places[within] = -1 if i == 0 else numbered(op.operands[1])
    return _column(places)


def _pad(op: Definition, i: int, known: Known) -> Places:
    names = "edge_padding_low", "edge_padding_high", "interior_padding"
    low, high, between = (list(op.attributes[name]) for name in names)
    places = np.full(shape(op.result), -1, np.int64)
    from_, to = [], []
    for n, first, gap, total in zip(shape(op.operands[0]), low, between, places.shape, strict=True):
        at = first + np.arange(n) * (gap + 1)
        inside = (at >= 0) & (at < total)
        from_.append(np.flatnonzero(inside))
        to.append(at[inside])
    if i == 1:
        places[...] = 0
        places[np.ix_(*to)] = -1
    else:
        places[np.ix_(*to)] = numbered(op.operands[0])[np.ix_(*from_)]
    return _column(places)


def _reshape(op: Definition, i: int, known: Known) -> Places:
    return _column(numbered(op.operands[0]))


def _reverse(op: Definition, i: int, known: Known) -> Places:
    return _column(np.flip(numbered(op.operands[0]), tuple(op.attributes["dimensions"])))


def _slice(op: Definition, i: int, known: Known) -> Places:
    bounds = (list(op.attributes[name]) for name in ("start_indices", "limit_indices", "strides"))
    return _column(numbered(op.operands[0])[tuple(slice(*ends) for ends in zip(*bounds, strict=True))])


def _transpose(op: Definition, i: int, known: Known) -> Places:
    return _column(np.transpose(numbered(op.operands[0]), list(op.attributes["permutation"])))


def _gather(op: Definition, i: int, known: Known) -> Places | None:
    indices = known(op.operands[1])
    if i or indices is None:
        return None
    n = hlo.GatherDimensionNumbers(op.attributes["dimension_numbers"])
    windows = list(n.offset_dims)
    gone = [*n.collapsed_slice_dims, *n.operand_batching_dims]
    pairs = zip(n.operand_batching_dims, n.start_indices_batching_dims, strict=True)
    at = _indexed(
        indices, int(n.index_vector_dim), list(n.start_index_map), list(pairs), rank(op.operands[0])
    )
    own, sizes = shape(op.operands[0]), list(op.attributes["slice_sizes"])
    at = [np.clip(start, 0, n_ - k) for start, n_, k in zip(at, own, sizes, strict=True)]
    return _column(_with_windows(at, windows, gone, own, shape(op.result)))


def _scatter(op: Definition, i: int, known: Known) -> Places | None:
    indices = known(op.operands[1]) if len(op.operands) == 3 else None
    if indices is None or i == 1:
        return None
    if i == 0:
        return _column(numbered(op.operands[0]))
    n = hlo.ScatterDimensionNumbers(op.attributes["scatter_dimension_numbers"])
    windows = list(n.update_window_dims)
    gone = [*n.inserted_window_dims, *n.input_batching_dims]
    pairs = zip(n.input_batching_dims, n.scatter_indices_batching_dims, strict=True)
    order = list(n.scattered_dims_to_operand_dims)
    at = _indexed(indices, int(n.index_vector_dim), order, list(pairs), rank(op.operands[0]))
    own = shape(op.operands[0])
    targets = _with_windows(at, windows, gone, own, shape(op.operands[2])).reshape(-1)
    return _inverted(targets, _size(own))


def _indexed(
    indices: NDArray[Any], vector: int, order: Sequence[int], pairs: Sequence[tuple[int, int]], count: int
) -> list[Places]:
    """The start indices of a gather's or scatter's slices along each of the operand's `count` dimensions.

    Each array in the list has one entry per slice. `vector` is the index vector dimension of `indices`. Component k of
    an index vector is a start index along the operand's dimension `order[k]`. `pairs` lists the batching dimensions,
    each as a pair (dimension of the operand, dimension of the indices).
    """
    indices = indices.astype(np.int64)
    if vector == indices.ndim:
        indices = indices[..., None]
    batch = [n for d, n in enumerate(indices.shape) if d != vector]
    starts = [np.zeros(batch, np.int64) for _ in range(count)]
    for k, d in enumerate(order):
        starts[d] = np.take(indices, k, vector)
    for d, at in pairs:
        e = at - (at > vector)
        along = np.arange(batch[e]).reshape([-1 if k == e else 1 for k in range(len(batch))])
        starts[d] = np.broadcast_to(along, batch)
    return starts


def _with_windows(
    starts: Sequence[Places],
    windows: Sequence[int],
    gone: Sequence[int],
    own: Sequence[int],
    sizes: Sequence[int],
) -> Places:
    """For each element of the slices, the flat index of the operand element at its position; -1 if out of bounds.

    `starts` has the start indices along each dimension of the operand. `windows` are the window dimensions of the
    slices, and `gone` the operand's dimensions that have no window dimension. `own` is the operand's shape, and `sizes`
    the shape of the slices.
    """
    batch = [d for d in range(len(sizes)) if d not in windows]
    of_window = iter(windows)
    places, inside = np.zeros(sizes, np.int64), np.ones(sizes, bool)
    for d, stride in enumerate(_strides(own)):
        spread = [1] * len(sizes)
        for e in batch:
            spread[e] = sizes[e]
        at: Any = starts[d].reshape(spread)
        if d not in gone:
            e = next(of_window)
            at = at + np.arange(sizes[e]).reshape([-1 if k == e else 1 for k in range(len(sizes))])
        places += at * stride
        inside &= (at >= 0) & (at < own[d])
    return np.where(inside, places, -1)


def _inverted(targets: NDArray[Any], count: int) -> Places:
    """The inverse of `targets`: row i of `count` rows lists the indices j with targets[j] = i, padded with -1."""
    entries = np.flatnonzero(targets >= 0)
    order = entries[np.argsort(targets[entries], kind="stable")]
    sorted_ = targets[order]
    first = np.searchsorted(sorted_, np.arange(count))
    nth = np.arange(len(order)) - first[sorted_]
    most = int(nth.max(initial=0)) + 1
    if count * most > MOST:
        raise TooManyPlaces
    places = np.full((count, most), -1, np.int64)
    places[sorted_, nth] = order
    return places


def _reduce_window(op: Definition, i: int, known: Known) -> Places | None:
    if i or len(op.results) != 1:
        return None
    window = window_of(op)
    return _under(op.operands[0], op.result, range(rank(op.result)), range(rank(op.result)), window)


def _convolution(op: Definition, i: int, known: Known) -> Places | None:
    n = hlo.ConvDimensionNumbers(op.attributes["dimension_numbers"])
    grouped = any(int(op.attributes[f"{kind}_group_count"].value) > 1 for kind in ("batch", "feature"))
    if i or grouped:
        return None
    window = window_of_convolution(op)
    spatial = list(n.input_spatial_dimensions), list(n.output_spatial_dimensions)
    batch = {int(n.input_batch_dimension): int(n.output_batch_dimension)}
    return _under(op.operands[0], op.result, *spatial, window, batch)


def _under(
    x: Value,
    y: Value,
    of_x: Sequence[int],
    of_y: Sequence[int],
    window: Window,
    batch: dict[int, int] | None = None,
) -> Places:
    """For each element of y, the flat indices of the elements of x in the element's window, and -1 for padding.

    The window moves along the dimensions `of_x` of x and `of_y` of y. `batch` maps batch dimensions of x to those of y.
    Along the remaining dimensions, the window covers all elements.
    """
    xs, ys = shape(x), shape(y)
    count = _size(window.sizes) * _size(
        [n for d, n in enumerate(xs) if d not in of_x and d not in (batch or {})]
    )
    if _size(ys) * count > MOST:
        raise TooManyPlaces
    result = np.zeros([*ys, 1], np.int64)
    for d, stride in enumerate(_strides(xs)):
        spread = [1] * len(ys)
        if d in of_x:
            k = list(of_x).index(d)
            e = of_y[k]
            at = (
                np.arange(ys[e])[:, None] * window.strides[k]
                + np.arange(window.sizes[k]) * window.dilation[k]
            )
            at = at - window.low[k]
            held = (at >= 0) & (at % window.base[k] == 0) & (at // window.base[k] < xs[d])
            at = np.where(held, at // window.base[k], -1)
            spread[e] = ys[e]
            along = at.reshape([*spread, window.sizes[k]])
        elif d in (batch or {}):
            e = (batch or {})[d]
            spread[e] = ys[e]
            along = np.arange(ys[e]).reshape([*spread, 1])
        else:
            along = np.arange(xs[d]).reshape([*spread, xs[d]])
        outside = (result < 0)[..., :, None] | (along < 0)[..., None, :]
        joint = result[..., :, None] + along[..., None, :] * stride
        result = np.where(outside, -1, joint).reshape([*ys, joint.shape[-2] * joint.shape[-1]])
    return result.reshape(_size(ys), result.shape[-1])


_RULES: dict[str, Callable[[Definition, int, Known], Places | None]] = {
    "stablehlo.broadcast_in_dim": _broadcast_in_dim,
    "stablehlo.concatenate": _concatenate,
    "stablehlo.convolution": _convolution,
    "stablehlo.dynamic_slice": _dynamic_slice,
    "stablehlo.dynamic_update_slice": _dynamic_update_slice,
    "stablehlo.gather": _gather,
    "stablehlo.pad": _pad,
    "stablehlo.reduce_window": _reduce_window,
    "stablehlo.reshape": _reshape,
    "stablehlo.reverse": _reverse,
    "stablehlo.scatter": _scatter,
    "stablehlo.slice": _slice,
    "stablehlo.transpose": _transpose,
}
