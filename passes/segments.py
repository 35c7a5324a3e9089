"""A loop that runs backwards over another, segment by segment, from checkpoints that the other has set.

Of n iterations it holds the carries of every s-th, s = sqrt n, and stacks of one segment: a segment is run again from
its checkpoint, forwards, then read backwards. So each iteration runs once more, in memory for 2 sqrt n of them.

Source: Chen, Xu, Zhang, Guestrin, "Training deep nets with sublinear memory cost" (2016).
"""

from collections.abc import Callable, Sequence
from functools import partial
from math import isqrt
from typing import Any

from tiduc.dialect.control import sequence_type
from tiduc.dialect.graph import Graph, Value
from tiduc.passes.clusters import Cluster, Scope
from tiduc.passes.recompute import counter, counters, kept
from tiduc.passes.slots import release
from tiduc.passes.stacks import Pushes, give_all, length
from tiduc.passes.steps import Place, Step, index_type, new_input, read_at, state_of, step, write_at
from tiduc.passes.whiles import emit_while


def segment(count: int) -> int:
    """The length of a segment: the root of that of the loop, rounded up."""
    return isqrt(max(count - 1, 0)) + 1


class Marks:
    """The checkpoints that a loop sets: its carries before the first iteration of each segment.

    Each iteration writes to the checkpoint at or after it, so that the right one is the last to.
    """

    def __init__(self, scope: Scope, cluster: Cluster, made: Step, count: int) -> None:
        self._made, self._length = made, segment(count)
        readers = [c for c in dict.fromkeys(scope.cluster_of.values()) if c.source is cluster]
        wanted = [x for reader in readers for x in read_by(scope, reader, made)]
        self.places: list[Place] = state_of(scope, made, wanted, counters(made))
        types = [made.carries[at].type for at in self.places]
        slots = -(-count // self._length) + 1
        self.results: Sequence[Any] = ()
        self.inputs = [new_input(made.b, sequence_type(type_, slots)) for type_ in types]

    def pushed(self) -> list[Value]:
        """The checkpoints with an iteration's carries."""
        made, b = self._made, self._made.b
        before = b.add(made.number, b.constant(self._length - 1, made.number))
        at = b.divide(before, b.constant(self._length, made.number))
        return [
            write_at(b, slots, made.carries[place], at)
            for slots, place in zip(self.inputs, self.places, strict=True)
        ]


def read_by(scope: Scope, cluster: Cluster, made: Step) -> list[Value]:
    """What a cluster reads of the iterations of another one."""
    sequences = (scope.sequence.get(x) for m in cluster.members for x in m.record.sequences)
    return list(dict.fromkeys(made.elements[at] for at in sequences if at in made.elements))


def emit_segmented(scope: Scope, cluster: Cluster, source: Cluster, count: int | None) -> None:
    """Emits the loop of a cluster that reads the iterations of `source` from the last to the first."""
    b, i32 = scope.b, index_type()
    most = length(source)
    assert most is not None and count is not None
    size = segment(most)
    forward = step(scope, source.members)
    made = step(scope, cluster.members, forward)
    release(scope, cluster, made, count)
    starts = {x: (scope.local[m.record.inits[i]], by) for x, ((m, i), by) in counters(forward).items()}
    for start, _ in starts.values():
        made.taken(start)
    saved = kept(read_by(scope, cluster, forward), [made.number, *made.inputs, *starts])
    loop = scope.builder("S")
    pushes = Pushes(scope, cluster, made, count, loop)
    places = source.marks.places
    state, own, counted = [forward.carries[at] for at in places], list(made.carries.values()), list(starts)
    raw = made.b.finish([*(forward.nexts[at] for at in places), *saved, *made.nexts.values(), *pushes.values])
    first = len(state) + len(saved)
    given = [made.number, *counted, *made.inputs]
    ahead = scope.closed(raw.outputs[:first], [*given, *state])
    one_back = scope.closed(raw.outputs[first:], [*given, *saved, *own])
    scope.view.discard(raw)

    def run(inner: Any, graph: Graph, k: Value, outside: Sequence[Value], carried: Sequence[Value]) -> Any:
        of = dict(zip(made.outside, outside, strict=True))
        numbers = [counter(inner, of[start], by, k) for start, by in starts.values()]
        return scope.inlined(inner, graph, [k, *numbers, *outside, *carried])

    j, total = (new_input(loop, i32) for _ in (0, 1))
    slots = [new_input(loop, x.type) for x in source.marks.inputs]
    carries, outside = ([new_input(loop, x.type) for x in xs] for xs in (own, made.inputs))
    start = loop.multiply(j, loop.constant(size, i32))
    stop = loop.minimum(loop.add(start, loop.constant(size, i32)), total)
    at_start = [read_at(loop, slot, j) for slot in slots]
    types = [sequence_type(x.type, size) for x in saved]
    stacks = _forwards(scope, loop, start, stop, at_start, types, partial(run, graph=ahead), outside)
    after = _backwards(
        scope, loop, start, stop, stacks, carries, pushes, partial(run, graph=one_back), outside
    )
    count_ = source.count
    inits = [b.divide(b.subtract(count_, b.constant(1, i32)), b.constant(size, i32))]
    inits += [scope.local[m.record.inits[i]] for m, i in made.carries]
    inits += [b.zero(x.type) for x in pushes.stacks]
    results = emit_while(
        scope,
        b,
        inits,
        [count_, *source.marks.results, *made.outside],
        loop,
        [j, *carries, *pushes.stacks],
        [loop.subtract(j, loop.constant(1, i32)), *after],
        [total, *slots, *outside],
        [False, *(i in m.used for m, i in made.carries), *(True for _ in pushes.stacks)],
        lambda test, of: test.compare(of[j], test.constant(0, i32), "GE"),
    )[1:]
    of_carries = dict(zip(made.carries, results[: len(own)], strict=True))
    give_all(scope, cluster, of_carries, pushes, results[len(own) :])


def _forwards(
    scope: Scope,
    b: Any,
    start: Value,
    stop: Value,
    state: Sequence[Value],
    types: Sequence[Any],
    run: Callable[..., Any],
    outside: Sequence[Value],
) -> list[Any]:
    """Runs a segment again; stacks of what it keeps."""
    inner = scope.builder("S")
    k, first, limit = (new_input(inner, x.type) for x in (start, start, stop))
    carried, inputs = ([new_input(inner, x.type) for x in xs] for xs in (state, outside))
    stacks = [new_input(inner, type_) for type_ in types]
    outputs = run(inner, k=k, outside=inputs, carried=carried)
    at = inner.subtract(k, first)
    pushed = [write_at(inner, s, x, at) for s, x in zip(stacks, outputs[len(state) :], strict=True)]
    results = emit_while(
        scope,
        b,
        [start, *state, *(b.zero(type_) for type_ in types)],
        [start, stop, *outside],
        inner,
        [k, *carried, *stacks],
        [inner.add(k, inner.constant(1, k.type)), *outputs[: len(state)], *pushed],
        [first, limit, *inputs],
        [False] * (1 + len(state)) + [True] * len(types),
        lambda test, of: test.compare(of[k], of[limit], "LT"),
    )
    return results[1 + len(state) :]


def _backwards(
    scope: Scope,
    b: Any,
    start: Value,
    stop: Value,
    stacks: Sequence[Value],
    carries: Sequence[Value],
    pushes: Pushes,
    run: Callable[..., Any],
    outside: Sequence[Value],
) -> list[Any]:
    """Reads a segment from its last iteration to its first: the carries after it, and what is stacked for others."""
    inner = scope.builder("S")
    k, first = (new_input(inner, start.type) for _ in (0, 1))
    carried, kept_by_others = ([new_input(inner, x.type) for x in xs] for xs in (carries, pushes.stacks))
    inputs, read = ([new_input(inner, x.type) for x in xs] for xs in (outside, stacks))
    at = inner.subtract(k, first)
    of_iteration = [read_at(inner, stack, at) for stack in read]
    outputs = run(inner, k=k, outside=inputs, carried=[*of_iteration, *carried])
    pushed = [write_at(inner, s, x, k) for s, x in zip(kept_by_others, outputs[len(carries) :], strict=True)]
    one = inner.constant(1, k.type)
    results = emit_while(
        scope,
        b,
        [b.subtract(stop, b.constant(1, stop.type)), *carries, *pushes.stacks],
        [start, *outside, *stacks],
        inner,
        [k, *carried, *kept_by_others],
        [inner.subtract(k, one), *outputs[: len(carries)], *pushed],
        [first, *inputs, *read],
        [False] + [True] * (len(carries) + len(pushed)),
        lambda test, of: test.compare(of[k], of[first], "GE"),
    )
    return results[1:]
