"""A loop that runs backwards over another, whose iterations are run again from checkpoints.

Of n iterations it holds the carries of O(log n), in a fixed number of slots, and runs O(n log n) again; n need not be
known when compiling. To get the carry of iteration k, the last checkpoint i <= k is taken, and while i < k another is
set half-way between i and k; when k is done, its checkpoint goes.

Source: Griewank, "Achieving logarithmic growth of temporal and spatial complexity in reverse automatic
differentiation" (1992), with bisection.
"""

from typing import Any

from torch_mlir import ir

from tiduc.dialect.graph import Value
from tiduc.passes.clusters import Cluster, Scope
from tiduc.passes.slots import release
from tiduc.passes.stacks import Pushes, give_all
from tiduc.passes.steps import index_type, new_input, read_at, state_of, step, write_at
from tiduc.passes.whiles import emit_while

SLOTS = 33
"""Bisecting 2**31 iterations, all that a counter of 32 bits can tell apart, sets at most as many checkpoints."""


def emit_recomputed(scope: Scope, cluster: Cluster, source: Cluster, count: int | None) -> None:
    """Emits the loop of a cluster that reads the iterations of `source` from the last to the first."""
    b, i32 = scope.b, index_type()
    forward = step(scope, source.members)
    made = step(scope, cluster.members, forward)
    if count is not None:
        release(scope, cluster, made, count)
    loop = scope.builder("S")
    pushes = Pushes(scope, cluster, made, count, loop)
    state = state_of(scope, forward, [*made.nexts.values(), *pushes.values])
    raw = made.b.finish([*(forward.nexts[at] for at in state), *made.nexts.values(), *pushes.values])
    again = [made.number, *(forward.carries[at] for at in state), *made.inputs]
    ahead = scope.closed(raw.outputs[: len(state)], again)
    one_back = scope.closed(raw.outputs[len(state) :], [*again, *made.carries.values()])
    scope.view.discard(raw)

    k, top = (new_input(loop, i32) for _ in (0, 1))
    marks = new_input(loop, _slots(i32))
    slots = [new_input(loop, _slots(forward.carries[at].type)) for at in state]
    carries = [new_input(loop, x.type) for x in made.carries.values()]
    invariants = [new_input(loop, x.type) for x in made.inputs]
    top_now, marks_now, *slots_now = _advanced(scope, loop, ahead, k, top, marks, slots, invariants)
    at_k = [read_at(loop, slot, top_now) for slot in slots_now]
    outputs = scope.inlined(loop, one_back, [k, *at_k, *invariants, *carries])
    one = loop.constant(1, i32)
    nexts = [
        loop.subtract(k, one),
        loop.subtract(top_now, one),
        marks_now,
        *slots_now,
        *outputs[: len(carries)],
        *pushes.pushed(k, outputs[len(carries) :]),
    ]

    first = [scope.local[m.record.inits[i]] for m, i in state]
    zero = b.constant(0, i32)
    inits = [b.subtract(source.count, b.constant(1, i32)), zero, b.zero(marks.type)]
    inits += [write_at(b, b.zero(slot.type), x, zero) for slot, x in zip(slots, first, strict=True)]
    inits += [scope.local[m.record.inits[i]] for m, i in made.carries]
    inits += [b.zero(x.type) for x in pushes.stacks]
    all_carried = [k, top, marks, *slots, *carries, *pushes.stacks]
    used = [False] * (3 + len(slots)) + [i in m.used for m, i in made.carries] + [True] * len(pushes.stacks)
    results = emit_while(
        scope,
        b,
        inits,
        list(made.outside),
        loop,
        all_carried,
        nexts,
        invariants,
        used,
        lambda test, of: test.compare(of[k], test.constant(0, i32), "GE"),
    )
    results = results[3 + len(slots) :]
    of_carries = dict(zip(made.carries, results[: len(carries)], strict=True))
    give_all(scope, cluster, of_carries, pushes, results[len(carries) :])


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
    carried = [new_input(inner, x.type) for x in (top, marks, *slots)]
    now, noted, *held = carried
    target, *inputs = (new_input(inner, x.type) for x in (k, *invariants))
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
    j, *carried = (new_input(inner, x.type) for x in (start, *state))
    limit, *inputs = (new_input(inner, x.type) for x in (stop, *invariants))
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


def _slots(type_: Any) -> Any:
    return ir.RankedTensorType.get([SLOTS + 1, *type_.shape], type_.element_type)
