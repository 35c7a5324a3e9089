"""Replaces custom calls that return a tuple, which old exported programs contain, by calls with several results.

%t = custom_call @Qr(%x) : (T) -> tuple<T, U>   ->   %y, %z = custom_call @Qr(%x) : (T) -> (T, U)
                                                     %t = tuple %y, %z
"""

from collections.abc import Iterable, Iterator
from typing import Any

from torch_mlir import ir

from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.ops.control_ops import CUSTOM_CALL
from tiduc.dialect.ops.ir_types import IrOp, IrValue

TUPLE = "stablehlo.tuple"
GET_TUPLE_ELEMENT = "stablehlo.get_tuple_element"


def flatten_tuples(ops: Iterable[ir.Operation]) -> list[Any]:
    """Replaces each custom call in `ops` whose only result is a tuple by a call that returns the tuple's elements.

    Elements of nested tuples also become results of the new call. Returns the list of the ops after the replacement.
    """
    return [_flattened(op) if op.name == CUSTOM_CALL else op for op in ops]


def _flattened(op: IrOp) -> Any:
    if len(op.results) != 1 or not isinstance(op.results[0].type, ir.TupleType):
        return op
    type_, ip = op.results[0].type, ir.InsertionPoint(op)
    call = ir.Operation.create(
        CUSTOM_CALL,
        list(_parts(type_)),
        list(op.operands),
        {name: op.attributes[name] for name in op.attributes},
        loc=op.location,
        ip=ip,
    )
    op.results[0].replace_all_uses_with(_packed(type_, iter(call.results), op.location, ip))
    op.erase()
    return call


def _parts(type_: ir.TupleType) -> Iterator[Any]:
    """The types in a tuple type, including those in nested tuple types."""
    for i in range(type_.num_types):
        part = type_.get_type(i)
        if isinstance(part, ir.TupleType):
            yield from _parts(part)
        else:
            yield part


def _packed(
    type_: ir.Type, values: Iterator[IrValue], location: ir.Location, ip: ir.InsertionPoint
) -> IrValue:
    """Emits a tuple of the given type, whose elements are the next values of the iterator, and returns it.

    If the type is not a tuple type, returns the next value.
    """
    if not isinstance(type_, ir.TupleType):
        return next(values)
    parts = [_packed(type_.get_type(i), values, location, ip) for i in range(type_.num_types)]
    return ir.Operation.create(TUPLE, [type_], parts, loc=location, ip=ip).result


def part(op: Definition) -> Value | None:
    """Returns the value that a `get_tuple_element` op extracts from the result of a `tuple` op.

    Returns None if the tuple is not the result of a `tuple` op, or if `op` is not a `get_tuple_element` op.
    """
    if op.name != GET_TUPLE_ELEMENT:
        return None
    (whole,) = op.operands
    taken: Value | None = part(whole.definition) if whole.definition is not None else None
    whole = whole if taken is None else taken
    if whole.definition is None or whole.definition.name != TUPLE:
        return None
    taken = whole.definition.operands[ir.IntegerAttr(op.attributes["index"]).value]
    return taken
