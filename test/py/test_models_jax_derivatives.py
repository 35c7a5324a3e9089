"""Functions of JAX with custom derivatives: `jax.custom_jvp` and `jax.custom_vjp`."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import jax.scipy.special as special
import numpy as np
import pytest
from harness.compare import compare
from jax import lax

import tiduc
from tiduc.dialect.errors import Unsupported


@jax.custom_jvp
def steep(x: Any) -> Any:
    """A function whose rule triples the slope.

    The rule calls the function, so that the next derivative triples again.
    """
    return jnp.sin(x)


steep.defjvp(lambda x, dx: (steep(x[0]), 3 * jnp.cos(x[0]) * steep(x[0]) * dx[0]))


@jax.custom_vjp
def product(x: Any, y: Any) -> Any:
    return x * y


product.defvjp(lambda x, y: (product(x, y), (x, y)), lambda xy, ct: (jnp.sin(xy[0]) * ct, ct * xy[0] * xy[1]))


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def power(x: Any, n: int) -> Any:
    return x**n


power.defjvp(lambda n, x, dx: (power(x[0], n), (n + 1) * power(x[0], n - 1) * dx[0]))


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def doubled(f: Callable[[Any], Any], x: Any) -> Any:
    return f(x)


doubled.defvjp(lambda f, x: (f(x), x), lambda f, x, ct: (2 * jax.vjp(f, x)[1](ct)[0],))


@jax.custom_vjp
def scaled(x: Any, k: Any) -> Any:
    """A function of integers k, which have no cotangent."""
    return x * k


scaled.defvjp(lambda x, k: (x * k, k), lambda k, ct: (10 * k * ct, None))


@jax.custom_jvp
def counted(leaves: dict[str, Any]) -> dict[str, Any]:
    """A function that returns a tree of arrays, one of which has integers."""
    return {"twice": leaves["x"] * 2, "count": jnp.arange(3)}


counted.defjvp(
    lambda x, dx: (
        counted(x[0]),
        {"twice": 4 * dx[0]["x"], "count": np.zeros(3, jax.dtypes.float0)},
    )
)


def in_a_scan(x: Any) -> Any:
    y, sums = lax.scan(lambda c, _: (steep(c) + product(c, x), c.sum()), x, None, length=4)
    return y.sum() + sums.sum()


def in_nested_vmaps(x: Any) -> Any:
    return jax.vmap(jax.vmap(product, (None, 0)), (0, None))(x, x).sum()


def with_trees(x: Any) -> Any:
    tree = counted({"x": x})
    return (tree["twice"] * tree["count"]).sum()


FUNCTIONS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a JVP that calls its function": (lambda x: jnp.sum(steep(x) ** 2), "jvp vjp hvp"),
    "a VJP": (lambda x: jnp.sum(product(x, 1 / x) * steep(x)), "vjp"),
    "a constant argument": (lambda x: jnp.sum(power(x, 3)), "jvp vjp hvp"),
    "a function as an argument": (lambda x: jnp.sum(doubled(jnp.exp, x)), "vjp hvp"),
    "an argument of integers": (lambda x: scaled(x, jnp.arange(3)).sum(), "vjp hvp"),
    "trees": (with_trees, "jvp vjp hvp"),
    "a scan": (in_a_scan, "vjp"),
    "vmap": (in_nested_vmaps, "vjp"),
    "two branches": (
        lambda x: lax.cond(x[0] > 0.5, lambda: steep(x).sum(), lambda: product(x, x).sum()),
        "vjp",
    ),
    "calls of jitted functions": (lambda x: jax.jit(steep)(jax.jit(steep)(x)).sum(), "jvp vjp hvp"),
    "a checkpoint": (lambda x: jnp.sum(jax.checkpoint(lambda x: steep(product(x, x)))(x)), "vjp"),
    "a stop": (lambda x: (lax.stop_gradient(steep(x)) * steep(x)).sum(), "jvp vjp hvp"),
    "a gradient": (lambda x: jax.grad(lambda x: jnp.sum(steep(x) ** 2))(x).sum(), "jvp vjp hvp"),
    "JAX's own": (lambda x: jnp.sum(jnp.sinc(x) * jax.scipy.special.xlogy(x, x + 1)), "jvp vjp hvp"),
    "complex numbers": (lambda x: jnp.sum(jnp.abs(product(x + 2j, steep(x * 1j)))), "vjp"),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_are_those_of_jax(name: str) -> None:
    function, orders = FUNCTIONS[name]
    with jax.enable_x64(True):
        x, dx = np.array([0.3, 0.6, 0.8]), np.array([1.0, -0.4, 0.2])
        program = tiduc.from_jax(function, x)
        assert ("tidu.jvp" in program.text) or ("tidu.vjp" in program.text)
        wanted = {
            "jvp": lambda: jax.jvp(function, (x,), (dx,))[1],
            "vjp": lambda: jax.grad(function)(x),
            "hvp": lambda: jax.jvp(jax.grad(function), (x,), (dx,))[1],
        }
        arguments = {"jvp": (x, dx), "vjp": (x, np.ones(())), "hvp": (x, dx)}
        for order in orders.split():
            got = getattr(program, order)().compile(engine="reference")(*arguments[order])[-1]
            compare([got], [wanted[order]()], 1e-10, order)


def test_primitives_with_loops_keep_their_derivatives() -> None:
    assert "tidu.jvp" in tiduc.from_jax(special.gammaincc, 2.5, 1.5).text
    without = tiduc.from_jax(special.gammaincc, 2.5, 1.5, custom_derivatives=False)
    assert "tidu.jvp" not in without.text


@pytest.mark.more  # JAX expands the functions to many loops
@pytest.mark.parametrize("order", ["jvp", "vjp"])
def test_loops_of_primitives_have_jaxs_derivatives(order: str) -> None:
    """The loop of `gammainc` ends when the value has converged; the derivative toward a would be wrong by 1e-3."""
    with jax.enable_x64(True):
        x, dx = np.array([2.0, 0.6, 10.0]), np.array([1.0, -0.4, 0.2])

        def function(x: Any) -> Any:
            return jnp.sum(special.gammainc(x, x + 0.5) * special.gammaincc(2.5, x))

        derivative = getattr(tiduc.from_jax(function, x), order)()
        got = derivative.compile(engine="xla")(x, dx if order == "jvp" else np.ones(()))[-1]
        wanted = jax.jvp(function, (x,), (dx,))[1] if order == "jvp" else jax.grad(function)(x)
        compare([got], [wanted], 1e-12)


def test_loops_use_the_rule_at_order_two() -> None:
    """The second derivative of a loop calls the rule a second time; JAX does so only without a loop."""
    with jax.enable_x64(True):
        x, dx = np.array([0.3, 0.6, 0.8]), np.array([1.0, -0.4, 0.2])

        def unrolled(x: Any) -> Any:
            return steep(steep(steep(x))).sum()

        program = tiduc.from_jax(lambda x: lax.fori_loop(0, 3, lambda i, c: steep(c), x).sum(), x)
        (got,) = program.hvp().compile(engine="reference")(x, dx)
        compare([got], [jax.jvp(jax.grad(unrolled), (x,), (dx,))[1]])


@pytest.mark.parametrize("kind", ["jvp", "vjp"])
def test_a_derivative_that_reads_a_traced_array_is_refused(kind: str) -> None:
    """The derivative is exported separately, so the traced array of the outer function is unknown.

    The value does not need it.
    """

    def outer(x: Any, a: Any) -> Any:
        if kind == "jvp":
            inner: Any = jax.custom_jvp(lambda x: a * x)
            inner.defjvp(lambda x, dx: (inner(x[0]), 5 * a * dx[0]))
        else:
            inner = jax.custom_vjp(lambda x: a * x)
            inner.defvjp(lambda x: (a * x, None), lambda _, ct: (5 * ct,))
        return inner(x).sum()

    x, a = np.ones(3, np.float32), np.float32(2)
    program = tiduc.from_jax(outer, x, a)
    np.testing.assert_array_equal(program.compile(engine="reference")(x, a)[0], 6)
    with pytest.raises(Unsupported, match=r"traced array.*custom_derivatives=False"):
        program.grad("x")
    program = tiduc.from_jax(outer, x, a, custom_derivatives=False)
    (dx,) = program.grad("x").compile(engine="reference")(x, a)
    np.testing.assert_array_equal(dx, [2, 2, 2])


def test_a_function_with_a_vjp_that_reads_a_traced_array_has_no_derivative_in_it() -> None:
    """As in JAX, and as in diffrax's `BacksolveAdjoint`; the derivative in the arguments is kept."""

    def outer(x: Any, a: Any) -> Any:
        y = a * 2
        inner: Any = jax.custom_vjp(lambda x: x * y)
        inner.defvjp(lambda x: (x, None), lambda _, ct: (5 * ct,))
        return inner(x).sum()

    x, a = np.ones(3, np.float32), np.float32(2)
    program = tiduc.from_jax(outer, x, a)
    (dx,) = program.grad("x").compile(engine="reference")(x, a)
    np.testing.assert_array_equal(dx, [5, 5, 5])
    with pytest.raises(Unsupported, match="it has no derivative with respect to this array"):
        program.grad("a")


