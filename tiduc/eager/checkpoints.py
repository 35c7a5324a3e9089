"""checkpoint: records a call of a function as one invocation, which keeps only inputs and outputs (remat).

    y = f(x)                  x -> a -> b -> y        kept until backward: the residuals of all three ops
    y = checkpoint(f, x)      x ----------> y         kept until backward: x; a and b are recomputed

Source: Griewank, Walther, "Algorithm 799: revolve" (2000), with one checkpoint.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any, overload

from numpy.typing import ArrayLike
from torch_mlir import ir

from tiduc.dialect.errors import RequestError
from tiduc.dialect.graph.graph import Value
from tiduc.dialect.graph.view import View
from tiduc.dialect.mlir.context import stage
from tiduc.dialect.ops.control_ops import GRAPH_CALLS
from tiduc.eager.array import Array, valued
from tiduc.eager.graphs import RecordedGraph, tensor_type
from tiduc.eager.record import EagerInput
from tiduc.eager.session import Key, Session, executing, is_recording, no_grad, session
from tiduc.passes.engine.close import inline
from tiduc.passes.rules import OPSET
from tiduc.ports import InputPort, OutputPort
from tiduc.program import Program


@overload
def checkpoint(function: Callable[..., Array], *arguments: ArrayLike) -> Array: ...
@overload
def checkpoint(function: Callable[..., Sequence[Array]], *arguments: ArrayLike) -> Sequence[Array]: ...
def checkpoint(
    function: Callable[..., Array | Sequence[Array]], *arguments: ArrayLike
) -> Array | Sequence[Array]:
    """Calls a function of arrays, and returns its results. The trace has one record for the whole call.

    The inputs of the record are the arguments, and other arrays that the function reads. `backward` recomputes the ops
    that this call ran. It does not call the function again, so Python branches are not decided again. Ops inside the
    function are not recorded, so the function cannot request derivatives. Raises `RequestError` if the function calls a
    program with loops, branches or calls.
    """
    if not is_recording():
        return function(*arguments)
    here = session()
    values = [valued(x) for x in arguments]
    leaves = [EagerInput(Key(), x.data) for x in values]
    log = _Log(here)
    with executing(log), no_grad():
        results = function(*[Array.of(x) for x in leaves])
    outputs = [y.value for y in ([results] if isinstance(results, Array) else results)]
    program, read = _fused(log.invocations, leaves, outputs)
    graph = here.recorder.graphs.program(program)
    recorded = here.recorder.record(graph, [*values, *read[len(leaves) :]])
    arrays = [Array.of(output.read(y.data)) for output, y in zip(recorded, outputs, strict=True)]
    return arrays[0] if isinstance(results, Array) else tuple(arrays)


class _Log(Session):
    """A session that appends each invocation that it runs to `invocations`."""

    def __init__(self, outer: Session) -> None:
        self.executor, self.recorder, self.universal = outer.executor, outer.recorder, outer.universal
        self.invocations: list[tuple[RecordedGraph, Sequence[EagerInput], list[EagerInput]]] = []

    def invoke(self, graph: RecordedGraph, values: Sequence[EagerInput]) -> list[EagerInput]:
        results = super().invoke(graph, values)
        self.invocations.append((graph, values, results))
        return results


@stage
def _fused(
    invocations: Sequence[tuple[RecordedGraph, Sequence[EagerInput], list[EagerInput]]],
    leaves: Sequence[EagerInput],
    outputs: Sequence[EagerInput],
) -> tuple[Program, list[EagerInput]]:
    """Returns one program that runs all invocations, and the values of its inputs.

    The first inputs are the leaves. The others are values that the invocations read but do not compute.
    """
    view = View(ir.Module.create())
    b: Any = OPSET.builder(view, "main")
    local: dict[Hashable, Value] = {}
    read: list[EagerInput] = []

    def value_of(x: EagerInput) -> Value:
        if x.key not in local:
            local[x.key] = b.input(f"arg{len(read)}", tensor_type(x.data.dtype, x.data.shape))
            read.append(x)
        return local[x.key]

    for x in leaves:
        value_of(x)
    for graph, inputs, results in invocations:
        source = graph.program.view
        if any(op.name in GRAPH_CALLS for op in source.schedule(graph.outputs)):
            raise RequestError("a program with loops, branches or calls cannot be part of a checkpoint")
        values = inline(b, source, graph.outputs, dict(zip(graph.inputs, map(value_of, inputs), strict=True)))
        local.update((y.key, values[output]) for y, output in zip(results, graph.outputs, strict=True))
        b.graph.held += (source,)
    b.finish([value_of(y) for y in outputs])
    ports = tuple(InputPort(key, x.type, key) for key, x in b.graph.inputs.items())
    given = tuple(OutputPort(f"result{i}", y.type, y) for i, y in enumerate(b.graph.outputs))
    return Program(view, "main", ports, given), read
