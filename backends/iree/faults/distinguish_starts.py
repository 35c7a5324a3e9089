"""distinguish_starts: copies a concatenation's first operand if an earlier concatenation may begin with an equal one.

    %x = concatenate %p, %q;  %y = concatenate %p, %r
        ->  %x = concatenate %p, %q;  %m = a mark of %p (`marks.py`);  %y = concatenate %m, %r

IREE lowers a concatenation to updates of an empty array, one for each operand. If two concatenations begin with equal
arrays, IREE merges their first updates, and must copy the merged array for the second concatenation. But IREE may
compute another operand directly into its slice of the result before the copy, and then drop the copy. Both
concatenations then write to one array, so that values are silently wrong. A mark copies the first operand to an array
that IREE never merges with others.

IREE may find two arrays equal only after it has simplified the program, and may also merge arrays of equal bytes. The
pass therefore emits a mark whenever the sizes are equal. If the arrays differ, the mark costs little: IREE fuses it
with the op that computes the first operand, unless the operand is a product or an argument. Short vectors of integers
may be sizes of arrays, which IREE could not find through a mark. Their first operand gets a mark only if an earlier
concatenation begins with this operand itself.
"""

from collections.abc import Hashable

from torch_mlir import ir

from tiduc.backends.iree.emit.emitter import rewriting
from tiduc.backends.iree.emit.marks import marked
from tiduc.backends.iree.emit.updates import size_in_bits
from tiduc.backends.iree.fault import wrong
from tiduc.dialect.graph.functions import callee, functions_in, outer_first, symbol
from tiduc.dialect.ops.ir_types import IrOp
from tiduc.dialect.shapes.types import is_dynamic

_LONGEST = 16
"""The length of the longest vector of integers that may be the sizes of an array."""


@wrong(
    "If two concatenations begin with equal arrays, IREE may let them share memory; tiduc marks the second array.",
    "concatenations",
)
def distinguish_starts(module: ir.Module | IrOp) -> None:
    """Replaces, in place, the first operand of a concatenation by a mark if an earlier concatenation has equal sizes.

    If a function is called by others, the first operands of all its concatenations become marks, because the function
    may run twice.
    """
    called = {callee(op) for op in outer_first(module.operation, ("func.call",))}
    seen = set[Hashable]()
    for function in functions_in(module):
        for op in outer_first(function, ("stablehlo.concatenate",)):
            if len(op.operands) > 1 and not is_dynamic(op.results[0].type):
                start = (
                    size_in_bits(op.results[0]),
                    size_in_bits(op.operands[0]),
                    _may_be_sizes(op) and op.operands[0],
                )
                if start in seen or symbol(function) in called:
                    with rewriting(op) as b:
                        op.operands[0] = marked(b, op.operands[0])
                seen.add(start)


def _may_be_sizes(concatenation: IrOp) -> bool:
    """Whether the result of a concatenation may be the sizes of an array."""
    type_ = concatenation.results[0].type
    is_short = type_.rank == 1 and type_.shape[0] <= _LONGEST
    return is_short and isinstance(type_.element_type, ir.IntegerType)
