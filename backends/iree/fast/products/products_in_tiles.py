"""products_in_tiles: computes each large matrix product in a dispatch, with tiles for a CPU's registers and caches.

    %0 = dot_general %x, %y, contracting_dims = [1] x [0]
    ->
    %0 = flow.dispatch @product_...(%x, %y)          loops over tiles, as tiles.py emits them

IREE's own tiles of 8 by 16 numbers use half of the vector registers of AVX-512. IREE adds all terms of a tile before it
begins the next tile, so the operands do not stay in the caches. If the sizes are not multiples of the tile, IREE's code
takes up to 50 times as long as the code of this pass.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from torch_mlir import ir

from tiduc.backends.iree.emit.emitter import Emitter, are_floats, is_directly_in, is_in_loop, rewrite
from tiduc.backends.iree.emit.kernels import KERNEL
from tiduc.backends.iree.emit.vectors import lanes
from tiduc.backends.iree.fast.products import thin, tiles
from tiduc.backends.iree.fast.products.computed import formula_of
from tiduc.backends.iree.fast.products.matrices import MatrixOperand
from tiduc.backends.iree.fast.products.tile_plan import batch_sizes
from tiduc.backends.iree.fault import slow
from tiduc.backends.iree.settings import Settings
from tiduc.dialect.graph.matching import defined_by
from tiduc.dialect.mlir.context import stage
from tiduc.dialect.ops.contractions import Contraction
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.shapes.types import shape

_WORK = 2**17
"""The fewest multiplications of a rewritten product.

For smaller products, IREE's code is as fast, and IREE fuses them with later ops.
"""
_IN_LOOPS = 2**22
"""The fewest multiplications of a rewritten product in a loop. A loop with smaller products may become one kernel."""
_LEAST = thin.ROWS + 1
"""The smallest size of a kept or contracted dimension of a product that is computed in tiles."""
_READ = 2**15
"""The fewest elements of the larger operand of a rewritten product whose other operand has at most `thin.ROWS` rows.

IREE's code for these products takes up to 12 times as long as the time to read the operand.
"""
_MOST = 2**31
"""Sizes must be less than this number, because the code reads them as 32-bit integers."""


@slow(
    "IREE takes up to 12 times as long as a read of the matrix for its product with a few rows; tiduc reads it once.",
    "flags.py: one row",
)
@slow(
    "IREE's tiles leave registers and caches unused; tiduc emits tiles of other sizes, in dispatches of their own.",
    "flags.py: layer",
)
@stage
def products_in_tiles(module: ir.Module | IrOp, settings: Settings) -> int:
    """Rewrites, in place, large products of matrices for CPUs. Returns the number of rewritten products."""
    if not settings.vectors:
        return 0
    return rewrite(module, {"stablehlo.dot_general": _in_tiles}, settings)


def _in_tiles(b: Emitter, op: IrOp) -> list[IrValue] | None:
    if is_directly_in(op, KERNEL) or not are_floats((*op.operands, *op.results), ir.F32Type, ir.F64Type):
        return None
    left, right = (_matrix(x, Contraction.of(op), side) for side, x in enumerate(op.operands))
    if left is None or right is None:
        return None
    sizes = [left.of(left.kept), left.of(left.summed), right.of(right.kept)]
    count = math.prod(left.of(d) for d in left.batches)
    if min(sizes[0], sizes[2]) <= thin.ROWS:
        return None if is_in_loop(op) or not _is_thin(sizes, count) else [_thin(b, left, right)]
    is_taken = is_large(sizes, count) and (not is_in_loop(op) or count * math.prod(sizes) >= _IN_LOOPS)
    return [in_tiles(b, left, _computed(b, right))] if is_taken else None


def _is_thin(sizes: Sequence[int], count: int) -> bool:
    """Whether a batch of `count` products, one of whose operands has few rows, should be rewritten."""
    rows, summed, columns = sizes
    is_matrix = max(rows, columns) > 1  # IREE's code for the product of two vectors is as fast
    is_read = count * summed * max(rows, columns) >= _READ
    return is_matrix and is_read and _LEAST <= summed and max(sizes) < _MOST


def _thin(b: Emitter, x: MatrixOperand, y: MatrixOperand) -> IrValue:
    """Computes a product, or a batch of products, one of whose operands has few rows."""
    if x.of(x.kept) > y.of(y.kept):
        z = _thin(b, y, x)
        rank = len(shape(z))
        return b.transpose(z, [*range(rank - 2), rank - 1, rank - 2])
    y = _with_last(b, y)
    if y.kept == y.last:
        return in_tiles(b, x, y)
    z = thin.in_totals(b, _moved(b, x), y)
    return b.reshape(z, [*batch_sizes(x, y), *shape(z)[1:]])


def _computed(b: Emitter, y: MatrixOperand) -> MatrixOperand:
    """Adds a formula to the second operand if the code can compute it from smaller arrays. Returns the operand."""
    found = None if y.batches else formula_of(y.value, lanes(y.value, b.settings.registers))
    return y if found is None else replace(y, formula=found[0], arrays=tuple(found[1]))


def is_large(sizes: Sequence[int], count: int = 1) -> bool:
    """Whether a batch of `count` products should be rewritten.

    `sizes` has the numbers of rows, of contracted elements, and of columns of one product.
    """
    return _LEAST <= min(sizes) and max(sizes) < _MOST and count * math.prod(sizes) >= _WORK


def _matrix(x: IrValue, of: Contraction, side: int) -> MatrixOperand | None:
    """Returns operand x of a product as a `MatrixOperand`. If a transpose computes x, its operand is read instead.

    Returns None unless x has exactly one kept and one contracted dimension.
    """
    batches, summed, kept = of.batches[side], of.summed[side], of.kept(side, len(shape(x)))
    if len(kept) != 1 or len(summed) != 1:
        return None
    transpose = defined_by(x, "stablehlo.transpose")
    if transpose is None:
        return MatrixOperand(x, batches, kept[0], summed[0])
    order = list(transpose.attributes["permutation"])
    return MatrixOperand(
        transpose.operands[0], tuple(order[d] for d in batches), order[kept[0]], order[summed[0]]
    )


def in_tiles(b: Emitter, x: MatrixOperand, y: MatrixOperand) -> IrValue:
    """Computes the product of two matrices, or of batches of matrices, as (batches..., rows of x, columns of y)."""
    z = tiles.in_tiles(b, *(_with_last(b, each) for each in (x, y)))
    return b.reshape(z, [*batch_sizes(x, y), *shape(z)[1:]])


def _with_last(b: Emitter, x: MatrixOperand) -> MatrixOperand:
    """Returns the operand. If a batch dimension is last, transposes it, so that the contracted dimension is last."""
    return x if x.last in (x.kept, x.summed) else _moved(b, x)


def _moved(b: Emitter, x: MatrixOperand) -> MatrixOperand:
    """Returns the operand with the batch dimensions first, and the contracted dimension last."""
    count = len(x.batches)
    order = [*x.batches, x.kept, x.summed]
    value = x.value if order == [*range(count + 2)] else b.transpose(x.value, order)
    return MatrixOperand(value, tuple(range(count)), count, count + 1)
