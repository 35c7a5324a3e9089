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
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.backends.iree.emitter import Emitter, within
from tiduc.backends.iree.fault import slow
from tiduc.dialect.context import stage
from tiduc.dialect.types import element, is_complex, shape, with_shape

_SLICES = 128  # slices that make the patches, at most
_BYTES = 2**26  # of the patches, at most
_WORK = 2**20  # multiplications; for fewer, IREE's own code is as good


@slow(
    "Is slow at convolutions with channels first or large windows; channels last and products of matrices instead."
)
@stage
def convolutions_to_products(module: Any) -> int:
    """Rewrites convolutions in place if that pays; gives their number."""
    count = 0
    for op in within(module.operation):
        convolution = _read(op) if op.name == "stablehlo.convolution" else None
        if convolution is not None:
            y = convolution.rewritten(Emitter(ir.InsertionPoint(op), op.location))
            if y is not None:
                op.results[0].replace_all_uses_with(y)
                op.erase()
                count += 1
    return count


@dataclass(frozen=True)
class Convolution:
    """A convolution of one group, static shapes and an image without dilation.

    The fields are the specification's attributes, for spatial dimensions only. `places` is the result's spatial shape.
    """

    op: Any
    numbers: Any
    window: list[int]
    places: list[int]
    strides: list[int]
    dilation: list[int]
    padding: Any
    reversed: list[bool]

    def rewritten(self, b: Emitter) -> Any | None:
        """Emits the convolution's result in a faster way; None if there is none."""
        # With one window position, the convolution is a product of matrices already.
        if 1 < math.prod(self.places) < math.prod(self.window):
            y = self._product(b)
        elif self.numbers.input_feature_dimension < len(self.places) + 1:
            y = self._with_channels_last(b)
        else:
            return None
        n = self.numbers
        order = [n.output_batch_dimension, *n.output_spatial_dimensions, n.output_feature_dimension]
        return y if y is None else b.transpose(y, np.argsort(order))

    def _image(self, b: Emitter) -> Any:
        """The image as (batch, places..., features)."""
        n = self.numbers
        order = [n.input_batch_dimension, *n.input_spatial_dimensions, n.input_feature_dimension]
        return b.transpose(self.op.operands[0], order)

    def _kernel(self, b: Emitter) -> Any:
        """The kernel as (window..., features, results)."""
        n = self.numbers
        features = n.kernel_input_feature_dimension, n.kernel_output_feature_dimension
        return b.transpose(self.op.operands[1], [*n.kernel_spatial_dimensions, *features])

    def _with_channels_last(self, b: Emitter) -> Any:
        """The result as (batch, places..., features), by a convolution."""
        x, w = b.barrier(self._image(b), self._kernel(b))
        rank = len(self.places)
        image, window = (0, rank + 1, range(1, rank + 1)), (rank, rank + 1, range(rank))
        attributes = {name: self.op.attributes[name] for name in self.op.attributes}
        attributes["dimension_numbers"] = hlo.ConvDimensionNumbers.get(
            *(list(v) if isinstance(v, range) else v for v in (*image, *window, *image))
        )
        type_ = with_shape(x.type, [shape(x)[0], *self.places, shape(w)[-1]])
        return b.barrier(b.emit("stablehlo.convolution", (x, w), type_, attributes))[0]

    def _product(self, b: Emitter) -> Any | None:
        """The result as (batch, places..., features), by a product; None if the patches would be too many or large."""
        batch, outputs = (shape(self.op.results[0])[i] for i in self._ends())
        summed = (
            math.prod(self.window) * shape(self.op.operands[1])[self.numbers.kernel_input_feature_dimension]
        )
        rows = batch * math.prod(self.places)
        size = rows * summed * element(self.op.results[0]).width // 8
        if math.prod(self.places) > _SLICES or size > _BYTES:
            return None
        turned = [d for d, backwards in enumerate(self.reversed) if backwards]
        w = b.reverse(self._kernel(b), turned) if turned else self._kernel(b)
        # Without the barrier IREE would fuse the slices into the product and lose the product of matrices.
        patches, w = b.barrier(b.reshape(self._patches(b), [rows, summed]), b.reshape(w, [summed, outputs]))
        y = b.dot_general(patches, w, ((), ()), ((1,), (0,)), {})
        return b.reshape(y, [batch, *self.places, outputs])

    def _ends(self) -> tuple[int, int]:
        return self.numbers.output_batch_dimension, self.numbers.output_feature_dimension

    def _patches(self, b: Emitter) -> Any:
        """The patches: (batch, places, window * features)."""
        x = self._image(b)
        if np.any(self.padding):
            zero = b.constant(0, ir.RankedTensorType.get([], element(x)))
            low, high = ([0, *side, 0] for side in zip(*self.padding, strict=True))
            x = b.pad(x, zero, low, high, [0] * len(low))
        batch, *_, features = shape(x)
        length = [(n - 1) * d + 1 for n, d in zip(self.window, self.dilation, strict=True)]
        slices = []
        for place in itertools.product(*map(range, self.places)):
            start = [i * s for i, s in zip(place, self.strides, strict=True)]
            limit = [i + n for i, n in zip(start, length, strict=True)]
            window = b.slice(x, [0, *start, 0], [batch, *limit, features], [1, *self.dilation, 1])
            slices.append(b.reshape(window, [batch, 1, math.prod(self.window) * features]))
        return b.concatenate(slices, 1)


def _read(op: Any) -> Convolution | None:
    """An op as a `Convolution`; None if the op is another one or computes little."""
    x, w = op.operands
    y = op.results[0]
    types = (x.type, w.type, y.type)
    if any(not t.has_static_shape or 0 in t.shape for t in types) or is_complex(y):
        return None
    if len({element(v) for v in (x, w, y)}) > 1 or not isinstance(element(y), ir.F32Type | ir.F64Type):
        return None
    groups = ("feature_group_count", "batch_group_count")
    if any(ir.IntegerAttr(op.attributes[name]).value != 1 for name in groups):
        return None
    n = hlo.ConvDimensionNumbers(op.attributes["dimension_numbers"])
    rank = len(n.input_spatial_dimensions)

    def sizes(name: str, default: Any) -> list[Any]:
        return list(op.attributes[name]) if name in op.attributes else [default] * rank

    taps = math.prod(shape(w)) // shape(w)[n.kernel_output_feature_dimension]
    if set(sizes("lhs_dilation", 1)) != {1} or math.prod(shape(y)) * taps < _WORK:
        return None
    padding = np.array(op.attributes["padding"]) if "padding" in op.attributes else np.zeros((rank, 2), int)
    return Convolution(
        op,
        n,
        [w.type.shape[d] for d in n.kernel_spatial_dimensions],
        [y.type.shape[d] for d in n.output_spatial_dimensions],
        sizes("window_strides", 1),
        sizes("rhs_dilation", 1),
        padding.reshape(rank, 2).tolist(),
        [bool(v) for v in sizes("window_reversal", False)],
    )
