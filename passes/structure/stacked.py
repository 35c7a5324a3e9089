"""A loop that stores its residuals in stacks, one entry per iteration."""

from typing import Any

from tiduc.dialect.graph import Value
from tiduc.passes.structure.plan import max_trip_count
from tiduc.passes.structure.records import Records
from tiduc.passes.structure.scope import Cluster, Member, Scope
from tiduc.passes.structure.slots import simplify_slots
from tiduc.passes.structure.steps import Step, build_step, index_type, members_of, new_input
from tiduc.passes.structure.trip_counts import first_iteration, unknown_trip_count
from tiduc.passes.structure.while_loops import emit_while


def emit_stacked(scope: Scope, cluster: Cluster, trip_count: int | None) -> None:
    """Emits one loop for the cluster's members and those recomputed for it, all in the same direction."""
    b, plan = scope.b, scope.plans[cluster]
    members = members_of([*plan.recomputed, cluster])
    leading = next((m for m in members if m.record.cond is not None), members[0])
    leader = leading.record
    is_known = (
        leader.cond is not None or max_trip_count(cluster) is None or plan.trip_count_source is not None
    )
    if (leader.cond is None and trip_count is None) or not is_known:
        raise unknown_trip_count(cluster)
    step = build_step(scope, members)
    if leader.cond is None and trip_count is not None:
        simplify_slots(scope, cluster, step, trip_count)
    inner, i32 = step.b, index_type()
    records = Records(scope, cluster, step, trip_count)
    arrays = [new_input(inner, type_) for type_ in records.types]
    one = inner.constant(1, i32)
    number = inner.subtract(step.number, one) if leader.reverse else inner.add(step.number, one)
    carries = [step.number, *step.carries.values(), *arrays]
    nexts = [number, *(step.nexts[at] for at in step.carries), *records.written(inner, arrays, step.number)]
    inits = [
        first_iteration(scope, cluster, trip_count),
        *(scope.local[m.record.inits[i]] for m, i in step.carries),
    ]
    used = [
        plan.needs_trip_count and leader.cond is not None,
        *(m in cluster.members and i in m.used for m, i in step.carries),
        *(True for _ in arrays),
    ]
    condition = _condition(scope, cluster, leading, step, trip_count)
    results = emit_while(
        scope,
        b,
        [*inits, *records.first(b)],
        list(step.outside),
        inner,
        carries,
        nexts,
        step.inputs,
        used,
        condition,
        (leader.memory, leader.bound),
    )
    if leader.cond is not None:
        if results[0] is not None:
            scope.trip_counts[cluster] = results[0]
    first = 1 + len(step.carries)
    records.give(
        dict(zip(step.carries, results[1:first], strict=True)), results[first:], max_trip_count(cluster)
    )


def _condition(scope: Scope, cluster: Cluster, member: Member, step: Step, trip_count: int | None) -> Any:
    """A function that emits the loop's test: the condition of `member`, or a bound on the iteration's number."""
    leader, is_computed = member.record, scope.plans[cluster].trip_count_source is not None
    if leader.cond is not None:
        for x in leader.invariants:
            step.input_for(scope.local[x])
    elif is_computed and not leader.reverse:
        step.input_for(scope.trip_counts[cluster])

    def emit(b: Any, of: dict[Value, Value]) -> Value:
        if leader.cond is not None:
            own = [
                of[step.carries[member, i] if (member, i) in step.carries else step.outside[scope.local[x]]]
                for i, x in enumerate(leader.inits)
            ]
            own += [of[step.outside[scope.local[x]]] for x in leader.invariants]
            return scope.inlined(b, leader.cond, own)[0]
        number = of[step.number]
        if leader.reverse:
            return b.compare(number, b.constant(0, number.type), "GE")  # type: ignore[no-any-return]
        limit = b.constant(trip_count, number.type)
        if is_computed:
            limit = of[step.outside[scope.trip_counts[cluster]]]
        return b.compare(number, limit, "LT")  # type: ignore[no-any-return]

    return emit
