"""search: finds the best schedule of a small graph by a search over the sets of live results.

A state is the set of live results, with the ops that have run among those that may run only once. A transition runs an
op whose operands are live, or drops a result from memory. The search returns the fastest schedule within the budget, or
else the schedule that exceeds the budget least. The search is Dijkstra's algorithm, so the schedule is optimal in the
model, except that results of the graph are never dropped. A search of `MOST` ops takes up to a second. `recompute.py`
plans larger graphs.
"""

import heapq
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count

from tiduc.dialect.facts.costs import seconds
from tiduc.dialect.graph.graph import Definition
from tiduc.passes.rematerialize.liveness import Liveness

MOST = 16
"""Graphs with more ops whose results take memory are not searched."""

_State = tuple[int, int]
"""Two bit sets: the live results, and the ops that have run among those that may run only once."""


def searched(model: Liveness, budget: int, can_rerun: Callable[[Definition], bool]) -> Liveness | None:
    """Returns the fastest schedule whose peak is at most `budget` bytes, or else the schedule of lowest peak.

    Returns None for a graph with too many ops, with an op that takes no memory although it is not virtual, or without
    any schedule that computes all results.
    """
    runs = [i for i, roots in enumerate(model.roots) if roots == (i,)]
    if len(runs) > MOST or not all(model.size[i] for i in runs):
        return None
    path = _path(model, runs, budget - model.throughout, can_rerun)
    return None if path is None else _scheduled(model, path)


def _path(
    model: Liveness, runs: list[int], budget: int, can_rerun: Callable[[Definition], bool]
) -> list[int] | None:
    """Returns the numbers of the ops to run, in order, or None if no sequence computes all results of the graph."""
    bit = {i: 1 << n for n, i in enumerate(runs)}
    kept = sum(bit[i] for i in model.kept)
    once = sum(bit[i] for i in runs if not can_rerun(model.ops[i]))
    # A loop may read only some of the ops that it needs (`inside.py`). All of them must have run.
    reads = {i: sum(bit[j] for j in {j for k in model.needs[i] for j in model.roots[k]}) for i in runs}
    sizes = {i: model.taken[i] for i in runs}
    times = {i: seconds(model.ops[i]) for i in runs}
    inside = {i: model.inside.get(model.ops[i], 0) for i in runs}

    def steps(state: _State, held: int) -> Iterator[tuple[int | None, _State, int, float]]:
        """Yields transitions: the op to run (None drops a result), the next state, its live bytes, the op's time."""
        live, done = state
        for i in runs:
            own = bit[i]
            if live & own:
                if not own & kept:
                    yield None, (live & ~own, done), held - sizes[i], 0.0
            elif live & reads[i] == reads[i] and not done & own:
                yield i, (live | own, done | own & once), held + sizes[i], times[i]

    start: _State = (0, 0)
    best, numbers = {start: (budget, 0.0)}, count(1)
    came: dict[_State, tuple[_State, int | None]] = {}
    queue = [(budget, 0.0, 0, start, 0)]
    while queue:
        peak, time, _, state, held = heapq.heappop(queue)
        if state[0] & kept == kept and state[1] == once:
            return _back(came, state)
        if (peak, time) > best[state]:
            continue
        for op, after, bytes_, more in steps(state, held):
            reached = max(peak, bytes_ + (0 if op is None else inside[op])), time + more
            if after not in best or reached < best[after]:
                best[after], came[after] = reached, (state, op)
                heapq.heappush(queue, (*reached, next(numbers), after, bytes_))
    return None


def _back(came: dict[_State, tuple[_State, int | None]], state: _State) -> list[int]:
    path = []
    while state in came:
        state, op = came[state]
        if op is not None:
            path.append(op)
    return path[::-1]


def _scheduled(old: Liveness, path: list[int]) -> Liveness:
    """Returns the model of the schedule that runs these ops, and the virtual ops that they need."""
    taken: list[int] = []
    needs: list[tuple[int, ...]] = []
    place: dict[int, int] = {}  # the place of each op's latest run
    first: dict[int, int] = {}

    def run(i: int) -> None:
        place[i] = len(taken)
        first.setdefault(i, len(taken))
        taken.append(i)
        needs.append(tuple([place[j] for j in old.needs[i]]))

    def bring(i: int) -> None:
        """Runs the virtual ops that op i needs, except those that have run since the latest runs of their operands."""
        stack, behind = [i], set[int]()
        while stack:
            for k in old.needs[stack.pop()]:
                if old.roots[k] != (k,) and k not in behind:
                    behind.add(k)
                    stack.append(k)
        for j in sorted(behind):
            if j not in place or needs[place[j]] != tuple([place[k] for k in old.needs[j]]):
                run(j)

    for i in path:
        bring(i)
        run(i)
    for i in range(len(old.ops)):
        if i not in place:
            bring(i)
            run(i)
    reads: list[tuple[int, ...]] = []
    roots: list[tuple[int, ...]] = []
    for n, i in enumerate(taken):
        behind = tuple(dict.fromkeys(k for need in needs[n] for k in roots[need]))
        is_run = old.roots[i] == (i,)
        reads.append(behind if is_run else ())
        roots.append((n,) if is_run else behind)
    sizes = [old.size[i] for i in taken]
    kept = {first[i]: count for i, count in old.kept.items()}
    ops = [old.ops[i] for i in taken]
    return replace(old, ops=ops, size=sizes, needs=needs, reads=reads, roots=roots, kept=kept)
