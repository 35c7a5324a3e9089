"""The trace of an eager program. It has one record per invocation, which only the invocation's results keep alive.

    x --+
        +-- Trace(mul) -- y --- Trace(exp) -- z          z.trace -> exp -> mul; drop z and y, and both are gone
    c --+

A record (`Trace`) holds a graph, edges to the records of the invocations that computed its inputs, and the residuals.
These are the values of the graph that the transposed graph will read.
"""

import itertools
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tiduc.dialect.errors import RequestError, Unsupported
from tiduc.dialect.graph.graph import Value
from tiduc.eager.graphs import Data, Graphs, RecordedGraph


class KeySource(Protocol):
    """A source of keys for eager values."""

    def fresh(self) -> Hashable:
        """A key that no eager value has yet."""


class IntegerKeys:
    """Integer keys that are unique in the process, so that traces of several recorders can be combined."""

    _count = itertools.count()

    def fresh(self) -> Hashable:
        return next(self._count)


# The following dataclasses are not frozen, because construction would take three times as long. Nothing writes to them.


@dataclass(eq=False, slots=True)
class Edge:
    """The source of an input of an invocation: its key, and the trace that computed it (None for a leaf)."""

    key: Hashable
    trace: "Trace | None"
    requires_grad: bool


@dataclass(eq=False, slots=True)
class EagerInput:
    """A value that an invocation reads. The value is a leaf if it requires grad and has no trace."""

    key: Hashable
    data: Data
    trace: "Trace | None" = None
    requires_grad: bool = False


@dataclass(eq=False, slots=True)
class EagerOutput:
    """A value that an invocation returns, at position `slot` among its outputs."""

    key: Hashable
    trace: "Trace | None"
    requires_grad: bool
    slot: int

    def read(self, data: Data) -> EagerInput:
        """Converts the output to an input of another invocation. `data` is the array of the value."""
        return EagerInput(self.key, data, self.trace, self.requires_grad)


class Trace:
    """The record of one invocation. Frontends store it with the results of the invocation, and do not read it.

    `given` are the available values of the graph. `saved` has the data of the residuals, which are the values that the
    transposed graph reads.
    """

    __slots__ = ("__weakref__", "edges", "given", "graph", "keys", "released", "saved")

    def __init__(
        self,
        graph: RecordedGraph,
        edges: tuple[Edge, ...],
        keys: tuple[Hashable, ...],
        given: tuple[Value, ...],
        saved: dict[Value, Data],
    ) -> None:
        self.graph = graph
        self.edges = edges
        self.keys = keys
        self.given = given
        self.saved = saved
        self.released = False

    def release(self) -> None:
        """Drops residuals and edges. A later `backward` through the trace raises an error."""
        self.released = True
        self.edges = ()
        self.saved = {}

    @property
    def visible(self) -> tuple[Value, ...]:
        """The values among `given` that have a key."""
        return visible(self.graph, self.given)

    def read(self, value: Value) -> EagerInput:
        """Converts a residual, which is an input or an output of this invocation, to an input of another invocation."""
        data = self.saved[value]
        if value in self.graph.inputs:
            edge = self.edges[self.graph.inputs.index(value)]
            return EagerInput(edge.key, data, edge.trace, edge.requires_grad)
        return EagerInput(self.keys[self.graph.outputs.index(value)], data, self, True)


