"""A loop that recomputes its residuals segment by segment, from checkpoints that other loops have stored.

    T is the reverse pass of the loop W: it runs backwards and reads W. For each segment, from last to first:
        W runs forwards from its checkpoint, and stacks the values that T reads; T runs backwards, and reads the stack

Loop memory `sqrt`: of n iterations, every s-th stores its carries, where s = sqrt n. The stacks hold one segment. Each
iteration runs twice, and memory holds the values of about 2 sqrt n iterations. The reverse pass U of T runs forwards
and reads T. U has checkpoints of T's carries, and its loop carries W's carries. In each segment, first W runs, then T,
then U.

Source: Chen, Xu, Zhang, Guestrin, "Training deep nets with sublinear memory cost" (2016).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.graph.graph import Graph, Value
from tiduc.dialect.ops.control_ops import sequence_type
from tiduc.passes.engine.recompute import cheapest_residuals, induction_value, induction_variables
from tiduc.passes.structure.clusters import Cluster, MemberResult
from tiduc.passes.structure.records import Records, segment
from tiduc.passes.structure.scope import Scope, index_type
from tiduc.passes.structure.steps import ClusterIteration, own_places, state_of
from tiduc.passes.structure.while_loops import (
    Carry,
    Iteration,
    Results,
    emit_while,
    index_test,
    read_entry,
    write_entry,
)

Starts = Mapping[Value, tuple[Value, int]]
"""Maps each induction variable of a step to its initial value, which is outside the step, and its increment."""


@dataclass(frozen=True)
class Sweep:
    """Loops that run over a segment in one direction. They read arrays (stacks) that the opposite sweep `below` writes.

    `graph` maps (number, induction variables, carries, entries of the stacks below, values from outside) to (next
    carries, entries of its own stacks). `places` are its carries (loop-carried values). `induction_variables` are
    pairs: the index of the initial value among the values from outside, and the increment. `types` are the types of the
    entries of its stacks.
    """

    reverse: bool
    places: list[MemberResult]
    induction_variables: list[tuple[int, int]]
    types: list[Any]
    graph: Graph
    below: "Sweep | None"


@dataclass(frozen=True)
class Segment:
    """The iterations from `start` up to, but not including, `stop`. There are at most `size` iterations.

    `outside` are the values that the iterations read and that are defined outside of the loop.
    """

    start: Value
    stop: Value
    size: int
    outside: Sequence[Value]


def emit_segmented(scope: Scope, cluster: Cluster, step: ClusterIteration, records: Records) -> Results:
    """Emits one loop for a cluster (loops fused into one), which recomputes others segment by segment."""
    b, is_reverse, trip_count = scope.b, cluster.leader.reverse, scope.plan.loops[cluster].trip_count
    assert trip_count is not None
    size = segment(trip_count)
    starts = {x: (scope.init(at), by) for x, (at, by) in induction_variables(step).items()}
    for start, _ in starts.values():
        step.loop.read(start)
    places = own_places(scope, cluster, step, records.values, starts)
    raw = step.b.finish([*step.nexts.values(), *records.values])
    top = _sweep(scope, step, is_reverse, places, records.values, starts)
    scope.view.discard(raw)

    loop = Iteration(scope)
    inner, total_count = loop.b, scope.trip_count(cluster)
    j, carried = loop.carry(index_type()), loop.carries([scope.init(at) for at in places])
    before = [loop.carry(type_) for type_ in records.types]
    one, length = (inner.constant(i, j.type) for i in (1, size))
    entry = j if is_reverse else inner.add(j, one)
    state = [_entering(scope, loop, at, entry) for at in (top.below.places if top.below is not None else ())]
    start = inner.multiply(j, length)
    stop = inner.minimum(inner.add(start, length), loop.read(total_count))
    within = Segment(start, stop, size, [loop.read(x) for x in step.loop.outside])
    after = _emit_sweep(scope, inner, top, within, carried, state, records, before)
    first = b.constant(0, j.type)
    if is_reverse:
        last = b.subtract(total_count, b.constant(1, j.type))
        first = b.divide(last, b.constant(size, j.type))
    inits = [scope.init(at) for at in places] + records.first(b)
    used = [cluster.is_used(at) for at in places] + [True] * len(before)
    following = inner.subtract(j, one) if is_reverse else inner.add(j, one)

    def is_before(test: StablehloBuilder, of: dict[Value, Value]) -> Value:
        begun = test.multiply(of[j], test.constant(size, j.type))
        return test.compare(begun, of[loop.read(total_count)], "LT")

    results = emit_while(
        scope,
        b,
        loop,
        [Carry(j, first, following, False), *map(Carry, [*carried, *before], inits, after, used)],
        index_test(j, 0, "GE") if is_reverse else is_before,
    )
    carries = {at: results[x] for at, x in zip(places, carried, strict=True) if x in results}
    return carries, [results[x] for x in before]


def _entering(scope: Scope, loop: Iteration, at: MemberResult, entry: Value) -> Value:
    """The value of a loop-carried value on entry to a segment. It is read from a checkpoint if there are any.

    Without checkpoints, it is the initial value.
    """
    checkpoints = scope.checkpoints[scope.plan.fusion.cluster_of[at[0]]]
    if at not in checkpoints:
        return loop.read(scope.init(at))
    return read_entry(loop.b, loop.read(checkpoints[at]), entry)


def _sweep(
    scope: Scope,
    step: ClusterIteration,
    reverse: bool,
    places: list[MemberResult],
    more: Sequence[Value],
    starts: Starts,
) -> Sweep:
    wanted = [*(step.nexts[at] for at in places), *more]
    other = [at for at in state_of(scope, step, wanted, starts) if at[0].record.reverse != reverse]
    own = [step.carries[at] for at in places]
    below, saved = None, list[Value]()
    if other:
        saved = cheapest_residuals(_boundary(scope, step, wanted, reverse), _without_stack(step, own, starts))
        below = _sweep(scope, step, not reverse, other, saved, starts)
    uncarried = [x for x in starts if x not in own]
    graph = scope.closed(wanted, [step.number, *uncarried, *own, *saved, *step.inputs])
    outside = list(step.loop.outside)
    numbers = [(outside.index(start), by) for start, by in (starts[x] for x in uncarried)]
    return Sweep(reverse, places, numbers, [x.type for x in more], graph, below)


def _boundary(scope: Scope, step: ClusterIteration, wanted: Sequence[Value], reverse: bool) -> list[Value]:
    """The values from loops of the other direction that are in `wanted`, or that ops of this direction read for it."""
    way = step.backwards.get
    read = list(wanted)
    for op in scope.view.schedule(wanted):
        if way(op.results[0], reverse) == reverse:
            read += op.reads
    return [x for x in dict.fromkeys(read) if way(x, reverse) != reverse]


def _without_stack(step: ClusterIteration, own: Sequence[Value], starts: Starts) -> set[Value]:
    """The values that need no stack: outer values, the sweep's carries, and values computed from only these."""
    given, mine = {step.number, *step.inputs, *starts}, set(own)
    known = set(given)
    for op in step.b.graph.definitions:
        read = op.reads
        if all(x in known or x in mine for x in read):
            (known if mine.isdisjoint(read) else mine).update(op.results)
    return given | mine


