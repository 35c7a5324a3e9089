"""The arrays that a loop writes: stacks that other loops read, and checkpoints from which they recompute the loop."""

from collections.abc import Mapping, Sequence
from math import isqrt

from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.graph.graph import Value
from tiduc.dialect.ops.control_ops import sequence_type
from tiduc.passes.engine.recompute import cheapest_residuals, induction_variables
from tiduc.passes.structure.clusters import Cluster, MemberResult
from tiduc.passes.structure.scope import Scope, index_type
from tiduc.passes.structure.steps import ClusterIteration, Residuals, state_of
from tiduc.passes.structure.while_loops import filled, write_entry


class Records:
    """The arrays that a cluster's loop writes: its stacks, one entry per iteration, then its checkpoints.

    A sequence that an op reads as a whole is stacked unchanged. For sequences that loops read element by element, the
    stacks hold the fewest bytes from which cheap ops recompute the elements.

    Checkpoints are the loop-carried values on entry to each segment (run of iterations), one entry per segment. Each
    iteration writes the values that it reads to the entry of the next segment, and the first iteration of a segment to
    the entry of that segment. This iteration is the last to write the entry. A forward loop stores segment j in entry
    j, and a backward loop in entry j + 1. An entry that no iteration writes holds the initial values.

    `stacked` are the values of an iteration that are stacked. `values` are these values, then the checkpoints.
    """

    def __init__(self, scope: Scope, cluster: Cluster, step: ClusterIteration) -> None:
        self._scope, self._cluster, self._step = scope, cluster, step
        self._plan = plan = scope.plan.loops[cluster]
        variables = induction_variables(step)
        self._starts: dict[Value, tuple[Value, int]] = {}
        if plan.trip_count is not None and cluster.leader.cond is not None:
            self._starts = {x: (scope.init(at), by) for x, (at, by) in variables.items()}
        whole, residuals = (
            [step.elements[at] for at in places] for places in (plan.read_whole, plan.residuals)
        )
        if not plan.recomputed:
            residuals = cheapest_residuals(residuals, [step.number, *step.inputs, *self._starts, *whole])
        self.stacked = list(dict.fromkeys([*whole, *residuals]))
        self.types = [sequence_type(x.type, plan.trip_count) for x in self.stacked]
        self._checkpoints: list[MemberResult] = []
        if plan.sets_checkpoints and plan.trip_count is not None:
            self._length = segment(plan.trip_count)
            read = [step.elements[at] for at in plan.recomputed_from if at in step.elements]
            needed = state_of(scope, step, read, variables)
            self._checkpoints = [at for at in needed if at[0] in cluster.members]
            entries = -(-plan.trip_count // self._length) + 1
            self.types += [sequence_type(step.carries[at].type, entries) for at in self._checkpoints]
        self.values = [*self.stacked, *(step.carries[at] for at in self._checkpoints)]

    def first(self, b: StablehloBuilder) -> list[Value]:
        """The arrays before the first iteration: zeros or, for checkpoints of a backward loop, the initial values."""
        arrays = [b.zero(type_) for type_ in self.types]
        if self._cluster.leader.reverse:
            for i, at in enumerate(self._checkpoints, len(self.stacked)):
                arrays[i] = filled(b, self.types[i], self._scope.init(at))
        return arrays

    def written(
        self, b: StablehloBuilder, arrays: Sequence[Value], number: Value, values: Sequence[Value]
    ) -> list[Value]:
        """Emits the writes of an iteration, and returns the new arrays. `values` correspond to `self.values`."""
        entries = [number] * len(self.stacked)
        if self._checkpoints:
            ahead = b.add(number, b.constant(1 if self._cluster.leader.reverse else self._length - 1, number))
            entries += [b.divide(ahead, b.constant(self._length, number))] * len(self._checkpoints)
        return [write_entry(b, a, x, i) for a, x, i in zip(arrays, values, entries, strict=True)]

    def give(self, carries: Mapping[MemberResult, Value], arrays: Sequence[Value]) -> None:
        """Sets the results of the loop in the scope: its final loop-carried values, and the sequences read as arrays.

        The final values are NaN if the trip count exceeds its bound. For later loops, sets `scope.residuals`, from
        which they recompute elements, and `scope.checkpoints`.
        """
        scope, b, plan, results = self._scope, self._scope.b, self._plan, dict(carries)
        if plan.trip_count_source is not None and plan.memory != "log":
            within = b.compare(scope.trip_counts[self._cluster], b.constant(plan.bound, index_type()), "LE")
            for at, y in results.items():
                if b.tangent_type(y.type) is not None:
                    results[at] = b.select(within, y, b.constant(float("nan"), y.type))
        elements, n = self._step.elements, len(self.stacked)
        stacks = dict(zip(self.stacked, arrays[:n], strict=True))
        wanted = tuple([elements[at] for at in plan.residuals])
        residuals = Residuals(self._step, wanted, stacks, self._starts)
        scope.residuals.update((at, residuals) for at in plan.residuals)
        if plan.sets_checkpoints:
            scope.checkpoints[self._cluster] = dict(zip(self._checkpoints, arrays[n:], strict=True))
        scope.set_results(results | {at: stacks[elements[at]] for at in plan.read_whole})


def segment(trip_count: int) -> int:
    """The number of iterations from one checkpoint to the next: the square root of the trip count, rounded up."""
    return isqrt(max(trip_count - 1, 0)) + 1
