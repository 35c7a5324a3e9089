"""Batching rules of calls, branches and loops.

A called graph is batched once for each combination of batched and unbatched arguments that occurs in its calls. If the
index of a `case` is batched, all branches run, and the index of each example selects the example's results. If the
condition of a loop is batched, the loop runs while the condition holds for any example. Examples whose condition is
false keep their values.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tiduc.dialect.control.control import (
    Branches,
    Loop,
    branches,
    calls_function,
    draws,
    emit_call,
    emit_case,
    emit_loop,
    loop,
    only_vjp,
)
from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.graph.cache import Cache
from tiduc.dialect.graph.graph import Definition, Graph, Value
from tiduc.dialect.ops.control_ops import CALL, CALL_VJP, CASE, LOOP
from tiduc.dialect.shapes.types import element, rank, with_shape
from tiduc.passes.batching.registry import (
    Batched,
    Unbatched,
    along,
    emit_batched,
    mapped,
    spread,
    unbatchable,
)
from tiduc.passes.batching.table import batch, refuse

Flags = tuple[bool, ...]

refuse("tuples cannot be batched", "stablehlo.tuple", "stablehlo.get_tuple_element")
refuse(
    "it has side effects, so it cannot be repeated for each example",
    "stablehlo.after_all",
    "stablehlo.create_token",
    "stablehlo.infeed",
    "stablehlo.outfeed",
    "stablehlo.recv",
    "stablehlo.rng",
    "stablehlo.send",
)


@batch("stablehlo.optimization_barrier")
def optimization_barrier(
    b: StablehloBuilder, op: Definition, x: Sequence[Value], at: Sequence[bool]
) -> list[Value | Unbatched]:
    y = emit_batched(b, op, x, [v.type for v in x])
    return [v if flag else Unbatched(v) for v, flag in zip(y, at, strict=True)]


@batch(CALL_VJP)
def call_vjp(b: StablehloBuilder, op: Definition, x: Sequence[Value], at: Sequence[bool]) -> Sequence[Value]:
    raise only_vjp(op)


# ---- calls and branches call batched graphs ----------------------------------------------------------------


@batch(CALL)
@batch(CASE)
@batch("stablehlo.case")
@batch("stablehlo.if")
def call(b: StablehloBuilder, op: Definition, x: Sequence[Value], at: Sequence[bool]) -> Sequence[Any]:
    """Batches a call or a `case`: emits the same op with batched graphs. If the index is batched, all branches run.

    A function that must not be inlined, such as one with a custom derivative, is called k times in a loop instead.
    """
    if calls_function(b.view, op):
        return mapped(b, op, x, at)
    record = branches(b.view, op)
    operands = [x[i] for i in record.arguments]
    flags = tuple([at[i] for i in record.arguments])
    if record.index is not None and at[0]:
        return _selected(b, op, record, x[0], operands, flags)
    graphs, given = _same_outputs(b, record, flags)
    first = len(b.view.graph(record.base).outputs)
    base = b.engine.graph(b.view.graph(record.base), flags, given[:first]).graph.name
    if record.index is None:
        y = emit_call(b, graphs[0], operands, base)
    else:
        y = emit_case(b, x[0], graphs, operands, base)
    return [v if flag else Unbatched(v) for v, flag in zip(y, given, strict=True)]


def _same_outputs(b: StablehloBuilder, record: Branches, flags: Flags) -> tuple[list[Graph], Flags]:
    """Returns the batched branches, and a flag for each output: whether it is batched.

    An output that is batched in one branch is batched in all, so that the branches have the same output types.
    """
    batched = [b.engine.graph(graph, flags, [None] * record.width).outputs for graph in record.graphs]
    given = tuple([any(of_one) for of_one in zip(*batched, strict=True)])
    return [b.engine.graph(graph, flags, given).graph for graph in record.graphs], given


def _selected(
    b: StablehloBuilder,
    op: Definition,
    record: Branches,
    index: Value,
    operands: Sequence[Value],
    flags: Flags,
) -> list[Value]:
    """Emits calls of all branches, and ops that select the results of each example by the index of the example.

    An index that is out of range selects the last branch.
    """
    if any(draws(b.view, graph) for graph in record.graphs):
        raise unbatchable(op, "a branch is stateful, and the examples of a batch may take different branches")
    graphs = [b.engine.graph(graph, flags, [True] * record.width).graph for graph in record.graphs]
    *others, last = [emit_call(b, graph, operands) for graph in graphs]
    for i, values in reversed(list(enumerate(others))):
        is_bool = element(index).width == 1
        chosen = index if is_bool else b.compare(index, b.constant(i, index), "EQ")
        last = tuple([b.select(along(b, chosen, y), y, z) for y, z in zip(values, last, strict=True)])
    return list(last)


# ---- loops run batched bodies ------------------------------------------------------------------------------


@batch(LOOP)
@batch("stablehlo.while")
def loop_(
    b: StablehloBuilder, op: Definition, x: Sequence[Value], at: Sequence[bool]
) -> Sequence[Value | Unbatched]:
    record = loop(b.view, op)
    operands = [x[i] for i in record.arguments]
    flags = [at[i] for i in record.arguments]
    n, m = len(record.inits), len(record.sequences)
    steady, flags = _steady(b, record, flags)
    body, given = steady.graph, steady.outputs
    cond, masked = _condition(b, record, flags)
    if masked:
        if m or record.width > n:
            return mapped(b, op, x, at)
        flags = [True] * n + flags[n:]
        batched = b.engine.graph(record.body, tuple(flags), [True] * n)
        any_ = _while_any(
            b, b.engine.graph(record.cond, _of_cond(record, flags), [True]).graph, batched.graph, n
        )
        cond, body, given = any_.cond, any_.body, batched.outputs
    base = b.view.graph(record.base)
    forced = [*flags[:n], *([None] * (len(base.outputs) - n))]
    name = body.name if masked else b.engine.graph(base, tuple(flags), forced).graph.name
    inits = [
        v if is_there or not flag else spread(b, v)
        for v, flag, is_there in zip(operands, flags, (at[i] for i in record.arguments), strict=True)
    ][:n]
    sequences = [
        elements(b, v) if flag else v for v, flag in zip(operands[n : n + m], flags[n : n + m], strict=True)
    ]
    count = None if masked else record.trip_count
    of_batch = Loop(
        tuple(inits),
        tuple(sequences),
        tuple(operands[n + m :]),
        body,
        cond,
        record.reverse,
        count,
        name,
        memory=record.memory,
        bound=record.bound,
    )
    y = emit_loop(b, of_batch, name)
    results = [
        Unbatched(v) if not flag else v if i < n else b.transpose(v, [1, 0, *range(2, rank(v))])
        for i, (v, flag) in enumerate(zip(y, given, strict=True))
    ]
    same = [v if flag else Unbatched(v) for v, flag in zip(operands[n + m :], flags[n + m :], strict=True)]
    return [results[i] if i >= 0 else same[~i] for i in record.results]


def _steady(b: StablehloBuilder, record: Loop, flags: list[bool]) -> tuple[Batched, list[bool]]:
    """Returns the batched body of a loop, and a flag for each operand: whether it must be batched.

    A loop-carried value must be batched if its initial value is, or if an iteration computes it from batched values.
    This condition is applied until no flag changes.
    """
    n = len(record.inits)
    while True:
        forced = [*[flag or None for flag in flags[:n]], *([None] * (record.width - n))]
        given = b.engine.graph(record.body, tuple(flags), forced).outputs
        reached = [given[i] or flags[i] for i in range(n)]
        if reached == flags[:n]:
            break
        flags = [*reached, *flags[n:]]
    exact = [*flags[:n], *([None] * (record.width - n))]
    body = b.engine.graph(record.body, tuple(flags), exact)
    return body, flags


def _of_cond(record: Loop, flags: Sequence[bool]) -> Flags:
    n, m = len(record.inits), len(record.sequences)
    return (*flags[:n], *flags[n + m :])


def _condition(b: StablehloBuilder, record: Loop, flags: Sequence[bool]) -> tuple[Graph | None, bool]:
    """Returns the batched condition of a loop, and whether the condition's result is batched.

    If it is, examples may stop at different times. Returns (None, False) if the loop has no condition.
    """
    if record.cond is None:
        return None, False
    cond = b.engine.graph(record.cond, _of_cond(record, flags), [None])
    return cond.graph, cond.outputs[0]


@dataclass(frozen=True)
class _WhileAny:
    """The graphs of a loop that runs while the condition holds for any example. The body updates only such examples."""

    cond: Graph
    body: Graph


_WHILE_ANY = Cache[tuple[Graph, Graph], _WhileAny]()
"""Caches the results of `_while_any`. The key is the batched condition and the batched body."""


def _while_any(b: StablehloBuilder, cond: Graph, body: Graph, n: int) -> _WhileAny:
    return _WHILE_ANY.get(b.view, (cond, body), lambda: _emit_while_any(b, cond, body, n))


def _emit_while_any(b: StablehloBuilder, cond: Graph, body: Graph, n: int) -> _WhileAny:
    c, d = b.engine.builder("C"), b.engine.builder("B")
    (goes_on,) = _inlined(b, c, cond, _inputs(c, cond))
    zero = c.constant(0, with_shape(goes_on.type, []))
    c.finish([c.reduce(goes_on, zero, [0], "stablehlo.or")])
    inputs = _inputs(d, body)
    (goes_on,) = _inlined(b, d, cond, inputs)
    after = _inlined(b, d, body, inputs)
    d.finish([d.select(along(d, goes_on, y), y, x) for x, y in zip(inputs[:n], after, strict=True)])
    return _WhileAny(c.graph, d.graph)


def _inputs(b: StablehloBuilder, graph: Graph) -> list[Value]:
    return [b.input(f"{b.graph.name}.{i}", x.type) for i, x in enumerate(graph.inputs.values())]


def _inlined(
    b: StablehloBuilder, into: StablehloBuilder, graph: Graph, operands: Sequence[Value]
) -> list[Value]:
    local = dict(zip(graph.inputs.values(), operands, strict=True))
    b.engine.inline(into, b.view, graph.outputs, local)
    return [local[y] for y in graph.outputs if y is not None]


def elements(b: StablehloBuilder, x: Value) -> Value:
    """Turns a batch of sequences into a sequence of batches: transposes the first two dimensions.

    If x is the result of such a transpose already, returns the operand of that transpose.
    """
    order = [1, 0, *range(2, rank(x))]
    defining = x.definition
    if (
        defining is not None
        and defining.name == "stablehlo.transpose"
        and list(defining.attributes["permutation"]) == order
    ):
        return defining.operands[0]
    return b.transpose(x, order)
