"""Tests derivatives of eager arrays: complex values, views, writes into arrays, and the results of `grad`."""

import copy
import math
import pickle
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from harness.eager_check import V, X, same_gradients

from tiduc.dialect.errors import RequestError
from tiduc.eager import Array, Interpreter, Session, executing, grad, no_grad

pytestmark = pytest.mark.usefixtures("interpreted")


# ---- complex values ----------------------------------------------------------------------------------------


def test_complex_gradients() -> None:
    """The gradient of |z|^2 is 2 z, because the inner product is Re(conj(a) b). JAX's gradient is its conjugate."""
    z = Array([1 + 2j, -0.5j], requires_grad=True)
    (np.abs(z) ** 2).sum().backward()
    np.testing.assert_allclose(z.grad.data, 2 * z.data)
    z.grad = None
    np.real(np.exp(z) * np.conjugate(z) ** 3).sum().backward()
    expected = jax.grad(lambda z: jnp.real(jnp.exp(z) * jnp.conjugate(z) ** 3).sum())(jnp.asarray(z.data))
    np.testing.assert_allclose(z.grad.data, np.conjugate(expected))
    with pytest.raises(RequestError, match="without a seed, it must be one real number"):
        z[0].backward()


# ---- writes and views --------------------------------------------------------------------------------------


def test_values_are_those_that_were_read() -> None:
    """If x is overwritten between two uses, each use has the value of its time: the gradient is that of x^2 (x + 1)."""
    x = Array(3.0, requires_grad=True)
    y = x * x
    x += 1
    (y * x).backward()
    assert x.grad.item() == 3 * 9 + 2 * 3 and x.item() == 4


def test_writes() -> None:
    def f(xp: Any, x: Any, v: Any) -> Any:
        w = x * 1.0
        if xp is jnp:
            w = w.at[0].set(v).at[1, 1].multiply(3.0).at[:, ::2].add(v[0]).at[w > 0.35].set(v[1])
            return (w * x).at[np.array([1, 1]), np.array([0, 0])].set(x[0, 1:])
        mask = X > 0.35
        w[0] = v
        w[1, 1] *= 3.0
        w[:, ::2] += v[0]
        w[mask] = v[1]
        w = w * x
        w[np.array([1, 1]), np.array([0, 0])] = x[0, 1:]
        return w

    same_gradients(f, X, V)


def test_writes_convert_and_broadcast() -> None:
    x = Array(np.zeros((2, 3), np.float32))
    x[0] = 1
    x[1] = np.array([[1.5, 2.5, 3.5]])
    x += np.float64(1)
    np.testing.assert_array_equal(x.data, np.array([[2, 2, 2], [2.5, 3.5, 4.5]], np.float32))
    counts = Array(np.zeros(2, np.int32))
    with pytest.raises(TypeError, match="cannot be written"):
        counts += 0.5
    with pytest.raises(ValueError, match="cannot be written"):
        x += np.ones((4, 2, 3))
    with pytest.raises(ValueError):
        x[0] = np.ones(4)


def views(x: Any) -> list[Any]:
    """Writes into an array through views, and reads views after writes. Returns the arrays that were read.

    The test compares the results for NumPy arrays and eager arrays.
    """
    row, column, turned, line, late = x[0], x[:, 1:], x.T, x.reshape(-1), x[1:]
    row[1] = 10.0
    column[1, 0] += 5.0
    turned[2, 0] = -1.0
    line[3] = 7.0
    late[0][2] = 0.5
    x[1, 1] *= 2.0
    inner = column[:, 1:][::-1]
    inner[0] = 99.0
    np.flip(x)[0, 0] += 0.25
    x[1].reshape(3, 1)[2] = 8.0  # a view of a view
    x.T.reshape(-1)[0] = -9.0  # a copy, as in NumPy
    x[:, :2].reshape(4)[1] = -9.0
    x.T.reshape(3, 2, 1)[1, 0] = 6.5
    np.squeeze(x[:1])[0] = 7.25
    copied = x.copy()
    copied[:] = 0.0
    taken = x[np.array([0, 1])]
    taken[0, 0] = -50.0
    number = x[0, 0]
    number += 1000.0
    return [x, row, column, turned, line, late, inner, copied, taken, number]


