"""recompute: decides which values of a schedule are recomputed, for a lower peak of live bytes.

    x1 x2 x3 x4 | c4 c3 c2 c1   evict x1, x3:   x1 x2 x3 x4 | c4 (x3 again) c3 c2 (x1 again) c1

A value that is live at the peak, but not read near it, can be *evicted*: readers after the peak then read a second run
of its op (`second_runs.py`). Candidates are evicted up to a price, in seconds per byte. The schedule before the peak is
cut into nested segments, where few bytes cross (`segments.py`). Values that cross a cut are not evicted while their
segment is recomputed.

The price is that of Kirisame and others, "Dynamic tensor rematerialization" (2021).
"""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from tiduc.dialect.control.control import is_control
from tiduc.dialect.facts.costs import seconds
from tiduc.dialect.graph.graph import Definition
from tiduc.dialect.ops.traits import COLLECTIVES, DRAWING, STATEFUL, TRAITS
from tiduc.dialect.ops.verify import CHECKPOINT
from tiduc.passes.rematerialize.liveness import Liveness
from tiduc.passes.rematerialize.search import searched
from tiduc.passes.rematerialize.second_runs import RerunSchedule, evicting, unchanged
from tiduc.passes.rematerialize.segments import Candidate, Segment, Segments

_PRICES = 5
"""The number of prices that are tried. The lowest price allows a fifth of the candidates, the highest all."""

_STEP = 0.8
"""The factor from one memory size of segments to the next size that is tried."""

_FURTHER, _HALVINGS = 2, 4
"""How many smaller, and how many larger, memory sizes are tried after the first one that fits the budget."""

_PATIENCE = 8
"""Stop after this many schedules in a row that do not lower the peak, which may rise before it falls further."""

_GAIN = 0.99
"""The share to which a level must lower the peak, without arguments and results, so that another level is tried.

Each level recomputes values of the best schedule of the level before.
"""

_LEVELS = 4
"""The largest number of levels of recomputation. Planning a level takes time in proportion to all ops and
second runs.
"""

_MOST_OPS = 8
"""A schedule has at most this many times the ops of the graph, because compilers take time for each op."""

_WORK = 80
"""The schedules that are tried have, in total, at most about this many times the ops of the graph."""

_NEAR = 1.02
"""A peak, without arguments and results, is near the lowest one if it is at most this multiple of it."""

Evicted = Mapping[int, Segment]
"""The ops whose values are evicted, each with its segment."""


def within(model: Liveness, budget: int) -> RerunSchedule:
    """Returns the fastest schedule found with a peak of at most `budget` bytes, or else that of lowest peak.

    For a budget of 0, returns the fastest schedule whose peak is near the lowest.
    """
    base = lowest = unchanged(model)
    compared = {model.ops[i] for i in model.compared}
    may_rerun = partial(_may_rerun, compared)
    if lowest.peak > budget and (small := searched(model, budget, may_rerun)) is not None:
        time = sum(map(seconds, small.ops)) - sum(map(seconds, model.ops))
        return RerunSchedule(small, time)
    work = Work(len(model.ops))
    for _ in range(_LEVELS):
        if lowest.peak <= budget:
            break
        fitting: dict[float, tuple[RerunSchedule, Evicted]] = {}  # by price, the fastest schedule that fits
        near = [base]
        for price, evicted, choice in _one_level(base, work, budget):
            if choice.peak <= budget and (price not in fitting or choice.time < fitting[price][0].time):
                fitting[price] = choice, evicted
            near = _near_lowest([*near, choice])
            lowest = min(lowest, choice, key=lambda c: c.peak)
        if fitting:
            every = (_fewest(base, evicted, budget) for _, evicted in fitting.values())
            return min(every, key=lambda c: c.time)
        best = min(near, key=lambda c: c.time)
        if best.peak - model.throughout >= _GAIN * (base.peak - model.throughout):
            break
        base = best
    return lowest if budget else base