def test_a_derivative_that_defines_a_function_of_its_traced_arrays() -> None:
    """From order two on, the inner function's ops are differentiated, not its custom derivative."""

    @jax.custom_jvp
    def outer(x: Any) -> Any:
        return x**2

    @outer.defjvp
    def _rule(x: Any, dx: Any) -> Any:
        inner: Any = jax.custom_jvp(lambda y: x[0] * y)
        inner.defjvp(lambda y, dy: (inner(y[0]), x[0] * dy[0]))
        return outer(x[0]), 3 * inner(x[0]) * dx[0]

    with jax.enable_x64(True):
        x, dx = np.array([0.3, 0.6]), np.array([1.0, -0.4])
        program = tiduc.from_jax(lambda x: outer(x).sum(), x)
        compare(program.grad().compile(engine="reference")(x), [3 * x**2])
        compare(program.hvp().compile(engine="reference")(x, dx), [6 * x * dx])


def test_functions_without_static_shapes_are_differentiated_by_their_ops() -> None:
    (n,) = jax.export.symbolic_shape("n")
    program = tiduc.from_jax(lambda x: jnp.sum(steep(x)), jax.ShapeDtypeStruct((n,), np.float32))
    x = np.array([0.5, 1.0], np.float32)
    np.testing.assert_allclose(program.grad().compile()(x)[0], np.cos(x), rtol=1e-5)


