"""channels_first: convolutions with channels first, in tiles of registers, without patches or transposes.

    y[n, o, t] = sum_(c, i, j) w[o, c, i, j] x[n, c, t + i pitch + j]      for the places t of padded rows (planes.py)

A tile covers some features o and some vectors of places t. The sums of a tile stay in registers. Each step loads the
vectors of x once, and multiplies them by one kernel element for each feature. The kernel is read in its order in
memory, forwards or reversed. Columns between the rows of a result are computed but not stored. One dispatch computes
all phases of a result (phases.py); each phase reads other elements of the kernel.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

from tiduc.backends.iree.emit.emitter import Emitter
from tiduc.backends.iree.emit.vectors import MASKED, lanes
from tiduc.backends.iree.emit.workgroups import Code
from tiduc.backends.iree.fast.convolutions.convolution_form import BATCH, FEATURES, Convolution, Result
from tiduc.backends.iree.fast.convolutions.image_parts import (
    ImageForm,
    ImagePart,
    ImageSizes,
    ImageTile,
    PhaseElements,
)
from tiduc.backends.iree.fast.convolutions.planes import Planes
from tiduc.backends.iree.fast.convolutions.pointwise import pointwise
from tiduc.backends.iree.settings import Registers
from tiduc.dialect.ops.ir_types import IrValue
from tiduc.dialect.shapes.types import shape, with_shape

_BLOCK = 2**19
"""The most bytes of images that a part reads, so that the images stay in the level 2 cache for all features."""
_CHANNELS = 32
"""The most channels that are added at a time if channels are the kernel's outer dimension."""
_TILES_OF_PART = 64
"""The most tiles of a part that adds some channels at a time."""
_PARTS = 8
"""The number of parts that is enough for all threads. More parts by features would make the code slower."""
_STORE = 4
"""The number of cycles in which a vector of the result is stored."""


@cache
def _tiles(registers: int) -> list[ImageTile]:
    """The tiles whose sums fit into the registers, together with the vectors of x and a kernel element."""
    pairs = [ImageTile(r, v) for v in range(1, 9) for r in range(1, 17)]
    return [tile for tile in pairs if tile.features * tile.vectors + tile.vectors + 2 < registers]


