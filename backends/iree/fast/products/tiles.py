"""Computes the product of two matrices in one dispatch, with tiles in registers and copies that fit into caches.

    for each part of the rows, for each part of the columns:                 a workgroup
        for each part of the contracted dimension:
            copy this part of y to the stack, as panels, each of which has the columns of a tile
            for each tile of rows, for each panel:
                for each index in the part of the contracted dimension:
                    tile += outer product of a column of x and a row of the panel

A tile has up to 9 rows of three vectors, or 14 rows of two: at most 28 of 32 registers. With 16 registers, a tile has 4
rows of three vectors, or 6 of two. All tiles of a product have one size, chosen by an estimate of cycles. A tile's rows
beyond the last row of x are computed, but not stored. If y is small, and the columns of x and the rows of y are
contiguous in memory, each tile copies its part of x instead, and reads y in place.

The code reads the sizes of the matrices and parts at run time, so that products of many sizes share compiled code.
`ProductForm` has all properties that determine the code, except the types of the arrays.
"""

import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tiduc.backends.iree.emit.emitter import Emitter
from tiduc.backends.iree.emit.sizes import RunTimeSize, SizeLike, smaller
from tiduc.backends.iree.emit.vectors import MASKED, Vectors
from tiduc.backends.iree.emit.workgroups import ArrayPart, SharedNumbers, in_workgroups
from tiduc.backends.iree.fast.products.matrices import MatrixOperand
from tiduc.backends.iree.fast.products.tile_plan import TilePlan, batch_sizes, plan
from tiduc.dialect.ops.ir_types import IrValue
from tiduc.dialect.shapes.types import with_shape


def in_tiles(b: Emitter, x: MatrixOperand, y: MatrixOperand) -> IrValue:
    """Emits the product of two matrices, or batches of matrices, as an array (batch, rows of x, columns of y)."""
    p = plan(x, y, b.settings.registers)
    batches = batch_sizes(x, y)
    type_ = with_shape(x.value.type, [math.prod(batches), p.rows, p.columns])
    counts = math.prod(batches), p.blocks.count, p.panels.count
    of_y = [()] * len(y.read) if y.formula else [((y.kept, 1), (y.summed, 2))]
    sizes = ((x.kept, 0), (x.summed, 2)), *of_y, ((1, 0), (2, 1))
    shared = SharedNumbers(p.numbers, tuple(tuple(sorted(each)) for each in sizes))

    def part(
        k: Vectors, place: Sequence[RunTimeSize], inputs: Sequence[IrValue], numbers: Sequence[SizeLike]
    ) -> ArrayPart:
        matrices = x.reading(inputs[:1]), y.reading(inputs[1:])
        return _workgroup(k, p.reading(numbers), matrices, place, batches).product(k)

    return in_workgroups(b, "product", p.form, (*x.read, *y.read), type_, counts, part, shared)


@dataclass(frozen=True)
class _Summed:
    """A part of the contracted dimension: its index, start, size, and panels with this part of y, if y is copied."""

    part: RunTimeSize
    start: SizeLike
    size: SizeLike
    panels: IrValue | None = None


@dataclass(frozen=True)
class _Rows:
    """The rows of a tile: the index of the first row, and a copy of these rows of x, or None if they are not copied."""

    first: SizeLike
    copy: IrValue | None = None


