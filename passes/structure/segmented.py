"""A loop that reads the iterations of others segment by segment, from checkpoints that the others have set.

    of each segment, the last one first, for T, which runs backwards over W:
        W from its checkpoint, forwards: a stack of what T reads        T, backwards: reads the stack

Of n iterations there are checkpoints of the carries of every s-th, s = sqrt n, and stacks of one segment. So each
iteration runs once more, in memory for 2 sqrt n of them. A loop that reads T's, forwards, has checkpoints of T's
carries, and begins each segment with W's, which it carries along: W, then T, then the loop itself pass over it.

Source: Chen, Xu, Zhang, Guestrin, "Training deep nets with sublinear memory cost" (2016).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tiduc.dialect.control import sequence_type
from tiduc.dialect.graph import Graph, Value
from tiduc.passes.engine.recompute import counter, counters, kept
from tiduc.passes.structure.plan import max_trip_count
from tiduc.passes.structure.records import Records, segment
from tiduc.passes.structure.scope import Cluster, Scope
from tiduc.passes.structure.slots import release
from tiduc.passes.structure.steps import (
    Place,
    Step,
    index_type,
    members_of,
    new_input,
    own_places,
    read_at,
    state_of,
    step,
    write_at,
)
from tiduc.passes.structure.trip_counts import total
from tiduc.passes.structure.while_loops import emit_while

Starts = Mapping[Value, tuple[Value, int]]
"""Of counters: where they start, outside, and by how much they grow."""


@dataclass(frozen=True)
class Pass:
    """Loops that pass over a segment one way, reading what those of the pass `below`, the other way, have stacked.

    `graph`: (number, counters, carries, what is stacked below, values from outside) -> (next carries, what it stacks).
    """

    reverse: bool
    places: list[Place]
    counters: list[
        tuple[int, int]
    ]  # which of the values from outside they start with, and by how much they grow
    types: list[Any]  # of what it stacks
    graph: Graph
    below: "Pass | None"


def emit_segmented(scope: Scope, cluster: Cluster, count: int) -> None:
    """Emits the loop of a cluster, for which iterations of others are run again, segment by segment."""
    b, is_reverse, size = scope.b, cluster.leader.reverse, segment(count)
    made = step(scope, members_of([*scope.plans[cluster].recomputed, cluster]))
    release(scope, cluster, made, count)
    starts = {x: (scope.local[m.record.inits[i]], by) for x, ((m, i), by) in counters(made).items()}
    for start, _ in starts.values():
        made.taken(start)
    records = Records(scope, cluster, made, count)
    places = own_places(scope, cluster, made, records.values, starts)
    raw = made.b.finish([*made.nexts.values(), *records.values])
    top = _pass(scope, made, is_reverse, places, records.values, starts)
    scope.view.discard(raw)

    loop = scope.builder("S")
    times, inits = total(scope, cluster), [scope.local[m.record.inits[i]] for m, i in places]
    far = [_checkpoints(scope, at) for at in (top.below.places if top.below is not None else ())]
    invariants = [times, *(x for x, _ in far), *made.outside]
    j = new_input(loop, index_type())
    carried, arrays = [new_input(loop, x.type) for x in inits], [new_input(loop, t) for t in records.types]
    n, *given = (new_input(loop, x.type) for x in invariants)
    slots, outside = given[: len(far)], given[len(far) :]
    one, length = (loop.constant(i, j.type) for i in (1, size))
    entry = j if is_reverse else loop.add(j, one)
    state = [read_at(loop, x, entry) if flag else x for x, (_, flag) in zip(slots, far, strict=True)]
    start = loop.multiply(j, length)
    ends = start, loop.minimum(loop.add(start, length), n)
    after = _passed(scope, loop, top, ends, carried, state, outside, size, records, arrays)
    zero, last = b.constant(0, j.type), b.subtract(times, b.constant(1, j.type))
    results = emit_while(
        scope,
        b,
        [b.divide(last, b.constant(size, j.type)) if is_reverse else zero, *inits, *records.first(b)],
        invariants,
        loop,
        [j, *carried, *arrays],
        [loop.subtract(j, one) if is_reverse else loop.add(j, one), *after],
        [n, *given],
        [False, *(m in cluster.members and i in m.used for m, i in places), *(True for _ in arrays)],
        lambda test, of: (
            test.compare(of[j], test.constant(0, j.type), "GE")
            if is_reverse
            else test.compare(test.multiply(of[j], test.constant(size, j.type)), of[n], "LT")
        ),
    )[1:]
    records.give(
        dict(zip(places, results[: len(places)], strict=True)),
        results[len(places) :],
        max_trip_count(cluster),
    )


def _checkpoints(scope: Scope, at: Place) -> tuple[Value, bool]:
    """The checkpoints of a carry, which are an array; or what it starts with, where that is all there is to know."""
    member, i = at
    found = scope.checkpoints[scope.cluster_of[member]].slots(at)
    return (scope.local[member.record.inits[i]], False) if found is None else (found, True)


def _pass(
    scope: Scope, made: Step, reverse: bool, places: list[Place], more: Sequence[Value], starts: Starts
) -> Pass:
    wanted = [*(made.nexts[at] for at in places), *more]
    other = [at for at in state_of(scope, made, wanted, starts) if at[0].record.reverse != reverse]
    own = [made.carries[at] for at in places]
    below, saved = None, list[Value]()
    if other:
        saved = kept(_boundary(scope, made, wanted, reverse), _known(made, own, starts))
        below = _pass(scope, made, not reverse, other, saved, starts)
    counted = [x for x in starts if x not in own]
    graph = scope.closed(wanted, [made.number, *counted, *own, *saved, *made.inputs])
    outside = list(made.outside)
    numbers = [(outside.index(start), by) for start, by in (starts[x] for x in counted)]
    return Pass(reverse, places, numbers, [x.type for x in more], graph, below)


def _boundary(scope: Scope, made: Step, wanted: Sequence[Value], reverse: bool) -> list[Value]:
    """What the wanted values read of loops that run the other way, where loops that run this way do; or are so."""
    way = made.backwards.get
    read = list(wanted)
    for op in scope.view.schedule(wanted):
        if way(op.results[0], reverse) == reverse:
            read += (*op.operands, *op.captures)
    return [x for x in dict.fromkeys(read) if way(x, reverse) != reverse]


def _known(made: Step, own: Sequence[Value], starts: Starts) -> set[Value]:
    """What needs no stack: what comes from outside, and what is made of a pass's own carries."""
    given, mine = {made.number, *made.inputs, *starts}, set(own)
    known = set(given)
    for op in made.b.graph.definitions:
        read = (*op.operands, *op.captures)
        if all(x in known or x in mine for x in read):
            (known if mine.isdisjoint(read) else mine).update(op.results)
    return given | mine


