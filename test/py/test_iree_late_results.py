"""The pass `late_results`, by which IREE allocates a part of the results later, does not change values."""

import re
from typing import Any
from unittest.mock import patch

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from harness.exports import exported
from harness.sources import source_of
from harness.variants import named

import tiduc
from tiduc.backends.iree import pipeline
from tiduc.backends.iree.fast.memory.late_results import late_results


def step(batches: int, dtype: Any) -> tuple[Any, list[Any]]:
    """A training step and its arguments.

    The step returns the gradients of the weights of ten layers, and for each layer 0.9 times its moment plus its
    gradient.
    """

    def f(x: Any, weights: Any, moments: Any) -> Any:
        def loss(weights: Any) -> Any:
            y = x
            for w in weights:
                y = jnp.tanh(jnp.einsum("bij,...jk->bik", y, w))
            return jnp.sum(y**2)

        gradients = jax.grad(loss)(weights)
        return gradients, [0.9 * m + g for m, g in zip(moments, gradients, strict=True)]

    random = np.random.default_rng(batches)
    normal = [random.standard_normal((181, 181)).astype(dtype) / 13 for _ in range(20)]  # weights, moments
    return f, [random.standard_normal((batches, 140, 181)).astype(dtype), normal[:10], normal[10:]]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("target", ["cpu", "cpu-threads"])
@pytest.mark.parametrize(
    ("batches", "dtype", "is_donated"),
    [(1, np.float64, False), (3, np.float32, False), (1, np.float64, True)],
)
def test_values_of_late_results(target: str, batches: int, dtype: Any, is_donated: bool) -> None:
    """The program that the pass rewrites equals JAX's, for each element type, batch size and target.

    The moments may be donated.
    """
    f, arguments = step(batches, dtype)
    flat = [arguments[0], *arguments[1], *arguments[2]]
    with jax.enable_x64():
        expected = [np.asarray(y) for y in jax.tree.leaves(jax.jit(f)(*arguments))]
        text = exported(f, *arguments)
    if is_donated:
        for i in range(10):
            text = re.sub(
                rf"(%arg{11 + i}: tensor<\w+>)( {{[^}}]*}})?",
                rf"\1 {{iree.abi.output = {10 + i} : index}}",
                text,
                count=1,
            )
    program = tiduc.load(text)
    others = tuple(entry for entry in pipeline.PIPELINE if entry.function is not late_results)
    with patch.object(pipeline, "PIPELINE", others):
        without = source_of(program, named(target)).stablehlo
    assert source_of(program, named(target)).stablehlo != without
    compiled = program.compile(target)
    for _ in range(2):
        for a, e in zip(compiled(*flat), expected, strict=True):
            np.testing.assert_allclose(a, e, rtol=0, atol=1e-5 * float(np.max(np.abs(e))))
