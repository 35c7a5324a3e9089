"""number_marks: replaces the barriers of a function's marks (`emit/marks.py`) by one barrier with several results.

    %n = optimization_barrier 0 {tidu.hidden}    ->    %c = constant [0, 1]
    %m = optimization_barrier 0 {tidu.hidden}          %n:2 = optimization_barrier %c, %c {tidu.numbers}
                                                       slices of %n#0 and of %n#1

A mark is a copy that IREE must not merge with another value. It reads a hidden number: the result of a barrier, which
IREE does not know. But IREE merges barriers of equal constants, so two marks would become one value; it does not merge
two results of one barrier. The pass runs after each group of passes that emits marks. A later run extends the barrier
of an earlier run, because IREE would merge two barriers.

All operands of the barrier are one array, so that IREE compiles one constant instead of hundreds. The array has two
different numbers, because IREE would fill an array of equal numbers in each call and wait for the fill. The results are
sliced right before they are used, so that the ops of equal layers are equal, and `repeats` can pass the results to one
function.
"""

from collections import defaultdict
from collections.abc import Sequence
from graphlib import TopologicalSorter
from itertools import count
from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.emit.emitter import HIDDEN, NUMBERS, Emitter, rewriting, signless
from tiduc.backends.iree.emit.marks import BARRIER
from tiduc.dialect.graph.dependences import in_block
from tiduc.dialect.graph.functions import callee, functions_in, outer_first, replace, symbol, unused_symbol
from tiduc.dialect.mlir.context import stage
from tiduc.dialect.ops.ir_types import IrOp, IrValue


@stage
def number_marks(module: ir.Module) -> None:
    """Replaces the hidden numbers of each function, in place, by results of one barrier at the function's start.

    IREE inlines functions, and would then merge the barriers of two calls of one function. A called function therefore
    gets another argument, from which the operand of its barrier is computed. Each call passes a different hidden
    number.
    """
    if not any(HIDDEN in op.attributes for op in outer_first(module.operation, (BARRIER,))):
        return
    calls = defaultdict[str, list[Any]](list)
    for op in outer_first(module.operation, ("func.call",)):
        calls[callee(op)].append(op.operation)
    _call_private_functions(module, calls)
    for function in _callees_first(module):
        barriers = outer_first(function, (BARRIER,))
        hidden = [op for op in barriers if HIDDEN in op.attributes]
        if hidden:
            earlier = [op for op in barriers if NUMBERS in op.attributes]
            _number(function, hidden, earlier, calls[symbol(function)])


def _call_private_functions(module: ir.Module, calls: dict[str, list[ir.Operation]]) -> None:
    """Makes calls of public functions call private copies, because public functions must not get another argument."""
    body = module.operation.regions[0].blocks[0]
    for function in functions_in(module):
        name = symbol(function)
        if calls[name] and "private" not in str(function.attributes.get("sym_visibility")):
            new = unused_symbol(body, (f"{name}_{i}" for i in count()))
            copy = function.operation.clone(ir.InsertionPoint(body)).operation
            copy.attributes["sym_name"] = ir.StringAttr.get(new)
            copy.attributes["sym_visibility"] = ir.StringAttr.get("private")
            for call in calls[name]:
                call.attributes["callee"] = ir.FlatSymbolRefAttr.get(new)
            calls[new] = calls.pop(name)


def _callees_first(module: ir.Module) -> list[ir.Operation]:
    """The functions of a module, sorted so that a callee precedes its callers."""
    by_name = {symbol(op): op for op in functions_in(module)}
    called = {name: {callee(op) for op in outer_first(by_name[name], ("func.call",))} for name in by_name}
    return [by_name[name] for name in TopologicalSorter(called).static_order() if name in by_name]


def _number(function: IrOp, hidden: Sequence[IrOp], earlier: Sequence[IrOp], calls: Sequence[IrOp]) -> None:
    """Replaces the barriers `hidden` of a function, and the barrier `earlier` of an earlier run, by one barrier.

    If there are `calls` of the function, changes them to pass another argument, from which the barrier is computed.
    """
    block = function.regions[0].blocks[0]
    first = Emitter(ir.InsertionPoint.at_block_begin(block), hidden[0].location)
    if calls:
        pair = first.broadcast_in_dim(_argument(function, calls), [], [2])
    else:
        pair = first.table([0, 1], signless(32))
    old = [y for op in earlier for y in op.results]
    operands = [pair] * (len(old) + len(hidden))
    results = first.emit_all(BARRIER, operands, [pair.type] * len(operands), {NUMBERS: ir.UnitAttr.get()})
    for y, array in zip(old, results[: len(old)], strict=True):
        y.replace_all_uses_with(array)
    for op, array in zip(hidden, results[len(old) :], strict=True):
        for use in list(op.results[0].uses):
            reader, place = use.owner, in_block(use.owner, block)
            with rewriting(reader if place is None else place) as b:
                reader.operands[use.operand_number] = b.reshape(b.cut(array, 0, 0, 1), [])
    numbers = [
        x.owner for op in (*earlier, *hidden) for x in op.operands if not isinstance(x.owner, ir.Block)
    ]
    for op in (*earlier, *hidden):
        op.erase()
    for number in dict.fromkeys(numbers):
        if not list(number.results[0].uses):
            number.erase()


def _argument(function: IrOp, calls: Sequence[IrOp]) -> IrValue:
    """Adds an argument, an i32 scalar, to a function, and makes each of `calls` pass a hidden number for it.

    Returns the argument.
    """
    type_ = ir.RankedTensorType.get([], signless(32))
    of = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    function.attributes["function_type"] = ir.TypeAttr.get(
        ir.FunctionType.get([*of.inputs, type_], of.results)
    )
    if "arg_attrs" in function.attributes:
        given = [*function.attributes["arg_attrs"], ir.DictAttr.get({})]
        function.attributes["arg_attrs"] = ir.ArrayAttr.get(given)
    for call in calls:
        with rewriting(call) as b:
            operands, types = [*call.operands, b.hidden()], [y.type for y in call.results]
            attributes = {name: call.attributes[name] for name in call.attributes if name != "arg_attrs"}
            replace(call, b.emit_all(call.name, operands, types, attributes))
    argument: IrValue = function.regions[0].blocks[0].add_argument(type_, function.location)
    return argument
