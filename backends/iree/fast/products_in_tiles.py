"""products_in_tiles: products of matrices in dispatches of their own, in tiles for the CPU's registers and caches.

    %0 = dot_general %x, %y, contracting_dims = [1] x [0]
    ->
    %0 = flow.dispatch.region { linalg.generic { compilation_info = tiles } }     one loop for each dimension

IREE computes tiles of 8 by 16 numbers, which is half of the vector registers of AVX-512; it walks through all summed
elements before it goes to the next tile, so that these leave the caches; and its code for sizes that are no multiple of
the tile takes up to 50 times as long. The columns of the second matrix must lie side by side in memory; if they do not,
the smaller one is transposed: that matrix, or the first one, as the second one of the transposed product.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.backends.iree.emitter import Emitter, is_in_loop, is_static, rewrite
from tiduc.backends.iree.fast.kernels import KERNEL, in_own_dispatch
from tiduc.backends.iree.fast.patches import zero
from tiduc.backends.iree.fault import slow
from tiduc.backends.iree.settings import Settings
from tiduc.dialect.context import context, stage
from tiduc.dialect.dependences import defined_by
from tiduc.dialect.types import element, shape, with_shape

_WORK = 2**20
"""Multiplications; for fewer, IREE's code is as good, and fuses what follows."""
_LEAST = 8
"""The least size of each dimension of a product."""
_TILE = 64
"""Rows of a tile that one thread computes at a time; it has four vectors of columns."""
_SUMMED = 64
"""Summed elements of such a tile: rows of large matrices that are apart by the size of a page share few cache lines."""
_FEW = 16
"""The fewest: each block of summed elements reads and writes the result."""


@dataclass(frozen=True)
class Matrix:
    """An operand of a product: its dimensions are batches, one that is kept, and one that is summed."""

    value: Any
    batches: tuple[int, ...]
    kept: int
    summed: int

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(shape(self.value))

    @property
    def copied(self) -> int:
        """The elements to copy so that columns lie side by side in memory, and are a multiple of vectors."""
        side_by_side = self.kept == len(shape(self.value)) - 1
        return 0 if side_by_side and self.of(self.kept) % _vector(self.value) == 0 else self.size

    def of(self, d: int) -> int:
        """The size of a dimension."""
        return int(shape(self.value)[d])

    def place(self, loops: Sequence[Any], kept: Any, summed: Any) -> list[Any]:
        """The loop of each dimension."""
        place = [summed] * len(shape(self.value))
        for d, loop in zip(self.batches, loops, strict=True):
            place[d] = loop
        place[self.kept] = kept
        return place


@slow(
    "Computes tiles that leave the registers and caches unused; tiles of other sizes, in dispatches of their own."
)
@stage
def products_in_tiles(module: Any, settings: Settings) -> int:
    """Rewrites large products of matrices in place, for CPUs with vectors of 512 bits; gives their number."""
    if not settings.wide:
        return 0
    return rewrite(module, {"stablehlo.dot_general": _in_tiles})


def _in_tiles(b: Emitter, op: Any) -> list[Any] | None:
    y = op.results[0]
    if not all(is_static(v.type) for v in (*op.operands, y)) or op.operation.parent.name == KERNEL:
        return None
    if len({element(v) for v in (*op.operands, y)}) > 1 or is_in_loop(op):
        return None
    numbers = hlo.DotDimensionNumbers(op.attributes["dot_dimension_numbers"])
    left = _matrix(op.operands[0], numbers.lhs_batching_dimensions, numbers.lhs_contracting_dimensions)
    right = _matrix(op.operands[1], numbers.rhs_batching_dimensions, numbers.rhs_contracting_dimensions)
    if left is None or right is None or not pays(left, right):
        return None
    return [b.reshape(in_tiles(b, left, right, _is_transposed(y)), shape(y))]


def pays(x: Matrix, y: Matrix) -> bool:
    """Whether a product is of floats for which there are tiles, and large."""
    least = min(x.of(x.kept), x.of(x.summed), y.of(y.kept))
    of_floats = isinstance(element(x.value), ir.F32Type | ir.F64Type)
    return of_floats and least >= _LEAST and x.size * y.of(y.kept) >= _WORK


def _matrix(x: Any, batches: Sequence[int], summed: Sequence[int]) -> Matrix | None:
    """An operand as a matrix; None if several dimensions are kept, or summed."""
    batches = tuple(batches)
    kept = [d for d in range(len(shape(x))) if d not in (*batches, *summed)]
    if len(kept) != 1 or len(summed) != 1:
        return None
    transpose = defined_by(x, "stablehlo.transpose")
    if transpose is None:
        return Matrix(x, batches, kept[0], summed[0])
    order = list(transpose.attributes["permutation"])
    return Matrix(transpose.operands[0], tuple(order[d] for d in batches), order[kept[0]], order[summed[0]])


