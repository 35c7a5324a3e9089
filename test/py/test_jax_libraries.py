"""Compares derivatives of programs of equinox, lineax, optimistix, jaxopt and diffrax with JAX's, and tests callbacks.

`test/sweep/jax_libraries.py` tests the programs in the documentation of these libraries.
"""

import importlib
import re
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np
import pytest
from harness.compare import compare

import tiduc
from tiduc.dialect.errors import TiducRemark, Unsupported

RNG = np.random.default_rng(0)
A, B = RNG.standard_normal((3, 3)) + 3 * np.eye(3), RNG.standard_normal(3)
TALL, LONG = RNG.standard_normal((5, 3)), RNG.standard_normal(5)
RAISES = "where the function would raise an exception because of a value, .*, the program gives NaN"


def check(function: Callable[..., Any], arguments: Sequence[Any], orders: str = "12") -> tiduc.Program:
    """Compares the gradient ("1") and the JVP of the gradient ("2") with JAX's, and returns the program."""
    with jax.enable_x64(True):
        program = tiduc.from_jax(function, *arguments)
        of = tuple(range(len(arguments)))
        gradient = jax.grad(function, of)
        if "1" in orders:
            compare(program.grad(of).compile(engine="xla")(*arguments), jax.jit(gradient)(*arguments), 1e-9)
        if "2" in orders:
            along = [np.cos(x + 1) for x in arguments]
            expected = jax.jit(lambda *x: jax.jvp(gradient, x, tuple(along))[1])(*arguments)
            compare(program.hvp(of).compile(engine="xla")(*arguments, *along), expected, 1e-8)
        return program


def test_callbacks_without_results_are_left_out() -> None:
    def printed(x: Any) -> Any:
        jax.debug.print("x = {}", x)
        jax.debug.callback(lambda _: None, x)
        return x**2

    x = np.float32(3)
    with pytest.warns(TiducRemark, match="the prints and debugging callbacks of the function are left out"):
        program = tiduc.from_jax(printed, x)
    compare(program.grad().compile(engine="reference")(x), [np.float32(6)])


def test_callbacks_with_results_are_refused() -> None:
    with pytest.raises(
        Unsupported, match="calls back the Python function sin, which a program cannot contain"
    ):
        tiduc.from_jax(lambda x: jax.pure_callback(np.sin, x, x), np.float32(1))


def test_checks_of_equinox_give_nan() -> None:
    with pytest.warns(TiducRemark, match=RAISES):
        program = tiduc.from_jax(lambda x: eqx.error_if(x, x > 3, "too large") ** 2, np.float32(1))
    compiled = program.compile(engine="reference")
    assert compiled(np.float32(2))[0] == 4 and np.isnan(compiled(np.float32(4))[0])
    assert program.grad().compile(engine="reference")(np.float32(2))[0] == 4


def test_numbers_in_modules_of_equinox_are_constants() -> None:
    pool = eqx.nn.AvgPool1d(2, 1)
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    program = tiduc.from_jax(lambda layer, x, scale: layer(x) * scale, pool, x, 2.0)
    assert [port.name for port in program.inputs] == ["x", "scale"]


def solved(solver: Any) -> Callable[..., Any]:
    def function(a: Any, b: Any) -> Any:
        return jnp.sum(lx.linear_solve(lx.MatrixLinearOperator(a), b, solver).value ** 2)

    return function


@pytest.mark.more
@pytest.mark.filterwarnings("ignore::tiduc.dialect.errors.TiducRemark")
@pytest.mark.parametrize(
    ("solver", "a", "b"),
    [
        (lx.LU(), A, B),
        (lx.GMRES(1e-12, 1e-12), A, B),
        (lx.QR(), TALL, LONG),
        (lx.QR(), TALL.T, B),
        (lx.Normal(lx.CG(1e-13, 1e-13)), TALL, LONG),
    ],
)
def test_solves_of_lineax_are_linear_solves(solver: Any, a: Any, b: Any) -> None:
    """A solve of lineax is imported as `tidu.linear_solve`, and its derivatives equal JAX's.

    Differentiating the exported ops would be wrong, because lineax stops the gradients of its factorization.
    """
    assert "tidu.linear_solve" in check(solved(solver), (a, b)).text


