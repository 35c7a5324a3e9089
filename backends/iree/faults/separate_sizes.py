"""separate_sizes: copies the result of a barrier before a loop or branch passes it on, if an earlier one passes it on.

    %b = optimization_barrier %x                       %b = optimization_barrier %x
    %r = if %p { return %y } else { return %b }   ->   %r = if %p { return %y } else { return %b }
    %s = while(%c = %b) ...                            %m = a mark of %b (`marks.py`);  %s = while(%c = %m) ...

When IREE schedules dispatches, it passes the size of each array into and out of loops and branches, along with the
array. If no other op states the size of a barrier's result, IREE emits an op that asks for the size where the result is
first passed on, and uses the answer for all later loops and branches. If the first place is the end of a branch, the
answer is unknown outside of the branch, and IREE's compiler rejects the program. Programs without branches are
affected, too: IREE moves ops out of a loop into a branch around the loop, whose other branch returns the loop's initial
values. A copy has a size that IREE knows.
"""

from collections.abc import Hashable

from torch_mlir import ir

from tiduc.backends.iree.emit.emitter import STORED, Emitter
from tiduc.backends.iree.emit.marks import BARRIER, marked
from tiduc.backends.iree.fault import crash
from tiduc.backends.iree.settings import Settings
from tiduc.dialect.graph.dependences import RESHAPES
from tiduc.dialect.graph.functions import functions_in, outer_first
from tiduc.dialect.graph.matching import defined_by, traced
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.shapes.types import is_dynamic

_LOOP, _END = "stablehlo.while", "stablehlo.return"
_BRANCHES = "stablehlo.if", "stablehlo.case"


@crash(
    "If a branch returns a barrier's result that a later loop or branch passes on, too, IREE asks for its size only in "
    "the first branch; tiduc copies the result for each later one.",
    "barrier_in_branches",
)
@crash(
    "If two loops begin with barriers of one value, IREE asks for its size only in a branch around the first loop; "
    "tiduc copies the value for the second loop.",
    "barrier_before_loops",
)
def separate_sizes(module: ir.Module | IrOp, settings: Settings) -> None:
    """Copies, in place, barriers of a value that a loop or the end of a branch passes on, except for the first one.

    Barriers of one value count as one, because IREE merges them. Ends of loops pass on no barrier that another op
    passes on: the pattern of loops (`control.py`) puts barriers there.
    """
    for function in functions_in(module):
        passed = dict[Hashable, IrOp]()
        for op in outer_first(function, (_LOOP, _END)):
            if op.name == _LOOP or _ends_branch(op):
                copies = dict[IrValue, IrValue]()
                for i, x in enumerate(list(op.operands)):
                    key = _behind_barriers(x, settings)
                    if key is not None and passed.setdefault(key, op) != op:
                        if x not in copies:
                            copies[x] = marked(Emitter(ir.InsertionPoint(op), op.location), x)
                        op.operands[i] = copies[x]


def _ends_branch(op: IrOp) -> bool:
    parent = op.operation.parent
    return parent is not None and parent.name in _BRANCHES


def _behind_barriers(x: IrValue, settings: Settings) -> Hashable | None:
    """Returns a key of the value that x is, apart from barriers and reshapes. Returns None if x has no barrier.

    Equal constants have equal keys. A barrier that only prevents fusion does not count if the pass `stored_values` will
    replace it. Dynamic arrays have no key, because tiduc tells IREE the sizes of their barriers.
    """
    *before, origin = traced(x, RESHAPES)
    barriers = [barrier for y in before if (barrier := defined_by(y, BARRIER)) is not None]
    stays = any(STORED not in barrier.attributes or not settings.fast for barrier in barriers)
    if not stays or is_dynamic(origin.type):
        return None
    constant = defined_by(origin, "stablehlo.constant")
    key: Hashable = origin if constant is None else constant.attributes["value"]
    return key
