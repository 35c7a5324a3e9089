"""convolutions_to_products: convolutions as products of matrices, for CPUs.

    y = convolution(x, w)  ->  patches = the windows of x, side by side;  y = dot_general(patches, w)

IREE's own code for convolutions takes up to 20 times as long if channels come first, if the image is dilated, or if
the window is larger than the result, as in the gradient of a kernel. The patches (im2col) are slices of x: one per
position in the window, or one per position in the result, whichever are fewer.
"""

import itertools
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.backends.iree.emitter import Emitter, within
from tiduc.backends.iree.fault import Fault, mends
from tiduc.dialect.context import stage
from tiduc.dialect.types import element, is_complex, shape, with_shape

_SLICES = 128  # slices that make the patches, at most
_BYTES = 2**26  # of the patches, at most
_WORK = 2**20  # multiplications; for fewer, IREE's own code is as good
_CHANNELS = 8  # from this number on, IREE's code is slow if channels come first


@mends(
    Fault(
        "slow",
        "Is slow at convolutions with channels first, dilated images or large windows; products of matrices instead.",
    )
)
@stage
def convolutions_to_products(module: Any) -> int:
    """Rewrites convolutions in place if that pays; gives their number."""
    count = 0
    for op in within(module.operation):
        if op.name == "stablehlo.convolution":
            convolution = _read(op)
            if convolution is not None:
                b = Emitter(ir.InsertionPoint(op), op.location)
                op.results[0].replace_all_uses_with(convolution.as_product(b))
                op.erase()
                count += 1
    return count


