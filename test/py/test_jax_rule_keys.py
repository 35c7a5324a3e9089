"""Tests that `from_jax` exports the derivative of a function once, for all calls and orders, and rejected tangents."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from harness.compare import compare
from jax.scipy.sparse.linalg import cg

import tiduc
from tiduc.dialect.errors import Unsupported
from tiduc.models import from_jax as importer
from tiduc.models.jax import derivatives
from tiduc.models.jax.identity import RuleKeys


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the derivatives that `from_jax` exports."""
    names: list[str] = []
    export = importer._exported

    def recorded(*arguments: Any) -> Any:
        if len(arguments) > 6:
            names.append(arguments[6].name)
        return export(*arguments)

    monkeypatch.setattr(importer, "_exported", recorded)
    return names


def endless(depth: int) -> Callable[[Any], Any]:
    """Cosine with a derivative that calls a new function: the derivatives of all orders differ."""
    assert depth < 8

    @jax.custom_jvp
    def function(x: Any) -> Any:
        return jnp.cos(x)

    function.defjvp(lambda x, dx: (function(x[0]), -endless(depth + 1)(x[0] - jnp.pi / 2) * dx[0]))
    return function


def test_solvers_in_derivatives_add_no_orders(exported: list[str]) -> None:
    """A solver in the derivative of the last order has functions of its own, one level deeper."""

    @jax.custom_jvp
    def function(x: Any) -> Any:
        return x**3

    def rule(x: Any, dx: Any) -> Any:
        solution, _ = cg(lambda v: v * (2 + endless(0)(x[0])), 3 * x[0] ** 2 * (2 + jnp.cos(x[0])))
        return function(x[0]), solution * dx[0]

    function.defjvp(rule)
    with jax.enable_x64(True):
        x = np.array([0.4])
        program = tiduc.from_jax(lambda x: jnp.sum(function(x)), x, custom_derivatives=1)
        compare(program.grad().compile(engine="reference")(x), [3 * x**2], 1e-9)
    assert len(exported) <= 4  # the derivative, the system of its solver, the transposed solver and system


def test_the_number_of_derivatives_is_limited(exported: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(derivatives, "MOST", 3)
    program = tiduc.from_jax(endless(0), np.float32(0.3), custom_derivatives=9)
    assert len(exported) == 3
    program = program.grad().grad().grad()
    with pytest.raises(Unsupported, match="from_jax exports at most 3 derivatives"):
        program.grad()


def test_equal_solvers_share_derivatives(exported: list[str]) -> None:
    def solved(a: Any, b: Any) -> Any:
        return cg(lambda v: a * v, b)[0]

    with jax.enable_x64(True):
        a, b = np.array([1.0, 2.0]), np.array([3.0, 4.0])
        program = tiduc.from_jax(lambda a, b: jnp.sum(solved(a, solved(a, b) + 1)), a, b)
        gradient = jax.grad(lambda a, b: jnp.sum(solved(a, solved(a, b) + 1)), (0, 1))
        compare(program.grad([0, 1]).compile(engine="reference")(a, b), gradient(a, b), 1e-9)
    assert len(exported) == 3


def test_unused_results_leave_the_rule_unchanged(exported: list[str]) -> None:
    """JAX wraps the rule of a call in a new function whenever it removes unused equations around the call."""

    @jax.custom_jvp
    def steep(x: Any) -> Any:
        return jnp.sin(x)

    steep.defjvp(lambda x, dx: (steep(x[0]), 2 * steep(x[0] + jnp.pi / 2) * dx[0]))

    def function(x: Any) -> Any:
        def step(c: Any, _: Any) -> Any:
            return steep(c), jnp.exp(c)  # nobody reads the exponential, so that JAX removes it

        twice, _ = jax.lax.scan(step, x, None, length=2)
        return jax.jvp(lambda x: jax.lax.scan(step, x, None, length=2)[0], (twice,), (x,))[1] + steep(x)

    with jax.enable_x64(True):
        x = np.array(0.3)
        program = tiduc.from_jax(jax.grad(function), x)
        compare(program.grad().compile(engine="reference")(x), [jax.grad(jax.grad(function))(x)], 1e-12)
    assert len(exported) == 1


def test_keys_of_jaxprs() -> None:
    def key(function: Callable[..., Any]) -> Any:
        return keys.key(jax.make_jaxpr(function)(np.float32(1), np.float32(2)))

    keys = RuleKeys()
    assert key(lambda x, y: jnp.sin(x) * y) == key(lambda a, b: jnp.sin(a) * b)
    assert key(lambda x, y: jnp.sin(x) * y) != key(lambda x, y: jnp.sin(y) * x)
    assert key(lambda x, y: x * 0.0 + y) != key(lambda x, y: x * -0.0 + y)
    assert key(lambda x, y: x + y) != key(lambda x, y: x - y)
    assert key(lambda x, y: jax.jit(jnp.sin)(x)) == key(lambda x, y: jax.jit(jnp.sin)(x))
    assert key(lambda x, y: jax.jit(jnp.sin)(x)) != key(lambda x, y: jax.jit(jnp.cos)(x))
    constants = [np.arange(3.0), np.arange(3.0), np.arange(3.0) + 1]
    first, second, third = [key(lambda x, y, c=c: x * jnp.asarray(c)) for c in constants]
    assert first == second != third


def test_keys_of_trees_and_sets() -> None:
    keys, tree = RuleKeys(), jax.tree.structure
    assert keys.key(tree({"a": 1, "b": (2, None)})) == keys.key(tree({"a": 3, "b": (4, None)}))
    assert keys.key(tree({"a": 1, "b": (2, None)})) != keys.key(tree({"a": 1, "b": [2, None]}))
    assert keys.key({1, "a"}) == keys.key({"a", 1}) != keys.key({"a", 2})


def test_vjps_that_reject_some_tangents_in_their_backward_pass() -> None:
    """JAX tells the forward pass which tangents are symbolic zeros; the backward pass raises the exception."""

    @jax.custom_vjp
    def first(x: Any, y: Any) -> Any:
        return jnp.sin(x) * y

    has_tangent = []

    def forwards(x: Any, y: Any) -> Any:
        has_tangent[:] = [x.perturbed, y.perturbed]
        return first(x.value, y.value), None

    def backwards(_: Any, ct: Any) -> Any:
        if has_tangent[1]:
            raise RuntimeError("no tangent of y")
        return 7 * ct, jnp.zeros_like(ct)

    first.defvjp(forwards, backwards, symbolic_zeros=True)
    x, y = np.float32(0.3), np.float32(2)
    program = tiduc.from_jax(lambda x, y: first(x, y) * x, x, y)
    expected = jax.grad(lambda x: first(x, y) * x)(x)
    np.testing.assert_allclose(program.grad("x").compile(engine="reference")(x, y)[0], expected, rtol=1e-6)
    with pytest.raises(Unsupported, match="no tangent of y"):
        program.grad("y")
