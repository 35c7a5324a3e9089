"""recompute: which values of a schedule are recomputed from others, for a lower peak of live bytes.

    x1 x2 x3 x4 | c4 c3 c2 c1   evict x1, x3:   x1 x2 x3 x4 | c4 (x3 again) c3 c2 (x1 again) c1

A value that is live at the peak, but not read for a while around it, can be *evicted*: readers after the peak then read
a second run of its op, which comes right before the first of them, after second runs of evicted values that it reads.
Candidates are evicted up to a price, in seconds of time per byte. Not all of them: the schedule before the peak is cut
into segments where few bytes cross, and what crosses a cut is kept, so that values are run again a segment at a time.

Griewank, Walther, "Algorithm 799: revolve" (2000), has the optimum for chains; Kirisame and others, "Dynamic tensor
rematerialization" (2021), the price.
"""

import math
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from tiduc.dialect.control import is_control
from tiduc.dialect.costs import seconds
from tiduc.dialect.graph import Definition
from tiduc.dialect.traits import COLLECTIVES, DRAWING, ELEMENTWISE, STATEFUL, TRAITS
from tiduc.dialect.verify import CHECKPOINT
from tiduc.passes.rematerialize.liveness import MOST_ROOTS, Liveness, fused_ops
from tiduc.passes.rematerialize.search import searched

_PRICES = 5
"""The number of prices that are tried, from the price of the cheapest candidates to that of all."""

_GROWTH = 1.4
"""The factor between the numbers of segments that are tried."""

_GAIN = 0.99
"""A further level of recomputation goes on only if the bytes beside arguments and results fall to this share."""


@dataclass(frozen=True)
class Choice:
    """A schedule with second runs: its model, whose ops are in the order of the schedule, its peak, and its time.

    `time` is the estimated time in seconds of the ops that run more than once.
    """

    model: Liveness
    peak: int
    time: float


@dataclass(frozen=True)
class _Candidate:
    """An op before the peak that can run again: its place, and the place of its last reader before the peak.

    `held` are the bytes of its results if a reader after the peak holds them, else 0; `price` is the time of the op for
    each byte of its results.
    """

    op: int
    last: int
    held: int
    price: float


_Segments = list[list[_Candidate]]
"""Candidates by segment, in order; values of one segment are recomputed together."""


def unchanged(model: Liveness) -> Choice:
    """The given schedule, with nothing recomputed."""
    return Choice(model, model.peak(range(len(model.ops))), 0.0)


def within(model: Liveness, budget: int) -> Choice:
    """The schedule of least time found whose peak is within the budget, in bytes, else the one of lowest peak found."""
    base = lowest = unchanged(model)
    compared = {model.ops[i] for i in model.compared}
    may_rerun = partial(_may_rerun, compared)
    if lowest.peak > budget and (small := searched(model, budget, may_rerun)) is not None:
        time = sum(map(seconds, small.ops)) - sum(map(seconds, model.ops))
        return Choice(small, small.peak(range(len(small.ops))), time)
    while lowest.peak > budget:
        fitting: dict[float, tuple[Choice, _Segments]] = {}  # by price: the schedule of least time that fits
        for price, segments, choice in _one_level(base):
            if choice.peak <= budget and (price not in fitting or choice.time < fitting[price][0].time):
                fitting[price] = choice, segments
            if choice.peak < lowest.peak:
                lowest = choice
        if fitting:
            return min(
                (_fewest(base, segments, budget) for _, segments in fitting.values()), key=lambda c: c.time
            )
        if lowest.peak - model.throughout >= _GAIN * (base.peak - model.throughout):
            break
        base = lowest
    return lowest


def without_checkpointed(model: Liveness) -> Choice:
    """The schedule in which readers after the last op with `tidu.checkpoint` recompute the values of such ops."""
    base = unchanged(model)
    marked = {i for i, op in enumerate(model.ops) if CHECKPOINT in op.attributes}
    if not marked:
        return base
    last = max(marked)
    return evicting(base, last, {c.op for c in _candidates(model, last + 1) if c.op in marked})


def curve(model: Liveness) -> list[tuple[int, float]]:
    """Peaks in bytes, falling, each with the least time of recomputation in seconds that was found for it."""
    base = unchanged(model)
    points = [(base.peak, 0.0)]
    while True:
        least = base
        for _, _, choice in _one_level(base):
            points.append((choice.peak, choice.time))
            if choice.peak < least.peak:
                least = choice
        if least.peak - model.throughout >= _GAIN * (base.peak - model.throughout):
            break
        base = least
    return lowest(points)


