"""What loops keep for their derivatives: the same numbers from stacks, segments and bisection, and how much memory each takes."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xla
from jax import lax
from numpy.typing import NDArray

import tiduc

Array = NDArray[Any]
MEMORIES = ["stack", "sqrt", "log"]


def exported(function: Callable[..., Any], arguments: Sequence[Any]) -> str:
    with jax.enable_x64(True):
        return jax.jit(function).lower(*arguments).as_text()


def random(*shapes: tuple[int, ...]) -> list[Array]:
    generator = np.random.default_rng(1)
    return [0.2 + 0.6 * generator.random(shape) for shape in shapes]


def agree(got: Sequence[Any], wanted: Sequence[Any]) -> None:
    for x, y in zip(got, wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-12)


def counted(n: int) -> tuple[Callable[..., Any], list[Array]]:
    def f(x: Any, w: Any) -> Any:
        return jnp.sum(lax.fori_loop(0, n, lambda i, c: jnp.sin(c * w) + 0.01 * i * x, x))

    return f, random((3,), (3,))


def two_carries(n: int) -> tuple[Callable[..., Any], list[Array]]:
    def f(x: Any, a: Any) -> Any:
        c = lax.fori_loop(2, n + 2, lambda i, c: (a @ c[1] + i, jnp.tanh(c[0]) * c[1]), (x, x * x))
        return jnp.sum(c[0] * c[1])

    return f, random((2,), (2, 2))


def nested(n: int) -> tuple[Callable[..., Any], list[Array]]:
    def f(x: Any, a: Any) -> Any:
        def outer(i: Any, c: Any) -> Any:
            return lax.fori_loop(0, 4, lambda j, d: jnp.tanh(a @ d) + 0.1 * j * c, c)

        return jnp.sum(lax.fori_loop(0, n, outer, x))

    return f, random((2,), (2, 2))


def scanned(n: int) -> tuple[Callable[..., Any], list[Array]]:
    def f(xs: Any, w: Any) -> Any:
        def body(c: Any, x: Any) -> Any:
            c = jnp.tanh(w @ c + x)
            return c, c * x

        c, ys = lax.scan(body, jnp.ones(2), xs)
        return jnp.sum(ys) + jnp.sum(c)

    return f, random((n, 2), (2, 2))


PROGRAMS = {
    **{f"counted {n}": counted(n) for n in (0, 1, 2, 17, 1000)},
    **{f"two carries {n}": two_carries(n) for n in (1, 6)},
    "nested": nested(5),
    "scanned": scanned(7),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_same_numbers(name: str) -> None:
    function, arguments = PROGRAMS[name]
    program = tiduc.load(exported(function, arguments))
    with jax.enable_x64(True):
        wanted = jax.grad(function, (0, 1))(*arguments)
    for memory in MEMORIES:
        agree(xla.by_xla(replace(program.grad(), loop_memory=memory).text, arguments), wanted)


@pytest.mark.parametrize("memory", MEMORIES)
def test_second_order(memory: str) -> None:
    function, arguments = two_carries(6)
    program = replace(tiduc.load(exported(function, arguments)), loop_memory=memory)
    dx = random(*(x.shape for x in arguments))
    with jax.enable_x64(True):
        wanted = jax.jvp(jax.grad(function, (0, 1)), tuple(arguments), tuple(dx))[1]
    agree(xla.by_xla(program.hvp().text, [*arguments, *dx]), wanted)
    agree(xla.by_xla(program.grad().vjp().text, [*arguments, *dx])[2:], wanted)
