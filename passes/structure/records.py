"""The arrays that a loop writes: stacks, which others read, and checkpoints, from which others recompute it."""

from collections.abc import Sequence
from math import isqrt
from typing import Any

from tiduc.dialect.control import Loop
from tiduc.dialect.control_ops import sequence_type
from tiduc.dialect.graph import Definition, Value
from tiduc.dialect.types import shape
from tiduc.passes.engine.recompute import cheapest_residuals, induction_variables
from tiduc.passes.structure.scope import Cluster, Scope
from tiduc.passes.structure.steps import Place, Residuals, Step, filled, index_type, state_of, write_at


class Stacks:
    """The stacks of a cluster: which values of its iterations they hold, and how readers get theirs from them.

    A sequence that an op reads as a whole is stacked as it is (`whole`). For sequences that loops read element by
    element (`single`), the stacks hold the fewest bytes from which cheap ops recompute the elements.
    """

    def __init__(self, scope: Scope, cluster: Cluster, step: Step, trip_count: int | None) -> None:
        self._scope, self._step = scope, step
        self.whole: list[Place] = []
        self.single: list[Place] = []
        self.starts: dict[Value, Any] = {}
        self.values: list[Value] = []
        if trip_count is not None:
            self._find(cluster)
        self.types = [sequence_type(x.type, trip_count) for x in self.values]

    def _find(self, cluster: Cluster) -> None:
        scope, step = self._scope, self._step
        for at, x in step.elements.items():
            if at[0] in cluster.members:
                readers = [op for op in at[0].used.get(at[1], ()) if _needs_stack(scope, cluster, op)]
                if readers and 0 not in shape(x):
                    one_by_one = all(_reads_elements(scope, op, at) for op in readers)
                    (self.single if one_by_one else self.whole).append(at)
        found = induction_variables(step) if cluster.members[0].record.cond is not None else {}
        self.starts = {x: (scope.local[m.record.inits[i]], by) for x, ((m, i), by) in found.items()}
        wanted = [step.elements[at] for at in self.whole]
        single = [step.elements[at] for at in self.single]
        if not scope.plans[cluster].recomputed:
            single = cheapest_residuals(single, [step.number, *step.inputs, *self.starts, *wanted])
        self.values = list(dict.fromkeys([*wanted, *single]))

    def first(self, b: Any) -> list[Value]:
        """The stacks before the first iteration: zeros."""
        return [b.zero(type_) for type_ in self.types]

    def written(self, b: Any, stacks: Sequence[Value], values: Sequence[Value], number: Value) -> list[Value]:
        """The stacks after an iteration has written its values."""
        return [write_at(b, s, x, number) for s, x in zip(stacks, values, strict=True)]

    def give(self, stacks: Sequence[Any]) -> dict[Place, Value]:
        """Records in the scope how to recompute elements; returns the sequences that are stacked as a whole."""
        stack_of = {x: s for x, s in zip(self.values, stacks, strict=True) if s is not None}
        wanted = tuple([self._step.elements[at] for at in self.single])
        residuals = Residuals(self._step, wanted, stack_of, self.starts)
        self._scope.residuals.update((at, residuals) for at in self.single)
        return {at: stack_of[self._step.elements[at]] for at in self.whole}