@pytest.mark.more
@pytest.mark.filterwarnings("ignore::tiduc.dialect.errors.TiducRemark")
@pytest.mark.parametrize("batched", ["b", "A", "A and b", "A of b"])
@pytest.mark.parametrize("solver", [lx.LU(), lx.SVD()])
def test_batches_of_solves(solver: Any, batched: str) -> None:
    """`jax.vmap` of a solve, and a batch of batches ("A of b"), which equinox describes by nested primitives."""

    def solve(a: Any, b: Any) -> Any:
        return lx.linear_solve(lx.MatrixLinearOperator(a), b, solver).value

    def function(a: Any, b: Any) -> Any:
        several, right = jnp.stack([a, a @ a]), jnp.stack([b, b**2])
        if batched == "b":
            x = jax.vmap(lambda b: solve(a, b))(right)
        elif batched == "A":
            x = jax.vmap(lambda a: solve(a, b))(several)
        elif batched == "A and b":
            x = jax.vmap(solve)(several, right)
        else:
            x = jax.vmap(lambda a: jax.vmap(lambda b: solve(a, b))(jnp.stack([b, b**2, b**3])))(several)
        return jnp.sum(x**3)

    check(function, (A, B))


@pytest.mark.more
@pytest.mark.filterwarnings("ignore::tiduc.dialect.errors.TiducRemark")
@pytest.mark.parametrize(
    ("solver", "a", "b"),
    [
        (lx.SVD(), A, B),
        (lx.SVD(), TALL, LONG),
        (lx.SVD(), TALL.T, B),
        (lx.LSMR(1e-13, 1e-13), TALL, LONG),
    ],
)
def test_solvers_of_any_rank(solver: Any, a: Any, b: Any) -> None:
    """A pseudo-inverse is imported as two systems of full rank, whose transposes need no Krylov method."""
    program = check(solved(solver), (a, b))
    assert len(set(re.findall(r"tidu.linear_solve = @[^,}]*", program.text))) == 2
    assert "tidu.transpose_solve" in program.text


@pytest.mark.more
@pytest.mark.filterwarnings("ignore::tiduc.dialect.errors.TiducRemark")
@pytest.mark.parametrize("is_wide", [False, True])
def test_solves_of_lower_rank(is_wide: bool) -> None:
    """Derivatives of a pseudo-inverse, where each change of the arguments preserves the rank 2 of a 5x3 matrix."""
    left, right = RNG.standard_normal((5, 2)), RNG.standard_normal((2, 3))

    def function(left: Any, right: Any, b: Any) -> Any:
        a = left @ right
        return solved(lx.SVD(rcond=1e-10))(a.T if is_wide else a, b)

    check(function, (left, right, B if is_wide else LONG))


@pytest.mark.filterwarnings("ignore::tiduc.dialect.errors.TiducRemark")
def test_gradients_of_least_squares_have_no_loop() -> None:
    """The solver of the normal equations also solves their transpose, so that no Krylov method is needed."""
    program = tiduc.from_jax(solved(lx.QR()), TALL.astype(np.float32), LONG.astype(np.float32))
    assert "stablehlo.while" not in program.grad([0, 1]).text


@pytest.mark.more
def test_solves_of_several_types_have_first_derivatives() -> None:
    def function(x: Any, y: Any) -> Any:
        operator = lx.DiagonalLinearOperator({"x": x, "y": y})
        solution = lx.linear_solve(operator, {"x": x**2, "y": y**2}).value
        return jnp.sum(solution["x"]) + jnp.sum(solution["y"]).astype(np.float64)

    with pytest.warns(TiducRemark, match=RAISES):
        program = check(function, (B, LONG.astype(np.float32)), "1")
    with pytest.raises(Unsupported, match="only first derivatives if its arrays have several types"):
        program.hvp([0, 1])


@pytest.mark.more
@pytest.mark.filterwarnings("ignore::tiduc.dialect.errors.TiducRemark")
@pytest.mark.parametrize("kind", ["root", "fixed point", "least squares", "minimum"])
def test_roots_of_optimistix(kind: str) -> None:
    """The derivative of a root found by optimistix equals JAX's, and solves a linear system.

    The loop of the solver is not differentiated.
    """
    optx = importlib.import_module("optimistix")

    def equation(y: Any, p: Any) -> Any:
        return jnp.tanh(A @ y) / 20 + p**2 - y

    def function(p: Any) -> Any:
        if kind == "root":
            y = optx.root_find(equation, optx.Newton(1e-12, 1e-12), jnp.zeros(3), p)
        elif kind == "fixed point":
            solver = optx.FixedPointIteration(1e-13, 1e-13)
            y = optx.fixed_point(lambda y, p: equation(y, p) + y, solver, jnp.zeros(3), p)
        elif kind == "least squares":
            y = optx.least_squares(equation, optx.LevenbergMarquardt(1e-13, 1e-13), jnp.zeros(3), p)
        else:
            y = optx.minimise(
                lambda y, p: jnp.sum(equation(y, p) ** 2), optx.BFGS(1e-12, 1e-12), jnp.zeros(3), p
            )
        return jnp.sum(y.value**3)

    program = check(function, (B,))
    assert "tidu.linear_solve" in program.text
    assert program.vjp().text.count("stablehlo.while") <= 3 * program.text.count("stablehlo.while")


