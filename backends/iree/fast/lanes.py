"""reductions_in_lanes: splits reductions along the last dimensions into lanes that are reduced afterwards, on CPUs.

    %0 = reduce add %x, dimensions = [1] : tensor<9x400xf32>
    ->  %1 = reduce add (reshape %x to 9x25x16), dimensions = [1];  %0 = reduce add %1, dimensions = [1]

IREE adds one element after the other, since floating-point addition is not associative; StableHLO allows any order
(specification, reduce). With lanes the loop is vectorized, and the rounding errors of a sum are smaller.

IREE treats a sum of products as a product of matrices, for which its code is slower. It does not recognize the fused
multiply-add x y + (-0), which equals x y, including signs and NaN; LLVM turns it into a multiplication on any CPU.

If no lane count divides the number of elements, the last of several reduced dimensions supplies the lanes. Otherwise,
a reduction to a single number is padded with the neutral element: -0 for a sum, since -0 + -0 is -0, 1 for a product.
"""

import math
from collections.abc import Sequence
from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.dependences import computed_from
from tiduc.backends.iree.emitter import Emitter, within
from tiduc.backends.iree.fast.barriers import DEAR
from tiduc.backends.iree.fault import Fault, mends
from tiduc.dialect.bodies import reducer
from tiduc.dialect.context import stage
from tiduc.dialect.traits import ASSOCIATIVE, NEUTRAL
from tiduc.dialect.types import element, shape, with_shape

_LANES = *range(256, 31, -32), 16, 8
_FEW = 32  # lanes; with fewer, code for single lanes dominates
_STEPS = 16  # elements per lane, at least; with fewer, the second step costs what the first one saves
_LARGE = 2**12  # elements in all; for fewer, a call takes as long anyway
_EXTREMA = "stablehlo.maximum", "stablehlo.minimum"
_HEAVY = frozenset(f"stablehlo.{name}" for name in "atan2 cosine log_plus_one power sine tan".split()) | {
    f"chlo.{name}" for name in "bessel_i1e digamma erf erf_inv erfc lgamma polygamma zeta".split()
}


@mends(Fault("slow", "Adds the elements of a sum one after the other; up to 256 sums side by side instead."))
@stage
def reductions_in_lanes(module: Any) -> int:
    """Rewrites reductions in place; gives their number."""
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
    if not isinstance(element(x), ir.F32Type | ir.F64Type) or reducer(op) not in NEUTRAL.keys() & ASSOCIATIVE:
        return False
    sizes, dimensions = shape(x), sorted(op.attributes["dimensions"])
    kept = len(sizes) - len(dimensions)
    if dimensions != list(range(kept, len(sizes))) or math.prod(sizes) < _LARGE:
        return False
    if not kept and reducer(op) in _EXTREMA:  # to one number: IREE vectorizes this already
        return False
    lanes = _lanes(math.prod(sizes[kept:]))
    if lanes is None:
        return not kept or _is_by_rows(sizes[kept:])
    return lanes >= _FEW or not _follows(x, _HEAVY if kept else _HEAVY | DEAR)


def _follows(x: Any, names: frozenset[str]) -> bool:
    """Whether a value is computed from an op of these names that IREE may fuse with the value's reader."""
    return computed_from(x, lambda op: op.name in names, lambda op: op.name not in _UNFUSED)


_UNFUSED = frozenset(
    f"stablehlo.{name}"
    for name in "convolution dot_general gather optimization_barrier reduce scatter sort while".split()
)


def _lanes(n: int) -> int | None:
    """The number of lanes for a reduction of n elements; None if no lane count fits."""
    return next((lanes for lanes in _LANES if n % lanes == 0 and n >= lanes * _STEPS), None)


def _is_by_rows(sizes: Sequence[int]) -> bool:
    """Whether the reduced dimensions are enough rows of enough elements to use a row as the lanes."""
    return len(sizes) > 1 and sizes[-1] >= _FEW and math.prod(sizes[:-1]) >= _STEPS


def _in_lanes(b: Emitter, op: Any) -> Any:
    x, init = _summed(b, op), op.operands[1]
    neutral = b.constant(NEUTRAL[str(reducer(op))], init)
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
    # Lanes start from the neutral element, so that the initial value counts once.
    y = _reduced(b, op, y, neutral, first, with_shape(x.type, [*kept, lanes]))
    return _reduced(b, op, y, init, [len(kept)], op.results[0].type)


def _summed(b: Emitter, op: Any) -> Any:
    """The array to reduce; a product that only a sum reads becomes x y + (-0), no matrix product to IREE."""
    x = op.operands[0]
    if reducer(op) != "stablehlo.add" or not isinstance(x, ir.OpResult) or len(list(x.uses)) > 1:
        return x
    if x.owner.name != "stablehlo.multiply":
        return x
    return b.emit("math.fma", (*x.owner.operands, b.constant(-0.0, x)), x.type)


def _reduced(b: Emitter, op: Any, x: Any, start: Any, dimensions: Sequence[int], type_: Any) -> Any:
    """The array x reduced by the op's body along `dimensions`, from `start`."""
    body = b.region([start.type] * 2, lambda b, *xs: b.inlined(op.regions[0], xs))
    along = {"dimensions": ir.DenseI64ArrayAttr.get(list(dimensions))}
    return b.emit_all("stablehlo.reduce", (x, start), (type_,), along, [body])[0]
