"""A loop that runs backwards over another, whose iterations are run again from checkpoints.

Of n iterations it holds the carries of O(log n), in a fixed number of slots, and runs O(n log n) again; n need not be
known when compiling. To get the carry of iteration k, the last checkpoint i <= k is taken, and while i < k another is
set half-way between i and k; when k is done, its checkpoint goes.

Source: Griewank, "Achieving logarithmic growth of temporal and spatial complexity in reverse automatic
differentiation" (1992), with bisection.
"""

from typing import Any

from torch_mlir import ir

from tiduc.dialect.control import draws, sequence_type
from tiduc.dialect.errors import Unsupported
from tiduc.dialect.graph import Value
from tiduc.passes.clusters import Cluster, Scope, give_results
from tiduc.passes.stacks import (
    Place,
    Step,
    emit_while,
    index_type,
    read_at,
    stacked,
    step,
    write_at,
)

SLOTS = 33
"""Bisecting 2**31 iterations, all that a counter of 32 bits can tell apart, sets at most as many checkpoints."""


def emit_recomputed(scope: Scope, cluster: Cluster, source: Cluster, count: int | None) -> None:
    """Emits the loop of a cluster that reads the iterations of `source` from the last to the first."""
    if any(draws(scope.view, member.record.body) for member in source.members):
        raise Unsupported(
            "a loop that draws random numbers cannot be run again from checkpoints",
            cluster.members[0].ops[0].location,
        )
    b, i32 = scope.b, index_type()
    back = scope.builder("S")
    forward = step(scope, source.members, b=back)
    made = step(scope, cluster.members, forward.elements, back)
    kept = [] if count is None else stacked(scope, cluster, made)
    state = _state(scope, forward, [*made.nexts.values(), *(made.elements[at] for at in kept)])
    number = forward.number
    raw = back.finish(
        [*(forward.nexts[at] for at in state), *made.nexts.values(), *(made.elements[at] for at in kept)]
    )
    again = [number, *(forward.carries[at] for at in state), *forward.inputs]
    ahead = scope.closed(raw.outputs[: len(state)], again)
    one_back = scope.closed(
        raw.outputs[len(state) :], [*again, made.number, *made.carries.values(), *made.inputs]
    )
    scope.view.discard(raw)

    loop = scope.builder("S")
    k, top = (loop.input(f"{loop.graph.name}.{i}", i32) for i in (0, 1))
    marks = _input(loop, _slots(i32))
    slots = [_input(loop, _slots(forward.carries[at].type)) for at in state]
    carries = [_input(loop, x.type) for x in made.carries.values()]
    stacks = [_input(loop, sequence_type(made.elements[at].type, count)) for at in kept]
    invariants = [_input(loop, x.type) for x in forward.inputs]
    others = [_input(loop, x.type) for x in made.inputs]
    top_now, marks_now, *slots_now = _advanced(scope, loop, ahead, k, top, marks, slots, invariants)
    at_k = [read_at(loop, slot, top_now) for slot in slots_now]
    outputs = scope.inlined(loop, one_back, [k, *at_k, *invariants, k, *carries, *others])
    one = loop.constant(1, i32)
    pushed = [write_at(loop, s, y, k) for s, y in zip(stacks, outputs[len(carries) :], strict=True)]
    nexts = [
        loop.subtract(k, one),
        loop.subtract(top_now, one),
        marks_now,
        *slots_now,
        *outputs[: len(carries)],
        *pushed,
    ]

    first = [scope.local[m.record.inits[i]] for m, i in state]
    zero = b.constant(0, i32)
    inits = [b.subtract(source.count, b.constant(1, i32)), zero, b.zero(marks.type)]
    inits += [write_at(b, b.zero(slot.type), x, zero) for slot, x in zip(slots, first, strict=True)]
    inits += [scope.local[m.record.inits[i]] for m, i in made.carries]
    inits += [b.zero(x.type) for x in stacks]
    all_carried = [k, top, marks, *slots, *carries, *stacks]
    used = [False] * (3 + len(slots)) + [i in m.used for m, i in made.carries] + [True] * len(stacks)
    results = emit_while(
        scope,
        b,
        inits,
        [*forward.outer(scope), *made.outer(scope)],
        loop,
        all_carried,
        nexts,
        [*invariants, *others],
        used,
        lambda test, of: test.compare(of[k], test.constant(0, i32), "GE"),
    )
    places = [*made.carries, *kept]
    given = {at: y for at, y in zip(places, results[3 + len(slots) :], strict=True) if y is not None}
    give_results(scope, given)


