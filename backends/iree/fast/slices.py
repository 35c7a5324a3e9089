"""Slices in kernels: a gather of one slice is read as one, and slices of one element are numbers."""

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
    """A gather at one index, which is in range, as legalized: a slice, for which the host would have to read it."""
    if op.name != GATHER:
        return False
    count = len(hlo.GatherDimensionNumbers(op.attributes["dimension_numbers"]).start_index_map)
    return count > 0 and math.prod(shape(op.operands[1])) == count


def as_slice(gather: Any) -> None:
    """A gather of one slice as a slice."""
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


def is_number(op: Any) -> bool:
    """A slice that is read, or updated, is one element, and no truth value, of which IREE's arrays have bytes."""
    return (
        element(op.operands[0]).width > 1
        and int(math.prod(shape(op.operands[1] if op.name == UPDATE else op.results[0]))) == 1
    )


def as_number(op: Any) -> None:
    """A slice of one element is that number: as a part of the array it would have to be read before updates of it."""
    k = Kernel(ir.InsertionPoint(op), op.location)
    x, *starts = op.operands
    (update,) = starts[:1] if op.name == UPDATE else (None,)
    place = []
    for start, n in zip(starts[update is not None :], shape(x), strict=True):
        number = k.element(start)
        zero, last = (k.cast(k.index(i), number.type) for i in (0, n - 1))
        number = k.arith("minsi", k.arith("maxsi", number, zero), last)
        place.append(k.cast(number, ir.IndexType.get()))
    if update is None:
        made = k.emit("tensor.from_elements", (k.element(x, *place),), op.results[0].type)
    else:
        made = k.put(k.element(update, *[k.index(0)] * len(place)), x, *place)
    op.results[0].replace_all_uses_with(made)
    op.erase()
