"""late_results: ends an execution region amid a program, so that IREE allocates the results that come later later.

    %0 = ...; %1 = f %0; return %0, %1     ->     %0 = ...; %2 = optimization_barrier %0; %1 = f %2; return %2, %1

IREE allocates all results of an execution region before the region runs. In the gradient of a network, whose results
are as large as the weights, each result would take memory while the values that the backward part has not read yet do.
A barrier ends a region; it takes the results that have been computed, and the value that was computed last. The values
that pass from the first region to the second share one allocation, and the other values of the first region another
one. Results that are larger than what they are computed from, such as derivatives of the weights of small images, are
computed last where that helps. The order and the place of the barrier are those for which the model of memory
(`passes/rematerialize/liveness.py`) says that the peak is lowest.
Only programs without other barriers, loops and branches are rewritten, since those end regions, too.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from torch_mlir import ir

from tiduc.backends.iree.emitter import DISTINCT, STORED, Emitter, is_static
from tiduc.backends.iree.fault import slow
from tiduc.dialect.context import stage
from tiduc.dialect.dependences import is_constant, read_by
from tiduc.dialect.graph import Graph, Value, definition_of, operations, terminator
from tiduc.dialect.traits import CONTROL
from tiduc.dialect.updates import updated
from tiduc.passes.rematerialize.liveness import IN_PLACE, Liveness, liveness
from tiduc.passes.rematerialize.order import in_order, not_sunk

_SMALL = 2**20
"""Programs whose peak falls by fewer bytes stay as they are."""

_GAIN = 0.98
"""Programs stay as they are, too, unless the peak, without arguments, falls to this share."""

_MOST = 32
"""The most orders that are tried, and the most places in each, since the time grows with their product."""

_BARRIER = "stablehlo.optimization_barrier"
_ENDS_REGIONS = CONTROL | {"func.call"}


@slow("Allocates the results of an execution region before the region runs.")
@stage
def late_results(module: Any) -> int:
    """Ends a region in each function where this lowers the peak, in place; gives the number of functions."""
    functions = [op for op in operations(module.operation.regions[0].blocks[0]) if op.name == "func.func"]
    return sum(map(_end_region, functions))


def _end_region(function: Any) -> bool:
    """Ends a region in a function if that lowers the peak."""
    if len(function.regions[0].blocks) != 1:
        return False
    block = function.regions[0].blocks[0]
    ops, last = list(operations(block))[:-1], terminator(block)
    if not last.operands or any(map(_ends_region, ops)):
        return False
    types = [y.type for op in (*ops, last) for y in (*op.operands, *op.results)]
    if not all(is_static(type_) for type_ in types if isinstance(type_, ir.ShapedType)):
        return False
    model = liveness(_graph(function, ops, last))
    plan = _best_plan(model)
    if plan is None:
        return False
    order, place = plan
    for i in order[next((k for k, i in enumerate(order) if i != k), len(order)) :]:
        ops[i].move_before(last)
    _put_barrier(in_order(model, order), [ops[i] for i in order], last, place)
    return True


def _ends_region(op: Any) -> bool:
    """Whether IREE ends an execution region at an op; barriers of constants are at the start of the function."""
    if op.name != _BARRIER:
        return op.name in _ENDS_REGIONS
    return (
        STORED not in op.attributes
        and DISTINCT not in op.attributes
        and not all(map(is_constant, op.operands))
    )


def _graph(function: Any, ops: list[Any], last: Any) -> Graph:
    """The records of a function's ops."""
    graph, values = Graph("main"), dict[Any, Value]()
    for i, x in enumerate(function.regions[0].blocks[0].arguments):
        graph.inputs[str(i)] = values[x] = Value(x.type, graph, None, str(i))
    for op in ops:
        definition = definition_of(op, graph)
        definition.operands = tuple([values[x] for x in op.operands])
        definition.captures = tuple([values[x] for x in read_by(op)[len(op.operands) :]])
        values.update(zip(op.results, definition.results, strict=True))
        graph.definitions.append(definition)
    graph.outputs = [values[y] for y in last.operands]
    return graph


# ---- where ---------------------------------------------------------------------------------------------------------


