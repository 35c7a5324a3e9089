"""distinguish_fills: marks each 64-bit number other than zero by which an op pads (`marks.py`). separate_steps: puts a
barrier between two paddings, if one of them pads between elements.

    %y = pad %x, %v                    %m = a mark of %v;  %y = pad %x, %m
    %z = pad %a, %v            ->      %n = a mark of %v;  %z = pad %a, %n

IREE lowers a padding to a fill of the whole result and an update in place. It merges fills of equal sizes by equal
numbers, also those for constants whose elements are equal. It then copies or repeats the fill for each update. But it
fills by patterns of up to 32 bits, and for other numbers of 64 bits it runs a dispatch, whose result it does not copy:
all updates write to one array, which constants share. In the order of dispatches that tiduc asks for
(`targets.IN_ORDER`), and in branches, the values are silently wrong; otherwise, IREE rejects the program. A fill by 0
has a pattern.

IREE pads the operands of a reduce_window in the same way, by its initial values.

    %y = pad %x, %v, interior = [1]                 %y = pad %x, %v, interior = [1]
    %z = pad %y, %v, low = [1]             ->       %b = optimization_barrier %y
                                                    %z = pad %b, %v, low = [1]

IREE makes one update of two updates of fills by equal numbers. It then forgets the steps between the elements. It takes
a `dynamic_update_slice` of such an array for a padding.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.emit.emitter import rewriting, within
from tiduc.backends.iree.emit.known import known_number
from tiduc.backends.iree.emit.marks import marked
from tiduc.backends.iree.fault import crash, wrong
from tiduc.backends.iree.faults.fusions import store_operand
from tiduc.dialect.dependences import defined_by, reached
from tiduc.dialect.traits import COMPLEX_PARTS, VIEWS
from tiduc.dialect.types import bits
from tiduc.dialect.windows import window_of

_UPDATES = {"stablehlo.pad": 0, "stablehlo.dynamic_update_slice": 1}
"""Ops that IREE lowers to updates, and the operand with the elements that they write."""
_MOVES = VIEWS | COMPLEX_PARTS | {"stablehlo.bitcast_convert", "stablehlo.convert"}


@wrong(
    "Fills one array for paddings by equal 64-bit numbers, and branches update it; makes the numbers distinct.",
    "pads_in_branches",
)
@crash(
    "Fills one array for paddings by equal 64-bit numbers, and does not compile; makes the numbers distinct.",
    "pads_by_one_number",
)
def distinguish_fills(module: Any) -> None:
    """Marks each 64-bit number, in place, by which an op pads, but for constants of zero.

    Fills may become equal only after IREE has simplified the program, so that the pass does not compare numbers.
    """
    for op in within(module.operation):
        for i in _numbers(op):
            if bits(op.operands[i]) >= 64 and not _is_zero(op.operands[i]):
                with rewriting(op) as b:
                    op.operands[i] = marked(b, op.operands[i])


@wrong(
    "Makes one padding of two, and forgets the padding between elements; a barrier stores the array between.",
    "pads_of_pads",
)
def separate_steps(module: Any) -> None:
    """Puts a barrier before each array, in place, that an op pads after another one, if one pads between elements."""
    for op in within(module.operation):
        place = _UPDATES.get(op.name)
        places = range(len(op.results)) if op.name == "stablehlo.reduce_window" else range(0)
        for i in places if place is None else (place,):
            updates = (defined_by(x, *_UPDATES) for x in reached([op.operands[i]], _moved))
            if any(update is not None and (_has_steps(op) or _has_steps(update)) for update in updates):
                store_operand(op, i)


def _moved(x: Any) -> Sequence[Any]:
    """The operands of an op that IREE may find to move the elements of arrays."""
    return list(x.owner.operands) if isinstance(x, ir.OpResult) and x.owner.name in _MOVES else ()


def _has_steps(op: Any) -> bool:
    """Whether an op pads between elements."""
    names = "interior_padding", "base_dilations"
    return any(
        n != least for least, name in enumerate(names) if name in op.attributes for n in op.attributes[name]
    )


def _numbers(op: Any) -> Iterator[int]:
    """The places of the operands by which an op pads."""
    if op.name == "stablehlo.pad":
        yield 1
    elif op.name == "stablehlo.reduce_window" and window_of(op) != window_of(op).unpadded():
        yield from range(len(op.results), len(op.operands))


def _is_zero(x: Any) -> bool:
    """Whether a number is the constant 0, or a part of a complex number that has this constant; -0 has other bits."""
    part = x.owner
    if getattr(part, "name", "") in COMPLEX_PARTS:
        whole = defined_by(part.operands[0], "stablehlo.complex")
        x = whole.operands[part.name == "stablehlo.imag"] if whole else x
    number = known_number(x, steps=0)
    return number is not None and not any(number.tobytes())
