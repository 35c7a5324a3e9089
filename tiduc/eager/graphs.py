"""Recorded graphs of eager programs, and the transposed linear graphs that are derived from them.

    F: y = mul x, c        transposed for the cotangent of y, toward x:    (c, ct) -> mul c, ct

A recorded graph consists of one op, or of a whole program. There is one graph for each structure. It has one transposed
graph for each combination of outputs that have a cotangent, inputs that need a cotangent, and available values. The
stages that differentiate programs compute the transposed graphs.
"""

import functools
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from torch_mlir import ir

from tiduc.backends.named_main import text_with_main
from tiduc.dialect.errors import InputError, RequestError
from tiduc.dialect.graph.graph import Graph, Value
from tiduc.dialect.graph.view import View
from tiduc.dialect.mlir.context import stage
from tiduc.dialect.shapes.types import is_dynamic
from tiduc.dialect.turns import computed_once
from tiduc.eager.recent import LIMIT, Recent
from tiduc.passes.engine.close import close
from tiduc.passes.materialize_merge import Zero
from tiduc.passes.rules import OPSET
from tiduc.ports import InputPort, OutputPort
from tiduc.program import Program
from tiduc.runtime.signature import DTYPES, ELEMENTS, TensorType

Data = Any
"""An array of an executor. For the executors of this package, it is a NumPy array."""
Spec = tuple["np.dtype[Any]", tuple[int, ...]]
"""The element type and shape of an array."""
Emit = Callable[..., Sequence[Any]]
"""Emits the ops of a recorded graph. It takes the builder and the graph's inputs, and returns the graph's outputs."""


class RecordedGraph:
    """The primal graph of recorded invocations. It is immutable, except for caches of transposed graphs and plans.

    `inputs` and `outputs` are graph values, and `input_types` and `output_types` are their types. `accepts_grad` says
    for each input whether its type has a cotangent. `differentiable` says the same for each output. `plans` are those
    of `record.py`. Raises `RequestError` if an input or output is not an array, or has a dynamic shape.
    """

    def __init__(self, program: Program) -> None:
        if any(isinstance(port.value, Zero) for port in program.outputs):
            program = _with_explicit_zeros(program)
        for port in (*program.inputs, *program.outputs):
            if not isinstance(port.type, ir.RankedTensorType) or is_dynamic(port.type):
                raise RequestError(
                    f"{port.name!r} of type {port.type} cannot be recorded: it is not an array of static shape"
                )
        self.program = program
        self.inputs: tuple[Value, ...] = tuple(program.view.input(port.key) for port in program.inputs)
        self.outputs: tuple[Value, ...] = tuple(
            port.value for port in program.outputs if not isinstance(port.value, Zero)
        )
        self.input_types = tuple(value.type for value in program.signature.inputs)
        self.output_types = tuple(value.type for value in program.signature.outputs)
        tangent_type = program.opset.builder.tangent_type
        self.accepts_grad = tuple(tangent_type(x.type) is not None for x in self.inputs)
        self.differentiable = tuple(tangent_type(y.type) is not None for y in self.outputs)
        self._transposed: dict[Hashable, TransposedLinear] = {}
        self.plans: dict[Hashable, Any] = {}

    @computed_once
    def text(self) -> str:
        """The StableHLO text of the graph as a function `main`. Graphs of equal structure have equal text."""
        return text_with_main(self.program.module)

    def transposed(
        self, slots: tuple[int, ...], wrt: tuple[int, ...], given: tuple[Value, ...]
    ) -> "TransposedLinear":
        """The transposed linear graph from cotangents of the outputs at `slots` to cotangents of the inputs at `wrt`.

        `given` are the available values of the graph. The transposed graph recomputes any other value that it reads.
        Raises `Unsupported` if an op has no rule.
        """
        key = slots, wrt, given
        graph = self._transposed.get(key)
        if graph is None:
            graph = self._transposed[key] = self._transpose(slots, wrt, given)
        return graph

    @stage
    def _transpose(
        self, slots: tuple[int, ...], wrt: tuple[int, ...], given: tuple[Value, ...]
    ) -> "TransposedLinear":
        program = self.program
        view, opset = program.view, program.opset
        vjp = replace(program, outputs=tuple(program.outputs[i] for i in slots)).vjp(list(wrt))
        seeds = [view.input(port.key) for port in vjp.inputs[len(self.inputs) :]]
        cotangents = [port.value for port in vjp.outputs[len(slots) :]]
        results = [i for i, x in enumerate(cotangents) if not isinstance(x, Zero)]
        wanted = [x for x in cotangents if not isinstance(x, Zero)]
        closed = close(view, wanted, [*given, *seeds], opset)
        read = {x for op in closed.definitions for x in (*op.operands, *op.captures)} | set(closed.outputs)
        used = [i for i, x in enumerate(closed.inputs.values()) if x in read]
        keys = [closed.keys[i] for i in used]
        return TransposedLinear(
            tuple(given[i] for i in used if i < len(given)),
            tuple(i - len(given) for i in used if i >= len(given)),
            tuple(wrt[i] for i in results),
            RecordedGraph(_program_of(program, closed, keys)) if results else None,
        )


