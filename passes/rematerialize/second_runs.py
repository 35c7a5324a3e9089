"""second_runs: builds the schedule in which readers after a place read second runs of evicted values.

    x1 x2 x3 x4 | c4 c3 c2 c1   evict x1, x3:   x1 x2 x3 x4 | c4 (x3 again) c3 c2 (x1 again) c1

A second run comes right before its first reader, after second runs of the evicted values that it reads. Each evicted
value has a segment (`segments.py`). A second run is shared if its reader needs a value of this segment, or of a segment
inside it; later readers then read the same run. Any other second run is temporary: the op runs again when its segment
is recomputed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from tiduc.dialect.ops.traits import ELEMENTWISE
from tiduc.passes.rematerialize.liveness import MOST_ROOTS, Liveness, fused_ops
from tiduc.passes.rematerialize.segments import Segment


@dataclass(frozen=True)
class RerunSchedule:
    """A schedule with second runs: its model, whose ops are in the order of the schedule, and its time.

    `time` is the estimated time of recomputation, in seconds.
    """

    model: Liveness
    time: float

    @cached_property
    def peak(self) -> int:
        """The most bytes that are live at once."""
        return self.model.peak(range(len(self.model.ops)))


def unchanged(model: Liveness) -> RerunSchedule:
    """The schedule `model`, without second runs."""
    return RerunSchedule(model, 0.0)


def evicting(
    base: RerunSchedule, peak: int, evicted: Mapping[int, Segment], stored: bool = True
) -> RerunSchedule:
    """Returns the schedule in which readers after the place `peak` read second runs of the evicted ops.

    `evicted` maps each op to its segment. If `stored` is set, the results of all second runs take memory. Otherwise
    second runs that compilers fuse with their readers take none.
    """
    reruns = _Reruns(base.model, peak, evicted, stored)
    model = reruns.schedule()
    return RerunSchedule(model, base.time + reruns.time)


class _Reruns:
    """Builds a schedule with second runs of ops, for the readers after a place."""

    def __init__(self, model: Liveness, peak: int, evicted: Mapping[int, Segment], stored: bool) -> None:
        self.model, self.peak, self.evicted, self.stored = model, peak, evicted, stored
        self.time = 0.0
        self.again: dict[
            int, int
        ] = {}  # maps an op to the place of its shared second run in the new schedule
        self.repeated: set[int] = set()  # the ops with second runs, shared or temporary
        before = peak + 1 if evicted else 0  # the number of ops at the beginning that do not move
        self.same = before  # the ops before this place are those of the old schedule
        self.place = list(range(before))  # the place of each op in the new schedule
        self.taken = list(range(before))  # the op at each place of the new schedule
        self.needs: list[tuple[int, ...]] = list(model.needs[:before])
        self.losable = self._losable()

    def _losable(self) -> set[int]:
        """The evicted ops, and the virtual ops up to the peak that need them, directly or through virtual ops."""
        size, losable = self.model.size, set(self.evicted)
        for i, needs in enumerate(self.needs):
            if not size[i] and not losable.isdisjoint(needs):
                losable.add(i)
        return losable

    def schedule(self) -> Liveness:
        place, taken, needs, losable = self.place, self.taken, self.needs, self.losable
        for i in range(len(place), len(self.model.ops)):
            needed = self.model.needs[i]
            if losable.isdisjoint(needed):  # most ops need no value that has a second run
                place.append(len(taken))
                taken.append(i)
                needs.append(tuple([place[j] for j in needed]))
            else:
                self._rerun_needed(i)
                place.append(self._append(i, self.again))
        self._drop_unread()
        return self._model()

    def _drop_unread(self) -> None:
        """Drops the first run of each op whose readers all read other runs."""
        readers = [0] * len(self.taken)
        for needs in self.needs:
            for j in needs:
                readers[j] += 1
        dropped = set[int]()
        for i in sorted(self.repeated, reverse=True):
            place = self.place[i]
            if not readers[place] and i not in self.model.kept:
                dropped.add(place)
                self.time -= self._seconds(i)
                for j in self.needs[place]:
                    readers[j] -= 1
        if dropped:
            self.same = min(self.same, *dropped)
            stay = [place for place in range(len(self.taken)) if place not in dropped]
            new = dict(zip(stay, range(len(stay)), strict=True))
            self.taken = [self.taken[place] for place in stay]
            self.needs = [tuple([new[j] for j in self.needs[place]]) for place in stay]
            self.place = [new.get(place, -1) for place in self.place]

    def _append(self, i: int, *runs: Mapping[int, int]) -> int:
        """Appends a run of an op, and returns the place of the run.

        The run reads second runs of its operands if `runs` contains their places, else their first runs.
        """
        place, needs = self.place, self.model.needs[i]
        for of in runs[:-1]:
            if not of.keys().isdisjoint(needs):
                read = [next((each[j] for each in runs if j in each), -1) for j in needs]
                break
        else:
            get = runs[-1].get
            read = [get(j, -1) for j in needs]
        self.taken.append(i)
        self.needs.append(tuple([n if n >= 0 else place[j] for n, j in zip(read, needs, strict=True)]))
        return len(self.taken) - 1

    def _rerun_needed(self, i: int) -> None:
        """Appends second runs of evicted ops that op `i` needs, and of the virtual ops between these ops and `i`."""
        size, needs, again, evicted = self.model.size, self.model.needs, self.again, self.evicted
        every = self._lost(i, through_evicted=True)
        if not every:
            return
        wanted = {evicted[j] for j in self._lost(i, through_evicted=False) if size[j]}
        passing: dict[int, int] = {}
        for j in sorted(every):
            if size[j]:
                first, end = evicted[j]
                stays = any(first <= segment[0] and segment[1] <= end for segment in wanted)
            elif any(k in again or k in passing for k in needs[j]):
                stays = not any(k in passing for k in needs[j])
            else:
                continue
            (again if stays else passing)[j] = self._append(j, passing, again)
            self.repeated.add(j)
            self.time += self._seconds(j)

    def _lost(self, i: int, through_evicted: bool) -> set[int]:
        """Returns the evicted and virtual ops without a shared second run that op `i` needs.

        `i` needs them directly or through virtual ops or, if `through_evicted` is set, through evicted ops.
        """
        size, needs, again, losable = self.model.size, self.model.needs, self.again, self.losable
        lost: set[int] = set()
        stack = list(needs[i])
        while stack:
            j = stack.pop()
            if j in losable and j not in lost and j not in again:
                lost.add(j)
                if through_evicted or not size[j]:
                    stack += needs[j]
        return lost

    def _seconds(self, i: int) -> float:
        """Returns the estimated time of a second run of op i, or 0 for a virtual op that is not elementwise."""
        op = self.model.ops[i]
        return self.model.seconds(op) if self.model.size[i] or op.name in ELEMENTWISE else 0.0

    def _model(self) -> Liveness:
        """The model of the new schedule, with ops numbered by place."""
        old, taken = self.model, self.taken
        ops = [old.ops[j] for j in taken]
        kept = {self.place[i]: count for i, count in old.kept.items()}
        fused = [False] * len(ops) if self.stored else fused_ops(ops, self.needs, kept)
        same = self.same if self.stored else 0
        size, reads, roots = old.size[:same], old.reads[:same], old.roots[:same]
        for i in range(same, len(taken)):
            j, behind = taken[i], self.needs[i]
            if not all([size[need] for need in behind]):
                behind = tuple(dict.fromkeys([k for need in behind for k in roots[need]]))
            is_virtual = not old.size[j] or (fused[i] and len(behind) <= MOST_ROOTS)
            size.append(0 if is_virtual else old.size[j])
            reads.append(() if is_virtual else behind)
            roots.append(behind if is_virtual else (i,))
        return replace(old, ops=ops, size=size, needs=self.needs, reads=reads, roots=roots, kept=kept)
