"""reductions_in_lanes: splits reductions to one number into lanes, on CPUs, and then reduces the lanes.

    %0 = reduce add %x, dimensions = [0] : tensor<3600xf32>
    ->  %1 = reduce add (reshape %x to 225x16), dimensions = [0];  %0 = reduce add %1, dimensions = [0]

With the flag `--iree-llvmcpu-reassociate-fp-reductions`, IREE vectorizes reductions: StableHLO allows any order of the
elements (specification, reduce). Lanes are still faster for reductions to one number, whose rounding errors they also
make smaller. Sums of rows are as fast without.

IREE treats a sum of products as a product of matrices, for which its code is slower. It does not recognize the fused
multiply-add x y + (-0), which equals x y, including signs and NaN; LLVM turns it into a multiplication on any CPU.

If no lane count divides the number of elements, the last of several dimensions supplies the lanes. Otherwise, the array
is padded with the neutral element: -0 for a sum, since -0 + -0 is -0, 1 for a product.
"""

import math
from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.emitter import Emitter, rewrite
from tiduc.backends.iree.fault import slow
from tiduc.dialect.bodies import reducer
from tiduc.dialect.context import stage
from tiduc.dialect.dependences import defined_by
from tiduc.dialect.traits import ASSOCIATIVE, NEUTRAL
from tiduc.dialect.types import element, shape

_LANES = tuple(range(256, 31, -32))
_STEPS = 16  # the fewest elements per lane; with fewer, reducing the lanes costs more than it saves
_LARGE = 2**12  # the fewest elements; with fewer, the time of the call itself dominates


@slow("Adds the elements of a sum one after the other; up to 256 sums side by side instead.")
@stage
def reductions_in_lanes(module: Any) -> int:
    """Rewrites reductions in place; gives their number."""
    return rewrite(module, {"stablehlo.reduce": lambda b, op: _in_lanes(b, op) if _pays(op) else None})


def _pays(op: Any) -> bool:
    """Whether an op is a large reduction of f32 or f64 along the last dimensions, by an op with a neutral element."""
    x = op.operands[0]
    if len(op.results) != 1 or not x.type.has_static_shape or math.prod(shape(x)) < _LARGE:
        return False
    if not isinstance(element(x), ir.F32Type | ir.F64Type) or reducer(op) not in NEUTRAL.keys() & ASSOCIATIVE:
        return False
    rank, dimensions = len(shape(x)), sorted(op.attributes["dimensions"])
    return dimensions == list(range(rank - len(dimensions), rank))


def _in_lanes(b: Emitter, op: Any) -> list[Any] | None:
    """The result of a reduction: in two steps if it is one number; None if the op stays as it is."""
    sizes, init = shape(op.operands[0]), op.operands[1]
    combine, x = str(reducer(op)), _summed(b, op)
    if op.results[0].type.shape:
        dimensions = list(op.attributes["dimensions"])
        return None if x == op.operands[0] else [b.reduce(x, init, dimensions, combine)]
    n, neutral = math.prod(sizes), b.constant(NEUTRAL[combine], init)
    lanes = next((lanes for lanes in _LANES if n % lanes == 0 and n >= lanes * _STEPS), None)
    if lanes is None and len(sizes) > 1 and sizes[-1] >= _LANES[-1] and n >= sizes[-1] * _STEPS:
        lanes = sizes[-1]
    if lanes is None:
        lanes = _LANES[0]
        x = b.pad(b.reshape(x, [n]), neutral, [0], [-n % lanes], [0])
    steps = -(-n // lanes)
    # Lanes start from the neutral element, so that the initial value counts once.
    x = b.reduce(b.reshape(x, [steps, lanes]), neutral, [0], combine)
    return [b.reduce(x, init, [0], combine)]


def _summed(b: Emitter, op: Any) -> Any:
    """The array to reduce; a product that only a sum reads becomes x y + (-0), no matmul for IREE."""
    x = op.operands[0]
    product = defined_by(x, "stablehlo.multiply")
    if reducer(op) != "stablehlo.add" or product is None or len(list(x.uses)) > 1:
        return x
    left, right = product.operands
    return b.fma(left, right, b.constant(-0.0, x))
