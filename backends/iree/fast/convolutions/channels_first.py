"""channels_first: convolutions with channels first, with sums in registers and without a matrix of patches.

    y[n, o, t] = sum_(c, i, j) w[o, c, i, j] x[n, c, t + i pitch + j]      for the places t of padded rows (planes.py)

A tile covers some features o and some vectors of places t. The sums of a tile stay in registers. Each step loads the
vectors of x once, and multiplies them by one kernel element for each feature. The kernel is read in its order in
memory, forwards or reversed. The places t include padding between the rows of the image; the sums for these places are
computed but not stored. If the image is dilated, the result consists of phases (phases.py). One dispatch computes all
phases; each phase reads other elements of the kernel.
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
"""The most bytes of an image that a workgroup reads for its part of the result.

The bytes must stay in the level 2 cache while all features are computed.
"""
_CHANNELS = 32
"""The most channels that a tile adds before the next tile begins, if channels are the kernel's outer dimension."""
_TILES_OF_PART = 64
"""The most tiles along features in a part, if its tiles do not add all channels at once."""
_PARTS = 8
"""The number of parts that suffices for all threads. Dividing features into more parts would make the code slower."""
_STORE = 4
"""The number of cycles that the store of a vector of the result takes."""


@cache
def _tiles(registers: int) -> list[ImageTile]:
    """The tiles whose sums, vectors of x and one kernel element together fit into this number of registers."""
    pairs = [ImageTile(r, v) for v in range(1, 9) for r in range(1, 17)]
    return [tile for tile in pairs if tile.features * tile.vectors + tile.vectors + 2 < registers]


@dataclass(frozen=True)
class ImageSums:
    """The sizes of a convolution, from which the size of its tiles is chosen.

    `features` is the number of features of a group, `flat` the number of places of a part, and `lanes` the number of
    elements of a vector. `steps` is the number of terms of a sum, averaged over the phases that have terms.
    """

    features: int
    flat: int
    lanes: int
    steps: float

    def cycles(self, tile: ImageTile) -> float:
        """The estimated cycles in which tiles of this size compute all features of a group at the places of a part."""
        count = -(-self.features // tile.features) * -(-self.flat // (tile.vectors * self.lanes))
        # Stores need masks, and take longer, if the last tile extends beyond the features of the group.
        stored = _STORE * (1 if self.features % tile.features == 0 else 2)
        return count * (self.steps * tile.cycles + stored * tile.features * tile.vectors)

    def best(self, registers: int) -> ImageTile:
        """The tile with the fewest estimated cycles, among those that fit into this number of registers."""
        return min(_tiles(registers), key=self.cycles)


def channels_first(b: Emitter, c: Convolution, elements: Sequence[PhaseElements] = ()) -> Result:
    """Computes a convolution with one or two spatial dimensions, which come last in the image and in the result.

    The image must not be dilated. `elements` has, for each spatial dimension, the kernel elements that each phase
    reads; by default, there is one phase, which reads all elements. If there are several phases, they are successive
    images of the returned result.
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
    """The number of rows of a part, which divides the number of rows of the result.

    It is the largest with which the part reads at most `_BLOCK` bytes, or 1 if a single row has more bytes.
    """
    each = c.features // c.groups * planes.pitch * planes.count * c.width
    rows = planes.places[0]
    fitting = [n for n in range(1, rows + 1) if rows % n == 0 and n * each <= _BLOCK]
    return max(fitting, default=1)


def _computed(
    b: Emitter, c: Convolution, planes: Planes, elements: tuple[PhaseElements, ...], swapped: bool
) -> IrValue:
    """Emits the dispatch. Returns y as (phase and image, feature, place), or (feature, image, place) if `swapped`."""
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
    """The index in a plane at which the last `rows` rows of places begin."""
    return (planes.places[0] - rows) * planes.pitch


def _planned(
    c: Convolution, planes: Planes, elements: tuple[PhaseElements, ...], swapped: bool, registers: Registers
) -> tuple[ImageForm, ImageSizes[int]]:
    """Returns the properties of a convolution that determine its code, and the sizes that the code reads."""
    group, summed = c.outputs // c.groups, c.features // c.groups
    width, rows = lanes(c.x, registers), _rows_of_part(c, planes)
    flat = planes.flat(rows)
    phases = math.prod(len(each.sizes) for each in elements)
    steps = math.prod(sum(each.sizes) / sum(n > 0 for n in each.sizes) for each in elements)
    tile = ImageSums(group, flat, width, summed * steps).best(registers.number)
    # If rows are shorter than a vector, or masked stores are slow, the result includes the places between rows, and
    # `_computed` removes them.
    least = width - 1 if registers.bits == MASKED else planes.pitch
    between = planes.places[1] < min(least, planes.pitch)
    columns = planes.pitch if between else planes.places[1]
    channels = _channels(c, summed)
    blocks, tiles = summed // channels, -(-flat // (tile.vectors * width))
    features = _features(tile, group, phases * c.batch * c.groups * planes.places[0] // rows, blocks)
    # The last tile ends where the part ends, so it may overlap the tile before it. If channels are added in several
    # blocks, tiles must not overlap, because the channels of a block would be added twice.
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
        elements=0,  # the size of a plane, which `_computed` sets later
        places=planes.places[0] * columns,
    )
    return form, sizes


def _channels(c: Convolution, summed: int) -> int:
    """The number of channels that a tile adds before the next tile begins.

    If channels are the kernel's outer dimension, at most `_CHANNELS` are added, because a CPU prefetches the kernel
    only if the code reads few separate parts of it at a time. Otherwise, all channels are added.
    """
    if c.layout.kernel[0] > c.layout.kernel[1] or summed <= _CHANNELS:
        return summed
    return next(n for n in range(_CHANNELS, 0, -1) if summed % n == 0)


def _features(tile: ImageTile, group: int, others: int, blocks: int) -> int:
    """The number of output features that one part computes.

    If a tile adds all channels at once (`blocks` is 1), the features are those of one tile. Otherwise, the division by
    phases, images, groups and rows gives `others` parts, and features are divided, too, only if these are too few parts
    for the threads.
    """
    if blocks == 1:
        return tile.features
    tiles = -(-group // tile.features)
    return tile.features * min(_TILES_OF_PART, -(-tiles // -(-_PARTS // others)))
