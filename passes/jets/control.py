"""Control flow: bodies are propagated once for each pattern of operands with a series, and carry all coefficients.

    y = call @f (x)       ->   y_0, ..., y_K = call @f.jet (x_0, ..., x_K)
    while p(x): x = f(x)  ->   while p(x_0): x_0, ..., x_K = f.jet(x_0, ..., x_K)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tiduc.dialect.cache import Cache
from tiduc.dialect.control import Branches, Loop, branches, control, emit_call, emit_case, emit_loop
from tiduc.dialect.control_ops import CALL, DERIVATIVES
from tiduc.dialect.graph import Definition, Graph, Value, stem
from tiduc.passes.engine.close import close

Flags = tuple[bool, ...]


@dataclass(frozen=True)
class Jet:
    """The coefficients of a closed graph's outputs, and which outputs have a series.

    `outputs` has a list for each output: the coefficient of order 0, then, where there is a series, those of orders 1
    to K, None for a zero. They are in graphs of the view, in terms of `given`: the inputs, then their coefficients.
    """

    given: tuple[tuple[Value, ...], ...]
    outputs: tuple[tuple[Value | None, ...], ...]


_JETS = Cache[tuple[Graph, Flags, int], Jet]()


def has_own_derivative(view: Any, op: Definition) -> bool:
    """Whether the op calls a function whose derivative is given by name."""
    if op.name != CALL:
        return op.name == "tidu.call_vjp"
    (graph,) = branches(view, op).graphs
    return any(attribute in graph.attributes for attribute in DERIVATIVES)


def extend(series: Any, op: Definition, order: int) -> None:
    """Computes the series of the op's results up to `order`, all at once."""
    if series.coefficients.get(op.results[0]):
        return
    record = control(series.view, op)
    series.extend(op.reads, order)
    flags = tuple([series.limit(x) > 0 for x in record.operands])
    if isinstance(record, Loop):
        found = _loop(series, record, flags, order)
        first = len(record.inits) + len(record.sequences)
        invariants = [series.coefficients[x] for x in record.operands[first:]]
        found = [found[i] if i >= 0 else invariants[~i] for i in record.results]
    else:
        found = _branches(series, record, flags, order)
    for y, coefficients in zip(op.results, found, strict=True):
        series.coefficients[y] = list(coefficients)
        series.limits[y] = min(len(coefficients) - 1, order)


def _operands(series: Any, operands: Sequence[Value], flags: Flags, order: int) -> list[list[Any]]:
    """The coefficients of each operand: all of them where it has a series."""
    return [
        [series.dense(x, k) for k in range(order + 1 if flag else 1)]
        for x, flag in zip(operands, flags, strict=True)
    ]


def _jet(series: Any, graph: Graph, flags: Flags, order: int) -> Jet:
    return _JETS.get(series.view, (graph, flags, order), lambda: _propagated(series, graph, flags, order))


def _propagated(series: Any, graph: Graph, flags: Flags, order: int) -> Jet:
    b = series.opset.builder(series.view, series.view.fresh("J"))
    given = []
    for x, flag in zip(graph.inputs.values(), flags, strict=True):
        more = [
            b.input(f"{b.graph.name}.{len(b.graph.inputs)}", x.type) for _ in range(order if flag else 0)
        ]
        given.append((x, *more))
    inner = type(series)(
        series.view,
        series.opset,
        b,
        dict(zip(graph.inputs.values(), given, strict=True)),
        series.control,
    )
    outputs = [y for y in graph.outputs if y is not None]
    inner.extend(outputs, order)
    found = []
    for y in outputs:
        limit = inner.limit(y)
        found.append(tuple([inner.at(y, k) for k in range(limit + 1)]))
    return Jet(tuple(given), tuple(found))


def _closed(series: Any, graph: Graph, jet: Jet, outputs: Flags, order: int, carried: Any = None) -> Graph:
    """The closed graph of a jet: its inputs and outputs are ordered by value, then by order."""
    wanted = []
    for y, found, flag in zip(graph.outputs, jet.outputs, outputs, strict=True):
        assert y is not None
        more = [*found[1:], *([None] * (order + 1 - len(found)))] if flag else []
        wanted += [found[0], *(y.type if x is None else x for x in more)]
    given = [x for each in jet.given for x in each]
    return close(series.view, wanted, given, series.opset, name=f"{stem(graph)}.jet")


def _branches(series: Any, record: Branches, flags: Flags, order: int) -> list[list[Any]]:
    jets = [_jet(series, graph, flags, order) for graph in record.graphs]
    outputs = tuple(
        [any(len(jet.outputs[i]) > 1 for jet in jets) for i in range(record.width)]
    )
    graphs = [_closed(series, graph, jet, outputs, order) for graph, jet in zip(record.graphs, jets, strict=True)]
    operands = [c for each in _operands(series, record.operands, flags, order) for c in each]
    if record.index is None:
        results = emit_call(series.b, graphs[0], operands)
    else:
        results = emit_case(series.b, series.dense(record.index, 0), graphs, operands)
    return _split(results, outputs, order)


def _split(results: Sequence[Any], flags: Sequence[bool], order: int) -> list[list[Any]]:
    rest = iter(results)
    return [[next(rest) for _ in range(order + 1 if flag else 1)] for flag in flags]


def _loop(series: Any, record: Loop, flags: Flags, order: int) -> list[list[Any]]:
    n, m = len(record.inits), len(record.sequences)
    while True:
        jet = _jet(series, record.body, flags, order)
        reached = [len(jet.outputs[i]) > 1 or flags[i] for i in range(n)]
        if tuple(reached) == flags[:n]:
            break
        flags = (*reached, *flags[n:])
    outputs = (*flags[:n], *[len(y) > 1 for y in jet.outputs[n:]])
    body = _closed(series, record.body, jet, outputs, order)
    cond = None if record.cond is None else _condition(series, record, flags, order)
    operands = _operands(series, record.operands, flags, order)
    inits, sequences, invariants = (
        tuple([c for each in part for c in each])
        for part in (operands[:n], operands[n : n + m], operands[n + m :])
    )
    made = Loop(
        inits,
        sequences,
        invariants,
        body,
        cond,
        record.reverse,
        record.trip_count,
        body.name,
        memory=record.memory,
        bound=record.bound,
    )
    return _split(emit_loop(series.b, made), outputs, order)


def _condition(series: Any, record: Loop, flags: Flags, order: int) -> Graph:
    """The condition, which reads the coefficients of order 0 alone."""
    cond = record.cond
    assert cond is not None
    n, m = len(record.inits), len(record.sequences)
    of_inputs = [*flags[:n], *flags[n + m :]]
    given = []
    for x, flag in zip(cond.inputs.values(), of_inputs, strict=True):
        given += [x, *(Value(x.type, cond) for _ in range(order if flag else 0))]
    return close(series.view, list(cond.outputs), given, series.opset, name=f"{stem(cond)}.jet")
