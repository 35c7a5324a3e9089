"""Tests eager calls of programs and checkpoints, Python control flow, rehearsals, and the example of eager mode."""

import inspect
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases.control_flow_programs import LONG, PROGRAMS
from harness.eager_check import V, W, X
from harness.example_files import script

import tiduc
from tiduc.dialect.errors import InputError, RequestError
from tiduc.eager import Array, Iree, call, checkpoint, executing, grad, no_grad, program_of, rehearsing
from tiduc.loading import load

pytestmark = pytest.mark.usefixtures("interpreted")


# ---- whole programs, control flow, executors ---------------------------------------------------------------


def test_a_program_as_one_invocation() -> None:
    p = load("func.func @main(%x: tensor<3xf64>, %n: tensor<i32>) -> (tensor<3xf64>, tensor<i32>) {\n"
             "  %0 = stablehlo.tanh %x : tensor<3xf64>\n  return %0, %n : tensor<3xf64>, tensor<i32>\n}")  # fmt: skip
    x = Array(V, requires_grad=True)
    y, n = call(p, x * 2.0, np.int32(4))
    assert n.item() == 4 and not n.requires_grad
    y.sum().backward()
    np.testing.assert_allclose(x.grad.data, 2 * (1 - np.tanh(2 * V) ** 2))
    with pytest.raises(InputError, match=r"takes \(x: 3xf64, n: i32\)|takes \(arg0: 3xf64"):
        call(p, x, 4)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(PROGRAMS) - LONG))
def test_programs_with_control_flow(name: str) -> None:
    """The eager gradient of a call of a program with control flow equals JAX's gradient."""
    f, points = PROGRAMS[name]
    p = load(jax.jit(f, keep_unused=True).lower(*points).as_text())
    xs = [Array(np.asarray(x), requires_grad=np.asarray(x).dtype.kind == "f") for x in points]
    wrt = [i for i, x in enumerate(xs) if x.requires_grad]
    ys = call(p, *xs)
    slots = [i for i, y in enumerate(ys) if y.requires_grad]
    seeds = [np.cos(np.arange(ys[i].size, dtype=float)).reshape(ys[i].shape) for i in slots]
    actual = grad([ys[i] for i in slots], [xs[i] for i in wrt], seeds)

    def differentiable(*moved: Any) -> list[Any]:
        given = [moved[wrt.index(i)] if i in wrt else x for i, x in enumerate(points)]
        return [jax.tree.leaves(f(*given))[i] for i in slots]

    _, vjp = jax.vjp(differentiable, *[jnp.asarray(points[i]) for i in wrt])
    for ct, expected in zip(actual, vjp([jnp.asarray(s) for s in seeds]), strict=True):
        np.testing.assert_allclose(ct.data, expected, rtol=1e-9, atol=1e-12)


# ---- checkpoints -------------------------------------------------------------------------------------------


def saved(y: Array) -> list[tuple[int, ...]]:
    """The sorted shapes of all values that the trace of y keeps for the backward pass."""
    traces, shapes = [y.value.trace], []
    for trace in traces:
        shapes += [x.shape for x in trace.saved.values()]
        traces += [edge.trace for edge in trace.edges if edge.trace not in (None, *traces)]
    return sorted(shapes)


def test_checkpoint() -> None:
    x, y = Array(2.0, requires_grad=True), Array(3.0, requires_grad=True)
    z = checkpoint(lambda x, y: x * x * (y * y), x, y)
    dx, dy = grad(z, [x, y], create_graph=True)
    assert (z.item(), dx.item(), dy.item()) == (36.0, 36.0, 24.0)
    assert [h.item() for h in grad(dx + 10 * dy, [x, y])] == [18.0 + 240, 24.0 * 1 + 80]


def test_a_checkpoint_keeps_its_inputs() -> None:
    x, w = Array(X, requires_grad=True), Array(W, requires_grad=True)

    def layers(h: Any) -> Any:
        for _ in range(3):
            h = np.tanh(h @ w) @ np.sin(w.T)
        return h, np.sum(h)

    plain, kept = layers(x), checkpoint(layers, x)
    assert saved(kept[0]) == [X.shape, W.shape]
    assert len(saved(plain[0])) > 10
    for actual, expected in zip(grad(kept, [x, w], [X, 2.0]), grad(plain, [x, w], [X, 2.0]), strict=True):
        np.testing.assert_allclose(actual.data, expected.data, rtol=1e-12)


