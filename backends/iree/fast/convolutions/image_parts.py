"""image_parts: emits the code of a convolution with channels first, as planned by channels_first.py.

    y[n, o, t] = sum_(c, i, j) w[o, c, i, j] x[n, c, t + i pitch + j]      for the places t of padded rows (planes.py)

The code reads the sizes of arrays and parts at run time, so that convolutions of many sizes share compiled code.
`ImageForm` and the types of the arrays determine the code. The size of the window is part of the kernel's type.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Generic, NamedTuple, TypeVar

from tiduc.backends.iree.emit.sizes import N, RunTimeSize, SizeLike, larger, read, smaller
from tiduc.backends.iree.emit.vectors import Vectors, cycles_of_step, quotient
from tiduc.backends.iree.emit.workgroups import ArrayPart
from tiduc.backends.iree.fast.convolutions.planes import Offsets
from tiduc.dialect.ops.ir_types import IrValue

T = TypeVar("T")


@dataclass(frozen=True)
class PhaseElements:
    """The kernel elements that each phase (phases.py) of the result reads, along one dimension of the window.

    Phase r reads `sizes[r]` kernel elements: `first[r]`, `first[r] + step`, and so on. The j-th of them is multiplied
    by the image's element at offset `shifts[r] + j * dilation` in the window.
    """

    sizes: tuple[int, ...]
    first: tuple[int, ...] = (0,)
    step: int = 1
    shifts: tuple[int, ...] = (0,)
    dilation: int = 1


@dataclass(frozen=True)
class ImageTile:
    """The size of a tile of sums in registers: `features` features, with `vectors` vectors of places for each."""

    features: int
    vectors: int

    @property
    def cycles(self) -> float:
        """The estimated cycles of one step. Loads of vectors count twice, because they cross cache lines."""
        return cycles_of_step(self.features * self.vectors, self.features + 2 * self.vectors)


@dataclass(frozen=True)
class ImageForm:
    """The properties of a convolution that determine its code. Convolutions of equal forms share code."""

    tile: ImageTile
    vector: int
    """The number of elements of a vector."""
    kernel: tuple[int, ...]
    """The indices of the kernel's dimensions, in the order: channels, features, and the window's dimensions."""
    reversed: tuple[int, ...]
    """The indices of the reversed dimensions of the window."""
    elements: tuple[PhaseElements, ...]
    offsets: Offsets
    swapped: bool
    """Whether the features are the first dimension of the result, and the images are the second."""
    even: bool
    """Whether tiles divide the features of a group evenly, so that no tile extends beyond the group."""
    between: bool
    """Whether the result includes the places between rows."""
    full: bool
    """Whether all places of all tiles, including those between rows, are in the result, so that stores need no mask."""

    @property
    def width(self) -> int:
        """The number of places of a tile."""
        return self.tile.vectors * self.vector

    @property
    def phases(self) -> int:
        """The number of phases."""
        return math.prod(len(each.sizes) for each in self.elements)

    def order(self, image: T, feature: T) -> list[T]:
        """Returns its two arguments in the order in which the result has the image and feature dimensions."""
        return [feature, image] if self.swapped else [image, feature]


class ImageSizes(NamedTuple, Generic[N]):
    """The numbers that the code reads at run time:

    - `images` images with `inputs` channels. The result has `results` images, one for each image and phase; `outputs`
      features; `places` places.
    - A group has `summed` channels, `group` features and `parts` parts.
    - A part has `features` features, `rows` rows, `columns` columns and `tiles` tiles. The last tile is at `last`.
    - A tile adds `channels` channels at a time, in `blocks` steps.
    - A plane has `elements` elements; the distance between its rows is `pitch`.
    """

    images: N
    results: N
    inputs: N
    outputs: N
    summed: N
    group: N
    channels: N
    blocks: N
    features: N
    parts: N
    rows: N
    columns: N
    pitch: N
    tiles: N
    last: N
    elements: N
    places: N


class _Taken(NamedTuple):
    """The kernel elements that one phase reads along one dimension: the phase's entries in `PhaseElements`."""

    size: SizeLike
    first: SizeLike
    shift: SizeLike


