"""Tests the pass `diagonal`, which batches a linear graph over basis vectors without arrays of explicit zeros."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from harness.check_rule import run
from harness.exports import exported

from tiduc.loading import load

RNG = np.random.default_rng(0)
A = RNG.standard_normal((3, 4))


def losses(w: Any, v: Any, x: Any) -> Any:
    """The losses of the samples of a batch, one per sample."""
    return jnp.sum(jnp.tanh(jnp.tanh(x @ w + v) @ A.T), axis=1)


def test_gradients_of_each_sample_take_one_pass() -> None:
    """The sparse Jacobian of losses per sample equals the dense one, and uses one batched product for the weights.

    No array has two dimensions of the size of the batch.
    """
    arguments = [RNG.standard_normal(sizes) for sizes in ((3, 4), (4,), (5, 3))]
    program = load(exported(losses, *arguments))
    sparse = program.jacobian(["arg0", "arg1"], sparsity="auto")
    assert "batching_dims = [0] x [0], contracting_dims = [] x []" in sparse.text
    assert "iota" not in sparse.text and "tensor<5x5x" not in sparse.text
    for y, wanted in zip(
        run(sparse, arguments), run(program.jacobian(["arg0", "arg1"]), arguments), strict=True
    ):
        np.testing.assert_allclose(y, wanted, rtol=1e-12, atol=1e-13)


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
    "other outputs beside": (lambda w: (jnp.sin(jnp.ones((5, 3)) * 2) @ w, jnp.sum(w) * jnp.ones(5)), (3, 4)),
    "several outputs a sample": (lambda w: jnp.tanh(jnp.arange(15.0).reshape(5, 3) @ w), (3, 4)),
    "sums over some and the seeds": (lambda x: jnp.sum(jnp.sin(x) @ A, axis=(0, 2)), (5, 2, 3)),
    "mixed late": (lambda x: jnp.sort(jnp.sin(jnp.sin(jnp.sin(x))) @ A, axis=0), (5, 3)),
    "flattened": (lambda x: jnp.cumsum(jnp.exp(jnp.sin(x)).reshape(-1)), (5, 3)),
    "contracted on the right": (lambda w: jnp.sin(A @ w).T @ jnp.arange(3.0), (4, 6)),
    "added": (lambda x: jnp.sin(x) @ jnp.ones((6, 2)) + jnp.sum(x) + jnp.sin(x)[:, :2] ** 2, (5, 6)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_values(name: str) -> None:
    function, sizes = PROGRAMS[name]
    x = RNG.standard_normal(sizes)
    program = load(exported(function, x))
    for mode in ("forward", "reverse", "auto"):
        actual, expected = (
            run(program.jacobian(mode=mode, sparsity="auto"), [x]),
            run(program.jacobian(), [x]),
        )
        for y, wanted in zip(actual, expected, strict=True):
            np.testing.assert_allclose(y, wanted, rtol=1e-12, atol=1e-12)
