"""`Convolution`, a convolution as a record, and `Result`, its value with dimensions in any order."""

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from torch_mlir import ir

from tiduc.backends.iree.emitter import Emitter
from tiduc.backends.iree.fast.kernels import in_own_dispatch
from tiduc.backends.iree.fast.patches import zero
from tiduc.backends.iree.fast.select_reruns import before_rerun
from tiduc.dialect.dependences import defined_by
from tiduc.dialect.types import element, shape, with_shape
from tiduc.dialect.windows import (
    Layout,
    Numbers,
    Window,
    convolution,
    group_counts,
    reversal,
    window_of_convolution,
)

BATCH, FEATURES = -2, -1
"""The labels of the dimensions that are not spatial; the label of a spatial dimension is its index."""

_MATRICES = 64
"""The largest window whose matrices `_reversed` copies one by one."""


@dataclass(frozen=True)
class Result:
    """The result of a convolution; `axes` has the label of each dimension of the value."""

    value: Any
    axes: tuple[int, ...]

    def in_layout(self, b: Emitter, output: Numbers) -> Any:
        """The value, transposed such that batch, features and spatial dimensions are the dimensions `output`."""
        labels = [BATCH, FEATURES, *range(len(output) - 2)]
        wanted = [labels[output.index(d)] for d in range(len(output))]
        return b.transpose(self.value, [self.axes.index(label) for label in wanted])


def channels_last(rank: int) -> Layout:
    """The layout with images (batch, places..., features) and kernels (window..., in, out)."""
    image, window = (0, rank + 1, *range(1, rank + 1)), (rank, rank + 1, *range(rank))
    return Layout(image, window, image)


@dataclass(frozen=True)
class Convolution:
    """A convolution of x with the kernel w, of static shapes.

    `places` is the spatial shape of the result. The window is reversed along the spatial dimensions `reversed`.
    `groups` is the feature group count.
    """

    x: Any = field(repr=False)
    w: Any = field(repr=False)
    layout: Layout
    window: Window
    places: tuple[int, ...]
    reversed: tuple[int, ...] = ()
    groups: int = 1

    @staticmethod
    def of(op: Any) -> "Convolution":
        """The convolution of an op; a reversal of the kernel becomes part of it."""
        layout = Layout.of(op)
        places = tuple(shape(op.results[0])[d] for d in layout.output[2:])
        turned = {d for d, backwards in enumerate(reversal(op)) if backwards}
        x, w = op.operands
        spatial = layout.kernel[2:]
        if not isinstance(w.owner, ir.Block) and w.owner.name == "stablehlo.reverse":
            dimensions = list(w.owner.attributes["dimensions"])
            if set(dimensions) <= set(spatial):
                w, turned = w.owner.operands[0], turned ^ {spatial.index(d) for d in dimensions}
        groups = group_counts(op)[0]
        return Convolution(x, w, layout, window_of_convolution(op), places, tuple(sorted(turned)), groups)

    @property
    def rank(self) -> int:
        """The number of spatial dimensions."""
        return len(self.places)

    @property
    def keeps_order(self) -> bool:
        """Whether one or two spatial dimensions are the last ones of all three arrays, in order and not reversed."""
        spatial = list(range(2, self.rank + 2))
        layouts = (self.layout.input, self.layout.kernel, self.layout.output)
        return (
            1 <= self.rank <= 2 and not self.reversed and all(list(each[2:]) == spatial for each in layouts)
        )

    @property
    def summed(self) -> int:
        """The number of products in the sum that is one element of the result."""
        return int(math.prod(self.window.sizes) * shape(self.w)[self.layout.kernel[0]])

    @property
    def batch(self) -> int:
        """The size of the batch."""
        return int(shape(self.x)[self.layout.input[0]])

    @property
    def features(self) -> int:
        """The number of x's features."""
        return int(shape(self.x)[self.layout.input[1]])

    @property
    def outputs(self) -> int:
        """The number of the result's features."""
        return int(shape(self.w)[self.layout.kernel[1]])

    @property
    def width(self) -> int:
        """The bytes of an element."""
        return int(element(self.x).width // 8)

    def in_place(self, b: Emitter) -> "Convolution":
        """This convolution for code that reads the kernel in any order: with w before a reversal.

        A reshape may follow the reversal, as in the gradient of a depthwise convolution. If the convolution runs
        again, its image is behind a select, too, so that the kernel needs none (`passes/rematerialize/emit.py`).
        """
        reshape = defined_by(self.w, "stablehlo.reshape")
        w = self.w if reshape is None else reshape.operands[0]
        reverse, turned = defined_by(w, "stablehlo.reverse"), set(self.reversed)
        if reverse is not None:
            # The reversed dimensions, counted from the last one; the sizes of these and of later ones must stay.
            ends = [d - len(shape(w)) for d in reverse.attributes["dimensions"]]
            places = {len(shape(self.w)) + d for d in ends}
            spatial = self.layout.kernel[2:]
            if shape(w)[min(ends) :] == shape(self.w)[min(ends) :] and places <= set(spatial):
                w, turned = reverse.operands[0], turned ^ {spatial.index(d) for d in places}
        w = b.reshape(before_rerun(w), shape(self.w))
        return replace(self, w=w, reversed=tuple(sorted(turned)))

    def image(self, b: Emitter) -> Any:
        """x as (batch, places..., features)."""
        batch, features, *spatial = self.layout.input
        return b.transpose(self.x, [batch, *spatial, features])

    def padded_image(self, b: Emitter) -> Any:
        """x as (batch, places..., features), with its padding, and with the zeros between its elements."""
        x, window = self.image(b), self.window
        pads = [[0, *ends, 0] for ends in (window.low, window.high, [base - 1 for base in window.base])]
        return b.pad(x, zero(b, x), *pads) if any(map(any, pads)) else x

    def kernel(self, b: Emitter) -> Any:
        """w as (window..., features, results), reversed where needed, so that no dimension of the window is."""
        features, results, *spatial = self.layout.kernel
        order = [*spatial, features, results]
        if not self.reversed:
            return b.transpose(self.w, order)
        # In a dispatch of its own, since IREE would transpose once for each matrix that `_reversed` copies.
        type_ = with_shape(self.w.type, [shape(self.w)[d] for d in order])
        w = (
            self.w
            if order == sorted(order)
            else in_own_dispatch(b, type_, lambda k: k.transpose(self.w, order))
        )
        return _reversed(b, w, self.reversed)

    def channels_last(self, b: Emitter) -> Result:
        """The result of IREE's convolution with channels last."""
        x, w, window = self.padded_image(b), self.kernel(b), self.window.unpadded()
        if self.groups > 1:
            # A dispatch that reads a strided slice of a kernel in place does not compile.
            w = b.stored(w)
        type_ = with_shape(x.type, [self.batch, *self.places, self.outputs])
        numbers, groups = channels_last(self.rank), (self.groups, 1)
        y = in_own_dispatch(b, type_, lambda k: convolution(k, x, w, window, numbers, groups, None))
        return Result(y, (BATCH, *range(self.rank), FEATURES))


def _reversed(b: Emitter, w: Any, dimensions: tuple[int, ...]) -> Any:
    """w reversed along some of its window dimensions, by a concatenation of its matrices if these are few."""
    *window, features, results = shape(w)
    count = math.prod(window)
    order = np.flip(np.arange(count).reshape(window), dimensions).ravel()
    if count > _MATRICES:
        return b.reverse(w, dimensions)
    matrices = b.reshape(w, [count, features, results])
    return b.reshape(b.concatenate([b.cut(matrices, 0, i, i + 1) for i in order.tolist()], 0), shape(w))