def _near_lowest(choices: list[RerunSchedule]) -> list[RerunSchedule]:
    """The schedules whose peak is near the lowest peak of all."""
    lowest = min(choice.peak - choice.model.throughout for choice in choices)
    return [choice for choice in choices if choice.peak - choice.model.throughout <= _NEAR * lowest]


def without_checkpointed(model: Liveness) -> RerunSchedule:
    """Returns the schedule that recomputes results of ops with `tidu.checkpoint` for readers after the last of them."""
    base = unchanged(model)
    marked = {i for i, op in enumerate(model.ops) if CHECKPOINT in op.attributes}
    if not marked:
        return base
    last = max(marked)
    marked.intersection_update(c.op for c in _candidates(model, last + 1))
    return evicting(base, last, dict.fromkeys(marked, (0, last)))


def curve(model: Liveness) -> list[tuple[int, float]]:
    """Returns the peaks found, in bytes, in descending order, each with its least recomputation time in seconds."""
    base = unchanged(model)
    points, work = [(base.peak, 0.0)], Work(len(model.ops))
    for _ in range(_LEVELS):
        near = [base]
        for _, _, choice in _one_level(base, work, every=True):
            points.append((choice.peak, choice.time))
            near = _near_lowest([*near, choice])
        best = min(near, key=lambda c: c.time)
        if best.peak - model.throughout >= _GAIN * (base.peak - model.throughout):
            break
        base = best
    return lowest(points)


def lowest(points: Iterable[tuple[int, float]]) -> list[tuple[int, float]]:
    """Sorts pairs of a peak and a time by descending peak. Omits a pair if a lower or equal peak takes no more time."""
    best: list[tuple[int, float]] = []
    for peak, time in sorted(points):
        if not best or time < best[-1][1]:
            best.append((peak, time))
    return best[::-1]


@dataclass
class Work:
    """Counts the ops of all schedules that were tried (`done`). `ops` is the number of ops of the graph."""

    ops: int
    done: int = 0

    def tried(self, choice: RerunSchedule) -> bool:
        """Adds the ops of a schedule to the count.

        Returns whether the schedule itself has few enough ops (`_MOST_OPS`).
        """
        count = len(choice.model.ops)
        self.done += count
        return count <= _MOST_OPS * self.ops

    @property
    def is_over(self) -> bool:
        return self.done > _WORK * self.ops


