"""flat_products: rewrites products of arrays as products of matrices if reshapes of the operands suffice for this.

    %0 = dot_general %x, %y, contracting_dims = [2] x [0] : (4x32x256, 256x100)
    ->
    %1 = dot_general (reshape %x), %y, contracting_dims = [1] x [0] : (128x256, 256x100);  %0 = reshape %1

    %1 = transpose (dot_general %x, %y)     ->     %1 = dot_general %y, %x

The pass `products_in_tiles` supports only products of matrices. The gradient with respect to weights is often the
transpose of a product. IREE would store the product and its transpose; if the operands are exchanged, no transpose is
needed. If a row is multiplied by each row of a matrix, the pass makes the matrix the first operand, because IREE would
transpose a matrix that is the second operand.
"""

import math
from collections.abc import Sequence
from itertools import pairwise

from torch_mlir import ir

from tiduc.backends.iree.emit.emitter import (
    Emitter,
    is_directly_in,
    is_in_loop,
    is_static,
    rewrite,
    rewriting,
)
from tiduc.backends.iree.emit.kernels import KERNEL
from tiduc.backends.iree.fault import slow
from tiduc.dialect.graph import functions
from tiduc.dialect.graph.matching import defined_by
from tiduc.dialect.mlir.context import stage
from tiduc.dialect.ops.contractions import NUMBERS, Contraction
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.shapes.types import shape, with_shape

_PRODUCT = "stablehlo.dot_general"


@slow(
    "IREE's own tiles are for products of matrices only; tiduc reshapes other arrays for `products_in_tiles`.",
    "flags.py: layer",
)
@stage
def flat_products(module: ir.Module | IrOp) -> int:
    """Rewrites, in place, the products of a module that are outside of loops and kernels.

    Returns the number of rewrites.
    """
    searched = functions.functions_in(module)
    transposes = [op for each in searched for op in functions.outer_first(each, {"stablehlo.transpose"})]
    count = sum(map(_exchange, transposes))
    return count + rewrite(module, {_PRODUCT: _flat}) + rewrite(module, {_PRODUCT: _of_one_row})


def _exchanged(product: IrOp) -> dict[str, ir.Attribute]:
    """Returns the attributes of a product that has the operands of `product` in the other order."""
    given = {name: product.attributes[name] for name in product.attributes}
    given[NUMBERS] = Contraction.of(product).exchanged.attribute
    if "precision_config" in given:
        given["precision_config"] = ir.ArrayAttr.get(list(given["precision_config"])[::-1])
    return given


def _exchange(transpose: IrOp) -> bool:
    """Replaces the transpose of a product by a product with exchanged operands. Returns whether it was replaced.

    The transpose must exchange the product's rows and columns, and must be the only reader of the product.
    """
    product = defined_by(transpose.operands[0], _PRODUCT)
    if product is None or len(list(product.results[0].uses)) != 1 or _stays(product):
        return False
    (x, y), of = product.operands, Contraction.of(product)
    count = len(of.batches[0])
    first = len(shape(x)) - len(of.summed[0])  # the first dimension that comes from y
    exchanged = [*range(first, len(shape(product.results[0]))), *range(count, first)]
    if list(transpose.attributes["permutation"]) != [*range(count), *exchanged]:
        return False
    with rewriting(product) as b:
        z = b.emit(_PRODUCT, [y, x], transpose.results[0].type, _exchanged(product))
        functions.replace(transpose, [z])
    product.operation.erase()
    return True


def _flat(b: Emitter, op: IrOp) -> list[IrValue] | None:
    """Reshapes the operands of a product so that each has at most one kept and one contracted dimension.

    Returns None if the product has this form already, if no reshape can merge the dimensions, or if `_stays(op)`.
    """
    y = op.results[0]
    if _stays(op):
        return None
    of = Contraction.of(op)
    pairs = sorted(zip(*of.summed, strict=True))
    summed = [[pair[side] for pair in pairs] for side in (0, 1)]
    kept = [of.kept(side, len(shape(x))) for side, x in enumerate(op.operands)]
    runs = (*kept, *summed)
    if all(len(run) < 2 for run in runs) or not all(map(_adjoin, runs)):
        return None
    operands, moved = [], []
    for x, own, *merged in zip(op.operands, of.batches, kept, summed, strict=True):
        groups = sorted([*([d] for d in own), *(run for run in merged if run)])
        operands.append(b.reshape(x, [math.prod(shape(x)[d] for d in group) for group in groups]))
        moved.append([[groups.index([d]) for d in own], [groups.index(merged[1])] if merged[1] else []])
    sizes = shape(y)[: len(of.batches[0])]
    sizes += [math.prod(shape(x)[d] for d in run) for x, run in zip(op.operands, kept, strict=True) if run]
    given = {name: op.attributes[name] for name in op.attributes}
    given[NUMBERS] = Contraction.new(*zip(*moved, strict=True)).attribute
    z = b.emit(_PRODUCT, operands, with_shape(y.type, sizes), given)
    return [b.reshape(z, shape(y))]


def _of_one_row(b: Emitter, op: IrOp) -> list[IrValue] | None:
    """Rewrites a product of a row x with the rows of a matrix w, so that the matrix is the first operand.

    Returns None for other products. IREE would transpose the matrix if it were the second operand.
    """
    (x, w), y, of = op.operands, op.results[0], Contraction.of(op)
    if _stays(op) or of.batches[0] or len(shape(w)) != 2 or of.summed[1] != (1,):
        return None
    if shape(x)[of.summed[0][0]] != math.prod(shape(x)):
        return None
    sizes = [shape(w)[0], *([1] * (len(shape(x)) - 1))]
    return [b.reshape(b.emit(_PRODUCT, [w, x], with_shape(y.type, sizes), _exchanged(op)), shape(y))]


def _stays(op: IrOp) -> bool:
    """Whether a product must not be rewritten, because it has dynamic sizes, or is in a kernel or a loop."""
    is_of_arrays = all(is_static(v.type) for v in (*op.operands, op.results[0]))
    return not is_of_arrays or is_directly_in(op, KERNEL) or is_in_loop(op)


def _adjoin(dimensions: Sequence[int]) -> bool:
    """Whether dimensions follow each other, as in 2, 3, 4, so that a reshape can merge them."""
    return all(after == before + 1 for before, after in pairwise(dimensions))
