"""Triangular solves: sides, triangles, transposes, unit diagonals, batches, and entries that the op does not read."""

from functools import partial
from typing import Any

import numpy as np
import pytest
from harness.check_rule import check_rule, run
from harness.tensors import normal, tensor
from jax import lax

from tiduc.dialect.errors import Unsupported
from tiduc.loading import load

RNG = np.random.default_rng(0)
random = partial(normal, RNG)


def matrix(batch: list[int], n: int, element: str) -> Any:
    """A well-conditioned matrix, whose two triangles both have nonzero entries."""
    return 0.4 * random([*batch, n, n], element) + 2 * np.eye(n)


def program(
    sizes: tuple[list[int], int, int], element: str, left: bool, lower: bool, unit: bool, kind: str
) -> str:
    """A program with a triangular solve.

    `sizes` is the batch, the size of the triangle, and the number of right-hand sides.
    """
    batch, n, m = sizes
    a, y = tensor([*batch, n, n], element), tensor([*batch, *([n, m] if left else [m, n])], element)
    flags = f"left_side = {left}, lower = {lower}, unit_diagonal = {unit}".lower()
    return f"""
    func.func @main(%a: {a}, %y: {y}) -> {y} {{
      %0 = "stablehlo.triangular_solve"(%a, %y) {{{flags},
        transpose_a = #stablehlo<transpose {kind}>}} : ({a}, {y}) -> {y}
      return %0 : {y}
    }}"""


KINDS = ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"]
BOTH = [False, True]


@pytest.mark.sampled(10)
@pytest.mark.parametrize("element", ["f64", "complex<f64>"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("unit", BOTH)
@pytest.mark.parametrize("lower", BOTH)
@pytest.mark.parametrize("left", BOTH)
def test_all_forms(element: str, kind: str, unit: bool, lower: bool, left: bool) -> None:
    text = program(([], 3, 2), element, left, lower, unit, kind)
    order = 1 if (element, kind) == ("f64", "ADJOINT") else 2  # this case needs XLA
    check_rule(text, matrix([], 3, element), random([3, 2] if left else [2, 3], element), order=order)


@pytest.mark.sampled(7)
@pytest.mark.parametrize("element", ["f64", "complex<f64>"])
@pytest.mark.parametrize(
    "sizes", [([2], 3, 2), ([2, 2], 2, 1), ([], 1, 1), ([], 1, 3), ([0], 2, 2), ([], 2, 0)]
)
def test_batches(element: str, sizes: tuple[list[int], int, int]) -> None:
    batch, n, m = sizes
    for left, kind in ((True, "ADJOINT"), (False, "NO_TRANSPOSE")):
        text = program(sizes, element, left, True, False, kind)
        y = random([*batch, *([n, m] if left else [m, n])], element)
        check_rule(text, matrix(batch, n, element), y, order=1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("unit", BOTH)
def test_entries_not_read_have_derivative_zero(unit: bool, kind: str) -> None:
    text = program(([], 3, 2), "f64", True, True, unit, kind)
    cotangent = run(load(text).vjp(), [matrix([], 3, "f64"), random([3, 2], "f64"), random([3, 2], "f64")])[1]
    read = np.tril(np.ones((3, 3)), -1 if unit else 0) != 0
    assert np.all(cotangent[~read] == 0) and np.all(cotangent[read] != 0)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("element", ["f64", "complex<f64>"])
@pytest.mark.parametrize("lower", BOTH)
@pytest.mark.parametrize("kind", KINDS)
def test_as_jax(element: str, lower: bool, kind: str) -> None:
    """The derivatives of a triangular solve equal JAX's, which are also only with respect to the triangle that the op
    reads.
    """

    def function(a: Any, y: Any) -> Any:
        return lax.linalg.triangular_solve(
            a,
            y,
            left_side=True,
            lower=lower,
            transpose_a=kind != "NO_TRANSPOSE",
            conjugate_a=kind == "ADJOINT",
        )

    text = program(([2], 3, 2), element, True, lower, False, kind)
    check_rule(text, matrix([2], 3, element), random([2, 3, 2], element), order=1, jax_function=function)


def test_with_itself() -> None:
    text = program(([], 3, 3), "f64", True, True, False, "NO_TRANSPOSE").replace("(%a, %y)", "(%a, %a)")
    check_rule(text, matrix([], 3, "f64"), random([3, 3], "f64"))


def test_a_solution_is_not_linear_in_its_matrix() -> None:
    """The transpose rule refuses an op whose matrix is active, because the solution is not linear in the matrix.

    No rule emits such an op.
    """
    from tiduc.passes.rules import OPSET

    class Op:
        name = "stablehlo.triangular_solve"
        location = None

    with pytest.raises(Unsupported, match="not linear in its matrix"):
        OPSET.transpose_rules[Op.name](None, Op, [None], [True, False])  # type: ignore[arg-type]
