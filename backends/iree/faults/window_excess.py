"""Elements at the end of a dimension that its only window does not reach, which IREE includes.

10 elements, one window of 7 at a stride of 4    ->    7 elements, one window of 7
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.backends.iree.emitter import Emitter
from tiduc.dialect.types import is_open, shape


def drop_excess(b: Emitter, op: Any) -> None:
    """Trims operands of a convolution or reduce_window, in place, to the end of a dimension's only window."""
    if any(is_open(x.type) for x in (*op.operands, *op.results)):
        return
    if op.name == "stablehlo.convolution":
        d = hlo.ConvDimensionNumbers(op.attributes["dimension_numbers"])
        xs, dimensions = [op.operands[0]], list(d.input_spatial_dimensions)
        windows = [shape(op.operands[1])[i] for i in d.kernel_spatial_dimensions]
        counts = [shape(op.results[0])[i] for i in d.output_spatial_dimensions]
        dilations = _numbers(op, "lhs_dilation", len(windows)), _numbers(op, "rhs_dilation", len(windows))
    else:
        xs = list(op.operands)[: len(op.results)]
        windows, counts = list(op.attributes["window_dimensions"]), shape(op.results[0])
        dimensions = list(range(len(windows)))
        dilations = (
            _numbers(op, "base_dilations", len(windows)),
            _numbers(op, "window_dilations", len(windows)),
        )
    padding = np.zeros((len(windows), 2), np.int64)
    if "padding" in op.attributes:
        padding += np.array(op.attributes["padding"])
    sizes = shape(xs[0])
    ends = list(sizes)
    for k, i in enumerate(dimensions):
        covered = (windows[k] - 1) * dilations[1][k] + 1 - padding[k, 0]
        given = (sizes[i] - 1) * dilations[0][k] + 1
        if counts[k] != 1 or given + padding[k, 1] <= covered or not 0 < covered:
            continue
        ends[i] = min(sizes[i], (covered - 1) // dilations[0][k] + 1)
        padding[k, 1] = covered - (ends[i] - 1) * dilations[0][k] - 1
    if ends != sizes:
        for i, x in enumerate(xs):
            op.operands[i] = b.slice(x, [0] * len(sizes), ends, [1] * len(sizes))
    if ends != sizes or "padding" in op.attributes:
        op.attributes["padding"] = ir.DenseIntElementsAttr.get(padding)


def _numbers(op: Any, name: str, count: int) -> Sequence[int]:
    return list(op.attributes[name]) if name in op.attributes else [1] * count
