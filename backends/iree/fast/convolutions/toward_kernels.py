"""toward_kernels: gradients of convolutions with respect to their kernels, with channels first, without patches.

    y[c, o, i, j] = sum_(n, p, q) w[n, o, p, q] x[c, n, p + i, q + j]

The window w is a cotangent, which is larger than the result. A tile covers some features o, some channels c and some
offsets (i, j). Its sums are vectors along the features and stay in registers. Each step loads the vectors of w at one
(n, p, q), and multiplies them by the elements of x for the channels and offsets. A separate dispatch first copies w to
panels: a panel has the features of a tile next to each other. At the end, blocks of a tile are transposed, because the
features are not the last dimension of the result. The images are padded, and divided into planes if the cotangent is
dilated (planes.py). If there are batch groups, as in the gradient of a grouped convolution, the channels c and the
features o are divided into groups; a panel has features of one group, and reads the channels of this group.

The code reads the sizes of arrays at run time, so that gradients of many sizes share it.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from tiduc.backends.iree.emit.emitter import Emitter
from tiduc.backends.iree.emit.sizes import RunTimeSize, SizeLike, smaller
from tiduc.backends.iree.emit.vectors import Vectors, cycles_of_step, lanes, quotient
from tiduc.backends.iree.emit.workgroups import ArrayPart, Code
from tiduc.backends.iree.fast.convolutions.convolution_form import BATCH, FEATURES, Convolution, Result
from tiduc.backends.iree.fast.convolutions.panels import Group, PanelsForm, in_panels, swapped
from tiduc.backends.iree.fast.convolutions.planes import Offsets, Planes
from tiduc.backends.iree.fast.convolutions.pointwise import toward_pointwise
from tiduc.backends.iree.settings import Registers
from tiduc.dialect.ops.ir_types import IrValue
from tiduc.dialect.shapes.types import shape, with_shape

_STORE = 5
"""The cycles for transposing and storing one vector of a square block."""


@dataclass(frozen=True)
class KernelTile:
    """The size of a tile of sums: numbers of channels, of rows and columns of offsets, and of vectors of features."""

    channels: int
    rows: int
    columns: int
    vectors: int

    @property
    def height(self) -> int:
        """The number of elements of x that a step reads."""
        return self.channels * self.rows * self.columns

    @property
    def cycles(self) -> float:
        """The estimated cycles of one step, which adds one product to each sum of the tile."""
        return cycles_of_step(self.height * self.vectors, self.height + self.vectors)


@dataclass(frozen=True)
class KernelSums:
    """The sizes of a gradient, from which the size of its tiles is chosen.

    The fields are the numbers of features, of channels, of rows and columns of offsets, of terms of a sum (`steps`),
    and of elements of a vector (`lanes`).
    """

    features: int
    channels: int
    rows: int
    columns: int
    steps: int
    lanes: int

    def cycles(self, tile: KernelTile) -> float:
        """The estimated cycles in which the gradient is computed if this tile is used."""
        offsets = self.channels * self.rows * self.columns // tile.height
        store = _STORE * tile.vectors * self.lanes * -(-tile.height // self.lanes)
        return offsets * -(-self.features // (tile.vectors * self.lanes)) * (self.steps * tile.cycles + store)

    def tiles(self, registers: int) -> Iterator[KernelTile]:
        """Yields the tiles whose sums and operands fit into the registers, and whose results are adjacent in memory.

        Such a tile has all offsets of several channels, or whole rows of offsets of one channel, or a part of a row.
        """
        channels, rows, columns = (
            [m for m in range(1, registers) if n % m == 0] for n in (self.channels, self.rows, self.columns)
        )
        for tile in itertools.starmap(KernelTile, itertools.product(channels, rows, columns, range(1, 6))):
            whole = tile.columns == self.columns, tile.rows == self.rows
            aligned = (whole[0] or tile.rows == 1) and (all(whole) or tile.channels == 1)
            if aligned and (tile.height + 1) * tile.vectors + 1 < registers:
                yield tile

    def best(self, registers: int, of_one_channel: bool = False) -> KernelTile:
        """The tile with the fewest cycles, among all tiles or, if `of_one_channel`, among those with one channel."""
        tiles = (t for t in self.tiles(registers) if t.channels == 1 or not of_one_channel)
        return min(tiles, key=self.cycles)


def toward_kernel(b: Emitter, c: Convolution) -> Result:
    """Computes a convolution from `Convolution.in_order` whose window is larger than its result.

    The convolution must have no feature groups and no base dilation.
    """
    planes = Planes.of_kernel(c)
    y = toward_pointwise(b, c, planes)
    y = _computed(b, c, planes) if y is None else y
    major, minor = swapped(c.layout.output[1], c.outputs, c.images)
    labels = swapped(c.layout.output[1], FEATURES, BATCH)
    return Result(b.reshape(y, [major, minor, *c.places]), (*labels, *range(c.rank)))


def cycles_toward_kernel(c: Convolution, registers: Registers) -> float:
    """The estimated cycles of `toward_kernel` for a convolution. The convolution need not be in `in_order`'s layout."""
    sums, tile = _sums(c, Planes.of_kernel(c), registers)
    return sums.cycles(tile)


