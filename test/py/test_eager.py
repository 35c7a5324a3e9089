"""Eager reverse mode on both executors: gradients equal values computed by hand, and traces keep what they need."""

import gc
import math
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from harness.eager_check import Frontend

from tiduc.dialect.errors import RequestError, Unsupported
from tiduc.eager import (
    EagerInput,
    Executor,
    Interpreter,
    Iree,
    RecordedGraph,
    TransposedLinear,
    backward,
    recorded_backward,
)
from tiduc.eager.graphs import Data
from tiduc.loading import load


@pytest.fixture(scope="module", params=[Interpreter, Iree])
def executor(request: pytest.FixtureRequest) -> Executor:
    new: Executor = request.param()
    return new


@pytest.fixture
def front(executor: Executor) -> Frontend:
    return Frontend(executor)


@pytest.fixture(scope="module")
def interpreter() -> Interpreter:
    return Interpreter()


@pytest.fixture
def quick(interpreter: Interpreter) -> Frontend:
    """Fixture: a frontend that runs graphs by the interpreter, without a compiler."""
    return Frontend(interpreter)


PROGRAMS = {
    "multiply_add": """
        %0 = stablehlo.multiply %x, %y : tensor<f64>
        %1 = stablehlo.add %0, %y : tensor<f64>
        return %1 : tensor<f64>""",
    "squares": """
        %0 = stablehlo.multiply %x, %x : tensor<f64>
        %1 = stablehlo.multiply %y, %y : tensor<f64>
        %2 = stablehlo.multiply %0, %1 : tensor<f64>
        return %2 : tensor<f64>""",
}


def program(name: str) -> Any:
    return load(f"func.func @main(%x: tensor<f64>, %y: tensor<f64>) -> tensor<f64> {{{PROGRAMS[name]}\n}}")


# ---- computed by hand --------------------------------------------------------------------------------------


def test_no_cotangent_without_requires_grad(front: Frontend) -> None:
    x, y = front.leaf(3.0), front.leaf(4.0, requires_grad=False)
    assert front.backward(front.op("multiply", x, y)) == {x.key: 4.0}


def test_an_operand_read_twice(front: Frontend) -> None:
    x = front.leaf(3.0)
    assert front.backward(front.op("multiply", x, x)) == {x.key: 6.0}


def test_a_graph_as_one_invocation(front: Frontend) -> None:
    x, y = front.leaf(2.0), front.leaf(3.0)
    (z,) = front.run(front.recorder.graphs.program(program("multiply_add")), x, y)
    assert front.backward(z) == {x.key: 3.0, y.key: 3.0}


def test_one_of_several_results(front: Frontend) -> None:
    x = front.leaf(5.0)
    split = front.graph("split", lambda b, x: [b.multiply(x, b.constant(7, x)), x], 1)
    first, second = front.run(split, front.op("negate", x))
    assert front.backward(second) == {x.key: -1.0}
    assert first.trace is second.trace


def test_a_sum_negated(front: Frontend) -> None:
    x, y = front.leaf(2.0), front.leaf(5.0)
    assert front.backward(front.op("negate", front.op("add", x, y))) == {x.key: -1.0, y.key: -1.0}


@pytest.mark.parametrize("keeps", ["nothing", "result", "inside"])
def test_values_not_retained_are_recomputed(front: Frontend, keeps: str) -> None:
    x = front.leaf(0.5)
    graph = front.graph("exp(x) x", lambda b, x: [b.multiply(b.exponential(x), x)], 1)
    inside = next(op.result for op in graph.program.view.graph("main").definitions)
    kept = {"nothing": {}, "result": None, "inside": {inside: np.array(math.exp(0.5))}}[keeps]
    (y,) = front.run(graph, x, retained=None if kept is None else lambda data: kept)
    (gradient,) = front.backward(y, retain=True).values()
    assert gradient == pytest.approx(math.exp(0.5) * 1.5, rel=1e-15)
    # The gradient of the gradient. It needs values that have no key.
    one = EagerInput("seed", np.array(1.0))
    first = recorded_backward([y], [one], front.executor, front.recorder)[x.key]
    assert front.backward(first)[x.key] == pytest.approx(math.exp(0.5) * 2.5, rel=1e-15)