@dataclass(frozen=True)
class _Workgroup:
    """Emits the code of a workgroup: the product of a part of the rows and a part of the columns.

    `batch` is the row-major index of the workgroup's batch; `batches` has its index along each batch dimension. `row`
    is the first row of the part, `rows` is their number; likewise for `column` and `columns`.
    """

    plan: TilePlan[SizeLike]
    x: MatrixOperand
    y: MatrixOperand
    batch: SizeLike
    batches: tuple[SizeLike, ...]
    tiles: tuple[SizeLike, SizeLike]  # the index of the first row of tiles, and of the row after the last
    row: SizeLike
    rows: SizeLike
    column: SizeLike
    columns: SizeLike
    panels: SizeLike

    def product(self, k: Vectors) -> ArrayPart:
        """Emits the code that computes the workgroup's part of the product. Returns the part."""
        z = k.array([self.rows, self.columns])
        (z,) = k.loop(0, self.plan.depths.count, 1, [z], self.plus_summed)
        return ArrayPart(z, [self.batch, self.row, self.column], [1, self.rows, self.columns])

    def plus_summed(self, k: Vectors, i: RunTimeSize, z: IrValue) -> Sequence[IrValue]:
        """Adds the product over part i of the contracted dimension to z. The first part overwrites z."""
        p = self.plan
        s = _Summed(i, k.held(p.depths.start(i)), k.held(p.depths.size(i)))
        s = replace(s, panels=self.in_panels(k, s)) if p.form.copied else s
        return k.loop(*self.tiles, 1, [z], lambda k, t, z: self.row_of_tiles(k, t, s, z))

    def in_panels(self, k: Vectors, s: _Summed) -> IrValue:
        """Copies the rows of y in part s of the contracted dimension to an array (panel, row in the part, column)."""
        form, y = self.plan.form, self.y
        copied, step = (self.row_copied, 1) if y.kept == y.last else (self.squares_copied, form.vector)

        def panel(k: Vectors, i: RunTimeSize, panels: IrValue) -> Sequence[IrValue]:
            return k.loop(0, s.size, step, [panels], lambda k, at, panels: copied(k, s, i, at, panels))

        return k.loop(0, self.panels, 1, [k.array([form.room, form.depth, form.width])], panel)[0]

    def row_copied(
        self, k: Vectors, s: _Summed, i: RunTimeSize, at: RunTimeSize, panels: IrValue
    ) -> Sequence[IrValue]:
        """Copies row `at` of part s of y to panel i. Returns the panels."""
        for v, x in enumerate(self.row_of_y(k, s, i, at, copied=False)):
            panels = k.store(x, panels, [i, at, v * k.width])
        return [panels]

    def squares_copied(
        self, k: Vectors, s: _Summed, i: RunTimeSize, at: RunTimeSize, panels: IrValue
    ) -> Sequence[IrValue]:
        """Copies as many rows of part s of y as a vector has elements, from `at` on, to panel i. Returns the panels.

        The columns of y are contiguous in memory, so vectors along columns are loaded and transposed.
        """
        p, form, y = self.plan, self.plan.form, self.y
        mask = k.first(p.summed - (s.start + at))

        def column(k: Vectors, j: SizeLike) -> IrValue:
            j = self.column + i * form.width + j
            j = j if form.whole else smaller(j, p.columns - 1)  # avoids reads beyond the last column
            return y.load(k, y.place(self.batches, j, s.start + at), mask)

        def square(k: Vectors, first: RunTimeSize, panels: IrValue) -> Sequence[IrValue]:
            columns = [column(k, first + j) for j in range(k.width)]
            for r, row in enumerate(k.transposed(columns)):
                panels = k.store(row, panels, [i, at + r, first])
            return [panels]

        return k.loop(0, form.width, k.width, [panels], square)

    def row_of_tiles(self, k: Vectors, t: RunTimeSize, s: _Summed, z: IrValue) -> Sequence[IrValue]:
        """Adds the product over part s of the contracted dimension to z, for row t of the tiles. Returns z."""
        rows = _Rows(k.held(t * self.plan.form.height))
        if self.x.kept == self.x.last and not self.plan.form.copied:
            rows = replace(rows, copy=self.rows_copied(k, rows, s))
        return k.loop(0, self.panels, 1, [z], lambda k, i, z: [self.tile(k, rows, i, s, z)])

    def rows_copied(self, k: Vectors, rows: _Rows, s: _Summed) -> IrValue:
        """Copies a tile's rows of x, in part s of the contracted dimension, to an array (index in the part, row)."""
        p, x = self.plan, self.x
        width = -(-p.form.height // k.width) * k.width
        masks = {i: k.first(p.rows - (rows.first + i)) for i in range(0, width, k.width)}

        def row(k: Vectors, at: RunTimeSize, out: IrValue) -> Sequence[IrValue]:
            for i, mask in masks.items():
                place = x.place(self.batches, rows.first + i, s.start + at)
                out = k.store(k.load(x.value, place, mask), out, [at, i])
            return [out]

        return k.loop(0, s.size, 1, [k.array([p.form.depth, width])], row)[0]

    def tile(self, k: Vectors, rows: _Rows, i: RunTimeSize, s: _Summed, z: IrValue) -> IrValue:
        """Adds the product over part s of the contracted dimension to z, for the tile in panel i. Returns z.

        The sums of each part start at zero, so that rounding errors do not grow with the number of parts.
        """
        form, zero = self.plan.form, k.zeros()
        row, column = k.held(rows.first - self.row), k.held(i * form.width)

        def plus(k: Vectors, at: RunTimeSize, *sums: IrValue) -> Sequence[IrValue]:
            elements = (k.splat(x) for x in self.column_of_x(k, rows, s, at))
            return k.plus_products(elements, self.row_of_y(k, s, i, at, copied=form.copied), sums)

        sums = k.loop(0, s.size, 1, [zero] * (form.height * form.vectors), plus)
        stored = functools.partial(self.stored, row=row, column=column, s=s, z=z, sums=sums)
        if (form.whole and form.even) or form.bytes * 8 == MASKED:
            return stored(k, masked=True)
        # Without AVX-512, masked stores are slow. Only the tiles at the end of the product need them.
        ends = (column + form.width, self.columns), (row + form.height, self.rows)
        inside = functools.reduce(lambda a, b: k.arith("andi", a, b), itertools.starmap(k.at_most, ends))
        (z,) = k.if_(
            inside, [z.type], lambda k: [stored(k, masked=False)], lambda k: [stored(k, masked=True)]
        )
        return z

    def stored(
        self,
        k: Vectors,
        row: SizeLike,
        column: SizeLike,
        s: _Summed,
        z: IrValue,
        sums: Sequence[IrValue],
        masked: bool,
    ) -> IrValue:
        """Adds the sums of a tile to z, or overwrites z if s is the first part. Returns z.

        If `masked` is false, the tile ends before the last row and the last column.
        """
        form = self.plan.form
        columns = [k.held(column + v * k.width) for v in range(form.vectors)]
        masks = [k.first(self.columns - at) if masked and not form.whole else None for at in columns]
        inside = [
            k.splat(k.at_most(row + (r + 1), self.rows)) if masked and not form.even else None
            for r in range(form.height)
        ]
        targets = [
            ([k.held(row + r), at], k.every([each for each in (mask, here) if each is not None]))
            for r, here in enumerate(inside)
            for at, mask in zip(columns, masks, strict=True)
        ]
        if form.divided:
            sums = k.if_(
                k.equal(k.index(s.part), k.index(0)),
                [sums[0].type] * len(targets),
                lambda k: sums,
                lambda k: [k.arith("addf", k.load(z, *at), x) for x, at in zip(sums, targets, strict=True)],
            )
        for x, (place, mask) in zip(sums, targets, strict=True):
            z = k.store(x, z, place, mask)
        return z

    def column_of_x(self, k: Vectors, rows: _Rows, s: _Summed, at: RunTimeSize) -> Iterator[IrValue]:
        """Yields, for each row of a tile, the element of x at index `at` of part s of the contracted dimension.

        Each load is emitted only when the iterator reaches it.
        """
        p, x, summed = self.plan, self.x, k.held(s.start + at)
        for r in range(p.form.height):
            row = rows.first + r if p.form.even else smaller(rows.first + r, p.rows - 1)
            place = x.place(self.batches, row, summed)
            yield k.element(x.value, *place) if rows.copy is None else k.element(rows.copy, at, r)

    def row_of_y(
        self, k: Vectors, s: _Summed, i: RunTimeSize, at: RunTimeSize, copied: bool
    ) -> list[IrValue]:
        """Loads the vectors of y in the columns of panel i, at index `at` of part s of the contracted dimension.

        Loads them from the panel if `copied` is true, and from y otherwise.
        """
        form, y = self.plan.form, self.y
        if copied and s.panels is not None:
            return [k.load(s.panels, [i, at, v * k.width]) for v in range(form.vectors)]
        summed, columns = k.held(s.start + at), [i * form.width + v * k.width for v in range(form.vectors)]
        masks = [None if form.whole else k.first(self.columns - column) for column in columns]
        places = [y.place(self.batches, self.column + column, summed) for column in columns]
        return [y.load(k, *each) for each in zip(places, masks, strict=True)]


def _workgroup(
    k: Vectors,
    p: TilePlan[SizeLike],
    matrices: tuple[MatrixOperand, MatrixOperand],
    place: Sequence[RunTimeSize],
    batches: Sequence[int],
) -> _Workgroup:
    """Returns the workgroup with the indices `place`: (batch, part of the rows, part of the columns)."""
    batch, block, strip = place
    form = p.form
    first = k.held(p.blocks.start(block))
    end = k.held(first + p.blocks.size(block))
    row, column = k.held(first * form.height), k.held(p.panels.start(strip) * form.width)
    panels = k.held(p.panels.size(strip))
    columns = panels * form.width
    return _Workgroup(
        p,
        *matrices,
        batch,
        tuple(k.held(batch // math.prod(batches[d + 1 :]) % n) for d, n in enumerate(batches)),
        (first, end),
        row,
        k.held((end * form.height if form.even else smaller(end * form.height, p.rows)) - row),
        column,
        k.held(columns if form.whole else smaller(columns, p.columns - column)),
        panels,
    )
