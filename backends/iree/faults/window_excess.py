"""Elements at the end of a dimension that its only window does not reach, which IREE includes.

10 elements, one window of 7 at a stride of 4    ->    7 elements, one window of 7
"""

from typing import Any

from tiduc.backends.iree.emitter import Emitter
from tiduc.backends.iree.missing.dynamic.arrays import has_open_sizes
from tiduc.dialect.types import shape
from tiduc.dialect.windows import Layout, dilated, padding, window_of, window_of_convolution


def drop_excess(b: Emitter, op: Any) -> None:
    """Trims operands of a convolution or reduce_window, in place, to the end of a dimension's only window."""
    if has_open_sizes(op):
        return
    if op.name == "stablehlo.convolution":
        window, layout, count = window_of_convolution(op), Layout.of(op), 1
        pairs = list(zip(layout.input[2:], layout.output[2:], strict=True))
    else:
        window, count = window_of(op), len(op.results)
        pairs = [(d, d) for d in range(len(window.sizes))]
    sizes, places = shape(op.operands[0]), shape(op.results[0])
    ends, high = list(sizes), list(window.high)
    for k, (d, place) in enumerate(pairs):
        covered, base = window.extent[k] - window.low[k], window.base[k]
        if places[place] == 1 and dilated(sizes[d], base) + high[k] > covered > 0:
            ends[d] = min(sizes[d], (covered - 1) // base + 1)
            high[k] = covered - dilated(ends[d], base)
    if ends != sizes:
        for i in range(count):
            op.operands[i] = b.slice(op.operands[i], [0] * len(sizes), ends, [1] * len(sizes))
    if high != list(window.high):
        op.attributes["padding"] = padding(window.low, high)
