"""distinguish_fills: gives each padding by 64-bit numbers other than zero a number of its own.

    %y = pad %x, %v                    %b = select (compare GE, %o, 0), %v, 0;  %y = pad %x, %b
    %z = pad %a, %v            ->      %c = select (compare GE, %p, 0), %v, 0;  %z = pad %a, %c

IREE lowers a padding to a fill of the whole result and an update in place. It merges fills of equal sizes by equal
numbers, also those for constants whose elements are equal. It then copies or repeats the fill for each update. But it
fills by patterns of up to 32 bits, and for other numbers of 64 bits it runs a dispatch, whose result it does not copy:
all updates write to one array, which constants share. In the order of dispatches that tiduc asks for
(`targets.IN_ORDER`), and in branches, the values are silently wrong; otherwise, IREE rejects the program. A fill by 0
has a pattern.

IREE pads the operands of a reduce_window in the same way, by its initial values.

IREE merges barriers of equal numbers, too. Therefore each number is behind a select that depends on a hidden number of
its own, as in `stored_values`.
"""

from collections.abc import Iterator
from itertools import count
from typing import Any

from tiduc.backends.iree.emitter import rewriting, within
from tiduc.backends.iree.fast.select_reruns import selected
from tiduc.backends.iree.fault import crash, wrong
from tiduc.backends.iree.known import known_number
from tiduc.dialect.dependences import defined_by
from tiduc.dialect.traits import COMPLEX_PARTS
from tiduc.dialect.types import bits
from tiduc.dialect.windows import window_of

_FIRST = 2 * 10**6
"""The first hidden number of this pass; those of `stored_values` begin with 10**6."""


@wrong(
    "Fills one array for paddings by equal 64-bit numbers, and branches update it; makes the numbers distinct.",
    "pads_in_branches",
)
@crash(
    "Fills one array for paddings by equal 64-bit numbers, and does not compile; makes the numbers distinct.",
    "pads_by_one_number",
)
def distinguish_fills(module: Any) -> None:
    """Puts a select before each 64-bit number, in place, by which an op pads; not before constants of zero.

    Fills may become equal only after IREE has simplified the program, so that the pass does not compare numbers.
    """
    hidden = count(_FIRST)
    for op in within(module.operation):
        for i in _numbers(op):
            if bits(op.operands[i]) >= 64 and not _is_zero(op.operands[i]):
                with rewriting(op) as b:
                    op.operands[i] = selected(b, b.hidden(next(hidden)), op.operands[i])


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