class Checkpoints:
    """The checkpoints that a loop sets: its carries on entry to each segment, one entry per segment.

    Each iteration writes the carries that it begins with, to the entry of the segment that starts next, or with this
    iteration; so the first iteration of a segment is the last to write the segment's entry. Forwards, segment j is in
    entry j. Backwards, it is in entry j + 1; an entry that no iteration writes holds the initial carries.
    """

    def __init__(self, scope: Scope, cluster: Cluster, step: Step, trip_count: int) -> None:
        self._reverse, self._length = cluster.leader.reverse, segment(trip_count)
        readers = [reader for reader, plan in scope.plans.items() if cluster in plan.recomputed]
        recomputing = dict.fromkeys(
            c for reader in readers for c in (*scope.plans[reader].recomputed, reader)
        )
        wanted = [x for c in recomputing for x in _read_by(scope, c, step)]
        needed = state_of(scope, step, wanted, induction_variables(step))
        self.places: list[Place] = [at for at in needed if at[0] in cluster.members]
        self.values = [step.carries[at] for at in self.places]
        slots = -(-trip_count // self._length) + 1
        self.types = [sequence_type(x.type, slots) for x in self.values]
        self._inits = [scope.local[m.record.inits[i]] for m, i in self.places]
        self._results: Sequence[Any] = ()

    def first(self, b: Any) -> list[Value]:
        """The checkpoints before the first iteration: zeros forwards, the initial carries backwards."""
        if not self._reverse:
            return [b.zero(type_) for type_ in self.types]
        return [filled(b, type_, x) for type_, x in zip(self.types, self._inits, strict=True)]

    def written(self, b: Any, slots: Sequence[Value], values: Sequence[Value], number: Value) -> list[Value]:
        """The checkpoints after an iteration has written its carries."""
        ahead = b.add(number, b.constant(1 if self._reverse else self._length - 1, number))
        at = b.divide(ahead, b.constant(self._length, number))
        return [write_at(b, slot, x, at) for slot, x in zip(slots, values, strict=True)]

    def give(self, slots: Sequence[Any]) -> dict[Place, Value]:
        """Stores the arrays of checkpoints for `slots`; none of them is a result of the cluster's ops."""
        self._results = slots
        return {}

    def slots(self, at: Place) -> Value | None:
        """The checkpoints of a carry; None for a carry that every iteration reads as it was initially."""
        return self._results[self.places.index(at)] if at in self.places else None


class Records:
    """All arrays that a cluster's loop writes: its stacks, then its checkpoints."""

    def __init__(self, scope: Scope, cluster: Cluster, step: Step, trip_count: int | None) -> None:
        self._scope, self._cluster = scope, cluster
        self._kinds: list[Stacks | Checkpoints] = [Stacks(scope, cluster, step, trip_count)]
        if scope.plans[cluster].sets_checkpoints and trip_count is not None:
            scope.checkpoints[cluster] = Checkpoints(scope, cluster, step, trip_count)
            self._kinds.append(scope.checkpoints[cluster])
        self.values = [x for kind in self._kinds for x in kind.values]
        self.types = [type_ for kind in self._kinds for type_ in kind.types]

    def first(self, b: Any) -> list[Value]:
        """The arrays before the first iteration."""
        return [x for kind in self._kinds for x in kind.first(b)]

    def written(
        self, b: Any, arrays: Sequence[Value], number: Value, values: Sequence[Value] | None = None
    ) -> list[Value]:
        """The arrays after an iteration has written its values."""
        of = zip(self._split(arrays), self._split(self.values if values is None else values), strict=True)
        return [
            y for kind, (own, x) in zip(self._kinds, of, strict=True) for y in kind.written(b, own, x, number)
        ]

    def give(
        self, carries: dict[Place, Value | None], arrays: Sequence[Value | None], bound: int | None
    ) -> None:
        """Records the results of a cluster's loop in the scope; NaN if the trip count exceeds its bound."""
        scope, cluster = self._scope, self._cluster
        given = {at: y for at, y in carries.items() if y is not None}
        plan = scope.plans[cluster]
        if plan.trip_count_source is not None and plan.memory != "log":
            b = scope.b
            within = b.compare(scope.trip_counts[cluster], b.constant(bound, index_type()), "LE")
            for at, y in given.items():
                if b.tangent_type(y.type) is not None:
                    given[at] = b.select(within, y, b.constant(float("nan"), y.type))
        for kind, own in zip(self._kinds, self._split(arrays), strict=True):
            given |= kind.give(own)
        scope.set_results(given)

    def _split(self, arrays: Sequence[Any]) -> list[Sequence[Any]]:
        first = len(self._kinds[0].values)
        return [arrays[:first], arrays[first:]][: len(self._kinds)]


def segment(trip_count: int) -> int:
    """The length of a segment: the square root of the trip count, rounded up."""
    return isqrt(max(trip_count - 1, 0)) + 1


def _read_by(scope: Scope, cluster: Cluster, step: Step) -> list[Value]:
    """The values of a step that a cluster reads as elements of its sequences."""
    sequences = (scope.sequence.get(x) for m in cluster.members for x in m.record.sequences)
    return list(dict.fromkeys(step.elements[at] for at in sequences if at in step.elements))


def _needs_stack(scope: Scope, cluster: Cluster, op: Definition | None) -> bool:
    """Whether the reader of a sequence needs a stack: it is neither part of the loop, nor recomputes it."""
    reader = scope.cluster_of.get(scope.member_of.get(op))  # type: ignore[arg-type]
    return reader is None or (reader is not cluster and cluster not in scope.recomputed_for(reader))


def _reads_elements(scope: Scope, op: Definition | None, at: Place) -> bool:
    """Whether the reader is a loop that reads a sequence one element per iteration, and in no other way."""
    member = scope.member_of.get(op)  # type: ignore[arg-type]
    if member is None or not isinstance(member.record, Loop):
        return False
    record = member.record
    return all(scope.sequence.get(x) != at for x in (*record.inits, *record.invariants))
