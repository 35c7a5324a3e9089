"""Checks derivatives of whole programs on the reference interpreter.

For random tangents and cotangents, the JVP is compared with central differences of the program. The VJP is compared
with the JVP by the adjoint identity. The derivatives of the JVP and VJP programs are then checked in the same way.
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
    """Raised if the program is not smooth between the points of a central difference."""


def interpreted(program: tiduc.Program, point: Sequence[Array]) -> list[Array]:
    return list(evaluate(program.text, point))


def check(text: str, *arguments: Any, subsets: bool = True) -> None:
    """Checks the derivatives of a program of orders one and two with respect to all float arguments.

    With `subsets`, order one is also checked with respect to each subset of the float arguments.
    """
    rng = np.random.default_rng(0)
    program, point = tiduc.load(text), [np.asarray(x) for x in arguments]
    floats, primal = active(point), interpreted(program, point)
    counts = range(1, len(floats) + 1) if subsets else [len(floats)]
    for wrt in itertools.chain.from_iterable(itertools.combinations(floats, n) for n in counts):
        derived = _check(program, point, primal, list(wrt), rng)
    for second, further, results in derived:  # derivatives with respect to all inputs
        _check(second, further, results, active(further), rng)


def _check(
    program: tiduc.Program, point: list[Array], primal: Sequence[Array], wrt: list[int], rng: Any
) -> list[tuple[tiduc.Program, list[Array], list[Array]]]:
    """Checks the JVP and the VJP of a program. `primal` are the program's results at the point.

    Returns the JVP and the VJP programs, each with its arguments and results.
    """
    dx = [like(point[i], rng) for i in wrt]
    jvp, tangent_point = program.jvp(wrt), [*point, *dx]
    tangents = interpreted(jvp, tangent_point)
    _same(tangents[: len(primal)], primal)
    dy = tangents[len(primal) :]
    compare(dy, difference(program, point, wrt, dx), 1e-6, "jvp")
    ct = [like(y, rng) for y in dy]
    vjp, cotangent_point = program.vjp(wrt), [*point, *ct]
    cotangents = interpreted(vjp, cotangent_point)
    _same(cotangents[: len(primal)], primal)
    left, right = inner(ct, dy), inner(cotangents[len(primal) :], dx)
    assert abs(left - right) <= 1e-9 * max(1.0, abs(left)), (left, right)
    return [(jvp, tangent_point, tangents), (vjp, cotangent_point, cotangents)]


def _same(actual: Sequence[Array], expected: Sequence[Array]) -> None:
    for x, y in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(x, y)


def difference(
    program: tiduc.Program, point: Sequence[Array], wrt: Sequence[int], dx: Sequence[Array]
) -> list[Array]:
    """Computes central differences of the float outputs. Raises `Kink` if the results for two step sizes differ."""
    wide, narrow = (check_rule.difference(program, point, wrt, dx, step) for step in (1e-3, 2e-4))
    for x, y in zip(wide, narrow, strict=True):
        if not np.allclose(x, y, rtol=1e-4, atol=1e-4):
            raise Kink
    return narrow
