"""late_results: ends an execution region early, so that IREE allocates later results after the region.

    %0 = ...; %1 = f %0; return %0, %1     ->     %0 = ...; %2 = optimization_barrier %0; %1 = f %2; return %2, %1

IREE allocates all results of an execution region before the region runs. The results of a network's gradient are as
large as the weights, so they would take memory while many residuals are still live.

A barrier ends an execution region. The pass inserts one barrier into a function. The operands of the barrier are the
results that are computed before it, and the last value that is computed before it and read after it. The values that
pass from the first region to the second share one allocation; the other values of the first region share another.
Results that are larger than their operands are computed last if this lowers the peak. A model of memory
(`passes/rematerialize/liveness.py`) selects the order of the ops and the position of the barrier. Programs with other
barriers, loops, branches or calls are not rewritten, because these end regions, too.
"""

from dataclasses import replace
from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.emit.arrays import has_dynamic_shape
from tiduc.backends.iree.emit.emitter import STORED, Emitter
from tiduc.backends.iree.fault import slow
from tiduc.dialect.graph.dependences import is_constant
from tiduc.dialect.graph.functions import functions_in
from tiduc.dialect.graph.graph import Graph, Value, captured, definition_of, operations, terminator
from tiduc.dialect.mlir.context import stage
from tiduc.dialect.ops.ir_types import IrOp
from tiduc.dialect.ops.traits import CONTROL
from tiduc.passes.rematerialize.liveness import Liveness, liveness
from tiduc.passes.rematerialize.order import in_order, results_last

_BARRIER = "stablehlo.optimization_barrier"
_ENDS_REGIONS = CONTROL | {"func.call"}


@slow(
    "IREE allocates the results of an execution region before the region runs; tiduc ends the region early.",
    "memory.py: gpt2 layer",
)
@stage
def late_results(module: ir.Module | IrOp) -> int:
    """Inserts a barrier into each function whose peak of memory this lowers. Returns the number of these functions."""
    return sum(map(_end_region, functions_in(module)))


def _end_region(function: IrOp) -> bool:
    """Reorders the ops of a function and inserts a barrier, if this lowers the peak. Returns whether it did so."""
    if len(function.regions[0].blocks) != 1:
        return False
    block = function.regions[0].blocks[0]
    ops, last = list(operations(block))[:-1], terminator(block)
    if not last.operands or any(map(_ends_region, ops)) or any(map(has_dynamic_shape, (*ops, last))):
        return False
    model = replace(liveness(_graph(function, ops, last)), may_split=True)
    order = results_last(model)
    place = model.region_end(order)
    if place is None:
        return False
    for i in order[next((k for k, i in enumerate(order) if i != k), len(order)) :]:
        ops[i].move_before(last)
    _put_barrier(in_order(model, order), [ops[i] for i in order], last, place)
    return True


def _ends_region(op: IrOp) -> bool:
    """Whether IREE ends an execution region at an op: at control flow, a call or a barrier.

    Other passes replace barriers that only prevent fusion (`STORED`), and move barriers of constants to the function's
    start, so these do not count.
    """
    if op.name != _BARRIER:
        return op.name in _ENDS_REGIONS
    return STORED not in op.attributes and not all(map(is_constant, op.operands))


def _graph(function: IrOp, ops: list[IrOp], last: IrOp) -> Graph:
    """Converts a function to a `Graph` (`dialect/graph/graph.py`), the input of the model of memory."""
    graph, values = Graph("main"), dict[Any, Value]()
    for i, x in enumerate(function.regions[0].blocks[0].arguments):
        graph.inputs[str(i)] = values[x] = Value(x.type, graph, None, str(i))
    for op in ops:
        definition = definition_of(op, graph)
        definition.operands = tuple([values[x] for x in op.operands])
        definition.captures = tuple([values[x] for x in captured(op)])
        values.update(zip(op.results, definition.results, strict=True))
        graph.definitions.append(definition)
    graph.outputs = [values[y] for y in last.operands]
    return graph


def _put_barrier(model: Liveness, ops: list[IrOp], last: IrOp, place: int) -> None:
    """Inserts a barrier after the op with index `place`, so that IREE ends an execution region after this op.

    The operands of the barrier are the function's results that are computed before it, except constants, and the last
    value computed before it that ops after it read. These ops then read the results of the barrier.
    """
    before, after = set(ops[: place + 1]), {*ops[place + 1 :], last}
    read = {j for reads in model.reads[place + 1 :] for j in reads}
    passed = [i for i in range(place + 1) if i in read and model.taken[i]]
    taken = [y for y in dict.fromkeys(last.operands) if y.owner in before and not is_constant(y)]
    taken += [y for i in passed[-1:] for y in ops[i].results if y not in taken]
    b = Emitter(ir.InsertionPoint(ops[place + 1]), ops[place].location)
    for x, y in zip(taken, b.barrier(*taken), strict=True):
        for use in list(x.uses):
            if use.owner.operation in after:
                use.owner.operation.operands[use.operand_number] = y
