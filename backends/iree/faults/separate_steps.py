"""separate_steps: puts a barrier between two pads if one of them pads between elements (interior padding).

    %y = pad %x, %v, interior = [1]                 %y = pad %x, %v, interior = [1]
    %z = pad %y, %v, low = [1]             ->       %b = optimization_barrier %y
                                                    %z = pad %b, %v, low = [1]

IREE lowers a pad to a fill of the whole result and an update in place. If both fills write the same value, IREE merges
the two updates into one, which loses the strides between the elements. IREE also treats a `dynamic_update_slice` whose
update is a padded array as a pad. A `reduce_window` pads its operands, too.
"""

from collections.abc import Sequence

from torch_mlir import ir

from tiduc.backends.iree.fault import wrong
from tiduc.backends.iree.faults.separate_fusions import store_operand
from tiduc.dialect.graph.dependences import reached
from tiduc.dialect.graph.functions import outer_first
from tiduc.dialect.graph.matching import defined_by
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.ops.traits import COMPLEX_PARTS, VIEWS

_UPDATES = {"stablehlo.pad": 0, "stablehlo.dynamic_update_slice": 1}
"""Maps each op that IREE lowers to an update in place to the index of the operand that the update writes."""

_MOVES = VIEWS | COMPLEX_PARTS | {"stablehlo.bitcast_convert", "stablehlo.convert"}


@wrong(
    "IREE merges two pads, and forgets the padding between elements; a barrier stores the array between them.",
    "pads_of_pads",
)
def separate_steps(module: ir.Module) -> None:
    """Inserts barriers between ops that pad or update an array one after the other, in place.

    Two such ops need a barrier between them if one of them pads between elements. A `reduce_window` counts as a pad.
    """
    for op in outer_first(module.operation):
        place = _UPDATES.get(op.name)
        places = range(len(op.results)) if op.name == "stablehlo.reduce_window" else range(0)
        for i in places if place is None else (place,):
            updates = (defined_by(x, *_UPDATES) for x in reached([op.operands[i]], _moved))
            if any(update is not None and (_has_steps(op) or _has_steps(update)) for update in updates):
                store_operand(op, i)


def _moved(x: IrValue) -> Sequence[IrValue]:
    """The operands of the op that computes x, if this op only moves or converts elements. Empty for other values."""
    return list(x.owner.operands) if isinstance(x, ir.OpResult) and x.owner.name in _MOVES else ()


def _has_steps(op: IrOp) -> bool:
    """Whether an op pads between elements: by interior padding, or by the base dilation of a window."""
    names = "interior_padding", "base_dilations"
    return any(
        n != least for least, name in enumerate(names) if name in op.attributes for n in op.attributes[name]
    )
