"""Rewrites reduce_window and convolution with dynamic dimensions as ops on strided slices.

Slice i consists of element i of each window, so that an op on such slices computes all windows at once.
"""

import math
from collections.abc import Sequence

import numpy as np
from torch_mlir import ir

from tiduc.backends.iree.emit.arrays import in_shape, mapped, part, repeated, sizes_of, spread, type_of
from tiduc.backends.iree.emit.convolutions_as_products import at_offset, precision
from tiduc.backends.iree.emit.emitter import DYNAMIC, Emitter, legalize
from tiduc.backends.iree.emit.refused import refused
from tiduc.backends.iree.emit.sizes import RunTimeSize, known, larger, padded, window_count, with_static_sizes
from tiduc.backends.iree.fault import crash, missing
from tiduc.dialect.facts.windows import (
    Layout,
    Window,
    group_counts,
    reversal,
    window_of,
    window_of_convolution,
)
from tiduc.dialect.ops.contractions import NUMBERS, Contraction
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.shapes.types import dims, element, is_dynamic

_ONE_BY_ONE = 8  # if a window is at most this long in a dimension, its elements are combined one by one


@legalize("stablehlo.reduce_window", where=DYNAMIC)
@missing(
    "The op does not compile with dynamic dimensions; tiduc combines the windows' elements, dimension by dimension.",
    "dynamic/windows_of_open",
    upstream="https://github.com/iree-org/iree/pull/24942",
)
def reduce_window(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Combines the elements of the windows along one dimension after the other.

    The elements of a short window are combined one by one. A long window is split into windows whose lengths are powers
    of two. A window of length 2 k is computed from two of length k.
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


def _combined_along(
    b: Emitter, op: IrOp, xs: list[IrValue], d: int, window: tuple[int, int, int]
) -> list[IrValue]:
    """Combines the elements of each window along dimension `d`. `window` has their size, stride and dilation."""
    n, stride, dilation = window
    count = window_count(sizes_of(b, xs[0])[d], n, stride, dilation)

    def taken(xs: list[IrValue], first: int) -> list[IrValue]:
        """For each array of `xs`, the array of element `first` of each window."""
        return [_part(b, x, d, first * dilation, count, stride) for x in xs]

    if n <= _ONE_BY_ONE:
        total = taken(xs, 0)
        for i in range(1, n):
            total = _combined(b, op, total, taken(xs, i))
        return total
    total, first, width = (
        [],
        0,
        1,
    )  # element i of `xs` is the result of a window of size `width` that starts at element i of the array
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


def _part(b: Emitter, x: IrValue, d: int, first: int, count: int | RunTimeSize, stride: int) -> IrValue:
    sizes = sizes_of(b, x)
    start, strides = [0] * len(sizes), [1] * len(sizes)
    sizes[d], start[d], strides[d] = count, first, stride
    return part(b, x, start, sizes, strides)


def _combined(b: Emitter, op: IrOp, xs: Sequence[IrValue], ys: Sequence[IrValue]) -> list[IrValue]:
    """Applies the region of a reduce_window to `xs` and `ys` element by element. Returns an array for each result."""
    return [mapped(b, op.regions[0], [*xs, *ys], i) for i in range(len(xs))]


@legalize("stablehlo.convolution", where=DYNAMIC)
@missing(
    "The op does not compile over dynamic dimensions, or in groups with a dynamic batch; tiduc emits a product "
    "for each element of a window, or for each window.",
    "dynamic/convolution",
)
@crash(
    "Negative padding does not compile with a dynamic batch; tiduc crops and pads the array first.",
    "dynamic/convolution_cropped",
)
def convolution(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Rewrites the convolution as a sum of products, one for each spatial index of the kernel.

    With batch groups, emits one product for each spatial index of the result instead. If IREE compiles the op, only
    removes negative padding, in place, and returns None. Raises `Unsupported` for more than 256 products, and for some
    convolutions with groups or a kernel of dynamic sizes.
    """
    x, kernel = op.operands
    layout = Layout.of(op)
    batch, features, *spatial = layout.input
    of_features, of_batches = group_counts(op)
    if all(x.type.shape[i] >= 0 for i in spatial):
        if of_batches > 1:
            return [_place_by_place(b, op, layout)]
        if of_features == 1:
            _crop_first(b, op, layout)
            return None
    _, _, *places = (kernel.type.shape[i] for i in layout.kernel)
    is_static = min(kernel.type.shape[i] for i in layout.kernel) >= 0 and x.type.shape[features] >= 0
    if (
        min(places, default=0) < 1
        or math.prod(places) > _PLACES
        or of_batches > 1
        or not (is_static or of_features == 1)
    ):
        raise refused(op, "windows of this kind over dynamic dimensions are not supported")
    x = b.transpose(x, [batch, *spatial, features])
    zero = b.constant(0, ir.RankedTensorType.get([], element(x)))
    x = _padded(b, x, zero, window_of_convolution(op), [0])
    y = _sum_over_places(b, op, x, b.transpose(kernel, [*layout.kernel[2:], *layout.kernel[:2]]))
    batch, features, *spatial = layout.output
    return [b.transpose(y, np.argsort([batch, *spatial, features]))]


_PLACES = 256
"""The largest number of products that replace a convolution."""


def _crop_first(b: Emitter, op: IrOp, layout: Layout) -> None:
    """If a convolution has negative padding, replaces its first operand, in place, by a dilated and padded one."""
    w, x = window_of_convolution(op), op.operands[0]
    if min((*w.low, *w.high), default=0) >= 0:
        return
    paddings = [[0] * len(layout.input) for _ in range(3)]
    for whole, of_window in zip(paddings, (w.low, w.high, [n - 1 for n in w.base]), strict=True):
        for d, n in zip(layout.input[2:], of_window, strict=True):
            whole[d] = n
    op.operands[0] = _padded_by(b, x, b.constant(0, ir.RankedTensorType.get([], element(x))), paddings)
    for name in {"padding", "lhs_dilation"} & {*op.attributes}:
        del op.attributes[name]


def _place_by_place(b: Emitter, op: IrOp, layout: Layout) -> IrValue:
    """Rewrites a convolution with batch groups, such as the gradient of a convolution with respect to its kernel.

    Emits one product for each spatial index of the result. The product contracts images of shape (features, spatial...,
    group, n) with a kernel of shape (features, spatial..., group, out). Raises `Unsupported` for other dynamic shapes.
    """
    w, rank, groups = window_of_convolution(op), len(layout.input) - 2, group_counts(op)[1]
    (batch, features, *spatial), result = layout.input, op.results[0].type
    places = [result.shape[d] for d in layout.output[2:]]
    if (
        is_dynamic(result)
        or min(op.operands[1].type.shape[i] for i in layout.kernel[1:]) < 0
        or math.prod(places) > _PLACES
        or any(reversal(op))
    ):
        raise refused(op, "groups of this kind over dynamic dimensions are not supported")
    x = b.transpose(op.operands[0], [features, *spatial, batch])
    x = _padded(b, x, b.constant(0, ir.RankedTensorType.get([], element(x))), w, [0])
    kernel = b.transpose(op.operands[1], [layout.kernel[0], *layout.kernel[2:], layout.kernel[1]])
    x, kernel = (
        in_shape(b, y, [*n[:-1], groups, n[-1] // groups]) for y in (x, kernel) for n in [sizes_of(b, y)]
    )
    *sizes, _, n = sizes_of(b, x)
    count = kernel.type.shape[-1]
    summed = tuple(range(rank + 1))
    attributes = {
        NUMBERS: Contraction(((rank + 1,), (rank + 1,)), (summed, summed)).attribute,
        **precision(op),
    }
    parts = []
    for place in np.ndindex(*places):
        first = [i * stride for i, stride in zip(place, w.strides, strict=True)]
        window = part(b, x, [0, *first, 0, 0], [sizes[0], *w.sizes, groups, n], [1, *w.dilation, 1, 1])
        y = b.emit(
            "stablehlo.dot_general",
            (window, kernel),
            type_of([groups, n, count], element(result)),
            attributes,
        )
        parts.append(b.reshape(y, [1, groups, known(n), count]))
    y = b.transpose(b.concatenate(parts, 0), [2, 0, 1, 3])
    batch, features, *spatial = layout.output
    return b.transpose(
        b.reshape(y, [known(n), *places, groups * count]), np.argsort([batch, *spatial, features])
    )


def _sum_over_places(b: Emitter, op: IrOp, x: IrValue, kernel: IrValue) -> IrValue:
    """Computes the convolution as a sum of products, one for each spatial index of the kernel.

    The result has the batch dimension first and features last.
    """
    w, groups = window_of_convolution(op), group_counts(op)[0]
    batch, *spatial, features = sizes_of(b, x)
    counts = list(map(window_count, spatial, w.sizes, w.strides, w.dilation))
    total = None
    for place in np.ndindex(*w.sizes):
        first = [i * dilation for i, dilation in zip(place, w.dilation, strict=True)]
        window = part(b, x, [0, *first, 0], [batch, *counts, features], [1, *w.strides, 1])
        at = [n - 1 - i if back else i for i, n, back in zip(place, w.sizes, reversal(op), strict=True)]
        term = _product(b, op, window, at_offset(b, kernel, at), groups)
        total = term if total is None else b.add(total, term)
    assert total is not None
    return in_shape(b, total, [batch, *counts, kernel.type.shape[-1]]) if groups > 1 else total


def _product(b: Emitter, op: IrOp, x: IrValue, kernel: IrValue, groups: int) -> IrValue:
    """Multiplies all of x by `kernel`, which is one spatial element of a convolution's kernel. Sums over the features.

    With feature groups, the result has the shape (batch, spatial..., group, out).
    """
    *outer, features = sizes_of(b, x)
    rank, count, kind = len(outer), kernel.type.shape[-1], element(op.results[0])
    if groups == 1:
        attributes = {NUMBERS: Contraction(((), ()), ((rank,), (0,))).attribute, **precision(op)}
        return b.emit("stablehlo.dot_general", (x, kernel), type_of([*outer, count], kind), attributes)
    if features == groups:
        sizes = [*outer, groups, count // groups]
        factor = b.convert(b.reshape(kernel, sizes[-2:]), kind)
        x = spread(b, b.convert(x, kind), list(range(rank + 1)), sizes)
        return b.multiply(x, spread(b, factor, [rank, rank + 1], sizes))
    x = in_shape(b, x, [*outer, groups, features // groups])
    kernel = b.reshape(kernel, [known(features) // groups, groups, count // groups])
    attributes = {NUMBERS: Contraction(((rank,), (1,)), ((rank + 1,), (0,))).attribute, **precision(op)}
    type_ = type_of([groups, *outer, count // groups], kind)
    y = b.emit("stablehlo.dot_general", (x, kernel), type_, attributes)
    return b.transpose(y, [*range(1, rank + 1), 0, rank + 1])


def _padded(b: Emitter, x: IrValue, value: IrValue, w: Window, others: Sequence[int] = ()) -> IrValue:
    """Pads x as the window `w` requires. Returns x itself if `w` has no padding and no base dilation.

    `others` is the padding of the dimensions before those of the window, and also of the dimensions after them.
    """
    paddings = w.low, w.high, [n - 1 for n in w.base]
    if not any(map(any, paddings)):
        return x
    return _padded_by(b, x, value, [[*others, *padding, *others] for padding in paddings])


def _padded_by(b: Emitter, x: IrValue, value: IrValue, whole: Sequence[Sequence[int]]) -> IrValue:
    """Pads x. `whole` has three lists: the low, the high and the interior padding of each dimension."""
    names = "edge_padding_low", "edge_padding_high", "interior_padding"
    attributes = dict(zip(names, map(dims, whole), strict=True))
    return b.emit(
        "stablehlo.pad", (x, value), type_of(padded(sizes_of(b, x), *whole), element(x)), attributes
    )
