"""The product of two matrices in one dispatch: tiles in vector registers, from copies of parts that fit into caches.

    for each part of the rows, and of the columns:                           a workgroup
        for each part of the summed elements:
            copy y's part to the stack, in panels of a tile's columns
            for each tile of rows, each panel:
                tile += outer product of a column of x and a row of the panel, for each summed element

A tile has 14 rows of two vectors: 28 of the 32 registers of AVX-512. All tiles have nearly the same number of rows, so
that none is mostly padding. If the rows of x are side by side in memory, the tile's part of x is copied instead, and y
is read where it is.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.emitter import Emitter
from tiduc.backends.iree.fast.vectors import Vectors, in_workgroups
from tiduc.backends.iree.missing.dynamic.sizes import larger, smaller
from tiduc.dialect.types import element, shape, with_shape

_ROWS = 14
"""The most rows of a tile of two vectors; there are 32 registers, and three hold other vectors."""
_STACK = 2**16
"""Bytes for the panels: threads of IREE's runtime have a stack of 128 KiB."""
_DEPTH = 128
"""Summed elements of a part that is copied in panels; the tile is read and written for each part."""
_BLOCK = 512
"""Rows of a workgroup, so that its part of x stays in a cache while it goes through the columns."""
_RESIDENT = 2**20
"""Bytes of y's part that stays in a cache where y is not copied."""


@dataclass(frozen=True)
class Matrix:
    """An operand of a product: its dimensions are batches, one that is kept, and one that is summed."""

    value: Any
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
        for d, at in zip(self.batches, batches, strict=True):
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
    """The sizes of tiles and parts; `copied` if y is copied in panels, of `width` columns each."""

    x: Matrix
    y: Matrix
    vector: int
    width: int
    copied: bool
    tiles: Parts  # of rows
    blocks: Parts  # of tiles
    panels: Parts  # of panels
    depths: Parts  # of summed elements

    @property
    def name(self) -> str:
        """A name that tells the types of the matrices, and their dimensions: batches, kept and summed."""
        parts = ("x".join(map(str, (*shape(m.value), element(m.value)))) for m in (self.x, self.y))
        dims = ("".join(map(str, (*m.batches, m.kept, m.summed))) for m in (self.x, self.y))
        return "_".join(("product", *parts, *dims))

    @property
    def columns(self) -> int:
        """The columns of the product."""
        return self.y.of(self.y.kept)

    @property
    def whole(self) -> bool:
        """Whether all panels are full."""
        return self.columns % self.width == 0

    @property
    def by_rows(self) -> bool:
        """Whether the rows of x are side by side in memory, so that a tile's part of x is copied."""
        return self.x.kept == self.x.last


