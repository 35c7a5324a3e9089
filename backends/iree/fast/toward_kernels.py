"""toward_kernels: gradients of convolutions toward their kernels, with channels first, without patches or transposes.

    y[c, o, i, j] = sum_(n, p, q) w[n, o, p, q] x[c, n, p + i, q + j]

w, the window, is a cotangent, so it is larger than the result. Vectors are along q. A tile is some features o, some
channels c and some offsets (i, j); its sums, one vector each, stay in registers until the end, where their elements are
added. The images are padded, and divided into planes if the cotangent is dilated (planes.py).
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from tiduc.backends.iree.emitter import Emitter
from tiduc.backends.iree.fast import vectors
from tiduc.backends.iree.fast.convolution_form import BATCH, FEATURES, Convolution, Result
from tiduc.backends.iree.fast.kernels import Kernel, in_own_dispatch
from tiduc.backends.iree.fast.planes import Planes
from tiduc.backends.iree.fast.vectors import (
    Part,
    both,
    first,
    held,
    lanes,
    load,
    multiply_add,
    nest,
    shared,
    splat,
    store,
    taken,
    totals,
)
from tiduc.backends.iree.missing.dynamic.sizes import read, smaller
from tiduc.dialect.types import element, shape, with_shape

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
        fitting = [t for t in tiles if t.sums + min(t.features, t.sums // t.features) + 1 < vectors.REGISTERS]
        return min(fitting, key=self.cycles)


def toward_kernel(b: Emitter, c: Convolution) -> Result | None:
    """The result of a convolution whose window is larger than its result; None if other code is faster."""
    spatial, rank = list(range(2, c.rank + 2)), c.rank
    layouts = (c.layout.input, c.layout.kernel, c.layout.output)
    if not 1 <= rank <= 2 or any(list(each[2:]) != spatial for each in layouts) or c.reversed or c.groups > 1:
        return None
    planes = Planes.of_kernel(c)
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
    part = _Part(c, x, w, planes, sums.best())
    type_ = with_shape(c.x.type, [major, minor * math.prod(planes.sizes)])
    # No op of a program reads this gradient: without the barrier, IREE would keep its operands to the end.
    y = b.barrier(in_own_dispatch(b, type_, lambda k: part.all(k, type_)))[0]
    labels = _swapped(c.layout.output[1], FEATURES, BATCH)
    return Result(b.reshape(y, [major, minor, *c.places]), (*labels, *range(rank)))


@dataclass(frozen=True)
class _Part:
    """Emits the dispatch of a gradient; x are the images as planes, w is the cotangent.

    A part of the result, which one thread computes, has the features and channels of one tile.
    """

    c: Convolution
    x: Any
    w: Any
    planes: Planes
    tile: Tile

    def _ordered(self, of_features: Any, of_channels: Any) -> list[Any]:
        """Numbers of features and of channels in the order of the result's dimensions."""
        return _swapped(self.c.layout.output[1], of_features, of_channels)

    def all(self, k: Kernel, type_: Any) -> Any:
        """The result."""
        counts = [-(-self.c.outputs // self.tile.features), -(-self.c.batch // self.tile.channels)]
        return shared(k, counts, k.empty(type_), self.one)

    def one(self, k: Kernel, place: Sequence[Any], out: Any) -> tuple[Any, Part]:
        """One part: the sums of all offsets."""
        wholes, sizes = (self.c.outputs, self.c.batch), (self.tile.features, self.tile.channels)
        # The last part is as large as the others, and begins before the end of the previous one.
        starts, counts, at = [], [], []
        for number, whole, size in zip(map(read, place), wholes, sizes, strict=True):
            starts.append(held(k, number * size))
            counts.append(size if whole % size == 0 else held(k, smaller(whole - starts[-1], size)))
            at.append([held(k, smaller(starts[-1] + i, whole - 1)) for i in range(size)])
        (major, minor), (rows, columns) = self._ordered(*starts), self._ordered(*counts)
        whole = math.prod(self.planes.sizes)
        part = Part([major, held(k, minor * whole)], [rows, held(k, columns * whole)])

        def offsets(k: Kernel, place: Sequence[Any], out: Any) -> list[Any]:
            i, j = held(k, place[0] * self.tile.rows), held(k, place[1] * self.tile.columns)
            return [self.stored(k, self.sums(k, at, i, j), i, j, counts, out)]

        tiles = [self.planes.sizes[0] // self.tile.rows, self.planes.sizes[1] // self.tile.columns]
        return nest(k, tiles, [taken(k, out, part)], offsets)[0], part

    def sums(self, k: Kernel, at: Sequence[Any], i: Any, j: Any) -> Sequence[Any]:
        """The sums of a tile at the offsets from (i, j) on: vectors."""
        width, (rows, columns) = lanes(self.x), self.planes.places
        offsets = [
            [held(k, n) for n in self.planes.read([i + di, j + dj])]
            for di in range(self.tile.rows)
            for dj in range(self.tile.columns)
        ]
        whole = columns // width * width

        def some(k: Kernel, image: Any, p: Any, q: Any, sums: Sequence[Any]) -> list[Any]:
            mask = first(k, columns - q, width) if isinstance(q, int) else None
            ws = [
                load(k, self.w, [*_swapped(self.c.layout.kernel[0], image, o), p, q], width, mask)
                for o in at[0]
            ]
            place = held(k, p * self.planes.pitch + q)
            xs = [
                load(
                    k,
                    self.x,
                    [*_swapped(self.c.layout.input[1], image, channel), plane, place + far],
                    width,
                    mask,
                )
                for channel in at[1]
                for plane, far in offsets
            ]
            pairs = itertools.product(ws, xs)
            return [multiply_add(k, w, x, z) for (w, x), z in zip(pairs, sums, strict=True)]

        def row(k: Kernel, place: Sequence[Any], *sums: Any) -> Sequence[Any]:
            image, p = place
            sums = k.loop(0, whole, width, sums, lambda k, q, *sums: some(k, image, p, q, sums))
            return some(k, image, p, whole, sums) if whole < columns else sums

        zero = splat(k, k.number(0, element(self.x)), width)
        return nest(k, [self.c.features, rows], [zero] * self.tile.sums, row)

    @property
    def run(self) -> int:
        """The sums of one feature that lie side by side in the result."""
        tile, whole = self.tile, math.prod(self.planes.sizes)
        if tile.columns < self.planes.sizes[1]:
            return tile.columns
        merged = tile.rows * tile.columns == whole and self.c.layout.output[1] == 0
        return tile.rows * tile.columns * (tile.channels if merged else 1)

    def stored(self, k: Kernel, sums: Sequence[Any], i: Any, j: Any, counts: Sequence[Any], out: Any) -> Any:
        """The part `out` with the sums of a tile at the offsets from (i, j) on."""
        each, width, whole = self.tile.sums // self.tile.features, lanes(self.x), math.prod(self.planes.sizes)
        for o, begin in itertools.product(range(self.tile.features), range(0, each, self.run)):
            channel, offset = divmod(begin, self.tile.rows * self.tile.columns)
            row, column = divmod(offset, self.tile.columns)
            major, minor = self._ordered(o, channel)
            place = held(k, (i + row) * self.planes.sizes[1] + (j + column) + minor * whole)
            for n in range(0, self.run, width):
                vs = sums[o * each + begin + n : o * each + begin + min(n + width, self.run)]
                masks = [first(k, len(vs), width)] if len(vs) < width else []
                if not isinstance(counts[0], int):
                    masks.append(splat(k, k.at_most(o + 1, counts[0]), width))
                if not isinstance(counts[1], int):
                    masks.append(first(k, (counts[1] - channel) * min(self.run, whole) - n, width))
                mask = reduce(lambda x, y: both(k, x, y), masks) if masks else None
                out = store(k, totals(k, vs), out, [major, place + n], mask)
        return out


def _swapped(index: int, x: Any, y: Any) -> list[Any]:
    """x and y, in the order in which x has this index."""
    return [y, x] if index else [x, y]
