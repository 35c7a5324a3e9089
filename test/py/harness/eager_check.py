"""Runs eager programs on scalars with a minimal frontend, and compares eager functions with NumPy and JAX."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tiduc.dialect.graph.graph import Value
from tiduc.eager import (
    Array,
    EagerInput,
    Executor,
    Interpreter,
    RecordedGraph,
    Recorder,
    Session,
    backward,
    grad,
)
from tiduc.eager.graphs import Data, Emit

F64 = np.dtype("f8")
SESSION = Session(Interpreter())
"""The session of all tests of eager programs. The tests share it, so that each graph is differentiated once."""

# Arguments: two matrices of the same shape, and a vector and a matrix of matching sizes.
X = np.array([[0.3, -0.7, 1.2], [0.9, 0.4, -0.2]])
Y = np.array([[0.5, 1.4, 0.8], [-0.6, 1.1, 0.7]])
V = np.array([0.6, -1.3, 0.4])
W = np.array([[0.2, -0.5], [1.1, 0.3], [-0.9, 0.7]])


class Frontend:
    """A minimal frontend. It runs graphs on scalars and records them."""

    def __init__(self, executor: Executor) -> None:
        self.executor, self.recorder = executor, Recorder()

    def leaf(self, value: float, requires_grad: bool = True) -> EagerInput:
        return EagerInput(self.recorder.key_source.fresh(), np.array(value), None, requires_grad)

    def graph(self, kind: str, emit: Emit, count: int) -> RecordedGraph:
        return self.recorder.graphs.op(kind, ((F64, ()),) * count, emit)

    def run(
        self,
        graph: RecordedGraph,
        *inputs: EagerInput,
        retained: Callable[[Sequence[Data]], dict[Value, Data]] | None = None,
    ) -> list[EagerInput]:
        """Runs and records a graph.

        `retained` chooses the values that are retained for the derivative. By default, these are the results.
        """
        data = self.executor.execute_forward(graph, [x.data for x in inputs])
        kept = dict(zip(graph.outputs, data, strict=True)) if retained is None else retained(data)
        outputs = self.recorder.record(graph, inputs, kept)
        return [output.read(y) for output, y in zip(outputs, data, strict=True)]

    def op(self, kind: str, *inputs: EagerInput) -> EagerInput:
        """Runs and records the op that the builder's method `kind` creates. Returns its result."""
        (result,) = self.run(self.graph(kind, lambda b, *xs: [getattr(b, kind)(*xs)], len(inputs)), *inputs)
        return result

    def backward(self, *outputs: EagerInput, **options: Any) -> dict[Any, float]:
        cotangents = backward(outputs, [np.array(1.0)] * len(outputs), self.executor, **options)
        return {key: float(ct) for key, ct in cotangents.items()}


def same_gradients(f: Callable[..., Any], *points: np.ndarray, **tolerance: float) -> None:
    """Asserts that `f` returns the values of NumPy, and that its VJP for a random cotangent equals that of JAX.

    The first argument of `f` is the module whose functions it calls, such as `numpy`.
    """
    tolerance = {"rtol": 1e-11, "atol": 1e-12, **tolerance}
    arrays = [Array(x, requires_grad=True) for x in points]
    y = f(np, *arrays)
    expected = np.asarray(f(np, *points))
    assert (y.shape, y.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_allclose(y.data, expected, **tolerance)
    seed = np.random.default_rng(0).standard_normal(y.shape)
    actual = grad([y], arrays, [seed])
    _, vjp = jax.vjp(lambda *xs: f(jnp, *xs), *map(jnp.asarray, points))
    for ct, wanted, x in zip(actual, vjp(jnp.asarray(seed)), points, strict=True):
        assert (ct.shape, ct.dtype) == (x.shape, x.dtype)
        np.testing.assert_allclose(ct.data, wanted, **tolerance)
