"""marks: copies that IREE never merges with other values.

    %y = marked %x    ->    %n = optimization_barrier 0 {tidu.hidden}      the hidden number: IREE does not know it
                            %b = broadcast_in_dim %n
                            %y = select (compare GE, %b, 0), %x, (convert %b)

Such a copy is called a mark. Two marks never become one value, because each select reads another hidden number. IREE
cannot fold the select either, even if x is a constant, because the other choice is the hidden number. (If x and the
other choice were both the constant 0, IREE would fold the select.)

IREE merges two barriers of equal constants. Therefore `faults/number_marks.py` later replaces the barriers of a
function by one barrier, whose results are the hidden numbers.
"""

from torch_mlir import ir

from tiduc.backends.iree.emit.arrays import repeated, sizes_of
from tiduc.backends.iree.emit.emitter import HIDDEN, NUMBERS, Emitter, is_boolean, is_unsigned, signless
from tiduc.dialect.graph.matching import defined_by
from tiduc.dialect.ops.ir_types import IrValue
from tiduc.dialect.shapes.types import element, is_complex

BARRIER = "stablehlo.optimization_barrier"


def marked(b: Emitter, x: IrValue) -> IrValue:
    """A copy of an array of any type and shape. IREE never merges the copy with another array."""
    sizes, hidden = sizes_of(b, x), b.hidden()
    zero = b.constant(0, hidden)
    # The condition is an array, because a select with a scalar condition would return x without copying it.
    numbers, zeros = repeated(b, hidden, sizes), repeated(b, zero, sizes)
    return b.select(b.compare(numbers, zeros, "GE"), x, _converted(b, numbers, zeros, x))


def before_mark(x: IrValue) -> IrValue:
    """The value that a mark copies. Returns x if x is not a mark."""
    select = defined_by(x, "stablehlo.select")
    return select.operands[1] if select and hidden_of(x) is not None else x


def hidden_of(x: IrValue) -> IrValue | None:
    """Returns the hidden number that a mark reads, or None if x is not a mark.

    Recognizes marks before and after the pass `number_marks`.
    """
    select = defined_by(x, "stablehlo.select")
    compare = defined_by(select.operands[0], "stablehlo.compare") if select else None
    numbers = defined_by(compare.operands[0], "stablehlo.broadcast_in_dim") if compare else None
    hidden: IrValue | None = numbers.operands[0] if numbers else None
    return hidden if hidden is not None and _is_hidden(hidden) else None


def _is_hidden(x: IrValue) -> bool:
    reshape = defined_by(x, "stablehlo.reshape")
    cut = defined_by(reshape.operands[0], "stablehlo.slice") if reshape else None
    barrier = defined_by(cut.operands[0] if cut else x, BARRIER)
    return barrier is not None and (NUMBERS if cut else HIDDEN) in barrier.attributes


def _converted(b: Emitter, numbers: IrValue, zeros: IrValue, x: IrValue) -> IrValue:
    """Converts the i32 array `numbers` to the element type of x.

    `zeros` is an array of zeros of the type of `numbers`.
    """
    kind = element(x)
    if is_boolean(x):
        return b.compare(numbers, zeros, "NE")
    if is_complex(x):
        part = b.convert(numbers, kind.element_type)
        return b.complex(part, part)
    # IREE lacks these conversions, and the patterns that replace them may have run already.
    if is_unsigned(x) or (isinstance(kind, ir.FloatType) and kind.width <= 16):
        return b.bitcast(b.convert(numbers, signless(kind.width)), kind)
    return b.convert(numbers, kind)
