"""simplify_loops: inlines calls if a called function has a loop, and removes loops that run at most once.

IREE's compiler crashes, or exhausts memory, on a loop that it knows to run once. IREE inlines calls, and may then find
the trip counts of more loops. The pass therefore inlines calls first, so that it sees the loops that IREE will see.

The pass also replaces a slice of a whole array by the array, and an update of a whole array by the update. IREE would
do so itself, but in a loop it then fails to find the value that it has replaced, and crashes. The pass runs before the
patterns for ops.
"""

from collections.abc import Sequence

import numpy as np
from torch_mlir import ir

from tiduc.backends.iree.emit.emitter import Emitter, rewrite
from tiduc.backends.iree.emit.known import known_number
from tiduc.backends.iree.fault import crash
from tiduc.dialect.graph.functions import outer_first, symbol
from tiduc.dialect.graph.graph import terminator
from tiduc.dialect.mlir.context import run_passes
from tiduc.dialect.ops.ir_types import IrOp, IrValue

_LOOP = "stablehlo.while"

_WHOLE = {"stablehlo.dynamic_slice": 0, "stablehlo.dynamic_update_slice": 1}
"""Maps each op to the index of the operand that equals the result if the slice covers the whole array."""


@crash(
    "IREE crashes, or exhausts memory, on a loop that runs once; tiduc inlines the iteration.",
    "while_once",
    untested="takes all memory on some machines",
)
@crash(
    "IREE replaces a slice of a whole array in a loop, and then does not find the value; tiduc removes such slices.",
    "while_whole_updates",
)
def simplify_loops(module: ir.Module | IrOp) -> None:
    """Inlines all calls if a callee has a loop. Then removes slices of whole arrays, and loops that run at most once.

    Changes the module in place.
    """
    callees = {str(op.attributes["callee"])[1:] for op in outer_first(module.operation, ("func.call",))}
    functions = [op for op in outer_first(module.operation, ("func.func",)) if symbol(op) in callees]
    if any(outer_first(function, (_LOOP,)) for function in functions):
        run_passes(module.operation, "builtin.module(inline,symbol-dce)")
    rewrite(module, dict.fromkeys(_WHOLE, _without_slice))
    rewrite(module, {_LOOP: _without_loop}, follow="all")


def _without_slice(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Replaces a slice of a whole array by the array, and an update of a whole array by the update.

    Returns None for other slices and updates. Start indices do not matter, because StableHLO clamps them to 0.
    """
    whole = op.operands[_WHOLE[op.name]]
    same = op.operands[0].type == whole.type == op.results[0].type and whole.type.has_static_shape
    return [whole] if same else None


def _without_loop(b: Emitter, loop: IrOp) -> Sequence[IrValue] | None:
    """Computes the results of a loop that runs at most once: inlines the iteration. Returns None for other loops."""
    times = few_iterations(loop)
    if times is None:
        return None
    return b.inlined(loop.regions[1], loop.operands) if times else list(loop.operands)


def few_iterations(op: IrOp) -> int | None:
    """The trip count of a loop if constants show that it is 0 or 1. None for other loops."""
    condition, body = (region.blocks[0] for region in op.regions)
    carries = [known_number(x) for x in op.operands]
    (holds,) = _returned(condition, carries)
    if holds is None or not holds:
        return holds if holds is None else 0
    (holds_again,) = _returned(condition, _returned(body, carries))
    return None if holds_again is None or holds_again else 1


def _returned(block: ir.Block, arguments: list[np.generic | None]) -> list[np.generic | None]:
    """The scalars that a block returns if its arguments are `arguments`. None stands for an unknown scalar."""
    pairs = zip(block.arguments, arguments, strict=True)
    known: dict[IrValue, np.generic] = {x: number for x, number in pairs if number is not None}
    return [known_number(x, known) for x in terminator(block).operands]
