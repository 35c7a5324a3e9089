"""gpu_sums: on NVIDIA's GPUs, divides sums along the first dimensions of an array into 16 parts, and adds the parts.

    reduce %x : 197x768 along [0], by add
    ->
    %p = pad %x : 208x768    %s = reduce (reshape %p : 13x16x768) along [0]    reduce %s : 16x768 along [0]

In IREE's own code, a thread adds many elements that are far apart in memory. On an H200, a sum of 197 rows of 768
elements takes 36 microseconds with IREE's code, and 5 microseconds in parts. Sums of less than 64 rows are not
rewritten. If the number of rows is a multiple of 32, sums of less than 512 rows are not rewritten either, because IREE
divides such rows evenly among threads.
"""

import math
from collections.abc import Iterable

from torch_mlir import ir

from tiduc.backends.iree.emit.emitter import Emitter, is_static, rewrite
from tiduc.backends.iree.emit.known import constant_splat
from tiduc.backends.iree.fault import slow
from tiduc.dialect.emitters.bodies import reducer
from tiduc.dialect.mlir.context import stage
from tiduc.dialect.ops.contractions import Contraction
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.shapes.types import element, shape, with_shape

_PARTS = 16
_FEWEST, _MANY = 64, 512
"""The fewest rows of a rewritten sum: `_MANY` if the number of rows is a multiple of `_EVEN`, else `_FEWEST`."""
_EVEN = 32


@slow("One thread computes each sum along the first dimensions; tiduc adds up parts.", "gpu_networks.py: vit")
@stage
def gpu_sums(module: ir.Module | IrOp) -> int:
    """Divides long sums into parts, in place. Returns the number of rewritten sums."""
    return rewrite(module, {"stablehlo.reduce": _of_elements, "stablehlo.dot_general": _of_products})


def _of_elements(b: Emitter, op: IrOp) -> list[IrValue] | None:
    """Computes a `reduce` in parts. Returns None unless it is a long sum (`_is_long`) with the initial value 0."""
    if (
        len(op.results) != 1
        or reducer(op) != "stablehlo.add"
        or not _is_long(op, op.attributes["dimensions"])
    ):
        return None
    start = constant_splat(op.operands[-1])
    return [_in_parts(b, op, op.operands[0])] if start is not None and start.value == 0 else None


def _of_products(b: Emitter, op: IrOp) -> list[IrValue] | None:
    """Computes a `dot_general` in parts, as a sum of elementwise products.

    Returns None unless it is a long sum along the first dimensions, and all other dimensions are batch dimensions.
    """
    (x, y), of = op.operands, Contraction.of(op)
    rest = tuple(range(len(of.summed[0]), x.type.rank))
    if of.summed[0] != of.summed[1] or of.batches != (rest, rest) or x.type != y.type:
        return None
    return [_in_parts(b, op, b.multiply(x, y))] if _is_long(op, of.summed[0]) else None


def _is_long(op: IrOp, dimensions: Iterable[int]) -> bool:
    """Whether an op sums many rows of f32 along the first dimensions of a static operand."""
    x, y = op.operands[0], op.results[0]
    if not (is_static(x.type) and is_static(y.type) and shape(y)):
        return False
    along = sorted(dimensions)
    if along != [*range(len(along))]:
        return False
    rows, width = math.prod(shape(x)[: len(along)]), math.prod(shape(y))
    many = rows >= _MANY or (rows >= _FEWEST and rows % _EVEN != 0)
    return many and width > 0 and all(isinstance(element(v), ir.F32Type) for v in (*op.operands, y))


def _in_parts(b: Emitter, op: IrOp, x: IrValue) -> IrValue:
    """Sums x along its first dimensions in `_PARTS` parts, and adds the parts. Returns the sum in `op`'s shape."""
    sizes = shape(op.results[0])
    width = math.prod(sizes)
    rows = math.prod(shape(x)) // width
    x = b.reshape(x, [rows, width])
    if rows % _PARTS:
        x = b.pad(x, b.zero(with_shape(x.type, [])), [0, 0], [-rows % _PARTS, 0], [0, 0])
    parts = b.reduce_sum(b.reshape(x, [-(-rows // _PARTS), _PARTS, width]), [0])
    return b.reshape(b.reduce_sum(parts, [0]), sizes)
