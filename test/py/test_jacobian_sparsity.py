"""Diagonal and block-diagonal Jacobians have the values of dense Jacobians, but need fewer basis vectors.

If a Jacobian does not have the requested structure, it is refused.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accepted import arguments, programs
from harness.check_rule import run
from harness.exports import exported
from numpy.typing import NDArray

from tiduc.dialect.errors import RequestError
from tiduc.dialect.mlir.context import stage
from tiduc.loading import load
from tiduc.passes.batching.alignment import alignments
from tiduc.passes.linearize import linearize
from tiduc.passes.rules import OPSET

RNG = np.random.default_rng(0)
Array = NDArray[Any]
W = RNG.standard_normal((3, 4))


CASES: dict[str, tuple[Callable[..., Any], tuple[int, ...], dict[int, int]]] = {
    "elementwise": (lambda x: jnp.sin(x) * x, (2, 3), {0: 0, 1: 1}),
    "rows of a matrix product": (lambda x: jnp.tanh(x @ W), (2, 3), {0: 0}),
    "columns of one": (lambda x: W.T @ x, (3, 2), {1: 1}),
    "a batch of products": (lambda x: jnp.einsum("bij,bjk->bik", x, x), (2, 3, 3), {0: 0}),
    "softmax": (lambda x: jax.nn.softmax(x, axis=1), (2, 3), {0: 0}),
    "sums": (lambda x: jnp.sum(x**2, axis=0), (2, 3), {1: 0}),
    "repeated": (lambda x: jnp.repeat(x[:, None], 3, axis=1) * 2, (4,), {0: 0}),
    "turned": (lambda x: jnp.flip(x.T, 0), (2, 3), {0: 1}),
    "reshaped": (lambda x: jnp.cos(x).reshape(2, 12), (2, 3, 4), {0: 0}),
    "put together": (lambda x: jnp.concatenate([x, 2 * x], 1), (2, 3), {0: 0}),
    "cut": (lambda x: x[:, 1:] * 3, (2, 3), {0: 0}),
    "padded": (lambda x: jnp.pad(x, ((0, 0), (1, 1))), (2, 3), {0: 0}),
    "cumulative": (lambda x: jnp.cumsum(x, 1), (2, 4), {0: 0}),
    "sorted, which is not seen": (lambda x: jnp.sort(x, 0), (3, 2), {}),
    "columns taken": (lambda x: x[:, jnp.array([2, 0, 2])], (2, 3), {0: 0}),
    "columns added to": (lambda x: jnp.zeros((2, 5)).at[:, jnp.array([1, 1, 4])].add(x), (2, 3), {0: 0}),
    "images": (
        lambda x: jax.lax.conv_general_dilated(x, jnp.ones((2, 1, 2)), (1,), "SAME"),
        (3, 1, 4),
        {0: 0},
    ),
    "at a place that is computed": (
        lambda x: jax.lax.dynamic_slice(x, (0, jnp.argmax(jnp.sum(x, 0))), (2, 1)),
        (2, 3),
        {0: 0},
    ),
    "mixed": (lambda x: x @ x.T, (3, 3), {}),
    "a diagonal": (lambda x: jnp.diag(x), (3,), {0: 0}),
}


@pytest.mark.parametrize("name", CASES)
def test_alignment(name: str) -> None:
    """`alignments` finds the expected pairs of aligned dimensions of the result and the input.

    If two dimensions are aligned, slice i of the result depends only on slice i of the input.
    """
    function, sizes, expected = CASES[name]
    program = load(exported(function, np.zeros(sizes)))
    linear = stage(linearize)(program.view, [program.outputs[0].value], [program.inputs[0].key], OPSET)
    (dx,), (dy,) = linear.inputs.values(), linear.outputs
    assert stage(alignments)(program.view.schedule([dy]), dx)[dy] == expected


@pytest.mark.parametrize("name", CASES)
def test_whole_jacobians(name: str) -> None:
    """With `sparsity="auto"`, each mode gives the dense Jacobian, with zeros outside the blocks."""
    function, sizes, _ = CASES[name]
    x = RNG.standard_normal(sizes)
    program = load(exported(function, x))
    (expected,) = run(program.jacobian(mode="forward"), [x])
    for mode in ("forward", "reverse", "auto"):
        (actual,) = run(program.jacobian(mode=mode, sparsity="auto"), [x])
        np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-13)


def ops() -> list[str]:
    """Ops that compute elementwise, reduce windows, or move elements. The interpreter runs their programs fast."""
    names = "abs clamp concatenate logistic multiply pad reduce_window reverse select slice sort transpose"
    return [f"stablehlo.{name}" for name in names.split()]


@pytest.mark.parametrize("op", ops())
def test_ops(op: str) -> None:
    program = load(programs()[op])
    point = [x + 0.1 * RNG.uniform(size=x.shape) if x.dtype.kind == "f" else x for x in arguments(program)]
    expected = run(program.jacobian(), point)
    for mode in ("forward", "reverse"):
        for y, wanted in zip(run(program.jacobian(mode=mode, sparsity="auto"), point), expected, strict=True):
            np.testing.assert_allclose(y, wanted, rtol=0, atol=1e-13)


def test_sparsity_needs_fewer_basis_vectors() -> None:
    """The Jacobian of a function that maps each of 50 rows of 3 numbers separately needs 3 basis vectors, not 150."""
    program = load(exported(lambda x: jnp.tanh(x @ W), np.zeros((50, 3))))
    text = program.jacobian(sparsity="block-diagonal").text
    assert "tensor<3x50x4xf64>" in text and "150" not in text
    assert "tensor<4x50x3xf64>" in program.jacobian(mode="reverse", sparsity="block-diagonal").text


def test_diagonals_and_blocks_alone() -> None:
    x = RNG.standard_normal((2, 3))
    (diagonal,) = run(load(exported(lambda x: jnp.sin(x), x)).jacobian(sparsity="diagonal"), [x])
    np.testing.assert_allclose(diagonal, np.cos(x), rtol=1e-14)
    program = load(exported(lambda x: jnp.tanh(x @ W), x))
    for mode in ("forward", "reverse"):
        (blocks,) = run(program.jacobian(mode=mode, sparsity="block-diagonal"), [x])
        wanted = (1 - np.tanh(x @ W) ** 2)[:, :, None] * W.T[None]
        np.testing.assert_allclose(blocks, wanted, rtol=1e-13)


def test_a_diagonal_hessian() -> None:
    """With `sparsity="diagonal"`, the Hessian of sum(x^3 w) is returned as the diagonals of its four diagonal blocks.

    No matrix is computed.
    """
    x, w = RNG.standard_normal(4), RNG.standard_normal(4)
    program = load(exported(lambda x, w: jnp.sum(x**3 * w), x, w))
    actual = run(program.hessian(sparsity="diagonal"), [x, w])
    for y, wanted in zip(actual, (6 * x * w, 3 * x**2, 3 * x**2, 0 * x), strict=True):
        np.testing.assert_allclose(y, wanted, rtol=1e-13, atol=1e-13)
    assert "tensor<4x4x" not in program.hessian(sparsity="diagonal").text


def test_inputs_and_outputs_that_differ() -> None:
    """Jacobians with `sparsity="auto"` are right if only some outputs are aligned with an input.

    All outputs share the basis vectors of an input, so one output that is not aligned needs all basis vectors.
    """
    x, w = RNG.standard_normal((2, 3)), RNG.standard_normal((3, 2))

    def function(x: Any, w: Any) -> Any:
        return jnp.sin(x), jnp.sum(x, 1), x @ w, jnp.cos(w)

    program = load(exported(function, x, w))
    expected = run(program.jacobian(), [x, w])
    for mode in ("forward", "reverse"):
        actual = run(program.jacobian(mode=mode, sparsity="auto"), [x, w])
        for y, wanted in zip(actual, expected, strict=True):
            np.testing.assert_allclose(y, wanted, rtol=0, atol=1e-13)


def test_unknown_sparsity_is_refused() -> None:
    program = load(exported(lambda x: x @ x.T, np.zeros((3, 3))))
    for sparsity in ("diagonal", "block-diagonal"):
        with pytest.raises(RequestError, match=f"result0.jacobian.arg0 is not known to be {sparsity};"):
            program.jacobian(sparsity=sparsity)


def test_sparsity_of_an_empty_array() -> None:
    program = load("""func.func @main(%x: tensor<0xf64>) -> tensor<0xf64> {
      %0 = stablehlo.sine %x : tensor<0xf64>
      return %0 : tensor<0xf64>
    }""").jacobian(sparsity="auto")
    assert "0x0xf64" in str(program.signature)