def test_a_checkpoint_that_changes_nothing() -> None:
    x = Array(3.0, requires_grad=True)
    y = checkpoint(lambda x: x, x)
    y.backward()
    assert x.grad.item() == 1.0
    with no_grad():
        assert not checkpoint(lambda x: x * x, x).requires_grad
    assert not checkpoint(lambda x: x * x, Array(2.0)).requires_grad


def test_a_checkpoint_takes_no_program_with_loops() -> None:
    p = load("""func.func @main(%x: tensor<f64>, %n: tensor<i1>) -> tensor<f64> {
      %0 = "stablehlo.if"(%n) ({
        %1 = stablehlo.sine %x : tensor<f64>
        stablehlo.return %1 : tensor<f64>
      }, {
        stablehlo.return %x : tensor<f64>
      }) : (tensor<i1>) -> tensor<f64>
      return %0 : tensor<f64>
    }""")
    x = Array(3.0, requires_grad=True)
    (y,) = call(p, x, True)
    y.backward()
    np.testing.assert_allclose(x.grad.data, np.cos(3.0))
    (derivative,) = call(p.grad(), x, True)
    with pytest.raises(RequestError, match="cannot be part of a checkpoint"):
        checkpoint(lambda x: call(p.grad(), x, True)[0], x)
    derivative.backward()
    np.testing.assert_allclose(x.grad.data, -np.sin(3.0))


def newton(x: Any) -> Any:
    """The square root of x by Newton's method, with a Python loop that runs until the iteration converges."""
    y = x
    while abs(y * y - x) > 1e-13:
        y = (y + x / y) / 2
    return y


def test_python_control_flow() -> None:
    x = Array(2.0, requires_grad=True)
    newton(x).backward()
    np.testing.assert_allclose(x.grad.data, 0.5 / np.sqrt(2), rtol=1e-12)


@pytest.mark.more
def test_both_executors_agree() -> None:
    """IREE and the interpreter agree on a network's value, gradient and Hessian-vector product.

    They also agree on a gradient after a part of an array was overwritten.
    """

    def run() -> list[np.ndarray]:
        w = Array(W, requires_grad=True)
        loss = np.mean(np.tanh(X @ w)[:, 0] ** 2)
        (dw,) = grad([loss], [w], create_graph=True)
        hvp = grad(np.sum(dw * W), w)
        x = Array(V, requires_grad=True)
        y = x * x
        x += 1.0
        x[1:] *= y[:2]
        (y * x).sum().backward()
        return [loss.data, dw.data, hvp.data, x.grad.data]

    expected = run()
    iree = Iree()
    with executing(iree):
        with rehearsing():
            run()
        compiled = iree.compiled
        first = run()
    assert iree.compiled == compiled
    v, shifted = V**2, V + 1
    slopes = 3 * V**2 + 2 * V, 2 * V[1:] * shifted[1:] * v[:2] + v[1:] * v[:2]
    by_hand = np.array([slopes[0][0], *slopes[1]])
    by_hand[:2] += 2 * V[:2] * v[1:] * shifted[1:]
    np.testing.assert_allclose(expected[-1], by_hand, rtol=1e-12)
    for actual, wanted in zip(first, expected, strict=True):
        np.testing.assert_allclose(actual, wanted, rtol=1e-12)


def test_a_rehearsal_compiles_all_at_once() -> None:
    iree = Iree()

    def run() -> float:
        x = Array([1.0, 2.0], requires_grad=True)
        np.sum(np.exp(x) * x).backward()
        return x.grad.data[1]

    with executing(iree):
        with rehearsing():
            expected = run()
            assert iree.compiled == 0
        compiled = iree.compiled
        np.testing.assert_allclose(run(), expected, rtol=1e-13)
        # IREE runs exp and the sum. NumPy runs the product and the backward pass, which is one graph.
        assert iree.compiled == compiled == 2
    with rehearsing():  # the default executor here is the interpreter, for which a rehearsal changes nothing
        assert run() == expected


