"""toward_kernels: gradients of convolutions toward their kernels, with channels first, without patches or transposes.

    y[c, o, i, j] = sum_(n, p, q) w[n, o, p, q] x[c, n, p + i, q + j]

w, the window, is a cotangent, so it is larger than the result. Vectors are along q. A tile is some features o, some
channels c and some offsets (i, j); its sums, one vector each, stay in registers until the end, where their elements are
added. The images are padded, and divided into planes if the cotangent is dilated (planes.py).
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tiduc.backends.iree.emitter import Emitter
from tiduc.backends.iree.fast.convolution_form import BATCH, FEATURES, Convolution, Result
from tiduc.backends.iree.fast.planes import Planes
from tiduc.backends.iree.fast.pointwise import toward_pointwise
from tiduc.backends.iree.fast.vectors import REGISTERS, Vectors, lanes
from tiduc.backends.iree.fast.workgroups import Part, in_workgroups
from tiduc.backends.iree.missing.dynamic.sizes import smaller
from tiduc.dialect.types import shape, with_shape

_LINE = 1.5
"""The cycles in which a cache line comes from the second cache."""
_TOTAL = 3
"""The cycles that add the elements of a vector, for 16 vectors together."""
_SHARE = 0.4
"""The least share of the CPU's multiplications for which patches would not be faster."""


@dataclass(frozen=True)
class Tile:
    """Sums that are computed together: for `features`, `channels`, and the offsets of some rows and columns."""

    features: int
    channels: int
    rows: int
    columns: int

    @property
    def sums(self) -> int:
        """The number of sums."""
        return self.features * self.channels * self.rows * self.columns

    @property
    def cycles(self) -> float:
        """The cycles of one step: two multiplications or loads each; a load across cache lines counts twice."""
        lines = self.features + self.channels * self.rows
        loads = self.features + 2 * self.channels * self.rows * self.columns
        return max(self.sums / 2, loads / 2, _LINE * lines, 4)


