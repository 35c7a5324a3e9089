"""Slices in kernels: a gather of one slice becomes a slice, and slices of one element become scalars."""

import math
from typing import Any

from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.backends.iree.emitter import Emitter
from tiduc.backends.iree.fast.kernels import Kernel
from tiduc.dialect.types import element, shape, with_shape

UPDATE = "stablehlo.dynamic_update_slice"
OF_SLICES = ("stablehlo.dynamic_slice", UPDATE)
GATHER = "stablehlo.gather"


def is_one_slice(op: Any) -> bool:
    """Whether an op is a gather of one slice, whose index legalization has clamped.

    Outside of kernels such a gather stays, since for a slice the host would have to read the index.
    """
    if op.name != GATHER:
        return False
    count = len(hlo.GatherDimensionNumbers(op.attributes["dimension_numbers"]).start_index_map)
    return count > 0 and math.prod(shape(op.operands[1])) == count


def as_slice(gather: Any) -> None:
    """Rewrites a gather of one slice as a dynamic_slice."""
    b = Emitter(ir.InsertionPoint(gather), gather.location)
    x, index = gather.operands
    to = list(hlo.GatherDimensionNumbers(gather.attributes["dimension_numbers"]).start_index_map)
    index = b.reshape(index, [len(to)])
    start = [b.constant(0, with_shape(index.type, []))] * len(shape(x))
    for k, i in enumerate(to):
        start[i] = b.reshape(b.slice(index, [k], [k + 1], [1]), [])
    y = b.dynamic_slice(x, start, list(gather.attributes["slice_sizes"]))
    gather.results[0].replace_all_uses_with(b.reshape(y, shape(gather.results[0])))
    gather.erase()


def as_number(op: Any) -> None:
    """Rewrites a read or update of a slice to scalar ops, if the slice is one element and no predicate.

    As a slice, the element would be a part of the array and would have to be read before the array is updated. IREE
    stores predicates as bytes.
    """
    size = math.prod(shape(op.operands[1] if op.name == UPDATE else op.results[0]))
    if size > 1 or element(op.operands[0]).width == 1:
        return
    k = Kernel(ir.InsertionPoint(op), op.location)
    x, *starts = op.operands
    (update,) = starts[:1] if op.name == UPDATE else (None,)
    place = []
    for start, n in zip(starts[update is not None :], shape(x), strict=True):
        number = k.element(start)
        zero, last = (k.number(i, number.type) for i in (0, n - 1))
        place.append(k.cast(k.arith("minsi", k.arith("maxsi", number, zero), last), ir.IndexType.get()))
    if update is None:
        y = k.emit("tensor.from_elements", (k.element(x, *place),), op.results[0].type)
    else:
        y = k.put(k.element(update, *[0] * len(place)), x, *place)
    op.results[0].replace_all_uses_with(y)
    op.erase()
