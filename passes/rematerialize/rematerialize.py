"""rematerialize: fits a flat graph into a memory budget by reordering its ops and recomputing values.

    x1 x2 x3 x4 | c4 c3 c2 c1      ->      x1 x2 x3 x4 | c4 (x3 again) c3 c2 (x1 again) c1

Without a budget, the stage reorders ops, and recomputes values that cost next to nothing (`cheap.py`). With a budget,
it lowers the peak of live bytes to the budget, with the least recomputation that it finds. A model predicts the live
bytes (`liveness.py`). A compiler that keeps the order and the barriers of a program, such as IREE, comes close to the
model.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

from torch_mlir import ir

from tiduc.dialect.errors import RequestError
from tiduc.dialect.facts.costs import seconds, size_in_bytes
from tiduc.dialect.graph.graph import Definition, Graph
from tiduc.dialect.graph.view import View
from tiduc.dialect.mlir.context import stage
from tiduc.dialect.ops.verify import CHECKPOINT
from tiduc.passes.rematerialize.budget import LEAST, budget_in_bytes, shown_bytes
from tiduc.passes.rematerialize.cheap import cheaper
from tiduc.passes.rematerialize.emit import emit
from tiduc.passes.rematerialize.inside import total_seconds, with_inside, with_regions
from tiduc.passes.rematerialize.liveness import Liveness, liveness
from tiduc.passes.rematerialize.loops import Loops, MemoryPlan, has_choices, planned_within, recomputation
from tiduc.passes.rematerialize.order import SMALL, in_order, ordered, results_last, with_virtual_late
from tiduc.passes.rematerialize.recompute import curve, lowest, without_checkpointed
from tiduc.passes.rematerialize.second_runs import unchanged
from tiduc.passes.rules.registry import OpSet

_GAIN = 0.98
"""For the budget "min", values are recomputed only if the peak, without arguments and results, falls to this share.

