"""Rewrites dot_general with dynamic dimensions as a product of matrices, or as elementwise products and their sums."""

import math
from collections.abc import Sequence

from tiduc.backends.iree.emit.arrays import in_shape, sizes_of, spread, type_of
from tiduc.backends.iree.emit.emitter import DYNAMIC, Emitter, legalize
from tiduc.backends.iree.emit.sizes import SizeLike
from tiduc.backends.iree.fault import crash, missing
from tiduc.dialect.ops.contractions import MATRICES, NUMBERS, Contraction
from tiduc.dialect.ops.ir_types import IrOp, IrValue


@legalize("stablehlo.dot_general", where=DYNAMIC)
@missing(
    "Without a batch, only products of matrices compile; tiduc reshapes the operands to matrices.",
    "dynamic/dot",
)
@crash(
    "Without a batch, products with a vector, row or column do not compile; tiduc sums products of elements.",
    "dynamic/dot_of_vector",
)
@crash("Batches of one product do not compile; tiduc drops the batch dimensions.", "dynamic/dot_of_one_batch")
@crash("Batches of outer products do not compile; tiduc multiplies elements.", "dynamic/outer_products")
def dot_general(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Rewrites the op as a product of two matrices. Returns None for ops that IREE compiles.

    If a dimension of a matrix has size 1, multiplies elements and sums the products instead.
    """
    x, y = op.operands
    d = Contraction.of(op)
    batch, contracted = d.batches[0], d.summed[0]
    are_matrices = all(len(v.type.shape) == 2 and 1 not in v.type.shape for v in (x, y))
    if not batch and are_matrices and len(contracted) == 1:
        return None
    of_x = sizes_of(b, x)
    kept = [of_x[i] for i in batch] if any(of_x[i] != 1 for i in batch) else []
    if kept and any(of_x[i] != 1 for i in contracted):
        return None
    left, outer, common = _matrices(b, x, d, 0, kept)
    right, inner, _ = _matrices(b, y, d, 1, kept)
    type_ = op.results[0].type
    rows, columns = math.prod(outer), math.prod(inner)
    if 1 in (rows, common, columns):
        left, right = (b.convert(v, type_.element_type) for v in (left, right))
        n, sizes = len(kept), [*kept, rows, common, columns]
        elements = b.multiply(
            spread(b, left, range(n + 2), sizes), spread(b, right, [*range(n), n + 1, n + 2], sizes)
        )
        z = b.reduce_sum(elements, [n + 1])
    else:
        attributes = {name: op.attributes[name] for name in op.attributes}
        attributes[NUMBERS] = MATRICES.attribute
        z = b.emit(op.name, (left, right), type_of([rows, columns], type_.element_type), attributes)
    return [in_shape(b, z, [*(of_x[i] for i in batch), *outer, *inner])]


def _matrices(
    b: Emitter, x: IrValue, d: Contraction, side: int, kept: Sequence[SizeLike]
) -> tuple[IrValue, list[SizeLike], SizeLike]:
    """Reshapes an operand to a batch of matrices. `kept` has the batch sizes; it is empty if there is only one matrix.

    The left operand (`side` 0) is contracted along the last dimension, and the right operand along the last but one.
    Returns the matrices, the sizes of the operand's free dimensions, and the size of the contracted dimension.
    """
    contracted, free = d.summed[side], d.kept(side, len(x.type.shape))
    order = [*d.batches[side], *(contracted if side else free), *(free if side else contracted)]
    sizes = sizes_of(b, x)
    outer = [sizes[i] for i in free]
    pair = [math.prod(outer), math.prod(sizes[i] for i in contracted)]
    x = b.transpose(x, order)
    return in_shape(b, x, [*kept, *(pair[::-1] if side else pair)]), outer, pair[1]
