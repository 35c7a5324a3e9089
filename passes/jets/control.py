"""Taylor series of control flow. The body of an op becomes a graph that maps coefficients to coefficients.

    y = call @f (x)       ->   y_0, ..., y_K = call @f.jet (x_0, ..., x_K)
    while p(x): x = f(x)  ->   while p(x_0): x_0, ..., x_K = f.jet(x_0, ..., x_K)

Such a graph is built once for each combination of operands that have a series. Conditions and branch indices read only
the coefficients of order 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tiduc.dialect.control.control import Branches, Loop, control, draws, emit_call, emit_case, emit_loop
from tiduc.dialect.graph.cache import Cache
from tiduc.dialect.graph.graph import Definition, Graph, Value, stem
from tiduc.dialect.shapes.types import is_dynamic
from tiduc.passes.engine.close import close
from tiduc.passes.jets.series import Coefficients, Series

Flags = tuple[bool, ...]


@dataclass(frozen=True)
class Jet:
    """The coefficients of the outputs of a closed graph: of orders 0 to K, or of order 0 only if all others are zero.

    A coefficient is None for zero. `given` has the coefficients of the inputs in the same form.
    """

    given: tuple[tuple[Value, ...], ...]
    outputs: tuple[tuple[Value | None, ...], ...]


@dataclass(frozen=True)
class JetBranches:
    """Closed graphs that map coefficients to coefficients, one graph for each branch.

    `outputs` flags the outputs that have coefficients of orders above 0. A graph returns all coefficients of its first
    output, then those of the second, and so on.
    """

    graphs: tuple[Graph, ...]
    outputs: Flags


@dataclass(frozen=True)
class JetLoop:
    """The body and condition of a loop on coefficients. Flags say which values have coefficients of orders above 0."""

    body: Graph
    cond: Graph | None
    operands: Flags
    outputs: Flags


_BRANCHES = Cache[tuple[tuple[Graph, ...], Flags, int], JetBranches]()
_LOOPS = Cache[tuple[Graph, Graph | None, Flags, int], JetLoop]()


def extend(series: Series, op: Definition, order: int) -> None:
    """Computes the coefficients of the op's results up to `order`.

    For an op that a linearize rule emitted, orders may be requested one by one. Each request emits the op for all
    orders up to `order`, so lower orders are recomputed.
    """
    have = series.coefficients.get(op.results[0])
    if order == 0:
        if have is None:
            series.copy_results(op)
        return
    if have is not None and len(max((series.coefficients[y] for y in op.results), key=len)) > order:
        return
    record = control(series.view, op)
    flags = tuple([series.limits[x] > 0 for x in record.operands])
    if have is not None and any(draws(series.view, graph) for graph in _graphs(record)):
        raise series.opset.unsupported(
            "jet", op, "a rule of derivatives calls a graph that draws random numbers"
        )
    if isinstance(record, Loop):
        of_results = _loop(series, record, flags, order)
        first = len(record.inits) + len(record.sequences)
        invariants = [series.coefficients[x][: order + 1] for x in record.operands[first:]]
        of_results = [of_results[i] if i >= 0 else invariants[~i] for i in record.results]
    else:
        of_results = _branches(series, record, flags, order)
    for y, coefficients in zip(op.results, of_results, strict=True):
        of_y = series.coefficients.setdefault(y, [])
        of_y += coefficients[len(of_y) :]
        if len(coefficients) == 1:
            series.limits[y] = 0


def _graphs(record: Branches | Loop) -> list[Graph]:
    if isinstance(record, Branches):
        return list(record.graphs)
    return [record.body] if record.cond is None else [record.body, record.cond]


def _dense(series: Series, operands: Sequence[Value], flags: Flags, order: int) -> list[list[Any]]:
    """The coefficients of each operand: those of orders 0 to `order` if its flag is set, else that of order 0 only."""
    return [
        [series.dense(x, k) for k in range(order + 1 if flag else 1)]
        for x, flag in zip(operands, flags, strict=True)
    ]


def _split(results: Sequence[Value], flags: Sequence[bool], order: int) -> list[Coefficients]:
    """Splits a list of coefficients by value. A value has `order` + 1 of them if its flag is set, else only one."""
    rest = iter(results)
    return [[next(rest) for _ in range(order + 1 if flag else 1)] for flag in flags]


# ---- a closed graph is converted to a graph on coefficients ------------------------------------------------


def _jet(series: Series, graph: Graph, flags: Flags, order: int) -> Jet:
    """Computes the coefficients of a closed graph's outputs. Flagged inputs have coefficients of orders above 0."""
    b: Any = series.opset.builder(series.view, series.view.fresh("J"))
    inputs = list(graph.inputs.values())
    given = []
    for i, (x, flag) in enumerate(zip(inputs, flags, strict=True)):
        keys = [f"{b.graph.name}.{i}.{k}" for k in range(1, order + 1)] if flag else []
        given.append((x, *[b.input(key, x.type) for key in keys]))
    inner = Series(series.view, series.opset, b, dict(zip(inputs, given, strict=True)), series.control)
    outputs = [y for y in graph.outputs if y is not None]
    inner.extend(outputs, order)
    of_outputs = []
    for y in outputs:
        orders = range(1, order + 1 if inner.limits[y] else 1)
        of_outputs.append(
            (inner.at(y, 0), *[(inner.dense if is_dynamic(y.type) else inner.at)(y, k) for k in orders])
        )
    return Jet(tuple(given), tuple(of_outputs))


