"""Tensors of partial derivatives of higher order: their values equal those of nested modes.

The order of their entries, their cost and errors are tested, too.
"""

from itertools import combinations_with_replacement
from math import comb
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from harness.check_rule import run
from harness.compare import compare
from harness.exports import exported
from numpy.typing import NDArray

from tiduc.dialect.errors import RequestError
from tiduc.explain import lowered
from tiduc.explain.costs import find_cost
from tiduc.loading import load

RNG = np.random.default_rng(0)
Array = NDArray[Any]


def several(x: Any, w: Any) -> Any:
    return jnp.sin(x @ w) * jnp.sum(w * w), jnp.float64(2.0), x


def loop(x: Any) -> Any:
    return jax.lax.fori_loop(0, 3, lambda _, h: jnp.tanh(h) + 0.5 * h * h[0], x)


def network(x: Any) -> Any:
    w = jnp.cos(jnp.arange(48.0)).reshape(3, 4, 4)
    for i in range(3):
        x = jnp.tanh(w[i] @ x)
    return jnp.sum(x)


def once(full: Array, n: int, order: int) -> Array:
    """The distinct entries of a tensor that is symmetric in its last `order` dimensions, along one last dimension."""
    places = combinations_with_replacement(range(n), order)
    return np.stack([full[(..., *place)] for place in places], axis=-1)


def nested(function: Any, arguments: Any, order: int) -> list[list[Array]]:
    """For each output, the value and the partial derivatives up to `order`, by JAX's nested forward modes."""
    sizes = [np.shape(x) for x in arguments]
    ends = np.cumsum([np.prod(size, dtype=int) for size in sizes])

    def of_flat(z: Any) -> Any:
        parts = jnp.split(z, ends[:-1])
        return jax.tree.leaves(function(*(p.reshape(size) for p, size in zip(parts, sizes, strict=True))))

    z = np.concatenate([np.ravel(x) for x in arguments])
    with jax.enable_x64(True):
        derivatives = [of_flat]
        for _ in range(order):
            derivatives.append(jax.jacfwd(derivatives[-1]))
        found = [[np.asarray(y) for y in jax.jit(f)(z)] for f in derivatives]
    return [[once(d, len(z), k) if k else d for k, d in enumerate(ys)] for ys in zip(*found, strict=True)]


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize(
    ("function", "sizes"), [(several, ((2, 2), (2,))), (loop, ((3,),)), (network, ((4,),))]
)
def test_values(function: Any, sizes: Any, order: int) -> None:
    arguments = [np.array(RNG.standard_normal(size)) for size in sizes]
    program = load(exported(function, *arguments)).tensor(order)
    expected = [y for ys in nested(function, arguments, order) for y in ys]
    compare(run(program, arguments), expected, 1e-10)


def test_a_polynomial_of_order_six() -> None:
    """The tensor of order six of x^3 y^2 z + x^6 is right. All of these partial derivatives are constant."""
    x = RNG.standard_normal(3)
    program = load(exported(lambda x: x[0] ** 3 * x[1] ** 2 * x[2] + x[0] ** 6, x)).tensor(6)
    expected = np.zeros(comb(8, 6))
    places = list(combinations_with_replacement(range(3), 6))
    expected[places.index((0, 0, 0, 1, 1, 2))] = 12
    expected[places.index((0,) * 6)] = 720
    np.testing.assert_allclose(run(program, [x])[-1], expected, atol=1e-8)


def test_signature() -> None:
    program = load(exported(several, np.ones((2, 2)), np.ones(2))).tensor(2, "arg1")
    assert str(program.signature) == (
        "(arg0: 2x2xf64, arg1: 2xf64) -> (result0: 2xf64, result0.derivative1: 2x2xf64, result0.derivative2: 2x3xf64, "
        "result1: f64, result1.derivative1: 2xf64, result1.derivative2: 3xf64, "
        "result2: 2x2xf64, result2.derivative1: 2x2x2xf64, result2.derivative2: 2x2x3xf64)"
    )


@pytest.mark.parametrize(("order", "factor"), [(4, 2), (5, 3)])
def test_cost_against_nested_modes(order: int, factor: int) -> None:
    """A tensor takes fewer FLOPs than nested Jacobians, by at least `factor`, because nested Jacobians compute
    symmetric entries several times.
    """
    program = load(exported(network, np.ones(4)))
    nested = program
    for _ in range(order):
        nested = nested.jacobian(mode="forward")
    whole = find_cost(lowered(nested)).flops
    assert find_cost(lowered(program.tensor(order))).flops < whole / factor


def test_composition() -> None:
    """The VJP of a tensor, which is reverse mode over Taylor mode, gives JAX's gradient of a sum of third
    derivatives.
    """
    x = RNG.standard_normal(4)
    program = load(exported(network, x)).tensor(3)
    *rest, thirds = run(program, [x])
    seeds = [*(np.zeros_like(y) for y in rest), np.ones_like(thirds)]
    with jax.enable_x64(True):
        third = jax.jacfwd(jax.jacfwd(jax.jacfwd(network)))
        places = np.array(list(combinations_with_replacement(range(4), 3))).T
        expected = jax.jit(jax.grad(lambda x: jnp.sum(third(x)[tuple(places)])))(x)
    compare(run(program.vjp(), [x, *seeds])[-1:], [np.asarray(expected)], 1e-10)


def test_rows_that_are_independent() -> None:
    """With block-diagonal sparsity, the derivatives of all rows need no more seed directions than those of one row.

    They are derivatives of each row with respect to its own entries and the weights.
    """
    x, w = RNG.standard_normal((12, 2)), RNG.standard_normal(2)

    def rows(x: Any, w: Any) -> Any:
        return jnp.sin(jnp.sum(x * w, axis=1)) * x[:, 0]

    program = load(exported(rows, x, w)).tensor(3, sparsity="block-diagonal")
    found = run(program, [x, w])
    assert [y.shape for y in found] == [(12,), (12, 4), (12, 10), (12, 20)]
    for i in (0, 7):
        (expected,) = nested(lambda x, w: rows(x[None], w)[0], [x[i], w], 3)
        compare([y[i] for y in found], expected, 1e-10)
    assert "tensor<20x12x2xf64>" in program.text
    with pytest.raises(RequestError, match="partial derivatives of order 3, more than 2048"):
        load(exported(rows, x, w)).tensor(3)


def test_no_independent_rows() -> None:
    program = load(exported(lambda x: jnp.sum(x**3), np.ones(4)))
    with pytest.raises(RequestError, match="no rows of the outputs are known to be independent"):
        program.tensor(2, sparsity="block-diagonal")
    with pytest.raises(RequestError, match="sparsity must be None or block-diagonal, not 'diagonal'"):
        program.tensor(2, sparsity="diagonal")


def test_errors() -> None:
    program = load(exported(lambda x: jnp.sum(x**3), np.ones(64)))
    with pytest.raises(
        RequestError, match="64 entries have 2080 partial derivatives of order 2, more than 2048"
    ):
        program.tensor(2)
    with pytest.raises(RequestError, match="order must be an integer"):
        program.tensor(0)
    with pytest.raises(RequestError, match="tensor needs real inputs"):
        load(exported(lambda z: z * z, np.array([1j]))).tensor(2)