def test_a_retained_value_is_read(quick: Frontend) -> None:
    graph = quick.graph("exp(x) x", lambda b, x: [b.multiply(b.exponential(x), x)], 1)
    inside = next(op.result for op in graph.program.view.graph("main").definitions)
    x = quick.leaf(0.5)
    (y,) = quick.run(graph, x, retained=lambda data: {inside: np.array(100.0)})
    assert quick.backward(y) == {x.key: 150.0}


def test_checkpoint(front: Frontend) -> None:
    x, y = front.leaf(2.0), front.leaf(3.0)
    (z,) = front.run(front.recorder.graphs.program(program("squares")), x, y, retained=lambda data: {})
    assert front.backward(z, retain=True) == {x.key: 36.0, y.key: 24.0}
    assert set(z.trace.saved) <= set(z.trace.graph.inputs)
    # The Hessian [[2 y^2, 4 x y], [4 x y, 2 x^2]] is multiplied by the vector (1, 10).
    first = recorded_backward([z], [EagerInput("seed", np.array(1.0))], front.executor, front.recorder)
    seeds = [np.array(1.0), np.array(10.0)]
    actual = backward([first[x.key], first[y.key]], seeds, front.executor)
    assert {key: float(ct) for key, ct in actual.items()} == {x.key: 18 + 240, y.key: 24 + 80}


# ---- several outputs, seeds, values asked for --------------------------------------------------------------


def test_several_outputs_and_seeds(quick: Frontend) -> None:
    x, y = quick.leaf(3.0), quick.leaf(4.0)
    product, total = quick.op("multiply", x, y), quick.op("add", x, y)
    seeds = [np.array(2.0), np.array(10.0)]
    actual = backward([product, total], seeds, quick.executor, retain=True)
    assert actual == {x.key: 18.0, y.key: 16.0}
    assert backward([product, product], seeds, quick.executor, retain=True) == {x.key: 48.0, y.key: 36.0}
    assert backward([x], [np.array(5.0)], quick.executor) == {x.key: 5.0}


def test_results_that_are_one_value(quick: Frontend) -> None:
    twice = quick.graph("twice", lambda b, x: [y := b.sine(x), y, x, b.constant(2, x)], 1)
    x = quick.leaf(0.5)
    first, second, same, two = quick.run(twice, x)
    assert quick.backward(first, second, same, two)[x.key] == pytest.approx(2 * math.cos(0.5) + 1)


def test_intermediates_on_request(quick: Frontend) -> None:
    x, y = quick.leaf(3.0), quick.leaf(4.0)
    z = quick.op("multiply", x, y)
    result = quick.op("multiply", z, z)
    assert quick.backward(result, retain=True, intermediates={z.key}) == {z.key: 24, x.key: 96, y.key: 72}
    assert quick.backward(result, retain=True, intermediates={result.key})[result.key] == 1.0
    assert quick.backward(result, retain=True, wanted={z.key}) == {z.key: 24.0}
    assert quick.backward(result, retain=True, wanted={result.key}) == {result.key: 1.0}


def test_unwanted_derivatives_are_not_run(quick: Frontend) -> None:
    x, y = quick.leaf(3.0), quick.leaf(4.0)
    z = quick.op("multiply", quick.op("sine", x), quick.op("cosine", y))
    counting = Counting(quick.executor)
    actual = backward([z], [np.array(1.0)], counting, wanted={x.key}, retain=True)
    assert actual[x.key] == pytest.approx(math.cos(3) * math.cos(4))
    assert counting.transposed == 2
    backward([z], [np.array(1.0)], counting)
    assert counting.transposed == 2 + 3


class Counting:
    """An executor that counts the calls of its methods."""

    def __init__(self, executor: Executor) -> None:
        self.executor = executor
        self.transposed = self.added = 0

    def execute_forward(self, graph: RecordedGraph, inputs: Sequence[Data]) -> Sequence[Data]:
        return self.executor.execute_forward(graph, inputs)

    def run_transposed_linear(
        self, linear: TransposedLinear, residuals: Sequence[Data], cotangents: Sequence[Data]
    ) -> Sequence[Data]:
        self.transposed += 1
        return self.executor.run_transposed_linear(linear, residuals, cotangents)

    def add_operands(self, x: Data, y: Data) -> Data:
        self.added += 1
        return self.executor.add_operands(x, y)


