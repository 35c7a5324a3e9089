"""scheduling: edits that avoid faults of IREE's passes that schedule dispatches and wait for their results.

They run only if IREE has rejected the program because of such a fault (`Rerun.RESCHEDULED` in `plan.py`).
"""

from iree.compiler import ir
from iree.compiler.passmanager import PassManager

from tiduc.backends.iree.fault import crash
from tiduc.backends.iree.modules.invariants import require
from tiduc.backends.iree.modules.ops import IrValue, ancestor, create, definition, erase, of_host

_MERGE = "builtin.module(util.func(cse))"
_SPLAT, _BARRIER = "flow.tensor.splat", "util.optimization_barrier"
_IMMEDIATE, _TIMEPOINT = "stream.timepoint.immediate", "!stream.timepoint"
_GLOBAL, _LOAD, _STORE = "util.global", "util.global.load", "util.global.store"


@crash(
    "IREE copies an array of equal elements into each execution region that reads it, and loses the array that loops "
    "and branches read; before such a loop or branch, a barrier reads the array, too.",
    untested="IREE makes such an array of StableHLO only in programs with hundreds of arrays",
)
def keep_splats(module: ir.Operation) -> bool:
    """Adds a barrier that reads each array of equal elements, before each loop or branch that reads the array.

        %s = splat 1                 ->      %s = splat 1
                                             optimization_barrier %s
        scf.if { f %s }                      scf.if { f %s }

    IREE keeps an array that an op outside of execution regions reads. Copies of the array in the inner blocks would be
    wrong: for 64-bit numbers, IREE merges copies that it updates in place (`distinguish_fills`). The edit runs after
    IREE has formed dispatches. Returns whether there was such an array.
    """
    PassManager.parse(_MERGE, context=module.context).run(module)
    readers = [
        (splat, _containing(use.owner.operation, splat.block))
        for splat in of_host(module)
        if splat.name == _SPLAT
        for use in splat.results[0].uses
        if use.owner.operation.block != splat.block
    ]
    for splat, reader in dict.fromkeys(readers):
        create(_BARRIER, [splat.results[0].type], [splat.results[0]], reader)
    return bool(readers)


def _containing(op: ir.Operation, block: ir.Block) -> ir.Operation:
    """The op of a block that contains an op."""
    found = ancestor(op, block)
    require(found is not None, "an array is read in its own block, or in blocks inside it")
    assert found is not None
    return found


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
    for op in (*stores, *loads, *globals_):
        erase(op)
    return bool(globals_)


def _is_timepoint(value: IrValue) -> bool:
    return str(value.type) == _TIMEPOINT
