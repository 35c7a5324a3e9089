"""Jacobians and Hessians of programs with empty arrays are zeros or empty arrays, as in JAX."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from harness.check_rule import run
from harness.exports import exported

from tiduc.loading import load

RNG = np.random.default_rng(0)


def convolved(x: Any) -> Any:
    kernel = jnp.ones((2, x.shape[2], 3))
    return (
        jax.lax.conv_general_dilated(x, kernel, (1,), [(1, 1)], dimension_numbers=("NWC", "WIO", "NWC")) ** 2
    )


def windows(x: Any) -> Any:
    return jax.lax.reduce_window(x, 0.0, jax.lax.add, (1, 2), (1, 1), "VALID") ** 2


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "a sum over an empty slice": (lambda x: jnp.sum(x[:0]), (2, 4)),
    "sums of empty columns": (lambda x: jnp.sum(x[:0] ** 2, 0), (2, 4)),
    "an empty input": (lambda x: jnp.sum(jnp.sin(x), 0), (0, 4)),
    "an empty output": (lambda x: jnp.sin(x)[:, 3:], (2, 3)),
    "both empty": (jnp.sin, (0, 4)),
    "concatenated": (lambda x: jnp.concatenate([x[:0], jnp.sin(x), x[3:]]), (3,)),
    "an empty term": (lambda x: x * x + jnp.sum(x[3:]), (3,)),
    "a product over nothing": (lambda x: x[:, :0] @ x[:0] + x, (3, 3)),
    "no matrices": (lambda x: x @ x, (0, 3, 3)),
    "no indices": (lambda x: jnp.sin(x)[np.zeros(0, int)], (5,)),
    "no updates": (lambda x: jnp.sin(x).at[np.zeros(0, int)].add(x[:0]), (5,)),
    "padded": (lambda x: jnp.pad(jnp.sin(x), ((1, 2), (0, 0))), (0, 2)),
    "broadcast": (lambda x: jnp.broadcast_to(jnp.sin(x), (0, 2)), (2,)),
    "no images": (convolved, (0, 4, 2)),
    "images of no columns": (convolved, (1, 0, 2)),
    "images of no features": (convolved, (1, 4, 0)),
    "windows of no rows": (windows, (0, 4)),
    "sorted": (lambda x: jnp.sort(x, 0), (0, 3)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_derivatives(name: str) -> None:
    function, sizes = PROGRAMS[name]
    x = RNG.standard_normal(sizes)
    with jax.enable_x64(True):
        first, second = jax.jacfwd(function)(x), jax.jacfwd(jax.jacrev(function))(x)
    program, everywhere = load(exported(function, x)), np.ones(first.shape, bool)
    for mode, sparsity in (("forward", "auto"), ("reverse", "auto"), ("auto", None), ("auto", everywhere)):
        jacobian = program.jacobian(mode=mode, sparsity=sparsity)
        np.testing.assert_allclose(run(jacobian, [x])[0], first, 1e-12)
    for sparsity in (None, "auto"):
        np.testing.assert_allclose(run(program.hessian(sparsity=sparsity), [x])[0], second, 1e-12)
