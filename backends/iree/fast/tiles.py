"""The product of two matrices in one dispatch: tiles in vector registers, from copies of parts that fit into caches.

    for each part of the rows, and of the columns:                           a workgroup
        for each part of the summed elements:
            copy y's part to the stack, in panels of a tile's columns
            for each tile of rows, each panel:
                tile += outer product of a column of x and a row of the panel, for each summed element

A tile has up to 9 rows of three vectors, or 14 rows of two: at most 28 of the 32 registers of AVX-512. All tiles of a
product have one size, that of the fewest cycles. Rows beyond the last one are computed, but not stored. If the rows of
x are side by side in memory and y is small, a tile's part of x is copied instead, and y is read where it is.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tiduc.backends.iree.emitter import Emitter
from tiduc.backends.iree.fast.vectors import Vectors, cycles_of_step, lanes
from tiduc.backends.iree.fast.workgroups import Part, in_workgroups
from tiduc.backends.iree.missing.dynamic.sizes import smaller
from tiduc.dialect.types import element, shape, with_shape

_TILES = [
    (height, vectors) for vectors, most in {3: 9, 2: 14, 1: 14}.items() for height in range(most, 0, -1)
]
"""Rows and vectors of tiles: of the 32 registers, others hold the vectors of y and an element of x."""
_STACK = 2**16
"""Bytes for the panels: threads of IREE's runtime have a stack of 128 KiB."""
_DEPTH = 128
"""Summed elements of a part that is copied in panels; the tile is read and written for each part."""
_BLOCK = 512
"""Rows of a workgroup, so that its part of x stays in a cache while it goes through the columns."""
_RESIDENT = 2**20
"""Bytes of y's part, of all columns, that stays in a cache: y is then read where it is if its rows are side by side."""


@dataclass(frozen=True)
class Matrix:
    """An operand of a product: its dimensions are batches, one that is kept, and one that is summed.

    An operand without batches is one matrix for all batches of the other operand.
    """

    value: Any = field(repr=False)
    batches: tuple[int, ...]
    kept: int
    summed: int

    @property
    def last(self) -> int:
        """The dimension whose elements are side by side in memory."""
        return len(shape(self.value)) - 1

    def of(self, d: int) -> int:
        """The size of a dimension."""
        return int(shape(self.value)[d])

    def place(self, batches: Sequence[Any], kept: Any, summed: Any) -> list[Any]:
        """The index along each dimension."""
        place = [summed] * (self.last + 1)
        for d, at in zip(self.batches, batches if self.batches else (), strict=True):
            place[d] = at
        place[self.kept] = kept
        return place


@dataclass(frozen=True)
class Parts:
    """A number of things in `count` parts: each part has `low` things, and the first `more` parts have one more."""

    count: int
    low: int
    more: int

    def start(self, i: Any) -> Any:
        """The first thing of part i."""
        return i * self.low + smaller(i, self.more) if self.more else i * self.low

    def size(self, i: Any) -> Any:
        """The number of things of part i."""
        return self.start(i + 1) - self.start(i) if self.more else self.low

    @property
    def most(self) -> int:
        """The things of the largest part."""
        return self.low + bool(self.more)