@dataclass(frozen=True)
class ImageSums:
    """The numbers from which the tile is chosen.

    `features` counts the features of a group, `flat` the places of a part, and `lanes` the lanes of a vector. `steps`
    is the mean number of terms of a sum, over the phases that have terms.
    """

    features: int
    flat: int
    lanes: int
    steps: float

    def cycles(self, tile: ImageTile) -> float:
        """The estimated cycles for the features of a group at the places of a part."""
        count = -(-self.features // tile.features) * -(-self.flat // (tile.vectors * self.lanes))
        stored = _STORE * (
            1 if self.features % tile.features == 0 else 2
        )  # else masks exclude features beyond the group
        return count * (self.steps * tile.cycles + stored * tile.features * tile.vectors)

    def best(self, registers: int) -> ImageTile:
        """The tile of the fewest cycles that fits into the registers."""
        return min(_tiles(registers), key=self.cycles)


def channels_first(b: Emitter, c: Convolution, elements: Sequence[PhaseElements] = ()) -> Result:
    """The result of a convolution whose one or two spatial dimensions come last in the image and in the result.

    The image must not be dilated. `elements` says which kernel elements each phase reads, for each dimension; the
    default is one phase that reads all. Several phases are successive images of the result.
    """
    planes = Planes.of(c)
    y, labels = pointwise(b, c, planes), (BATCH, FEATURES)
    if y is None:
        swapped = c.layout.output[1] == 0 and not elements
        labels = (FEATURES, BATCH) if swapped else labels
        taken = tuple(elements) or tuple(PhaseElements((n,)) for n in c.window.sizes)
        y = _computed(b, c, planes, taken, swapped)
    return Result(b.reshape(y, [*shape(y)[:2], *c.places]), (*labels, *range(c.rank)))


def _rows_of_part(c: Convolution, planes: Planes) -> int:
    """The number of rows of a part: the largest divisor of all rows for which a part reads at most `_BLOCK` bytes."""
    each = c.features // c.groups * planes.pitch * planes.count * c.width
    rows = planes.places[0]
    fitting = [n for n in range(1, rows + 1) if rows % n == 0 and n * each <= _BLOCK]
    return max(fitting, default=1)


def _computed(
    b: Emitter, c: Convolution, planes: Planes, elements: tuple[PhaseElements, ...], swapped: bool
) -> IrValue:
    """The result as (phases and batch, features, places), or as (features, batch, places) if `swapped`."""
    form, sizes = _planned(c, planes, elements, swapped, b.settings.registers)
    batch, features, *spatial = c.layout.input
    x = b.transpose(c.x, [batch, features, *spatial])
    x = b.reshape(x, [c.batch, c.features, *planes.image])
    x = planes.filled(b, x, _last_row(planes, sizes.rows) + sizes.last + form.width)
    sizes = sizes._replace(elements=shape(x)[3])
    type_ = with_shape(x.type, [*form.order(sizes.results, c.outputs), sizes.places])
    counts = [sizes.results, planes.places[0] // sizes.rows, c.groups * sizes.parts]
    window = dict(zip(form.kernel, ("summed", "outputs"), strict=False))
    axes = (
        ("images", "inputs", None, "elements"),
        [window.get(d) for d in range(len(form.kernel))],
        (*form.order("results", "outputs"), "places"),
    )
    code = Code("convolution", form, ImagePart, sizes, ["images", "channels", "blocks"], axes)
    y = code.run(b, [x, c.w], type_, counts)
    if sizes.columns > planes.places[1]:
        y = b.reshape(y, [*shape(y)[:2], planes.places[0], sizes.columns])
        y = b.cut(y, 3, 0, planes.places[1])
    return y


def _last_row(planes: Planes, rows: int) -> int:
    """The place where the last `rows` rows begin."""
    return (planes.places[0] - rows) * planes.pitch


def _planned(
    c: Convolution, planes: Planes, elements: tuple[PhaseElements, ...], swapped: bool, registers: Registers
) -> tuple[ImageForm, ImageSizes[int]]:
    """Returns the properties of a convolution that determine its code, and the sizes of its parts."""
    group, summed = c.outputs // c.groups, c.features // c.groups
    width, rows = lanes(c.x, registers), _rows_of_part(c, planes)
    flat = planes.flat(rows)
    phases = math.prod(len(each.sizes) for each in elements)
    steps = math.prod(sum(each.sizes) / sum(n > 0 for n in each.sizes) for each in elements)
    tile = ImageSums(group, flat, width, summed * steps).best(registers.number)
    # If rows are shorter than a vector, or masked stores are slow, the places between rows are removed later.
    least = width - 1 if registers.bits == MASKED else planes.pitch
    between = planes.places[1] < min(least, planes.pitch)
    columns = planes.pitch if between else planes.places[1]
    channels = _channels(c, summed)
    blocks, tiles = summed // channels, -(-flat // (tile.vectors * width))
    features = _features(tile, group, phases * c.batch * c.groups * planes.places[0] // rows, blocks)
    # The last tile overlaps the tile before it, unless the overlap would add channels twice.
    last = max(flat - tile.vectors * width, 0) if blocks == 1 else (tiles - 1) * tile.vectors * width
    form = ImageForm(
        tile,
        width,
        tuple(c.layout.kernel),
        c.reversed,
        elements,
        replace(planes.offsets, pitch=None),
        swapped,
        even=group % features == 0,
        between=columns == planes.pitch,
        full=columns == planes.pitch and last + tile.vectors * width <= rows * columns,
    )
    sizes = ImageSizes(
        images=c.batch,
        results=phases * c.batch,
        inputs=c.features,
        outputs=c.outputs,
        summed=summed,
        group=group,
        channels=channels,
        blocks=blocks,
        features=features,
        parts=-(-group // features),
        rows=rows,
        columns=columns,
        pitch=planes.pitch,
        tiles=tiles,
        last=last,
        elements=0,  # the size of planes, not known yet
        places=planes.places[0] * columns,
    )
    return form, sizes


def _channels(c: Convolution, summed: int) -> int:
    """The number of channels that a tile adds before the next tile: all, or fewer if channels are the outer dimension.

    A CPU prefetches a kernel only if the code reads few parts of the kernel at a time.
    """
    if c.layout.kernel[0] > c.layout.kernel[1] or summed <= _CHANNELS:
        return summed
    return next(n for n in range(_CHANNELS, 0, -1) if summed % n == 0)


def _features(tile: ImageTile, group: int, others: int, blocks: int) -> int:
    """The number of output features that one part computes.

    Phases, images, groups and rows give `others` parts. Features are divided only if the threads need more parts.
    """
    if blocks == 1:
        return tile.features
    tiles = -(-group // tile.features)
    return tile.features * min(_TILES_OF_PART, -(-tiles // -(-_PARTS // others)))
