"""The trace: what an eager program has done, one record an invocation, which only its results keep alive.

    x --+
        +-- Trace(mul) -- y --- Trace(exp) -- z          z.trace -> exp -> mul; drop z and y, and both are gone
    c --+

A trace holds a graph, edges to the traces that made its inputs, and, of the values at hand, those that the transpose
will read.
"""

import itertools
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tiduc.dialect.errors import RequestError, Unsupported
from tiduc.dialect.graph import Value
from tiduc.eager.graphs import Data, Graphs, RecordedGraph


class KeySource(Protocol):
    """Gives keys of eager values, each unlike any other in use."""

    def fresh(self) -> Hashable:
        """A key that no eager value has."""


class Numbers:
    """Keys that are numbers, of one count for all the process, so that traces of several recorders can meet."""

    _count = itertools.count()

    def fresh(self) -> Hashable:
        return next(self._count)


@dataclass(frozen=True, eq=False, slots=True)
class Edge:
    """Where an input of an invocation comes from: its key, the trace that made it (None: a leaf)."""

    key: Hashable
    trace: "Trace | None"
    requires_grad: bool


@dataclass(frozen=True, eq=False, slots=True)
class EagerInput:
    """A value that an invocation reads; one without a trace that requires grad is a leaf."""

    key: Hashable
    data: Data
    trace: "Trace | None" = None
    requires_grad: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class EagerOutput:
    """A value that an invocation gives: at `slot` among its outputs."""

    key: Hashable
    trace: "Trace | None"
    requires_grad: bool
    slot: int

    def read(self, data: Data) -> EagerInput:
        """The value as an input of another invocation."""
        return EagerInput(self.key, data, self.trace, self.requires_grad)


class Trace:
    """One invocation that was recorded; opaque to frontends, which keep it beside its results.

    `given` are the graph's values that were at hand, `saved` those of them that the transpose reads.
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
        """Gives up what it holds; a later `backward` through it is refused."""
        self.released = True
        self.edges = ()
        self.saved = {}

    @property
    def visible(self) -> tuple[Value, ...]:
        """Of `given`, the graph's inputs and outputs: the values that have a key."""
        ends = {*self.graph.inputs, *self.graph.outputs}
        return tuple(x for x in self.given if x in ends)

    def read(self, value: Value) -> EagerInput:
        """A saved value, as an input of a further invocation: that of an edge, or an output of its own."""
        data = self.saved[value]
        if value in self.graph.inputs:
            edge = self.edges[self.graph.inputs.index(value)]
            return EagerInput(edge.key, data, edge.trace, edge.requires_grad)
        return EagerInput(self.keys[self.graph.outputs.index(value)], data, self, True)


class Recorder:
    """Records invocations; their results get keys of `key_source`."""

    def __init__(self, key_source: KeySource | None = None, graphs: Graphs | None = None) -> None:
        self.key_source = key_source if key_source is not None else Numbers()
        self.graphs = graphs if graphs is not None else Graphs()

    def record(
        self,
        graph: RecordedGraph,
        inputs: Sequence[EagerInput],
        retained: Mapping[Value, Data] | None = None,
    ) -> list[EagerOutput]:
        """One output a result of the graph, invoked on these inputs.

        `retained` are values of the graph, results or others, that need not be computed again; only those that the
        transpose reads are kept.  There is a trace where an input requires grad.  `RequestError` where the inputs are
        not as many as the graph's, one requires grad whose type has no derivative, or a retained value is none of
        the graph.
        """
        retained = retained or {}
        _check(graph, inputs, retained)
        keys = tuple(self.key_source.fresh() for _ in graph.outputs)
        wrt = tuple(i for i, x in enumerate(inputs) if x.requires_grad)
        slots = tuple(i for i, flag in enumerate(graph.differentiable) if flag)
        trace = None
        if wrt and slots:
            given = tuple(dict.fromkeys((*graph.inputs, *retained)))
            edges = tuple(Edge(x.key, x.trace, x.requires_grad) for x in inputs)
            data = dict(zip(graph.inputs, (x.data for x in inputs), strict=True))
            data.update((value, x) for value, x in retained.items() if value not in data)
            trace = Trace(graph, edges, keys, given, data)
            trace.saved = {x: data[x] for x in _read(trace, slots, wrt)}
        return [
            EagerOutput(key, trace if flag else None, flag and trace is not None, slot)
            for slot, (key, flag) in enumerate(zip(keys, graph.differentiable, strict=True))
        ]


def _read(trace: Trace, slots: tuple[int, ...], wrt: tuple[int, ...]) -> list[Value]:
    """The values that a backward may read, whether it is recorded in turn or not."""
    graph, visible = trace.graph, trace.visible
    try:
        read = list(graph.transposed(slots, wrt, trace.given).residuals)
        if len(visible) < len(trace.given):
            read += graph.transposed(slots, wrt, visible).residuals
    except Unsupported:  # which is told if someone asks for a derivative
        return list(trace.given)
    return read


def _check(graph: RecordedGraph, inputs: Sequence[EagerInput], retained: Mapping[Value, Data]) -> None:
    if len(inputs) != len(graph.inputs):
        raise RequestError(f"the graph takes {len(graph.inputs)} inputs, got {len(inputs)}")
    for i, (x, accepts, type_) in enumerate(zip(inputs, graph.accepts_grad, graph.input_types, strict=True)):
        if x.requires_grad and not accepts:
            raise RequestError(f"input {i} of type {type_} requires grad, but has no derivative")
    graphs = graph.program.view.graphs
    for value in retained:
        if graphs.get(value.graph.name) is not value.graph:
            raise RequestError(f"retains {value}, which is no value of the graph")
