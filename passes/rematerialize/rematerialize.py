"""rematerialize: fits a flat graph into a budget of memory, by the order of its ops and by recomputing values.

    x1 x2 x3 x4 | c4 c3 c2 c1      ->      x1 x2 x3 x4 | c4 (x3 again) c3 c2 (x1 again) c1

Without a budget, the order changes, and values are recomputed that cost next to nothing (`cheap.py`). With a budget,
the peak of live bytes falls to the budget at the least time of recomputation that is found. The bytes are those of a
model (`liveness.py`); compilers that keep the order of a program and its barriers, as IREE does, come close to it.
"""

from collections.abc import Iterable
from dataclasses import replace

from torch_mlir import ir

from tiduc.dialect.context import stage
from tiduc.dialect.costs import seconds, size_in_bytes
from tiduc.dialect.errors import RequestError
from tiduc.dialect.graph import Graph
from tiduc.dialect.verify import CHECKPOINT
from tiduc.dialect.view import View
from tiduc.passes.rematerialize.budget import LEAST, budget_in_bytes, shown_bytes
from tiduc.passes.rematerialize.cheap import cheaper
from tiduc.passes.rematerialize.emit import emit
from tiduc.passes.rematerialize.liveness import Liveness, liveness
from tiduc.passes.rematerialize.order import SMALL, lowest_order
from tiduc.passes.rematerialize.recompute import curve, within, without_checkpointed
from tiduc.passes.rules.registry import OpSet


@stage
def rematerialize(graph: Graph, opset: OpSet, memory: str = "", others: Iterable[Graph] = ()) -> Graph:
    """The flat graph with a lower peak of live bytes; the graph itself where there is nothing to gain.

    `memory` is the budget: bytes such as "100MB" or "1.5GiB", arguments and results included; a share such as "0.3x" of
    the peak without a budget; "min" for the lowest peak; empty for no budget. `others` are graphs in its place whose
    loops keep less and recompute more: the first one that fits is taken. `RequestError` for another text, and for a
    budget below the lowest peak that is found, with that peak.
    """
    if not memory:
        total = sum(size_in_bytes(y) for op in graph.definitions for y in op.results)
        if total < SMALL and not any(CHECKPOINT in op.attributes for op in graph.definitions):
            return graph
        return _emitted(graph, opset, _planned(graph))
    first = _planned(graph)
    budget = budget_in_bytes(memory, first.peak(range(len(first.ops))))
    lowest = graph, within(first, budget)
    for other in others:
        if lowest[1].peak <= budget:
            break
        choice = within(_planned(other), budget)
        if choice.peak < lowest[1].peak:
            lowest = other, choice
    graph, choice = lowest
    if memory != LEAST and choice.peak > budget:
        least = shown_bytes(choice.peak)
        raise RequestError(
            f"the program does not fit memory {memory}; the least budget that it fits is {least}"
        )
    return _emitted(graph, opset, choice.model)


def _planned(graph: Graph) -> Liveness:
    """The model of the graph in the order of lowest peak, with second runs of cheap and of checkpointed ops."""
    return without_checkpointed(cheaper(graph, ordered(liveness(graph)))).model


def _emitted(graph: Graph, opset: OpSet, model: Liveness) -> Graph:
    """The graph with its ops in the order of the model; the graph itself where that is its own order."""
    if list(model.ops) == list(graph.definitions):
        return graph
    return emit(opset.builder(View(ir.Module.create()), graph.name), graph, model)


@stage
def memory_curve(graph: Graph) -> list[tuple[int, float]]:
    """Peaks in bytes that a flat graph can have, falling, each with its time as a multiple of that without a budget.

    Both follow from the types of values alone.
    """
    model = cheaper(graph, ordered(liveness(graph)))
    time = sum(map(seconds, model.ops))
    return [(peak, 1 + more / time if time else 1.0) for peak, more in curve(model)]


def ordered(model: Liveness) -> Liveness:
    """The model with its ops in the order of lowest peak, and numbered in that order."""
    order = lowest_order(model)
    if order == list(range(len(order))):
        return model
    place = [0] * len(order)
    for i, op in enumerate(order):
        place[op] = i
    needs, reads, roots = (
        [tuple([place[j] for j in side[i]]) for i in order]
        for side in (model.needs, model.reads, model.roots)
    )
    ops, size = [model.ops[i] for i in order], [model.size[i] for i in order]
    kept = frozenset(place[i] for i in model.kept)
    return replace(model, ops=ops, size=size, needs=needs, reads=reads, roots=roots, kept=kept)