def _emit_sweep(
    scope: Scope,
    b: StablehloBuilder,
    sweep: Sweep,
    within: Segment,
    state: Sequence[Value],
    state_below: Sequence[Value],
    records: Records | None = None,
    arrays: Sequence[Value] = (),
) -> list[Any]:
    """Emits a loop that runs the iterations of a segment in the direction of `sweep`, after the sweep below.

    `state` are the sweep's loop-carried values on entry to the segment. `state_below` are those of the sweep below,
    which enters the segment at the other end.

    Returns the loop-carried values after the segment, followed by arrays of this segment's values. With `records`,
    `arrays` with the values of all iterations follow instead.
    """
    stacks: list[Any] = []
    if sweep.below is not None:
        two_below = sweep.below.below.places if sweep.below.below is not None else []
        state_two_below = [state[sweep.places.index(at)] for at in two_below]
        below = _emit_sweep(scope, b, sweep.below, within, state_below, state_two_below)
        stacks = below[len(state_below) :]
    if records is None:
        arrays = [b.zero(sequence_type(type_, within.size)) for type_ in sweep.types]
    loop = Iteration(scope)
    inner, k = loop.b, loop.carry(within.start.type)
    carried, before = loop.carries(state), loop.carries(arrays)
    start, stop = loop.read(within.start), loop.read(within.stop)
    inputs = [loop.read(x) for x in within.outside]
    entry = inner.subtract(k, start)
    variables = [induction_value(inner, inputs[i], by, k) for i, by in sweep.induction_variables]
    of_iteration = [read_entry(inner, loop.read(stack), entry) for stack in stacks]
    outputs = scope.inlined(inner, sweep.graph, [k, *variables, *carried, *of_iteration, *inputs])
    nexts, values = outputs[: len(carried)], outputs[len(carried) :]
    if records is not None:
        after = records.written(inner, before, k, values)
    else:
        after = [write_entry(inner, s, x, entry) for s, x in zip(before, values, strict=True)]
    one, first = inner.constant(1, k.type), within.start
    if sweep.reverse:
        first = b.subtract(within.stop, b.constant(1, k.type))
    results = emit_while(
        scope,
        b,
        loop,
        [
            Carry(k, first, inner.subtract(k, one) if sweep.reverse else inner.add(k, one), False),
            *(Carry(x, i, y, records is not None) for x, i, y in zip(carried, state, nexts, strict=True)),
            *map(Carry, before, arrays, after),
        ],
        index_test(k, start, "GE") if sweep.reverse else index_test(k, stop, "LT"),
    )
    return [results.get(x) for x in (*carried, *before)]
