"""A loop that reads the iterations of others from the last to the first, which are run again from checkpoints.

    W -> x_0, x_1, ...          T, backwards, reads x_k         U, forwards again, reads x_k and what T carries there

Of n iterations it holds the carries of O(log n), in a fixed number of slots, and runs O(n log n) again; n need not be
known when compiling. To get the carry of iteration k, the last checkpoint before k is taken, and until it is at k
another is set half-way to k; when k is done, its checkpoint goes.

Running loops such as T again needs in turn what others carry, such as W, which run the other way: they have
checkpoints of their own, of which the first is where U is. So U takes O(n log^2 n), a loop that reads U log n more.

Source: Griewank, "Achieving logarithmic growth of temporal and spatial complexity in reverse automatic
differentiation" (1992), with bisection.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tiduc.dialect.control import Loop, sequence_type
from tiduc.dialect.graph import Graph, Value
from tiduc.dialect.trip_count import most_iterations
from tiduc.passes.structure.plan import max_trip_count
from tiduc.passes.structure.records import Records
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

_ITERATIONS = 2**31
"""All that a counter of 32 bits can tell apart."""


@dataclass(frozen=True)
class Level:
    """Loops that run one way, as one iteration of all; `below` are those that it reads and that run the other way.

    `graph`: (number, carries, carries of those below, values from outside) -> (next carries, what is recorded).
    `slots` is how many checkpoints there are at most.
    """

    reverse: bool
    places: list[Place]
    graph: Graph
    below: "Level | None"
    slots: int

    def among(self, places: Sequence[Place], state: Sequence[Value]) -> list[Value]:
        """Of the state of loops two levels above, those values that are carried here too."""
        return [state[places.index(at)] for at in self.places]


def emit_recomputed(scope: Scope, cluster: Cluster, count: int | None) -> None:
    """Emits the loop of a cluster, for which iterations of others are run again from checkpoints."""
    b, i32, is_reverse = scope.b, index_type(), cluster.leader.reverse
    made = step(scope, members_of([*scope.plans[cluster].recomputed, cluster]))
    if count is not None:
        release(scope, cluster, made, count)
    records = Records(scope, cluster, made, count)
    places = own_places(scope, cluster, made, records.values)
    raw = made.b.finish([*made.nexts.values(), *records.values])
    level = _level(scope, made, is_reverse, places, _slots(_most(scope, cluster, count)), records.values)
    scope.view.discard(raw)

    zero, one = b.constant(0, i32), b.constant(1, i32)
    times = total(scope, cluster)
    last = b.subtract(times, one)
    inits = {(m, i): scope.local[m.record.inits[i]] for m, i in made.carries}
    results = _sweep(
        scope,
        b,
        level,
        (last, b.constant(-1, i32)) if is_reverse else (zero, times),
        [inits[at] for at in level.places],
        zero if is_reverse else last,
        [inits[at] for at in level.below.places] if level.below is not None else [],
        list(made.outside),
        records,
        [m in cluster.members and i in m.used for m, i in places],
    )
    n = len(places)
    records.give(dict(zip(places, results[:n], strict=True)), results[n:], max_trip_count(cluster))


def _most(scope: Scope, cluster: Cluster, count: int | None) -> int:
    """How often the loops of a cluster run, those that are run again for it included, at most."""
    records = (m.record for m in members_of([*scope.plans[cluster].recomputed, cluster]))
    known = [most_iterations(record) for record in records if isinstance(record, Loop)]
    return min([_ITERATIONS, *(n for n in (count, *known) if n is not None)])


def _slots(most: int) -> int:
    """How many checkpoints bisecting sets at most: a first, one for each half of what is left, and one to spare.

    From one to the iteration that is wanted k are left, the next leaves k // 2 and so on; once that iteration is done
    the next one wanted is one less, from the last checkpoint that is left no further than half of what was before.
    """
    return most.bit_length() + 2


def _level(
    scope: Scope, made: Step, reverse: bool, places: list[Place], slots: int, more: Sequence[Value] = ()
) -> Level:
    wanted = [*(made.nexts[at] for at in places), *more]
    other = [at for at in state_of(scope, made, wanted) if at[0].record.reverse != reverse]
    below = _level(scope, made, not reverse, other, slots) if other else None
    carried = [made.carries[at] for at in (*places, *other)]
    return Level(reverse, places, scope.closed(wanted, [made.number, *carried, *made.inputs]), below, slots)


def _sweep(
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
    """Runs the iterations from one to before another: the state after them, and what is recorded.

    `state_below` is the state of those below at iteration `at`, which is behind the last one in their own order, or it.
    """
    inner = scope.builder("S")
    k, limit = (new_input(inner, x.type) for x in ends)
    carried, inputs = ([new_input(inner, x.type) for x in xs] for xs in (state, outside))
    arrays = [new_input(inner, type_) for type_ in records.types] if records is not None else []
    one = inner.constant(1, k.type)
    first, books, books_after, of_below = [], list[Value](), list[Value](), list[Value]()
    if level.below is not None:
        zero = b.constant(0, at.type)
        slots_of = [b.zero(sequence_type(x.type, level.slots)) for x in (at, *state_below)]
        first = [zero, *(write_at(b, s, x, zero) for s, x in zip(slots_of, (at, *state_below), strict=True))]
        books = [new_input(inner, x.type) for x in first]
        top, *slots = _advanced(scope, inner, level, k, books, carried, inputs)
        of_below = [read_at(inner, slot, top) for slot in slots[1:]]
        books_after = [inner.subtract(top, one), *slots]
    outputs = scope.inlined(inner, level.graph, [k, *carried, *of_below, *inputs])
    n = len(carried)
    after = inner.subtract(k, one) if level.reverse else inner.add(k, one)
    written = records.written(inner, arrays, k, outputs[n:]) if records is not None else []
    results = emit_while(
        scope,
        b,
        [ends[0], *first, *state, *(records.first(b) if records is not None else [])],
        [ends[1], *outside],
        inner,
        [k, *books, *carried, *arrays],
        [after, *books_after, *outputs[:n], *written],
        [limit, *inputs],
        [False] * (1 + len(books)) + list(used or [True] * n) + [True] * len(arrays),
        lambda test, of: test.compare(of[k], of[limit], "GT" if level.reverse else "LT"),
    )
    return results[1 + len(books) :]


def _advanced(
    scope: Scope,
    b: Any,
    level: Level,
    k: Value,
    books: Sequence[Value],
    state: Sequence[Value],
    outside: Sequence[Value],
) -> list[Any]:
    """Sets checkpoints of the level below until the last is at iteration k: its number, the marks and the slots."""
    below = level.below
    assert below is not None
    beneath = below.below.among(level.places, state) if below.below is not None else []
    inner = scope.builder("S")
    carried = [new_input(inner, x.type) for x in books]
    top, marks, *slots = carried
    target, *others = (new_input(inner, x.type) for x in (k, *beneath, *outside))
    one, two = inner.constant(1, k.type), inner.constant(2, k.type)
    i = read_at(inner, marks, top)
    left = inner.subtract(i, target) if below.reverse else inner.subtract(target, i)
    half = inner.divide(inner.add(left, one), two)
    middle = inner.subtract(i, half) if below.reverse else inner.add(i, half)
    of_slots = [read_at(inner, slot, top) for slot in slots]
    n = len(beneath)
    then = _sweep(scope, inner, below, (i, middle), of_slots, target, others[:n], others[n:])
    following = inner.add(top, one)
    nexts = [following, write_at(inner, marks, middle, following)]
    nexts += [write_at(inner, slot, x, following) for slot, x in zip(slots, then, strict=True)]

    def is_before(test: Any, of: dict[Value, Value]) -> Any:
        mark = read_at(test, of[marks], of[top])
        return test.compare(mark, of[target], "GT" if below.reverse else "LT")

    return emit_while(
        scope,
        b,
        books,
        [k, *beneath, *outside],
        inner,
        carried,
        nexts,
        [target, *others],
        [True] * len(carried),
        is_before,
    )