def test_paths_that_meet_are_added_once_each(quick: Frontend) -> None:
    """The backward pass of 60 nested diamonds, with 2^60 paths, runs 180 transposes and 60 additions."""
    x = quick.leaf(1.0)
    y = x
    for _ in range(60):
        y = quick.op("add", quick.op("sine", y), quick.op("cosine", y))
    counting = Counting(quick.executor)
    backward([y], [np.array(1.0)], counting)
    assert (counting.transposed, counting.added) == (180, 60)


def test_a_value_that_no_cotangent_reaches(quick: Frontend) -> None:
    x, y = quick.leaf(1.5), quick.leaf(2.0)
    z = quick.op("multiply", quick.op("floor", x), y)
    assert quick.backward(z) == {x.key: 0.0, y.key: 1.0}


# ---- released, dropped, refused ----------------------------------------------------------------------------


def test_twice_only_if_retained(quick: Frontend) -> None:
    x = quick.leaf(3.0)
    y = quick.op("multiply", x, x)
    assert quick.backward(y, retain=True) == quick.backward(y) == {x.key: 6.0}
    with pytest.raises(RequestError, match="released by an earlier backward"):
        quick.backward(y)
    with pytest.raises(RequestError, match="released"):
        quick.backward(quick.op("sine", y))


def test_explicit_release(quick: Frontend) -> None:
    y = quick.op("sine", quick.leaf(3.0))
    assert y.trace is not None
    y.trace.release()
    with pytest.raises(RequestError, match="released"):
        quick.backward(y)


def test_dropped_results_free_the_trace(quick: Frontend) -> None:
    gc.disable()  # the trace must be freed without the garbage collector, because it has no reference cycles
    try:
        x = quick.leaf(3.0)
        y = quick.op("sine", quick.op("sine", x))
        assert y.trace is not None
        middle = y.trace.edges[0].trace
        held = weakref.ref(middle)
        del middle, y
        assert held() is None
    finally:
        gc.enable()


def test_only_what_the_transpose_reads_is_kept(quick: Frontend) -> None:
    x, y = quick.leaf(3.0), quick.leaf(4.0, requires_grad=False)
    total, product, power = quick.op("add", x, y), quick.op("multiply", x, y), quick.op("exponential", x)
    kept = [sorted(float(v) for v in z.trace.saved.values()) for z in (total, product, power) if z.trace]
    assert kept == [[], [4.0], [math.exp(3)]]


def test_nothing_is_recorded_that_needs_no_derivative(quick: Frontend) -> None:
    x = quick.leaf(3.0, requires_grad=False)
    y = quick.op("sine", x)
    assert y.trace is None and not y.requires_grad
    with pytest.raises(RequestError, match="output 0 depends on nothing that requires grad"):
        quick.backward(y)


def test_integers_have_no_derivative(quick: Frontend) -> None:
    graph = quick.recorder.graphs.op("negate", ((np.dtype("i4"), (2,)),), lambda b, x: [b.negate(x)])
    x = EagerInput("x", np.ones(2, np.int32), None, True)
    with pytest.raises(RequestError, match="input 0 of type 2xi32 requires grad, but has no derivative"):
        quick.recorder.record(graph, [x])
    compared = quick.run(
        quick.graph("less", lambda b, x: [b.compare(x, x, "LT"), b.sine(x)], 1), quick.leaf(1.0)
    )
    assert [y.requires_grad for y in compared] == [False, True]


def test_mismatched_arguments(quick: Frontend) -> None:
    x = quick.leaf(3.0)
    y = quick.op("sine", x)
    with pytest.raises(RequestError, match="the seed of output 0 is 3xf64, expects f64"):
        backward([y], [np.ones(3)], quick.executor)
    with pytest.raises(RequestError, match="the seed of output 0 is f32, expects f64"):
        backward([y], [np.float32(1)], quick.executor)
    with pytest.raises(RequestError, match="1 outputs need as many seeds, got 2"):
        backward([y], [np.array(1.0)] * 2, quick.executor)
    with pytest.raises(RequestError, match="takes 1 inputs, got 2"):
        quick.recorder.record(y.trace.graph, [x, x])
    other = quick.graph("cosine", lambda b, x: [b.cosine(x)], 1)
    with pytest.raises(RequestError, match="not a value of the graph"):
        quick.recorder.record(y.trace.graph, [x], {other.outputs[0]: np.array(1.0)})
    dynamic = load("func.func @main(%x: tensor<?xf64>) -> tensor<?xf64> {\n return %x : tensor<?xf64>\n}")
    with pytest.raises(RequestError, match="it is not an array of static shape"):
        quick.recorder.graphs.program(dynamic)


