"""A loop that stores its residuals in stacks, one entry per iteration."""

from typing import Any

from tiduc.dialect.graph import Value
from tiduc.passes.structure.clusters import Cluster, Member
from tiduc.passes.structure.records import Records
from tiduc.passes.structure.scope import Scope, index_type
from tiduc.passes.structure.slots import simplify_slots
from tiduc.passes.structure.steps import Step, build_step
from tiduc.passes.structure.while_loops import Carry, Test, emit_while, index_test


def emit_stacked(scope: Scope, cluster: Cluster) -> None:
    """Emits one loop for the cluster's members and those recomputed for it, all in the same direction."""
    b, plan = scope.b, scope.plan.loops[cluster]
    members = [m for c in (*plan.recomputed, cluster) for m in c.members]
    leading = next((m for m in members if m.record.cond is not None), members[0])
    leader = leading.record
    count: Any = plan.trip_count  # an integer, or a value where only a bound is known
    if leader.cond is None and (count is None or plan.bound is not None):
        count = scope.trip_count(cluster)
    step = build_step(scope, cluster)
    if leader.cond is None and plan.trip_count is not None:
        simplify_slots(scope, cluster, step, plan.trip_count)
    records = Records(scope, cluster, step)
    k, inner = step.number, step.b
    one, first = inner.constant(1, index_type()), b.constant(0, index_type())
    following = inner.subtract(k, one) if leader.reverse else inner.add(k, one)
    if leader.reverse and isinstance(count, int):
        first = b.constant(count - 1, index_type())
    elif leader.reverse:
        first = b.subtract(count, b.constant(1, index_type()))
    before = [step.loop.carry(type_) for type_ in records.types]
    after = records.written(inner, before, k, records.values)
    carries = [
        Carry(k, first, following, plan.needs_trip_count and leader.cond is not None),
        *(Carry(x, scope.init(at), step.nexts[at], cluster.is_used(at)) for at, x in step.carries.items()),
        *map(Carry, before, records.first(b), after),
    ]
    test = _test(scope, leading, step, count)
    results = emit_while(scope, b, step.loop, carries, test, leader.memory, leader.bound)
    if leader.cond is not None and k in results:
        scope.trip_counts[cluster] = results[k]
    last = {at: results[x] for at, x in step.carries.items() if x in results}
    records.give(last, [results[x] for x in before])


def _test(scope: Scope, member: Member, step: Step, count: Any) -> Test:
    """The loop's test: the condition of `member`, or a bound on the iteration's number."""
    leader, read = member.record, step.loop.read
    if leader.reverse:
        return index_test(step.number, 0, "GE")
    if leader.cond is None:
        return index_test(step.number, read(count) if isinstance(count, Value) else count, "LT")
    inits = [step.carries.get((member, i)) or read(scope.local[x]) for i, x in enumerate(leader.inits)]
    own = [*inits, *(read(scope.local[x]) for x in leader.invariants)]

    def test(b: Any, of: dict[Value, Value]) -> Value:
        return scope.inlined(b, leader.cond, [of[x] for x in own])[0]

    return test
