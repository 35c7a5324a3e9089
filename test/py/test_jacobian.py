"""Compares Jacobians, Hessians and Laplacians in both modes with JAX's, and batched JVPs and VJPs with single ones."""

from collections.abc import Callable, Sequence
from typing import Any

import cases.control_flow_calls  # noqa: F401 (its programs join the table)
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases.control_flow_programs import PROGRAMS, UNBOUNDED
from harness.check_rule import run
from harness.compare import compare
from harness.example_files import EXAMPLES, script
from harness.exports import exported
from harness.xla import by_xla
from numpy.typing import NDArray

from tiduc.dialect.errors import RequestError, Unsupported
from tiduc.loading import load
from tiduc.program import Program

RNG = np.random.default_rng(0)
Array = NDArray[Any]


def random(*sizes: int) -> Array:
    return np.asarray(RNG.standard_normal(sizes))


def leaves(derivative: Callable[..., Any], arguments: Sequence[Any]) -> list[Array]:
    with jax.enable_x64(True):
        tree = jax.jit(derivative)(*(jnp.asarray(x) for x in arguments))
        return [np.asarray(y) for y in jax.tree.leaves(tree)]


def agree(program: Program, arguments: Sequence[Any], expected: Sequence[Array]) -> None:
    shapes = [tuple(port.type.shape) for port in program.outputs]
    assert shapes == [y.shape for y in expected]
    compare(run(program, arguments), expected)


def floats(arguments: Sequence[Any]) -> tuple[int, ...]:
    return tuple(i for i, x in enumerate(arguments) if np.asarray(x).dtype.kind == "f")


def traces(hessians: Sequence[Array], count: int, inputs: Sequence[Array]) -> list[Array]:
    """The trace of the Hessian of each of `count` outputs. `hessians` has a block for each output and input pair."""
    sums = []
    for y in range(count):
        total: Any = 0
        for i, x in enumerate(inputs):
            h = hessians[(y * len(inputs) + i) * len(inputs) + i]
            square = h.reshape(*h.shape[: h.ndim - 2 * x.ndim], x.size, x.size)
            total = total + np.trace(square, axis1=-2, axis2=-1)
        sums.append(np.asarray(total))
    return sums


# ---- small functions ---------------------------------------------------------------------------------------


def two_outputs(x: Any, w: Any) -> Any:
    return jnp.tanh(x @ w), jnp.sum(x * x) * jnp.prod(jnp.sin(w))


def windows(x: Any, w: Any) -> Any:
    strided = jax.lax.conv_general_dilated(x[None, None], w[None, None], (2,), "SAME")[0, 0]
    return strided, jnp.cumsum(x) * jnp.max(x)


def indexing(x: Any, w: Any) -> Any:
    rows = x[jnp.array([2, 0, 2])]
    return jnp.sort(rows * w[:3]), x.at[jnp.array([1, 1])].add(w[:2])


def linear_algebra(x: Any, w: Any) -> Any:
    a = jnp.outer(x, x) + jnp.diag(w) + 5 * jnp.eye(4)
    return jnp.linalg.solve(a, w), jnp.linalg.slogdet(a)[1]


SMALL: dict[str, tuple[Callable[..., Any], tuple[Array, ...]]] = {
    "two_outputs": (two_outputs, (random(3), random(3, 2))),
    "windows": (windows, (random(6), random(3))),
    "indexing": (indexing, (random(4), random(4))),
    "linear_algebra": (linear_algebra, (random(4), random(4) ** 2)),
}


@pytest.mark.parametrize("mode", ["forward", "reverse"])
@pytest.mark.parametrize("name", SMALL)
def test_jacobian(name: str, mode: str) -> None:
    function, arguments = SMALL[name]
    expected = leaves(jax.jacfwd(function, (0, 1)), arguments)
    agree(load(exported(function, *arguments)).jacobian(mode=mode), arguments, expected)


SECOND = [pytest.param(n, marks=pytest.mark.slow) if n == "linear_algebra" else n for n in SMALL]


@pytest.mark.parametrize("name", SECOND)
def test_hessian_and_laplacian(name: str) -> None:
    function, arguments = SMALL[name]
    program = load(exported(function, *arguments))
    expected = leaves(jax.hessian(function, (0, 1)), arguments)
    agree(program.hessian(), arguments, expected)
    agree(program.laplacian(), arguments, traces(expected, 2, arguments))