@dataclass(frozen=True)
class Sums:
    """The sizes by which a tile is chosen: features, channels, offsets by row and column, steps of a sum."""

    features: int
    channels: int
    rows: int
    columns: int
    steps: int

    def cycles(self, tile: Tile) -> float:
        """The estimated cycles of the gradient."""
        whole = (self.features, self.channels, self.rows, self.columns)
        parts = (tile.features, tile.channels, tile.rows, tile.columns)
        count = math.prod(-(-n // m) for n, m in zip(whole, parts, strict=True))
        return count * (self.steps * tile.cycles + _TOTAL * tile.sums)

    def best(self) -> Tile:
        """The tile of the fewest cycles, of those whose sums fit into the registers with what a step loads."""
        by_rows, by_columns = ([m for m in range(1, n + 1) if n % m == 0] for n in (self.rows, self.columns))
        tiles = itertools.starmap(Tile, itertools.product(range(1, 9), range(1, 9), by_rows, by_columns))
        fitting = [t for t in tiles if t.sums + min(t.features, t.sums // t.features) + 1 < REGISTERS]
        return min(fitting, key=self.cycles)


def toward_kernel(b: Emitter, c: Convolution) -> Result | None:
    """The result of a convolution whose window is larger than its result; None if other code is faster."""
    spatial, rank = list(range(2, c.rank + 2)), c.rank
    layouts = (c.layout.input, c.layout.kernel, c.layout.output)
    if not 1 <= rank <= 2 or any(list(each[2:]) != spatial for each in layouts) or c.reversed or c.groups > 1:
        return None
    planes = Planes.of_kernel(c)
    y = toward_pointwise(b, c, planes)
    y = _computed(b, c, planes) if y is None else y
    if y is None:
        return None
    # No op of a program reads this gradient: without the barrier, IREE would keep its operands to the end.
    (y,) = b.barrier(y)
    major, minor = _swapped(c.layout.output[1], c.outputs, c.batch)
    labels = _swapped(c.layout.output[1], FEATURES, BATCH)
    return Result(b.reshape(y, [major, minor, *c.places]), (*labels, *range(rank)))


def _computed(b: Emitter, c: Convolution, planes: Planes) -> Any | None:
    """The result as a matrix, whose columns are the minor dimension and the places; None if other code is faster."""
    steps = c.features * planes.places[0] * -(-planes.places[1] // lanes(c.x))
    sums = Sums(c.outputs, c.batch, *planes.sizes, steps)
    useful = c.outputs * c.batch * math.prod(planes.sizes) * c.features * math.prod(planes.places)
    if useful / (2 * lanes(c.x)) < _SHARE * sums.cycles(sums.best()):
        return None
    # Images in their order in memory.
    n, m, *_ = shape(c.x)
    x = planes.filled(b, b.reshape(c.x, [n, m, *planes.image]), 0)
    w = b.reshape(c.w, [*shape(c.w)[:2], *planes.places])
    major, minor = _swapped(c.layout.output[1], c.outputs, c.batch)
    part = _Part(c, planes, sums.best())
    type_ = with_shape(c.x.type, [major, minor * math.prod(planes.sizes)])
    counts = [-(-c.outputs // part.tile.features), -(-c.batch // part.tile.channels)]

    def one(k: Vectors, place: Sequence[Any], inputs: Sequence[Any]) -> Part:
        return replace(part, x=inputs[0], w=inputs[1]).one(k, place)

    return in_workgroups(b, "toward_kernel", part, [x, w], type_, counts, one)


@dataclass(frozen=True)
class _Part:
    """Emits a part of a gradient: the features and channels of one tile.

    In the code of a dispatch, `x` are the images as planes, and `w` is the cotangent.
    """

    c: Convolution
    planes: Planes
    tile: Tile
    x: Any = field(default=None, repr=False)
    w: Any = field(default=None, repr=False)

    def _ordered(self, of_features: Any, of_channels: Any) -> list[Any]:
        """Numbers of features and of channels in the order of the result's dimensions."""
        return _swapped(self.c.layout.output[1], of_features, of_channels)

    def one(self, k: Vectors, place: Sequence[Any]) -> Part:
        """The part at a place: the sums of all offsets."""
        wholes, sizes = (self.c.outputs, self.c.batch), (self.tile.features, self.tile.channels)
        # The last part is as large as the others, and begins before the end of the previous one.
        starts, counts, at = [], [], []
        for number, whole, size in zip(place, wholes, sizes, strict=True):
            start = k.held(number * size)
            starts.append(start)
            counts.append(size if whole % size == 0 else k.held(smaller(whole - start, size)))
            at.append([k.held(smaller(start + i, whole - 1)) for i in range(size)])
        (major, minor), (rows, columns) = self._ordered(*starts), self._ordered(*counts)
        whole = math.prod(self.planes.sizes)
        of_result = [rows, k.held(columns * whole)]

        def offsets(k: Vectors, place: Sequence[Any], out: Any) -> list[Any]:
            i, j = k.held(place[0] * self.tile.rows), k.held(place[1] * self.tile.columns)
            return [self.stored(k, self.sums(k, at, i, j), i, j, counts, out)]

        tiles = [self.planes.sizes[0] // self.tile.rows, self.planes.sizes[1] // self.tile.columns]
        out = k.nest(tiles, [k.array(of_result)], offsets)[0]
        return Part(out, [major, k.held(minor * whole)], of_result)

    def sums(self, k: Vectors, at: Sequence[Any], i: Any, j: Any) -> Sequence[Any]:
        """The sums of a tile at the offsets from (i, j) on: vectors."""
        rows, columns = self.planes.places
        offsets = [
            [k.held(n) for n in self.planes.read([i + di, j + dj])]
            for di in range(self.tile.rows)
            for dj in range(self.tile.columns)
        ]
        whole, layout = columns // k.width * k.width, self.c.layout

        def some(k: Vectors, image: Any, p: Any, q: Any, sums: Sequence[Any]) -> list[Any]:
            mask = k.first(columns - q) if isinstance(q, int) else None
            ws = [k.load(self.w, [*_swapped(layout.kernel[0], image, o), p, q], mask) for o in at[0]]
            place = k.held(p * self.planes.pitch + q)
            xs = [
                k.load(self.x, [*_swapped(layout.input[1], image, channel), plane, place + far], mask)
                for channel in at[1]
                for plane, far in offsets
            ]
            return k.plus_products(ws, xs, sums)

        def row(k: Vectors, place: Sequence[Any], *sums: Any) -> Sequence[Any]:
            image, p = place
            sums = k.loop(0, whole, k.width, sums, lambda k, q, *sums: some(k, image, p, q, sums))
            return some(k, image, p, whole, sums) if whole < columns else sums

        return k.nest([self.c.features, rows], [k.zeros()] * self.tile.sums, row)

    @property
    def run(self) -> int:
        """The sums of one feature that lie side by side in the result."""
        tile, whole = self.tile, math.prod(self.planes.sizes)
        if tile.columns < self.planes.sizes[1]:
            return tile.columns
        merged = tile.rows * tile.columns == whole and self.c.layout.output[1] == 0
        return tile.rows * tile.columns * (tile.channels if merged else 1)

    def stored(self, k: Vectors, sums: Sequence[Any], i: Any, j: Any, counts: Sequence[Any], out: Any) -> Any:
        """The part `out` with the sums of a tile at the offsets from (i, j) on."""
        each, whole = self.tile.sums // self.tile.features, math.prod(self.planes.sizes)
        for o, begin in itertools.product(range(self.tile.features), range(0, each, self.run)):
            channel, offset = divmod(begin, self.tile.rows * self.tile.columns)
            row, column = divmod(offset, self.tile.columns)
            major, minor = self._ordered(o, channel)
            place = k.held((i + row) * self.planes.sizes[1] + (j + column) + minor * whole)
            for n in range(0, self.run, k.width):
                vs = sums[o * each + begin + n : o * each + begin + min(n + k.width, self.run)]
                masks = [k.first(len(vs))] if len(vs) < k.width else []
                if not isinstance(counts[0], int):
                    masks.append(k.splat(k.at_most(o + 1, counts[0])))
                if not isinstance(counts[1], int):
                    masks.append(k.first((counts[1] - channel) * min(self.run, whole) - n))
                out = k.store(k.totals(vs), out, [major, place + n], k.every(masks))
        return out


def _swapped(index: int, x: Any, y: Any) -> list[Any]:
    """x and y, in the order in which x has this index."""
    return [y, x] if index else [x, y]
