"""loops: chooses for each loop of a program whether it stores all residuals or checkpoints, to meet a budget.

The transpose of a loop reads the residuals of the loop. The program stores them for all n iterations (a stack), or
stores checkpoints of sqrt n or log n iterations and recomputes the rest. At first, all loops have the same option.
Then the best option is chosen for one group of loops after the other, while the options of the others are fixed. Loops
with the largest stacks come first. A plan is better if it exceeds the budget by less or, among plans within the budget,
if it is faster.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tiduc.dialect.control.control import is_control
from tiduc.dialect.graph.graph import Graph
from tiduc.dialect.graph.view import View
from tiduc.passes.rematerialize.inside import seconds_of_iteration
from tiduc.passes.rematerialize.liveness import Liveness
from tiduc.passes.rematerialize.recompute import within
from tiduc.passes.rematerialize.second_runs import RerunSchedule
from tiduc.passes.structure.plan import LIMIT, LoopChoice

_GROUPS = 8
"""The largest number of groups of loops. The loops of a group get the same memory option."""


Planner = Callable[[Graph], Liveness]
"""Maps a graph to its memory model (`liveness.py`), with the ops in the order of lowest peak."""


@dataclass(frozen=True)
class Loops:
    """The loops of a program before they are lowered, and the memory options that can be chosen for them.

    `are_free` says whether a budget may choose options. `choices` lists the loops. `structured` takes the option for
    all loops, such as "stack", "sqrt" or "log", and a map from loop numbers to other options of single loops. It
    returns the flat graph in which the loops have these options.
    """

    view: View
    are_free: bool
    choices: Callable[[], Sequence[LoopChoice]]
    structured: Callable[[str, Mapping[int, str]], Graph]


@dataclass(frozen=True)
class MemoryPlan:
    """A flat graph and its schedule within a budget.

    `time` is the estimated time of recomputation in seconds, inside and outside of loops. `chosen` maps numbers of
    loops to memory options; `memory` is the option of all other loops.
    """

    graph: Graph
    choice: RerunSchedule
    time: float
    memory: str = "auto"
    chosen: Mapping[int, str] = field(default_factory=dict)


def planned_within(
    graph: Graph, model: Liveness, budget: int, loops: Loops | None, plan: Planner
) -> MemoryPlan:
    """Returns the best plan found for a budget: a schedule of `graph`, or of a variant with other options of loops.

    `model` is the memory model of `graph`.
    """
    choice = within(model, budget)
    best = MemoryPlan(graph, choice, choice.time)
    if loops is None or not has_choices(graph, loops) or (choice.peak <= budget and not choice.time):
        return best
    choices = loops.choices()

    def tried(memory: str, chosen: Mapping[int, str]) -> MemoryPlan:
        other = loops.structured(memory, chosen)
        choice = within(plan(other), budget)
        return MemoryPlan(
            other, choice, choice.time + recomputation(loops, choices, memory, chosen), memory, chosen
        )

    def rank(plan: MemoryPlan) -> tuple[int, float]:
        return max(plan.choice.peak, budget), plan.time

    best = min((best, tried("sqrt", {}), tried("log", {})), key=rank)
    for group in _groups(choices) if len(choices) > 1 else ():
        for memory in ("stack", "sqrt", "log"):
            chosen = {**best.chosen, **dict.fromkeys(group, memory)}
            if any(best.chosen.get(i, best.memory) != memory for i in group):
                best = min(best, tried(best.memory, chosen), key=rank)
    return best


def has_choices(graph: Graph, loops: Loops) -> bool:
    """Whether the budget may choose memory options of loops, and the flat graph has control flow."""
    return loops.are_free and any(is_control(op) for op in graph.definitions)


def recomputation(
    loops: Loops, choices: Sequence[LoopChoice], memory: str, chosen: Mapping[int, str]
) -> float:
    """The estimated seconds of recomputed iterations.

    With sqrt n checkpoints, each iteration runs once more. With log n checkpoints, it runs log n / 2 times more. The
    option "auto" means sqrt n checkpoints if the stacks would exceed `LIMIT` bytes, else stacks.
    """
    time = 0.0
    for choice in choices:
        own = chosen.get(choice.number, memory)
        if own == "sqrt" or (own == "auto" and choice.bytes > LIMIT):
            runs = 1.0
        else:
            runs = choice.trip_count.bit_length() / 2 if own == "log" else 0.0
        if runs:
            bodies = sum(seconds_of_iteration(loops.view, body) for body in choice.recomputed)
            time += runs * choice.trip_count * bodies
    return time


def _groups(choices: Sequence[LoopChoice]) -> Iterator[list[int]]:
    """Yields at most `_GROUPS` groups of loop numbers. Loops with the largest stacks come first."""
    numbers = [choice.number for choice in sorted(choices, key=lambda choice: -choice.bytes)]
    length = -(-len(numbers) // _GROUPS)
    for i in range(0, len(numbers), length):
        yield numbers[i : i + length]
