"""Loops of a cluster as one loop without sequences; what others read of its iterations goes into stacks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from torch_mlir import ir

from tiduc.dialect.control import Loop, emit_loop, sequence_type
from tiduc.dialect.errors import Unsupported
from tiduc.dialect.graph import Graph, Value
from tiduc.dialect.types import bits, shape
from tiduc.passes.clusters import Cluster, Member, Scope, give_results

Place = tuple[Member, int]


_LIMIT = 2**28
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
            if any(not x.type.has_static_shape for x in outside) or _is_large(scope, cluster, outside):
                for source in sources:
                    if len(sources) == 1 and source.leader.cond is not None and source.source is None:
                        cluster.source, source.counted = source, True


def _is_large(scope: Scope, cluster: Cluster, outside: Sequence[Value]) -> bool:
    if scope.memory != "auto" or not cluster.leader.reverse:
        return scope.memory == "log" and bool(cluster.leader.reverse)
    return bool(sum(prod(x.type.shape) * bits(x) // 8 for x in outside) > _LIMIT)


def emit_loops(scope: Scope, cluster: Cluster) -> None:
    """Emits the cluster's loop, forwards or backwards, and tells the scope what its results are."""
    from tiduc.passes.checkpoints import emit_recomputed  # it emits loops in turn

    _give_invariants(scope, cluster)
    count = length(cluster)
    if count == 0:
        _emit_none(scope, cluster)
    elif cluster.source is None:
        emit_stacked(scope, cluster, cluster.members, count)
    elif cluster.leader.reverse == cluster.source.leader.reverse:
        emit_stacked(scope, cluster, [*cluster.source.members, *cluster.members], count)
    else:
        emit_recomputed(scope, cluster, cluster.source, count)


def length(cluster: Cluster) -> int | None:
    """The number of iterations, where it is known when compiling."""
    for member in cluster.members:
        record = member.record
        if record.trip_count is not None:
            return record.trip_count  # type: ignore[no-any-return]
        for x in record.sequences:
            if not x.type.is_dynamic_dim(0):
                return int(x.type.shape[0])
    return None


def is_inside(scope: Scope, x: Value, cluster: Cluster) -> bool:
    """A sequence is made by the cluster itself."""
    return x in scope.sequence and scope.cluster_of[scope.sequence[x][0]] is cluster


def is_nothing(x: Value) -> bool:
    """A sequence's elements have no entries; it is there for its length."""
    return 0 in list(x.type.shape)[1:]


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


@dataclass
class Step:
    """One iteration of a cluster's members as a raw graph of the view.

    Inputs: the number of the iteration, the carries, what others gave as stacks, and invariants; `elements` are the
    values that members give to sequences.
    """

    b: Any
    number: Value
    carries: dict[Place, Value]
    stacks: dict[Value, Value]
    invariants: dict[Value, Value]
    nexts: dict[Place, Value]
    elements: dict[Place, Value]

    @property
    def inputs(self) -> list[Value]:
        """What is not carried."""
        return [*self.stacks.values(), *self.invariants.values()]

    def outer(self, scope: Scope) -> list[Value]:
        """What stands for these outside."""
        return [scope.local[x] for x in (*self.stacks, *self.invariants)]


def step(
    scope: Scope, members: Sequence[Member], elements: dict[Place, Value] | None = None, b: Any = None
) -> Step:
    """One iteration of members, one after another; `elements` are those that an earlier step gives."""
    b = b or scope.builder("S")
    made = Step(b, _input(b, index_type()), {}, {}, {}, {}, dict(elements or {}))
    for member in members:
        record = member.record
        n = len(record.inits)
        for i, x in enumerate(record.inits):
            made.carries[member, i] = _input(b, x.type)
        own = [made.carries[member, i] for i in range(n)]
        own += [_element(scope, made, x) for x in record.sequences]
        for x in record.invariants:
            if x not in made.invariants:
                made.invariants[x] = _input(b, x.type)
            own.append(made.invariants[x])
        for i, y in enumerate(scope.inlined(b, record.body, own)):
            (made.nexts if i < n else made.elements)[member, i] = y
    return made


def _element(scope: Scope, made: Step, x: Value) -> Value:
    """What a sequence has for this iteration."""
    at = scope.sequence.get(x)
    if at in made.elements:
        return made.elements[at]
    b = made.b
    if is_nothing(x):
        return b.zero(ir.RankedTensorType.get(list(x.type.shape)[1:], x.type.element_type))  # type: ignore[no-any-return]
    if x not in made.stacks:
        made.stacks[x] = _input(b, x.type)
    return read_at(b, made.stacks[x], made.number)


def _input(b: Any, type_: Any) -> Value:
    return b.input(f"{b.graph.name}.{len(b.graph.inputs)}", type_)  # type: ignore[no-any-return]


def index_type() -> Any:
    """Of counters: `tensor<i32>`."""
    return ir.RankedTensorType.get([], ir.IntegerType.get_signless(32))


def read_at(b: Any, stack: Value, i: Value) -> Value:
    """Entry i of a stack."""
    sizes = shape(stack)[1:]
    start = [i] + [b.constant(0, i.type)] * len(sizes)
    return b.reshape(b.dynamic_slice(stack, start, [1, *sizes]), sizes)  # type: ignore[no-any-return]


def write_at(b: Any, stack: Value, x: Value, i: Value) -> Value:
    """The stack with another entry i."""
    sizes = shape(x)
    start = [i] + [b.constant(0, i.type)] * len(sizes)
    return b.dynamic_update_slice(stack, b.reshape(x, [1, *sizes]), start)  # type: ignore[no-any-return]