def _passed(
    scope: Scope,
    b: Any,
    over: Pass,
    ends: tuple[Value, Value],
    state: Sequence[Value],
    far: Sequence[Value],
    outside: Sequence[Value],
    size: int,
    records: Records | None = None,
    arrays: Sequence[Value] = (),
) -> list[Any]:
    """Passes over a segment, from the carries `state` at one end; `far` are those of the pass below at the other.

    The carries after it, and what it stacks of the segment; or, with records, these of all iterations.
    """
    read: list[Any] = []
    if over.below is not None:
        under = over.below.below.places if over.below.below is not None else []
        beneath = [state[over.places.index(at)] for at in under]
        read = _passed(scope, b, over.below, ends, far, beneath, outside, size)[len(far) :]
    inner = scope.builder("S")
    k, start, stop = (new_input(inner, x.type) for x in (ends[0], *ends))
    carried, inputs, stacks = ([new_input(inner, x.type) for x in xs] for xs in (state, outside, read))
    written = [b.zero(sequence_type(type_, size)) for type_ in over.types] if records is None else arrays
    kept_by_others = [new_input(inner, x.type) for x in written]
    at = inner.subtract(k, start)
    numbers = [counter(inner, inputs[i], by, k) for i, by in over.counters]
    of_iteration = [read_at(inner, stack, at) for stack in stacks]
    outputs = scope.inlined(inner, over.graph, [k, *numbers, *carried, *of_iteration, *inputs])
    values = outputs[len(carried) :]
    if records is not None:
        now = records.written(inner, kept_by_others, k, values)
    else:
        now = [write_at(inner, s, x, at) for s, x in zip(kept_by_others, values, strict=True)]
    one = inner.constant(1, k.type)
    limit, way = (start, "GE") if over.reverse else (stop, "LT")
    results = emit_while(
        scope,
        b,
        [b.subtract(ends[1], b.constant(1, k.type)) if over.reverse else ends[0], *state, *written],
        [*ends, *outside, *read],
        inner,
        [k, *carried, *kept_by_others],
        [inner.subtract(k, one) if over.reverse else inner.add(k, one), *outputs[: len(carried)], *now],
        [start, stop, *inputs, *stacks],
        [False] + [records is not None] * len(carried) + [True] * len(written),
        lambda test, of: test.compare(of[k], of[limit], way),
    )
    return results[1:]
