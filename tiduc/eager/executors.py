"""Executors run the graphs of an eager program, forward and in reverse.

    Interpreter     runs StableHLO's reference interpreter, which starts immediately, but is slow on large arrays
    Iree            compiles graphs by IREE, once for all graphs of equal structure, and then runs fast

The inputs and outputs of both executors are NumPy arrays. Another executor must define the methods of `Executor`.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Protocol, runtime_checkable
from weakref import WeakKeyDictionary

import numpy as np
from torch_mlir import ir

from tiduc.backends.backend import Lowered, Options
from tiduc.backends.reference.interpreter import Interpreted
from tiduc.dialect.errors import InputError, TiducError
from tiduc.dialect.graph.functions import functions_in
from tiduc.dialect.mlir.context import stage
from tiduc.eager.graphs import Data, RecordedGraph, TransposedLinear
from tiduc.eager.host import on_host
from tiduc.eager.joined import Joined
from tiduc.eager.recent import LIMIT, Recent
from tiduc.linking import link

Run = Callable[..., Sequence[Data]]


class Executor(Protocol):
    """Runs recorded graphs, and the transposed linear graphs that are derived from them."""

    def execute_forward(self, graph: RecordedGraph, inputs: Sequence[Data]) -> Sequence[Data]:
        """Runs a primal graph on these inputs, and returns its outputs."""

    def run_transposed_linear(
        self, linear: TransposedLinear, residuals: Sequence[Data], cotangents: Sequence[Data]
    ) -> Sequence[Data]:
        """The cotangents of those inputs of the primal graph whose indices are in `linear.results`.

        `residuals` are in the order of `linear.residuals`, and `cotangents` in the order of `linear.seeds`.
        """

    def add_operands(self, x: Data, y: Data) -> Data:
        """The sum of two arrays of equal type."""


@runtime_checkable
class Compiling(Protocol):
    """An executor that can compile graphs in advance."""

    def prepare(self, graphs: Sequence[RecordedGraph]) -> None:
        """Compiles these graphs, so that they run later without compilation."""


class _Cached:
    """The base class of executors. A subclass defines `_make`, which returns a callable that runs a graph.

    Graphs with equal text share a callable. The `limit` most recently used callables are cached.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self._by_graph: WeakKeyDictionary[RecordedGraph, Run] = WeakKeyDictionary()
        self._by_text: Recent[str, Run] = Recent(limit)

    def execute_forward(self, graph: RecordedGraph, inputs: Sequence[Data]) -> Sequence[Data]:
        return self._ready(graph)(*inputs)

    def run_transposed_linear(
        self, linear: TransposedLinear, residuals: Sequence[Data], cotangents: Sequence[Data]
    ) -> Sequence[Data]:
        if linear.graph is None:
            return []
        return self._ready(linear.graph)(*residuals, *cotangents)

    def add_operands(self, x: Data, y: Data) -> Data:
        """The sum of two arrays. NumPy computes it on the host, because a device would compute the same elements."""
        return np.asarray(np.add(x, y))

    def _ready(self, graph: RecordedGraph) -> Run:
        run = self._by_graph.get(graph)
        if run is None:
            run = self._by_text.get(graph.text)
            if run is None:
                run = self._by_text[graph.text] = self._make(graph)
            self._by_graph[graph] = run
        return run

    def _make(self, graph: RecordedGraph) -> Run:
        raise NotImplementedError


class Interpreter(_Cached):
    """Runs graphs on StableHLO's reference interpreter. Caches the `limit` most recently used graphs.

    Raises `InputError` for element types that NumPy itself lacks, such as bfloat16.
    """

    def _make(self, graph: RecordedGraph) -> Run:
        for type_ in (*graph.input_types, *graph.output_types):
            if type_.dtype is not None and not type_.dtype.isbuiltin == 1:
                raise InputError(
                    f"the interpreter does not support arrays of {type_.dtype}; IREE may support them"
                )
        interpreted = Interpreted(graph.text)
        return lambda *arguments: [np.asarray(y) for y in interpreted(arguments)]


class Rehearsal(Interpreter):
    """An interpreter that adds each graph that it runs to `graphs`. Another executor can then compile these graphs.

    It runs a whole `backward` as a single graph if possible, and adds this graph to `joined`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.graphs: dict[RecordedGraph, None] = {}
        self.joined = Joined(is_open=True)

    def _ready(self, graph: RecordedGraph) -> Run:
        self.graphs[graph] = None
        return super()._ready(graph)


class Iree(_Cached):
    """Runs graphs that IREE compiles for `target`. On CPUs, NumPy runs small graphs of exact ops (see `host.py`).

    `compiled` is the number of graphs compiled so far. The `limit` most recently used graphs are cached. All graphs of
    a `backward` are compiled in one module, which takes little longer than the compilation of a single graph. Raises
    `CompileError` if IREE cannot compile a graph.
    """

    def __init__(self, target: str = "cpu", limit: int = LIMIT) -> None:
        super().__init__(limit)
        self.target = target
        self.compiled = 0
        self.joined = Joined(limit)

    def prepare(self, graphs: Sequence[RecordedGraph]) -> None:
        """Compiles the graphs that are not compiled yet, in one module.

        Ignores errors, because an invalid graph raises its error when it runs.
        """
        new = {graph.text: graph for graph in graphs if graph not in self._by_graph}
        new = {text: graph for text, graph in new.items() if text not in self._by_text}
        new = {text: graph for text, graph in new.items() if self._on_host(graph) is None}
        if len(new) < 2:  # an invalid graph is compiled again when it runs, and then raises the error
            with suppress(TiducError):
                for graph in new.values():
                    self._ready(graph)
            return
        names = {f"f{i}": graph for i, graph in enumerate(new.values())}
        try:
            functions = self._compile(_together(names))
        except TiducError:
            return
        for name, graph in names.items():
            self._by_text[graph.text] = functions[name]
        self.compiled += len(names)

    def _on_host(self, graph: RecordedGraph) -> Run | None:
        return on_host(graph) if self.target.partition(":")[0] in ("cpu", "cpu-threads") else None

    def _make(self, graph: RecordedGraph) -> Run:
        if (run := self._on_host(graph)) is not None:
            return run
        (run,) = self._compile(graph.program.lower()).values()
        self.compiled += 1
        return run

    def _compile(self, program: Lowered) -> Mapping[str, Run]:
        from tiduc.backends.iree.build import build
        from tiduc.runtime.run import Module

        return Module(build(program, Options(self.target)), self.target)


@stage
def _together(graphs: Mapping[str, RecordedGraph]) -> Lowered:
    """A module with one function for each graph. The keys of `graphs` are the names of the functions."""
    modules, signatures = [], {}
    for name, graph in graphs.items():
        program = graph.program.lower()
        ir.SymbolTable.set_symbol_name(functions_in(program.module)[0], name)
        modules.append((name, program.module))
        signatures[name] = program.signature
    (first, signature), *others = signatures.items()
    return Lowered(link(modules).operation, signature, first, dict(others))