def lowest(points: Iterable[tuple[int, float]]) -> list[tuple[int, float]]:
    """The peaks, falling, below which no point has less time; each with its least time."""
    best: list[tuple[int, float]] = []
    for peak, time in sorted(points):
        if not best or time < best[-1][1]:
            best.append((peak, time))
    return best[::-1]


def _one_level(base: Choice) -> Iterator[tuple[float, _Segments, Choice]]:
    """The schedules that evict values of a schedule, for each price and number of segments: both, and the schedule."""
    model = base.model
    peak = _peak(base)
    candidates = _candidates(model, peak)
    prices = sorted(candidate.price for candidate in candidates)
    limits = {prices[max(0, (i + 1) * len(prices) // _PRICES - 1)] for i in range(_PRICES)} if prices else ()
    for limit in sorted(limits):
        evictable = [candidate for candidate in candidates if candidate.price <= limit]
        count, most = 1, 2 * math.isqrt(len(evictable)) + 8
        while count <= most:
            segments = _segments(model, evictable, count)
            if len(segments) < count:
                break
            yield limit, segments, evicting(base, peak, {c.op for segment in segments for c in segment})
            count = max(count + 1, int(count * _GROWTH))


def _peak(base: Choice) -> int:
    """The place of the peak in a schedule, or the end of the first region before it; 0 in one without ops.

    What passes from a region to the next one is live throughout both.
    """
    order = range(len(base.model.ops))
    live, end = base.model.live(order), base.model.region_end(order)
    peak = int(live.argmax()) if len(live) else 0
    return peak if end is None else min(peak, end)


def _fewest(base: Choice, segments: _Segments, budget: int) -> Choice:
    """The schedule that evicts as few values as the budget needs: first segments first, they are live longest."""
    # Within a segment, values of low price come first.
    ordered = [c for segment in segments for c in sorted(segment, key=lambda c: c.price)]
    peak = _peak(base)

    def first(count: int) -> Choice:
        return evicting(base, peak, {c.op for c in ordered[:count]})

    return first(bisect_left(range(len(ordered)), True, key=lambda count: first(count).peak <= budget))


# ---- candidates and segments -----------------------------------------------------------------------------------


def _candidates(model: Liveness, peak: int) -> list[_Candidate]:
    """The ops before the peak that can run again and are not read at the peak, in order."""
    last, is_read_later = list(range(len(model.ops))), [False] * len(model.ops)
    for place, reads in enumerate(model.reads):
        for j in reads:
            if place <= peak:
                last[j] = place
            else:
                is_read_later[j] = True
    return [
        _Candidate(i, last[i], model.size[i] * is_read_later[i], seconds(model.ops[i]) / model.size[i])
        for i in range(peak)
        if model.size[i]
        and last[i] < peak
        and i not in model.kept
        and i not in model.compared
        and can_rerun(model.ops[i])
    ]


def _may_rerun(compared: Collection[Definition], op: Definition) -> bool:
    """Whether an op can run again and is not among those whose results are compared."""
    return op not in compared and can_rerun(op)


def can_rerun(op: Definition) -> bool:
    """Whether a second run of an op gives equal results, and starts no loop or communication."""
    if op.name in STATEFUL or op.name in DRAWING or op.name in COLLECTIVES or is_control(op):
        return False
    return bool(op.operands) and not op.captures and op.name in TRAITS


def _segments(model: Liveness, evictable: Sequence[_Candidate], count: int) -> _Segments:
    """The candidates in at most `count` segments of similar size, without those that are live at the cuts between them.

    A cut is where the fewest bytes of candidates cross, in the second half of a segment.
    """
    crossing = np.zeros(len(model.ops) + 2, np.int64)
    for candidate in evictable:
        crossing[candidate.op + 1] += model.size[candidate.op]
        crossing[candidate.last + 1] -= model.size[candidate.op]
    crossing = np.cumsum(crossing)
    sizes = np.cumsum([0, *(candidate.held for candidate in evictable)])
    cuts: list[int] = []
    first = 0  # the number of the first candidate after the last cut
    while len(cuts) < count - 1:
        left = (sizes[-1] - sizes[first]) / (count - len(cuts))
        middle, end = (int(np.searchsorted(sizes, sizes[first] + part * left)) for part in (0.5, 1.25))
        places = range(
            evictable[min(middle, len(evictable) - 1)].op + 1, evictable[min(end, len(evictable) - 1)].op + 1
        )
        if not places or places[0] <= (cuts[-1] if cuts else 0):
            break
        near = evictable[min(int(np.searchsorted(sizes, sizes[first] + left)), len(evictable) - 1)].op + 1
        cuts.append(min(places, key=lambda place: (crossing[place], abs(place - near))))
        while first < len(evictable) and evictable[first].op < cuts[-1]:
            first += 1
        if first >= len(evictable):
            break
    segments: _Segments = [[] for _ in range(len(cuts) + 1)]
    for candidate in evictable:
        before = bisect_left(cuts, candidate.op + 1)
        if before == bisect_left(cuts, candidate.last + 1):
            segments[before].append(candidate)
    return segments


# ---- second runs -----------------------------------------------------------------------------------------------


def evicting(base: Choice, peak: int, evicted: Collection[int], stored: bool = True) -> Choice:
    """The schedule in which readers after the place `peak` read second runs of the evicted ops.

    If second runs count as stored, all take memory; else those that are fused with their readers take none.
    """
    reruns = _Reruns(base.model, peak, evicted, stored)
    model = reruns.schedule()
    return Choice(model, model.peak(range(len(model.ops))), base.time + reruns.time)


class _Reruns:
    """Builds a schedule with second runs of ops, for the readers after a place."""

    def __init__(self, model: Liveness, peak: int, evicted: Collection[int], stored: bool) -> None:
        self.model, self.peak, self.evicted, self.stored = model, peak, evicted, stored
        self.time = 0.0
        self.again: dict[int, int] = {}  # by op: the place of its second run in the new schedule
        self.place: list[int] = []  # by op: its place in the new schedule
        self.taken: list[int] = []  # by place in the new schedule: the op
        self.needs: list[tuple[int, ...]] = []

    def schedule(self) -> Liveness:
        for i in range(len(self.model.ops)):
            if i > self.peak and self.evicted:
                self._rerun_needed(i)
            self.place.append(self._append(i))
        self._drop_unread()
        return self._model()

    def _drop_unread(self) -> None:
        """Drops the first run of an op if all readers read the second run; the op then runs once, later."""
        readers = [0] * len(self.taken)
        for needs in self.needs:
            for j in needs:
                readers[j] += 1
        dropped = set[int]()
        for i in sorted(self.again, reverse=True):
            place = self.place[i]
            if not readers[place] and i not in self.model.kept:
                dropped.add(place)
                self.time -= self._seconds(i)
                for j in self.needs[place]:
                    readers[j] -= 1
        if dropped:
            stay = [place for place in range(len(self.taken)) if place not in dropped]
            new = dict(zip(stay, range(len(stay)), strict=True))
            self.taken = [self.taken[place] for place in stay]
            self.needs = [tuple([new[j] for j in self.needs[place]]) for place in stay]
            self.place = [new.get(place, -1) for place in self.place]

    def _append(self, i: int) -> int:
        """Appends a run of an op; gives its place."""
        again, place = self.again, self.place
        self.taken.append(i)
        self.needs.append(tuple([again[j] if j in again else place[j] for j in self.model.needs[i]]))
        return len(self.taken) - 1

    def _rerun_needed(self, i: int) -> None:
        """Appends second runs of what op `i` needs and has lost: evicted ops, and virtual ops that read them."""
        size, needs, again = self.model.size, self.model.needs, self.again
        lost: set[int] = set()
        stack = list(needs[i])
        while stack:
            j = stack.pop()
            if j <= self.peak and j not in lost and j not in again and (not size[j] or j in self.evicted):
                lost.add(j)
                stack += needs[j]
        for j in sorted(lost):
            if size[j] or any(k in again for k in needs[j]):
                again[j] = self._append(j)
                self.time += self._seconds(j)

    def _seconds(self, i: int) -> float:
        """The estimated time of a second run of op i; a virtual op takes time if it computes."""
        op = self.model.ops[i]
        return seconds(op) if self.model.size[i] or op.name in ELEMENTWISE else 0.0

    def _model(self) -> Liveness:
        """The model of the new schedule, with ops numbered by place."""
        old, taken = self.model, self.taken
        ops = [old.ops[j] for j in taken]
        kept = {self.place[i]: count for i, count in old.kept.items()}
        fused = [False] * len(ops) if self.stored else fused_ops(ops, self.needs, kept)
        size: list[int] = []
        reads: list[tuple[int, ...]] = []
        roots: list[tuple[int, ...]] = []
        for i, j in enumerate(taken):
            behind = tuple(dict.fromkeys(k for need in self.needs[i] for k in roots[need]))
            is_virtual = not old.size[j] or (fused[i] and len(behind) <= MOST_ROOTS)
            size.append(0 if is_virtual else old.size[j])
            reads.append(() if is_virtual else behind)
            roots.append(behind if is_virtual else (i,))
        return replace(old, ops=ops, size=size, needs=self.needs, reads=reads, roots=roots, kept=kept)