def _one_level(
    base: RerunSchedule, work: Work, budget: int = 0, every: bool = False
) -> Iterator[tuple[float, Evicted, RerunSchedule]]:
    """Yields tuples of a price, the values evicted from the schedule `base`, and the resulting schedule.

    High prices come first. Unless `every` is set, skips a price that evicts too few values to reach the budget or to
    come near the lowest peak so far.
    """
    peak, model = _peak(base), base.model
    candidates = _candidates(model, peak)
    prices = sorted(candidate.price for candidate in candidates)
    limits = {prices[max(0, (i + 1) * len(prices) // _PRICES - 1)] for i in range(_PRICES)} if prices else ()
    lowest = base.peak
    for limit in sorted(limits, reverse=True):
        if work.is_over:
            return
        segments = Segments([candidate for candidate in candidates if candidate.price <= limit], peak)
        least = base.peak - segments.held[-1]
        if least > max(budget, model.throughout + _NEAR * (lowest - model.throughout)) and not every:
            continue
        for evicted, choice in _of_segments(base, segments, work, budget):
            lowest = min(lowest, choice.peak)
            yield limit, evicted, choice


def _of_segments(
    base: RerunSchedule, segments: Segments, work: Work, budget: int
) -> Iterator[tuple[Evicted, RerunSchedule]]:
    """Yields pairs of evicted values and the resulting schedule. The first schedule evicts all candidates.

    Each later one is planned for segments with less memory. Once a schedule fits the budget, yields a few more, and
    then some with more memory, which recompute less.
    """
    peak, memory, fitting = segments.peak, float(segments.held[-1]), 0.0
    evicted: Evicted | None = segments.whole()
    before: Evicted | None = None
    lowest, since = base.peak, 0
    while evicted is not None and memory > _STEP**_FURTHER * fitting and since < _PATIENCE:
        if evicted != before:
            before, choice = evicted, evicting(base, peak, evicted)
            if not work.tried(choice):
                break
            yield evicted, choice
            lowest, since = min(lowest, choice.peak), 0 if choice.peak < lowest else since + 1
            if choice.peak <= budget:
                fitting = fitting or memory
        memory *= _STEP
        evicted = segments.within(memory)
    step = _STEP**-0.5
    for _ in range(_HALVINGS if fitting else 0):
        evicted, fits = segments.within(fitting * step), False
        if evicted is not None:
            choice = evicting(base, peak, evicted)
            work.tried(choice)
            yield evicted, choice
            fits = choice.peak <= budget
        fitting *= step if fits else 1
        step **= 0.5


def _peak(base: RerunSchedule) -> int:
    """Returns the place of the peak in a schedule, or the end of the first region if that is earlier, or 0 if empty.

    The end of the region matters, because values that the second region reads are live throughout both regions.
    """
    order = range(len(base.model.ops))
    live, end = base.model.live(order), base.model.region_end(order)
    peak = int(live.argmax()) if len(live) else 0
    return peak if end is None else min(peak, end)


def _fewest(base: RerunSchedule, evicted: Evicted, budget: int) -> RerunSchedule:
    """Returns the schedule that evicts only as many of the values `evicted` as the budget requires.

    Values of earlier segments are evicted first.
    """
    peak, model = _peak(base), base.model
    ordered = sorted(evicted, key=lambda i: (evicted[i], i))

    @cache
    def first(count: int) -> RerunSchedule:
        return evicting(base, peak, {i: evicted[i] for i in ordered[:count]})

    def fits(count: int) -> bool:
        return first(count).peak <= budget

    # The evicted values need at least the bytes by which the peak exceeds the budget. Often a few more suffice.
    freed = np.cumsum([model.size[i] for i in ordered])
    low = high = min(int(np.searchsorted(freed, base.peak - budget)) + 1, len(ordered))
    step = 1
    while high < len(ordered) and not fits(high):
        low, high, step = high + 1, min(high + step, len(ordered)), 2 * step
    return first(low + bisect_left(range(low, high), True, key=fits))


# ---- ops that may be recomputed --------------------------------------------------------------------------------


def _candidates(model: Liveness, peak: int) -> list[Candidate]:
    """Returns the candidates for eviction: ops before the peak that can run again and are not read at the peak."""
    last, is_read_later = list(range(len(model.ops))), [False] * len(model.ops)
    for place, reads in enumerate(model.reads):
        for j in reads:
            if place <= peak:
                last[j] = place
            else:
                is_read_later[j] = True
    return [
        Candidate(
            i, last[i], model.size[i], model.size[i] * is_read_later[i], seconds(model.ops[i]) / model.size[i]
        )
        for i in range(peak)
        if model.size[i]
        and last[i] < peak
        and i not in model.kept
        and i not in model.compared
        and can_rerun(model.ops[i])
    ]


def _may_rerun(compared: Collection[Definition], op: Definition) -> bool:
    """Whether an op can run again, and its result is not compared for equality."""
    return op not in compared and can_rerun(op)


def can_rerun(op: Definition) -> bool:
    """Whether a second run of an op gives equal results, and contains no control flow or communication.

    Returns False, too, for ops that are unknown or have no operands.
    """
    if op.name in STATEFUL or op.name in DRAWING or op.name in COLLECTIVES or is_control(op):
        return False
    return bool(op.operands) and not op.captures and op.name in TRAITS