def test_signatures() -> None:
    program = load(exported(two_outputs, *SMALL["two_outputs"][1]))
    jacobian = program.jacobian(["arg1", "arg0"], value=True)
    assert str(jacobian.signature).partition(" -> ")[2] == (
        "(result0: 2xf64, result1: f64, result0.jacobian.arg1: 2x3x2xf64, result0.jacobian.arg0: 2x3xf64, "
        "result1.jacobian.arg1: 3x2xf64, result1.jacobian.arg0: 3xf64)"
    )
    names = [port.name for port in program.hessian(0).outputs]
    assert names == ["result0.hessian.arg0.arg0", "result1.hessian.arg0.arg0"]
    assert [port.name for port in program.laplacian(value=True).outputs] == [
        "result0",
        "result1",
        "result0.laplacian",
        "result1.laplacian",
    ]


def test_the_mode_with_fewer_basis_vectors_is_chosen() -> None:
    """The default mode is reverse for few outputs of many inputs, and forward for many outputs of few inputs."""
    few = load(exported(lambda x: jnp.sin(x[:2] * x[2]), random(30))).jacobian()
    many = load(exported(lambda x: jnp.sin(jnp.outer(x, jnp.arange(15.0))), random(2))).jacobian()
    for program in (few, many):
        assert "tensor<30x30x" not in program.text
        assert "tensor<2x2x" in program.text


def test_a_derivative_of_derivatives() -> None:
    """The Jacobian of a gradient, computed by the same mode twice, equals JAX's Hessian, for both modes."""
    function, arguments = SMALL["windows"]
    program = load(exported(function, *arguments))
    expected = leaves(jax.hessian(function, 0), arguments)
    agree(program.jacobian(0, "reverse").jacobian(0, "reverse"), arguments, expected)
    agree(program.jacobian(0, "forward").jacobian(0, "forward"), arguments, expected)


# ---- zeros, sizes of one and none --------------------------------------------------------------------------


def test_independent_outputs_have_zero_derivatives() -> None:
    arguments = (random(2), random(3))
    program = load(exported(lambda x, w: (jnp.sin(x), w * 2, jnp.float64(1)), *arguments))
    for mode in ("forward", "reverse"):
        expected = leaves(jax.jacfwd(lambda x, w: (jnp.sin(x), w * 2, jnp.float64(1)), (0, 1)), arguments)
        agree(program.jacobian(mode=mode), arguments, expected)
    agree(program.laplacian(), arguments, [-np.sin(arguments[0]), np.zeros(3), np.zeros(())])


@pytest.mark.parametrize("mode", ["forward", "reverse"])
@pytest.mark.parametrize("sizes", [(), (1,), (1, 1), (0,), (2, 0)])
def test_few_entries(sizes: tuple[int, ...], mode: str) -> None:
    x = random(*sizes)
    program = load(load(exported(lambda x: jnp.sin(x) * 2, x)).text)
    agree(program.jacobian(mode=mode), [x], leaves(jax.jacfwd(lambda x: jnp.sin(x) * 2), (x,)))


def test_one_value_as_two_outputs() -> None:
    text = """func.func @main(%x: tensor<2xf64>) -> (tensor<2xf64>, tensor<2xf64>) {
      %0 = stablehlo.sine %x : tensor<2xf64>
      return %0, %0 : tensor<2xf64>, tensor<2xf64>
    }"""
    x = random(2)
    for mode in ("forward", "reverse"):
        agree(load(text).jacobian(mode=mode), [x], [np.diag(np.cos(x))] * 2)


# ---- loops, branches, calls --------------------------------------------------------------------------------

SOME = ("cond_nested", "scan_reverse", "shared_layer")
LOOPS = {
    name: pytest.param(name) if name in SOME else pytest.param(name, marks=pytest.mark.slow)
    for name in {**PROGRAMS, **UNBOUNDED}
}


@pytest.mark.parametrize("name", LOOPS.values())
def test_control_flow(name: str) -> None:
    """Jacobians of programs with control flow equal JAX's, in both modes."""
    function, arguments = {**PROGRAMS, **UNBOUNDED}[name]
    wrt = floats(arguments)

    def differentiable(*values: Any) -> Any:
        return [y for y in jax.tree.leaves(function(*values)) if np.issubdtype(y.dtype, np.floating)]

    expected = leaves(jax.jacfwd(differentiable, wrt), arguments)
    program = load(exported(function, *arguments))
    for mode in ("forward", "reverse"):
        agree(program.jacobian(mode=mode), arguments, expected)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in LOOPS if name != "ctc_like"])
def test_control_flow_twice(name: str) -> None:
    function, arguments = {**PROGRAMS, **UNBOUNDED}[name]
    wrt = floats(arguments)

    def differentiable(*values: Any) -> Any:
        return [y for y in jax.tree.leaves(function(*values)) if np.issubdtype(y.dtype, np.floating)]

    expected = leaves(jax.jacfwd(jax.jacfwd(differentiable, wrt), wrt), arguments)
    program = load(exported(function, *arguments))
    agree(program.hessian(), arguments, expected)
    agree(
        program.laplacian(),
        arguments,
        traces(expected, len(program.laplacian().outputs), [arguments[i] for i in wrt]),
    )


