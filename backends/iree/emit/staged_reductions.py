"""Splits a reduction into stages if IREE's code for GPUs would reduce all elements in one thread.

70,000 elements    ->    137 rows of 512, padded with initial values, are reduced to 137 elements, then to one

IREE uses one thread if the elements are complex or the body has several ops. One thread is slow, and Mesa's software
device ends a thread after 65,535 steps. StableHLO allows stages: a reduction may group consecutive elements in any way,
and may insert initial values anywhere (specification, reduce).
"""

import math
from collections.abc import Sequence

from tiduc.backends.iree.emit.emitter import Emitter
from tiduc.dialect.emitters.bodies import reducer
from tiduc.dialect.emitters.protocol import Fill
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.shapes.types import dims, is_complex, shape, with_shape

_STEPS = 2**12
"""The most elements that one thread reduces."""


def in_stages(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Computes a reduction of static shape in several stages; returns its results.

    Returns None if a result combines at most `_STEPS` elements, or if IREE divides the reduction among threads.
    """
    count = len(op.results)
    xs, inits = tuple(op.operands)[:count], tuple(op.operands)[count:]
    dimensions = sorted(op.attributes["dimensions"])
    if math.prod(shape(xs[0])[d] for d in dimensions) <= _STEPS or _is_plain(op):
        return None
    body = b.copied_region(op.regions[0])
    for d in reversed(dimensions):  # in descending order, so that the remaining dimensions keep their numbers
        n = shape(xs[0])[d]
        if n > _STEPS:
            width = 1 << ((n - 1).bit_length() + 1) // 2
            rows = tuple(_in_rows(b, x, init, d, width) for x, init in zip(xs, inits, strict=True))
            xs = _reduced(b, rows, inits, d + 1, body)
        xs = _reduced(b, xs, inits, d, body)
    return xs


def _reduced(
    b: Emitter, xs: Sequence[IrValue], inits: Sequence[IrValue], dimension: int, body: Fill
) -> tuple[IrValue, ...]:
    """Reduces several arrays together along one dimension."""
    types = [with_shape(x.type, [n for i, n in enumerate(shape(x)) if i != dimension]) for x in xs]
    dimensions = {"dimensions": dims([dimension])}
    return b.emit_all("stablehlo.reduce", [*xs, *inits], types, dimensions, [body])


def _is_plain(op: IrOp) -> bool:
    """Whether the body is one op on real numbers. IREE divides such a reduction among many threads."""
    return len(op.results) == 1 and not is_complex(op.results[0]) and reducer(op) is not None


def _in_rows(b: Emitter, x: IrValue, init: IrValue, dimension: int, width: int) -> IrValue:
    """Splits a dimension of x into two dimensions, (rows, `width`). The last row is padded with `init`."""
    sizes, rank = shape(x), len(shape(x))
    high = [-n % width if i == dimension else 0 for i, n in enumerate(sizes)]
    filled = b.pad(x, init, [0] * rank, high, [0] * rank) if any(high) else x
    count = (sizes[dimension] + high[dimension]) // width
    return b.reshape(filled, [*sizes[:dimension], count, width, *sizes[dimension + 1 :]])