@pytest.mark.more
@pytest.mark.filterwarnings("ignore::tiduc.dialect.errors.TiducRemark")
def test_batches_of_loops_with_buffers() -> None:
    """A batch of a loop writes to its buffers by a primitive of equinox, whose ops are differentiated in any order."""
    loops = importlib.import_module("equinox.internal")

    def written(x: Any) -> Any:
        def body(state: Any) -> Any:
            i, y, buffer = state
            return i + 1, jnp.sin(y) * 2, buffer.at[i].set(y)

        start = jnp.array(0), x, jnp.zeros(3)
        options = {"kind": "bounded", "max_steps": 3, "buffers": lambda state: state[2]}
        return loops.while_loop(lambda state: state[1] < 1.5, body, start, **options)[2]

    check(lambda x: jnp.sum(jax.vmap(written)(x) ** 2), (np.array([0.2, 0.5, 1.7]),))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::tiduc.dialect.errors.TiducRemark")
def test_nested_solvers_export_each_derivative_once() -> None:
    """In each step, `IndirectLevenbergMarquardt` finds a root, whose derivative solves another least-squares problem.

    Without shared derivatives, the import would export hundreds of them.
    """
    optx = importlib.import_module("optimistix")

    def residuals(y: Any, p: Any) -> Any:
        x = jnp.linspace(0.0, 1.0, 6)
        return y["k"] * jnp.exp(-y["r"] * x) - p * (1 + x**2) / (1 + 2 * x)

    def function(p: Any) -> Any:
        start = {"k": jnp.array(1.0), "r": jnp.array(0.5)}
        solver = optx.IndirectLevenbergMarquardt(1e-12, 1e-12)
        y = optx.least_squares(residuals, solver, start, p).value
        return y["k"] ** 2 + y["r"] ** 2

    with jax.enable_x64(True):
        p = np.array(1.5)
        program = tiduc.from_jax(function, p)
        names = set(re.findall(r"@(tidu\.own\.\d+(?:\.\w+)*)\(", program.text))
        assert 10 < len(names) < 50
        gradient = jax.jit(jax.grad(function))
        compare(program.grad().compile(engine="xla")(p), [gradient(p)], 1e-6)
        actual = program.hvp().compile(engine="xla")(p, p)
        compare(actual, [jax.jit(lambda p: jax.jvp(jax.grad(function), (p,), (p,))[1])(p)], 1e-6)


@pytest.mark.more
def test_roots_of_jaxopt() -> None:
    jaxopt = pytest.importorskip("jaxopt")

    def function(p: Any) -> Any:
        solver = jaxopt.FixedPointIteration(lambda y, p: jnp.tanh(y) / 3 + p**2, maxiter=200, tol=1e-14)
        return jnp.sum(solver.run(jnp.zeros(3), p).params ** 3)

    program = check(function, (B,), "1")
    assert "tidu.linear_solve" in program.text
    run, direction = program.grad().compile(engine="xla"), np.cos(B)  # JAX gives no second derivative
    difference = (run(B + 1e-5 * direction)[0] - run(B - 1e-5 * direction)[0]) / 2e-5
    compare(program.hvp().compile(engine="xla")(B, direction), [difference], 1e-6)


@pytest.mark.slow  # IREE compiles the gradient in 30 s
@pytest.mark.filterwarnings("ignore::tiduc.dialect.errors.TiducRemark")
@pytest.mark.parametrize("engine", ["iree", "xla"])
def test_the_default_solve_of_diffrax(engine: str) -> None:
    """The gradient of diffrax's `diffeqsolve` with its default adjoint equals JAX's.

    `diffeqsolve` checks for errors by callbacks, and its default adjoint is a function with a custom VJP.
    """
    diffrax = importlib.import_module("diffrax")

    def function(y: Any, p: Any) -> Any:
        term = diffrax.ODETerm(lambda t, y, p: jnp.stack([y[1], p[0] * (1 - y[0] ** 2) * y[1] - p[1] * y[0]]))
        controller = diffrax.PIDController(rtol=1e-3, atol=1e-5)
        return jnp.sum(
            diffrax.diffeqsolve(
                term, diffrax.Tsit5(), 0.0, 1.0, 0.1, y, p, stepsize_controller=controller, max_steps=64
            ).ys
            ** 2
        )

    y, p = np.array([1.0, 0.3], np.float32), np.array([1.2, 0.9], np.float32)
    expected = jax.jit(jax.grad(function, (0, 1)))(y, p)
    if engine == "iree":
        program = tiduc.from_jax(function, y, p).grad([0, 1])
    else:  # imports the gradient that JAX computes
        program = tiduc.from_jax(jax.grad(function, (0, 1)), y, p)
    compare(program.compile(engine=engine)(y, p), expected, 1e-4)