@dataclass(frozen=True, eq=False)
class TransposedLinear:
    """A transposed linear graph. Its inputs are residuals, followed by cotangents of the primal graph's outputs.

    `residuals` are the values of the primal graph that the transposed graph reads. `seeds` are the indices of the
    cotangents that it reads, in the argument `slots` of `RecordedGraph.transposed`. `results` are the indices of the
    primal graph's inputs whose cotangents it returns. The cotangents of other inputs are zero. `graph` is None if all
    cotangents are zero.
    """

    residuals: tuple[Value, ...]
    seeds: tuple[int, ...]
    results: tuple[int, ...]
    graph: RecordedGraph | None


def _program_of(program: Program, graph: Graph, keys: Sequence[str]) -> Program:
    """A program that runs `graph`. The inputs of the program are the inputs of the graph with these keys, in order."""
    graph.attributes.pop("sym_visibility", None)
    inputs = tuple(InputPort(f"arg{i}", graph.inputs[key].type, key) for i, key in enumerate(keys))
    outputs = tuple(OutputPort(f"result{i}", y.type, y) for i, y in enumerate(graph.outputs) if y is not None)
    return replace(program, name=graph.name, inputs=inputs, outputs=outputs)


@stage
def _with_explicit_zeros(program: Program) -> Program:
    inputs = [program.view.input(port.key) for port in program.inputs]
    wanted = [port.type if isinstance(port.value, Zero) else port.value for port in program.outputs]
    closed = close(program.view, wanted, inputs, program.opset)
    return _program_of(program, closed, closed.keys)


class Graphs:
    """A cache of recorded graphs, one for each structure. All invocations of a graph share its transposed graphs.

    The cache holds at most `limit` graphs of ops, and at most `limit` graphs of programs. An evicted graph is rebuilt
    when it is needed.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self._by_kind: Recent[Hashable, RecordedGraph] = Recent(limit)
        self._by_text: Recent[str, RecordedGraph] = Recent(limit)

    def __len__(self) -> int:
        return len(self._by_kind) + len(self._by_text)

    def op(self, kind: Hashable, specs: tuple[Spec, ...], emit: Emit) -> RecordedGraph:
        """The graph of the ops that `emit` builds for inputs of these types. `kind` identifies the ops.

        The graph is cached by `kind` and `specs`, so `emit` must not depend on anything else.
        """
        graph = self._by_kind.get((kind, specs))
        if graph is None:
            graph = self._by_kind[kind, specs] = _emitted(specs, emit)
        return graph

    def program(self, program: Program) -> RecordedGraph:
        """The graph of a whole program. Programs with equal text share one graph."""
        text = text_with_main(program.module)
        graph = self._by_text.get(text)
        if graph is None:
            graph = self._by_text[text] = RecordedGraph(program)
        return graph


@stage
def _emitted(specs: Sequence[Spec], emit: Emit) -> RecordedGraph:
    view = View(ir.Module.create())
    b: Any = OPSET.builder(view, "main")
    inputs = [b.input(f"arg{i}", tensor_type(*spec)) for i, spec in enumerate(specs)]
    graph = b.finish(list(emit(b, *inputs)))
    ports = tuple(InputPort(key, x.type, key) for key, x in graph.inputs.items())
    outputs = tuple(OutputPort(f"result{i}", y.type, y) for i, y in enumerate(graph.outputs))
    return RecordedGraph(Program(view, "main", ports, outputs))


def element_type(dtype: "np.dtype[Any]") -> ir.Type:
    """The MLIR element type for a NumPy type. Raises `InputError` if MLIR has no such type."""
    found: ir.Type = tensor_type(dtype, ()).element_type
    return found


@functools.lru_cache(LIMIT)
@stage
def tensor_type(dtype: "np.dtype[Any]", shape: tuple[int, ...]) -> ir.RankedTensorType:
    """The MLIR type of an array with this NumPy type and shape. Raises `InputError` if MLIR lacks the element type."""
    name = ELEMENTS.get(dtype)
    if name is None:
        raise InputError(
            f"arrays of {dtype} are not supported; supported: {', '.join(map(str, DTYPES.values()))}"
        )
    return ir.RankedTensorType(ir.Type.parse(f"tensor<{TensorType(shape, name)}>"))