def test_derivatives_that_reject_some_tangents() -> None:
    """As in JAX, the exception is raised only if the rejected tangent is not a symbolic zero."""

    @partial(jax.custom_jvp)
    def first(x: Any, y: Any) -> Any:
        return jnp.sin(x) * y

    def rule(x: Any, dx: Any) -> Any:
        if type(dx[1]) is not jax.custom_derivatives.SymbolicZero:
            raise RuntimeError("no tangent of y")
        return first(*x), 7 * dx[0]

    first.defjvp(rule, symbolic_zeros=True)
    x, y = np.float32(0.3), np.float32(2)
    program = tiduc.from_jax(lambda x, y: first(x, y) * x, x, y)
    expected = jax.grad(lambda x: first(x, y) * x)(x)
    np.testing.assert_allclose(program.grad("x").compile(engine="reference")(x, y)[0], expected, rtol=1e-6)
    for mode in (program.jvp, program.grad):
        with pytest.raises(Unsupported, match="no tangent of y"):
            mode()


def test_functions_of_equinox() -> None:
    """`filter_custom_vjp` rejects tangents of all arguments except the first."""
    equinox = pytest.importorskip("equinox")

    @equinox.filter_custom_vjp
    def scaled(x: Any, y: Any) -> Any:
        return x * y

    scaled.def_fwd(lambda perturbed, x, y: (x * y, None))
    scaled.def_bwd(lambda residuals, ct, perturbed, x, y: 5 * ct * y)
    x, y = np.float32(3), np.float32(2)
    program = tiduc.from_jax(lambda x, y: scaled(x, y) ** 2, x, y)
    expected = jax.grad(lambda x: scaled(x, y) ** 2)(x)
    np.testing.assert_allclose(program.grad("x").compile(engine="reference")(x, y)[0], expected)
    np.testing.assert_allclose(program.compile()(x, y)[0], 36)
    with pytest.raises(Unsupported, match=r"`\*args` and `\*\*kwargs` to `filter_custom_vjp` cannot be"):
        program.grad()


# ---- once each, at any depth ------------------------------------------------------------------------------


def nested(depth: int) -> Callable[[Any], Any]:
    """A function whose JVP calls another such function, `depth` levels deep; each rule scales by 1.5."""

    @jax.custom_jvp
    def function(x: Any) -> Any:
        return jnp.sin(x)

    inner: Callable[[Any], Any] = nested(depth - 1) if depth else jnp.cos
    function.defjvp(lambda x, dx: (function(x[0]), 1.5 * inner(x[0]) * dx[0]))
    return function