def _advanced(
    scope: Scope,
    b: Any,
    ahead: Any,
    k: Value,
    top: Value,
    marks: Value,
    slots: list[Value],
    invariants: list[Value],
) -> list[Any]:
    """Sets checkpoints until the last one is iteration k: the number of the last, the marks and the slots."""
    i32 = index_type()
    inner = scope.builder("S")
    carried = [_input(inner, x.type) for x in (top, marks, *slots)]
    now, noted, *held = carried
    target, *inputs = (_input(inner, x.type) for x in (k, *invariants))
    one, two = inner.constant(1, i32), inner.constant(2, i32)
    i = read_at(inner, noted, now)
    half = inner.divide(inner.add(inner.subtract(target, i), one), two)
    middle = inner.add(i, half)
    state = [read_at(inner, slot, now) for slot in held]
    state = _run(scope, inner, ahead, i, middle, state, inputs)
    following = inner.add(now, one)
    nexts = [following, write_at(inner, noted, middle, following)]
    nexts += [write_at(inner, slot, x, following) for slot, x in zip(held, state, strict=True)]

    def is_before(test: Any, of: dict[Value, Value]) -> Any:
        return test.compare(read_at(test, of[noted], of[now]), of[target], "LT")

    used = [True] * len(carried)
    return emit_while(
        scope,
        b,
        [top, marks, *slots],
        [k, *invariants],
        inner,
        carried,
        nexts,
        [target, *inputs],
        used,
        is_before,
    )


def _run(
    scope: Scope, b: Any, ahead: Any, start: Value, stop: Value, state: list[Value], invariants: list[Value]
) -> list[Any]:
    """The state after the iterations from `start` to `stop`."""
    i32 = index_type()
    inner = scope.builder("S")
    j, *carried = (_input(inner, x.type) for x in (start, *state))
    limit, *inputs = (_input(inner, x.type) for x in (stop, *invariants))
    nexts = [inner.add(j, inner.constant(1, i32)), *scope.inlined(inner, ahead, [j, *carried, *inputs])]
    made = emit_while(
        scope,
        b,
        [start, *state],
        [stop, *invariants],
        inner,
        [j, *carried],
        nexts,
        [limit, *inputs],
        [True] * len(nexts),
        lambda test, of: test.compare(of[j], of[limit], "LT"),
    )
    return made[1:]


def _state(scope: Scope, forward: Step, wanted: list[Value]) -> list[Place]:
    """The carries that wanted values of the backward step need, and those that these need to go on."""
    at = {x: place for place, x in forward.carries.items()}
    state: dict[Place, None] = {}
    while wanted:
        order = scope.view.schedule(wanted)
        read = dict.fromkeys(x for op in order for x in (*op.operands, *op.captures)) | dict.fromkeys(wanted)
        found = [at[x] for x in read if x in at and at[x] not in state]
        state |= dict.fromkeys(found)
        wanted = [forward.nexts[place] for place in found]
    return list(state)


def _slots(type_: Any) -> Any:
    return ir.RankedTensorType.get([SLOTS + 1, *type_.shape], type_.element_type)


def _input(b: Any, type_: Any) -> Value:
    return b.input(f"{b.graph.name}.{len(b.graph.inputs)}", type_)  # type: ignore[no-any-return]
