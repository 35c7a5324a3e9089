"""Loops of a cluster as one loop without sequences; what others read of its iterations goes into stacks."""

from collections.abc import Sequence
from math import prod
from typing import Any

from tiduc.dialect.control import Loop, draws, open_loop, sequence_type
from tiduc.dialect.errors import OpenSize, Unsupported
from tiduc.dialect.graph import Value
from tiduc.dialect.types import bits
from tiduc.passes.structure.clusters import Cluster, Member, Scope, give_results
from tiduc.passes.structure.records import Records
from tiduc.passes.structure.slots import release
from tiduc.passes.structure.steps import Place, Step, index_type, members_of, new_input, step, unchanged
from tiduc.passes.structure.while_loops import emit_while

LIMIT = 2**28
"""How many bytes of stacks a loop may have, unless the user says that stacks are wanted."""


def plan(scope: Scope, clusters: Sequence[Cluster]) -> None:
    """Decides, of clusters in order, which read stacks, and for which the iterations of others are run again."""
    for cluster in clusters:
        if isinstance(cluster.leader, Loop):
            outside = [
                x for m in cluster.members for x in m.record.sequences if not is_inside(scope, x, cluster)
            ]
            cluster.memory = _memory(scope, cluster, outside)
            if cluster.memory != "stack":
                _run_again(scope, cluster, outside)
            if cluster.leader.cond is None and bound(cluster) is not None:
                cluster.counter = _counter(scope, cluster, outside)
                if cluster.counter is not None:
                    cluster.counter.counted = True


def _run_again(scope: Scope, cluster: Cluster, outside: Sequence[Value]) -> None:
    """For a cluster, those whose iterations gave its sequences are run again, and those that these need for it."""
    sources = [source for x in dict.fromkeys(outside) if (source := _source(scope, x)) is not None]
    cluster.again = list(dict.fromkeys(c for source in sources for c in (*source.again, source)))
    if any(draws(scope.view, m.record.body) for source in cluster.again for m in source.members):
        raise Unsupported(
            "a loop that draws random numbers, or has effects, cannot be run again from checkpoints",
            cluster.members[0].ops[0].location,
        )
    for source in cluster.again:
        source.counted |= source.leader.cond is not None
        source.marked |= cluster.memory == "sqrt" and source.leader.reverse != cluster.leader.reverse


def _source(scope: Scope, x: Value) -> Cluster | None:
    """The loops whose iterations gave the elements of a sequence; None of an array that is there as a whole.

    Such as a last carry: a sum of cotangents of sequences, over the iterations of another loop.
    """
    member, i = scope.sequence.get(x, (None, 0))
    if member is None or not isinstance(member.record, Loop) or i < len(member.record.inits):
        return None
    return scope.cluster_of[member]


