"""Derivatives of loops and calls with dynamic dimensions, exported by JAX: sequences or batches of dynamic length."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from harness.compare import compare
from harness.dynamic_shapes import check_dynamic, run
from harness.exports import exported_dynamic
from jax import lax
from numpy.typing import NDArray

import tiduc

Array = NDArray[Any]


def random(*shapes: tuple[int, ...]) -> list[Array]:
    generator = np.random.default_rng(0)
    return [generator.uniform(-0.5, 0.5, shape) for shape in shapes]


def inlined(program: tiduc.Program, arguments: Sequence[Array]) -> tuple[Array, ...]:
    """Inlines the calls of a program, and runs it. Without inlining, StableHLO's refinement would skip the calls."""
    assert "call @layer" in program.text
    return run(tiduc.load(program.text, inline=True), arguments)


def test_sequence_of_dynamic_length() -> None:
    """The VJP of a scan over a sequence of dynamic length equals JAX's. The length is also the loop's trip count."""

    def f(w: Any, xs: Any) -> Any:
        def cell(h: Any, x: Any) -> Any:
            return jnp.tanh(h @ w + x), None

        return lax.scan(cell, jnp.zeros(3), xs)[0]

    text = exported_dynamic(f, "(3, 3)", "(n, 3)")
    check_dynamic(text, random((3, 3), (1, 3)), random((3, 3), (4, 3)))
    program, (w, xs, ct) = tiduc.load(text), random((3, 3), (4, 3), (3,))
    with jax.enable_x64(True):
        wanted = jax.jit(lambda *x: jax.vjp(f, *x)[1](ct))(w, xs)
    compare(run(program.vjp(), [w, xs, ct])[1:], wanted)


def test_function_of_dynamic_length() -> None:
    """Derivatives of a function of dynamic length equal JAX's to order two.

    The function is called twice. It reads its argument twice, so the VJP adds two cotangents.
    """

    @jax.jit
    def layer(xs: Any, w: Any) -> Any:
        head, y = lax.dynamic_slice(xs, (1, 0), (1, 3)), w
        for _ in range(5):
            y = jnp.tanh(y * jnp.sum(head, 0) + jnp.cos(y))
        return jnp.sum(xs, 0) * y

    def f(xs: Any, w: Any) -> Any:
        return layer(xs, w) + layer(xs, w * w)

    program = tiduc.load(exported_dynamic(f, "(n, 3)", "(3,)"))
    xs, w, ct, dw = random((4, 3), (3,), (3,), (3,))
    dx = np.cos(xs)
    with jax.enable_x64(True):
        pulled_back = jax.jit(lambda *x: jax.vjp(f, *x)[1](ct))
        cotangents, wanted = jax.jvp(pulled_back, (xs, w), (dx, dw))
        compare(inlined(program.vjp(), [xs, w, ct])[1:], cotangents)
    compare(inlined(program.vjp().jvp([0, 1]), [xs, w, ct, dx, dw])[4:], wanted)
    compare(inlined(program.vjp().vjp([0, 1]), [xs, w, ct, 0 * ct, dx, dw])[3:], wanted)


def test_zeros_of_a_dynamic_batch() -> None:
    """The JVP of a scan equals JAX's if the initial carried value is zeros with a dynamic batch size.

    The carried value has a tangent only after the first iteration.
    """

    def f(w: Any, xs: Any) -> Any:
        def cell(h: Any, x: Any) -> Any:
            h = jnp.tanh(h @ w + x)
            return h, jnp.sum(h * h)

        return lax.scan(cell, jnp.zeros((xs.shape[1], 3)), xs)[1]

    arguments = random((3, 3), (5, 2, 3))
    tangents = [np.cos(x) for x in arguments]
    program = tiduc.load(exported_dynamic(f, "(3, 3)", "(5, n, 3)"))
    with jax.enable_x64(True):
        wanted = jax.jvp(jax.jit(f), tuple(arguments), tuple(tangents))
    compare(run(program.jvp(), [*arguments, *tangents]), wanted)
