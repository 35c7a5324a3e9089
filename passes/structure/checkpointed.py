"""A loop that recomputes its residuals from O(log n) checkpoints, which it sets by bisection.

    W    the loop of a program; its iterations start with the carries x_0, x_1, ...
    T    its reverse pass: runs backwards, and reads x_k in iteration k
    U    the reverse pass of T: runs forwards, and reads x_k and the carries of T in iteration k

Loop memory `log`: for n iterations of W, T stores the carries of O(log n) iterations in a fixed number of slots, and
recomputes O(n log n) iterations. n need not be known when compiling. T computes the carries of iteration k from the
last checkpoint. On the way, it sets new checkpoints, each half-way to k, until one is at k. That checkpoint is freed
after iteration k.

U (reverse over reverse) recomputes T, and T needs the carries of W, which runs in the other direction. W therefore has
a second set of checkpoints, which begins at U's current iteration. U takes O(n log^2 n) iterations, and a loop that
reads U takes O(n log^3 n).

Source: Griewank, "Achieving logarithmic growth of temporal and spatial complexity in reverse automatic
differentiation" (1992), with bisection.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tiduc.dialect.control.trip_count import most_iterations
from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.graph.graph import Graph, Value
from tiduc.dialect.ops.control_ops import sequence_type
from tiduc.passes.structure.clusters import Cluster, MemberResult
from tiduc.passes.structure.records import Records
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

_MAX_ITERATIONS = 2**31
"""The largest trip count that a 32-bit induction variable can count to."""


@dataclass(frozen=True)
class Level:
    """One iteration of fused loops that run in one direction. It reads iterations of `below`, which run in the other.

    `graph` maps (number, carries, carries below, values from outside) to (next carries, recorded values). `places` are
    the carries of these loops. `slots` is the largest number of checkpoints at any time.
    """

    reverse: bool
    places: list[MemberResult]
    graph: Graph
    below: "Level | None"
    slots: int


@dataclass(frozen=True)
class Reached:
    """An iteration that recomputed loops have reached, and their loop-carried values on entry to that iteration."""

    iteration: Value
    state: Sequence[Value]


def emit_checkpointed(scope: Scope, cluster: Cluster, step: ClusterIteration, records: Records) -> Results:
    """Emits one loop for a cluster (loops fused into one), which recomputes iterations of others from checkpoints."""
    b, i32, is_reverse = scope.b, index_type(), cluster.leader.reverse
    places = own_places(scope, cluster, step, records.values)
    raw = step.b.finish([*step.nexts.values(), *records.values])
    slots = _slots(_max_trip_count(scope, cluster))
    level = _level(scope, step, is_reverse, places, slots, records.values)
    scope.view.discard(raw)

    zero, one = b.constant(0, i32), b.constant(1, i32)
    total_count = scope.trip_count(cluster)
    last = b.subtract(total_count, one)
    below = [scope.init(at) for at in level.below.places] if level.below is not None else []
    results = _emit_sweep(
        scope,
        b,
        level,
        (last, b.constant(-1, i32)) if is_reverse else (zero, total_count),
        [scope.init(at) for at in places],
        Reached(zero if is_reverse else last, below),
        list(step.loop.outside),
        records,
        [cluster.is_used(at) for at in places],
    )
    carries = {at: y for at, y in zip(places, results, strict=False) if y is not None}
    return carries, results[len(places) :]


def _max_trip_count(scope: Scope, cluster: Cluster) -> int:
    """An upper bound of the trip counts of a cluster's loops, and of the loops that they recompute."""
    bounds = [most_iterations(member.record) for member in scope.plan.members(cluster)]
    known = [n for n in (scope.plan.loops[cluster].trip_count, *bounds) if n is not None]
    return min([_MAX_ITERATIONS, *known])


def _slots(bound: int) -> int:
    """The largest number of checkpoints at any time: the first, one for each halving of the distance, and a spare one.

    The next checkpoint after one that is k iterations from the wanted iteration is k // 2 iterations from it. When the
    wanted iteration then moves by one, the distance to each checkpoint is still at most half the distance to the
    checkpoint before.
    """
    return bound.bit_length() + 2


def _level(
    scope: Scope,
    step: ClusterIteration,
    reverse: bool,
    places: list[MemberResult],
    slots: int,
    more: Sequence[Value] = (),
) -> Level:
    wanted = [*(step.nexts[at] for at in places), *more]
    other = [at for at in state_of(scope, step, wanted) if at[0].record.reverse != reverse]
    below = _level(scope, step, not reverse, other, slots) if other else None
    carried = [step.carries[at] for at in (*places, *other)]
    return Level(reverse, places, scope.closed(wanted, [step.number, *carried, *step.inputs]), below, slots)