def _sums(c: Convolution, planes: Planes, registers: Registers) -> tuple[KernelSums, KernelTile]:
    """Returns the sizes of a group of a gradient, and the best tile for them."""
    steps = c.features * math.prod(planes.places)
    sums = KernelSums(c.outputs // c.batch_groups, c.images, *planes.sizes, steps, lanes(c.x, registers))
    return sums, sums.best(registers.number, of_one_channel=c.layout.output[1] > c.layout.output[0])


def _computed(b: Emitter, c: Convolution, planes: Planes) -> IrValue:
    """Computes the gradient by a dispatch.

    Returns it as (channels, features, offsets) if channels come first in the result, else as a matrix (features,
    channels and offsets).
    """
    by_channels = c.layout.output[1] == 1
    sums, tile = _sums(c, planes, b.settings.registers)
    n, m, *_ = shape(c.x)
    x = planes.filled(b, b.reshape(c.x, [n, m, *planes.image]), 0)
    even = sums.features % (tile.vectors * sums.lanes) == 0
    form = _GradientForm(
        tile,
        sums.lanes,
        c.layout.input[1],
        by_channels,
        even,
        planes.sizes,
        replace(planes.offsets, pitch=None),
    )
    w = in_panels(b, c, PanelsForm(c.layout.kernel[0], form.width, even), sums.lanes)
    panels, _, filled, _ = shape(w)
    whole = math.prod(planes.sizes)
    sizes = [c.images, c.outputs, whole] if by_channels else [c.outputs, c.images * whole]
    numbers = _Numbers(
        c.outputs,
        c.features,
        c.batch,
        c.images,
        c.batch_groups,
        *planes.places,
        planes.pitch,
        shape(x)[3],
        panels,
        filled,
        sizes[-1],
    )
    axes = (
        (*swapped(form.images, "images", "channels"), None, "elements"),
        ("panels", "images", "filled", None),
        ("taken", "outputs", None) if by_channels else ("outputs", "last"),
    )
    counts = [panels, c.images // tile.channels, whole // (tile.rows * tile.columns)]
    code = Code("toward_kernel", form, _GradientPart, numbers, ["images", "groups"], axes)
    return code.run(b, [x, w], with_shape(c.x.type, sizes), counts)


class _Numbers(NamedTuple):
    """The numbers that the code reads at run time.

    - `outputs`, `images`, `channels`: the sizes of the dimensions o, n and c, in all groups.
    - `taken`, `groups`: the number of channels of a group, and the number of batch groups.
    - `rows`, `columns`: the spatial size of the cotangent.
    - `pitch`, `elements`: the distance between rows of a plane, and the number of its elements.
    - `panels`, `filled`: the number of panels, and the padded number of elements (p, q) of an image in a panel.
    - `last`: the size of the last dimension of the result.
    """

    outputs: SizeLike
    images: SizeLike
    channels: SizeLike
    taken: SizeLike
    groups: SizeLike
    rows: SizeLike
    columns: SizeLike
    pitch: SizeLike
    elements: SizeLike
    panels: SizeLike
    filled: SizeLike
    last: SizeLike


@dataclass(frozen=True)
class _GradientForm:
    """The properties of a gradient that determine its code.

    If `by_channels` is true, channels are the first dimension of the result. `images` is the index of the image
    dimension of x. `even` says whether all panels are full. `sizes` has the numbers of rows and columns of offsets.
    """

    tile: KernelTile
    vector: int
    images: int
    by_channels: bool
    even: bool
    sizes: tuple[int, int]
    offsets: Offsets

    @property
    def width(self) -> int:
        """The number of features of a panel."""
        return self.tile.vectors * self.vector


@dataclass(frozen=True)
class _GradientPart:
    """Emits the code for one tile of a gradient. `x` has the images as planes; `w` has the cotangent in panels."""

    form: _GradientForm
    numbers: _Numbers
    x: IrValue
    w: IrValue

    def one(self, k: Vectors, place: Sequence[RunTimeSize]) -> ArrayPart:
        """Emits the code for the part with the indices `place`: (panel, block of channels, tile of offsets)."""
        panel, block, number = place
        form, n, tile, (_, columns) = self.form, self.numbers, self.form.tile, self.form.sizes
        channel, group = k.held(block * tile.channels), Group.of(k, panel, n.panels, n.groups, n.outputs)
        row = k.held(quotient(number, columns // tile.columns) * tile.rows)
        column = k.held(number * tile.columns - quotient(row, tile.rows) * columns)
        feature = k.held(group.first + group.panel * form.width)
        count = form.width if form.even else k.held(smaller(group.end - feature, form.width))
        offset, height = k.held(row * columns + column), tile.rows * tile.columns
        if form.by_channels:
            starts, sizes = [channel, feature, offset], [1, count, height]
        else:
            whole = math.prod(form.sizes)
            starts, sizes = [feature, k.held(channel * whole + offset)], [count, tile.height]
        sums = self.sums(k, panel, k.held(group.number * n.taken + channel), row, column)
        out = self.stored(k, sums, count, k.array(sizes))
        return ArrayPart(out, starts, sizes)

    def sums(
        self, k: Vectors, panel: SizeLike, channel: SizeLike, row: SizeLike, column: SizeLike
    ) -> Sequence[IrValue]:
        """Emits the loops that compute the sums of a tile: for each channel and offset, vectors along features.

        `channel` is the index of the first channel among all groups.
        """
        tile, n = self.form.tile, self.numbers
        of_form = replace(self.form.offsets, pitch=n.pitch)
        offsets = itertools.product(range(tile.rows), range(tile.columns))
        reads = [[k.held(n) for n in of_form.read([row + i, column + j])] for i, j in offsets]
        channels = [k.held(channel + m) for m in range(tile.channels)]

        def of_row(k: Vectors, place: Sequence[SizeLike], *sums: IrValue) -> Sequence[IrValue]:
            image, p = place
            begin, first = k.held(p * n.columns), k.held(p * n.pitch)

            def step(k: Vectors, q: RunTimeSize, *sums: IrValue) -> list[IrValue]:
                at = [panel, image, k.held(begin + q)]
                ws = [k.load(self.w, [*at, v * k.width]) for v in range(tile.vectors)]
                here = k.held(first + q)
                elements = (
                    k.element(self.x, *swapped(self.form.images, image, m), plane, here + far)
                    for m in channels
                    for plane, far in reads
                )
                return k.plus_products((k.splat(x) for x in elements), ws, sums)

            return k.loop(0, n.columns, 1, sums, step)

        return k.nest([n.images, n.rows], [k.zeros()] * (tile.height * tile.vectors), of_row)

    def stored(self, k: Vectors, sums: Sequence[IrValue], count: SizeLike, out: IrValue) -> IrValue:
        """Stores the sums of a tile in the part `out`, for the tile's first `count` features. Returns the part."""
        form, tile = self.form, self.form.tile
        for v, begin in itertools.product(range(tile.vectors), range(0, tile.height, k.width)):
            rows = range(begin, min(begin + k.width, tile.height))
            square = [sums[r * tile.vectors + v] for r in rows] + [k.zeros()] * (k.width - len(rows))
            masks = [k.first(len(rows))] if len(rows) < k.width else []
            for e, row in enumerate(k.transposed(square)):
                o = v * k.width + e
                inside = [] if form.even else [k.splat(k.at_most(k.index(o + 1), k.index(count)))]
                place = [*([0] if form.by_channels else []), o, begin]
                out = k.store(row, out, place, k.every(masks + inside))
        return out