def _is_transposed(y: Any) -> bool:
    """Whether rows and columns of a product are exchanged by the only op that reads it."""
    readers = [use.owner for use in y.uses]
    if [op.name for op in readers] != ["stablehlo.transpose"]:
        return False
    rank = len(shape(y))
    return list(readers[0].attributes["permutation"]) == [*range(rank - 2), rank - 1, rank - 2]


def in_tiles(b: Emitter, x: Matrix, y: Matrix, transposed: bool = False) -> Any:
    """The product of two matrices, (batches, rows of x, columns of y); `transposed` if it is read transposed."""
    results = x.of(x.kept) * y.of(y.kept) * math.prod(x.of(d) for d in x.batches)
    if y.copied + transposed * results <= x.copied + (not transposed) * results:
        return _product(b, x, y)
    z = _product(b, y, x)
    rank = len(shape(z))
    return b.transpose(z, [*range(rank - 2), rank - 1, rank - 2])


def _product(b: Emitter, x: Matrix, y: Matrix) -> Any:
    batches, wanted = [x.of(d) for d in x.batches], y.of(y.kept)
    rank = len(batches) + 2
    y = _side_by_side(b, y) if y.copied else y
    rows, columns, summed = x.of(x.kept), y.of(y.kept), x.of(x.summed)
    *outer, row, column, at = map(ir.AffineExpr.get_dim, range(rank + 1))
    places = [x.place(outer, row, at), y.place(outer, column, at), [*outer, row, column]]
    maps = [ir.AffineMap.get(rank + 1, 0, place) for place in places]
    type_ = with_shape(x.value.type, [*batches, rows, columns])
    info = _compilation(rank - 2, rows, columns, summed, _vector(x.value))
    z = in_own_dispatch(b, type_, lambda k: k.contraction(x.value, y.value, k.constant(0, type_), maps, info))
    return z if wanted == columns else b.cut(z, rank - 1, 0, wanted)


def _side_by_side(b: Emitter, y: Matrix) -> Matrix:
    """A copy with the kept dimension last, and with zeros up to a multiple of two vectors."""
    order, count, value = [*y.batches, y.summed, y.kept], len(y.batches), y.value
    more = [-n % (2 * _vector(value)) if d == y.kept else 0 for d, n in enumerate(shape(value))]
    if any(more):
        value = b.pad(value, zero(b, value), [0] * len(more), more, [0] * len(more))
    if order != sorted(order):
        type_ = with_shape(value.type, [shape(value)[d] for d in order])
        value = in_own_dispatch(b, type_, lambda k: k.transpose(value, order))
    return Matrix(value, tuple(range(count)), count + 1, count)


def _vector(x: Any) -> int:
    """The elements of x in a vector."""
    return 512 // int(element(x).width)


def _compilation(batches: int, rows: int, columns: int, summed: int, vector: int) -> Any:
    """The tile sizes as IREE's compiler takes them."""
    ones = [1] * batches
    width = 2 * vector if columns % (2 * vector) == 0 else vector
    height = 16 if width == vector and rows % 16 == 0 else 8
    step = next(n for n in (4, 2, 1) if summed % n == 0)
    tall, wide = _divisor(rows, _TILE, height) or _TILE, _divisor(columns, 4 * vector, width)
    deep = _divisor(summed, _SUMMED, step)
    deep = deep if deep >= _FEW else summed
    peel = rows % height
    tile = [*ones, tall, wide, 0]
    levels = {
        "distribution": tile,
        "cache_parallel": tile,
        "cache_reduction": [0 for _ in ones] + [0, 0, deep],
        "vector_common_parallel": [*ones, height, width, 0],
        "vector_reduction": [0 for _ in ones] + [0, 0, step],
    }
    text = ", ".join(f"{level} = {sizes}" for level, sizes in levels.items())
    context().allow_unregistered_dialects = True  # stays set, as in kernels.py
    return ir.Attribute.parse(
        f"#iree_codegen.compilation_info<lowering_config = #iree_cpu.lowering_config<{text}>, translation_info = "
        f"<pipeline = #iree_cpu.pipeline<DoubleTilingExpert>{', {enable_loop_peeling}' if peel else ''}>>"
    )


def _divisor(n: int, most: int, part: int) -> int:
    """The largest multiple of `part` up to `most` that divides n; 0 if there is none."""
    return next((m for m in range(most, 0, -part) if n % m == 0), 0)
