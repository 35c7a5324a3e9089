"""`Convolution`: a convolution as a record. `Result`: the result with its dimensions in any order."""

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
"""The labels of the dimensions that are not spatial; the label of a spatial dimension is its index."""


@dataclass(frozen=True)
class Result:
    """The result of a convolution; `axes` has the label of each dimension of the value."""

    value: IrValue
    axes: tuple[int, ...]

    def in_layout(self, b: Emitter, output: Numbers) -> IrValue:
        """The value, transposed so that its batch, feature and spatial dimensions are at the positions of `output`."""
        labels = [BATCH, FEATURES, *range(len(output) - 2)]
        wanted = [labels[output.index(d)] for d in range(len(output))]
        return b.transpose(self.value, [self.axes.index(label) for label in wanted])


@dataclass(frozen=True)
class Convolution:
    """A convolution of x with the kernel w, of static shapes.

    `places` is the spatial shape of the result. The window is reversed along the spatial dimensions `reversed`.
    `groups` is the feature group count.
    """

    x: IrValue = field(repr=False)
    w: IrValue = field(repr=False)
    layout: Layout
    window: Window
    places: tuple[int, ...]
    reversed: tuple[int, ...] = ()
    groups: int = 1

    @staticmethod
    def of(op: IrOp) -> "Convolution":
        """The convolution of an op. Absorbs a reversal of the kernel."""
        layout = Layout.of(op)
        places = tuple(shape(op.results[0])[d] for d in layout.output[2:])
        turned = {d for d, backwards in enumerate(reversal(op)) if backwards}
        x, w = op.operands
        spatial = layout.kernel[2:]
        if (reverse := defined_by(w, "stablehlo.reverse")) is not None:
            dimensions = list(reverse.attributes["dimensions"])
            if set(dimensions) <= set(spatial):
                w, turned = reverse.operands[0], turned ^ {spatial.index(d) for d in dimensions}
        groups = group_counts(op)[0]
        return Convolution(x, w, layout, window_of_convolution(op), places, tuple(sorted(turned)), groups)

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
    def features(self) -> int:
        """The number of x's features."""
        return int(shape(self.x)[self.layout.input[1]])

    @property
    def outputs(self) -> int:
        """The number of the result's features."""
        return int(shape(self.w)[self.layout.kernel[1]])

    @property
    def width(self) -> int:
        """The number of bytes of an element."""
        return int(element(self.x).width // 8)

    def in_place(self, b: Emitter) -> "Convolution":
        """This convolution without the `reverse` that computes w; the window is reversed instead.

        A reshape may follow the `reverse`, as in the gradient of a depthwise convolution. A mark of w (`emit/marks.py`)
        is dropped: if the convolution is rematerialized, the mark of its image is enough.
        """
        reshape = defined_by(self.w, "stablehlo.reshape")
        w = self.w if reshape is None else reshape.operands[0]
        reverse, turned = defined_by(w, "stablehlo.reverse"), set(self.reversed)
        if reverse is not None:
            # The reversed dimensions, counted from the end. The reshape must keep the sizes of these and of later
            # dimensions.
            ends = [d - len(shape(w)) for d in reverse.attributes["dimensions"]]
            places = {len(shape(self.w)) + d for d in ends}
            spatial = self.layout.kernel[2:]
            if shape(w)[min(ends) :] == shape(self.w)[min(ends) :] and places <= set(spatial):
                w, turned = reverse.operands[0], turned ^ {spatial.index(d) for d in places}
        w = b.reshape(before_mark(w), shape(self.w))
        return replace(self, w=w, reversed=tuple(sorted(turned)))

    @property
    def has_holes(self) -> bool:
        """Whether the image is dilated."""
        return math.prod(self.window.base) > 1

    @property
    def has_few_places(self) -> bool:
        """Whether the window has more elements than the result has places, as in the gradient toward a kernel."""
        return math.prod(self.places) < math.prod(self.window.sizes)

    def spatial_last(self, b: Emitter) -> "Convolution":
        """This convolution with the spatial dimensions of the image and of the result last and in order."""
        order, image = _with_spatial_last(self.layout.input)
        _, output = _with_spatial_last(self.layout.output)
        return replace(self, x=b.transpose(self.x, order), layout=Layout(image, self.layout.kernel, output))

    def in_order(self, b: Emitter) -> "Convolution":
        """`spatial_last`, with the kernel's dimensions in the same order and the kernel not reversed."""
        order, kernel = _with_spatial_last(self.layout.kernel)
        spatial = self.layout.kernel[2:]
        w = b.reverse(self.w, [spatial[d] for d in self.reversed]) if self.reversed else self.w
        c = self.spatial_last(b)
        layout = replace(c.layout, kernel=kernel)
        return replace(c, w=b.transpose(w, order), layout=layout, reversed=())

    def exchanged(self) -> "Convolution | None":
        """This convolution with x and w exchanged, so that x becomes the kernel. None if w is dilated or in groups.

        `restored` converts the result back. Element j of w is multiplied by element i of x at place o = i * base - j +
        low. As o decreases when j increases, places are counted from the end. If w is reversed, x is reversed instead
        of the result.
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
        """The result of this convolution, from the result `y` of `exchanged`."""
        turned = [y.axes.index(d) for d, n in enumerate(self.places) if n > 1 and d not in self.reversed]
        names = {BATCH: FEATURES, FEATURES: BATCH}
        value = b.reverse(y.value, turned) if turned else y.value
        return Result(value, tuple(names.get(label, label) for label in y.axes))

    def folded(self, b: Emitter) -> "Convolution":
        """An equivalent convolution without the first spatial dimension. `unfolded` converts its result back.

        A place along the first spatial dimension becomes an image. An offset of the window along it becomes a channel.
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
        )

    def unfolded(self, b: Emitter, y: Result) -> Result:
        """The result of this convolution, from the result `y` of `folded`."""
        at, sizes = y.axes.index(BATCH), shape(y.value)
        axes = [label + (label >= 0) for label in y.axes]
        sizes[at : at + 1], axes[at : at + 1] = [self.batch, self.places[0]], [BATCH, 0]
        return Result(b.reshape(y.value, sizes), tuple(axes))


def _with_spatial_last(numbers: Numbers) -> tuple[list[int], Numbers]:
    """The order of dimensions with the spatial dimensions last, and `numbers` after a transpose to this order."""
    order = [*sorted(numbers[:2]), *numbers[2:]]
    return order, tuple(order.index(d) for d in numbers)
