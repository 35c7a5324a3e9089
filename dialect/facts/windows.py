"""Computes the shapes of the results of windowed ops, and the windows of the transposes of these ops.

The windowed ops are `reduce_window`, `select_and_scatter` and `convolution`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.dialect.ops.ir_types import AnyOp
from tiduc.dialect.shapes.origins import size_of
from tiduc.dialect.shapes.sizes import Size, known_equal
from tiduc.dialect.shapes.types import dims, shape

Numbers = tuple[int, ...]


@dataclass(frozen=True)
class Window:
    """A window that moves over an array. Each field has one entry per dimension.

    `base` and `dilation` are the dilations of the array and of the window. `low` and `high` are the array's paddings.
    Offset j of the window at position o covers element i if o * stride + j * dilation = i * base + low.
    """

    sizes: Numbers
    strides: Numbers
    base: Numbers
    dilation: Numbers
    low: Numbers
    high: Numbers

    def outputs(self, sizes: Sequence[int]) -> list[int]:
        """The number of positions of the window along each dimension of an array of these sizes."""
        over = zip(self.padded(sizes), self.extent, self.strides, strict=True)
        return [_places(n, k, s) for n, k, s in over]

    @property
    def attributes(self) -> dict[str, Any]:
        """The attributes of a `reduce_window` op with this window."""
        return {
            "window_dimensions": dims(self.sizes),
            "window_strides": dims(self.strides),
            "base_dilations": dims(self.base),
            "window_dilations": dims(self.dilation),
            "padding": padding(self.low, self.high),
        }

    @property
    def extent(self) -> list[int]:
        """The dilated sizes of the window."""
        return [dilated(k, w) for k, w in zip(self.sizes, self.dilation, strict=True)]

    def padded(self, sizes: Sequence[int]) -> list[int]:
        """The sizes of an array after dilation and padding."""
        ends = zip(sizes, self.base, self.low, self.high, strict=True)
        return [dilated(n, a) + lo + hi for n, a, lo, hi in ends]

    def adjoint(self, sizes: Sequence[int], places: Sequence[int]) -> "Window":
        """The window of the transposed op, which moves over the results of the op. `places` are the results' sizes.

        It has one position for each element of the op's operand, an array of the positive sizes `sizes`. Let
        j' = size - 1 - j reverse the window. Then i * base + j' * dilation = o * stride + (size - 1) * dilation - low,
        so stride and base exchange roles, and the new low padding is (size - 1) * dilation - low. The high padding is
        chosen so that even elements of the operand that no window covers have positions.
        """
        low = [e - 1 - lo for e, lo in zip(self.extent, self.low, strict=True)]
        return replace(self, strides=self.base, base=self.strides, low=tuple(low)).ending(places, sizes)

    def correlation(self, sizes: Sequence[int], places: Sequence[int]) -> "Window":
        """A window of the sizes `places` that moves over an array of sizes `sizes`. It has one position per offset j.

        A convolution of the array with this window, where the gradient of the result is the kernel, gives the gradient
        of the original kernel.
        """
        turned = replace(self, sizes=tuple(places), strides=self.dilation, dilation=self.strides)
        return turned.ending(sizes, self.sizes)

    def ending(self, sizes: Sequence[int], places: Sequence[int]) -> "Window":
        """This window with other high padding, so that it has `places` positions over an array of these sizes."""
        plain = replace(self, high=(0,) * len(sizes)).padded(sizes)
        ends = zip(places, self.strides, self.extent, plain, strict=True)
        return replace(self, high=tuple((m - 1) * s + e - n for m, s, e, n in ends))

    def unpadded(self) -> "Window":
        """This window without base dilation and padding, for an array that is already dilated and padded."""
        ones, zeros = (1,) * len(self.sizes), (0,) * len(self.sizes)
        return replace(self, base=ones, low=zeros, high=zeros)

    @property
    def tiles(self) -> bool:
        """Whether neighbouring windows touch, but do not overlap: strides equal sizes, without dilation and padding."""
        bare = self.low == self.high == (0,) * len(self.sizes) and set(self.base) <= {1}
        return bare and self.strides == self.sizes == tuple(self.extent)

    def cumulative(self, sizes: Sequence[int]) -> int | None:
        """The dimension along which this window is cumulative; None if it is not cumulative.

        At position o, a cumulative window covers all elements up to o, or all elements from o on.
        """
        long = [d for d, k in enumerate(self.sizes) if k > 1]
        if len(long) != 1 or self.strides != self.base or set((*self.strides, *self.base)) != {1}:
            return None
        n, none = sizes[long[0]], [0] * len(sizes)
        end = [n - 1 if d in long else 0 for d in range(len(sizes))]
        ends = list(self.low), list(self.high)
        return (
            long[0]
            if self.extent[long[0]] == self.sizes[long[0]] == n and ends in ((end, none), (none, end))
            else None
        )

    def may_be_empty(self, sizes: Sequence[int]) -> bool:
        """Whether the window may cover no element at some position. May be true even if it always covers one."""
        over = zip(self.outputs(sizes), sizes, self.strides, self.low, self.extent, strict=True)
        holes = any(
            a > 1 or (w > 1 and k > 1) for k, w, a in zip(self.sizes, self.dilation, self.base, strict=True)
        )
        return holes or any(known_equal(n, 0) or lo >= k or (m - 1) * s - lo >= n for m, n, s, lo, k in over)

    def elements(self, sizes: Sequence[int]) -> NDArray[np.int64]:
        """For each position of the window over an array of these sizes, the number of elements that it covers.

        Padding and holes are not counted.
        """
        total = np.ones([], np.int64)
        for d, (n, m) in enumerate(zip(sizes, self.outputs(sizes), strict=True)):
            at = (
                np.arange(m)[:, None] * self.strides[d]
                + np.arange(self.sizes[d]) * self.dilation[d]
                - self.low[d]
            )
            held = (at >= 0) & (at < dilated(n, self.base[d])) & (at % self.base[d] == 0)
            total = np.multiply.outer(total, held.sum(1))
        return total


def _places(size: int, extent: int, stride: int) -> int:
    """The number of positions of a window along a dimension. Assumes at least one if the dimension is dynamic."""
    if isinstance(size, Size):
        return (size - extent) // stride + 1
    return max(0, (size - extent) // stride + 1) if size > 0 else 0


def dilated(size: int, by: int) -> int:
    """The size of a dimension after `by - 1` holes are inserted between neighbouring elements."""
    if isinstance(size, Size):
        return size if by == 1 else (size - 1) * by + 1
    return (size - 1) * by + 1 if size else 0


def window_of(op: AnyOp) -> Window:
    """The window of a `reduce_window` or `select_and_scatter` op."""
    names = "window_strides", "base_dilations", "window_dilations"
    given = "window_dimensions" in op.attributes  # select_and_scatter has windows of one element by default
    sizes = tuple(op.attributes["window_dimensions"]) if given else (1,) * len(shape(op.operands[0]))
    return _window(op.attributes, sizes, names)


def window_of_convolution(op: AnyOp) -> Window:
    """The window of a convolution. It has the spatial dimensions of the kernel."""
    numbers = hlo.ConvDimensionNumbers(op.attributes["dimension_numbers"])
    sizes = tuple(size_of(op.operands[1], d) for d in numbers.kernel_spatial_dimensions)
    return _window(op.attributes, sizes, ("window_strides", "lhs_dilation", "rhs_dilation"))


def _window(attributes: Any, sizes: Numbers, names: Sequence[str]) -> Window:
    ends = np.zeros((len(sizes), 2), np.int64)
    if "padding" in attributes:
        ends = np.array(attributes["padding"]).reshape(ends.shape)
    ones = (1,) * len(sizes)
    strides, base, dilation = (tuple(attributes[n]) or ones if n in attributes else ones for n in names)
    return Window(sizes, strides, base, dilation, tuple(ends[:, 0].tolist()), tuple(ends[:, 1].tolist()))


def padding(low: Sequence[int], high: Sequence[int]) -> Any:
    """Converts paddings to the attribute `dense<[[low, high], ...]>`."""
    type_ = ir.RankedTensorType.get([len(low), 2], ir.IntegerType.get_signless(64))
    return ir.DenseElementsAttr.get(np.stack([low, high], axis=1).astype(np.int64), type=type_)


@dataclass(frozen=True)
class Layout:
    """The dimension numbers of a convolution.

    `input` and `output` list the batch dimension, the feature dimension, and the spatial dimensions. `kernel` lists the
    dimension of input features, that of output features, and the spatial dimensions.
    """

    input: Numbers
    kernel: Numbers
    output: Numbers

    @staticmethod
    def of(op: AnyOp) -> "Layout":
        n = hlo.ConvDimensionNumbers(op.attributes["dimension_numbers"])
        return Layout(
            (n.input_batch_dimension, n.input_feature_dimension, *n.input_spatial_dimensions),
            (
                n.kernel_input_feature_dimension,
                n.kernel_output_feature_dimension,
                *n.kernel_spatial_dimensions,
            ),
            (n.output_batch_dimension, n.output_feature_dimension, *n.output_spatial_dimensions),
        )

    @property
    def attribute(self) -> hlo.ConvDimensionNumbers:
        (n, c, *x), (i, o, *k), (batch, feature, *y) = self.input, self.kernel, self.output
        return hlo.ConvDimensionNumbers.get(n, c, x, i, o, k, batch, feature, y)


def group_counts(op: AnyOp) -> tuple[int, int]:
    """The feature group count and the batch group count of a convolution."""
    names = "feature_group_count", "batch_group_count"
    features, batches = (ir.IntegerAttr(op.attributes[name]).value for name in names)
    return features, batches


def reversal(op: AnyOp) -> list[bool]:
    """For each spatial dimension of a convolution, whether the window is reversed along it."""
    if "window_reversal" in op.attributes:
        return list(op.attributes["window_reversal"])
    return [False] * (op.operands[0].type.rank - 2)