class _Place(NamedTuple):
    """The indices of a tile: its image, its features, and the first of its places, `t`.

    The tile adds channels, of which the first has the index `of_image` in x and `channel` in w. `taken` has the kernel
    elements that the tile's phase reads, for each dimension of the window.
    """

    image: SizeLike
    taken: Sequence[_Taken]
    of_image: SizeLike
    channel: SizeLike
    features: Sequence[SizeLike]
    t: SizeLike


@dataclass(frozen=True)
class ImagePart:
    """Emits the code for a part of a convolution: some features of some rows of one image.

    `x` has the images as planes (planes.py), and `w` is the kernel.
    """

    form: ImageForm
    sizes: ImageSizes[SizeLike]
    x: IrValue
    w: IrValue

    @property
    def features(self) -> SizeLike:
        """The number of features of a part: those of one tile, if a tile adds all channels at once."""
        return self.form.tile.features if self.sizes.blocks == 1 else self.sizes.features

    def one(self, k: Vectors, place: Sequence[RunTimeSize]) -> ArrayPart:
        """Emits the code for the part with the indices `place`: a loop nest over its tiles."""
        (result, rows, number), n = place, self.sizes
        phase = k.held(quotient(result, n.images)) if self.form.phases > 1 else 0
        image, taken = k.held(result - phase * n.images), self.taken(k, phase)
        row = k.held(rows * n.rows)
        group = k.held(quotient(number, n.parts))
        start = k.held((number - group * n.parts) * self.features)
        count = self.features if self.form.even else k.held(smaller(n.group - start, self.features))
        feature = k.held(group * n.group + start)
        starts = [*self.form.order(result, feature), k.held(row * n.columns)]
        sizes = [*self.form.order(1, count), k.held(n.rows * n.columns)]

        def tile(k: Vectors, place: Sequence[SizeLike], out: IrValue) -> list[IrValue]:
            channel, feature = k.held(place[0] * n.channels), k.held(place[1] * self.form.tile.features)
            t = k.held(smaller(place[2] * self.form.width, n.last))
            # If the tile extends beyond the group, the last feature is computed repeatedly, and stored once.
            each = [start + feature + r for r in range(self.form.tile.features)]
            features = [
                k.held(group * n.group + (o if self.form.even else smaller(o, n.group - 1))) for o in each
            ]
            of_image = k.held(group * n.summed + channel)
            at = _Place(image, taken, of_image, channel, features, k.held(row * n.pitch + t))
            targets = self.targets(k, t, feature, count)
            for v, to in zip(self.sums(k, at, self.before(k, targets, out)), targets, strict=True):
                for place, mask in to:
                    out = k.store(v, out, place, mask)
            return [out]

        counts = [n.blocks, quotient(self.features, self.form.tile.features), n.tiles]
        out = k.array(sizes)
        out = out if n.blocks == 1 else k.cleared(out, sizes)
        return ArrayPart(k.nest(counts, [out], tile)[0], starts, sizes)

    def taken(self, k: Vectors, phase: SizeLike) -> list[_Taken]:
        """The kernel elements that a phase reads, for each dimension of the window."""
        taken, inner = [], self.form.phases
        for each in self.form.elements:
            inner //= len(each.sizes)
            number = k.held(quotient(phase, inner) % len(each.sizes))
            taken.append(
                _Taken(*(_entry(k, table, number) for table in (each.sizes, each.first, each.shifts)))
            )
        return taken

    def before(
        self, k: Vectors, targets: Sequence[Sequence[tuple[list[SizeLike], IrValue | None]]], out: IrValue
    ) -> list[IrValue]:
        """Loads a tile's sums over the earlier blocks of channels from `out`. Returns zeros if there is one block."""
        if self.sizes.blocks == 1:
            return [k.zeros()] * len(targets)
        parts = [[k.load(out, place, mask) for place, mask in to] for to in targets]
        return [reduce(lambda u, v: k.arith("addf", u, v), each) for each in parts]

    def sums(self, k: Vectors, at: _Place, before: Sequence[IrValue]) -> Sequence[IrValue]:
        """Emits the loops that add the next `sizes.channels` channels to the sums `before` of a tile.

        Returns the sums.
        """
        form, rank = self.form, len(self.form.elements)
        offsets = replace(form.offsets, pitch=self.sizes.pitch)

        def step(k: Vectors, place: Sequence[SizeLike], *sums: IrValue) -> list[IrValue]:
            channel, *numbers = place
            each = zip(at.taken, numbers, form.elements, strict=True)
            offset = [taken.shift + j * of.dilation for taken, j, of in each]
            plane, shift = (k.held(n) for n in offsets.read([0] * (2 - rank) + offset))
            image, first = (at.image, k.held(at.of_image + channel), plane), k.held(at.t + shift)
            xs = [k.load(self.x, [*image, first + v * k.width]) for v in range(form.tile.vectors)]
            begin = k.held(at.channel + channel)
            places = [self.element(o, begin, at.taken, numbers) for o in at.features]
            return k.plus_products([k.splat(k.element(self.w, *place)) for place in places], xs, sums)

        return k.nest([self.sizes.channels, *(each.size for each in at.taken)], before, step)

    def element(
        self,
        feature: SizeLike,
        channel: SizeLike,
        taken: Sequence[_Taken],
        numbers: Sequence[SizeLike],
    ) -> list[SizeLike]:
        """The indices in w of one of a phase's kernel elements.

        Along each dimension d of the window, it is element `numbers[d]` of those that the phase reads (`taken[d]`).
        """
        layout = self.form.kernel
        place: list[SizeLike] = [0] * len(layout)
        place[layout[0]], place[layout[1]] = channel, feature
        for d, (each, j) in enumerate(zip(taken, numbers, strict=True)):
            at, size = each.first + j * self.form.elements[d].step, self.w.type.shape[layout[2 + d]]
            place[layout[2 + d]] = size - 1 - at if d in self.form.reversed else at
        return place

    def targets(
        self, k: Vectors, t: SizeLike, feature: SizeLike, count: SizeLike
    ) -> list[list[tuple[list[SizeLike], IrValue | None]]]:
        """For each vector of the tile at place t, lists its stores: indices in the part, and a mask of lanes.

        If the part omits the places between rows, each vector has two stores, because its last lanes may belong to the
        next row.
        """
        vs = [self._of_vector(k, k.held(t + v * k.width)) for v in range(self.form.tile.vectors)]
        targets = []
        for r in range(self.form.tile.features):
            inside = (
                [] if self.form.even else [k.splat(k.at_most(k.index(feature + (r + 1)), k.index(count)))]
            )
            here = self.form.order(0, feature + r)
            targets += [[([*here, at], k.every(inside + masks)) for at, masks in v] for v in vs]
        return targets

    def _of_vector(self, k: Vectors, t: SizeLike) -> list[tuple[SizeLike, list[IrValue]]]:
        """The stores of the vector at place t: the index along the part's last dimension, and masks of the lanes."""
        pitch, columns = self.sizes.pitch, self.sizes.columns
        size = self.sizes.rows * columns
        if self.form.between:
            return [(t, [] if self.form.full else [k.first(size - t)])]
        row = k.held(quotient(t, pitch))
        column = k.held(t - row * pitch)
        place = k.held(row * columns + column)
        here = k.first(smaller(columns - column, size - place))
        behind = k.held(larger(place + columns - pitch, 0))
        there = k.except_for(k.first(size - behind), k.first(pitch - column))
        return [(place, [here]), (behind, [there])]


def _entry(k: Vectors, table: Sequence[int], number: SizeLike) -> SizeLike:
    """Emits a chain of selects that looks up the entry of a table at index `number`.

    If all entries are equal, returns this entry as an int instead.
    """
    if len(set(table)) == 1:
        return table[0]

    def chosen(x: IrValue, entry: tuple[int, int]) -> IrValue:
        return k.select_scalar(k.equal(number, entry[0]), entry[1], x)

    return read(reduce(chosen, list(enumerate(table))[1:], k.index(table[0])))