def test_views_are_those_of_numpy() -> None:
    for actual, expected in zip(views(Array(X * 1.0)), views(X * 1.0), strict=True):
        np.testing.assert_array_equal(np.asarray(actual), expected)


def test_parts_of_complex_values_are_views() -> None:
    z, expected = Array(V + 2j), V + 2j
    for x in (z, expected):
        x.real[1:] += 5.0
        x.imag[0] = -1.0
        x[1:].imag[...] *= 2.0
    np.testing.assert_array_equal(z.data, expected)
    x = Array(V)
    x.real[0] = 9.0
    assert x[0].item() == 9.0
    with pytest.raises(TypeError, match="no imaginary part"):
        x.imag[0] = 1.0


def test_writes_through_views_are_differentiated() -> None:
    x = Array(X, requires_grad=True)
    y = x * 2.0
    y.T[1, 0] = y[1, 2] ** 2
    (y[0] * V).sum().backward()
    expected = np.zeros_like(X)
    expected[0, [0, 2]] = 2 * V[[0, 2]]
    expected[1, 2] = V[1] * 8 * X[1, 2]
    np.testing.assert_allclose(x.grad.data, expected)


def test_a_view_is_not_a_constant() -> None:
    """A view has a derivative, even if it was created under `no_grad` or before its base had `requires_grad`."""
    x = Array(V)
    early = x[1:]
    x.requires_grad = True
    with no_grad():
        inside = x[:2]
        x += 1.0
        assert inside.data[0] == V[0] + 1.0 and x.is_leaf
    ((early * inside).sum() + early[0]).backward()
    np.testing.assert_allclose(x.grad.data, [V[1] + 1, V[0] + 1 + V[2] + 1 + 1, V[1] + 1])


def test_versions() -> None:
    x = Array(X)
    view = x[0]
    assert x.version == 0
    view[0] = 1.0
    assert (x.version, view.version) == (1, 1)


def test_scalars_are_names_of_numbers() -> None:
    x = Array([1.0, 2.0], requires_grad=True)
    total = first = x.sum()
    total += 10.0
    assert (first.item(), total.item()) == (3.0, 13.0)
    with pytest.raises(TypeError):
        first[...] = 1.0


# ---- the values of `grad` ----------------------------------------------------------------------------------


def test_gradients_accumulate_only_if_asked() -> None:
    x = Array([1.0, 2.0], requires_grad=True)
    for accumulate, expected in ((False, [2, 4]), (False, [2, 4]), (True, [4, 8]), (True, [6, 12])):
        (x * x).sum().backward(accumulate=accumulate)
        np.testing.assert_array_equal(x.grad.data, expected)
    other = Array(1.0, requires_grad=True)
    (other * 2).backward()
    np.testing.assert_array_equal(x.grad.data, [6, 12])  # `other` does not depend on this input
    np.floor(x).sum().backward()
    np.testing.assert_array_equal(x.grad.data, [0, 0])


def test_order_three() -> None:
    x = Array(2.0, requires_grad=True)
    y = x**3 * np.sin(x)
    values = []
    for _ in range(3):
        y = grad(y, x, create_graph=True)
        values.append(y.item())
    f = lambda x: x**3 * jnp.sin(x)  # noqa: E731
    for value in values:
        f = jax.grad(f)
        np.testing.assert_allclose(value, f(2.0), rtol=1e-12)


def test_backward_that_is_recorded() -> None:
    """`backward(create_graph=True)` can be differentiated: the gradient of the squared norm of a gradient is correct.

    The gradient of sum x^3 is 3 x^2. The gradient of its squared norm, sum 9 x^4, is 36 x^3.
    """
    x = Array([1.0, 2.0], requires_grad=True)
    np.sum(x**3).backward(create_graph=True)
    np.sum(x.grad**2).backward()
    np.testing.assert_allclose(x.grad.data, [36, 288])


def test_retained_intermediates() -> None:
    x = Array(2.0, requires_grad=True)
    y = x * x
    y.retain_grad()
    (y * 3.0).backward()
    assert (y.grad.item(), x.grad.item()) == (3.0, 12.0)
    assert x.is_leaf and not y.is_leaf


def test_detached() -> None:
    x = Array(3.0, requires_grad=True)
    (x * x.detach()).backward()
    assert x.grad.item() == 3.0
    with no_grad():
        y = x * x
    assert not y.requires_grad and x.requires_grad
    with pytest.raises(RequestError, match="depends on nothing that requires grad"):
        y.backward()


