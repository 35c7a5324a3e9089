"""barriers_at_reductions: puts a barrier behind expensive ops that a reduction and others read, to compute them once.

    %e = exponential %x;  %s = reduce(%e);  %y = divide %e, %s   ->   %e behind a barrier

In a softmax, for example, IREE recomputes the exponentials for each reader, in code that is not vectorized: 1000 rows
of 1000 take 80 ms and more, and 2.4 ms with the barrier.
"""

import math
from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.emitter import Emitter, within
from tiduc.backends.iree.fault import slow
from tiduc.dialect.context import stage

_LARGE = 2**16  # elements; for fewer, recomputing costs nothing
DEAR = frozenset(
    f"stablehlo.{name}"
    for name in "exponential exponential_minus_one log log_plus_one logistic power sine cosine tanh".split()
)


@slow("Computes ops that a reduction and others read once for each reader; a barrier keeps the results.")
@stage
def barriers_at_reductions(module: Any) -> int:
    """Adds the barriers in place; gives their number."""
    count = 0
    for op in within(module.operation):
        if op.name in DEAR and _is_large(op.results[0].type):
            uses = [(use.owner, use.operand_number) for use in op.results[0].uses]
            if len(uses) > 1 and any(owner.name == "stablehlo.reduce" for owner, _ in uses):
                b = Emitter(ir.InsertionPoint.after(op), op.location)
                (behind,) = b.barrier(op.results[0])
                for owner, number in uses:
                    owner.operands[number] = behind
                count += 1
    return count


def _is_large(type_: Any) -> bool:
    return bool(type_.has_static_shape and math.prod(type_.shape) >= _LARGE)