def emit_stacked(scope: Scope, cluster: Cluster, members: Sequence[Member], count: int | None) -> None:
    """One loop of the cluster's members, and of those that are run again for it."""
    b, leader = scope.b, members[0].record
    if leader.cond is None and count is None:
        raise Unsupported(
            "reading a loop of unknown length a second time in its other direction, as reverse over reverse does, "
            "would need a bound of its length; forward over reverse needs none",
            cluster.members[0].ops[0].location,
        )
    made = step(scope, members)
    inner, i32 = made.b, index_type()
    kept = [] if count is None else stacked(scope, cluster, made)
    stacks = {at: _input(inner, sequence_type(made.elements[at].type, count)) for at in kept}
    pushed = [write_at(inner, stacks[at], made.elements[at], made.number) for at in kept]
    one = inner.constant(1, i32)
    number = inner.subtract(made.number, one) if leader.reverse else inner.add(made.number, one)
    carries = [made.number, *made.carries.values(), *stacks.values()]
    nexts = [number, *(made.nexts[at] for at in made.carries), *pushed]
    start = count - 1 if leader.reverse and count is not None else 0
    inits = [b.constant(start, i32), *(scope.local[m.record.inits[i]] for m, i in made.carries)]
    inits += [b.zero(x.type) for x in stacks.values()]
    used = [
        cluster.counted,
        *(m in cluster.members and i in m.used for m, i in made.carries),
        *(True for _ in kept),
    ]
    condition = _condition(scope, members[0], made, count)
    results = emit_while(
        scope, scope.b, inits, made.outer(scope), inner, carries, nexts, made.inputs, used, condition
    )
    cluster.count = results[0]
    given = {at: y for at, y in zip([*made.carries, *kept], results[1:], strict=True) if y is not None}
    give_results(scope, given)


def stacked(scope: Scope, cluster: Cluster, made: Step) -> list[Place]:
    """The sequences of a cluster that others read from a stack."""
    return [
        at
        for at, x in made.elements.items()
        if at[0] in cluster.members and _is_read_outside(scope, cluster, at) and 0 not in shape(x)
    ]


def _is_read_outside(scope: Scope, cluster: Cluster, at: Place) -> bool:
    member, i = at
    readers = (scope.cluster_of.get(scope.member_of.get(op)) for op in member.used.get(i, ()))  # type: ignore[arg-type]
    return any(c is None or (c is not cluster and c.source is not cluster) for c in readers)


def _condition(scope: Scope, member: Member, made: Step, count: int | None) -> Any:
    """Emits whether there is another iteration: as the first member says, or by number."""
    leader = member.record

    def emit(b: Any, of: dict[Value, Value]) -> Value:
        if leader.cond is not None:
            own = [of[made.carries[member, i]] for i in range(len(leader.inits))]
            own += [of[made.invariants[x]] for x in leader.invariants]
            return scope.inlined(b, leader.cond, own)[0]
        number = of[made.number]
        if leader.reverse:
            return b.compare(number, b.constant(0, number.type), "GE")  # type: ignore[no-any-return]
        return b.compare(number, b.constant(count, number.type), "LT")  # type: ignore[no-any-return]

    return emit


def emit_while(
    scope: Scope,
    b: Any,
    inits: Sequence[Value],
    invariants: Sequence[Value],
    inner: Any,
    carries: Sequence[Value],
    nexts: Sequence[Value],
    inputs: Sequence[Value],
    used: Sequence[bool],
    condition: Callable[[Any, dict[Value, Value]], Value],
) -> list[Value | None]:
    """Emits a loop without sequences; its last carries, None for those that neither it nor anybody needs.

    `inner` has built one iteration, from `carries` and `inputs` to `nexts`; `condition` emits the test.
    """
    raw = inner.finish(nexts)
    test = scope.builder("C")
    of = {x: test.input(f"{test.graph.name}.{i}", x.type) for i, x in enumerate([*carries, *inputs])}
    cond = test.finish([condition(test, of)])
    needed = _needed(scope, raw, carries, used, _read_inputs(cond))
    kept = [i for i, flag in enumerate(needed) if flag]
    body = scope.closed([nexts[i] for i in kept], [*(carries[i] for i in kept), *inputs])
    of_cond = list(cond.inputs.values())
    cond = scope.closed(cond.outputs, [*(of_cond[i] for i in kept), *of_cond[len(carries) :]])
    made = Loop(tuple(inits[i] for i in kept), (), tuple(invariants), body, cond, False, None, body.name)
    for graph in (raw, test.graph):
        scope.view.discard(graph)
    results = dict(zip(kept, emit_loop(b, made), strict=True))
    return [results.get(i) for i in range(len(carries))]


def _read_inputs(graph: Graph) -> list[int]:
    read = {x for op in graph.definitions for x in (*op.operands, *op.captures)} | set(graph.outputs)
    return [i for i, x in enumerate(graph.inputs.values()) if x in read]


def _needed(
    scope: Scope, raw: Graph, carries: Sequence[Value], used: Sequence[bool], by_cond: Sequence[int]
) -> list[bool]:
    """Which carries are used after the loop, or needed for the next value of one that is."""
    number = {x: i for i, x in enumerate(carries)}
    needed: set[int] = set()
    found = {i for i, flag in enumerate(used) if flag} | {i for i in by_cond if i < len(carries)}
    while found:
        needed |= found
        wanted = [raw.outputs[i] for i in needed]
        order = scope.view.schedule([y for y in wanted if y is not None], raw.inputs.values())
        read = {x for op in order for x in (*op.operands, *op.captures)} | set(wanted)
        found = {number[x] for x in read if x in number} - needed
    return [i in needed for i in range(len(carries))]
