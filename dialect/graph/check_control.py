"""Verifies that calls, branches and loops match the signatures of the graphs that they call."""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from torch_mlir import ir

from tiduc.dialect.errors import ResolveError
from tiduc.dialect.graph.graph import Definition, Graph, Value
from tiduc.dialect.ops.control_ops import (
    BASE,
    CALL,
    CARRIES,
    CASE,
    GRAPH_CALLS,
    GRAPHS,
    LOOP,
    SEQUENCES,
    TRIP_COUNT,
    element_type,
)


class GraphsByName(Protocol):
    """Has a method that finds a graph by its name, as a view does."""

    def graph(self, name: str, location: ir.Location | None = None) -> Graph:
        """The graph with this name. Raises `ResolveError` if there is none."""


def check_control(view: GraphsByName, op: Definition) -> None:
    """Checks the attributes of a control-flow op, and that its operands and results match the called graphs.

    Raises `ResolveError`, with the op's location, for the first violation and for an unknown graph.
    """
    symbols = op.attributes.get(GRAPHS)
    if not isinstance(symbols, ir.ArrayAttr) or not len(symbols):
        raise _error(op, f"expects graphs in {GRAPHS}, has {symbols}")
    for symbol in (*symbols, op.attributes.get(BASE, symbols[0])):
        if not isinstance(symbol, ir.FlatSymbolRefAttr):
            raise _error(op, f"expects the name of a graph, has {symbol}")
    graphs = [view.graph(symbol.value, op.location) for symbol in symbols]
    most = {CASE: len(graphs), LOOP: 2}.get(op.name, 1)
    if len(graphs) > most:
        raise _error(op, f"expects {most} graphs at most in {GRAPHS}, has {len(graphs)}")
    if op.name == LOOP:
        _loop(op, graphs)
    elif op.name in (CALL, CASE):
        _branches(op, graphs)


def _branches(op: Definition, graphs: list[Graph]) -> None:
    operands = list(op.operands)
    if op.name == CASE:
        index = str(operands.pop(0).type) if operands else None
        if index != "tensor<i32>" and not (index == "tensor<i1>" and len(graphs) == 2):
            raise _error(op, f"expects an i32 index (or i1 for two graphs), has {index}")
    for graph in graphs:
        _check_types(op, f"@{graph.name} takes", _types(graph.inputs.values()), _types(operands))
        _check_types(op, f"@{graph.name} gives", _types(graph.outputs), _types(op.results))


def _loop(op: Definition, graphs: list[Graph]) -> None:
    counts = [op.attributes.get(name) for name in (CARRIES, SEQUENCES)]
    for count in (*counts, op.attributes.get(TRIP_COUNT, counts[0])):
        if not isinstance(count, ir.IntegerAttr) or count.value < 0:
            raise _error(op, f"expects integers in {CARRIES} and {SEQUENCES}, has {count}")
    n, m = (count.value for count in counts if count is not None)
    if n + m > len(op.operands):
        raise _error(op, f"has {len(op.operands)} operands for {n} carries and {m} sequences")
    if len(graphs) == 1 and not m:
        raise _error(op, "needs a condition or a sequence, which determines when it ends")
    types = _types(op.operands)
    carries, elements, invariants = types[:n], _elements(op, types[n : n + m]), types[n + m :]
    body = graphs[0]
    _check_types(op, f"@{body.name} takes", _types(body.inputs.values()), [*carries, *elements, *invariants])
    results = _types(op.results)
    given = [*results[:n], *_elements(op, results[n:])]
    _check_types(op, f"@{body.name} gives", _types(body.outputs), given)
    _check_types(op, "its carries are", carries, results[:n])
    for cond in graphs[1:]:
        _check_types(op, f"@{cond.name} takes", _types(cond.inputs.values()), [*carries, *invariants])
        _check_types(op, f"@{cond.name} gives", [str(t) for t in _types(cond.outputs)], ["tensor<i1>"])


def check_calls(view: GraphsByName, graph: Graph, known: set[str]) -> None:
    """Raises `ResolveError` if this graph, or one that it calls directly or indirectly, is recursive.

    `known` holds the names of graphs that have already been checked. The function adds the names of those it checks.
    """
    under_way = {graph.name: _called(graph)}  # the current call path: each graph calls the next one
    while under_way:
        name, left = next(reversed(under_way.items()))
        if not left:
            known.add(name)
            under_way.popitem()
            continue
        op, callee = left.pop()
        if callee in under_way:
            raise _error(op, f"calls @{callee}, which contains this call: recursion cannot be differentiated")
        if callee not in known:
            under_way[callee] = _called(view.graph(callee))


def _called(graph: Graph) -> list[tuple[Definition, str]]:
    return [
        (op, symbol.value)
        for op in graph.definitions
        if op.name in GRAPH_CALLS
        for symbol in op.attributes[GRAPHS]
    ]


def _types(values: Iterable[Value | None]) -> list[Any]:
    return [x.type for x in values if x is not None]


def _elements(op: Definition, types: list[ir.Type]) -> list[ir.RankedTensorType]:
    elements = []
    for type_ in types:
        if not isinstance(type_, ir.RankedTensorType) or not type_.rank:
            raise _error(op, f"expects a sequence with a leading dimension, has {type_}")
        elements.append(element_type(type_))
    return elements


def _check_types(
    op: Definition, message: str, expected: Sequence[ir.Type | str], actual: Sequence[ir.Type | str]
) -> None:
    if expected != actual:
        wanted, has = (", ".join(map(str, types)) for types in (expected, actual))
        raise _error(op, f"{message} ({wanted}), but the types here are ({has})")


def _error(op: Definition, message: str) -> ResolveError:
    return ResolveError(f"'{op.name}' op {message}", op.location)
