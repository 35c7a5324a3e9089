"""`Convolution`: a convolution, and its rewrites to equivalent convolutions. `Result`: its result in any layout."""

import math
from dataclasses import astuple, dataclass, field, replace

from tiduc.backends.iree.emit.emitter import Emitter
from tiduc.backends.iree.emit.marks import before_mark
from tiduc.backends.iree.emit.patches import Along, patches, zero
from tiduc.dialect.facts.windows import (
    Layout,
    Numbers,
    Window,
    group_counts,
    reversal,
    window_of_convolution,
)
from tiduc.dialect.graph.matching import defined_by
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.shapes.types import element, shape

BATCH, FEATURES = -2, -1
"""The labels of the batch and feature dimensions in `Result.axes`. The label of spatial dimension d is d."""


@dataclass(frozen=True)
class Result:
    """The result of a convolution, with dimensions in any order: dimension i of the value has the label `axes[i]`."""

    value: IrValue
    axes: tuple[int, ...]

    def in_layout(self, b: Emitter, output: Numbers) -> IrValue:
        """Transposes the value to a layout: `output` has the positions of the batch, feature and spatial dimensions."""
        labels = [BATCH, FEATURES, *range(len(output) - 2)]
        wanted = [labels[output.index(d)] for d in range(len(output))]
        return b.transpose(self.value, [self.axes.index(label) for label in wanted])


