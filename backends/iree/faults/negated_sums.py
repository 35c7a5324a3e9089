"""Rewrites sums of negated values on GPUs. IREE would turn them into reductions by subtraction, and reject these.

    reduce add (negate %x) init: %i  ->  subtract %i, (reduce add %x init: 0)

For CPUs, IREE accepts such sums, but its code is slow: see `fast/sums/reductions_in_lanes.py`.
"""

from collections.abc import Sequence

from tiduc.backends.iree.emit.emitter import ON_OTHERS, Emitter, legalize
from tiduc.backends.iree.emit.known import is_no_negative_zero
from tiduc.backends.iree.fault import crash
from tiduc.dialect.emitters.bodies import reducer
from tiduc.dialect.graph.matching import defined_by
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.ops.traits import VIEWS
from tiduc.dialect.shapes.types import is_complex, shape


@legalize("stablehlo.reduce", where=ON_OTHERS)
@crash(
    "IREE rejects sums of negated values on GPUs; tiduc negates the sum.",
    "cuda/negated_sum",
    upstream="https://github.com/llvm/llvm-project/pull/214033",
)
def reduce(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Replaces a sum of negated values by the initial value minus the sum of the values.

    Views between the negation and the sum are emitted again for the values. Returns None for other reductions. Also
    returns None if the initial value may be -0, because -0 - (x - x) is -0, but -0 + (-x + x) is 0; a barrier before
    the sum then keeps IREE from using the negation.
    """
    if len(op.results) != 1 or reducer(op) != "stablehlo.add" or is_complex(op.operands[0]):
        return None
    x, init = op.operands
    views = []
    while (view := defined_by(x, *VIEWS)) is not None and len(view.operands) == 1:
        views.append(view)
        x = view.operands[0]
    negation = defined_by(x, "stablehlo.negate")
    if negation is None:
        return None
    if not is_no_negative_zero(init):
        op.operands[0] = b.stored(op.operands[0])
        return None
    x = negation.operands[0]
    for view in reversed(views):
        (x,) = b.clone(view, {0: x})
    y = b.reduce(x, b.constant(0, init), list(op.attributes["dimensions"]))
    return [b.subtract(b.broadcast_in_dim(init, [], shape(y)), y)]
