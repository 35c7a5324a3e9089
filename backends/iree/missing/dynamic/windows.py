"""reduce_window and convolution with dynamic dimensions: strided slices, combined for all windows at once."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from torch_mlir import ir

from tiduc.backends.iree.emit.arrays import mapped, part, repeated, sizes_of, type_of
from tiduc.backends.iree.emit.convolutions_as_products import at_offset, precision
from tiduc.backends.iree.emit.emitter import DYNAMIC, Emitter, legalize
from tiduc.backends.iree.emit.refused import refused
from tiduc.backends.iree.emit.sizes import larger, padded, window_count, with_static_sizes
from tiduc.backends.iree.fault import missing
from tiduc.dialect.facts.windows import (
    Layout,
    Window,
    group_counts,
    reversal,
    window_of,
    window_of_convolution,
)
from tiduc.dialect.ops.contractions import NUMBERS, Contraction
from tiduc.dialect.shapes.types import dims, element

_ONE_BY_ONE = 8  # the most elements of a window, along a dimension, that are combined one by one


@legalize("stablehlo.reduce_window", where=DYNAMIC)
@missing(
    "Does not compile with dynamic dimensions; combines the windows' elements, one dimension at a time.",
    "dynamic/windows_of_open",
)
def reduce_window(b: Emitter, op: Any) -> Sequence[Any] | None:
    """The windows' elements combined, one dimension at a time.

    A window of few elements is combined one by one. A window of n elements is combined from windows of 1, 2,
    4, ... elements whose sizes add up to n.
    """
    count = len(op.results)
    xs, inits = list(op.operands)[:count], list(op.operands)[count:]
    w = window_of(op)
    xs = [_padded(b, x, init, w) for x, init in zip(xs, inits, strict=True)]
    for d, (n, stride, dilation) in enumerate(zip(w.sizes, w.strides, w.dilation, strict=True)):
        if n > 1 or stride > 1:
            xs = _combined_along(b, op, xs, d, (n, stride, dilation))
    settled = [with_static_sizes(y.type, sizes_of(b, x)) for x, y in zip(xs, op.results, strict=True)]
    starts = [repeated(b, init, sizes) for init, sizes in zip(inits, settled, strict=True)]
    return _combined(b, op, starts, xs)


def _combined_along(b: Emitter, op: Any, xs: list[Any], d: int, window: tuple[int, int, int]) -> list[Any]:
    """The windows along dimension `d`, combined; `window` has their size, stride and dilation."""
    n, stride, dilation = window
    count = window_count(sizes_of(b, xs[0])[d], n, stride, dilation)

    def taken(xs: list[Any], first: int) -> list[Any]:
        """Element `first` of each window."""
        return [_part(b, x, d, first * dilation, count, stride) for x in xs]

    if n <= _ONE_BY_ONE:
        total = taken(xs, 0)
        for i in range(1, n):
            total = _combined(b, op, total, taken(xs, i))
        return total
    total, first, width = [], 0, 1  # `xs` are windows of this width, combined, one from each index on
    while first < n:
        if (n - first) & width:
            piece = taken(xs, first)
            total = _combined(b, op, total, piece) if total else piece
            first += width
        left = larger(sizes_of(b, xs[0])[d] - width * dilation, 0)
        if first < n:
            pair = [[_part(b, x, d, at, left, 1) for x in xs] for at in (0, width * dilation)]
            xs = _combined(b, op, *pair)
        width *= 2
    return total


def _part(b: Emitter, x: Any, d: int, first: int, count: Any, stride: int) -> Any:
    sizes = sizes_of(b, x)
    start, strides = [0] * len(sizes), [1] * len(sizes)
    sizes[d], start[d], strides[d] = count, first, stride
    return part(b, x, start, sizes, strides)


def _combined(b: Emitter, op: Any, xs: Sequence[Any], ys: Sequence[Any]) -> list[Any]:
    """The op's reducer on arrays."""
    return [mapped(b, op.regions[0], [*xs, *ys], i) for i in range(len(xs))]


@legalize("stablehlo.convolution", where=DYNAMIC)
@missing(
    "Does not compile over dynamic dimensions; emits a sum of products, one for each place of the kernel.",
    "dynamic/convolution",
)
def convolution(b: Emitter, op: Any) -> Sequence[Any] | None:
    """A sum of products, one for each place of the kernel."""
    x, kernel = op.operands
    layout = Layout.of(op)
    batch, features, *spatial = layout.input
    if all(x.type.shape[i] >= 0 for i in spatial):
        return None
    _, _, *places = (kernel.type.shape[i] for i in layout.kernel)
    if min(places, default=0) < 1 or math.prod(places) > _PLACES or group_counts(op) != (1, 1):
        raise refused(op, "windows of this kind over dynamic dimensions are not supported")
    x = b.transpose(x, [batch, *spatial, features])
    zero = b.constant(0, ir.RankedTensorType.get([], element(x)))
    x = _padded(b, x, zero, window_of_convolution(op), [0])
    y = _sum_over_places(b, op, x, b.transpose(kernel, [*layout.kernel[2:], *layout.kernel[:2]]))
    batch, features, *spatial = layout.output
    return [b.transpose(y, np.argsort([batch, *spatial, features]))]


_PLACES = 256


def _sum_over_places(b: Emitter, op: Any, x: Any, kernel: Any) -> Any:
    """The sum over a kernel's places; the batch comes first, and features last."""
    w = window_of_convolution(op)
    rank = len(w.sizes)
    batch, *spatial, features = sizes_of(b, x)
    counts = list(map(window_count, spatial, w.sizes, w.strides, w.dilation))
    type_ = type_of([batch, *counts, kernel.type.shape[-1]], element(op.results[0]))
    attributes = {NUMBERS: Contraction(((), ()), ((rank + 1,), (0,))).attribute, **precision(op)}
    total = None
    for place in np.ndindex(*w.sizes):
        first = [i * dilation for i, dilation in zip(place, w.dilation, strict=True)]
        window = part(b, x, [0, *first, 0], [batch, *counts, features], [1, *w.strides, 1])
        at = [n - 1 - i if back else i for i, n, back in zip(place, w.sizes, reversal(op), strict=True)]
        term = b.emit("stablehlo.dot_general", (window, at_offset(b, kernel, at)), type_, attributes)
        total = term if total is None else b.add(total, term)
    return total


def _padded(b: Emitter, x: Any, value: Any, w: Window, others: Sequence[int] = ()) -> Any:
    """x padded for a window over its dimensions, with `others` before and behind these; x itself without padding."""
    paddings = w.low, w.high, [n - 1 for n in w.base]
    if not any(map(any, paddings)):
        return x
    names = "edge_padding_low", "edge_padding_high", "interior_padding"
    whole = [[*others, *padding, *others] for padding in paddings]
    attributes = dict(zip(names, map(dims, whole), strict=True))
    return b.emit(
        "stablehlo.pad", (x, value), type_of(padded(sizes_of(b, x), *whole), element(x)), attributes
    )
