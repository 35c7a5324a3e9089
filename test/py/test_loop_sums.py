"""Tests the rewrite that replaces a sum of products over the iterations of a loop by one product after the loop.

Gradients must be equal. Some sums are not rewritten.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases.loop_gradients import Array, grad
from harness.compare import compare
from jax import lax

from tiduc.backends.reference.interpreter import evaluate


def normal(*shapes: tuple[int, ...]) -> list[Array]:
    generator = np.random.default_rng(2)
    return [generator.standard_normal(shape) / 2 for shape in shapes]


def recurrent(n: int, batch: int, width: int) -> tuple[Callable[..., Any], list[Array]]:
    """A recurrent network that reads an input in each step. The reverse loop stores the cotangents of the inputs."""

    def f(xs: Any, w: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            return jnp.tanh(h @ w + x), h

        h, hs = lax.scan(step, jnp.ones((batch, width)), xs)
        return jnp.sum(h) + jnp.sum(hs * hs)

    return f, normal((n, batch, width), (width, width))


def backwards(n: int) -> tuple[Callable[..., Any], list[Array]]:
    """A recurrent network whose primal loop runs from the last input to the first."""

    def f(xs: Any, w: Any) -> Any:
        h, _ = lax.scan(lambda h, x: (jnp.tanh(h @ w + x), None), jnp.ones((2, 16)), xs, reverse=True)
        return jnp.sum(h)

    return f, normal((n, 2, 16), (16, 16))


def twice(n: int) -> tuple[Callable[..., Any], list[Array]]:
    """A recurrent network whose step reads the weight three times: in a product, transposed in a product, in a sum."""

    def f(xs: Any, w: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            return jnp.tanh(jnp.tanh(h @ w + x) @ w.T + x) + 0.1 * w[:2], None

        return jnp.sum(lax.scan(step, jnp.ones((2, 16)), xs)[0])

    return f, normal((n, 2, 16), (16, 16))


def batched(n: int) -> tuple[Callable[..., Any], list[Array]]:
    """A loop with batched matrix products."""

    def f(xs: Any, w: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            return jnp.tanh(jnp.einsum("bij,bjk->bik", h, w) + x), None

        return jnp.sum(lax.scan(step, jnp.ones((3, 2, 8)), xs)[0])

    return f, normal((n, 3, 2, 8), (3, 8, 8))


def vector(n: int) -> tuple[Callable[..., Any], list[Array]]:
    """A loop over products of a matrix and a vector. The weight's gradient is a sum of outer products."""

    def f(xs: Any, w: Any) -> Any:
        return jnp.sum(lax.scan(lambda h, x: (jnp.tanh(w @ h + x), None), jnp.ones(8), xs)[0])

    return f, normal((n, 8), (8, 8))


def invariant(n: int) -> tuple[Callable[..., Any], list[Array]]:
    """A loop that multiplies each input by a loop-invariant matrix product."""

    def f(xs: Any, w: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            return jnp.sin(c) + (xs[0] @ w) * x, None

        return jnp.sum(lax.scan(step, jnp.ones((2, 8)), xs)[0])

    return f, normal((n, 2, 8), (8, 8))


def nested(n: int) -> tuple[Callable[..., Any], list[Array]]:
    def f(xs: Any, w: Any) -> Any:
        def outer(h: Any, x: Any) -> Any:
            return lax.scan(lambda g, y: (jnp.tanh(g @ w + y), None), h, x)[0], None

        return jnp.sum(lax.scan(outer, jnp.ones((2, 8)), xs)[0])

    return f, normal((n, 3, 2, 8), (8, 8))


def summed(n: int) -> tuple[Callable[..., Any], list[Array]]:
    """A primal loop that sums products of matrices. The function uses both the final sum and the partial sums."""

    def f(xs: Any, ys: Any) -> Any:
        def step(c: Any, xy: Any) -> Any:
            x, y = xy
            return (c[0] + jnp.sin(x).T @ jnp.cos(y), c[1] + jnp.sum(c[0])), None

        (total, running), _ = lax.scan(step, (jnp.zeros((8, 8)), 0.0), (xs, ys))
        return jnp.sum(total * total) + running

    return f, normal((n, 2, 8), (n, 2, 8))


PROGRAMS = {
    "moved": recurrent(6, 2, 16),
    "one iteration": recurrent(1, 2, 16),
    "long": recurrent(50, 3, 4),
    "backwards": backwards(5),
    "twice": twice(4),
    "batched": batched(4),
    "vector": vector(5),
    "invariant": invariant(4),
    "nested": nested(4),
    "summed": summed(5),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_same_numbers(name: str) -> None:
    function, arguments = PROGRAMS[name]
    with jax.enable_x64(True):
        wanted = jax.jit(jax.grad(function, (0, 1)))(*arguments)
    compare(evaluate(grad(function, arguments), arguments), wanted)


def products_in_loops(text: str) -> list[int]:
    """The number of matrix products in the body of each loop of a program."""
    bodies = [part.partition("\n    }")[0] for part in text.split("do {")[1:]]
    return [body.count("stablehlo.dot_general") for body in bodies]


def test_stacked_factors() -> None:
    """In these gradients, the products of the weight's gradient are computed after the loop.

    Their factors are stored for all iterations anyway, or take fewer bytes than the sum.
    """
    for name in ("moved", "one iteration", "long", "batched", "backwards"):
        function, arguments = PROGRAMS[name]
        text = grad(function, arguments)
        # Only the product for the cotangent of the state remains in the reverse loop.
        assert products_in_loops(text)[1:] == [1], name
        assert "contracting_dims = [0, 1]" in text or "[0, 2] x [0, 2]" in text, name


def test_large_stacks_are_not_added() -> None:
    """If storing a factor for all iterations takes more bytes than the sum, the sum stays in the loop.

    This is so for 50 iterations, but not for one.
    """

    def f(xs: Any, w: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            return jnp.tanh(h @ w * x), None

        return jnp.sum(lax.scan(step, jnp.ones((3, 4)), xs)[0])

    with jax.enable_x64(True):
        for n, left in ((1, [1]), (50, [2])):
            xs, w = normal((n, 3, 4), (4, 4))
            text = grad(f, (xs[:, 0, 0], w))
            assert products_in_loops(text)[1:] == left


def test_sums_that_iterations_read_stay() -> None:
    function, arguments = PROGRAMS["summed"]
    assert products_in_loops(grad(function, arguments))[0] == 1
