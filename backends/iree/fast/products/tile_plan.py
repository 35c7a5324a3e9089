"""Chooses the sizes of tiles and parts for a product of matrices, from an estimate of cycles.

`ProductForm` has all properties that determine the code of a product, and `TilePlan` the sizes that the code reads.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic

from tiduc.backends.iree.emit.sizes import N, SizeLike
from tiduc.backends.iree.emit.vectors import MASKED, cycles_of_step, lanes
from tiduc.backends.iree.fast.products.computed import Formula
from tiduc.backends.iree.fast.products.matrices import MatrixOperand
from tiduc.backends.iree.fast.products.parts import Parts, parts, parts_in_vectors
from tiduc.backends.iree.settings import Registers
from tiduc.dialect.shapes.types import element

_USUAL = {16: ((4, 3), (6, 2), (12, 1)), 32: ((8, 3), (12, 2), (14, 1))}
"""For each number of registers, the usual tiles as pairs (rows, vectors). A product has a usual tile, so that products
share code, unless another tile is faster by a factor of more than `_FASTER`."""
_ROWS = 14
"""The most rows of a tile."""
_FASTER = 1.05
_STACK = 2**16
"""The most bytes of all panels, which are on the stack. The threads of IREE's runtime have a stack of 128 KiB."""
_DEPTHS = 64, 128, 256
"""The sizes of a panel along the contracted dimension. For each part of it, the code reads and writes a tile once."""
_DEPTH = 128
"""The usual size of a panel along the contracted dimension, if that dimension is larger."""
_PANEL = 24 * 2**10
"""The most bytes of a panel of twice the usual size. It must stay in the level 1 cache."""
_BLOCK = 512
"""The most rows of a workgroup. Its part of x must stay in a cache while the workgroup computes all columns."""
_WORKGROUPS = 8
"""The fewest workgroups, unless each would copy all of y. With three of them, two threads take 1.3 times as long."""
_RESIDENT = 2**20
"""The most bytes of a part of y that stays in a cache. A part of y that is not larger may be read in place."""


@dataclass(frozen=True)
class ProductForm:
    """The properties of a product that determine its code. Products of equal forms share code.

    A tile has `height` rows, and `vectors` vectors for the elements of a row. If `copied` is true, the code copies y to
    panels, each of which has the columns of a tile.
    """

    layouts: tuple[tuple[tuple[int, ...], int, int], ...]
    """For x and for y, the indices of the batch, kept and summed dimensions."""
    height: int
    vectors: int
    copied: bool
    even: bool
    """Whether the tiles divide the rows of the product evenly."""
    whole: bool
    """Whether the panels divide the columns of the product evenly."""
    divided: bool
    """Whether the summed elements are divided into several parts."""
    depth: int
    """The most summed elements of a part."""
    vector: int
    """The number of elements of a vector."""
    bytes: int
    """The number of bytes of a vector."""
    formula: Formula | None
    """The formula of y, if the code computes the elements of y, else None."""

    @property
    def width(self) -> int:
        """The number of columns of a panel."""
        return self.vectors * self.vector

    @property
    def room(self) -> int:
        """The number of panels for which the stack has room."""
        return _STACK // (self.depth * self.vectors * self.bytes)


@dataclass(frozen=True)
class TilePlan(Generic[N]):
    """The sizes of a product and of its parts. `plan` returns integers; the emitted code reads sizes at run time."""

    form: ProductForm
    rows: N
    columns: N
    summed: N
    blocks: Parts[N]  # parts of the rows; an item is a row of tiles
    panels: Parts[N]  # parts of the columns; an item is a panel
    depths: Parts[N]  # parts of the contracted dimension

    @property
    def numbers(self) -> tuple[N, ...]:
        """The numbers that the code reads at run time: rows, columns, summed elements, then three for each `Parts`."""
        of_parts = [n for p in (self.blocks, self.panels, self.depths) for n in p.numbers]
        return self.rows, self.columns, self.summed, *of_parts

    def reading(self, numbers: Sequence[SizeLike]) -> "TilePlan[SizeLike]":
        """This plan with other sizes, which are given in the order of the property `numbers`."""
        rows, columns, summed = numbers[:3]
        blocks, panels, depths = (Parts(*numbers[i : i + 3]) for i in (3, 6, 9))
        return TilePlan(self.form, rows, columns, summed, blocks, panels, depths)