OWN = """func.func private @f(%x: tensor<2xf64>) -> tensor<2xf64> attributes {tidu.vjp = @g} {
  %0 = stablehlo.sine %x : tensor<2xf64>
  return %0 : tensor<2xf64>
}
func.func private @g(%x: tensor<2xf64>, %ct: tensor<2xf64>) -> tensor<2xf64> {
  %c = stablehlo.constant dense<10.0> : tensor<2xf64>
  %0 = stablehlo.multiply %c, %ct : tensor<2xf64>
  return %0 : tensor<2xf64>
}
func.func @main(%x: tensor<2xf64>) -> tensor<2xf64> {
  %0 = call @f(%x) : (tensor<2xf64>) -> tensor<2xf64>
  return %0 : tensor<2xf64>
}"""


def test_a_function_with_a_vjp_of_its_own() -> None:
    """For a function with a custom VJP, reverse mode uses this VJP, and forward mode is refused."""
    program = load(OWN)
    agree(program.jacobian(mode="reverse"), [random(2)], [10 * np.eye(2)])
    with pytest.raises(
        Unsupported, match="the function defines its derivative as the VJP @g; only reverse mode"
    ):
        program.jacobian(mode="forward")


def test_batched_tangents_and_cotangents() -> None:
    """A JVP or VJP with a batch of vectors equals one JVP or VJP for each vector of the batch."""
    function, arguments = PROGRAMS["rnn"]
    program = load(exported(function, *arguments))
    for kind in ("jvp", "vjp"):
        one, many = getattr(program, kind)(), getattr(program, kind)(batch=3)
        count = len(program.inputs)
        given = [random(*port.type.shape) for port in many.inputs[count:]]
        assert [port.name for port in many.inputs] == [port.name for port in one.inputs]
        actual = run(many, [*arguments, *given])
        rows = [run(one, [*arguments, *(x[i] for x in given)]) for i in range(3)]
        first = len(program.outputs)
        for i, y in enumerate(actual):
            wanted = rows[0][i] if i < first else np.stack([row[i] for row in rows])
            np.testing.assert_allclose(y, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("conjugate", [False, True])
def test_batches_of_complex_cotangents(conjugate: bool) -> None:
    """Batched VJPs of a complex function equal a formula.

    The function returns one value twice, so the cotangents of both outputs are summed.
    """
    text = """func.func @main(%z: tensor<2xcomplex<f64>>) -> (tensor<2xcomplex<f64>>, tensor<2xcomplex<f64>>) {
      %0 = stablehlo.multiply %z, %z : tensor<2xcomplex<f64>>
      return %0, %0 : tensor<2xcomplex<f64>>, tensor<2xcomplex<f64>>
    }"""
    program = load(text).vjp(conjugate=conjugate, batch=3)
    z, *ct = (random(*sizes) + 1j * random(*sizes) for sizes in ((2,), (3, 2), (3, 2)))
    *_, batch_results = run(program, [z, *ct])
    np.testing.assert_allclose(batch_results, 2 * (z if conjugate else np.conj(z)) * sum(ct), rtol=1e-13)


# ---- the examples ------------------------------------------------------------------------------------------

WRT = {"mlp": ["b3", "b2"], "convnet": ["b", "shift1"], "transformer": ["ln1_shift"]}


def example(name: str) -> tuple[Program, list[Array], Callable[..., Any], list[str]]:
    """The program of an example, its arguments, its loss in JAX as a function of some parameters, and their names."""
    program = load(EXAMPLES / f"{name}_f64.mlir")
    with np.load(EXAMPLES / f"{name}_f64.npz") as stored:
        arguments = [stored[f"input.{i}"] for i in range(len(program.inputs))]
    keys = [port.name[8:-2] for port in program.inputs if port.name.startswith("params")]
    model = script("models").MODELS[name]

    def loss(*values: Any) -> Any:
        params = dict(zip(keys, arguments, strict=False)) | dict(zip(WRT[name], values, strict=True))
        return model.loss(params, *arguments[len(keys) :])

    return program, arguments, loss, [f"params['{key}']" for key in WRT[name]]


@pytest.mark.parametrize("kind", ["jacobian", pytest.param("hessian", marks=pytest.mark.slow)])
def test_by_iree(kind: str) -> None:
    function, arguments = SMALL["two_outputs"]
    program = load(exported(function, *arguments))
    expected = leaves((jax.hessian if kind == "hessian" else jax.jacfwd)(function, (0, 1)), arguments)
    for y, wanted in zip(getattr(program, kind)().compile()(*arguments), expected, strict=True):
        np.testing.assert_allclose(y, wanted, rtol=0, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("name", WRT)
def test_examples(name: str) -> None:
    """For an example network, Hessians, Jacobians and Laplacians with respect to some parameters equal JAX's.

    The Hessians run on IREE, the other derivatives on XLA.
    """
    program, arguments, loss, wrt = example(name)
    positions = [next(i for i, port in enumerate(program.inputs) if port.name == key) for key in wrt]
    point = [arguments[i] for i in positions]
    with jax.default_matmul_precision("highest"):
        expected = leaves(jax.hessian(loss, tuple(range(len(wrt)))), point)
        gradient = leaves(jax.grad(loss, tuple(range(len(wrt)))), point)
    for y, wanted in zip(program.hessian(wrt).compile()(*arguments), expected, strict=True):
        np.testing.assert_allclose(y, wanted, rtol=0, atol=1e-10 * np.max(np.abs(wanted)))
    for derivative in (program.jacobian(wrt, "forward"), program.jacobian(wrt)):
        for y, wanted in zip(by_xla(derivative.text, arguments), gradient, strict=True):
            np.testing.assert_allclose(y, wanted, rtol=0, atol=1e-10 * np.max(np.abs(wanted)))
    (laplacian,) = by_xla(program.laplacian(wrt).text, arguments)
    np.testing.assert_allclose(laplacian, traces(expected, 1, point)[0], rtol=1e-10)


def test_an_example() -> None:
    """The Hessian of the perceptron with respect to its last bias equals JAX's.

    With respect to other parameters, the test would take minutes.
    """
    program, arguments, loss, _ = example("mlp")
    point = [arguments[2], arguments[1]]
    expected = leaves(jax.hessian(loss), point)
    (actual,) = by_xla(program.hessian("params['b3']").text, arguments)
    np.testing.assert_allclose(actual, expected[0], rtol=0, atol=1e-12)


def test_newton() -> None:
    """The first two derivatives of a square root, computed by Newton's method in a loop, equal the formulas.

    They are y' = 1 / (2 x^(1/2)) and y'' = -1 / (4 x^(3/2)).
    """
    program = load(EXAMPLES / "newton.mlir")
    (first,) = run(program.jacobian(), [np.float64(2)])
    (second,) = run(program.hessian(), [np.float64(2)])
    np.testing.assert_allclose([first, second], [1 / (2 * 2**0.5), -1 / (4 * 2**1.5)], rtol=1e-8)


# ---- what is refused ---------------------------------------------------------------------------------------


def test_complex_values() -> None:
    text = """func.func @main(%x: tensor<2xf64> {tidu.name = "x"}, %z: tensor<2xcomplex<f64>> {tidu.name = "z"})
      -> tensor<2xcomplex<f64>> {
      %0 = stablehlo.complex %x, %x : tensor<2xcomplex<f64>>
      %1 = stablehlo.multiply %0, %z : tensor<2xcomplex<f64>>
      return %1 : tensor<2xcomplex<f64>>
    }"""
    program = load(text)
    z = random(2) + 1j * random(2)
    agree(program.jacobian("x"), [random(2), z], [np.diag((1 + 1j) * z)])
    with pytest.raises(RequestError, match=r"needs real inputs; 'z' is of type tensor<2xcomplex<f64>>"):
        program.jacobian()
    for derivative in (lambda: program.jacobian("x", "reverse"), lambda: program.hessian("x")):
        with pytest.raises(RequestError, match="in reverse mode needs real outputs"):
            derivative()
    assert str(program.laplacian("x").outputs[0].type) == "tensor<2xcomplex<f64>>"


def test_requests() -> None:
    program = load(exported(two_outputs, *SMALL["two_outputs"][1]))
    with pytest.raises(RequestError, match="mode must be one of auto, forward, reverse, not 'sideways'"):
        program.jacobian(mode="sideways")
    with pytest.raises(RequestError, match="sparsity must be one of"):
        program.jacobian(sparsity="dense")
    with pytest.raises(RequestError, match="the batch size must be at least 1, not 0"):
        program.jvp(batch=0)
    dynamic = load("""func.func @main(%x: tensor<?xf64>) -> tensor<?xf64> {
      %0 = stablehlo.sine %x : tensor<?xf64>
      return %0 : tensor<?xf64>
    }""")
    with pytest.raises(RequestError, match="jacobian needs static shapes"):
        dynamic.jacobian()
    with pytest.raises(RequestError, match="cannot be batched; only tensors of static shape can"):
        dynamic.vjp(batch=2)
