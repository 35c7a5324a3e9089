"""Tests backward passes that run as one graph, graphs that NumPy runs, and the executor methods that run a pass."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from harness.eager_check import V, W, X

import tiduc
from tiduc.dialect.errors import InputError
from tiduc.eager import Array, Interpreter, Iree, Session, backward_from, call, checkpoint, executing, grad
from tiduc.eager.executors import Rehearsal
from tiduc.eager.graphs import Data, RecordedGraph, TransposedLinear
from tiduc.eager.host import EXACT, MOST_BYTES, on_host


class Counting(Interpreter):
    """An interpreter that counts the calls of its methods."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = {"forward": 0, "transposed": 0, "add": 0}

    def execute_forward(self, graph: RecordedGraph, inputs: Sequence[Data]) -> Sequence[Data]:
        self.calls["forward"] += 1
        return super().execute_forward(graph, inputs)

    def run_transposed_linear(
        self, linear: TransposedLinear, residuals: Sequence[Data], cotangents: Sequence[Data]
    ) -> Sequence[Data]:
        self.calls["transposed"] += 1
        return super().run_transposed_linear(linear, residuals, cotangents)

    def add_operands(self, x: Data, y: Data) -> Data:
        self.calls["add"] += 1
        return super().add_operands(x, y)


def test_hooks() -> None:
    """`backward` calls `run_transposed_linear` once for each op, and `add_operands` once for each sum of cotangents.

    It does not call `execute_forward`, although the values of a checkpoint are recomputed.
    """
    counting = Counting()
    with executing(counting):
        x = Array(V, requires_grad=True)
        y = np.sum(checkpoint(lambda x: np.sin(x) * np.exp(x), x) * x)
        forward = counting.calls["forward"]
        y.backward()
    assert counting.calls == {"forward": forward, "transposed": 3, "add": 1}
    np.testing.assert_allclose(x.grad.data, np.exp(V) * ((1 + V) * np.sin(V) + V * np.cos(V)))


def results(run: Any) -> list[np.ndarray]:
    x, w = Array(X, requires_grad=True), Array(W, requires_grad=True)
    unread = Array(V, requires_grad=True)
    h = x @ w
    h.retain_grad()
    y = np.tanh(h) * h + np.sum(unread[:0])
    z = np.max(x * x, axis=0)
    run(x, w, unread, h, y, z)
    return [a.grad.data for a in (x, w, unread, h) if a.grad is not None]


PROGRAMS: dict[str, Any] = {
    "one output": lambda x, w, u, h, y, z: np.sum(y).backward(),
    "several outputs": lambda x, w, u, h, y, z: backward_from([y, z], [np.cos(h.data), V]),
    "an output that another one reads": lambda x, w, u, h, y, z: backward_from([h, y], [W[:2], W[1:]]),
    "an output twice": lambda x, w, u, h, y, z: backward_from([z, z], [V, 2 * V]),
    "a leaf": lambda x, w, u, h, y, z: backward_from([x, z], [X, V]),
    "wanted": lambda x, w, u, h, y, z: h.set_grad(grad([y], h, [W[:2]]).value),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_backward_as_one_graph(name: str) -> None:
    """The executor `Rehearsal` runs each backward pass as one graph.

    Its cotangents equal those of a pass that runs op by op.
    """
    rehearsal, session = Rehearsal(), Session(Interpreter())
    with executing(session):
        expected = results(PROGRAMS[name])
        session.executor = rehearsal
        for _ in range(2):
            for actual, wanted in zip(results(PROGRAMS[name]), expected, strict=True):
                np.testing.assert_allclose(actual, wanted, rtol=1e-14)
    assert len(rehearsal.joined.graphs) == int(name != "a leaf")


def test_other_structures_are_other_graphs() -> None:
    rehearsal = Rehearsal()
    with executing(rehearsal):
        for f in (lambda x: x * x, lambda x: x * x + x, lambda x: x * 2.0):
            x = Array(3.0, requires_grad=True)
            (f(x) * x).backward()
            np.testing.assert_allclose(
                x.grad.item(), {0: 27.0, 1: 33.0, 2: 12.0}[len(rehearsal.joined.graphs) - 1]
            )


def test_programs_with_loops_are_not_joined() -> None:
    text = """func.func @main(%x: tensor<f64>) -> tensor<f64> {
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %0:2 = stablehlo.while(%i = %zero, %c = %x) : tensor<i32>, tensor<f64>
      cond {
        %n = stablehlo.constant dense<3> : tensor<i32>
        %1 = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %1 : tensor<i1>
      } do {
        %one = stablehlo.constant dense<1> : tensor<i32>
        %1 = stablehlo.add %i, %one : tensor<i32>
        %2 = stablehlo.multiply %c, %c : tensor<f64>
        stablehlo.return %1, %2 : tensor<i32>, tensor<f64>
      }
      return %0#1 : tensor<f64>
    }"""
    rehearsal = Rehearsal()
    with executing(rehearsal):
        x = Array(1.5, requires_grad=True)
        (y,) = call(tiduc.load(text), x)
        y.backward()
    np.testing.assert_allclose(x.grad.item(), 8 * 1.5**7)
    assert len(rehearsal.joined.graphs) == 0


# ---- on the host -------------------------------------------------------------------------------------------


def graph_of(function: Any, *points: np.ndarray) -> RecordedGraph:
    class Taken(Exception):
        pass

    class Taking(Interpreter):
        def execute_forward(self, graph: RecordedGraph, inputs: Sequence[Data]) -> Sequence[Data]:
            raise Taken(graph)

    with executing(Taking()), pytest.raises(Taken) as taken:
        function(*map(Array, points))
    return taken.value.args[0]


@pytest.mark.parametrize("name", ["add", "divide", "multiply", "negative", "subtract"])
def test_exact_ops(name: str) -> None:
    """For each op that NumPy runs instead of a compiler, the result is exactly NumPy's, in a new array.

    No warnings are given, and arguments of a wrong shape are refused.
    """
    ufunc = getattr(np, name)
    pairs = [
        (X, V),
        (V[:2].reshape(2, 1), X),
        (V, V),
        (np.array(2.0), np.array(0.0)),
        (np.array([1e308]), -V * 1e308),
    ]
    for points in (pair[: ufunc.nin] for pair in pairs):
        run = on_host(graph_of(ufunc, *points))
        (y,) = run(*points)
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(y, ufunc(*points), strict=True)
        assert y.flags.owndata and not any(np.may_share_memory(y, x) for x in points)
    with pytest.raises(InputError):
        run(*[x[:0] for x in points])
    assert {f"stablehlo.{name}" for name in ("add", "divide", "multiply", "negate", "subtract")} == set(EXACT)


def test_what_the_host_does_not_run() -> None:
    large = np.ones(MOST_BYTES // 8 + 1)
    for function, points in (
        (np.exp, [X]),
        (np.add, [large, large]),
        (np.add, [np.arange(3), np.arange(3)]),
        (np.multiply, [X + 1j, X]),
        (np.add, [X.astype(np.float16), X.astype(np.float16)]),
    ):
        assert on_host(graph_of(function, *points)) is None
    assert Iree("cuda")._on_host(graph_of(np.add, X, X)) is None
    assert Iree()._on_host(graph_of(np.add, X, X)) is not None
