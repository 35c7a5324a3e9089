"""Computes products of a matrix of few rows in one dispatch, which reads each element of the other matrix once.

    for each group of columns of the product:
        for each vector along the contracted dimension:
            sums of (row, column) += vector of the row of x * vector of the column of y
        the elements of the product are the totals of the sums

The columns of y are contiguous in memory here, as they are for the weights of a linear layer. `tiles` computes products
whose y has contiguous rows. The time of both is the time to read y. The code reads the sizes at run time.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tiduc.backends.iree.emit.emitter import Emitter
from tiduc.backends.iree.emit.sizes import RunTimeSize, SizeLike, smaller
from tiduc.backends.iree.emit.vectors import Vectors, lanes
from tiduc.backends.iree.emit.workgroups import ArrayPart, SharedNumbers, in_workgroups
from tiduc.backends.iree.fast.products.matrices import MatrixOperand
from tiduc.backends.iree.fast.products.parts import Parts, parts
from tiduc.backends.iree.fast.products.tile_plan import batch_sizes
from tiduc.dialect.ops.ir_types import IrValue
from tiduc.dialect.shapes.types import with_shape

ROWS = 7
"""The most rows of a matrix of few rows. Products of more rows are computed in tiles."""
_GROUP = 8
"""The most columns whose sums are in registers. A CPU prefetches about this number of streams."""
_BLOCK = 64
"""The most groups of columns of a workgroup."""
_DEPTH = 2**11
"""The most summed elements of a block."""
_WORKGROUPS = 8
"""The fewest workgroups of a product, so that several threads share the work."""


@dataclass(frozen=True)
class _Form:
    """The properties of a product that determine its code, except the types of the arrays."""

    layouts: tuple[tuple[tuple[int, ...], int, int], ...]
    """For x and for y, the indices of the batch, kept and summed dimensions."""
    rows: int
    group: int
    """The number of columns whose sums are in registers."""
    batches: tuple[int, ...]


def in_totals(b: Emitter, x: MatrixOperand, y: MatrixOperand) -> IrValue:
    """Emits the product of x and y as an array (batch, rows of x, columns of y).

    x has at most `ROWS` rows. The contracted dimension is the last dimension of both operands.
    """
    rows, columns, summed = x.of(x.kept), y.of(y.kept), y.of(y.summed)
    registers, batches = b.settings.registers, tuple(batch_sizes(x, y))
    # The registers hold a sum for each row and column of a group, a vector of each column, and one of a row.
    group = next(n for n in (_GROUP, 4, 2, 1) if n == 1 or n * (rows + 1) < registers.number)
    group = min(group, lanes(x.value, registers), next(n for n in (1, 2, 4, 8) if n >= columns or n == 8))
    layouts = tuple((each.batches, each.kept, each.summed) for each in (x, y))
    count = math.prod(batches)
    blocks = parts(-(-columns // group), _BLOCK, -(-_WORKGROUPS // count))
    shared = SharedNumbers(
        (columns, summed, *blocks.numbers),
        (((x.summed, 1),), tuple(sorted([(y.kept, 0), (y.summed, 1)])), ((2, 0),)),
    )
    form = _Form(layouts, rows, group, batches)

    def part(
        k: Vectors, place: Sequence[RunTimeSize], inputs: Sequence[IrValue], numbers: Sequence[SizeLike]
    ) -> ArrayPart:
        columns, summed, *of_blocks = numbers
        matrices = x.reading(inputs[:1]), y.reading(inputs[1:])
        return _Columns(form, *matrices, columns, summed, Parts(*of_blocks)).of(k, *place)

    type_ = with_shape(x.value.type, [count, rows, columns])
    return in_workgroups(
        b, "thin_product", form, (x.value, y.value), type_, (count, blocks.count), part, shared
    )


@dataclass(frozen=True)
class _Columns:
    """Emits the code of a workgroup: the product of x and a block of the columns of y."""

    form: _Form
    x: MatrixOperand
    y: MatrixOperand
    columns: SizeLike
    summed: SizeLike
    blocks: Parts[SizeLike]

    def of(self, k: Vectors, batch: SizeLike, block: SizeLike) -> ArrayPart:
        """Emits the code that computes a block of a batch. Returns the part of the product."""
        group, sizes = self.form.group, self.form.batches
        place = [k.held(batch // math.prod(sizes[d + 1 :]) % n) for d, n in enumerate(sizes)]
        first = k.held(self.blocks.start(block) * group)
        size = k.held(smaller(self.blocks.size(block) * group, self.columns - first))

        def one(k: Vectors, at: RunTimeSize, z: IrValue) -> Sequence[IrValue]:
            columns = [k.held(smaller(first + at + j, self.columns - 1)) for j in range(group)]
            sums = self.sums(k, place, columns)
            for i in range(self.form.rows):
                totals = k.totals(sums[i * group : (i + 1) * group])
                z = k.store(totals, z, [i, at], k.first(smaller(size - at, group)))
            return [z]

        (z,) = k.loop(0, size, group, [k.array([self.form.rows, size])], one)
        return ArrayPart(z, [batch, 0, first], [1, self.form.rows, size])

    def sums(self, k: Vectors, batch: Sequence[SizeLike], columns: Sequence[SizeLike]) -> Sequence[IrValue]:
        """Returns, for each row and each column, a vector whose total is their product."""

        def plus(
            k: Vectors, at: SizeLike, sums: Sequence[IrValue], mask: IrValue | None
        ) -> Sequence[IrValue]:
            ys = [self.y.load(k, self.y.place(batch, j, at), mask) for j in columns]
            xs = (self.x.load(k, self.x.place(batch, i, at), mask) for i in range(self.form.rows))
            return k.plus_products(xs, ys, sums)

        whole = k.held(self.summed // k.width * k.width)
        zeros = [k.zeros()] * (self.form.rows * len(columns))

        def block(k: Vectors, start: RunTimeSize, *totals: IrValue) -> Sequence[IrValue]:
            """Adds the sums of a block, which start at zero, so that rounding errors do not grow with its number."""
            end = smaller(start + _DEPTH, whole)
            sums = k.loop(start, end, k.width, zeros, lambda k, at, *sums: plus(k, at, sums, None))
            return [k.arith("addf", *pair) for pair in zip(totals, sums, strict=True)]

        totals = k.loop(0, whole, _DEPTH, zeros, block)
        return plus(k, whole, totals, k.first(self.summed - whole))