def test_a_step_of_a_parameter() -> None:
    w = Array([1.0, 2.0], requires_grad=True)
    losses = []
    for _ in range(3):
        loss = np.sum(w * w)
        loss.backward()
        with no_grad():
            w -= 0.25 * w.grad
        losses.append(loss.item())
    assert losses == [5.0, 1.25, 0.3125] and w.is_leaf and w.requires_grad


def test_copies_are_arrays_of_their_own() -> None:
    x = Array(V, requires_grad=True)
    for duplicate in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        (duplicate * duplicate).sum().backward()
        np.testing.assert_array_equal(duplicate.grad.data, 2 * V)
        assert x.grad is None and duplicate.is_leaf
    copied = copy.copy(x)
    copied[0] = 5.0
    (copied * 2.0).sum().backward()
    np.testing.assert_array_equal(x.grad.data, [0, 2, 2])
    with pytest.raises(RequestError, match="computed from other arrays"):
        copy.deepcopy(x * 2)


def test_masks_of_arrays() -> None:
    x = Array(V, requires_grad=True)
    y = x * 1.0
    y[y < 0] *= 10.0
    y[x > 0.5] = 0.0
    np.sum(y[y != 0]).backward()
    np.testing.assert_array_equal(x.grad.data, [0, 10, 1])
    assert y[np.argmax(y)].item() == y.max().item() == V[2]


def test_operations_that_would_lose_a_derivative() -> None:
    x = Array(X, requires_grad=True)
    plain = np.zeros_like(X)
    for f in (
        lambda: np.asarray(x),
        lambda: np.array([x, x]),
        lambda: np.add(x, 1.0, out=plain),
        lambda: float(x[0, 0]),
        lambda: math.sin(x[0, 0]),
        lambda: np.full((2, 2), 5.0) + np.array([x[0, 0], x[0, 1]]),
        lambda: plain.__setitem__(0, x[0]),
    ):
        with pytest.raises(RequestError, match="the array requires grad, but the result would not"):
            f()
    np.testing.assert_array_equal(np.add(x.detach(), 1.0, out=plain), X + 1.0)
    with no_grad():
        np.testing.assert_array_equal(np.asarray(x), X)
    with pytest.raises(ValueError):
        x.data[0, 0] = 5.0
    with pytest.raises(RequestError, match="no derivative"):
        Array([1, 2], requires_grad=True)
    with pytest.raises(RequestError, match="computed from others"):
        (x * 2).requires_grad = False
    with pytest.raises(RequestError, match="does not require grad"):
        grad(x.sum(), Array(1.0))
    with pytest.raises(RequestError, match="without a seed, it must be one real number"):
        x.backward()


def test_released_traces() -> None:
    x = Array(3.0, requires_grad=True)
    y = x * x
    y.backward(retain=True)
    y.backward()
    with pytest.raises(RequestError, match="released by an earlier backward"):
        y.backward()


def test_zero_derivatives_are_explicit() -> None:
    x, y = Array(X, requires_grad=True), Array(V, requires_grad=True)
    dx, dy = grad(np.sum(x), [x, y])
    np.testing.assert_array_equal(dx.data, np.ones_like(X))
    np.testing.assert_array_equal(dy.data, np.zeros_like(V))


def test_unused_structures_are_dropped() -> None:
    here = Session(Interpreter(limit=3), limit=2)
    with executing(here):
        old = Array(np.arange(1.0, 4.0), requires_grad=True)
        loss = np.sum(old * old * old)
        for n in range(2, 14):
            x = Array(np.arange(n, dtype=float), requires_grad=True)
            np.sum(np.sin(x) * x).backward()
            np.testing.assert_allclose(x.grad, np.cos(x.data) * x.data + np.sin(x.data), atol=1e-15)
            assert len(here.recorder.graphs) == 2
        loss.backward()  # the graphs of the loss have been dropped from the cache, and are rebuilt
    np.testing.assert_allclose(old.grad, 3 * old.data**2)
    for factory in (lambda: Session(limit=0), lambda: Interpreter(0)):
        with pytest.raises(RequestError, match="at least 1 structure"):
            factory()
