"""Slices that begin anywhere, for SPIR-V: parts of an array that lie in one piece.

    %y = slice %x [3:163]   ->   %y = gather %x, (optimization_barrier 3), slice_sizes = [160]

IREE reads such a part where it lies, from its first byte on, by code that takes four elements at once from places that
are multiples of four, and so others, where the part begins between these. A gather reads element by element.
"""

import math
from collections.abc import Sequence
from typing import Any

from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.backends.iree.emitter import Emitter, legalize, signless
from tiduc.dialect.types import is_open, shape

_AT_ONCE = 4
_FEW = 16
"""Elements below which code takes them one by one."""


@legalize("stablehlo.slice", spirv=True)
def slice_(b: Emitter, op: Any) -> Sequence[Any] | None:
    """What lies in one piece and begins at no fourth element is read from other places: a gather."""
    x, y = op.operands[0], op.results[0]
    if is_open(x.type) or not _by_fours(y) or _piece(op) is None or not _offset(y) % _AT_ONCE:
        return None
    start = list(op.attributes["start_indices"])
    (index,) = b.barrier(b.table(start, signless(32 if max(shape(x)) < 2**31 else 64)))
    return [_gathered(b, x, index, shape(y))]


@legalize("stablehlo.dynamic_slice", spirv=True)
def dynamic_slice(b: Emitter, op: Any) -> Sequence[Any] | None:
    """As a slice, and it may begin between fourth elements: a gather."""
    x, *starts = op.operands
    y = op.results[0]
    if is_open(x.type) or not _by_fours(y):
        return None
    grain = _grain(shape(x), shape(y))
    if grain is None or (grain % _AT_ONCE == 0 and not _offset(x) % _AT_ONCE):
        return None
    index = b.concatenate([b.reshape(start, [1]) for start in starts], 0)
    return [_gathered(b, x, index, shape(y))]


def _gathered(b: Emitter, x: Any, index: Any, sizes: Sequence[int]) -> Any:
    """The part of x of these sizes that begins at an index vector."""
    every = list(range(len(sizes)))
    attributes = {
        "dimension_numbers": hlo.GatherDimensionNumbers.get(every, [], [], [], every, 0),
        "slice_sizes": ir.DenseI64ArrayAttr.get(list(sizes)),
    }
    type_ = ir.RankedTensorType.get(list(sizes), x.type.element_type)
    return b.emit("stablehlo.gather", (x, index), type_, attributes)


def _by_fours(y: Any) -> bool:
    """Code may take the elements of an array four at once."""
    count: int = math.prod(shape(y))
    return count >= _FEW and count % _AT_ONCE == 0


def _grain(sizes: Sequence[int], part: Sequence[int]) -> int | None:
    """The distance of two parts of an array that are next to each other; None where they are not in one piece."""
    d = next((i for i, n in enumerate(part) if n != 1), len(part))
    if list(part[d + 1 :]) != list(sizes[d + 1 :]):
        return None
    return math.prod(sizes[d + 1 :])


def _piece(op: Any) -> int | None:
    """The first place of a slice in its operand; None where it is not in one piece."""
    x, y = op.operands[0], op.results[0]
    if set(op.attributes["strides"]) - {1} or _grain(shape(x), shape(y)) is None:
        return None
    place = 0
    for n, start in zip(shape(x), op.attributes["start_indices"], strict=True):
        place = place * n + start
    return place


def _offset(x: Any) -> int:
    """The first place of an array in what it is a part of, perhaps of a part of that."""
    offset = 0
    while not isinstance(x.owner, ir.Block):
        name, i = x.owner.name, 0
        if name == "stablehlo.slice":
            place = _piece(x.owner)
            if place is None:
                return offset
            offset += place
        elif name == "stablehlo.optimization_barrier":
            i = x.result_number
        elif name != "stablehlo.reshape":
            return offset
        x = x.owner.operands[i]
        if is_open(x.type):
            return offset
    return offset


@legalize("stablehlo.concatenate", spirv=True)
def concatenate(b: Emitter, op: Any) -> Sequence[Any] | None:
    """What is computed right into its place there is written to other places, too: behind a barrier, it is copied."""
    y, place = op.results[0], 0
    d = ir.IntegerAttr(op.attributes["dimension"]).value
    if is_open(y.type) or math.prod(shape(y)[:d]) != 1:
        return None
    for i, x in enumerate(op.operands):
        if place % _AT_ONCE and _by_fours(x):
            op.operands[i] = b.barrier(x)[0]
        place += math.prod(shape(x))
    return None
