"""allow_inlining: lets IREE inline all functions, because it mixes up the inputs of functions that it must not inline.

    func @f(%a, %b) attributes {no_inline, noinline}   ->   func @f(%a, %b) attributes {noinline}

IREE does not inline a function that has both attributes. Its pass `iree-util-ipo` should merge inputs that are equal in
all calls, but looks only at the last call: it merges two inputs even if they differ in earlier calls. The later pass
`repeats` adds functions that have both attributes; these are safe, because no two of their inputs are equal in a call.
"""

from torch_mlir import ir

from tiduc.backends.iree.emit.emitter import NEVER_INLINED
from tiduc.backends.iree.fault import wrong
from tiduc.dialect.graph.functions import functions_in
from tiduc.dialect.mlir.context import stage
from tiduc.dialect.ops.ir_types import IrOp


@wrong(
    "IREE merges two inputs of a function that are equal in the last call; tiduc lets IREE inline the function.",
    "inputs_of_calls",
)
@stage
def allow_inlining(module: ir.Module | IrOp) -> int:
    """Removes the attribute `no_inline` from all functions of a module. Returns the number of changed functions."""
    kept = [op for op in functions_in(module) if NEVER_INLINED in op.attributes]
    for op in kept:
        del op.attributes[NEVER_INLINED]
    return len(kept)
