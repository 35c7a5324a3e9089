"""A loop that recomputes its residuals from O(log n) checkpoints, which it sets by bisection.

    W -> x_0, x_1, ...          T, backwards, reads x_k         U, forwards again, reads x_k and what T carries there

Loop memory `log`: for n iterations of W, T stores the carries of O(log n) iterations in a fixed number of slots, and
recomputes O(n log n) iterations; n need not be known when compiling. To get the carries of iteration k, T starts from
the last checkpoint, and sets new ones, each half-way to k, until one is at k. After iteration k, that one is freed.

U (reverse over reverse) recomputes T, and T in turn needs the carries of W, which runs in the other direction. W has
checkpoints of its own, the first of which is at U's current iteration. U then takes O(n log^2 n) iterations, and a loop
that reads U takes log n times as many.

Source: Griewank, "Achieving logarithmic growth of temporal and spatial complexity in reverse automatic
differentiation" (1992), with bisection.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tiduc.dialect.control import Loop
from tiduc.dialect.control_ops import sequence_type
from tiduc.dialect.graph import Graph, Value
from tiduc.dialect.trip_count import most_iterations
from tiduc.passes.structure.plan import max_trip_count
from tiduc.passes.structure.records import Records
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

_MAX_ITERATIONS = 2**31
"""The number of iterations that a 32-bit induction variable can number."""


@dataclass(frozen=True)
class Level:
    """One iteration of fused loops that run in one direction; it reads those of `below`, in the other direction.

    `graph`: (number, carries, carries below, values from outside) -> (next carries, recorded values). `places` are
    its carries. `slots` is the most checkpoints there are at any time.
    """

    reverse: bool
    places: list[Place]
    graph: Graph
    below: "Level | None"
    slots: int

    def among(self, places: Sequence[Place], state: Sequence[Value]) -> list[Value]:
        """The carries of this level among `state`, the carries `places` of the level two above it."""
        return [state[places.index(at)] for at in self.places]


def emit_recomputed(scope: Scope, cluster: Cluster, trip_count: int | None) -> None:
    """Emits the loop of a cluster that recomputes the iterations of others from checkpoints."""
    b, i32, is_reverse = scope.b, index_type(), cluster.leader.reverse
    step = build_step(scope, members_of([*scope.plans[cluster].recomputed, cluster]))
    if trip_count is not None:
        simplify_slots(scope, cluster, step, trip_count)
    records = Records(scope, cluster, step, trip_count)
    places = own_places(scope, cluster, step, records.values)
    raw = step.b.finish([*step.nexts.values(), *records.values])
    level = _level(
        scope, step, is_reverse, places, _slots(_max_trip_count(scope, cluster, trip_count)), records.values
    )
    scope.view.discard(raw)

    zero, one = b.constant(0, i32), b.constant(1, i32)
    total_count = emit_trip_count(scope, cluster)
    last = b.subtract(total_count, one)
    inits = {(m, i): scope.local[m.record.inits[i]] for m, i in step.carries}
    results = _emit_sweep(
        scope,
        b,
        level,
        (last, b.constant(-1, i32)) if is_reverse else (zero, total_count),
        [inits[at] for at in level.places],
        zero if is_reverse else last,
        [inits[at] for at in level.below.places] if level.below is not None else [],
        list(step.outside),
        records,
        [m in cluster.members and i in m.used for m, i in places],
    )
    n = len(places)
    records.give(dict(zip(places, results[:n], strict=True)), results[n:], max_trip_count(cluster))


def _max_trip_count(scope: Scope, cluster: Cluster, trip_count: int | None) -> int:
    """An upper bound of the trip count of a cluster's loops and of the loops recomputed for it."""
    records = (m.record for m in members_of([*scope.plans[cluster].recomputed, cluster]))
    known = [most_iterations(record) for record in records if isinstance(record, Loop)]
    return min([_MAX_ITERATIONS, *(n for n in (trip_count, *known) if n is not None)])


def _slots(bound: int) -> int:
    """The most checkpoints at any time: a first one, one for each halving of the distance, and a spare one.

    If k iterations separate a checkpoint from the wanted iteration, k // 2 separate the next checkpoint from it, and
    so on. After the wanted iteration, its neighbour is wanted, and the last checkpoint that remains is at most half
    as far from it as the one before.
    """
    return bound.bit_length() + 2


def _level(
    scope: Scope, step: Step, reverse: bool, places: list[Place], slots: int, more: Sequence[Value] = ()
) -> Level:
    wanted = [*(step.nexts[at] for at in places), *more]
    other = [at for at in state_of(scope, step, wanted) if at[0].record.reverse != reverse]
    below = _level(scope, step, not reverse, other, slots) if other else None
    carried = [step.carries[at] for at in (*places, *other)]
    return Level(reverse, places, scope.closed(wanted, [step.number, *carried, *step.inputs]), below, slots)


