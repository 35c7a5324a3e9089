"""Checks a function of eager arrays against NumPy's values and JAX's derivatives."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tiduc.eager import Array, Interpreter, Session, grad

SESSION = Session(Interpreter())
"""One for all these tests, so that a structure is met once."""


def same_gradients(f: Callable[..., Any], *points: np.ndarray, **tolerance: float) -> None:
    """`f(xp, ...)` and its derivatives, for a random seed, are NumPy's and JAX's."""
    tolerance = {"rtol": 1e-11, "atol": 1e-12, **tolerance}
    arrays = [Array(x, requires_grad=True) for x in points]
    y = f(np, *arrays)
    expected = np.asarray(f(np, *points))
    assert (y.shape, y.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_allclose(y.data, expected, **tolerance)
    seed = np.random.default_rng(0).standard_normal(y.shape)
    found = grad([y], arrays, [seed])
    _, vjp = jax.vjp(lambda *xs: f(jnp, *xs), *map(jnp.asarray, points))
    for ct, wanted, x in zip(found, vjp(jnp.asarray(seed)), points, strict=True):
        assert (ct.shape, ct.dtype) == (x.shape, x.dtype)
        np.testing.assert_allclose(ct.data, wanted, **tolerance)
