"""Loops of a cluster as one loop without sequences; what others read of its iterations goes into stacks."""

from collections.abc import Sequence
from math import prod
from typing import Any

from tiduc.dialect.control import Loop, draws, sequence_type
from tiduc.dialect.errors import Unsupported
from tiduc.dialect.graph import Definition, Value
from tiduc.dialect.types import bits, shape
from tiduc.passes.clusters import Cluster, Member, Scope, give_results
from tiduc.passes.recompute import counters, kept
from tiduc.passes.slots import release
from tiduc.passes.steps import Kept, Place, Step, index_type, new_input, step, write_at
from tiduc.passes.whiles import emit_while

LIMIT = 2**28
"""How many bytes of stacks a loop may have, unless the user says that stacks are wanted."""


def plan(scope: Scope) -> None:
    """Decides which loops read stacks, and for which the iterations of others are run again."""
    for cluster in dict.fromkeys(scope.cluster_of.values()):
        if isinstance(cluster.leader, Loop):
            outside = [
                x for m in cluster.members for x in m.record.sequences if not is_inside(scope, x, cluster)
            ]
            sources = dict.fromkeys(
                scope.cluster_of[scope.sequence[x][0]] for x in outside if x in scope.sequence
            )
            cluster.memory = _memory(scope, cluster, outside)
            if cluster.memory != "stack":
                for source in sources:
                    if len(sources) == 1 and source.leader.cond is not None and source.source is None:
                        _check_repeatable(scope, source, cluster)
                        cluster.source, source.counted = source, True
                        source.marked |= cluster.memory == "sqrt" and length(source) is not None
            if cluster.leader.cond is None and _bound(cluster) is not None:
                cluster.counter = _counter(scope, cluster, outside)
                if cluster.counter is not None:
                    cluster.counter.counted = True


def _check_repeatable(scope: Scope, source: Cluster, cluster: Cluster) -> None:
    if any(draws(scope.view, member.record.body) for member in source.members):
        raise Unsupported(
            "a loop that draws random numbers cannot be run again from checkpoints",
            cluster.members[0].ops[0].location,
        )