@dataclass(frozen=True)
class Convolution:
    """A convolution of x with the kernel w, of static shapes.

    `places` is the spatial shape of the result. `reversed` has the spatial dimensions along which the window is
    reversed. `groups` is the feature group count, and `batch_groups` the batch group count.
    """

    x: IrValue = field(repr=False)
    w: IrValue = field(repr=False)
    layout: Layout
    window: Window
    places: tuple[int, ...]
    reversed: tuple[int, ...] = ()
    groups: int = 1
    batch_groups: int = 1

    @staticmethod
    def of(op: IrOp) -> "Convolution":
        """The convolution that an op computes.

        If a `reverse` op computes the kernel, reads the operand of the `reverse`, and reverses the window.
        """
        layout = Layout.of(op)
        places = tuple(shape(op.results[0])[d] for d in layout.output[2:])
        turned = {d for d, backwards in enumerate(reversal(op)) if backwards}
        x, w = op.operands
        spatial = layout.kernel[2:]
        if (reverse := defined_by(w, "stablehlo.reverse")) is not None:
            dimensions = list(reverse.attributes["dimensions"])
            if set(dimensions) <= set(spatial):
                w, turned = reverse.operands[0], turned ^ {spatial.index(d) for d in dimensions}
        return Convolution(
            x, w, layout, window_of_convolution(op), places, tuple(sorted(turned)), *group_counts(op)
        )

    @property
    def rank(self) -> int:
        """The number of spatial dimensions."""
        return len(self.places)

    @property
    def summed(self) -> int:
        """The number of products that are added for one element of the result."""
        return int(math.prod(self.window.sizes) * shape(self.w)[self.layout.kernel[0]])

    @property
    def batch(self) -> int:
        """The size of the batch."""
        return int(shape(self.x)[self.layout.input[0]])

    @property
    def images(self) -> int:
        """The number of images of the result, which is the number of images in a batch group."""
        return self.batch // self.batch_groups

    @property
    def features(self) -> int:
        """The number of input features, in all groups."""
        return int(shape(self.x)[self.layout.input[1]])

    @property
    def outputs(self) -> int:
        """The number of output features, in all groups."""
        return int(shape(self.w)[self.layout.kernel[1]])

    @property
    def width(self) -> int:
        """The number of bytes of an element."""
        return int(element(self.x).width // 8)

    def in_place(self, b: Emitter) -> "Convolution":
        """Returns an equivalent convolution that does not need a reversed copy of the kernel w.

        If a `reverse` op computes w, the convolution reads the operand of the `reverse` instead, and reverses the
        window. A reshape may follow the `reverse`, as in the gradient of a depthwise convolution. If w is a mark
        (`emit/marks.py`), the convolution reads the value that the mark copies. IREE still does not merge a
        rematerialized convolution with the original one, because the image is a mark, too.
        """
        reshape = defined_by(self.w, "stablehlo.reshape")
        w = self.w if reshape is None else reshape.operands[0]
        reverse, turned = defined_by(w, "stablehlo.reverse"), set(self.reversed)
        if reverse is not None:
            # The reversed dimensions are counted from the end, because the reshape may change the rank. It must not
            # change the sizes of these dimensions, or of those after them.
            ends = [d - len(shape(w)) for d in reverse.attributes["dimensions"]]
            places = {len(shape(self.w)) + d for d in ends}
            spatial = self.layout.kernel[2:]
            if shape(w)[min(ends) :] == shape(self.w)[min(ends) :] and places <= set(spatial):
                w, turned = reverse.operands[0], turned ^ {spatial.index(d) for d in places}
        w = b.reshape(before_mark(w), shape(self.w))
        return replace(self, w=w, reversed=tuple(sorted(turned)))

    @property
    def has_holes(self) -> bool:
        """Whether the image has a base dilation, so that there are zeros between its elements."""
        return math.prod(self.window.base) > 1

    @property
    def has_few_places(self) -> bool:
        """Whether the window has more elements than the result has places.

        This is true of the convolution that computes the gradient with respect to a kernel.
        """
        return math.prod(self.places) < math.prod(self.window.sizes)

    def spatial_last(self, b: Emitter) -> "Convolution":
        """An equivalent convolution whose image and result have their spatial dimensions last, and in order."""
        order, image = _with_spatial_last(self.layout.input)
        _, output = _with_spatial_last(self.layout.output)
        return replace(self, x=b.transpose(self.x, order), layout=Layout(image, self.layout.kernel, output))

    def in_order(self, b: Emitter) -> "Convolution":
        """Like `spatial_last`, but the kernel has its spatial dimensions last, too, and the window is not reversed."""
        order, kernel = _with_spatial_last(self.layout.kernel)
        spatial = self.layout.kernel[2:]
        w = b.reverse(self.w, [spatial[d] for d in self.reversed]) if self.reversed else self.w
        c = self.spatial_last(b)
        layout = replace(c.layout, kernel=kernel)
        return replace(c, w=b.transpose(w, order), layout=layout, reversed=())

    def exchanged(self) -> "Convolution | None":
        """The convolution of w with the kernel x. Returns None if w is dilated or has groups.

        `restored` converts its result to the result of this convolution. Element j of w is multiplied by element i of x
        at place o, with o * stride = i * base - j + low. As o decreases if j increases, the exchanged convolution
        computes the places in reverse order, and `restored` reverses them. If w is reversed, the exchanged convolution
        reverses x instead, and the places are in order. Batch groups remain batch groups.
        """
        if self.groups > 1 or set(self.window.dilation) != {1}:
            return None
        w, image, kernel = self.window, self.layout.input, self.layout.kernel
        sizes, counts = (
            tuple(shape(v)[d] for d in dims[2:]) for v, dims in ((self.x, image), (self.w, kernel))
        )
        low = tuple(
            (n - 1) * base + lo - (k - 1) if d in self.reversed else (m - 1) * step - lo
            for d, (n, k, m, base, step, lo) in enumerate(
                zip(sizes, counts, self.places, w.base, w.strides, w.low, strict=True)
            )
        )
        ones = (1,) * self.rank
        window = Window(sizes, w.strides, ones, w.base, low, ones).ending(counts, self.places)
        swapped = ((kernel[1], kernel[0]), (image[1], image[0]), self.layout.output[1::-1])
        dimensions = (kernel, image, self.layout.output)
        layout = Layout(*((*pair, *of[2:]) for pair, of in zip(swapped, dimensions, strict=True)))
        return replace(self, x=self.w, w=self.x, layout=layout, window=window)

    def restored(self, b: Emitter, y: Result) -> Result:
        """Converts y, the result of the convolution `exchanged()`, to the result of this convolution."""
        turned = [y.axes.index(d) for d, n in enumerate(self.places) if n > 1 and d not in self.reversed]
        value = b.reverse(y.value, turned) if turned else y.value
        if self.batch_groups == 1:
            names = {BATCH: FEATURES, FEATURES: BATCH}
            return Result(value, tuple(names.get(label, label) for label in y.axes))
        # The batch dimension has the features of a group, and the feature dimension has all groups of images.
        labels = (BATCH, FEATURES, *range(self.rank))
        value = b.transpose(value, [y.axes.index(label) for label in labels])
        features, _, *places = shape(value)
        value = b.reshape(value, [features, self.batch_groups, self.images, *places])
        value = b.transpose(value, [2, 1, 0, *range(3, len(places) + 3)])
        return Result(b.reshape(value, [self.images, self.outputs, *places]), labels)

    def folded(self, b: Emitter) -> "Convolution":
        """An equivalent convolution with one spatial dimension less.

        `unfolded` converts its result to the result of this convolution. Each place along the first spatial dimension
        becomes a separate image. Each offset of the window along this dimension becomes a channel.
        """
        (batch, features, first, *rest), w = self.layout.input, self.window
        x = b.transpose(self.x, [batch, features, first, *rest])
        if w.base[0] > 1:
            none = [0] * len(shape(x))
            x = b.pad(x, zero(b, x), none, none, [w.base[0] - 1 if d == 2 else 0 for d in range(len(none))])
        n, m, _, *sizes = shape(x)
        count, offsets = self.places[0], w.sizes[0]
        along = [Along(n, 0), Along(count, 2, w.strides[0]), Along(m, 1), Along(offsets, 2, w.dilation[0])]
        along += [Along(size, d) for d, size in enumerate(sizes, 3)]
        starts = [0, 0, -w.low[0], *[0] * len(sizes)]
        x = patches(b, x, along, starts, [n * count, m * offsets, *sizes])
        inputs, outputs, first, *rest = self.layout.kernel
        kernel = b.reverse(self.w, [first]) if 0 in self.reversed else self.w
        kernel = b.transpose(kernel, [inputs, first, outputs, *rest])
        each, _, *others = shape(kernel)
        numbers = tuple(range(self.rank + 1))
        return Convolution(
            x,
            b.reshape(kernel, [each * offsets, *others]),
            Layout(numbers, numbers, numbers),
            Window(*(of[1:] for of in astuple(w))),
            self.places[1:],
            tuple(d - 1 for d in self.reversed if d),
            self.groups,
            self.batch_groups,
        )

    def unfolded(self, b: Emitter, y: Result) -> Result:
        """Converts y, the result of the convolution `folded(b)`, to the result of this convolution."""
        at, sizes = y.axes.index(BATCH), shape(y.value)
        axes = [label + (label >= 0) for label in y.axes]
        sizes[at : at + 1], axes[at : at + 1] = [self.images, self.places[0]], [BATCH, 0]
        return Result(b.reshape(y.value, sizes), tuple(axes))


def _with_spatial_last(numbers: Numbers) -> tuple[list[int], Numbers]:
    """Returns a permutation that moves the spatial dimensions to the end, and `numbers` after this transpose.

    `numbers` has the positions of the two other dimensions, which keep their order, and of the spatial dimensions.
    """
    order = [*sorted(numbers[:2]), *numbers[2:]]
    return order, tuple(order.index(d) for d in numbers)