def _closed(series: Series, graph: Graph, jet: Jet, flags: Flags, order: int) -> Graph:
    """Builds the closed graph of a jet. For a flagged output, it returns coefficients of all orders, even if zero."""
    wanted: list[Any] = []
    for y, coefficients, flag in zip(graph.outputs, jet.outputs, flags, strict=True):
        assert y is not None
        zeros = [None] * (order + 1 - len(coefficients))
        wanted += [y.type if x is None else x for x in ((*coefficients, *zeros) if flag else coefficients)]
    given = [x for each in jet.given for x in each]
    return close(series.view, wanted, given, series.opset, name=f"{stem(graph)}.jet")


# ---- calls and branches run the converted graphs -----------------------------------------------------------


def _branches(series: Series, record: Branches, flags: Flags, order: int) -> list[Coefficients]:
    key = record.graphs, flags, order
    on_series = _BRANCHES.get(series.view, key, lambda: _branches_on_series(series, *key))
    operands = [c for each in _dense(series, record.operands, flags, order) for c in each]
    if record.index is None:
        results = emit_call(series.b, on_series.graphs[0], operands)
    else:
        results = emit_case(series.b, series.dense(record.index, 0), on_series.graphs, operands)
    return _split(results, on_series.outputs, order)


def _branches_on_series(series: Series, graphs: tuple[Graph, ...], flags: Flags, order: int) -> JetBranches:
    jets = [_jet(series, graph, flags, order) for graph in graphs]
    columns = zip(*[jet.outputs for jet in jets], strict=True)
    outputs = tuple([any(len(coefficients) > 1 for coefficients in column) for column in columns])
    closed = [_closed(series, graph, jet, outputs, order) for graph, jet in zip(graphs, jets, strict=True)]
    return JetBranches(tuple(closed), outputs)


# ---- loops carry the coefficients of their values ----------------------------------------------------------


def _loop(series: Series, record: Loop, flags: Flags, order: int) -> list[Coefficients]:
    key = record.body, record.cond, flags, order
    on_series = _LOOPS.get(series.view, key, lambda: _loop_on_series(series, record, flags, order))
    n, m = len(record.inits), len(record.sequences)
    operands = _dense(series, record.operands, on_series.operands, order)
    inits, sequences, invariants = (
        tuple([c for each in part for c in each])
        for part in (operands[:n], operands[n : n + m], operands[n + m :])
    )
    loop = replace(
        record,
        inits=inits,
        sequences=sequences,
        invariants=invariants,
        body=on_series.body,
        cond=on_series.cond,
        base=on_series.body.name,
        arguments=(),
        results=(),
    )
    return _split(emit_loop(series.b, loop), on_series.outputs, order)


def _loop_on_series(series: Series, record: Loop, flags: Flags, order: int) -> JetLoop:
    """Builds the loop on coefficients. A loop-carried value has a series if its initial or next value has one."""
    n, m = len(record.inits), len(record.sequences)
    while True:
        jet = _jet(series, record.body, flags, order)
        reached = tuple([flags[i] or len(jet.outputs[i]) > 1 for i in range(n)])
        if reached == flags[:n]:
            break
        flags = (*reached, *flags[n:])
    outputs = (*flags[:n], *[len(coefficients) > 1 for coefficients in jet.outputs[n:]])
    body = _closed(series, record.body, jet, outputs, order)
    if record.cond is None:
        return JetLoop(body, None, flags, outputs)
    return JetLoop(
        body, _condition(series, record.cond, (*flags[:n], *flags[n + m :]), order), flags, outputs
    )


def _condition(series: Series, cond: Graph, flags: Flags, order: int) -> Graph:
    """Gives the condition of a loop inputs for the coefficients of all orders. It reads only those of order 0."""
    given: list[Value] = []
    for x, flag in zip(cond.inputs.values(), flags, strict=True):
        given += [x, *[Value(x.type, cond) for _ in range(order if flag else 0)]]
    return close(
        series.view, [y for y in cond.outputs if y is not None], given, series.opset, name=f"{stem(cond)}.jet"
    )