def parts(n: int, most: int) -> Parts:
    """The fewest parts of at most `most` things."""
    count = -(-n // most)
    return Parts(count, *divmod(n, count))


@dataclass(frozen=True)
class Plan:
    """The sizes of tiles and parts; `copied` if y is copied in panels, of `vectors` vectors of columns each."""

    x: Matrix
    y: Matrix
    vectors: int
    copied: bool
    tiles: Parts  # of rows
    blocks: Parts  # of tiles
    panels: Parts  # of panels
    depths: Parts  # of summed elements

    @property
    def vector(self) -> int:
        """The elements of a vector."""
        return lanes(self.x.value)

    @property
    def width(self) -> int:
        """The columns of a panel."""
        return self.vectors * self.vector

    @property
    def columns(self) -> int:
        """The columns of the product."""
        return self.y.of(self.y.kept)

    @property
    def whole(self) -> bool:
        """Whether all panels are full."""
        return self.columns % self.width == 0

    @property
    def even(self) -> bool:
        """Whether all rows of all tiles are rows of the product."""
        return self.x.of(self.x.kept) % self.tiles.low == 0

    @property
    def deep(self) -> int:
        """The rows of a panel: a multiple of a vector's elements."""
        return -(-self.depths.most // self.vector) * self.vector

    @property
    def by_rows(self) -> bool:
        """Whether a tile's part of x is copied: its rows are side by side in memory, and y is read where it is."""
        return self.x.kept == self.x.last and not self.copied


def plan(x: Matrix, y: Matrix) -> Plan:
    """The sizes of tiles and parts for a product; the last dimension of x and of y must not be a batch."""
    size, vector = int(element(x.value).width) // 8, lanes(x.value)
    columns, summed = y.of(y.kept), y.of(y.summed)
    height, vectors = min(_TILES, key=lambda tile: _cycles(x.of(x.kept), -(-columns // vector), *tile))
    depths = parts(summed, 2 * _DEPTH)
    copied = x.kept != x.last or y.kept != y.last or depths.most * columns * size > _RESIDENT
    depths = parts(summed, _DEPTH) if copied else depths
    panels, deep = -(-columns // (vectors * vector)), -(-depths.most // vector) * vector
    strips = parts(panels, _STACK // (deep * vectors * vector * size)) if copied else Parts(1, panels, 0)
    tiles = Parts(-(-x.of(x.kept) // height), height, 0)
    blocks = parts(tiles.count, _BLOCK // height)
    return Plan(x, y, vectors, copied, tiles, blocks, strips, depths)


def _cycles(rows: int, columns: int, height: int, vectors: int) -> float:
    """The cycles for all tiles and one summed element; `columns` are vectors of the product."""
    each = cycles_of_step(height * vectors, height + vectors)
    return -(-rows // height) * -(-columns // vectors) * each


def in_tiles(b: Emitter, x: Matrix, y: Matrix) -> Any:
    """The product of two matrices, as an array (batch, rows of x, columns of y)."""
    p = plan(x, y)
    sizes = [x.of(d) for d in x.batches] or [y.of(d) for d in y.batches]
    type_ = with_shape(x.value.type, [math.prod(sizes), x.of(x.kept), p.columns])
    counts = math.prod(sizes), p.blocks.count, p.panels.count

    def part(k: Vectors, place: Sequence[Any], inputs: Sequence[Any]) -> Part:
        inner = replace(p, x=replace(x, value=inputs[0]), y=replace(y, value=inputs[1]))
        return _workgroup(k, inner, place, sizes).product(k)

    return in_workgroups(b, "product", p, (x.value, y.value), type_, counts, part)


@dataclass(frozen=True)
class _Summed:
    """A part of the summed elements: its index, first element and size; and the panels of y, if y is copied."""

    part: Any
    start: Any
    size: Any
    panels: Any = None


@dataclass(frozen=True)
class _Rows:
    """The rows of a tile: the first one, and x's part, if it is copied."""

    first: Any
    copy: Any = None


@dataclass(frozen=True)
class _Workgroup:
    """Emits the code of a workgroup: the product of a part of the rows and a part of the columns.

    `batch` is its index, and `batches` the index along each batch dimension of the matrices.
    """

    plan: Plan
    batch: Any
    batches: tuple[Any, ...]
    tiles: tuple[Any, Any]  # the first one, and the end
    row: Any
    rows: Any
    column: Any
    columns: Any
    panels: Any

    def product(self, k: Vectors) -> Part:
        """The part of the product."""
        z = k.array([self.rows, self.columns])
        (z,) = k.loop(0, self.plan.depths.count, 1, [z], self.plus_summed)
        return Part(z, [self.batch, self.row, self.column], [1, self.rows, self.columns])

    def plus_summed(self, k: Vectors, i: Any, z: Any) -> Sequence[Any]:
        """The product after summed elements of part i are added; the first ones replace what was in memory."""
        p = self.plan
        s = _Summed(i, k.held(p.depths.start(i)), k.held(p.depths.size(i)))
        s = replace(s, panels=self.in_panels(k, s)) if p.copied else s
        return k.loop(*self.tiles, 1, [z], lambda k, t, z: self.row_of_tiles(k, t, s, z))

    def in_panels(self, k: Vectors, s: _Summed) -> Any:
        """The panels of y: (panel, summed element, column)."""
        p = self.plan
        copied, step = (self.row_copied, 1) if p.y.kept == p.y.last else (self.squares_copied, p.vector)

        def panel(k: Vectors, i: Any, panels: Any) -> Sequence[Any]:
            return k.loop(0, s.size, step, [panels], lambda k, at, panels: copied(k, s, i, at, panels))

        return k.loop(0, self.panels, 1, [k.array([p.panels.most, p.deep, p.width])], panel)[0]

    def row_copied(self, k: Vectors, s: _Summed, i: Any, at: Any, panels: Any) -> Sequence[Any]:
        """The panels with a row of y in panel i."""
        for v, x in enumerate(self.row_of_y(k, s, i, at, copied=False)):
            panels = k.store(x, panels, [i, at, v * k.width])
        return [panels]

    def squares_copied(self, k: Vectors, s: _Summed, i: Any, at: Any, panels: Any) -> Sequence[Any]:
        """The panels with rows of y in panel i, as many as a vector has elements, read along columns of y."""
        p, y = self.plan, self.plan.y
        inside = y.of(y.summed) % k.width == 0 and p.depths.most % k.width == 0 and not p.depths.more
        mask = None if inside else k.first(y.of(y.summed) - (s.start + at))

        def column(k: Vectors, j: Any) -> Any:
            j = self.column + i * p.width + j
            j = j if p.whole else smaller(j, p.columns - 1)  # no one reads what is beyond the last column
            return k.load(y.value, y.place(self.batches, j, s.start + at), mask)

        def square(k: Vectors, first: Any, panels: Any) -> Sequence[Any]:
            columns = [column(k, first + j) for j in range(k.width)]
            for r, row in enumerate(k.transposed(columns)):
                panels = k.store(row, panels, [i, at + r, first])
            return [panels]

        return k.loop(0, p.width, k.width, [panels], square)

    def row_of_tiles(self, k: Vectors, t: Any, s: _Summed, z: Any) -> Sequence[Any]:
        """The product after the sums of the tiles in a row, that of index t."""
        rows = _Rows(k.held(self.plan.tiles.start(t)))
        rows = replace(rows, copy=self.rows_copied(k, rows, s)) if self.plan.by_rows else rows
        return k.loop(0, self.panels, 1, [z], lambda k, i, z: [self.tile(k, rows, i, s, z)])

    def rows_copied(self, k: Vectors, rows: _Rows, s: _Summed) -> Any:
        """A tile's part of x: (summed element, row)."""
        p, x = self.plan, self.plan.x
        width = -(-p.tiles.most // k.width) * k.width
        masks = {i: k.first(x.of(x.kept) - (rows.first + i)) for i in range(0, width, k.width)}

        def row(k: Vectors, at: Any, out: Any) -> Sequence[Any]:
            for i, mask in masks.items():
                place = x.place(self.batches, rows.first + i, s.start + at)
                out = k.store(k.load(x.value, place, mask), out, [at, i])
            return [out]

        return k.loop(0, s.size, 1, [k.array([p.depths.most, width])], row)[0]

    def tile(self, k: Vectors, rows: _Rows, i: Any, s: _Summed, z: Any) -> Any:
        """The product after the sums of a tile, in panel i."""
        p = self.plan
        row, columns = (
            k.held(rows.first - self.row),
            [k.held(i * p.width + v * k.width) for v in range(p.vectors)],
        )
        masks = [None if p.whole else k.first(self.columns - column) for column in columns]
        inside = [
            None if p.even else k.splat(k.at_most(row + (r + 1), self.rows)) for r in range(p.tiles.low)
        ]
        targets = [
            ([k.held(row + r), column], k.every([each for each in (mask, here) if each is not None]))
            for r, here in enumerate(inside)
            for column, mask in zip(columns, masks, strict=True)
        ]
        sums = [k.zeros()] * len(targets)
        if p.depths.count > 1:
            first = k.equal(k.index(s.part), k.index(0))
            before = [k.load(z, place, mask) for place, mask in targets]
            sums = [
                k.emit("arith.select", (first, zero, x), x.type) for zero, x in zip(sums, before, strict=True)
            ]

        def plus(k: Vectors, at: Any, *sums: Any) -> Sequence[Any]:
            elements = (k.splat(x) for x in self.column_of_x(k, rows, s, at))
            return k.plus_products(elements, self.row_of_y(k, s, i, at, copied=p.copied), sums)

        for x, (place, mask) in zip(k.loop(0, s.size, 1, sums, plus), targets, strict=True):
            z = k.store(x, z, place, mask)
        return z

    def column_of_x(self, k: Vectors, rows: _Rows, s: _Summed, at: Any) -> Iterator[Any]:
        """The elements of x in a tile's rows, at one summed element; each is emitted when it is asked for."""
        p, x, summed = self.plan, self.plan.x, k.held(s.start + at)
        for r in range(p.tiles.low):
            copied = rows.copy is not None
            row = rows.first + r if p.even else smaller(rows.first + r, x.of(x.kept) - 1)
            place = [at, r] if copied else x.place(self.batches, row, summed)
            yield k.element(rows.copy if copied else x.value, *place)

    def row_of_y(self, k: Vectors, s: _Summed, i: Any, at: Any, copied: bool) -> list[Any]:
        """The elements of y in the columns of panel i, at one summed element; from the panel if that is `copied`."""
        p, y = self.plan, self.plan.y
        if copied:
            return [k.load(s.panels, [i, at, v * k.width]) for v in range(p.vectors)]
        summed, columns = k.held(s.start + at), [i * p.width + v * k.width for v in range(p.vectors)]
        masks = [None if p.whole else k.first(self.columns - column) for column in columns]
        places = [y.place(self.batches, self.column + column, summed) for column in columns]
        return [k.load(y.value, *each) for each in zip(places, masks, strict=True)]


def _workgroup(k: Vectors, p: Plan, place: Sequence[Any], sizes: Sequence[int]) -> _Workgroup:
    """The workgroup at a place: its batch, part of the rows, and part of the columns."""
    batch, block, strip = place
    first = k.held(p.blocks.start(block))
    end = k.held(first + p.blocks.size(block))
    row, column = k.held(p.tiles.start(first)), k.held(p.panels.start(strip) * p.width)
    panels = k.held(p.panels.size(strip))
    columns = panels * p.width
    return _Workgroup(
        p,
        batch,
        tuple(k.held(batch // math.prod(sizes[d + 1 :]) % n) for d, n in enumerate(sizes)),
        (first, end),
        row,
        k.held((p.tiles.start(end) if p.even else smaller(p.tiles.start(end), p.x.of(p.x.kept))) - row),
        column,
        k.held(columns if p.whole else smaller(columns, p.columns - column)),
        panels,
    )
