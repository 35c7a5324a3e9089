"""distinguish_fills: marks each nonzero 64-bit number that pads an array (`emit/marks.py`).

    %y = pad %x, %v                    %m = a mark of %v;  %y = pad %x, %m
    %z = pad %a, %v            ->      %n = a mark of %v;  %z = pad %a, %n

IREE lowers a pad to a fill of the whole result and an update in place. It merges equal fills, including the fills of
splat constants, and then copies or repeats the merged fill for each update. But a fill has a pattern of at most 32
bits. For 64-bit numbers other than 0, IREE runs a dispatch instead and does not copy its result: all updates write to
one array, which constants share. With the order of dispatches that tiduc requests (`targets.IN_ORDER`), and in
branches, values are silently wrong; otherwise, IREE rejects the program.

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
    """Marks, in place, each padding value of 64 bits or more, except zeros.

    Values are not compared, because IREE may simplify two of them to one value later.
    """
    for op in outer_first(module.operation):
        for i in _numbers(op):
            if bits(op.operands[i]) >= 64 and not _is_zero(op.operands[i]):
                with rewriting(op) as b:
                    op.operands[i] = marked(b, op.operands[i])


def _numbers(op: IrOp) -> Iterator[int]:
    """Yields the indices of an op's padding values among its operands."""
    if op.name == "stablehlo.pad":
        yield 1
    elif op.name == "stablehlo.reduce_window" and window_of(op) != window_of(op).unpadded():
        yield from range(len(op.results), len(op.operands))


def _is_zero(x: IrValue) -> bool:
    """Whether x is the constant +0, or a part of a complex number of constant parts, of which this part is +0."""
    part = x.owner
    if not isinstance(part, ir.Block) and part.name in COMPLEX_PARTS:
        whole = defined_by(part.operands[0], "stablehlo.complex")
        x = whole.operands[part.name == "stablehlo.imag"] if whole else x
    number = known_number(x, steps=0)
    return number is not None and not any(number.tobytes())