def _emit_sweep(
    scope: Scope,
    b: StablehloBuilder,
    level: Level,
    ends: tuple[Value, Value],
    state: Sequence[Value],
    reached: Reached,
    outside: Sequence[Value],
    records: Records | None = None,
    used: Sequence[bool] | None = None,
) -> list[Any]:
    """Emits a loop over the iterations from `ends[0]` to before `ends[1]`. Returns its last carries, then its records.

    Each iteration of this loop reads the same iteration of the level below, which is recomputed. The recomputation
    starts from `reached`, which in the direction of the level below is the first of these iterations or an earlier one.
    """
    loop = Iteration(scope)
    inner, k, carried = loop.b, loop.carry(ends[0].type), loop.carries(state)
    limit, inputs = loop.read(ends[1]), [loop.read(x) for x in outside]
    one = inner.constant(1, k.type)
    checkpoints, below = list[Carry](), list[Value]()
    if level.below is not None:
        zero, first = b.constant(0, ends[0].type), (reached.iteration, *reached.state)
        empty = [b.zero(sequence_type(x.type, level.slots)) for x in first]
        initial = [zero, *(write_entry(b, s, x, zero) for s, x in zip(empty, first, strict=True))]
        before = loop.carries(initial)
        top, *slots = _emit_checkpoints(scope, inner, level, k, before, carried, inputs)
        below = [read_entry(inner, slot, top) for slot in slots[1:]]
        after = [inner.subtract(top, one), *slots]
        checkpoints = [Carry(*row, False) for row in zip(before, initial, after, strict=True)]
    outputs = scope.inlined(inner, level.graph, [k, *carried, *below, *inputs])
    nexts, values = outputs[: len(carried)], outputs[len(carried) :]
    following = inner.subtract(k, one) if level.reverse else inner.add(k, one)
    arrays = list[Value]()
    carries = [
        Carry(k, ends[0], following, False),
        *checkpoints,
        *map(Carry, carried, state, nexts, used or [True] * len(carried)),
    ]
    if records is not None:
        arrays = [loop.carry(type_) for type_ in records.types]
        carries += map(Carry, arrays, records.first(b), records.written(inner, arrays, k, values))
    results = emit_while(scope, b, loop, carries, index_test(k, limit, "GT" if level.reverse else "LT"))
    return [results.get(x) for x in (*carried, *arrays)]


def _emit_checkpoints(
    scope: Scope,
    b: StablehloBuilder,
    level: Level,
    k: Value,
    checkpoints: Sequence[Value],
    state: Sequence[Value],
    outside: Sequence[Value],
) -> list[Value]:
    """Emits a loop that sets checkpoints of the level below (of loops that run in the other direction), up to k.

    The last checkpoint is at iteration k. Returns its index, the iterations of all checkpoints, and the loop-carried
    values on entry to these iterations.
    """
    below = level.below
    assert below is not None
    loop = Iteration(scope)
    inner, before = loop.b, loop.carries(checkpoints)
    top, iterations, *slots = before
    target, inputs = loop.read(k), [loop.read(x) for x in outside]
    two_below = [
        state[level.places.index(at)] for at in (below.below.places if below.below is not None else ())
    ]
    one, two = inner.constant(1, k.type), inner.constant(2, k.type)
    i = read_entry(inner, iterations, top)
    left = inner.subtract(i, target) if below.reverse else inner.subtract(target, i)
    half = inner.divide(inner.add(left, one), two)
    middle = inner.subtract(i, half) if below.reverse else inner.add(i, half)
    last = [read_entry(inner, slot, top) for slot in slots]
    reached = Reached(target, [loop.read(x) for x in two_below])
    state_below = _emit_sweep(scope, inner, below, (i, middle), last, reached, inputs)
    following, kinds = inner.add(top, one), zip([iterations, *slots], [middle, *state_below], strict=True)
    after = [following, *(write_entry(inner, slot, x, following) for slot, x in kinds)]

    def is_before(test: StablehloBuilder, of: dict[Value, Value]) -> Value:
        iteration = read_entry(test, of[iterations], of[top])
        return test.compare(iteration, of[target], "GT" if below.reverse else "LT")

    results = emit_while(scope, b, loop, list(map(Carry, before, checkpoints, after)), is_before)
    return [results[x] for x in before]
