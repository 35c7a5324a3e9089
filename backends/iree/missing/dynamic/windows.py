"""reduce_window and convolution with dynamic dimensions: strided slices, combined for all windows at once."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.backends.iree.emitter import DYNAMIC, Emitter, legalize
from tiduc.backends.iree.fault import missing
from tiduc.backends.iree.missing.dynamic.arrays import mapped, part, repeated, sizes_of, transposed, type_of
from tiduc.backends.iree.missing.dynamic.sizes import known, larger, padded, window_count
from tiduc.backends.iree.refused import refused
from tiduc.dialect.types import element

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
    rank = len(op.results[0].type.shape)
    xs, inits = list(op.operands)[:count], list(op.operands)[count:]
    low, high = _padding(op, rank)
    interior = [n - 1 for n in _numbers(op, "base_dilations", rank)]
    xs = [_padded(b, x, init, low, high, interior) for x, init in zip(xs, inits, strict=True)]
    names = "window_dimensions", "window_strides", "window_dilations"
    windows = zip(*(_numbers(op, name, rank) for name in names), strict=True)
    for d, (n, stride, dilation) in enumerate(windows):
        if n > 1 or stride > 1:
            xs = _combined_along(b, op, xs, d, (n, stride, dilation))
    settled = [known(y.type, sizes_of(b, x)) for x, y in zip(xs, op.results, strict=True)]
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
    d = hlo.ConvDimensionNumbers(op.attributes["dimension_numbers"])
    x, kernel = op.operands
    spatial = d.input_spatial_dimensions
    if all(x.type.shape[i] >= 0 for i in spatial):
        return None
    places = [kernel.type.shape[i] for i in d.kernel_spatial_dimensions]
    count = math.prod(places)
    if min(places, default=0) < 1 or count > _PLACES or any(_count(op, name) > 1 for name in _GROUPS):
        raise refused(op, "windows of this kind over dynamic dimensions are not supported")
    x = transposed(b, x, [d.input_batch_dimension, *spatial, d.input_feature_dimension])
    order = [
        *d.kernel_spatial_dimensions,
        d.kernel_input_feature_dimension,
        d.kernel_output_feature_dimension,
    ]
    kernel = transposed(b, kernel, order)
    low, high = _padding(op, len(spatial))
    interior = [n - 1 for n in _numbers(op, "lhs_dilation", len(spatial))]
    zero = b.constant(0, ir.RankedTensorType.get([], element(x)))
    x = _padded(b, x, zero, *([0, *p, 0] for p in (low, high, interior)))
    y = _summed(b, op, x, kernel, places)
    to = [d.output_batch_dimension, *d.output_spatial_dimensions, d.output_feature_dimension]
    return [transposed(b, y, [int(n) for n in np.argsort(to)])]


_PLACES = 256
_GROUPS = "feature_group_count", "batch_group_count"


def _summed(b: Emitter, op: Any, x: Any, kernel: Any, places: Sequence[int]) -> Any:
    """The sum over a kernel's places; the batch comes first, and features last."""
    rank = len(places)
    strides, dilations = (_numbers(op, name, rank) for name in ("window_strides", "rhs_dilation"))
    turned = list(op.attributes["window_reversal"]) if "window_reversal" in op.attributes else [False] * rank
    batch, *spatial, features = sizes_of(b, x)
    counts = list(map(window_count, spatial, places, strides, dilations))
    type_ = type_of([batch, *counts, kernel.type.shape[-1]], element(op.results[0]))
    attributes = {"dot_dimension_numbers": hlo.DotDimensionNumbers.get([], [], [rank + 1], [0])}
    if "precision_config" in op.attributes:
        attributes["precision_config"] = op.attributes["precision_config"]
    total = None
    for place in np.ndindex(*places):
        first = [i * dilation for i, dilation in zip(place, dilations, strict=True)]
        window = part(b, x, [0, *first, 0], [batch, *counts, features], [1, *strides, 1])
        at = [n - 1 - i if back else i for i, n, back in zip(place, places, turned, strict=True)]
        ends = [*(i + 1 for i in at), *kernel.type.shape[rank:]]
        matrix = b.slice(kernel, [*at, 0, 0], ends, [1] * (rank + 2))
        matrix = b.reshape(matrix, kernel.type.shape[rank:])
        term = b.emit("stablehlo.dot_general", (window, matrix), type_, attributes)
        total = term if total is None else b.add(total, term)
    return total


def _count(op: Any, name: str) -> int:
    return int(ir.IntegerAttr(op.attributes[name]).value)


def _numbers(op: Any, name: str, rank: int) -> list[int]:
    return list(op.attributes[name]) if name in op.attributes else [1] * rank


def _padding(op: Any, rank: int) -> tuple[list[int], list[int]]:
    """The padding before and behind, for each dimension."""
    if "padding" not in op.attributes:
        return [0] * rank, [0] * rank
    pairs = np.broadcast_to(np.array(op.attributes["padding"]), (rank, 2))
    return [int(n) for n in pairs[:, 0]], [int(n) for n in pairs[:, 1]]


def _padded(
    b: Emitter, x: Any, value: Any, low: Sequence[int], high: Sequence[int], interior: Sequence[int]
) -> Any:
    if not any((*low, *high, *interior)):
        return x
    names = "edge_padding_low", "edge_padding_high", "interior_padding"
    paddings = low, high, interior
    attributes = {name: ir.DenseI64ArrayAttr.get(p) for name, p in zip(names, paddings, strict=True)}
    type_ = type_of(padded(sizes_of(b, x), *paddings), element(x))
    return b.emit("stablehlo.pad", (x, value), type_, attributes)
