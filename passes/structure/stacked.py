"""A loop that stores its residuals in stacks, one entry per iteration."""

from typing import Any

from tiduc.dialect.graph import Value
from tiduc.passes.structure.clusters import Cluster, Member
from tiduc.passes.structure.records import Records
from tiduc.passes.structure.scope import Scope
from tiduc.passes.structure.slots import simplify_slots
from tiduc.passes.structure.steps import Step, build_step
from tiduc.passes.structure.trip_counts import first_iteration, unknown_trip_count
from tiduc.passes.structure.while_loops import Carry, Test, emit_while, index_test, index_type


def emit_stacked(scope: Scope, cluster: Cluster) -> None:
    """Emits one loop for the cluster's members and those recomputed for it, all in the same direction."""
    b, plan = scope.b, scope.plan.loops[cluster]
    members = [m for c in (*plan.recomputed, cluster) for m in c.members]
    leading = next((m for m in members if m.record.cond is not None), members[0])
    leader = leading.record
    if leader.cond is None and (
        plan.trip_count is None or (plan.bound is not None and plan.trip_count_source is None)
    ):
        raise unknown_trip_count(cluster)
    step = build_step(scope, cluster)
    if leader.cond is None and plan.trip_count is not None:
        simplify_slots(scope, cluster, step, plan.trip_count)
    records = Records(scope, cluster, step)
    one = step.b.constant(1, index_type())
    number = step.b.subtract(step.number, one) if leader.reverse else step.b.add(step.number, one)
    before = [step.loop.carry(type_) for type_ in records.types]
    after = records.written(step.b, before, step.number, records.values)
    results = emit_while(
        scope,
        b,
        step.loop,
        [
            Carry(
                step.number,
                first_iteration(scope, cluster),
                number,
                plan.needs_trip_count and leader.cond is not None,
            ),
            *(
                Carry(x, scope.init(at), step.nexts[at], cluster.is_used(at))
                for at, x in step.carries.items()
            ),
            *map(Carry, before, records.first(b), after),
        ],
        _test(scope, cluster, leading, step),
        leader.memory,
        leader.bound,
    )
    if leader.cond is not None and step.number in results:
        scope.trip_counts[cluster] = results[step.number]
    carries = {at: results[x] for at, x in step.carries.items() if x in results}
    records.give(carries, [results[x] for x in before])


def _test(scope: Scope, cluster: Cluster, member: Member, step: Step) -> Test:
    """The loop's test: the condition of `member`, or a bound on the iteration's number."""
    leader, plan, read = member.record, scope.plan.loops[cluster], step.loop.read
    if leader.cond is None:
        if leader.reverse:
            return index_test(step.number, 0, "GE")
        source = plan.trip_count_source
        limit = plan.trip_count if source is None else read(scope.trip_counts[source])
        return index_test(step.number, limit, "LT")
    inits = [step.carries.get((member, i)) or read(scope.local[x]) for i, x in enumerate(leader.inits)]
    own = [*inits, *(read(scope.local[x]) for x in leader.invariants)]

    def test(b: Any, of: dict[Value, Value]) -> Value:
        return scope.inlined(b, leader.cond, [of[x] for x in own])[0]

    return test
