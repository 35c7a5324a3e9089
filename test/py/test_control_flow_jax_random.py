"""Compares derivatives of random control-flow programs, in every mode to order three, with JAX's forward mode.

For a program f and a cotangent ct, nested forward mode computes all derivatives of <ct, f>. JAX's reverse mode is not
used, because it cannot differentiate loops with unknown trip count.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import numpy as np
import pytest
from cases.control_flow_jax_random import FLOATS, SHAPES, Generator
from cases.loop_gradients import MEMORIES
from harness.compare import compare
from numpy.typing import NDArray

import tiduc
from tiduc.backends.reference.interpreter import evaluate

Array = NDArray[Any]
WRT = range(len(FLOATS))


def along(f: Callable[..., Any], direction: Sequence[Array]) -> Callable[..., Any]:
    return lambda *x: jax.jvp(f, x, tuple(direction))[1]


def inner(xs: Sequence[Any], ys: Sequence[Any]) -> float:
    return float(sum(np.sum(np.asarray(x) * np.asarray(y)) for x, y in zip(xs, ys, strict=True)))


def check(seed: int, memory: str) -> None:
    random, integer = np.random.default_rng(seed), np.int32(seed % 4)
    point = [random.uniform(0.1, 0.9, SHAPES[kind]) for kind in FLOATS]
    u, v, w = ([random.normal(size=x.shape) for x in point] for _ in range(3))
    f = Generator(seed).main
    with jax.enable_x64(True):
        text = jax.jit(f, keep_unused=True).lower(*point, integer).as_text()
        functions: list[Any] = [lambda *x: f(*x, integer)]
        for direction in (u, v, w):
            functions.append(along(functions[-1], direction))
        known = jax.jit(lambda *x: [g(*x) for g in functions])(*point)
    ct = [random.normal(size=y.shape) for y in known[0]]
    first, second, third = (inner(ct, ys) for ys in known[1:])
    n, m = len(ct), len(point)
    zeros, zeros_in = [np.zeros_like(y) for y in ct], [np.zeros_like(x) for x in point]

    def run(program: tiduc.Program, *more: Sequence[Array]) -> list[Any]:
        return list(evaluate(program.text, [*point, integer, *(x for xs in more for x in xs)]))

    def agree(got: Any, wanted: Any) -> None:
        compare([got], [wanted], 1e-8)

    program = replace(tiduc.load(text), loop_memory=memory)
    jvp, vjp = program.jvp(WRT), program.vjp(WRT)
    for y, expected in zip(run(jvp, u), [*known[0], *known[1]], strict=True):
        agree(y, expected)
    agree(inner(run(vjp, ct)[n:], u), first)
    agree(inner(run(vjp.jvp(WRT), ct, v)[2 * n + m :], u), second)
    agree(inner(run(vjp.vjp(WRT), ct, zeros, u)[n + m :], v), second)
    agree(inner(run(jvp.vjp(WRT), u, zeros, ct)[2 * n :], v), second)
    if seed % 2:
        agree(inner(run(vjp.vjp(WRT).jvp(WRT), ct, zeros, u, v)[2 * n + 3 * m :], w), third)
    else:
        agree(inner(run(vjp.vjp(WRT).vjp(WRT), ct, zeros, u, zeros, zeros_in, v)[n + 2 * m :], w), third)


@pytest.mark.parametrize("seed", range(6))
def test_random(seed: int) -> None:
    check(seed, MEMORIES[seed % 3])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6, 100))
def test_more(seed: int) -> None:
    for memory in MEMORIES:
        check(seed, memory)