@dataclass(frozen=True)
class Convolution:
    """A convolution of one group and static shapes; its methods take the image as (batch, places..., features).

    The fields are the specification's attributes, for spatial dimensions only. `places` is the result's spatial shape.
    """

    op: Any
    numbers: Any
    window: list[int]
    places: list[int]
    strides: list[int]
    dilation: list[int]
    image_dilation: list[int]
    padding: Any
    reversed: list[bool]

    def as_product(self, b: Emitter) -> Any:
        """Emits the product; gives the convolution's result."""
        x, w = self.op.operands
        n = self.numbers
        x = b.transpose(x, [n.input_batch_dimension, *n.input_spatial_dimensions, n.input_feature_dimension])
        w = b.transpose(
            w,
            [
                *n.kernel_spatial_dimensions,
                n.kernel_input_feature_dimension,
                n.kernel_output_feature_dimension,
            ],
        )
        turned = [d for d, backwards in enumerate(self.reversed) if backwards]
        w = b.reverse(w, turned) if turned else w
        holes_only = set(self.strides) == set(self.dilation) == {1} != set(self.image_dilation)
        y = self._by_phases(b, x, w) if holes_only else self._product(b, x, w)
        order = [n.output_batch_dimension, *n.output_spatial_dimensions, n.output_feature_dimension]
        return b.transpose(y, np.argsort(order))

    def _by_phases(self, b: Emitter, x: Any, w: Any) -> Any:
        """The result for a dilated image: one convolution without dilation per result position modulo the dilation.

        At position d q + r, tap j reads image element (d q + r + j - padding) / d, if that is an integer.
        """
        d = self.image_dilation
        places = [-(-n // step) for n, step in zip(self.places, d, strict=True)]
        ys = []
        for phase in itertools.product(*(range(step) for step in d)):
            first = [(low - r) % step for r, step, (low, _) in zip(phase, d, self.padding, strict=True)]
            window = [len(range(j, n, step)) for j, n, step in zip(first, self.window, d, strict=True)]
            low = [
                (before - r - j) // step
                for r, j, step, (before, _) in zip(phase, first, d, self.padding, strict=True)
            ]
            sides = zip(low, places, window, shape(x)[1:-1], strict=True)
            padding = [(before, n + taps - 1 - size - before) for before, n, taps, size in sides]
            ones = [1] * len(d)
            part = replace(self, window=window, places=places, image_dilation=ones, padding=padding)
            taps = b.slice(w, [*first, 0, 0], shape(w), [*d, 1, 1]) if 0 not in window else None
            sizes = [shape(x)[0], *places, shape(w)[-1]]
            y = b.constant(0, with_shape(x.type, sizes)) if taps is None else part._product(b, x, taps)
            ys.append(b.reshape(y, [sizes[0], 1, *sizes[1:]]))
        return self._interleaved(b, b.concatenate(ys, 1), places)

    def _interleaved(self, b: Emitter, y: Any, places: list[int]) -> Any:
        """From (batch, phases, places / dilation..., features) to (batch, places..., features)."""
        d, rank = self.image_dilation, len(places)
        batch, features = shape(y)[0], shape(y)[-1]
        y = b.reshape(y, [batch, *d, *places, features])
        pairs = [v for i in range(rank) for v in (1 + rank + i, 1 + i)]
        y = b.transpose(y, [0, *pairs, 1 + 2 * rank])
        y = b.reshape(y, [batch, *(n * step for n, step in zip(places, d, strict=True)), features])
        return b.slice(y, [0] * (rank + 2), [batch, *self.places, features], [1] * (rank + 2))

    def _product(self, b: Emitter, x: Any, w: Any) -> Any:
        """The result as (batch, places..., features), from x in that order and w as (window..., features, results)."""
        batch, features, outputs = shape(x)[0], shape(x)[-1], shape(w)[-1]
        patches = self._patches(b, self._padded(b, x))
        places, window = math.prod(self.places), math.prod(self.window)
        # Without the barrier IREE would fuse the slices into the product and lose the product of matrices.
        if window > places:
            rows, summed = batch * places, window * features
            patches, w = b.barrier(b.reshape(patches, [rows, summed]), b.reshape(w, [summed, outputs]))
            y = b.dot_general(patches, w, ((), ()), ((1,), (0,)), {})
        else:
            patches, w = b.barrier(patches, b.reshape(w, [window, features, outputs]))
            y = b.dot_general(patches, w, ((), ()), ((1, 3), (0, 1)), {})
        return b.reshape(y, [batch, *self.places, outputs])

    def _padded(self, b: Emitter, x: Any) -> Any:
        """The image with its dilation and padding written out."""
        sides = [(0, 0), *self.padding, (0, 0)]
        holes = [0, *(n - 1 for n in self.image_dilation), 0]
        if not np.any(sides) and not np.any(holes):
            return x
        zero = b.constant(0, ir.RankedTensorType.get([], element(x)))
        return b.pad(x, zero, [low for low, _ in sides], [high for _, high in sides], holes)

    def _patches(self, b: Emitter, x: Any) -> Any:
        """The patches: (batch, window, places, features), or (batch, places, window, features) for a larger window."""
        batch, *_, features = shape(x)
        places, window = math.prod(self.places), math.prod(self.window)
        few, many = (self.window, self.places) if window <= places else (self.places, self.window)
        # Steps in x between slices, and within a slice.
        step, stride = (self.dilation, self.strides) if window <= places else (self.strides, self.dilation)
        slices = []
        for at in itertools.product(*(range(n) for n in few)):
            start = [0, *(i * s for i, s in zip(at, step, strict=True)), 0]
            length = [(n - 1) * s + 1 for n, s in zip(many, stride, strict=True)]
            limit = [batch, *(i + n for i, n in zip(start[1:-1], length, strict=True)), features]
            slices.append(b.slice(x, start, limit, [1, *stride, 1]))
        wide = [batch, 1, math.prod(many) * features]
        together = b.concatenate([b.reshape(s, wide) for s in slices], 1)
        together = b.reshape(together, [batch, math.prod(few), math.prod(many), features])
        return together


def _read(op: Any) -> Convolution | None:
    """An op as a `Convolution`; None if a product of matrices does not pay or is not possible."""
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
    window = [w.type.shape[d] for d in n.kernel_spatial_dimensions]
    places = [y.type.shape[d] for d in n.output_spatial_dimensions]

    def sizes(name: str, default: Any) -> list[Any]:
        return list(op.attributes[name]) if name in op.attributes else [default] * rank

    padding = np.array(op.attributes["padding"]) if "padding" in op.attributes else np.zeros((rank, 2), int)
    features = shape(w)[n.kernel_input_feature_dimension]
    taps = math.prod(window) * features  # multiplications for each element of the result
    patches = math.prod(shape(y)) // shape(y)[n.output_feature_dimension] * taps
    if min(math.prod(window), math.prod(places)) > _SLICES or patches * element(y).width // 8 > _BYTES:
        return None
    strides, holes = sizes("window_strides", 1), sizes("lhs_dilation", 1)
    channels_first = n.input_feature_dimension < rank + 1 and (features >= _CHANNELS or set(strides) != {1})
    # With one window position, the convolution is a product of matrices already.
    large = 1 < math.prod(places) < math.prod(window)
    slow = set(holes) != {1} or channels_first or large
    if not slow or math.prod(shape(y)) * taps < _WORK:
        return None
    return Convolution(
        op,
        n,
        window,
        places,
        strides,
        sizes("rhs_dilation", 1),
        holes,
        padding.reshape(rank, 2).tolist(),
        [bool(v) for v in sizes("window_reversal", False)],
    )
