"""Slices in kernels: a gather of one slice becomes a slice."""

import math
from typing import Any

from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.backends.iree.emitter import Emitter
from tiduc.dialect.functions import replace
from tiduc.dialect.types import shape, with_shape

UPDATE = "stablehlo.dynamic_update_slice"
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
    replace(gather, [b.reshape(y, shape(gather.results[0]))])
