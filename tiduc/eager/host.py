"""Runs small graphs of exact ops with NumPy, because a call of a compiled module would take ten times as long.

IEEE 754 defines the results of these ops exactly. A device therefore computes equal elements, unless it flushes
subnormal numbers to zero.
"""

import math
import threading
from collections.abc import Callable, Sequence
from contextvars import copy_context

import numpy as np

from tiduc.dialect.graph.graph import Definition
from tiduc.dialect.shapes.types import shape
from tiduc.eager.graphs import Data, RecordedGraph
from tiduc.runtime.checks import check_count, checked
from tiduc.runtime.signature import DTYPES

EXACT: dict[str, np.ufunc] = {
    "stablehlo.add": np.add,
    "stablehlo.divide": np.divide,
    "stablehlo.multiply": np.multiply,
    "stablehlo.negate": np.negative,
    "stablehlo.subtract": np.subtract,
}
"""Maps an op of StableHLO to the function of NumPy that computes equal floats."""
TYPES = ("f32", "f64")
MOST_OPS, MOST_BYTES = 8, 2**16
"""The largest number of ops in a graph, and the largest size of each result in bytes (eight bytes per element)."""


def on_host(graph: RecordedGraph) -> Callable[..., Sequence[Data]] | None:
    """A function that runs the graph with NumPy. Returns None if the graph is large, or has other ops or types."""
    types = (*graph.input_types, *graph.output_types)
    ops = graph.program.view.schedule(graph.outputs)
    if len(ops) > MOST_OPS or not graph.inputs or any(type_.element not in TYPES for type_ in types):
        return None
    places = {value: i for i, value in enumerate(graph.inputs)}
    steps: list[tuple[Callable[..., Data], tuple[int, ...]]] = []
    for op in ops:
        function = _function(op)
        if function is None:
            return None
        steps.append((function, tuple(places[x] for x in op.operands)))
        places[op.results[0]] = len(places)
    return _runner(graph, steps, [places[y] for y in graph.outputs])


def _function(op: Definition) -> Callable[..., Data] | None:
    """A function that computes an op with NumPy. Returns None if the op is not supported, or if its result is large.

    The result may have size 1 in a dimension that the op broadcasts, because NumPy's functions broadcast operands.
    """
    sizes = tuple(shape(op.results[0]))
    if 8 * math.prod(sizes) > MOST_BYTES:
        return None
    if op.name not in ("stablehlo.broadcast_in_dim", "stablehlo.reshape"):
        return EXACT.get(op.name)
    own = tuple(shape(op.operands[0]))
    if op.name == "stablehlo.broadcast_in_dim":
        kept = dict(zip(op.attributes["broadcast_dimensions"], own, strict=True))
        sizes = tuple(kept.get(d, 1) for d in range(len(sizes)))
    return lambda x: (x if x.shape == own else np.broadcast_to(x, own)).reshape(sizes)


class _Silent(threading.local):
    """Holds, for each thread, a context in which NumPy does not warn. Entering it is faster than `np.errstate`."""

    def __init__(self) -> None:
        self.context = copy_context()
        self.context.run(np.seterr, all="ignore")


_SILENT = _Silent()


def _runner(
    graph: RecordedGraph, steps: Sequence[tuple[Callable[..., Data], tuple[int, ...]]], results: Sequence[int]
) -> Callable[..., Sequence[Data]]:
    signature = graph.program.signature
    inputs = [(value.type.dtype, value.type.shape) for value in signature.inputs]
    outputs = [
        (np.dtype(DTYPES[t.element]), tuple(shape(y)))
        for y, t in zip(graph.outputs, graph.output_types, strict=True)
    ]

    def compute(values: list[Data]) -> None:
        for function, operands in steps:
            values.append(function(*[values[i] for i in operands]))

    def run(*arguments: Data) -> Sequence[Data]:
        values = list(arguments)
        if len(arguments) != len(inputs):
            check_count(graph.program.name, signature, arguments)
        for i, (x, (of, wanted)) in enumerate(zip(arguments, inputs, strict=True)):
            if type(x) is not np.ndarray or x.dtype is not of or x.shape != wanted:
                values[i] = checked(x, signature.inputs[i], i)
        _SILENT.context.run(compute, values)
        found = []
        for place, (dtype, sizes) in zip(results, outputs, strict=True):
            y = np.asarray(values[place], dtype)
            is_new = place >= len(inputs) and y.shape == sizes and y.base is None
            found.append(y if is_new else np.array(np.broadcast_to(y, sizes)))
        return found

    return run