def _best_plan(model: Liveness) -> tuple[list[int], int] | None:
    """An order, and the place after which a region ends, at the lowest peak; None if the gain is too small."""
    whole = model.peak(range(len(model.ops))) - model.arguments
    best = min(whole - _SMALL, _GAIN * whole)
    plan = None
    for order in _orders(model):
        changed = in_order(model, order)
        places = _places(changed)
        for peak, place in zip(_peaks(changed, places), places, strict=True):
            if peak < best:
                best, plan = peak, (order, place)
    return plan


def _places(model: Liveness) -> list[int]:
    """The ops after which a region may end: results, but not between an array and the op that overwrites it."""
    places = sorted(model.kept)[:-1]
    for i in (i for i in model.kept if updated(model.ops[i]) is not None and model.size[i] == IN_PLACE):
        array = max(model.reads[i], key=lambda j: model.kept.get(j, 0), default=i)
        places = [place for place in places if not array <= place < i]
    return places[:: -max(1, -(-len(places) // _MOST))]


def _orders(model: Liveness) -> Iterator[list[int]]:
    """The given order, and orders in which some results come last: those that are largest for what they read."""
    count = len(model.ops)
    yield list(range(count))
    groups = sorted(_groups(model), key=lambda pair: pair[0])
    step = max(1, -(-len(groups) // _MOST))
    for end in range(step, len(groups) + 1, step):
        late = {i for _, group in groups[:end] for i in group}
        yield [i for i in range(count) if i not in late] + sorted(late)


def _groups(model: Liveness) -> Iterator[tuple[float, set[int]]]:
    """Results that are larger than what they read, each with the ops that only it needs, after the ratio of sizes."""
    readers: list[set[int]] = [set() for _ in model.ops]
    for i, needs in enumerate(model.needs):
        for j in needs:
            readers[j].add(i)
    stays = not_sunk(model)
    for result in (i for i, those in enumerate(readers) if not those):
        group, stack = {result}, [result]
        while stack:
            for j in model.needs[stack.pop()]:
                if j not in group and readers[j] <= group and (not stays[j] or j in model.kept):
                    group.add(j)
                    stack.append(j)
        bytes_ = sum(model.kept.get(i, 0) for i in group)
        read = sum(map(model.taken, {j for i in group for j in model.reads[i]} - group))
        if read < bytes_:
            yield read / bytes_, group


def _peaks(model: Liveness, places: list[int]) -> Iterator[float]:
    """The peak of live bytes, without arguments, if a region ends after each of these ops."""
    count = len(model.ops)
    live = model.live(range(count)) - model.throughout
    last = _last_readers(model)
    taken = np.asarray([model.taken(i) for i in range(count)], np.float64)
    results = np.zeros(count)
    results[list(model.kept)] = list(model.kept.values())
    results = np.cumsum(results)
    for place in places:
        passed = np.where(last[: place + 1] > place, taken[: place + 1], 0)
        read = np.zeros(count + 1)
        np.add.at(read, last[: place + 1] + 1, passed)
        both = passed.sum()
        still = both - np.cumsum(read)[place + 1 : count]
        first = results[place] + (live[: place + 1] - np.cumsum(passed)).max()
        second = results[-1] + (live[place + 1 :] - still).max(initial=0)
        yield both + max(first, second)


def _last_readers(model: Liveness) -> Any:
    """The number of the last op that reads each op."""
    last = np.arange(len(model.ops))
    for i, reads in enumerate(model.reads):
        last[list(reads)] = i
    return last


def _put_barrier(model: Liveness, ops: list[Any], last: Any, place: int) -> None:
    """Ends a region after the op of a number: by a barrier that takes the results so far, and the latest value."""
    before, after = set(ops[: place + 1]), {*ops[place + 1 :], last}
    latest = _last_readers(model)
    passed = [i for i in range(place + 1) if latest[i] > place and model.taken(i)]
    taken = [y for y in dict.fromkeys(last.operands) if y.owner in before and not is_constant(y)]
    taken += [y for i in passed[-1:] for y in ops[i].results if y not in taken]
    b = Emitter(ir.InsertionPoint(ops[place + 1]), ops[place].location)
    for x, y in zip(taken, b.barrier(*taken), strict=True):
        for use in list(x.uses):
            if use.owner.operation in after:
                use.owner.operation.operands[use.operand_number] = y