Compilers place arrays in memory with some waste, which exceeds smaller gains.
"""


@stage
def rematerialize(
    view: View, graph: Graph, opset: OpSet, memory: str = "", loops: Loops | None = None
) -> Graph:
    """Changes a flat graph to have a lower peak of live bytes. Returns the new graph, or `graph` if nothing is gained.

    `memory` is the budget:
    - a number of bytes, such as "100MB" or "1.5GiB", which includes arguments and results;
    - a fraction, such as "0.3x", of the peak without a plan; the bytes of arguments and results are then not counted;
    - "min" for the lowest peak, if it is at least 2% below the peak without a budget (arguments and results excluded);
    - empty for no budget.

    `loops` provides alternative graphs whose loops store fewer residuals and recompute more. Raises `RequestError` if
    `memory` has another form, or is below the lowest peak that was found; the message then states that peak.
    """
    if not memory:
        total = sum(size_in_bytes(y) for op in graph.definitions for y in op.results)
        if total < SMALL and not any(CHECKPOINT in op.attributes for op in graph.definitions):
            return graph
        return _emitted(graph, opset, _planned(view, graph))
    plan = _fitted(view, graph, memory, loops)
    return _emitted(plan.graph, opset, plan.choice.model)


def _fitted(view: View, graph: Graph, memory: str, loops: Loops | None) -> MemoryPlan:
    """Returns the best plan found for a budget. Raises the errors that `rematerialize` raises."""
    first = _planned(view, graph)
    peak, given = first.peak(range(len(first.ops))), unplanned(view, graph)
    budget = budget_in_bytes(memory, given.peak, given.throughout)
    unbounded = unchanged(first)
    if peak > budget:
        first = _planned(view, graph, has_budget=True)
    plan = planned_within(graph, first, budget, loops, partial(_planned, view, has_budget=True))
    gain = _GAIN if memory == LEAST else 1.0
    if plan.choice.peak >= max(first.throughout + gain * (peak - first.throughout), budget):
        plan = MemoryPlan(graph, unbounded, unbounded.time)
    if memory != LEAST and plan.choice.peak > budget:
        least = shown_bytes(plan.choice.peak)
        raise RequestError(
            f"the program does not fit memory {memory}; the least budget that it fits is {least}"
        )
    return plan


def _planned(view: View, graph: Graph, has_budget: bool = False) -> Liveness:
    """Returns the model of the graph, reordered for the lowest peak, with second runs of cheap and checkpointed ops.

    The order and the second runs are optimized for one execution region. Afterwards, some results move to the end. An
    order optimized for two regions would recompute less, but take more memory: for a layer of a ViT on IREE, 5.8 MiB
    instead of 3.5 MiB.

    With a budget, the results of all second runs count as stored. If the budget is tight, many ops run again, and IREE
    stores more of their results than the model of fused ops predicts. Plans that rely on that model take up to twice
    the predicted memory (docs/memory.md).
    """
    model = ordered(with_inside(view, liveness(graph)), has_budget)
    seconds = partial(total_seconds, view, graph)  # most graphs are small and have no budget
    model = without_checkpointed(cheaper(graph, model, seconds, stored=has_budget)).model
    model = with_regions(view, model)
    return in_order(model, results_last(model))


def _emitted(graph: Graph, opset: OpSet, model: Liveness) -> Graph:
    """Emits the graph with its ops in the order of the model. Returns `graph` itself if its ops are in this order."""
    if list(model.ops) == list(graph.definitions):
        return graph
    b: Any = opset.builder(View(ir.Module.create()), graph.name)
    return emit(b, graph, with_virtual_late(model))


@dataclass(frozen=True)
class Recomputed:
    """An op that runs more than once under a budget. `times` is the number of runs.

    `bytes` is the size of the op's results, `seconds` the time of all runs but the first, and `reader` the first op
    that reads a second run.
    """

    op: Definition
    times: int
    bytes: int
    seconds: float
    reader: Definition


@stage
def recomputed(view: View, graph: Graph, memory: str, loops: Loops | None = None) -> list[Recomputed]:
    """The ops of a flat graph that run more than once under a budget, in order. Ops that compilers fuse are omitted.

    Arguments and errors are those of `rematerialize`.
    """
    model = _fitted(view, graph, memory, loops).choice.model
    places: dict[Definition, list[int]] = {}
    for place, op in enumerate(model.ops):
        if model.size[place]:
            places.setdefault(op, []).append(place)
    reader: dict[int, int] = {}
    for place, reads in enumerate(model.reads):
        for j in reads:
            reader.setdefault(j, place)
    again = [(op, runs) for op, runs in places.items() if len(runs) > 1 and runs[1] in reader]
    return [
        Recomputed(
            op,
            len(runs),
            model.size[runs[0]],
            (len(runs) - 1) * seconds(op),
            model.ops[reader[runs[1]]],
        )
        for op, runs in again
    ]


@dataclass(frozen=True)
class MemoryEstimate:
    """The peak of a program in bytes, the bytes of its arguments and results, and its time.

    Arguments and results are live throughout. The time is a multiple of the time without a budget.
    """

    peak: int
    throughout: int
    time: float


@stage
def unplanned(view: View, graph: Graph) -> MemoryEstimate:
    """The model's estimate for a flat graph without a plan: in its order, as one region, without recomputation."""
    model = with_inside(view, liveness(graph))
    return MemoryEstimate(model.peak(range(len(model.ops))), model.throughout, 1.0)


@stage
def estimated(view: View, graph: Graph, memory: str = "", loops: Loops | None = None) -> MemoryEstimate:
    """The model's estimate for a flat graph within a budget. Arguments and errors are those of `rematerialize`."""
    if not memory:
        first = _planned(view, graph)
        return MemoryEstimate(first.peak(range(len(first.ops))), first.throughout, 1.0)
    plan, total = _fitted(view, graph, memory, loops), total_seconds(view, graph)
    model = plan.choice.model
    return MemoryEstimate(plan.choice.peak, model.throughout, 1 + plan.time / total if total else 1.0)


@stage
def memory_curve(view: View, graph: Graph, loops: Loops | None = None) -> list[tuple[int, float]]:
    """Peaks in bytes that a flat graph can reach, in descending order, each with its time.

    A time is a multiple of the time without a budget. Peaks and times are estimated from the types of values. `loops`
    is as in `rematerialize`. At each point, all loops have the same memory option.
    """
    first = _planned(view, graph)
    points = [(first.peak(range(len(first.ops))), 0.0), *curve(_planned(view, graph, has_budget=True))]
    if loops is not None and has_choices(graph, loops):
        choices = loops.choices()
        for memory in ("sqrt", "log"):
            more = recomputation(loops, choices, memory, {})
            points += [
                (peak, time + more)
                for peak, time in curve(_planned(view, loops.structured(memory, {}), has_budget=True))
            ]
    total = total_seconds(view, graph)
    return [(peak, 1 + more / total if total else 1.0) for peak, more in lowest(points)]
