"""distinguish_fills: replaces each nonzero padding value of 64 bits or more by a mark (`emit/marks.py`).

    %y = pad %x, %v                    %m = a mark of %v;  %y = pad %x, %m
    %z = pad %a, %v            ->      %n = a mark of %v;  %z = pad %a, %n

A mark of %v is a copy of %v that IREE never merges with another value. IREE lowers a pad to a fill of the whole result,
which is then updated in place. It merges equal fills, including the fills of splat constants, and then copies or
repeats the merged fill for each update. But the value of a fill has at most 32 bits. For 64-bit numbers other than 0,
IREE runs a dispatch instead of a fill, and does not copy its result. All updates, and equal splat constants, then share
one array. With the order of dispatches that tiduc requests (`targets.IN_ORDER`), and in branches, values are silently
wrong; otherwise, IREE rejects the program.

IREE pads the operands of a reduce_window with its initial values in the same way.
"""

from collections.abc import Iterator

from torch_mlir import ir

from tiduc.backends.iree.emit.emitter import rewriting
from tiduc.backends.iree.emit.known import known_number
from tiduc.backends.iree.emit.marks import marked
from tiduc.backends.iree.fault import crash, wrong
from tiduc.dialect.facts.windows import window_of
from tiduc.dialect.graph.functions import outer_first
from tiduc.dialect.graph.matching import defined_by
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.ops.traits import COMPLEX_PARTS
from tiduc.dialect.shapes.types import bits


@wrong(
    "IREE fills one array for paddings by equal 64-bit numbers, which branches update; tiduc makes them distinct.",
    "pads_in_branches",
    upstream="https://github.com/iree-org/iree/pull/23665",
)
@crash(
    "IREE fills one array for paddings by equal 64-bit numbers, and rejects it; tiduc makes them distinct.",
    "pads_by_one_number",
)
def distinguish_fills(module: ir.Module) -> None:
    """Replaces, in place, each padding value of 64 bits or more by a mark of it, unless the value is zero.

    Does this even if no two padding values are known to be equal, because IREE may find later that they are.
    """
    for op in outer_first(module.operation):
        for i in _numbers(op):
            if bits(op.operands[i]) >= 64 and not _is_zero(op.operands[i]):
                with rewriting(op) as b:
                    op.operands[i] = marked(b, op.operands[i])


def _numbers(op: IrOp) -> Iterator[int]:
    """Yields the operand indices of an op's padding values, with which IREE pads other operands of the op."""
    if op.name == "stablehlo.pad":
        yield 1
    elif op.name == "stablehlo.reduce_window" and window_of(op) != window_of(op).unpadded():
        yield from range(len(op.results), len(op.operands))


def _is_zero(x: IrValue) -> bool:
    """Whether x is the constant +0. True also for `real (complex %a, %b)` if %a is +0; likewise for `imag` and %b."""
    part = x.owner
    if not isinstance(part, ir.Block) and part.name in COMPLEX_PARTS:
        whole = defined_by(part.operands[0], "stablehlo.complex")
        x = whole.operands[part.name == "stablehlo.imag"] if whole else x
    number = known_number(x, steps=0)
    return number is not None and not any(number.tobytes())
