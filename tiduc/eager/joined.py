"""Joins the transposed graphs that a whole reverse pass runs to a single graph. `rehearsing` creates such graphs.

    c1 = mul y, ct        three graphs,          (y, a, x, ct) -> mul a, (mul y, ct),  mul x, (mul y, ct)
    c2 = mul a, c1        run by three calls     one graph, run by one call
    c3 = mul x, c1

The key of a joined graph is the structure of the reverse pass: the list of transposes, with the cotangents that each
transpose reads. To find the structure, the reverse pass runs with integers instead of cotangents. To emit the joined
graph, it runs with graph values instead of cotangents.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from torch_mlir import ir

from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.graph.graph import Value
from tiduc.dialect.graph.view import View
from tiduc.dialect.mlir.context import stage
from tiduc.dialect.ops.control_ops import GRAPH_CALLS
from tiduc.eager.graphs import RecordedGraph, TransposedLinear
from tiduc.eager.recent import LIMIT, Recent
from tiduc.passes.engine.close import inline
from tiduc.passes.rules import OPSET
from tiduc.ports import InputPort, OutputPort
from tiduc.program import Program

Cotangent = TypeVar("Cotangent")


class Step(Protocol):
    """A step of a reverse pass: the transpose of one trace."""

    @property
    def linear(self) -> TransposedLinear: ...


class Arithmetic(Protocol[Cotangent]):
    """The operations of a reverse pass on cotangents. Cotangents may be arrays, recorded values or graph values."""

    def run(self, step: Any, cotangents: Sequence[Cotangent]) -> Sequence[Cotangent]:
        """Runs the transpose of a step, and returns the cotangents of the inputs in `step.linear.results`."""

    def add(self, x: Cotangent, y: Cotangent) -> Cotangent:
        """The sum of two cotangents."""


Walk = Callable[[Arithmetic[Any], Sequence[Any]], Mapping[Hashable, Any]]
"""Runs a reverse pass with this arithmetic and these seeds. Returns the requested cotangents by key."""


class Joined:
    """A cache of the `limit` most recently used joined graphs. New graphs are created only if `is_open`."""

    def __init__(self, limit: int = LIMIT, is_open: bool = False) -> None:
        self.graphs: Recent[Hashable, TransposedLinear] = Recent(limit)
        self.is_open = is_open

    def find(
        self, seeds: Sequence[ir.Type], walk: Walk
    ) -> tuple[TransposedLinear, tuple[Hashable, ...]] | None:
        """Returns the joined graph of a reverse pass, and the keys of the graph's results.

        Returns None if the cache has no such graph and cannot create it. `seeds` are the types of the seeds.
        """
        if not (self.is_open or len(self.graphs)):
            return None
        log = _Log(len(seeds))
        results = walk(log, range(len(seeds)))
        structure = tuple(log.events), tuple(results.values())
        linear = self.graphs.get(structure)
        if linear is None:
            linear = _emitted(seeds, walk) if self.is_open and results else None
            if linear is None:
                return None
            self.graphs[structure] = linear
        return linear, tuple(results)

    def update(self, other: "Joined") -> None:
        """Adds the graphs of `other`."""
        for structure, linear in other.graphs.items():
            self.graphs[structure] = linear


class _Log:
    """Arithmetic on integers that stand for cotangents. Appends each transpose and each sum to `events`."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.events: list[Hashable] = []

    def run(self, step: Step, cotangents: Sequence[int]) -> Sequence[int]:
        first, self.count = self.count, self.count + len(step.linear.results)
        self.events.append((step.linear, *cotangents))
        return range(first, self.count)

    def add(self, x: int, y: int) -> int:
        self.events.append((x, y))
        self.count += 1
        return self.count - 1


class _Emitting:
    """Arithmetic on values of one graph. Emits each transpose into the graph, with its residuals as new inputs."""

    def __init__(self, b: StablehloBuilder) -> None:
        self.b = b
        self.residuals: list[Value] = []
        self.has_calls = False

    def run(self, step: Step, cotangents: Sequence[Value]) -> Sequence[Value]:
        linear = step.linear
        assert linear.graph is not None
        source, b = linear.graph.program.view, self.b
        self.has_calls |= any(op.name in GRAPH_CALLS for op in source.schedule(linear.graph.outputs))
        if self.has_calls:
            return [b.zero(y.type) for y in linear.graph.outputs]
        own = [self._input(x) for x in linear.residuals]
        given = dict(zip(linear.graph.inputs, [*own, *cotangents], strict=True))
        values = inline(b, source, linear.graph.outputs, given)
        b.graph.held += (source,)
        return [values[y] for y in linear.graph.outputs]

    def _input(self, residual: Value) -> Value:
        self.residuals.append(residual)
        value: Value = self.b.input(f"residual{len(self.residuals)}", residual.type)
        return value

    def add(self, x: Value, y: Value) -> Value:
        total: Value = self.b.add(x, y)
        return total


@stage
def _emitted(seeds: Sequence[ir.Type], walk: Walk) -> TransposedLinear | None:
    """The joined graph of a reverse pass. Its inputs are the residuals, followed by the seeds.

    Returns None if a transpose contains loops, branches or calls.
    """
    view = View(ir.Module.create())
    b: Any = OPSET.builder(view, "main")
    emitting = _Emitting(b)
    given = [b.input(f"seed{i}", type_) for i, type_ in enumerate(seeds)]
    outputs = list(walk(emitting, given).values())
    if emitting.has_calls:
        return None
    b.finish(outputs)
    keys = [*(key for key in b.graph.inputs if key.startswith("residual")), *(x.key for x in given)]
    inputs = tuple(InputPort(f"arg{i}", b.graph.inputs[key].type, key) for i, key in enumerate(keys))
    results = tuple(OutputPort(f"result{i}", y.type, y) for i, y in enumerate(b.graph.outputs))
    graph = RecordedGraph(Program(view, "main", inputs, results))
    return TransposedLinear(
        tuple(emitting.residuals), tuple(range(len(seeds))), tuple(range(len(outputs))), graph
    )
