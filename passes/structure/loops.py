"""Emits the loops of a cluster, which are fused, as one loop. It stores sequences of values in arrays (stacks).

`_emit_stacked` emits a loop that recomputes no loops of the opposite direction. It reads residuals of other loops from
stacks, or is fused with loops of the same direction. The emitters in `segmented.py` and `checkpointed.py` recompute
loops of the opposite direction.
"""

from collections.abc import Callable, Mapping
from typing import Any

from tiduc.dialect.control.control import needs_static_shapes
from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.errors import UnknownSize
from tiduc.dialect.graph.graph import Value
from tiduc.dialect.ops.control_ops import sequence_type
from tiduc.dialect.shapes.types import is_empty
from tiduc.passes.structure.checkpointed import emit_checkpointed
from tiduc.passes.structure.clusters import Cluster, Member, MemberResult, is_last_carry
from tiduc.passes.structure.records import Records
from tiduc.passes.structure.scope import Scope, index_type
from tiduc.passes.structure.segmented import emit_segmented
from tiduc.passes.structure.slots import simplify_slots
from tiduc.passes.structure.steps import ClusterIteration, build_step, unchanged_carries
from tiduc.passes.structure.sums import MovedSums
from tiduc.passes.structure.while_loops import Carry, Results, Test, emit_while, index_test, write_entry


def emit_loops(scope: Scope, cluster: Cluster) -> None:
    """Emits one loop for a cluster (loops fused into one), or none if the trip count is 0. Sets its results."""
    _give_invariants(scope, cluster)
    plan = scope.plan.loops[cluster]
    if plan.trip_count_source is not None:
        scope.trip_counts[cluster] = scope.trip_counts[plan.trip_count_source]
    if plan.trip_count == 0:
        _give_initial(scope, cluster)
        return
    is_tested = plan.emitter == "stacked" and _leading(scope, cluster).record.cond is not None
    try:
        step = build_step(scope, cluster)
        if plan.trip_count is not None and not is_tested:  # else a condition may read the carries
            simplify_slots(scope, cluster, step, plan.trip_count)
        records = Records(scope, cluster, step)
        carries, arrays = EMITTERS[plan.emitter](scope, cluster, step, records)
        records.give(carries, arrays)
    except UnknownSize as error:
        raise needs_static_shapes(error, cluster.ops[0].location) from None


def _give_invariants(scope: Scope, cluster: Cluster) -> None:
    """Sets the results that need no loop: loop-carried values that never change, and sequences of empty elements."""
    for member in cluster.members:
        for op, record in member.records.items():
            first, idle = len(record.inits) + len(record.sequences), unchanged_carries(record)
            for y, j in zip(op.results, record.results, strict=True):
                if j < 0:
                    scope.local[y] = scope.local[record.operands[first + ~j]]
                elif j in idle:
                    scope.local[y] = scope.local[record.inits[j]]
                elif j >= len(record.inits) and j in member.used and y.type.has_static_shape and is_empty(y):
                    scope.local[y] = scope.b.zero(y.type)


def _give_initial(scope: Scope, cluster: Cluster) -> None:
    """Sets the results of a loop without iterations: initial loop-carried values, and sequences of length 0."""
    results: dict[MemberResult, Value] = {}
    for at in ((member, i) for member in cluster.members for i in member.used):
        element = at[0].record.body.outputs[at[1]].type
        results[at] = scope.init(at) if is_last_carry(at) else scope.b.zero(sequence_type(element, 0))
    scope.set_results(results)


def _leading(scope: Scope, cluster: Cluster) -> Member:
    """The ops of one call site (a member) that determine the trip count: those with a condition, else the first."""
    members = scope.plan.members(cluster)
    return next((m for m in members if m.record.cond is not None), cluster.members[0])


def _emit_stacked(scope: Scope, cluster: Cluster, step: ClusterIteration, records: Records) -> Results:
    """Emits one loop for the cluster's members and for the loops recomputed for it. All have the same direction."""
    b, plan, leading = scope.b, scope.plan.loops[cluster], _leading(scope, cluster)
    leader = leading.record
    count: Any = plan.trip_count  # an integer; a value if only a bound is known
    if leader.cond is None and (count is None or plan.bound is not None):
        count = scope.trip_count(cluster)
    k, inner = step.number, step.b
    one, first = inner.constant(1, index_type()), b.constant(0, index_type())
    following = inner.subtract(k, one) if leader.reverse else inner.add(k, one)
    if leader.reverse and isinstance(count, int):
        first = b.constant(count - 1, index_type())
    elif leader.reverse:
        first = b.subtract(count, b.constant(1, index_type()))
    sums = MovedSums(scope, cluster, step, records, plan.trip_count if plan.bound is None else None)
    before = [step.loop.carry(type_) for type_ in records.types]
    after = records.written(inner, before, k, records.values)
    rows, read = [step.loop.carry(type_) for type_ in sums.types()], sums.read
    carries = [
        Carry(k, first, following, plan.needs_trip_count and leader.cond is not None),
        *(
            Carry(x, scope.init(at), step.nexts[at], cluster.is_used(at) or at in read)
            for at, x in step.carries.items()
        ),
        *map(Carry, before, records.first(b), after),
        *(
            Carry(x, b.zero(x.type), write_entry(inner, x, y, k))
            for x, y in zip(rows, sums.rows, strict=True)
        ),
    ]
    test = _test(scope, leading, step, count)
    results = emit_while(scope, b, step.loop, carries, test, leader.memory, leader.bound)
    if leader.cond is not None and k in results:
        scope.trip_counts[cluster] = results[k]
    last = {at: results[x] for at, x in step.carries.items() if x in results}
    stacks = [results[x] for x in [*before[: len(records.stacked)], *rows]]
    return last | sums.results(stacks, last), [results[x] for x in before]


def _test(scope: Scope, member: Member, step: ClusterIteration, count: Value | int) -> Test:
    """The test of the emitted loop: the condition of `member`, or a comparison of the iteration number with `count`."""
    leader, read = member.record, step.loop.read
    if leader.reverse:
        return index_test(step.number, 0, "GE")
    if leader.cond is None:
        return index_test(step.number, read(count) if isinstance(count, Value) else count, "LT")
    inits = [step.carries.get((member, i)) or read(scope.local[x]) for i, x in enumerate(leader.inits)]
    own = [*inits, *(read(scope.local[x]) for x in leader.invariants)]

    def test(b: StablehloBuilder, of: dict[Value, Value]) -> Value:
        return scope.inlined(b, leader.cond, [of[x] for x in own])[0]

    return test


EMITTERS: Mapping[str, Callable[[Scope, Cluster, ClusterIteration, Records], Results]] = {
    "stacked": _emit_stacked,
    "segmented": emit_segmented,
    "checkpointed": emit_checkpointed,
}
"""The functions that emit the loop of a cluster of fused loops. The keys are the values of `LoopPlan.emitter`."""