@pytest.mark.more
def test_the_example_trains_as_jax_does() -> None:
    losses = script("eager_mlp").train(steps=2)

    draw = np.random.default_rng(0)
    x = draw.uniform(-1, 1, (256, 2)).astype(np.float32)
    inside = np.abs(np.hypot(*x.T) - 0.6) < 0.2
    sizes = [(2, 32), (32, 32), (32, 2)]
    layers = [
        (jnp.asarray(draw.normal(0, (2 / m) ** 0.5, (m, n)).astype(np.float32)), jnp.zeros(n, np.float32))
        for m, n in sizes
    ]

    def loss(layers: Any) -> Any:
        h = x
        for i, (w, b) in enumerate(layers):
            h = h @ w + b if i == 2 else jax.nn.relu(h @ w + b)
        return -jnp.mean(jax.nn.log_softmax(h)[jnp.arange(256), inside.astype(int)])

    slope = jax.jit(jax.value_and_grad(loss))
    for actual in losses:
        value, gradient = slope(layers)
        np.testing.assert_allclose(actual, value, rtol=1e-5)
        layers = jax.tree.map(lambda p, d: p - 0.5 * d, layers, gradient)
    assert losses[-1] < losses[0]


# ---- programs of eager functions -----------------------------------------------------------------------------------


def steps(x: Array, n: Array) -> tuple[Array, Array]:
    """A function with views, a write, a value from outside the function, and Python control flow."""
    y = x
    for _ in range(2):
        y = np.log(y) * WEIGHTS
    y[0] = 1.0
    z = y.reshape(2, 1)
    return z.T, (y * n).sum() if n.item() > 0 else y


WEIGHTS = np.array([2.0, 3.0])


def test_the_program_of_a_function() -> None:
    """The program traced from an eager function gives the function's values and gradient for other arguments."""
    program = program_of(steps, np.array([2.0, 3.0]), 3.0)
    x, n = Array([2.5, 4.0], requires_grad=True), Array(2.0)
    z, total = steps(x, n)
    total.backward()
    assert repr(program).startswith("<Program main(x: 2xf64, n: f64) -> ")
    assert str(program).count("stablehlo.log") == 2
    compiled = program.compile(engine="reference")
    for value, expected in zip(compiled(x.data, n.data), (z, total), strict=True):
        np.testing.assert_allclose(value, expected.data)
    scalar = replace(program, outputs=program.outputs[1:])
    gradient = scalar.grad("x").compile(engine="reference")(x.data, n.data)
    assert x.grad is not None
    np.testing.assert_allclose(gradient[0], x.grad.data)


def test_the_first_nan_of_an_eager_program() -> None:
    """`tiduc.trace` reports the first NaN at the line and column of the Python code.

    The NaN is the second logarithm, whose argument is negative.
    """
    program = program_of(steps, np.array([2.0, 0.5]), 3.0)
    traced = tiduc.trace(program, [[2.0, 0.5], 3.0], run=lambda each: each.compile(engine="reference"))
    (origin,) = traced.origins
    code, first = inspect.getsourcelines(steps)
    line = first + next(i for i, text in enumerate(code) if "np.log" in text)
    column = code[line - first].index("np.log") + 1
    assert (origin.op, origin.place) == ("stablehlo.log", f"{__file__}:{line}:{column}")
    np.testing.assert_allclose(traced.arrays[f"{line}.log"], np.log([2.0, 0.5]))


def test_arguments_of_program_of() -> None:
    """An array that is given to `program_of` twice becomes two inputs. Results that are not arrays are refused."""
    x = Array([2.0])
    program = program_of(lambda a, b: a - b, x, x)
    with pytest.raises(RequestError, match="must return only arrays"):
        program_of(lambda a: a.data, x)
    (result,) = program.compile(engine="reference")(np.array([5.0]), np.array([3.0]))
    assert result == 2.0
