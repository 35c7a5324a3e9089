"""allow_inlining: lets IREE inline all functions, because it mixes up inputs of functions that it does not inline.

    func @f(%a, %b) attributes {no_inline, noinline}   ->   func @f(%a, %b) attributes {noinline}

IREE does not inline functions with both attributes, MLIR's and its own. Its pass `iree-util-ipo` looks for inputs of a
function that are equal in all calls. If the last call passes one value as two inputs, the pass merges the two inputs,
even if earlier calls pass two values. IREE does not inline the functions of the later pass `repeats` either; the inputs
of these functions differ in all calls.
"""

from torch_mlir import ir

from tiduc.backends.iree.emit.emitter import NEVER_INLINED
from tiduc.backends.iree.fault import wrong
from tiduc.dialect.graph.functions import functions_in
from tiduc.dialect.mlir.context import stage
from tiduc.dialect.ops.ir_types import IrOp


@wrong(
    "Merges two inputs of a function if they are equal in the last call; lets IREE inline the function.",
    "inputs_of_calls",
)
@stage
def allow_inlining(module: ir.Module | IrOp) -> int:
    """Lets IREE inline all functions of a module, in place.

    Returns the number of functions whose inlining was forbidden.
    """
    kept = [op for op in functions_in(module) if NEVER_INLINED in op.attributes]
    for op in kept:
        del op.attributes[NEVER_INLINED]
    return len(kept)
