"""A loop that recomputes its residuals segment by segment, from checkpoints that other loops have stored.

    for each segment, from last to first, where T runs backwards and reads W:
        W runs forwards from its checkpoint, and stacks the values that T reads; T runs backwards, and reads the stack

Loop memory `sqrt`: of n iterations, every s-th stores its carries, s = sqrt n, and the stacks hold one segment. Each
iteration runs twice, and memory holds the values of about 2 sqrt n iterations. A loop U that runs forwards again and
reads T (reverse over reverse) has checkpoints of T's carries and carries W's carries itself: over each segment,
first W, then T, then U runs.

Source: Chen, Xu, Zhang, Guestrin, "Training deep nets with sublinear memory cost" (2016).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tiduc.dialect.control_ops import sequence_type
from tiduc.dialect.graph import Graph, Value
from tiduc.passes.engine.recompute import cheapest_residuals, induction_value, induction_variables
from tiduc.passes.structure.plan import max_trip_count
from tiduc.passes.structure.records import Records, segment
from tiduc.passes.structure.scope import Cluster, Scope
from tiduc.passes.structure.slots import simplify_slots
from tiduc.passes.structure.steps import (
    Place,
    Step,
    build_step,
    index_type,
    members_of,
    new_input,
    own_places,
    read_at,
    state_of,
    write_at,
)
from tiduc.passes.structure.trip_counts import emit_trip_count
from tiduc.passes.structure.while_loops import emit_while

Starts = Mapping[Value, tuple[Value, int]]
"""For each induction variable of a step: its initial value, from outside the step, and its increment per iteration."""


@dataclass(frozen=True)
class Sweep:
    """Loops that sweep over a segment in one direction, and read the stacks of the sweep `below`, in the other one.

    `graph`: (number, induction variables, carries, entries of the stacks below, values from outside) -> (next carries,
    entries of its own stacks). `places` are its carries. `induction_variables` are pairs: the index of the initial
    value among the values from outside, and the increment. `types` are the types of its stacks' entries.
    """

    reverse: bool
    places: list[Place]
    induction_variables: list[tuple[int, int]]
    types: list[Any]
    graph: Graph
    below: "Sweep | None"


def emit_segmented(scope: Scope, cluster: Cluster, trip_count: int) -> None:
    """Emits the loop of a cluster that recomputes the iterations of others segment by segment."""
    b, is_reverse, size = scope.b, cluster.leader.reverse, segment(trip_count)
    step = build_step(scope, members_of([*scope.plans[cluster].recomputed, cluster]))
    simplify_slots(scope, cluster, step, trip_count)
    starts = {
        x: (scope.local[m.record.inits[i]], by) for x, ((m, i), by) in induction_variables(step).items()
    }
    for start, _ in starts.values():
        step.input_for(start)
    records = Records(scope, cluster, step, trip_count)
    places = own_places(scope, cluster, step, records.values, starts)
    raw = step.b.finish([*step.nexts.values(), *records.values])
    top = _sweep(scope, step, is_reverse, places, records.values, starts)
    scope.view.discard(raw)

    loop = scope.builder("S")
    total_count, inits = emit_trip_count(scope, cluster), [scope.local[m.record.inits[i]] for m, i in places]
    checkpoints = [_checkpoints(scope, at) for at in (top.below.places if top.below is not None else ())]
    invariants = [total_count, *(x for x, _ in checkpoints), *step.outside]
    j = new_input(loop, index_type())
    carried, arrays = [new_input(loop, x.type) for x in inits], [new_input(loop, t) for t in records.types]
    n, *given = (new_input(loop, x.type) for x in invariants)
    slots, outside = given[: len(checkpoints)], given[len(checkpoints) :]
    one, length = (loop.constant(i, j.type) for i in (1, size))
    entry = j if is_reverse else loop.add(j, one)
    state = [read_at(loop, x, entry) if flag else x for x, (_, flag) in zip(slots, checkpoints, strict=True)]
    start = loop.multiply(j, length)
    ends = start, loop.minimum(loop.add(start, length), n)
    after = _emit_sweep(scope, loop, top, ends, carried, state, outside, size, records, arrays)
    zero, last = b.constant(0, j.type), b.subtract(total_count, b.constant(1, j.type))
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
    """The array of a carry's checkpoints, and True; where it has none, its initial value, and False."""
    member, i = at
    array = scope.checkpoints[scope.cluster_of[member]].slots(at)
    return (scope.local[member.record.inits[i]], False) if array is None else (array, True)


