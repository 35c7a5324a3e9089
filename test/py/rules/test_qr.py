"""QR factors, compared with JAX, and products of Householder reflectors, for which JAX has no derivative."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from harness.check_rule import check_rule, run
from harness.exports import exported, random
from jax import lax
from jax.scipy import linalg

from tiduc.loading import load

BOTH = [False, True]


@pytest.fixture(autouse=True)
def double() -> Any:
    with jax.enable_x64(True):
        yield


def factors(mode: str) -> Callable[..., Any]:
    return jax.jit(lambda x: jax.tree_util.tree_leaves(jnp.linalg.qr(x, mode=mode)))  # type: ignore[no-any-return]


# ---- factors -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "sizes", "complex_", "order"),
    [
        ("reduced", [3, 3], False, 2),
        ("reduced", [2, 4, 3], True, 1),
        ("reduced", [2, 4], True, 1),
        ("reduced", [0, 2], False, 1),
        ("complete", [4, 2], True, 1),
        ("r", [3, 2], False, 1),
    ],
)
def test_factors(mode: str, sizes: list[int], complex_: bool, order: int) -> None:
    x, function = random(*sizes, complex_=complex_), factors(mode)
    check_rule(exported(function, x), x, order=order, jax_function=function)


def test_pivoted_factors() -> None:
    x = random(4, 3, complex_=True)
    text = exported(lambda x: linalg.qr(x, pivoting=True, mode="economic"), x)
    check_rule(text, x, order=1, jax_function=lambda x: linalg.qr(x, pivoting=True, mode="economic")[:2])


@pytest.mark.parametrize(
    "x",
    [
        np.eye(4)[:, :3],
        np.triu(random(3, 3)),
        np.triu(random(2, 3)).astype(complex),
        random(3, 3).astype(complex),
    ],
)
def test_factors_where_reflectors_jump(x: Any) -> None:
    """At columns that are zero or real below the diagonal, derivatives of Q and R equal JAX's.

    They cannot be compared with finite differences, because LAPACK's call is discontinuous there.
    """
    check_rule(
        exported(factors("reduced"), x), x, order=1, jax_function=factors("reduced"), differences=False
    )


@pytest.mark.parametrize(("mode", "result"), [("complete", 0), ("raw", 1)])
def test_nan_where_reflectors_jump(mode: str, result: int) -> None:
    """The derivative of a reflector is NaN at a matrix where the reflector is discontinuous."""
    x = np.eye(4)[:, :2]
    p, count = load(exported(factors(mode), x)), 2
    ct = [np.zeros(y.type.shape) for y in p.outputs]
    ct[result] = random(*ct[result].shape)
    assert np.isnan(run(p.jvp(), [x, random(4, 2)])[count + result]).any()
    assert np.isnan(run(p.vjp(), [x, *ct])[count]).any()


@pytest.mark.parametrize(
    ("sizes", "complex_"), [([3, 2], False), ([3, 3], True), ([2, 3], False), ([1, 1], True)]
)
def test_reflectors_of_a_matrix(sizes: list[int], complex_: bool) -> None:
    x = random(*sizes, complex_=complex_)
    check_rule(exported(factors("raw"), x), x, order=1)


# ---- products of reflectors --------------------------------------------------------------------------------


def product(a: Any, tau: Any) -> Any:
    """The matrix Q of the reflectors in `a` and `tau`, computed by its definition."""
    m, k = a.shape[0], tau.shape[0]
    q = jnp.eye(m, dtype=a.dtype)
    for i in range(k):
        v = jnp.concatenate([jnp.zeros(i, a.dtype), jnp.ones(1, a.dtype), a[i + 1 :, i]])
        q = q - tau[i] * jnp.outer(q @ v, jnp.conj(v))
    return q


def test_householder_product() -> None:
    """Derivatives of a product of reflectors are right if it has more columns than reflectors."""
    a, tau = random(4, 3, complex_=True), random(2, complex_=True)
    text = exported(lax.linalg.householder_product, a, tau)
    check_rule(text, a, tau, order=1, jax_function=jax.jit(lambda a, tau: product(a, tau)[:, :3]))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("turned", BOTH)
@pytest.mark.parametrize("left", BOTH)
def test_ormqr(left: bool, turned: bool) -> None:
    complex_ = left != turned
    a, tau = random(3, 2, complex_=complex_), random(2, complex_=complex_)
    c = random(*([3, 2] if left else [2, 3]), complex_=complex_)

    def function(a: Any, tau: Any, c: Any) -> Any:
        q = product(a, tau)
        q = jnp.conj(q.T) if turned else q
        return q @ c if left else c @ q

    text = exported(lambda *x: lax.linalg.ormqr(*x, left=left, transpose=turned), a, tau, c)
    check_rule(text, a, tau, c, order=1, subsets=False, jax_function=jax.jit(function))


def test_batches_of_products() -> None:
    a, tau, c = random(2, 3, 2), random(2, 2), random(2, 3, 1)
    check_rule(exported(lax.linalg.ormqr, a, tau, c), a, tau, c, order=1, subsets=False)
    check_rule(exported(lax.linalg.householder_product, a, tau), a, tau, order=1, subsets=False)


def test_changed_factors() -> None:
    """Derivatives are right if a program changes the factors of QR before it multiplies the reflectors.

    Then the product is not the Q of the factorization.
    """

    def function(x: Any) -> Any:
        qr, tau = jnp.linalg.qr(x, mode="raw")  # `mode="raw"` returns the transpose
        a = qr.T
        return lax.linalg.householder_product(a[1:], tau), lax.linalg.householder_product(2 * a, tau)

    x = random(4, 2)
    check_rule(exported(function, x), x, order=1)