class Recorder:
    """Records invocations. `key_source` provides the keys of the results."""

    def __init__(self, key_source: KeySource | None = None, graphs: Graphs | None = None) -> None:
        self.key_source = key_source if key_source is not None else IntegerKeys()
        self.graphs = graphs if graphs is not None else Graphs()

    def record(
        self,
        graph: RecordedGraph,
        inputs: Sequence[EagerInput],
        retained: Mapping[Value, Data] | None = None,
    ) -> list[EagerOutput]:
        """Records an invocation of a graph on these inputs. Returns an `EagerOutput` for each output of the graph.

        `retained` maps other values of the graph to their data. The trace keeps only the values that the transposed
        graph reads. Outputs have a trace if an input requires grad and the type of an output has a derivative. Raises
        `RequestError` if the number of inputs is wrong, if an input requires grad but its type has no derivative, or if
        a retained value does not belong to the graph.
        """
        retained = retained or {}
        wrt = tuple([i for i, x in enumerate(inputs) if x.requires_grad])
        plan = _planned(graph, len(inputs), wrt, tuple(retained))
        fresh = self.key_source.fresh
        keys = tuple([fresh() for _ in graph.outputs])
        trace = None
        if plan is not None:
            data = [x.data for x in inputs]
            data += retained.values()
            edges = tuple([Edge(x.key, x.trace, x.requires_grad) for x in inputs])
            trace = Trace(graph, edges, keys, plan.given, {value: data[i] for value, i in plan.saved})
        return [
            EagerOutput(key, trace if flag else None, flag and trace is not None, slot)
            for slot, (key, flag) in enumerate(zip(keys, graph.differentiable, strict=True))
        ]


@dataclass(frozen=True, eq=False, slots=True)
class _Plan:
    """The values that a trace keeps. `given` are the available values, and `saved` are the residuals among them.

    Each residual has its index in the list of inputs and retained values.
    """

    given: tuple[Value, ...]
    saved: tuple[tuple[Value, int], ...]


def _planned(
    graph: RecordedGraph, count: int, wrt: tuple[int, ...], retained: tuple[Value, ...]
) -> _Plan | None:
    """The plan of an invocation with `count` inputs, or None if it needs no trace. The graph caches the plan."""
    key = count, wrt, retained
    try:
        plan: _Plan | None = graph.plans[key]
    except KeyError:
        plan = graph.plans[key] = _plan(graph, count, wrt, retained)
    return plan


def _plan(
    graph: RecordedGraph, count: int, wrt: tuple[int, ...], retained: tuple[Value, ...]
) -> _Plan | None:
    _check(graph, count, wrt, retained)
    slots = tuple(i for i, flag in enumerate(graph.differentiable) if flag)
    if not wrt or not slots:
        return None
    places: dict[Value, int] = {}
    for i, value in enumerate((*graph.inputs, *retained)):
        places.setdefault(value, i)
    given = tuple(places)
    return _Plan(given, tuple((value, places[value]) for value in _read(graph, given, slots, wrt)))


def visible(graph: RecordedGraph, given: tuple[Value, ...]) -> tuple[Value, ...]:
    """The graph's inputs and outputs among `given`: the values that have a key."""
    ends = {*graph.inputs, *graph.outputs}
    return tuple(x for x in given if x in ends)


def _read(
    graph: RecordedGraph, given: tuple[Value, ...], slots: tuple[int, ...], wrt: tuple[int, ...]
) -> list[Value]:
    """The residuals for a reverse pass, and for a recorded reverse pass, which can read only visible values."""
    seen = visible(graph, given)
    try:
        read = list(graph.transposed(slots, wrt, given).residuals)
        if len(seen) < len(given):
            read += graph.transposed(slots, wrt, seen).residuals
    except Unsupported:  # the error is raised again when a derivative is requested
        return list(given)
    return list(dict.fromkeys(read))


def _check(graph: RecordedGraph, count: int, wrt: tuple[int, ...], retained: tuple[Value, ...]) -> None:
    if count != len(graph.inputs):
        raise RequestError(f"the graph takes {len(graph.inputs)} inputs, got {count}")
    for i in wrt:
        if not graph.accepts_grad[i]:
            raise RequestError(
                f"input {i} of type {graph.input_types[i]} requires grad, but has no derivative"
            )
    graphs = graph.program.view.graphs
    for value in retained:
        if graphs.get(value.graph.name) is not value.graph:
            raise RequestError(f"the retained value {value} is not a value of the graph")
