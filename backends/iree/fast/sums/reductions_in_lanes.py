"""reductions_in_lanes: on CPUs, reduces an array first to a vector of partial results (lanes), and these to a scalar.

    %0 = reduce add %x, dimensions = [0] : tensor<3600xf32>
    ->  %1 = reduce add (reshape %x to 225x16), dimensions = [0];  %0 = reduce add %1, dimensions = [0]

IREE vectorizes reductions itself, with the flag `--iree-llvmcpu-reassociate-fp-reductions`; StableHLO allows any order
of the elements (specification, reduce). For reductions to a scalar, lanes are still faster, and rounding errors are
smaller. Sums of rows are not faster with lanes.

The pass also rewrites two kinds of sums, to scalars or arrays:

- IREE compiles a sum of products as a matrix product, which is slower unless a factor repeats elements. The pass hides
  each product as a fused multiply-add x y + (-0), which equals x y, including signs and NaN. LLVM turns it back into a
  multiplication on any CPU. This is faster for sums along the last dimensions, and for 32 or more sums along others.
- A sum of negated values becomes the initial value minus the sum of the values. IREE has vector code for sums, but
  would subtract the values one after the other, and would not fuse a product with a negation. The initial value must
  not be -0, because -0 - (x - x) is -0, but -0 + (-x + x) is 0.

If none of the lane counts in `_LANES` divides the number of elements, the size of the last dimension is the lane count
if it is neither too small nor too large. Otherwise, the array is padded with the neutral element: -0 for a sum, since
-0 + -0 is -0, and 1 for a product.
"""

import math

from torch_mlir import ir

from tiduc.backends.iree.emit.emitter import Emitter, rewrite
from tiduc.backends.iree.emit.known import is_no_negative_zero
from tiduc.backends.iree.fault import slow
from tiduc.dialect.emitters.bodies import reducer
from tiduc.dialect.graph.matching import defined_by
from tiduc.dialect.mlir.context import stage
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.ops.traits import ASSOCIATIVE, NEUTRAL
from tiduc.dialect.shapes.types import element, shape

_LANES = tuple(range(256, 31, -16))
_STEPS = 16
"""The fewest elements that each lane reduces. With fewer, the reduction of the lanes costs more than lanes save."""
_LARGE = 2**12
"""The fewest elements of a rewritten reduction. With fewer, the time of the call itself dominates."""
_SUMS = 32
"""If a sum along other dimensions than the last has at least this many results, multiply-adds are faster."""


@slow(
    "IREE adds the elements of a sum one after the other; tiduc computes up to 256 partial sums at a time.",
    "flags.py: squares",
)
@slow("IREE subtracts negated values one after the other; tiduc negates their sum.", "suite.py: kmeans")
@slow(
    "IREE treats sums of products as products of matrices; tiduc emits sums of multiply-adds.",
    "flags.py: squares",
)
@stage
def reductions_in_lanes(module: ir.Module | IrOp) -> int:
    """Rewrites, in place, the reductions of a module that become faster. Returns the number of these reductions."""
    return rewrite(module, {"stablehlo.reduce": lambda b, op: _reduced(b, op) if _is_large(op) else None})


def _is_large(op: IrOp) -> bool:
    """Whether an op is a large reduction of f32 or f64 by an op with a neutral element."""
    x = op.operands[0]
    if len(op.results) != 1 or not x.type.has_static_shape or math.prod(shape(x)) < _LARGE:
        return False
    return isinstance(element(x), ir.F32Type | ir.F64Type) and reducer(op) in NEUTRAL.keys() & ASSOCIATIVE


def _reduced(b: Emitter, op: IrOp) -> list[IrValue] | None:
    """Computes a reduction in a faster form. Returns None if no faster form is known."""
    x, init = op.operands
    start = init
    combine, dimensions = str(reducer(op)), list(op.attributes["dimensions"])
    negation = None
    if combine == "stablehlo.add" and is_no_negative_zero(init):
        negation = _read_once(x, "stablehlo.negate")
    if negation is not None:
        x, start = negation.operands[0], b.constant(0, init)
    product = _read_once(x, "stablehlo.multiply") if combine == "stablehlo.add" else None
    if product is not None and _has_slow_products(op, product):
        left, right = product.operands
        x = b.fma(left, right, b.constant(-0.0, x))
    if not op.results[0].type.shape:
        y = _in_lanes(b, x, start, combine)
    elif x == op.operands[0]:
        return None
    else:
        y = b.reduce(x, start, dimensions, combine)
    return [y if negation is None else b.subtract(b.broadcast_in_dim(init, [], shape(y)), y)]


def _read_once(x: IrValue, name: str) -> IrOp | None:
    """Returns the op that computes x if its name is `name` and x has one reader, else None."""
    return defined_by(x, name) if len(list(x.uses)) == 1 else None


def _has_slow_products(op: IrOp, product: IrOp) -> bool:
    """Whether a sum of products is faster if the products are hidden as multiply-adds (see the module's docstring)."""
    rank, dimensions = len(shape(op.operands[0])), sorted(op.attributes["dimensions"])
    if dimensions == list(range(rank - len(dimensions), rank)):
        return True
    repeats = [defined_by(x, "stablehlo.broadcast_in_dim") for x in product.operands]
    is_matrix_product = any(op is not None and shape(op.operands[0]) for op in repeats)
    return not is_matrix_product and math.prod(shape(op.results[0])) >= _SUMS


def _in_lanes(b: Emitter, x: IrValue, init: IrValue, combine: str) -> IrValue:
    """Reduces all elements of x to a vector of lanes, and these to a scalar."""
    sizes = shape(x)
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
    return b.reduce(x, init, [0], combine)
