"""`spread_windows`: adds one number for each window to one element of the window, without a scatter."""

import functools
import math
from collections.abc import Sequence

import numpy as np

from tiduc.backends.iree.emit.emitter import Emitter
from tiduc.dialect.facts.windows import Window, dilated
from tiduc.dialect.ops.ir_types import IrValue
from tiduc.dialect.shapes.types import shape, with_shape

MOST_TERMS = 64
"""The most elements of a window for which callers use `spread_windows`: it adds one array for each element."""


def spread_windows(b: Emitter, source: IrValue, chosen: IrValue, w: Window, sizes: Sequence[int]) -> IrValue:
    """An array of shape `sizes` in which element i is the sum of `source[v]` over the windows v with `chosen[v] = i`.

    `source` and `chosen` have one entry for each window; i is a row-major index. This form is for GPUs, where a scatter
    would apply its updates in one thread. The result is the sum of one array for each offset in a window: the array has
    the entries of `source` for the windows that chose the element at this offset, and zeros elsewhere.
    """
    places, rank, total = shape(source), range(len(sizes)), None
    numbers = chosen.type
    steps = [math.prod(sizes[d + 1 :]) for d in rank]
    starts = [b.multiply(b.iota(d, numbers), b.constant(w.strides[d] * steps[d], numbers)) for d in rank]
    first = functools.reduce(b.add, starts, b.constant(0, numbers))
    none, zero = b.constant(0, source), b.constant(0, with_shape(source.type, []))
    for k in np.ndindex(*w.sizes):
        low = [k[d] * w.dilation[d] - w.low[d] for d in rank]
        high = [sizes[d] - low[d] - dilated(places[d], w.strides[d]) for d in rank]
        number = b.add(first, b.constant(sum(low[d] * steps[d] for d in rank), numbers))
        term = b.select(b.compare(chosen, number, "EQ"), source, none)
        term = b.pad(term, zero, low, high, [n - 1 for n in w.strides])
        total = term if total is None else b.add(total, term)
    assert total is not None, "a window has an element"
    return total
