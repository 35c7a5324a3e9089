"""flat_products: products of arrays as products of matrices, where a reshape makes these of them.

    %0 = dot_general %x, %y, contracting_dims = [2] x [0] : (4x32x256, 256x100)
    ->
    %1 = dot_general (reshape %x), %y, contracting_dims = [1] x [0] : (128x256, 256x100);  %0 = reshape %1

    %1 = transpose (dot_general %x, %y)     ->     %1 = dot_general %y, %x

`products_in_tiles` takes products of matrices only. Gradients of weights are often products that are read transposed
only, and other products read transposed weights; IREE would store these arrays. It transposes a matrix, too, if a row
is multiplied with its rows; the matrix is the first operand instead.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.backends.iree.emitter import Emitter, is_in_loop, is_static, rewrite, rewriting
from tiduc.backends.iree.fast.kernels import KERNEL
from tiduc.backends.iree.fault import slow
from tiduc.dialect import functions
from tiduc.dialect.context import stage
from tiduc.dialect.dependences import defined_by
from tiduc.dialect.types import shape, with_shape

_PRODUCT = "stablehlo.dot_general"


@slow("Takes its own tiles for products of arrays of more dimensions; reshapes them for `products_in_tiles`.")
@stage
def flat_products(module: Any) -> int:
    """Rewrites products outside of loops in place; gives their number."""
    count = sum(map(_read_in_place, functions.within(module.operation, {"stablehlo.transpose"})))
    count += sum(map(_exchange, functions.within(module.operation, {"stablehlo.transpose"})))
    return count + rewrite(module, {_PRODUCT: _flat}) + rewrite(module, {_PRODUCT: _of_one_row})


def _read_in_place(transpose: Any) -> bool:
    """Lets products read a matrix itself, not its transpose, which IREE stores if several products read it."""
    y, (x,) = transpose.results[0], transpose.operands
    uses = list(y.uses)
    products = [use.owner.operation for use in uses]
    if list(transpose.attributes["permutation"]) != [1, 0] or len(set(products)) < 2:
        return False
    if any(op.name != _PRODUCT or _stays(op) for op in products):
        return False
    sides = [use.operand_number for use in uses]
    given = [_numbers(op) for op in products]
    if not all(batches[i] + summed[i] for i, (batches, summed) in zip(sides, given, strict=True)):
        return False
    for op, i in zip(products, sides, strict=True):
        batches, summed = _numbers(op)
        batches[i], summed[i] = ([1 - d for d in own] for own in (batches[i], summed[i]))
        op.attributes["dot_dimension_numbers"] = hlo.DotDimensionNumbers.get(*batches, *summed)
        op.operands[i] = x
    transpose.operation.erase()
    return True


def _exchanged(product: Any, batches: list[list[int]], summed: list[list[int]]) -> dict[str, Any]:
    """The attributes of a product of the exchanged operands."""
    given = {name: product.attributes[name] for name in product.attributes}
    given["dot_dimension_numbers"] = hlo.DotDimensionNumbers.get(*batches[::-1], *summed[::-1])
    if "precision_config" in given:
        given["precision_config"] = ir.ArrayAttr.get(list(given["precision_config"])[::-1])
    return given


def _numbers(product: Any) -> tuple[list[list[int]], list[list[int]]]:
    """The batch dimensions of each operand, and the contracted ones."""
    numbers = hlo.DotDimensionNumbers(product.attributes["dot_dimension_numbers"])
    batches = [list(numbers.lhs_batching_dimensions), list(numbers.rhs_batching_dimensions)]
    return batches, [list(numbers.lhs_contracting_dimensions), list(numbers.rhs_contracting_dimensions)]


def _exchange(transpose: Any) -> bool:
    """Replaces a transpose that exchanges rows and columns of a product; the transpose must be its only reader."""
    product = defined_by(transpose.operands[0], _PRODUCT)
    if product is None or len(list(product.results[0].uses)) != 1 or _stays(product):
        return False
    (x, y), (batches, summed) = product.operands, _numbers(product)
    first = len(shape(x)) - len(summed[0])  # the first dimension of the result that y keeps
    exchanged = [*range(first, len(shape(product.results[0]))), *range(len(batches[0]), first)]
    if list(transpose.attributes["permutation"]) != [*range(len(batches[0])), *exchanged]:
        return False
    given = _exchanged(product, batches, summed)
    with rewriting(product) as b:
        functions.replace(transpose, [b.emit(_PRODUCT, [y, x], transpose.results[0].type, given)])
    product.operation.erase()
    return True


def _flat(b: Emitter, op: Any) -> list[Any] | None:
    """The product of the operands whose kept dimensions are one, and whose contracted dimensions are one."""
    y = op.results[0]
    if _stays(op):
        return None
    batches, contracted = _numbers(op)
    pairs = sorted(zip(*contracted, strict=True))
    summed = [[pair[side] for pair in pairs] for side in (0, 1)]
    kept = [
        [d for d in range(len(shape(x))) if d not in (*own, *over)]
        for x, own, over in zip(op.operands, batches, summed, strict=True)
    ]
    runs = (*kept, *summed)
    if all(len(run) < 2 for run in runs) or not all(map(_adjoin, runs)):
        return None
    operands, moved = [], []
    for x, own, *merged in zip(op.operands, batches, kept, summed, strict=True):
        groups = sorted([*([d] for d in own), *(run for run in merged if run)])
        operands.append(b.reshape(x, [math.prod(shape(x)[d] for d in group) for group in groups]))
        moved.append([[groups.index([d]) for d in own], [groups.index(merged[1])] if merged[1] else []])
    sizes = shape(y)[: len(batches[0])]
    sizes += [math.prod(shape(x)[d] for d in run) for x, run in zip(op.operands, kept, strict=True) if run]
    given = {name: op.attributes[name] for name in op.attributes}
    (left, over_left), (right, over_right) = moved
    given["dot_dimension_numbers"] = hlo.DotDimensionNumbers.get(left, right, over_left, over_right)
    z = b.emit(_PRODUCT, operands, with_shape(y.type, sizes), given)
    return [b.reshape(z, shape(y))]


def _of_one_row(b: Emitter, op: Any) -> list[Any] | None:
    """The product of a row and a matrix whose rows are multiplied: IREE would transpose the second operand."""
    (x, w), y, (batches, summed) = op.operands, op.results[0], _numbers(op)
    if _stays(op) or batches[0] or len(shape(w)) != 2 or summed[1] != [1]:
        return None
    if shape(x)[summed[0][0]] != math.prod(shape(x)):
        return None
    given = _exchanged(op, batches, summed)
    sizes = [shape(w)[0], *([1] * (len(shape(x)) - 1))]
    return [b.reshape(b.emit(_PRODUCT, [w, x], with_shape(y.type, sizes), given), shape(y))]


def _stays(op: Any) -> bool:
    """Whether a product has dynamic sizes, or is in a kernel or a loop."""
    is_of_arrays = all(is_static(v.type) for v in (*op.operands, op.results[0]))
    return not is_of_arrays or op.operation.parent.name == KERNEL or is_in_loop(op)


def _adjoin(dimensions: Sequence[int]) -> bool:
    """Whether dimensions follow one another, so that a reshape merges them."""
    return all(after == before + 1 for before, after in pairwise(dimensions))