def plan(x: Matrix, y: Matrix) -> Plan:
    """The sizes of tiles and parts for a product; the last dimension of x and of y must not be a batch."""
    size = int(element(x.value).width) // 8
    vector = 64 // size
    columns, summed = y.of(y.kept), y.of(y.summed)
    width = 2 * vector if columns > vector else vector
    copied = not (x.kept == x.last and y.kept == y.last)
    depths = parts(summed, _DEPTH if copied else 2 * _DEPTH)
    deep = -(-depths.most // vector) * vector
    fitting = (_STACK if copied else _RESIDENT) // (deep * width * size)
    tiles = parts(x.of(x.kept), _ROWS)
    blocks = parts(tiles.count, _BLOCK // _ROWS)
    return Plan(x, y, vector, width, copied, tiles, blocks, parts(-(-columns // width), fitting), depths)


def in_tiles(b: Emitter, x: Matrix, y: Matrix) -> Any:
    """The product of two matrices, as an array (batch, rows of x, columns of y)."""
    p = plan(x, y)
    sizes = [x.of(d) for d in x.batches]
    type_ = with_shape(x.value.type, [math.prod(sizes), x.of(x.kept), p.columns])
    counts = math.prod(sizes), p.blocks.count, p.panels.count

    def part(
        k: Vectors, place: Sequence[Any], inputs: Sequence[Any]
    ) -> tuple[Any, Sequence[Any], Sequence[Any]]:
        inner = replace(p, x=replace(x, value=inputs[0]), y=replace(y, value=inputs[1]))
        return _Workgroup(k, inner, place, sizes).product(k)

    return in_workgroups(b, p.name, (x.value, y.value), type_, counts, part)


class _Workgroup:
    """Emits the code of a workgroup: the product of a part of the rows and a part of the columns."""

    def __init__(self, k: Vectors, p: Plan, place: Sequence[Any], sizes: Sequence[int]) -> None:
        batch, block, strip = place
        self.p, self.batch = p, batch
        self.batches = [k.settled(batch // math.prod(sizes[d + 1 :]) % n) for d, n in enumerate(sizes)]
        first = k.settled(p.blocks.start(block))
        self.tiles = first, k.settled(first + p.blocks.size(block))
        self.row = k.settled(p.tiles.start(first))
        self.rows = k.settled(p.tiles.start(self.tiles[1]) - self.row)
        self.panels = k.settled(p.panels.size(strip))
        self.column = k.settled(p.panels.start(strip) * p.width)
        self.columns = k.settled(self.panels * p.width)
        if not p.whole:
            self.columns = k.settled(smaller(self.columns, p.columns - self.column))

    def product(self, k: Vectors) -> tuple[Any, Sequence[Any], Sequence[Any]]:
        """The part of the product, its starts and its sizes."""
        starts, sizes = [self.batch, self.row, self.column], [1, self.rows, self.columns]
        z = k.matrix(self.p.x.value.type, sizes[1:])
        z = k.count_up(0, self.p.depths.count, 1, z, self.plus_summed)
        return z, starts, sizes

    def plus_summed(self, k: Vectors, i: Any, z: Any) -> Any:
        """The part after summed elements of index i are added; the first ones replace what it was."""
        start, depth = (k.settled(n) for n in (self.p.depths.start(i), self.p.depths.size(i)))
        panels = self.in_panels(k, start, depth) if self.p.copied else None
        tall, low = self.p.tiles.more, self.p.tiles.count - self.p.tiles.more

        def tiles(height: int, bound: Any, z: Any) -> Any:
            first, last = (bound(t, tall) if tall else t for t in self.tiles)
            return k.count_up(
                first,
                last,
                1,
                z,
                lambda k, t, z: self.row_of_tiles(k, height, t, (i, start, depth), panels, z),
            )

        z = tiles(self.p.tiles.low + 1, smaller, z) if tall else z
        return tiles(self.p.tiles.low, larger, z) if low else z

    def in_panels(self, k: Vectors, start: Any, depth: Any) -> Any:
        """The panels of y: (panel, summed element, column), with zeros for columns beyond the last one."""
        p, y = self.p, self.p.y
        by_columns = y.kept == y.last
        deep = -(-p.depths.most // p.vector) * p.vector
        panels = k.empty(with_shape(y.value.type, [p.panels.most, deep, p.width]))
        wide = ir.VectorType.get([p.width], element(y.value))
        square = ir.VectorType.get([p.vector] * 2, element(y.value))

        def copied(k: Vectors, panel: Any, at: Any, panels: Any) -> Any:
            place = y.place(self.batches, self.column + panel * p.width, start + at)
            v = k.read(y.value, place, wide, [y.kept], [p.whole])
            return k.write(v, panels, [panel, at, 0], [2], [True])

        def transposed(k: Vectors, panel: Any, at: Any, column: Any, panels: Any) -> Any:
            place = y.place(self.batches, self.column + panel * p.width + column, start + at)
            full = y.of(y.summed) % p.vector == 0 and p.depths.low % p.vector == 0 and not p.depths.more
            v = k.read(y.value, place, square, [y.kept, y.summed], [p.whole, full])
            return k.write(k.transposed(v), panels, [panel, at, column], [1, 2], [True] * 2)

        def panel(k: Vectors, i: Any, panels: Any) -> Any:
            if by_columns:
                return k.count_up(0, depth, 1, panels, lambda k, at, x: copied(k, i, at, x))
            return k.count_up(0, depth, p.vector, panels, lambda k, at, x: of_squares(k, i, at, x))

        def of_squares(k: Vectors, i: Any, at: Any, panels: Any) -> Any:
            return k.count_up(0, p.width, p.vector, panels, lambda k, c, x: transposed(k, i, at, c, x))

        return k.count_up(0, self.panels, 1, panels, panel)

    def row_of_tiles(self, k: Vectors, height: int, t: Any, summed: Any, panels: Any, z: Any) -> Any:
        """The part after the products of a row of tiles, that of index t."""
        start, depth = summed[1:]
        row = k.settled(self.p.tiles.start(t))
        rows = self.by_rows(k, row, start, depth) if self.p.by_rows else None
        return k.count_up(
            0, self.panels, 1, z, lambda k, i, z: self.tile(k, height, row, i, summed, rows, panels, z)
        )

    def by_rows(self, k: Vectors, row: Any, start: Any, depth: Any) -> Any:
        """A tile's part of x: (summed element, row)."""
        p, x = self.p, self.p.x
        type_ = ir.VectorType.get([p.vector], element(x.value))
        width = -(-p.tiles.most // p.vector) * p.vector
        rows = k.empty(with_shape(x.value.type, [p.depths.most, width]))

        def copied(k: Vectors, at: Any, rows: Any) -> Any:
            for i in range(0, width, p.vector):
                v = k.read(x.value, x.place(self.batches, row + i, start + at), type_, [x.kept], [False])
                rows = k.write(v, rows, [at, i], [1], [True])
            return rows

        return k.count_up(0, depth, 1, rows, copied)

    def tile(
        self, k: Vectors, height: int, row: Any, i: Any, summed: Any, rows: Any, panels: Any, z: Any
    ) -> Any:
        """The part after the products of one tile, in panel i."""
        p, (part, start, depth) = self.p, summed
        type_ = ir.VectorType.get([height, p.width], element(z))
        place, ends = [k.settled(row - self.row), k.settled(i * p.width)], [True, p.whole]
        tile = zeros = k.zeros(type_)
        if p.depths.count > 1:
            first = k.equal(part.at(k), k.index(0))
            tile = k.emit("arith.select", (first, zeros, k.read(z, place, type_, [0, 1], ends)), type_)

        def plus(k: Vectors, at: Any, tile: Any) -> Any:
            column = self.column_of_x(k, height, row, start, at, rows)
            return k.plus_outer(column, self.row_of_y(k, i, start, at, panels), tile)

        return k.write(k.count_up(0, depth, 1, tile, plus), z, place, [0, 1], ends)

    def column_of_x(self, k: Vectors, height: int, row: Any, start: Any, at: Any, rows: Any) -> Any:
        """The elements of x in a tile's rows, at one summed element."""
        x = self.p.x
        if rows is not None:
            return k.read(rows, [at, 0], ir.VectorType.get([height], element(rows)), [1], [True])
        summed = k.settled(start + at)
        return k.vector_of(
            [k.element(x.value, *x.place(self.batches, row + r, summed)) for r in range(height)]
        )

    def row_of_y(self, k: Vectors, i: Any, start: Any, at: Any, panels: Any) -> Any:
        """The elements of y in a panel's columns, at one summed element."""
        p, y = self.p, self.p.y
        wide = ir.VectorType.get([p.width], element(y.value))
        if panels is not None:
            return k.read(panels, [i, at, 0], wide, [2], [True])
        place = y.place(self.batches, self.column + i * p.width, start + at)
        return k.read(y.value, place, wide, [y.kept], [p.whole])
