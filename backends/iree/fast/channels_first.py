"""channels_first: convolutions with channels first, in tiles of registers, without patches or transposes.

    y[n, o, t] = sum_(c, i, j) w[o, c, i, j] x[n, c, t + i pitch + j]      for the places t of padded rows (planes.py)

A tile is some features o by some vectors of places t. Its sums stay in registers; each step loads the vectors of x once
and multiplies them by one element of the kernel for each feature. The kernel is read in its order in memory, reversed
or not. Columns between the rows of a result are computed but not stored. The phases of a result (phases.py) are
computed in one dispatch: each phase reads a different subset of the kernel's elements.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, NamedTuple

from tiduc.backends.iree.emitter import Emitter
from tiduc.backends.iree.fast.convolution_form import BATCH, FEATURES, Convolution, Result
from tiduc.backends.iree.fast.planes import Planes
from tiduc.backends.iree.fast.pointwise import pointwise
from tiduc.backends.iree.fast.vectors import REGISTERS, Vectors, cycles_of_step, lanes, quotient
from tiduc.backends.iree.fast.workgroups import Part, in_workgroups
from tiduc.backends.iree.missing.dynamic.sizes import larger, read, smaller
from tiduc.dialect.types import shape, with_shape

_BLOCK = 2**19
"""The most bytes of images that one part of the result reads: they stay in the second cache while all features do."""
_CHANNELS = 32
"""The most channels that are added at a time, of a kernel that has channels as its outer dimension."""
_TILES_OF_PART = 64
"""The most tiles of a part that adds some channels at a time."""
_PARTS = 8
"""The parts of a result that has so many tiles of features, for threads to share; more parts read the kernel slower."""
_STORE = 4
"""The cycles for a vector of the result, beside those of its sums."""


@dataclass(frozen=True)
class Elements:
    """The elements of the kernel that each phase of the result takes, along one dimension.

    Phase r takes `sizes[r]` elements: `first[r]`, `first[r] + step`, and so on. Element j of them is multiplied by what
    the planes' window reads at offset `shifts[r] + j * dilation`.
    """

    sizes: tuple[int, ...]
    first: tuple[int, ...] = (0,)
    step: int = 1
    shifts: tuple[int, ...] = (0,)
    dilation: int = 1


@dataclass(frozen=True)
class Tile:
    """Sums that are computed together: for `features` features and `vectors` vectors of places."""

    features: int
    vectors: int

    @property
    def cycles(self) -> float:
        """The cycles of one step; a load across cache lines counts twice."""
        return cycles_of_step(self.features * self.vectors, self.features + 2 * self.vectors)


def _tiles() -> list[Tile]:
    """The tiles that fit into the registers, with the vectors of x and an element of the kernel."""
    pairs = [Tile(r, v) for v in range(1, 9) for r in range(1, 17)]
    return [tile for tile in pairs if tile.features * tile.vectors + tile.vectors + 2 < REGISTERS]


_TILES = _tiles()


@dataclass(frozen=True)
class Shape:
    """The sizes by which a tile is chosen: features of a group, places of a part, lanes of a vector.

    `steps` is the number of terms of a sum; the mean over the phases.
    """

    features: int
    flat: int
    lanes: int
    steps: float

    def cycles(self, tile: Tile) -> float:
        """The estimated cycles for the features of a group and the places of a part."""
        count = -(-self.features // tile.features) * -(-self.flat // (tile.vectors * self.lanes))
        stored = _STORE * (
            1 if self.features % tile.features == 0 else 2
        )  # else masks say which features to store
        return count * (self.steps * tile.cycles + stored * tile.features * tile.vectors)

    def best(self) -> Tile:
        """The tile of the fewest cycles."""
        return min(_TILES, key=self.cycles)


def has_channels_first(c: Convolution) -> bool:
    """Whether the images and results of a convolution are matrices or vectors, the last dimensions of their arrays."""
    spatial = list(range(2, c.rank + 2))
    return 1 <= c.rank <= 2 and list(c.layout.input[2:]) == list(c.layout.output[2:]) == spatial


def channels_first(b: Emitter, c: Convolution, elements: Sequence[Elements] = ()) -> Result:
    """The result of a convolution for which `has_channels_first` holds, and whose image is not dilated.

    `elements` says which elements of the kernel each phase takes, along each dimension; by default, the result is one
    phase and takes all. Several phases are successive images of the result.
    """
    planes = Planes.of(c)
    y, labels = pointwise(b, c, planes), (BATCH, FEATURES)
    if y is None:
        swapped = c.layout.output[1] == 0 and not elements
        labels = (FEATURES, BATCH) if swapped else labels
        taken = tuple(elements) or tuple(Elements((n,)) for n in c.window.sizes)
        y = _computed(b, c, planes, taken, swapped)
    return Result(b.reshape(y, [*shape(y)[:2], *c.places]), (*labels, *range(c.rank)))


def _rows_of_part(c: Convolution, planes: Planes) -> int:
    """The rows of the result in one part: the most that divide all rows and read few enough images."""
    each = c.features // c.groups * planes.pitch * planes.count * c.width
    rows = planes.places[0]
    fitting = [n for n in range(1, rows + 1) if rows % n == 0 and n * each <= _BLOCK]
    return max(fitting, default=1)


def _computed(
    b: Emitter, c: Convolution, planes: Planes, elements: tuple[Elements, ...], swapped: bool
) -> Any:
    """The result, (phases and batch, features, places), or `swapped`: (features, batch, places)."""
    group, width, rows = c.outputs // c.groups, lanes(c.x), _rows_of_part(c, planes)
    phases = math.prod(len(each.sizes) for each in elements)
    steps = math.prod(sum(each.sizes) / sum(n > 0 for n in each.sizes) for each in elements)
    tile = Shape(group, planes.flat(rows), width, c.features // c.groups * steps).best()
    batch, features, *spatial = c.layout.input
    x = b.transpose(c.x, [batch, features, *spatial])
    x = b.reshape(x, [c.batch, c.features, *planes.image])
    # Where rows are shorter than a vector, places between rows are cut off later.
    between = planes.places[1] < min(width - 1, planes.pitch)
    padded = planes.pitch if between else planes.places[1]
    part = _Part(c, planes, elements, tile, rows, padded, swapped)
    x = planes.filled(b, x, (planes.places[0] - rows) * planes.pitch + part.last + part.width)
    type_ = with_shape(x.type, [*part.order(phases * c.batch, c.outputs), planes.places[0] * padded])
    counts = [phases * c.batch, planes.places[0] // rows, c.groups * part.parts]

    def one(k: Vectors, place: Sequence[Any], inputs: Sequence[Any]) -> Part:
        return replace(part, x=inputs[0], w=inputs[1]).one(k, place)

    y = in_workgroups(b, "convolution", part, [x, c.w], type_, counts, one)
    if padded > planes.places[1]:
        y = b.reshape(y, [*shape(y)[:2], planes.places[0], padded])
        y = b.cut(y, 3, 0, planes.places[1])
    return y


class _Taken(NamedTuple):
    """The elements of the kernel along one dimension that one phase takes, as in `Elements`."""

    size: Any
    first: Any
    shift: Any


class _Place(NamedTuple):
    """A tile: its image; what its phase takes; its first channel in x and in w; its features in w; its place t in x."""

    image: Any
    taken: Sequence[_Taken]
    of_image: Any
    channel: Any
    features: Sequence[Any]
    t: Any


@dataclass(frozen=True)
class _Part:
    """Emits a part of a convolution: some features and `rows` rows, each of `columns` elements.

    In the code of a dispatch, `x` are the images as planes, and `w` is the kernel. If `swapped`, as in some gradients
    toward kernels, the features are the first dimension of the result, and the images the second one.
    """

    c: Convolution
    planes: Planes
    elements: tuple[Elements, ...]
    tile: Tile
    rows: int
    columns: int
    swapped: bool
    x: Any = field(default=None, repr=False)
    w: Any = field(default=None, repr=False)

    def order(self, image: Any, feature: Any) -> list[Any]:
        """Numbers of an image and of a feature, in the order of the result's dimensions."""
        return [feature, image] if self.swapped else [image, feature]

    @property
    def group(self) -> int:
        """The features of the result in a group."""
        return self.c.outputs // self.c.groups

    @property
    def phases(self) -> int:
        """The number of phases."""
        return math.prod(len(each.sizes) for each in self.elements)

    @property
    def summed(self) -> int:
        """The channels of a group."""
        return self.c.features // self.c.groups

    @property
    def channels(self) -> int:
        """The channels that are added before the next tile: all, or some if the kernel has them as its outer dimension.

        The CPU fetches the elements of a kernel before they are needed only if it reads few parts of it at a time.
        """
        if self.c.layout.kernel[0] > self.c.layout.kernel[1] or self.summed <= _CHANNELS:
            return self.summed
        return next(n for n in range(_CHANNELS, 0, -1) if self.summed % n == 0)

    @property
    def blocks(self) -> int:
        """The number of times that each tile adds channels; from the second time on, to what the result has already."""
        return self.summed // self.channels

    @property
    def features(self) -> int:
        """The features of a part."""
        if self.blocks == 1:
            return self.tile.features
        others = self.phases * self.c.batch * self.c.groups * self.planes.places[0] // self.rows
        tiles = -(-self.group // self.tile.features)
        return self.tile.features * min(_TILES_OF_PART, -(-tiles // -(-_PARTS // others)))

    @property
    def parts(self) -> int:
        """The parts of a group."""
        return -(-self.group // self.features)

    @property
    def width(self) -> int:
        """The places of a tile."""
        return self.tile.vectors * lanes(self.c.x)

    @property
    def last(self) -> int:
        """The place of the last tile. It overlaps the one before unless that would add channels twice."""
        flat = self.planes.flat(self.rows)
        return max(flat - self.width, 0) if self.blocks == 1 else (flat - 1) // self.width * self.width

    def one(self, k: Vectors, place: Sequence[Any]) -> Part:
        """The part at a place: all its tiles."""
        result, rows, number = place
        phase = k.held(quotient(result, self.c.batch)) if self.phases > 1 else 0
        image, taken = k.held(result - phase * self.c.batch), self.taken(k, phase)
        row = k.held(rows * self.rows)
        group = k.held(quotient(number, self.parts))
        start = k.held((number - group * self.parts) * self.features)
        even = self.group % self.features == 0
        count = self.features if even else k.held(smaller(self.group - start, self.features))
        feature = k.held(group * self.group + start)
        starts = [*self.order(result, feature), k.held(row * self.columns)]
        sizes = [*self.order(1, count), self.rows * self.columns]

        def tile(k: Vectors, place: Sequence[Any], out: Any) -> list[Any]:
            channel, feature = k.held(place[0] * self.channels), k.held(place[1] * self.tile.features)
            t = k.held(smaller(place[2] * self.width, self.last))
            # Features beyond the group are computed as copies of the last one, and not stored.
            each = [start + feature + r for r in range(self.tile.features)]
            features = [
                k.held(group * self.group + (o if even else smaller(o, self.group - 1))) for o in each
            ]
            of_image = k.held(group * self.summed + channel)
            at = _Place(image, taken, of_image, channel, features, k.held(row * self.planes.pitch + t))
            targets = self.targets(k, t, feature, count)
            for v, to in zip(self.sums(k, at, self.before(k, targets, out)), targets, strict=True):
                for place, mask in to:
                    out = k.store(v, out, place, mask)
            return [out]

        counts = [
            self.blocks,
            self.features // self.tile.features,
            -(-self.planes.flat(self.rows) // self.width),
        ]
        out = k.array(sizes)
        out = k.cleared(out, sizes[:2]) if self.blocks > 1 else out
        return Part(k.nest(counts, [out], tile)[0], starts, sizes)

    def taken(self, k: Vectors, phase: Any) -> list[_Taken]:
        """The elements of the kernel that a phase takes, and their shift, along each dimension."""
        taken, inner = [], self.phases
        for each in self.elements:
            inner //= len(each.sizes)
            number = k.held(quotient(phase, inner) % len(each.sizes))
            taken.append(
                _Taken(*(_entry(k, table, number) for table in (each.sizes, each.first, each.shifts)))
            )
        return taken

    def before(self, k: Vectors, targets: Sequence[Any], out: Any) -> list[Any]:
        """The sums of the channels that have been added to the part `out`."""
        if self.blocks == 1:
            return [k.zeros()] * len(targets)
        parts = [[k.load(out, place, mask) for place, mask in to] for to in targets]
        return [reduce(lambda u, v: k.arith("addf", u, v), each) for each in parts]

    def sums(self, k: Vectors, at: _Place, before: Sequence[Any]) -> Sequence[Any]:
        """The sums of a tile, with some channels more."""

        def step(k: Vectors, place: Sequence[Any], *sums: Any) -> list[Any]:
            channel, *numbers = place
            each = zip(at.taken, numbers, self.elements, strict=True)
            offset = [taken.shift + j * of.dilation for taken, j, of in each]
            plane, shift = (k.held(n) for n in self.planes.read([0] * (2 - self.c.rank) + offset))
            image, first = (at.image, k.held(at.of_image + channel), plane), k.held(at.t + shift)
            xs = [k.load(self.x, [*image, first + v * k.width]) for v in range(self.tile.vectors)]
            begin = k.held(at.channel + channel)
            places = [self.element(o, begin, at.taken, numbers) for o in at.features]
            return k.plus_products([k.splat(k.element(self.w, *place)) for place in places], xs, sums)

        return k.nest([self.channels, *(each.size for each in at.taken)], before, step)

    def element(
        self, feature: Any, channel: Any, taken: Sequence[_Taken], numbers: Sequence[Any]
    ) -> list[Any]:
        """The index in the kernel of the element that is number `numbers[d]` of those taken along each dimension d."""
        layout = self.c.layout.kernel
        place: list[Any] = [0] * len(layout)
        place[layout[0]], place[layout[1]] = channel, feature
        for d, (each, j) in enumerate(zip(taken, numbers, strict=True)):
            at, size = each.first + j * self.elements[d].step, shape(self.w)[layout[2 + d]]
            place[layout[2 + d]] = size - 1 - at if d in self.c.reversed else at
        return place

    def targets(self, k: Vectors, t: Any, feature: Any, count: Any) -> list[list[tuple[Any, Any]]]:
        """For each vector of a tile at place t, its places in the part, and the lanes to store there.

        If the part leaves out places between rows, there are two, of which the second has the lanes of the next row.
        """
        vs = [self._of_vector(k, k.held(t + v * k.width)) for v in range(self.tile.vectors)]
        targets = []
        for r in range(self.tile.features):
            inside = [] if isinstance(count, int) else [k.splat(k.at_most(feature + (r + 1), count))]
            here = self.order(0, feature + r)
            targets += [[([*here, at], k.every(inside + masks)) for at, masks in v] for v in vs]
        return targets

    def _of_vector(self, k: Vectors, t: Any) -> list[tuple[Any, list[Any]]]:
        """The columns of the part for the places from t on, and masks of their lanes."""
        pitch, columns = self.planes.pitch, self.columns
        size = self.rows * columns
        if columns == pitch:
            return [(t, [] if self.last + self.width <= size else [k.first(size - t)])]
        row = k.held(quotient(t, pitch))
        column = k.held(t - row * pitch)
        place = k.held(row * columns + column)
        here = k.first(smaller(columns - column, size - place))
        behind = k.held(larger(place + columns - pitch, 0))
        there = k.except_for(k.first(size - behind), k.first(pitch - column))
        return [(place, [here]), (behind, [there])]


def _entry(k: Vectors, table: Sequence[int], number: Any) -> Any:
    """The entry of this number in a table; an integer if all entries are equal."""
    if len(set(table)) == 1:
        return table[0]

    def chosen(x: Any, entry: tuple[int, int]) -> Any:
        return k.select_scalar(k.equal(number, entry[0]), entry[1], x)

    return read(reduce(chosen, list(enumerate(table))[1:], k.index(table[0])))