def _memory(scope: Scope, cluster: Cluster, outside: Sequence[Value]) -> str:
    """How a cluster gets what others' iterations have given: the loop says so, or the caller, or sizes do."""
    if any(not x.type.has_static_shape for x in outside):
        return "log"
    wanted = next((m.record.memory for m in cluster.members if m.record.memory is not None), scope.memory)
    if not cluster.leader.reverse:
        return "stack"
    if wanted == "auto":
        return "sqrt" if sum(prod(x.type.shape) * bits(x) // 8 for x in outside) > LIMIT else "stack"
    return wanted


def _bound(cluster: Cluster) -> int | None:
    """How often the loops run at most, where no more is known."""
    if any(m.record.trip_count is not None for m in cluster.members):
        return None
    return next((m.record.bound for m in cluster.members if m.record.bound is not None), None)


def _counter(scope: Scope, cluster: Cluster, outside: Sequence[Value]) -> Cluster | None:
    """A cluster that knows how often this one runs: whose iterations gave its sequences, through whatever ops."""
    unread, seen = list(outside), set(outside)
    while unread:
        x = unread.pop()
        if x in scope.sequence:
            found = scope.cluster_of[scope.sequence[x][0]]
            if isinstance(found.leader, Loop) and found is not cluster and _bound(found) is not None:
                return found
        elif x in scope.maker_of:
            read = scope.maker_of[x].operands
            unread += [y for y in read if y not in seen]
            seen.update(read)
    return None


def emit_loops(scope: Scope, cluster: Cluster) -> None:
    """Emits the cluster's loop, forwards or backwards, and tells the scope what its results are."""
    from tiduc.passes.checkpoints import emit_recomputed  # these emit loops in turn
    from tiduc.passes.segments import emit_segmented

    _give_invariants(scope, cluster)
    count = length(cluster)
    if cluster.counter is not None:
        cluster.count = cluster.counter.count
    if count == 0:
        _emit_none(scope, cluster)
    elif cluster.source is None:
        emit_stacked(scope, cluster, cluster.members, count)
    elif cluster.leader.reverse == cluster.source.leader.reverse:
        emit_stacked(scope, cluster, [*cluster.source.members, *cluster.members], count)
    elif cluster.memory == "sqrt" and length(cluster.source) is not None:
        emit_segmented(scope, cluster, cluster.source, count)
    else:
        emit_recomputed(scope, cluster, cluster.source, count)


def length(cluster: Cluster) -> int | None:
    """The number of iterations, or a bound of it, where it is known when compiling."""
    for member in cluster.members:
        record = member.record
        if record.trip_count is not None:
            return record.trip_count  # type: ignore[no-any-return]
        for x in record.sequences:
            if not x.type.is_dynamic_dim(0):
                return int(x.type.shape[0])
    return _bound(cluster)


def is_inside(scope: Scope, x: Value, cluster: Cluster) -> bool:
    """A sequence is made by the cluster itself."""
    return x in scope.sequence and scope.cluster_of[scope.sequence[x][0]] is cluster


def _give_invariants(scope: Scope, cluster: Cluster) -> None:
    """Results that are operands, since no iteration changes them, and sequences of nothing."""
    for member in cluster.members:
        for op in member.ops:
            record = scope.record_of[op]
            first = len(record.inits) + len(record.sequences)
            for y, j in zip(op.results, record.results, strict=True):
                if j < 0:
                    scope.local[y] = scope.local[record.operands[first + ~j]]
                elif j in member.used and y.type.has_static_shape and 0 in y.type.shape:
                    scope.local[y] = scope.b.zero(y.type)


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


def emit_stacked(scope: Scope, cluster: Cluster, members: Sequence[Member], count: int | None) -> None:
    """One loop of the cluster's members, and of those that are run again for it."""
    from tiduc.passes.segments import Marks

    b, leader = scope.b, members[0].record
    is_counted = leader.cond is not None or _bound(cluster) is None or cluster.counter is not None
    if (leader.cond is None and count is None) or not is_counted:
        raise Unsupported(
            "reading a loop of unknown length a second time in its other direction, as reverse over reverse does, "
            "would need a bound of its length: say it by tidu.max_trip_count; forward over reverse needs none",
            cluster.members[0].ops[0].location,
        )
    made = step(scope, members)
    if leader.cond is None and count is not None:
        release(scope, cluster, made, count)
    inner, i32 = made.b, index_type()
    pushes = Pushes(scope, cluster, made, count)
    marks = cluster.marks = Marks(scope, cluster, made, count) if cluster.marked and count else None
    marked, checkpoints = (marks.inputs, marks.pushed()) if marks is not None else ([], [])
    one = inner.constant(1, i32)
    number = inner.subtract(made.number, one) if leader.reverse else inner.add(made.number, one)
    carries = [made.number, *made.carries.values(), *pushes.stacks, *marked]
    nexts = [number, *(made.nexts[at] for at in made.carries), *pushes.pushed(made.number), *checkpoints]
    inits = [first_number(scope, cluster, count), *(scope.local[m.record.inits[i]] for m, i in made.carries)]
    inits += [b.zero(x.type) for x in carries[len(inits) :]]
    used = [
        cluster.counted and leader.cond is not None,
        *(m in cluster.members and i in m.used for m, i in made.carries),
        *(True for _ in carries[1 + len(made.carries) :]),
    ]
    condition = _condition(scope, cluster, members[0], made, count)
    results = emit_while(
        scope,
        b,
        inits,
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
    last = first + len(pushes.stacks)
    if marks is not None:
        marks.results = results[last:]
    of_carries = dict(zip(made.carries, results[1:first], strict=True))
    give_all(scope, cluster, of_carries, pushes, results[first:last])


def first_number(scope: Scope, cluster: Cluster, count: int | None) -> Value:
    """The number of the iteration that a cluster's loop begins with."""
    b, i32 = scope.b, index_type()
    if not cluster.leader.reverse or count is None:
        return b.constant(0, i32)  # type: ignore[no-any-return]
    if cluster.counter is not None:
        return b.subtract(cluster.count, b.constant(1, i32))  # type: ignore[no-any-return]
    return b.constant(count - 1, i32)  # type: ignore[no-any-return]


class Pushes:
    """What of the iterations of a cluster goes into stacks, and what others make of these.

    Sequences are stacked as they are where an op reads them whole; for loops that read them one by one it is the
    values that they can be made from again.
    """

    def __init__(self, scope: Scope, cluster: Cluster, made: Step, count: int | None, b: Any = None) -> None:
        self._scope, self._made = scope, made
        self.whole: list[Place] = []
        self.single: list[Place] = []
        self.starts: dict[Value, Any] = {}
        self.values: list[Value] = []
        self.stacks: list[Value] = []
        self._b = b or made.b
        if count is not None:
            self._find(cluster)
            types = [sequence_type(x.type, count) for x in self.values]
            self.stacks = [new_input(self._b, type_) for type_ in types]

    def _find(self, cluster: Cluster) -> None:
        scope, made = self._scope, self._made
        for at, x in made.elements.items():
            if at[0] in cluster.members and 0 not in shape(x):
                readers = [op for op in at[0].used.get(at[1], ()) if _is_outside(scope, cluster, op)]
                if readers:
                    one_by_one = all(_reads_elements(scope, op, at) for op in readers)
                    (self.single if one_by_one else self.whole).append(at)
        forward = not cluster.leader.reverse
        found = counters(made) if forward and cluster.members[0].record.cond is not None else {}
        self.starts = {x: (scope.local[m.record.inits[i]], by) for x, ((m, i), by) in found.items()}
        wanted = [made.elements[at] for at in self.whole]
        single = [made.elements[at] for at in self.single]
        if cluster.source is None:
            single = kept(single, [made.number, *made.inputs, *self.starts, *wanted])
        self.values = list(dict.fromkeys([*wanted, *single]))

    def pushed(self, number: Value, values: Sequence[Value] | None = None) -> list[Value]:
        """The stacks with an iteration's values."""
        given = values if values is not None else self.values
        return [write_at(self._b, s, x, number) for s, x in zip(self.stacks, given, strict=True)]

    def give(self, stacks: Sequence[Any]) -> dict[Place, Value]:
        """Tells the scope what elements are made from; what stands for the sequences that are stacked whole."""
        stack_of = {x: s for x, s in zip(self.values, stacks, strict=True) if s is not None}
        wanted = tuple([self._made.elements[at] for at in self.single])
        note = Kept(self._made, wanted, stack_of, self.starts)
        self._scope.kept.update((at, note) for at in self.single)
        return {at: stack_of[self._made.elements[at]] for at in self.whole}


def give_all(
    scope: Scope,
    cluster: Cluster,
    carries: dict[Place, Value | None],
    pushes: Pushes,
    stacks: Sequence[Value | None],
) -> None:
    """Tells the scope what a cluster's loop has given; NaN where it was to run more often than its bound."""
    given = {at: y for at, y in carries.items() if y is not None}
    if cluster.counter is not None and cluster.memory != "log":
        b, bound = scope.b, _bound(cluster)
        within = b.compare(cluster.count, b.constant(bound, index_type()), "LE")
        for at, y in given.items():
            if b.tangent_type(y.type) is not None:
                given[at] = b.select(within, y, b.constant(float("nan"), y.type))
    give_results(scope, given | pushes.give(stacks))


def _is_outside(scope: Scope, cluster: Cluster, op: Definition | None) -> bool:
    """Who reads a sequence needs a stack: is neither in the loop, nor runs it again."""
    reader = scope.cluster_of.get(scope.member_of.get(op))  # type: ignore[arg-type]
    return reader is None or (reader is not cluster and reader.source is not cluster)


def _reads_elements(scope: Scope, op: Definition | None, at: Place) -> bool:
    """The reader is a loop that takes a sequence one element an iteration, and in no other way."""
    member = scope.member_of.get(op)  # type: ignore[arg-type]
    if member is None or not isinstance(member.record, Loop):
        return False
    record = member.record
    return all(scope.sequence.get(x) != at for x in (*record.inits, *record.invariants))


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
            own = [of[made.carries[member, i]] for i in range(len(leader.inits))]
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