def _memory(scope: Scope, cluster: Cluster, outside: Sequence[Value]) -> str:
    """How a cluster gets what others' iterations have given: the loop says so, or the caller, or sizes do."""
    if any(not x.type.has_static_shape for x in outside):
        return "log"
    wanted = next((m.record.memory for m in cluster.members if m.record.memory is not None), scope.memory)
    if wanted == "auto":
        return "sqrt" if sum(prod(x.type.shape) * bits(x) // 8 for x in outside) > LIMIT else "stack"
    return wanted


def bound(cluster: Cluster) -> int | None:
    """How often the loops run at most, where no more is known."""
    if any(m.record.trip_count is not None for m in cluster.members):
        return None
    return next((m.record.bound for m in cluster.members if m.record.bound is not None), None)


def _counter(scope: Scope, cluster: Cluster, outside: Sequence[Value]) -> Cluster | None:
    """A cluster that knows how often this one runs: whose iterations gave its sequences, through whatever ops."""
    unread, seen = list(outside), set(outside)
    while unread:
        x = unread.pop()
        found = _source(scope, x)
        if found is not None:
            if found is not cluster and bound(found) is not None:
                return found
        elif x in scope.maker_of and x not in scope.sequence:
            read = scope.maker_of[x].operands
            unread += [y for y in read if y not in seen]
            seen.update(read)
    return None


def emit_loops(scope: Scope, cluster: Cluster) -> None:
    """Emits the cluster's loop, forwards or backwards, and tells the scope what its results are."""
    from tiduc.passes.structure.checkpointed import emit_recomputed  # these emit loops in turn
    from tiduc.passes.structure.segmented import emit_segmented

    _give_invariants(scope, cluster)
    count = length(cluster)
    if cluster.leader.cond is None and count is not None and count >= 2**31:
        message = f"a loop of {count} iterations is run backwards, which are counted in 32 bits"
        raise Unsupported(message, cluster.members[0].ops[0].location)
    if cluster.counter is not None:
        cluster.count = cluster.counter.count
    try:
        if count == 0:
            _emit_none(scope, cluster)
        elif all(source.leader.reverse == cluster.leader.reverse for source in cluster.again):
            emit_stacked(scope, cluster, count)
        elif cluster.memory == "sqrt" and count is not None:
            emit_segmented(scope, cluster, count)
        else:
            emit_recomputed(scope, cluster, count)
    except OpenSize as error:
        raise open_loop(error, cluster.members[0].ops[0].location) from None


def total(scope: Scope, cluster: Cluster) -> Value:
    """The number of iterations, once the clusters are emitted that are run again for this one."""
    for known in (cluster, *cluster.again):
        if known.count is not None:
            return known.count  # type: ignore[no-any-return]
    count = length(cluster)
    if count is None or bound(cluster) is not None:
        raise _unknown_length(cluster)
    return scope.b.constant(count, index_type())  # type: ignore[no-any-return]


def _unknown_length(cluster: Cluster) -> Unsupported:
    return Unsupported(
        "the iterations of a loop of unknown length are read where they cannot be run again: say by "
        "tidu.max_trip_count how many there are at most",
        cluster.members[0].ops[0].location,
    )


def length(cluster: Cluster) -> int | None:
    """The number of iterations, or a bound of it, where it is known when compiling."""
    for member in cluster.members:
        record = member.record
        if record.trip_count is not None:
            return record.trip_count  # type: ignore[no-any-return]
        for x in record.sequences:
            if not x.type.is_dynamic_dim(0):
                return int(x.type.shape[0])
    return bound(cluster)


def is_inside(scope: Scope, x: Value, cluster: Cluster) -> bool:
    """A sequence is made by the cluster itself."""
    return x in scope.sequence and scope.cluster_of[scope.sequence[x][0]] is cluster


def _give_invariants(scope: Scope, cluster: Cluster) -> None:
    """Results that are operands, since no iteration changes them, and sequences of nothing."""
    for member in cluster.members:
        for op in member.ops:
            record = scope.record_of[op]
            first, idle = len(record.inits) + len(record.sequences), unchanged(record)
            for y, j in zip(op.results, record.results, strict=True):
                if j < 0:
                    scope.local[y] = scope.local[record.operands[first + ~j]]
                elif j in idle:
                    scope.local[y] = scope.local[record.inits[j]]
                elif j >= len(record.inits) and j in member.used and _is_empty(y.type):
                    scope.local[y] = scope.b.zero(y.type)


def _is_empty(type_: Any) -> bool:
    return type_.has_static_shape and 0 in type_.shape


def _emit_none(scope: Scope, cluster: Cluster) -> None:
    """No iteration: the last carries are the first, and sequences are empty."""
    made: dict[Place, Value] = {}
    for member in cluster.members:
        inits = member.record.inits
        for i in member.used:
            if i < len(inits):
                made[member, i] = scope.local[inits[i]]
            else:
                made[member, i] = scope.b.zero(sequence_type(member.record.body.outputs[i].type, 0))
    give_results(scope, made)


def emit_stacked(scope: Scope, cluster: Cluster, count: int | None) -> None:
    """One loop of the cluster's members, and of those that are run again for it, in the same direction."""
    b, members = scope.b, members_of([*cluster.again, cluster])
    leading = next((m for m in members if m.record.cond is not None), members[0])
    leader = leading.record
    is_counted = leader.cond is not None or bound(cluster) is None or cluster.counter is not None
    if (leader.cond is None and count is None) or not is_counted:
        raise _unknown_length(cluster)
    made = step(scope, members)
    if leader.cond is None and count is not None:
        release(scope, cluster, made, count)
    inner, i32 = made.b, index_type()
    records = Records(scope, cluster, made, count)
    arrays = [new_input(inner, type_) for type_ in records.types]
    one = inner.constant(1, i32)
    number = inner.subtract(made.number, one) if leader.reverse else inner.add(made.number, one)
    carries = [made.number, *made.carries.values(), *arrays]
    nexts = [number, *(made.nexts[at] for at in made.carries), *records.written(inner, arrays, made.number)]
    inits = [first_number(scope, cluster, count), *(scope.local[m.record.inits[i]] for m, i in made.carries)]
    used = [
        cluster.counted and leader.cond is not None,
        *(m in cluster.members and i in m.used for m, i in made.carries),
        *(True for _ in arrays),
    ]
    condition = _condition(scope, cluster, leading, made, count)
    results = emit_while(
        scope,
        b,
        [*inits, *records.first(b)],
        list(made.outside),
        inner,
        carries,
        nexts,
        made.inputs,
        used,
        condition,
        (leader.memory, leader.bound),
    )
    if leader.cond is not None:
        cluster.count = results[0]
    first = 1 + len(made.carries)
    records.give(dict(zip(made.carries, results[1:first], strict=True)), results[first:], bound(cluster))


def first_number(scope: Scope, cluster: Cluster, count: int | None) -> Value:
    """The number of the iteration that a cluster's loop begins with."""
    b, i32 = scope.b, index_type()
    if not cluster.leader.reverse or count is None:
        return b.constant(0, i32)  # type: ignore[no-any-return]
    if cluster.counter is not None:
        return b.subtract(cluster.count, b.constant(1, i32))  # type: ignore[no-any-return]
    return b.constant(count - 1, i32)  # type: ignore[no-any-return]


def _condition(scope: Scope, cluster: Cluster, member: Member, made: Step, count: int | None) -> Any:
    """Emits whether there is another iteration: as the first member says, or by number."""
    leader = member.record
    if leader.cond is not None:
        for x in leader.invariants:
            made.taken(scope.local[x])
    elif cluster.counter is not None and not leader.reverse:
        made.taken(cluster.count)

    def emit(b: Any, of: dict[Value, Value]) -> Value:
        if leader.cond is not None:
            own = [
                of[made.carries[member, i] if (member, i) in made.carries else made.outside[scope.local[x]]]
                for i, x in enumerate(leader.inits)
            ]
            own += [of[made.outside[scope.local[x]]] for x in leader.invariants]
            return scope.inlined(b, leader.cond, own)[0]
        number = of[made.number]
        if leader.reverse:
            return b.compare(number, b.constant(0, number.type), "GE")  # type: ignore[no-any-return]
        limit = b.constant(count, number.type)
        if cluster.counter is not None:
            limit = of[made.outside[cluster.count]]
        return b.compare(number, limit, "LT")  # type: ignore[no-any-return]

    return emit