def test_an_op_without_a_rule(quick: Frontend) -> None:
    """An op without a differentiation rule runs, and `backward` through it is refused, also if it is called again."""
    text = """func.func @main(%x: tensor<2xf64>) -> tensor<f64> {
      %zero = stablehlo.constant dense<0.0> : tensor<f64>
      %0 = "stablehlo.reduce"(%x, %zero) ({
      ^bb0(%a: tensor<f64>, %b: tensor<f64>):
        %1 = stablehlo.subtract %a, %b : tensor<f64>
        stablehlo.return %1 : tensor<f64>
      }) {dimensions = array<i64: 0>} : (tensor<2xf64>, tensor<f64>) -> tensor<f64>
      return %0 : tensor<f64>
    }"""
    x = EagerInput("x", np.ones(2), None, True)
    (y,) = quick.run(quick.recorder.graphs.program(load(text)), x)
    assert y.requires_grad
    for _ in range(2):
        with pytest.raises(Unsupported, match="AD rule for stablehlo.reduce"):
            quick.backward(quick.op("sine", y))


# ---- structure, and size -----------------------------------------------------------------------------------


def test_the_second_backward_compiles_nothing() -> None:
    iree = Iree()

    def once(front: Frontend) -> float:
        x, y = front.leaf(2.0), front.leaf(3.0)
        (z,) = front.run(front.recorder.graphs.program(program("squares")), x, y)
        actual = front.backward(front.op("multiply", front.op("sine", z), x))
        return actual[x.key]

    front = Frontend(iree)
    first, compiled = (
        once(front),
        iree.compiled,
    )  # the program, two ops and their transposes are six graphs; NumPy runs some of them without compilation
    assert 0 < compiled < 3 + 3
    assert once(front) == first and iree.compiled == compiled
    # A new recorder builds new graphs. The executor finds their compiled code, because their texts are equal.
    assert once(Frontend(iree)) == first and iree.compiled == compiled


def test_equal_programs_are_one_graph(quick: Frontend) -> None:
    graphs = quick.recorder.graphs
    assert graphs.program(program("squares")) is graphs.program(program("squares"))
    assert graphs.program(program("squares")) is not graphs.program(program("multiply_add"))


def test_a_program_with_a_loop(front: Frontend) -> None:
    """The gradient of a program with a loop is correct: three iterations that square x compute x^8."""
    text = """func.func @main(%x: tensor<f64>) -> tensor<f64> {
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %one = stablehlo.constant dense<1> : tensor<i32>
      %n = stablehlo.constant dense<3> : tensor<i32>
      %0:2 = stablehlo.while(%i = %zero, %c = %x) : tensor<i32>, tensor<f64>
      cond {
        %1 = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %1 : tensor<i1>
      } do {
        %1 = stablehlo.add %i, %one : tensor<i32>
        %2 = stablehlo.multiply %c, %c : tensor<f64>
        stablehlo.return %1, %2 : tensor<i32>, tensor<f64>
      }
      return %0#1 : tensor<f64>
    }"""
    x = front.leaf(1.5)
    (y,) = front.run(front.recorder.graphs.program(load(text)), x)
    assert front.backward(y)[x.key] == pytest.approx(8 * 1.5**7, rel=1e-14)


def test_a_derivative_as_one_invocation(quick: Frontend) -> None:
    """A gradient program can be called eagerly and differentiated again, also if one of its results is always zero."""
    p = load(
        "func.func @main(%x: tensor<f64>, %y: tensor<f64>) -> tensor<f64> {\n return %x : tensor<f64>\n}"
    )
    x, y = quick.leaf(2.0), quick.leaf(3.0)
    dx, dy = quick.run(quick.recorder.graphs.program(p.grad()), x, y)
    assert (float(dx.data), float(dy.data)) == (1.0, 0.0)
    assert quick.backward(dx, dy) == {x.key: 0.0, y.key: 0.0}


def test_long_traces(quick: Frontend) -> None:
    x = quick.leaf(0.5)
    y = x
    for _ in range(1_500):  # more steps than Python allows nested calls
        y = quick.op("negate", y)
    assert quick.backward(y, retain=True) == {x.key: 1.0}
    first = recorded_backward([y], [EagerInput("seed", np.array(1.0))], quick.executor, quick.recorder)
    assert float(first[x.key].data) == 1.0
    del first, y  # deleting a deep trace must not exceed the recursion limit
