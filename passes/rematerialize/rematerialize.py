"""rematerialize: fits a flat graph into a budget of memory, by the order of its ops and by recomputing values.

    x1 x2 x3 x4 | c4 c3 c2 c1      ->      x1 x2 x3 x4 | c4 (x3 again) c3 c2 (x1 again) c1

Without a budget, only the order changes, at no cost, and every result is equal bit for bit. With a budget, the peak of
live bytes falls to the budget at the least time of recomputation that is found. The bytes are those of a model
(`liveness.py`); compilers that keep the order of a program and its barriers, as IREE does, come close to the model.
"""

from dataclasses import replace

from torch_mlir import ir

from tiduc.dialect.context import stage
from tiduc.dialect.costs import seconds, size_in_bytes
from tiduc.dialect.errors import RequestError
from tiduc.dialect.graph import Graph
from tiduc.dialect.view import View
from tiduc.passes.rematerialize.budget import LEAST, budget_in_bytes, shown_bytes
from tiduc.passes.rematerialize.emit import emit
from tiduc.passes.rematerialize.liveness import Liveness, liveness
from tiduc.passes.rematerialize.order import SMALL, lowest_order
from tiduc.passes.rematerialize.recompute import curve, within
from tiduc.passes.rules.registry import OpSet


@stage
def rematerialize(graph: Graph, opset: OpSet, memory: str = "") -> Graph:
    """The flat graph with a lower peak of live bytes; the graph itself where there is nothing to gain.

    `memory` is the budget: bytes such as "100MB" or "1.5GiB", arguments and results included; a share such as "0.3x" of
    the peak without a budget; "min" for the lowest peak; empty for no budget. `RequestError` for another text, and for
    a budget below the lowest peak that is found, with that peak.
    """
    if not memory and sum(size_in_bytes(y) for op in graph.definitions for y in op.results) < SMALL:
        return graph
    given = liveness(graph)
    model = ordered(given)
    if memory:
        budget = budget_in_bytes(memory, model.peak(range(len(model.ops))))
        choice = within(model, budget)
        if memory != LEAST and choice.peak > budget:
            least = shown_bytes(choice.peak)
            raise RequestError(
                f"the program does not fit memory {memory}; the least budget that it fits is {least}"
            )
        model = choice.model
    if model is given:
        return graph
    return emit(opset.builder(View(ir.Module.create()), graph.name), graph, model)


@stage
def memory_curve(graph: Graph) -> list[tuple[int, float]]:
    """Peaks in bytes that a flat graph can have, falling, each with its time as a multiple of that without a budget.

    Both follow from the types of values alone.
    """
    model = ordered(liveness(graph))
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
