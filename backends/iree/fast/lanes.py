"""reductions_in_lanes: sums along the last dimensions, on CPUs, as some sums next to each other, which then are added.

    %0 = reduce add %x, dimensions = [1] : tensor<9x400xf32>
    ->  %1 = reduce add (reshape %x to 9x25x16), dimensions = [1];  %0 = reduce add %1, dimensions = [1]

IREE adds one element after the other, since the order matters to floats; a reduction of StableHLO may take any order
(specification, reduce). In lanes it is a loop over vectors, and the rounding errors of a sum are smaller.

A sum of products IREE takes for a product of matrices, which is slower code. Of x y + (-0), in one op that rounds once,
it does not; that is x y, its sign and NaN included, and LLVM makes it a multiplication on any CPU.

Of sizes that are no multiple of lanes, the last of several dimensions is what is next to each other. A sum of one
dimension to one number is padded with what adds nothing: -0, which leaves -0 as it is, or 1 of a product.
"""

import math
from collections.abc import Sequence
from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.emitter import Emitter, within
from tiduc.backends.iree.fast.barriers import DEAR
from tiduc.dialect.bodies import reducer
from tiduc.dialect.context import stage
from tiduc.dialect.types import element, shape, with_shape

_LANES = *range(256, 31, -32), 16, 8
_FEW = 32  # below which code for each lane alone, or for few, is what costs
_STEPS = 16  # of each lane at least: with fewer the second step costs what the first one saves
_LARGE = 2**12  # elements in all, below which a call takes as long anyway
_NEUTRAL = {
    "stablehlo.add": -0.0,
    "stablehlo.maximum": -math.inf,
    "stablehlo.minimum": math.inf,
    "stablehlo.multiply": 1.0,
}


_EXTREMA = "stablehlo.maximum", "stablehlo.minimum"
_HEAVY = frozenset(f"stablehlo.{name}" for name in "atan2 cosine log_plus_one power sine tan".split()) | {
    f"chlo.{name}" for name in "bessel_i1e digamma erf erf_inv erfc lgamma polygamma zeta".split()
}
_FAR = 32  # ops that are looked at, more than IREE puts together


@stage
def reductions_in_lanes(module: Any) -> int:
    """Rewrites reductions in place; how many."""
    made = 0
    for op in within(module.operation):
        if op.name == "stablehlo.reduce" and _pays(op):
            b = Emitter(ir.InsertionPoint(op), op.location)
            op.results[0].replace_all_uses_with(_in_lanes(b, op))
            op.erase()
            made += 1
    return made


def _pays(op: Any) -> bool:
    x = op.operands[0]
    if len(op.results) != 1 or not x.type.has_static_shape:
        return False
    if not isinstance(element(x), ir.F32Type | ir.F64Type) or reducer(op) not in _NEUTRAL:
        return False
    sizes, dimensions = shape(x), sorted(op.attributes["dimensions"])
    kept = len(sizes) - len(dimensions)
    if dimensions != list(range(kept, len(sizes))) or math.prod(sizes) < _LARGE:
        return False
    if not kept and reducer(op) in _EXTREMA:  # one number: IREE's code is a loop over vectors already
        return False
    lanes = _lanes(math.prod(sizes[kept:]))
    if lanes is None:
        return not kept or _is_by_rows(sizes[kept:])
    return lanes >= _FEW or not _follows(x, _HEAVY if kept else _HEAVY | DEAR)


def _follows(x: Any, names: frozenset[str]) -> bool:
    """A value is computed from an op of these names, which IREE may put into the same code."""
    waiting, seen = [x], set[Any]()
    while waiting and len(seen) < _FAR:
        x = waiting.pop()
        if not isinstance(x, ir.OpResult) or x in seen or x.owner.name in _APART:
            continue
        if x.owner.name in names:
            return True
        seen.add(x)
        waiting += list(x.owner.operands)
    return False


_APART = frozenset(
    f"stablehlo.{name}"
    for name in "convolution dot_general gather optimization_barrier reduce scatter sort while".split()
)


def _lanes(n: int) -> int | None:
    """Into how many a reduction of n elements is split; None where it stays as it is."""
    return next((lanes for lanes in _LANES if n % lanes == 0 and n >= lanes * _STEPS), None)


def _is_by_rows(sizes: Sequence[int]) -> bool:
    """What is reduced are many rows of many numbers."""
    return len(sizes) > 1 and sizes[-1] >= _FEW and math.prod(sizes[:-1]) >= _STEPS


def _in_lanes(b: Emitter, op: Any) -> Any:
    x, init = _summed(b, op), op.operands[1]
    neutral = b.constant(_NEUTRAL[str(reducer(op))], init)
    kept = shape(x)[: len(shape(x)) - len(op.attributes["dimensions"])]
    reduced = shape(x)[len(kept) :]
    n = math.prod(reduced)
    lanes = _lanes(n)
    if lanes is not None:
        y = b.reshape(x, [*kept, n // lanes, lanes])
    elif _is_by_rows(reduced):
        lanes, y = reduced[-1], x
    else:
        lanes = _LANES[0]
        y = b.pad(b.reshape(x, [n]), neutral, [0], [-n % lanes], [0])
        y = b.reshape(y, [-(-n // lanes), lanes])
    first = range(len(kept), len(shape(y)) - 1)
    # The initial value counts once.
    y = _reduced(b, op, y, neutral, first, with_shape(x.type, [*kept, lanes]))
    return _reduced(b, op, y, init, [len(kept)], op.results[0].type)


def _summed(b: Emitter, op: Any) -> Any:
    """What is reduced, but for products that nothing else reads: in one op with the sum, as no product is to IREE."""
    x = op.operands[0]
    if reducer(op) != "stablehlo.add" or not isinstance(x, ir.OpResult) or len(list(x.uses)) > 1:
        return x
    if x.owner.name != "stablehlo.multiply":
        return x
    return b.emit("math.fma", (*x.owner.operands, b.constant(-0.0, x)), x.type)


def _reduced(b: Emitter, op: Any, x: Any, start: Any, dimensions: Sequence[int], type_: Any) -> Any:
    """The array reduced by the op's body along dimensions."""
    body = b.region([start.type] * 2, lambda b, *xs: b.inlined(op.regions[0], xs))
    along = {"dimensions": ir.DenseI64ArrayAttr.get(list(dimensions))}
    return b.emit_all("stablehlo.reduce", (x, start), (type_,), along, [body])[0]