def test_calls_of_one_function_share_a_derivative_of_any_order() -> None:
    """JAX makes new objects for each call, also for the calls in the derivative of `steep`."""
    with jax.enable_x64(True):

        def function(x: Any) -> Any:
            return steep(jax.jit(steep)(x + 1))

        program, derivative = tiduc.from_jax(function, np.array(0.3)), function
        assert set(re.findall(r"tidu.jvp = (@tidu\.own\.\d+)", program.text)) == {"@tidu.own.0"}
        for _ in range(3):
            program, derivative = program.grad(), jax.grad(derivative)
        compare(program.compile(engine="reference")(np.array(0.3)), [derivative(0.3)], 1e-12)


def test_a_chain_of_derivatives() -> None:
    """All derivatives of a chain that ends are exported up to the order that is asked for, here four."""
    function = nested(3)
    with jax.enable_x64(True):
        derivative: Callable[[Any], Any] = function
        program = tiduc.from_jax(function, np.array(0.3))
        for _ in range(3):
            program, derivative = program.grad(), jax.grad(derivative)
        compare(program.compile(engine="reference")(np.array(0.3)), [derivative(0.3)], 1e-12)


def test_orders_beyond_the_last_one_are_refused() -> None:
    x = np.float32(0.3)
    function = nested(5)
    program = tiduc.from_jax(function, x, custom_derivatives=2)
    program.grad().grad()
    with pytest.raises(Unsupported, match=r"of which from_jax exported 2 orders; .*custom_derivatives=4"):
        program.grad().grad().grad()


def test_a_rule_that_calls_its_function_on_tangents() -> None:
    """The function is linear in tangents: its ops are differentiated, as by JAX, and not its rule without end."""

    @jax.custom_jvp
    def twice(x: Any) -> Any:
        return 2 * x

    twice.defjvp(lambda x, dx: (twice(x[0]), 3 * twice(dx[0])))

    def function(x: Any) -> Any:
        return twice(twice(x) * x) * x

    with jax.enable_x64(True):
        x, dx = np.array(0.3), np.array(0.7)
        program = tiduc.from_jax(function, x)
        compare(program.grad().compile(engine="reference")(x), [jax.grad(function)(x)])
        expected = jax.jvp(jax.grad(function), (x,), (dx,))[1]
        compare(program.hvp().compile(engine="reference")(x, dx), [expected])


# ---- derivatives of JAX that are poor: docs/conventions.md lists them with the way out --------------------


def test_log_ndtr_far_left() -> None:
    x = np.float32(-700)
    program = tiduc.from_jax(jax.scipy.special.log_ndtr, x, custom_derivatives=False)
    np.testing.assert_allclose(program.grad().compile(engine="reference")(x)[0], 700.0014, rtol=1e-6)


def test_sinc_near_zero() -> None:
    """A rule for the function's name replaces JAX's derivative, which is 0 near 0."""

    def slope(b: Any, x: Any, y: Any) -> Any:
        t = b.multiply(b.constant(np.pi, x), x)
        is_small = b.compare(b.abs(t), b.constant(0.01, x), "LT")
        square, one = b.multiply(t, t), b.constant(1, x)
        series = b.subtract(b.multiply(b.constant(0.1, x), square), one)
        near = b.multiply(b.constant(np.pi / 3, x), b.multiply(t, series))
        return b.select(is_small, near, b.divide(b.subtract(b.cosine(t), y), b.select(is_small, one, x)))

    mine = tiduc.OPSET.extended()
    mine.elementwise("func.call @sinc", slope)
    x = np.array([1e-9, -1e-3, 0.0, 0.7], np.float32)
    text = jax.jit(lambda x: jnp.sinc(x)).lower(x).as_text()
    dy = tiduc.load(text, opset=mine).jvp().compile(engine="reference")(x, np.ones_like(x))[1]
    wide = x.astype(float)
    expected = np.where(
        abs(wide) < 0.1,
        -(np.pi**2) / 3 * wide,
        (np.cos(np.pi * wide) - np.sinc(wide)) / np.where(wide, wide, 1),
    )
    np.testing.assert_allclose(dy, expected, rtol=2e-6)


def test_logsumexp_toward_weights_of_zero() -> None:
    a, b = np.zeros(4, np.float32), np.array([0, 1, 2, 4], np.float32)

    def weighted(b: Any) -> Any:
        top = lax.stop_gradient(jnp.max(a))
        return jnp.log(jnp.sum(b * jnp.exp(a - top))) + top

    gradient = tiduc.from_jax(weighted, b).grad().compile(engine="reference")(b)[0]
    np.testing.assert_allclose(gradient, np.full(4, 1 / 7), rtol=1e-6)
