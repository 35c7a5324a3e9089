"""Emits loops without sequences, as `stablehlo.while` is, from a raw graph of one iteration and a test."""

from collections.abc import Callable, Sequence
from typing import Any

from tiduc.dialect.control import Loop, emit_loop
from tiduc.dialect.graph import Graph, Value
from tiduc.passes.structure.scope import Scope


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
    options: tuple[str | None, int | None] = (None, None),
) -> list[Value | None]:
    """Emits a loop without sequences; its last carries, None for dead ones.

    The builder `inner` has built one iteration, from `carries` and `inputs` to `nexts`. `inits` and `invariants` are
    the outer values of `carries` and `inputs`. `used` says which carries are read after the loop. `condition` emits
    the test, given a builder and the test's inputs for `carries` and `inputs`. `options` are the memory and the
    bound of the trip count that the program gives for the loop.
    """
    raw = inner.finish(nexts)
    test = scope.builder("C")
    of = {x: test.input(f"{test.graph.name}.{i}", x.type) for i, x in enumerate([*carries, *inputs])}
    cond = test.finish([condition(test, of)])
    needed = _live_carries(scope, raw, carries, used, read_inputs(cond))
    live = [i for i, flag in enumerate(needed) if flag]
    body = scope.closed([nexts[i] for i in live], [*(carries[i] for i in live), *inputs])
    of_cond = list(cond.inputs.values())
    cond = scope.closed(cond.outputs, [*(of_cond[i] for i in live), *of_cond[len(carries) :]])
    loop = Loop(
        tuple(inits[i] for i in live),
        (),
        tuple(invariants),
        body,
        cond,
        False,
        None,
        body.name,
        memory=options[0],
        bound=options[1],
    )
    for graph in (raw, test.graph):
        scope.view.discard(graph)
    results = dict(zip(live, emit_loop(b, loop), strict=True))
    return [results.get(i) for i in range(len(carries))]


def read_inputs(graph: Graph) -> list[int]:
    """The numbers of the inputs that a graph reads."""
    read = {x for op in graph.definitions for x in (*op.operands, *op.captures)} | set(graph.outputs)
    return [i for i, x in enumerate(graph.inputs.values()) if x in read]


def _live_carries(
    scope: Scope, raw: Graph, carries: Sequence[Value], used: Sequence[bool], by_cond: Sequence[int]
) -> list[bool]:
    """Which carries are live: read after the loop or by its test, or read to compute the next value of a live one."""
    number = {x: i for i, x in enumerate(carries)}
    needed: set[int] = set()
    more = {i for i, flag in enumerate(used) if flag} | {i for i in by_cond if i < len(carries)}
    while more:
        needed |= more
        wanted = [raw.outputs[i] for i in needed]
        order = scope.view.schedule([y for y in wanted if y is not None], raw.inputs.values())
        read = {x for op in order for x in (*op.operands, *op.captures)} | set(wanted)
        more = {number[x] for x in read if x in number} - needed
    return [i in needed for i in range(len(carries))]
