"""convolutions_to_products: convolutions with channels last, or as products of matrices, for CPUs.

    y = convolution(x, w), channels first   ->  transpose(convolution(barrier(transpose x), barrier(transpose w)))
    y = convolution(x, w), window larger than y  ->  patches = the windows of x, side by side;  y = patches w

IREE's code for convolutions takes up to 16 times as long if channels come first. Without the barriers IREE moves the
transposes back into the convolution. If the window is larger than the result, as in the gradient of a kernel, IREE's
code takes up to 24 times as long as a product; the patches (im2col) are slices of x, one per position in the result.
"""

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch_mlir import ir

from tiduc.backends.iree.emitter import Emitter, rewrite
from tiduc.backends.iree.fault import slow
from tiduc.dialect.context import stage
from tiduc.dialect.types import element, is_complex, shape, with_shape
from tiduc.dialect.windows import Layout, Window, group_counts, reversal, window_of_convolution

_SLICES = 128  # slices that make the patches, at most
_BYTES = 2**26  # of the patches, at most
_WORK = 2**20  # multiplications; for fewer, IREE's own code is as good


@slow(
    "Is slow at convolutions with channels first or large windows; channels last and products of matrices instead."
)
@stage
def convolutions_to_products(module: Any) -> int:
    """Rewrites convolutions in place if that pays; gives their number."""
    return rewrite(module, {"stablehlo.convolution": _faster})


@dataclass(frozen=True)
class Convolution:
    """A convolution of one group, static shapes and an image without dilation.

    `places` is the result's spatial shape; the window is `reversed` along these spatial dimensions.
    """

    op: Any
    layout: Layout
    window: Window
    places: list[int]
    reversed: list[int]

    def rewritten(self, b: Emitter) -> list[Any] | None:
        """Emits the convolution's result in a faster way; None if there is none."""
        # With one window position, the convolution is a product of matrices already.
        if 1 < math.prod(self.places) < math.prod(self.window.sizes):
            y = self._product(b)
        elif self.layout.input[1] < len(self.places) + 1:
            y = self._with_channels_last(b)
        else:
            return None
        batch, features, *spatial = self.layout.output
        return None if y is None else [b.transpose(y, np.argsort([batch, *spatial, features]))]

    def _image(self, b: Emitter) -> Any:
        """The image as (batch, places..., features)."""
        batch, features, *spatial = self.layout.input
        return b.transpose(self.op.operands[0], [batch, *spatial, features])

    def _kernel(self, b: Emitter) -> Any:
        """The kernel as (window..., features, results)."""
        features, results, *spatial = self.layout.kernel
        return b.transpose(self.op.operands[1], [*spatial, features, results])

    def _with_channels_last(self, b: Emitter) -> Any:
        """The result as (batch, places..., features), by a convolution."""
        x, w = b.barrier(self._image(b), self._kernel(b))
        rank = len(self.places)
        image, window = (0, rank + 1, *range(1, rank + 1)), (rank, rank + 1, *range(rank))
        attributes = {name: self.op.attributes[name] for name in self.op.attributes}
        attributes["dimension_numbers"] = Layout(image, window, image).attribute
        type_ = with_shape(x.type, [shape(x)[0], *self.places, shape(w)[-1]])
        return b.barrier(b.emit("stablehlo.convolution", (x, w), type_, attributes))[0]

    def _product(self, b: Emitter) -> Any | None:
        """The result as (batch, places..., features), by a product; None if the patches would be too many or large."""
        batch, outputs = (shape(self.op.results[0])[i] for i in self.layout.output[:2])
        summed = math.prod(self.window.sizes) * shape(self.op.operands[1])[self.layout.kernel[0]]
        rows = batch * math.prod(self.places)
        size = rows * summed * element(self.op.results[0]).width // 8
        if math.prod(self.places) > _SLICES or size > _BYTES:
            return None
        w = b.reverse(self._kernel(b), self.reversed) if self.reversed else self._kernel(b)
        # Without the barrier IREE would fuse the slices into the product and lose the product of matrices.
        patches, w = b.barrier(b.reshape(self._patches(b), [rows, summed]), b.reshape(w, [summed, outputs]))
        y = b.dot_general(patches, w, ((), ()), ((1,), (0,)), {})
        return b.reshape(y, [batch, *self.places, outputs])

    def _patches(self, b: Emitter) -> Any:
        """The patches: (batch, places, window * features)."""
        x, window = self._image(b), self.window
        if any((*window.low, *window.high)):
            zero = b.constant(0, ir.RankedTensorType.get([], element(x)))
            low, high = ([0, *side, 0] for side in (window.low, window.high))
            x = b.pad(x, zero, low, high, [0] * len(low))
        batch, *_, features = shape(x)
        slices = []
        for place in itertools.product(*map(range, self.places)):
            start = [i * s for i, s in zip(place, window.strides, strict=True)]
            limit = [i + n for i, n in zip(start, window.extent, strict=True)]
            patch = b.slice(x, [0, *start, 0], [batch, *limit, features], [1, *window.dilation, 1])
            slices.append(b.reshape(patch, [batch, 1, math.prod(window.sizes) * features]))
        return b.concatenate(slices, 1)


def _faster(b: Emitter, op: Any) -> list[Any] | None:
    """The result of a convolution in a faster way; None if there is none, or if the convolution computes little."""
    (x, w), y = op.operands, op.results[0]
    types = (x.type, w.type, y.type)
    if any(not t.has_static_shape or 0 in t.shape for t in types) or is_complex(y):
        return None
    if len({element(v) for v in (x, w, y)}) > 1 or not isinstance(element(y), ir.F32Type | ir.F64Type):
        return None
    if group_counts(op) != (1, 1):
        return None
    layout, window = Layout.of(op), window_of_convolution(op)
    taps = math.prod(shape(w)) // shape(w)[layout.kernel[1]]
    if set(window.base) - {1} or math.prod(shape(y)) * taps < _WORK:
        return None
    places = [shape(y)[d] for d in layout.output[2:]]
    turned = [d for d, backwards in enumerate(reversal(op)) if backwards]
    return Convolution(op, layout, window, places, turned).rewritten(b)