def plan(x: MatrixOperand, y: MatrixOperand, registers: Registers) -> TilePlan[int]:
    """Chooses the sizes of tiles and parts for a product. No batch dimension may be the last dimension of x or y."""
    size, vector = int(element(x.value).width) // 8, lanes(x.value, registers)
    rows, columns, summed = x.of(x.kept), y.of(y.kept), y.of(y.summed)
    height, vectors = _tile(rows, -(-columns // vector), registers.number)
    whole = columns % (vectors * vector) == 0
    # If y is read only once, a copy would take longer than its use.
    once = rows <= height and y.kept == y.last
    copied = (
        bool(y.formula)
        or not once
        and (
            x.kept != x.last
            or y.kept != y.last
            or -(-summed // parts(summed, 2 * _DEPTH).count) * columns * size > _RESIDENT
            # Masked loads in the innermost loop take twice as long as loads from panels.
            or (registers.bits != MASKED and not whole)
        )
    )
    panel = 2 * _DEPTH * vectors * registers.bits // 8
    fits = panel <= _PANEL and -(-columns // (vectors * vector)) * panel <= _STACK
    deepest = 2 * _DEPTH if not copied or (fits and not y.formula) else _DEPTH
    by_vectors = y.formula and y.summed == y.last
    depths = parts_in_vectors(summed, deepest, vector) if by_vectors else parts(summed, deepest)
    form = ProductForm(
        tuple((each.batches, each.kept, each.summed) for each in (x, y)),
        height,
        vectors,
        copied,
        rows % height == 0,
        whole,
        depths.count > 1,
        next(d for d in _DEPTHS if summed <= d or d == deepest) if copied else deepest,
        vector,
        registers.bits // 8,
        y.formula,
    )
    panels = -(-columns // form.width)
    least = -(-_WORKGROUPS // math.prod(batch_sizes(x, y)))
    # If y is copied, workgroups divide the columns, because workgroups for blocks of rows would each copy all of y.
    strips = parts(panels, form.room if copied else panels, least) if copied or once else Parts(1, panels, 0)
    blocks = parts(-(-rows // height), _BLOCK // height, 1 if copied else least)
    return TilePlan(form, rows, columns, summed, blocks, strips, depths)


def batch_sizes(x: MatrixOperand, y: MatrixOperand) -> list[int]:
    """The sizes of the batch dimensions of a product."""
    return [x.of(d) for d in x.batches] or [y.of(d) for d in y.batches]


@functools.cache
def _tile(rows: int, columns: int, registers: int) -> tuple[int, int]:
    """Chooses the numbers of rows and vectors of a tile. `columns` is the number of vectors in a row of the product.

    The registers that do not hold sums hold the vectors of y and an element of x.
    """
    most = {vectors: min(_ROWS, (registers - 1) // vectors - 1) for vectors in (8, 6, 4, 3, 2, 1)}
    every = [(height, vectors) for vectors in most for height in range(most[vectors], 0, -1)]
    usual, best = (
        min(tiles, key=lambda tile: _cycles(rows, columns, *tile)) for tiles in (_USUAL[registers], every)
    )
    slower = _cycles(rows, columns, *usual) > _FASTER * _cycles(rows, columns, *best)
    return best if slower else usual


def _cycles(rows: int, columns: int, height: int, vectors: int) -> float:
    """The estimated cycles in which all tiles add one term to each sum. `columns` is the number of vectors in a row."""
    each = cycles_of_step(height * vectors, height + vectors)
    return -(-rows // height) * -(-columns // vectors) * each
