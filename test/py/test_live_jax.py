"""Compares `tiduc.jit`, which compiles JAX functions when they are called, with `jax.jit`."""

from collections.abc import Iterator
from typing import Any

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tiduc
from tiduc.dialect.errors import RequestError, TiducError
from tiduc.live import jax_functions

PARAMS = {"w": np.linspace(-1, 1, 6, dtype=np.float32).reshape(3, 2)}
X = np.linspace(0, 1, 12, dtype=np.float32).reshape(4, 3)


def layer(p: Any, x: Any, *, scale: float = 2.0) -> Any:
    return {"y": jnp.tanh(x @ p["w"]) * scale, "shape": (x.shape[0], jnp.sum(x))}


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Fixture: a list to which each function is appended when tiduc imports it."""
    seen: list[Any] = []
    imported = jax_functions.from_jax

    def counted(function: Any, *example: Any, **options: Any) -> Any:
        seen.append(function)
        return imported(function, *example, **options)

    monkeypatch.setattr(jax_functions, "from_jax", counted)
    yield seen


def agree(found: Any, expected: Any) -> None:
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for x, y in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert jnp.asarray(x).dtype == jnp.asarray(y).dtype
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6)


@pytest.mark.more
def test_each_structure_shape_and_type_is_compiled_once(traced: list[Any]) -> None:
    f = tiduc.jit(layer)
    for arguments, keywords, count in (
        ((PARAMS, X), {}, 1),
        ((PARAMS, X + 1), {}, 1),
        ((PARAMS, X[:2]), {}, 2),
        ((PARAMS, X), {"scale": 3.0}, 3),
        ((PARAMS, X), {"scale": 4.0}, 3),
        ((PARAMS, X), {"scale": np.float32(4.0)}, 4),  # a NumPy scalar is not weakly typed
    ):
        agree(f(*arguments, **keywords), jax.jit(layer)(*arguments, **keywords))
        assert len(traced) == count


def test_the_setting_of_64_bits_counts(traced: list[Any]) -> None:
    f = tiduc.jit(lambda x: x * jnp.arange(2.0)[1])
    x = np.float32(3)
    assert f(x).dtype == jnp.float32
    with jax.enable_x64(True):
        assert f(x).dtype == jax.jit(lambda x: x * jnp.arange(2.0)[1])(x).dtype == jnp.float64
    assert len(traced) == 2


@pytest.mark.more
def test_static_arguments_are_given_by_position_and_by_name(traced: list[Any]) -> None:
    def power(x: Any, n: int, mode: str) -> Any:
        return x**n if mode == "power" else x * n

    f = tiduc.jit(power, static_argnums=1, static_argnames="mode")
    agree(f(X, 2, "power"), X**2)
    agree(f(X, n=2, mode="power"), X**2)
    agree(f(X, 3, mode="times"), X * 3)
    agree(f(X, 3, "times"), X * 3)
    with pytest.raises(RequestError, match="cannot be hashed"):
        f(X, [1], "times")


@pytest.mark.more
def test_modules_of_equinox(traced: list[Any]) -> None:
    net = equinox.nn.MLP(3, 2, 4, 1, key=jax.random.PRNGKey(0))
    f = tiduc.jit(lambda net, x: net(x))
    agree(f(net, X[0]), net(X[0]))
    other = equinox.tree_at(lambda n: n.layers[0].weight, net, net.layers[0].weight * 2)
    agree(f(other, X[0]), other(X[0]))
    assert len(traced) == 1


@pytest.mark.more
def test_transforms_of_jax() -> None:
    def loss(f: Any) -> Any:
        return lambda p, x: jnp.sum(f(p, x)["y"] ** 2)

    f = tiduc.jit(layer)
    for transform in (
        jax.grad,
        lambda f: jax.jit(jax.grad(f)),
        lambda f: jax.vmap(jax.grad(f), (None, 0)),
        lambda f: jax.jacfwd(f, 1),
    ):
        x = X[None] * np.array([[[1]], [[2]]], np.float32)
        agree(transform(loss(f))(PARAMS, x[:, :2]), transform(loss(layer))(PARAMS, x[:, :2]))


def test_functions_that_cannot_be_traced() -> None:
    with pytest.raises(TiducError, match="JAX cannot export the function: .*concrete value"):
        tiduc.jit(lambda x: float(x[0, 0]))(X)
    with pytest.raises(RequestError, match="make the array an argument"):
        jax.grad(lambda w: tiduc.jit(lambda x: jnp.sum(w * x))(X))(2.0)
