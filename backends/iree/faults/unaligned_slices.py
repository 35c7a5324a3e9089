"""Rewrites contiguous slices, and concatenations, at unaligned offsets for SPIR-V.

    %y = slice %x [3:163]   ->   %y = gather %x, (optimization_barrier 3), slice_sizes = [160]

IREE reads a contiguous slice in place, and loads four elements at once, from indices that are multiples of four. If the
slice begins at another index, IREE loads wrong elements. A gather reads one element at a time.

Similarly, an operand of a concatenation overwrites its neighbours if it begins at such an index of the result. A
barrier before the operand prevents this.
"""

import math
from collections.abc import Sequence

from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.backends.iree.emit.emitter import ON_SPIRV, Emitter, legalize, signless
from tiduc.backends.iree.fault import wrong
from tiduc.dialect.graph.dependences import RESHAPES
from tiduc.dialect.graph.matching import defined_by, traced
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.shapes.types import is_dynamic, shape

_AT_ONCE = 4
_FEW = 16
"""IREE reads an array of fewer than 16 elements one element at a time."""


@legalize("stablehlo.slice", "stablehlo.dynamic_slice", where=ON_SPIRV)
@wrong(
    "A contiguous slice reads wrong elements if its offset may not be a multiple of 4 elements; tiduc emits a gather.",
    "vulkan/slices",
)
def slice_(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Computes the slice by a gather. Returns None if IREE is known to read the slice correctly.

    Also returns None if the sliced array has a dynamic shape.
    """
    x, *starts = op.operands
    y = op.results[0]
    if is_dynamic(x.type) or not _by_fours(y) or _is_aligned(op):
        return None
    if starts:
        index = b.concatenate([b.reshape(start, [1]) for start in starts], 0)
    else:
        start = b.table(list(op.attributes["start_indices"]), signless(32 if max(shape(x)) < 2**31 else 64))
        (index,) = b.barrier(start)
    every = list(range(len(shape(x))))
    numbers = hlo.GatherDimensionNumbers.get(every, [], [], [], every, 0)
    return [b.gather(x, index, numbers, shape(y), y.type)]


def _is_aligned(op: IrOp) -> bool:
    """Whether the offset of a slice is known to be a multiple of four. True also if the slice is not contiguous."""
    x, y = op.operands[0], op.results[0]
    if op.name == "stablehlo.slice":
        return _piece(op) is None or not _offset(y) % _AT_ONCE
    grain = _grain(shape(x), shape(y))
    return grain is None or not (grain % _AT_ONCE or _offset(x) % _AT_ONCE)


def _by_fours(y: IrValue) -> bool:
    """Whether IREE may load or write four elements of an array at once."""
    count: int = math.prod(shape(y))
    return count >= _FEW and count % _AT_ONCE == 0


def _grain(sizes: Sequence[int], part: Sequence[int]) -> int | None:
    """A number that divides the offsets of all slices of the sizes `part` in an array of the sizes `sizes`.

    Returns None if these slices are not contiguous.
    """
    d = next((i for i, n in enumerate(part) if n != 1), len(part))
    if list(part[d + 1 :]) != list(sizes[d + 1 :]):
        return None
    return math.prod(sizes[d + 1 :])


def _piece(op: IrOp) -> int | None:
    """The offset, in elements, of a slice in its operand. None if the slice is not contiguous."""
    x, y = op.operands[0], op.results[0]
    if set(op.attributes["strides"]) - {1} or _grain(shape(x), shape(y)) is None:
        return None
    place = 0
    for n, start in zip(shape(x), op.attributes["start_indices"], strict=True):
        place = place * n + start
    return place


def _offset(x: IrValue) -> int:
    """If x is a slice of an array, or a slice of a slice, returns the offset of x in this array, in elements.

    Stops at a slice that is not contiguous: x lies in the result of that slice. Returns 0 if x is not a slice.
    """
    offset = 0
    for y in traced(x, (*RESHAPES, "stablehlo.slice")):
        if is_dynamic(y.type):
            break
        if (part := defined_by(y, "stablehlo.slice")) is not None:
            place = None if is_dynamic(part.operands[0].type) else _piece(part)
            if place is None:
                break
            offset += place
    return offset


@legalize("stablehlo.concatenate", where=ON_SPIRV)
@wrong(
    "An operand whose offset is not a multiple of 4 elements overwrites its neighbours; barriers copy the operands.",
    "vulkan/concatenated",
)
def concatenate(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Puts a barrier before each operand that IREE may write wrongly, in place.

    The offset of such an operand in the result is not a multiple of four, and IREE may write four of its elements at
    once. Changes nothing if the operands are not contiguous in the result, or if the shape is dynamic. Returns None,
    because the op itself stays.
    """
    y, place = op.results[0], 0
    d = ir.IntegerAttr(op.attributes["dimension"]).value
    if is_dynamic(y.type) or math.prod(shape(y)[:d]) != 1:
        return None
    for i, x in enumerate(op.operands):
        if place % _AT_ONCE and _by_fours(x):
            op.operands[i] = b.barrier(x)[0]
        place += math.prod(shape(x))
    return None
