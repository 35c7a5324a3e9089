"""Derivatives of whole programs, by the reference interpreter: against central differences, and by adjoints.

At a point, for random tangents and cotangents: the JVP against differences of the program; the VJP against
the JVP by the adjoint identity; then the JVPs and VJPs of the JVP program and of the VJP program by these two
checks.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tiduc
from harness import check_rule
from harness.check_rule import active, inner, like
from harness.compare import compare
from tiduc.backends.reference.interpreter import evaluate

Array = NDArray[Any]
Run = Callable[[tiduc.Program, Sequence[Array]], list[Array]]


class Kink(Exception):
    """The program is not smooth between two points of a difference."""


def interpreted(program: tiduc.Program, point: Sequence[Array]) -> list[Array]:
    return list(evaluate(program.text, point))


def check(text: str, *arguments: Any, subsets: bool = True) -> None:
    """Checks a program's derivatives as above; with `subsets`, the first order in every subset of arguments."""
    rng = np.random.default_rng(0)
    program, point = tiduc.load(text), [np.asarray(x) for x in arguments]
    floats = active(point)
    counts = range(1, len(floats) + 1) if subsets else [len(floats)]
    for wrt in itertools.chain.from_iterable(itertools.combinations(floats, n) for n in counts):
        _check(program, point, list(wrt), rng)
    outputs = [y for y in interpreted(program, point) if y.dtype.kind in "fc"]
    _check(program.jvp(floats), [*point, *(like(point[i], rng) for i in floats)], None, rng)
    _check(program.vjp(floats), [*point, *(like(y, rng) for y in outputs)], None, rng)


def _check(program: tiduc.Program, point: list[Array], wrt: list[int] | None, rng: Any) -> None:
    wrt = active(point) if wrt is None else wrt
    dx = [like(point[i], rng) for i in wrt]
    primal = interpreted(program, point)
    results = interpreted(program.jvp(wrt), [*point, *dx])
    _same(results[: len(primal)], primal)
    dy = results[len(primal) :]
    compare(dy, difference(program, point, wrt, dx), 1e-6, "jvp")
    ct = [like(y, rng) for y in dy]
    results = interpreted(program.vjp(wrt), [*point, *ct])
    _same(results[: len(primal)], primal)
    left, right = inner(ct, dy), inner(results[len(primal) :], dx)
    assert abs(left - right) <= 1e-9 * max(1.0, abs(left)), (left, right)


def _same(actual: Sequence[Array], expected: Sequence[Array]) -> None:
    for x, y in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(x, y)


def difference(
    program: tiduc.Program, point: Sequence[Array], wrt: Sequence[int], dx: Sequence[Array]
) -> list[Array]:
    """Central differences of the differentiable outputs; `Kink` where two step sizes disagree."""
    wide, narrow = (check_rule.difference(program, point, wrt, dx, step) for step in (1e-3, 2e-4))
    for x, y in zip(wide, narrow, strict=True):
        if not np.allclose(x, y, rtol=1e-4, atol=1e-4):
            raise Kink
    return narrow