def _emit_sweep(
    scope: Scope,
    b: Any,
    level: Level,
    ends: tuple[Value, Value],
    state: Sequence[Value],
    at: Value,
    state_below: Sequence[Value],
    outside: Sequence[Value],
    records: Records | None = None,
    used: Sequence[bool] | None = None,
) -> list[Any]:
    """Emits a loop over the iterations from `ends[0]` to before `ends[1]`; its last carries, then its records.

    `state_below` are the carries of the level below at iteration `at`, from which that level can reach all these
    iterations: in its own direction, `at` comes before them, or is the first of them.
    """
    inner = scope.builder("S")
    k, limit = (new_input(inner, x.type) for x in ends)
    carried, inputs = ([new_input(inner, x.type) for x in xs] for xs in (state, outside))
    arrays = [new_input(inner, type_) for type_ in records.types] if records is not None else []
    one = inner.constant(1, k.type)
    initial, checkpoints, checkpoints_after, carries_below = [], list[Value](), list[Value](), list[Value]()
    if level.below is not None:
        zero = b.constant(0, at.type)
        slots_of = [b.zero(sequence_type(x.type, level.slots)) for x in (at, *state_below)]
        initial = [
            zero,
            *(write_at(b, s, x, zero) for s, x in zip(slots_of, (at, *state_below), strict=True)),
        ]
        checkpoints = [new_input(inner, x.type) for x in initial]
        top, *slots = _emit_checkpoints(scope, inner, level, k, checkpoints, carried, inputs)
        carries_below = [read_at(inner, slot, top) for slot in slots[1:]]
        checkpoints_after = [inner.subtract(top, one), *slots]
    outputs = scope.inlined(inner, level.graph, [k, *carried, *carries_below, *inputs])
    n = len(carried)
    after = inner.subtract(k, one) if level.reverse else inner.add(k, one)
    written = records.written(inner, arrays, k, outputs[n:]) if records is not None else []
    results = emit_while(
        scope,
        b,
        [ends[0], *initial, *state, *(records.first(b) if records is not None else [])],
        [ends[1], *outside],
        inner,
        [k, *checkpoints, *carried, *arrays],
        [after, *checkpoints_after, *outputs[:n], *written],
        [limit, *inputs],
        [False] * (1 + len(checkpoints)) + list(used or [True] * n) + [True] * len(arrays),
        lambda test, of: test.compare(of[k], of[limit], "GT" if level.reverse else "LT"),
    )
    return results[1 + len(checkpoints) :]


def _emit_checkpoints(
    scope: Scope,
    b: Any,
    level: Level,
    k: Value,
    checkpoints: Sequence[Value],
    state: Sequence[Value],
    outside: Sequence[Value],
) -> list[Any]:
    """Emits a loop that sets checkpoints of the level below until the last one is at iteration k.

    Returns the index of the last checkpoint, the iterations of all checkpoints, and their carries.
    """
    below = level.below
    assert below is not None
    state_two_below = below.below.among(level.places, state) if below.below is not None else []
    inner = scope.builder("S")
    carried = [new_input(inner, x.type) for x in checkpoints]
    top, iterations, *slots = carried
    target, *others = (new_input(inner, x.type) for x in (k, *state_two_below, *outside))
    one, two = inner.constant(1, k.type), inner.constant(2, k.type)
    i = read_at(inner, iterations, top)
    left = inner.subtract(i, target) if below.reverse else inner.subtract(target, i)
    half = inner.divide(inner.add(left, one), two)
    middle = inner.subtract(i, half) if below.reverse else inner.add(i, half)
    of_slots = [read_at(inner, slot, top) for slot in slots]
    n = len(state_two_below)
    reached = _emit_sweep(scope, inner, below, (i, middle), of_slots, target, others[:n], others[n:])
    following = inner.add(top, one)
    nexts = [following, write_at(inner, iterations, middle, following)]
    nexts += [write_at(inner, slot, x, following) for slot, x in zip(slots, reached, strict=True)]

    def is_before(test: Any, of: dict[Value, Value]) -> Any:
        iteration = read_at(test, of[iterations], of[top])
        return test.compare(iteration, of[target], "GT" if below.reverse else "LT")

    return emit_while(
        scope,
        b,
        checkpoints,
        [k, *state_two_below, *outside],
        inner,
        carried,
        nexts,
        [target, *others],
        [True] * len(carried),
        is_before,
    )