def _sweep(
    scope: Scope, step: Step, reverse: bool, places: list[Place], more: Sequence[Value], starts: Starts
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
    outside = list(step.outside)
    numbers = [(outside.index(start), by) for start, by in (starts[x] for x in uncarried)]
    return Sweep(reverse, places, numbers, [x.type for x in more], graph, below)


def _boundary(scope: Scope, step: Step, wanted: Sequence[Value], reverse: bool) -> list[Value]:
    """The values of loops in the other direction that the wanted values are, or read through this direction's ops."""
    way = step.backwards.get
    read = list(wanted)
    for op in scope.view.schedule(wanted):
        if way(op.results[0], reverse) == reverse:
            read += (*op.operands, *op.captures)
    return [x for x in dict.fromkeys(read) if way(x, reverse) != reverse]


def _without_stack(step: Step, own: Sequence[Value], starts: Starts) -> set[Value]:
    """The values that need no stack: values from outside, a sweep's own carries, and what is computed from these."""
    given, mine = {step.number, *step.inputs, *starts}, set(own)
    known = set(given)
    for op in step.b.graph.definitions:
        read = (*op.operands, *op.captures)
        if all(x in known or x in mine for x in read):
            (known if mine.isdisjoint(read) else mine).update(op.results)
    return given | mine


def _emit_sweep(
    scope: Scope,
    b: Any,
    sweep: Sweep,
    ends: tuple[Value, Value],
    state: Sequence[Value],
    state_below: Sequence[Value],
    outside: Sequence[Value],
    size: int,
    records: Records | None = None,
    arrays: Sequence[Value] = (),
) -> list[Any]:
    """Emits a sweep over a segment, from its carries `state` at one end and those below at the other, `state_below`.

    Returns the carries after the segment, then the sweep's stacks, or, with `records`, the arrays of all iterations.
    """
    read: list[Any] = []
    if sweep.below is not None:
        places_two_below = sweep.below.below.places if sweep.below.below is not None else []
        state_two_below = [state[sweep.places.index(at)] for at in places_two_below]
        read = _emit_sweep(scope, b, sweep.below, ends, state_below, state_two_below, outside, size)[
            len(state_below) :
        ]
    inner = scope.builder("S")
    k, start, stop = (new_input(inner, x.type) for x in (ends[0], *ends))
    carried, inputs, stacks = ([new_input(inner, x.type) for x in xs] for xs in (state, outside, read))
    written = [b.zero(sequence_type(type_, size)) for type_ in sweep.types] if records is None else arrays
    arrays_before = [new_input(inner, x.type) for x in written]
    at = inner.subtract(k, start)
    numbers = [induction_value(inner, inputs[i], by, k) for i, by in sweep.induction_variables]
    of_iteration = [read_at(inner, stack, at) for stack in stacks]
    outputs = scope.inlined(inner, sweep.graph, [k, *numbers, *carried, *of_iteration, *inputs])
    values = outputs[len(carried) :]
    if records is not None:
        arrays_after = records.written(inner, arrays_before, k, values)
    else:
        arrays_after = [write_at(inner, s, x, at) for s, x in zip(arrays_before, values, strict=True)]
    one = inner.constant(1, k.type)
    limit, way = (start, "GE") if sweep.reverse else (stop, "LT")
    results = emit_while(
        scope,
        b,
        [b.subtract(ends[1], b.constant(1, k.type)) if sweep.reverse else ends[0], *state, *written],
        [*ends, *outside, *read],
        inner,
        [k, *carried, *arrays_before],
        [
            inner.subtract(k, one) if sweep.reverse else inner.add(k, one),
            *outputs[: len(carried)],
            *arrays_after,
        ],
        [start, stop, *inputs, *stacks],
        [False] + [records is not None] * len(carried) + [True] * len(written),
        lambda test, of: test.compare(of[k], of[limit], way),
    )
    return results[1:]
