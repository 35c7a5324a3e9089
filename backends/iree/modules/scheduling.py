"""scheduling: edits that avoid faults of IREE's passes that schedule dispatches and wait for their results.

They run only if IREE has rejected the program because of such a fault (`Rerun.RESCHEDULED` in `plan.py`).
"""

from collections.abc import Sequence

from iree.compiler import ir
from iree.compiler.passmanager import PassManager

from tiduc.backends.iree.fault import crash
from tiduc.backends.iree.modules.invariants import require
from tiduc.backends.iree.modules.ops import IrValue, create, definition, erase, of_host

_MERGE = "builtin.module(util.func(cse))"
_SPLAT, _IMMEDIATE, _TIMEPOINT = "flow.tensor.splat", "stream.timepoint.immediate", "!stream.timepoint"
_GLOBAL, _LOAD, _STORE = "util.global", "util.global.load", "util.global.store"

Use = tuple[ir.Operation, int]
"""An op, and the number of its operand."""


@crash(
    "IREE copies an array of equal elements into each execution region that reads it, and loses the array that loops "
    "and branches read; tiduc makes another array in each of their blocks.",
    untested="IREE makes such an array of StableHLO only in programs with hundreds of arrays",
)
def sink_splats(module: ir.Operation) -> bool:
    """Makes a separate array of equal elements in each inner block that reads one of an outer block.

        %s = splat 1                 ->      %s = splat 1
        scf.if { f %s }                      scf.if { %n = optimization_barrier 1; %t = splat %n; f %t }

    The barriers keep IREE from merging the arrays again. The edit runs after IREE has formed dispatches. Returns
    whether there was such an array.
    """
    PassManager.parse(_MERGE, context=module.context).run(module)
    inner = [(op, uses) for op in of_host(module) if op.name == _SPLAT for uses in _inner_uses(op)]
    for splat, uses in inner:
        block, users = uses[0][0].block, [user for user, _ in uses]
        copy = _copied(splat, next(op.operation for op in block.operations if op.operation in users))
        for user, number in uses:
            user.operands[number] = copy
    return bool(inner)


def _inner_uses(op: ir.Operation) -> list[list[Use]]:
    """The uses of an op's result in other blocks than the op's own, grouped by their blocks."""
    groups: list[list[Use]] = []
    for use in op.results[0].uses:
        user = use.owner.operation
        if user.block != op.block:
            group = next((group for group in groups if group[0][0].block == user.block), None)
            if group is None:
                groups.append(group := [])
            group.append((user, use.operand_number))
    return groups


def _copied(splat: ir.Operation, before: ir.Operation) -> IrValue:
    """Makes a copy of an array of equal elements, whose element IREE does not know."""
    element, *sizes = splat.operands
    hidden = create("util.optimization_barrier", [element.type], [element], before)
    copy: IrValue = create(_SPLAT, [splat.results[0].type], [hidden.results[0], *sizes], before).results[0]
    return copy


@crash(
    "IREE's analysis of the timepoints at which arrays are complete ends after 32 rounds; tiduc runs it before loops "
    "become branches, where it needs fewer, and not again.",
    untested="only programs with hundreds of arrays in loops need more rounds",
)
def drop_reached_timepoints(module: ir.Operation) -> bool:
    """Replaces the timepoints of global arrays by reached ones, because the module's initializer waits for the arrays.

    IREE's analysis would replace them later. Invariant: each timepoint that is stored in a global is reached.
    """
    host = list(of_host(module))
    stores = [op for op in host if op.name == _STORE and _is_timepoint(op.operands[0])]
    reached = all(definition(op.operands[0], _IMMEDIATE) is not None for op in stores)
    require(reached, "the initializer waits for the arrays of globals")
    loads = [op for op in host if op.name == _LOAD and _is_timepoint(op.results[0])]
    for op in loads:
        op.results[0].replace_all_uses_with(create(_IMMEDIATE, [op.results[0].type], [], op).results[0])
    globals_ = [op for op in host if op.name == _GLOBAL and str(op.attributes["type"]) == _TIMEPOINT]
    _erase([*stores, *loads, *globals_])
    return bool(globals_)


def _is_timepoint(value: IrValue) -> bool:
    return str(value.type) == _TIMEPOINT


def _erase(ops: Sequence[ir.Operation]) -> None:
    for op in ops:
        erase(op)
