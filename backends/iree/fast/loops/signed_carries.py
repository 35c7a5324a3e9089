"""signed_carries: converts the loop-carried values (carries) of unsigned integers and predicates to signed integers.

    while(%go = %true) cond { return %go } do { ... return %next }
    ->  while(%go = 1 : i8) cond { return %go != 0 } do { ... return convert %next }

Unsigned integers are bitcast, and predicates become i8. A kernel copies carries element by element. IREE stores
predicates as bytes and has no unsigned integers, but it does not convert single elements of such arrays, and rejects
the loops. Both conversions are exact in both directions.
"""

from torch_mlir import ir

from tiduc.backends.iree.emit.arrays import restored, stored
from tiduc.backends.iree.emit.emitter import Emitter, is_boolean, is_unsigned, replace_uses, signless
from tiduc.backends.iree.emit.known import constant_splat
from tiduc.backends.iree.emit.updates import updates_between
from tiduc.dialect.graph.graph import operations
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.shapes.types import element, with_element


def signed_carries(b: Emitter, loop: IrOp) -> None:
    """Converts the carries of a loop, but not those of loops nested in it, to signed integers, in place."""
    body = loop.regions[1].blocks[0]
    end = list(operations(body))[-1]
    for i, (new, old) in enumerate(zip(list(end.operands), body.arguments, strict=True)):
        if _is_converted(new, old):
            _convert(loop, end, i)


def _is_converted(new: IrValue, old: IrValue) -> bool:
    """Whether a carry must be converted, given its new and old value.

    Unsigned integers must be converted. Predicates must be if iterations copy the whole array, but not if they update
    slices in place or do not change the array.
    """
    return is_unsigned(old) or (is_boolean(old) and new != old and not updates_between(new, old))


def _convert(loop: IrOp, end: IrOp, i: int) -> None:
    """Converts carry i to signed integers. Its readers in the regions, and after the loop, read it converted back."""
    kind = element(loop.operands[i])
    for op in (loop, end):
        op.operands[i] = _signed(Emitter(ir.InsertionPoint(op), op.location), op.operands[i])
    for region in loop.regions:
        block = region.blocks[0]
        _read_as(block.arguments[i], kind, ir.InsertionPoint.at_block_begin(block), loop)
    _read_as(loop.results[i], kind, ir.InsertionPoint.after(loop), loop)


def _signed(b: Emitter, x: IrValue) -> IrValue:
    """Converts x to signed integers.

    A splat remains a splat, because a kernel can read only a limited number of arrays.
    """
    type_ = with_element(x.type, signless(max(8, element(x).width)))
    value = constant_splat(x)
    if value is not None:
        number, end = int(value.value), 1 << type_.element_type.width
        return b.constant(number - end if 2 * number >= end else number, type_)
    return stored(b, x)


def _read_as(x: IrValue, kind: ir.IntegerType, place: ir.InsertionPoint, loop: IrOp) -> None:
    """Changes the type of x to signed integers. The readers of x read it converted back to the element type `kind`.

    The conversion is emitted at `place`.
    """
    readers = list(x.uses)
    x.set_type(with_element(x.type, signless(max(8, kind.width))))
    if readers:
        replace_uses(readers, restored(Emitter(place, loop.location), x, kind))
