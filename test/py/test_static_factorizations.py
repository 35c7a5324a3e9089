"""Static libraries of small programs that factor or solve with small matrices.

These programs are compiled to scalar ops.
"""

import shutil
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from cases.hard_matrices import positive
from harness.scalars import evaluate, scalars
from harness.static_libraries import run_library
from jax import numpy as jnp
from numpy.typing import NDArray
from scipy.linalg import lapack

import tiduc
from tiduc.backends.iree.static.scalars.factorizations import LARGEST
from tiduc.dialect.mlir.context import parse
from tiduc.program import Program, from_module

Array = NDArray[Any]
needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler")


def factors(*batch: int, rows: int = 4, columns: int = 4) -> str:
    """A program that returns the LU factors, pivots and `info` of a matrix.

    For square matrices it also returns the Cholesky factor and `info` for either triangle. All results are converted to
    floats, because static libraries of scalar ops return only floats.
    """
    sizes, k = "".join(f"{n}x" for n in batch), min(rows, columns)
    a, info = f"tensor<{sizes}{rows}x{columns}xf64>", f"tensor<{sizes[:-1]}{'x' * bool(batch)}"
    lines = [
        f"%0:3 = stablehlo.custom_call @lapack_dgetrf_ffi(%a) : ({a}) -> ({a}, tensor<{sizes}{k}xi32>, {info}i32>)",
        f"%1 = stablehlo.convert %0#1 : (tensor<{sizes}{k}xi32>) -> tensor<{sizes}{k}xf64>",
        f"%2 = stablehlo.convert %0#2 : ({info}i32>) -> {info}f64>",
    ]
    results = {"%0#0": a, "%1": f"tensor<{sizes}{k}xf64>", "%2": f"{info}f64>"}
    for uplo in "LU" if rows == columns else "":
        lines += [
            f"%{uplo}:2 = stablehlo.custom_call @lapack_dpotrf_ffi(%a) "
            f"{{api_version = 4 : i32, backend_config = {{uplo = {ord(uplo)} : ui8}}}} : ({a}) -> ({a}, {info}i32>)",
            f"%i{uplo} = stablehlo.convert %{uplo}#1 : ({info}i32>) -> {info}f64>",
            f"%c{uplo} = stablehlo.cholesky %a, lower = {str(uplo == 'L').lower()} : {a}",
        ]
        results |= {f"%{uplo}#0": a, f"%i{uplo}": f"{info}f64>", f"%c{uplo}": a}
    types, body = ", ".join(results.values()), "\n".join(lines)
    return f"func.func @main(%a: {a}) -> ({types}) {{\n{body}\nreturn {', '.join(results)} : {types}\n}}"


def program(text: str) -> Program:
    return from_module(parse(text))


def degenerate(n: int) -> Array:
    """Matrices with tied pivots, without pivots, with NaN, infinities and zeros of both signs.

    They exclude matrices whose singularity depends on rounding, because fused multiply-adds round differently.
    """
    rng, ties = np.random.default_rng(0), np.tile(np.eye(n), (60, 1, 1))
    ties[:, :3, :3] = rng.integers(-1, 2, (60, 3, 3))
    special = np.where(
        rng.random((20, n, n)) < 0.2, rng.choice([np.nan, np.inf, -np.inf, -0.0], (20, n, n)), 1.5
    )
    zeros, units, columns = np.zeros((n, n)), np.eye(n), rng.standard_normal((n, n))
    columns[:, 1:3] = 0
    named = [zeros, -zeros, units, units[rng.permutation(n)], columns, rng.standard_normal((n, n))]
    return np.concatenate([ties, positive(float, n, rng), special, np.stack(named)])


@pytest.mark.parametrize("rows, columns", [(1, 1), (4, 4), (3, 5), (6, 2)])
def test_pivots_are_those_of_lapack(rows: int, columns: int) -> None:
    """The LU factors, pivots and `info` are LAPACK's, also for tied pivots, zero columns and zero matrices.

    Most entries are -1, 0 and 1, so that few results are rounded.
    """
    found, rng = scalars(program(factors(rows=rows, columns=columns))), np.random.default_rng(0)
    assert found is not None
    a = np.concatenate([rng.integers(-1, 2, (200, rows, columns)), rng.standard_normal((50, rows, columns))])
    lu, pivots, info = evaluate(found, [a])[:3]
    for x, *each in zip(a, lu, pivots, info, strict=True):
        for y, wanted in zip(each, lapack.dgetrf(x), strict=True):
            np.testing.assert_allclose(y - (y is each[1]), wanted, rtol=1e-12, atol=1e-13)


def test_cholesky_factors_are_those_of_numpy() -> None:
    found = scalars(program(factors()))
    assert found is not None
    a = np.random.default_rng(0).standard_normal((30, 4, 4))
    a = a @ a.mT + np.eye(4)
    below, above = evaluate(found, [np.tril(a)]), evaluate(found, [np.triu(a)])
    np.testing.assert_allclose(below[5], np.linalg.cholesky(a), rtol=1e-12)
    np.testing.assert_allclose(above[8], np.linalg.cholesky(a).mT, rtol=1e-12)
    lower, info = evaluate(found, [a])[3:5]
    np.testing.assert_allclose(lower, np.tril(np.linalg.cholesky(a)) + np.triu(a, 1), rtol=1e-12)
    assert not info.any()


@pytest.mark.more
@pytest.mark.parametrize("n", [3, 6])
def test_factors_are_those_of_arrays(n: int) -> None:
    """The scalar ops compute the factors that tiduc computes for arrays, also for matrices that have no factor or
    contain NaN and infinities.
    """
    a = degenerate(n)
    found = scalars(program(factors(rows=n, columns=n)))
    assert found is not None
    arrays = program(factors(len(a), rows=n, columns=n)).compile()(a)
    for i, (x, y) in enumerate(zip(evaluate(found, [a]), arrays, strict=True)):
        largest = np.abs(y).max(tuple(range(1, y.ndim)), keepdims=True, where=np.isfinite(y), initial=1)
        np.testing.assert_allclose(x / largest, y / largest, rtol=1e-9, atol=1e-9, err_msg=str(i))


ELEMENTS = {"f64": np.float64, "f32": np.float32}
KINDS = "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"


def solves(*batch: int, left: bool, kind: str, element: str = "f64") -> str:
    """A program that solves for the lower and the upper triangle of a matrix, each without and with a unit diagonal, in
    this order.
    """
    sizes = "".join(f"{n}x" for n in batch)
    a, c = f"tensor<{sizes}4x4x{element}>", f"tensor<{sizes}{'4x2' if left else '2x4'}x{element}>"
    lines = [
        f"""%{i} = "stablehlo.triangular_solve"(%a, %c) {{left_side = {str(left).lower()}, lower = {lower},
          unit_diagonal = {unit}, transpose_a = #stablehlo<transpose {kind}>}} : ({a}, {c}) -> {c}"""
        for i, (lower, unit) in enumerate(product(("true", "false"), repeat=2))
    ]
    body, types = "\n".join(lines), ", ".join([c] * len(lines))
    results = ", ".join(f"%{i}" for i in range(len(lines)))
    return f"func.func @main(%a: {a}, %c: {c}) -> ({types}) {{\n{body}\nreturn {results} : {types}\n}}"


def check_solutions(
    a: Array, c: Array, found: Sequence[Array], left: bool, kind: str, tolerance: float
) -> None:
    """Asserts that the triangles, multiplied by the solutions, give `c`.

    A solve must read only one triangle, and must not read a unit diagonal.
    """
    for x, (lower, unit) in zip(found, product((True, False), repeat=2), strict=True):
        t = np.tril(a) if lower else np.triu(a)
        if unit:
            t = t - t * np.eye(4) + np.eye(4)
        op = t if kind == "NO_TRANSPOSE" else t.mT
        np.testing.assert_allclose(op @ x if left else x @ op, c, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_triangular_solves(left: bool, kind: str) -> None:
    rng = np.random.default_rng(0)
    found = scalars(program(solves(left=left, kind=kind)))
    assert found is not None
    a, c = rng.standard_normal((9, 4, 4)), rng.standard_normal((9, 4, 2) if left else (9, 2, 4))
    check_solutions(a, c, evaluate(found, [a, c]), left, kind, 1e-9)


@needs_gcc
@pytest.mark.more
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize(
    "batch, element, kind", [(3, "f64", KINDS[0]), (8, "f64", KINDS[1]), (8, "f32", KINDS[2])]
)
def test_a_library_of_triangular_solves(
    batch: int, element: str, kind: str, left: bool, tmp_path: Path
) -> None:
    """The compiled library solves triangular systems. Small batches give scalar code, larger ones vector code."""
    of = program(solves(batch, left=left, kind=kind, element=element))
    found, rng = scalars(of), np.random.default_rng(0)
    assert found is not None and found.places == (batch if batch > 3 else 1)
    a = (rng.standard_normal((batch, 4, 4)) + 3 * np.eye(4)).astype(ELEMENTS[element])
    c = rng.standard_normal((batch, 4, 2) if left else (batch, 2, 4)).astype(ELEMENTS[element])
    check_solutions(a, c, run_library(of, [a, c], tmp_path), left, kind, 1e-9 if element == "f64" else 1e-4)


FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "solve": jnp.linalg.solve,
    "solve by Cholesky": lambda a, b: jax.scipy.linalg.cho_solve(
        jax.scipy.linalg.cho_factor(a @ a.T + jnp.eye(3)), b
    ),
    "determinant": lambda a, b: jnp.linalg.det(a) * b,
    "inverse": lambda a, b: jnp.linalg.inv(a) @ b,
}


@pytest.mark.more
@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_of_solves(name: str, double_precision: None) -> None:
    """Jacobians and Hessian-vector products of functions with solves equal JAX's."""
    function, rng = FUNCTIONS[name], np.random.default_rng(0)
    a, b = rng.standard_normal((8, 3, 3)), rng.standard_normal((8, 3))
    loaded = tiduc.from_jax(function, a[0], b[0])
    found = scalars(loaded.jacobian(value=True))
    assert found is not None, name
    wanted = jax.vmap(function)(a, b), *jax.vmap(jax.jacobian(function, (0, 1)))(a, b)
    for x, y in zip(evaluate(found, [a, b]), wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-9)

    def gradient(a: Any, b: Any) -> Any:
        return jax.grad(lambda a, b: jnp.sum(function(a, b) ** 2), (0, 1))(a, b)

    found = scalars(tiduc.from_jax(lambda a, b: jnp.sum(function(a, b) ** 2), a[0], b[0]).grad().jacobian())
    assert found is not None
    wanted = jax.tree.leaves(jax.vmap(jax.jacobian(gradient, (0, 1)))(a, b))
    for x, y in zip(evaluate(found, [a, b]), wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-7, atol=1e-7 * np.abs(y).max())


@needs_gcc
@pytest.mark.more
@pytest.mark.parametrize("batch", [3, 8])
def test_a_library_of_factors(batch: int, tmp_path: Path) -> None:
    """The compiled library computes the factors that the scalar ops compute.

    Small batches give scalar code, larger ones vector code.
    """
    of = program(factors(batch, rows=3, columns=3))
    found = scalars(of)
    assert found is not None and found.places == (batch if batch > 3 else 1)
    for a in (degenerate(3)[:batch], degenerate(3)[-batch:]):
        for x, y in zip(run_library(of, [a], tmp_path), evaluate(found, [a[None]]), strict=True):
            np.testing.assert_allclose(x, y[0], rtol=1e-12, atol=1e-12)


@pytest.mark.more
def test_large_matrices_keep_their_dispatches(double_precision: None) -> None:
    n = LARGEST + 1
    assert scalars(program(factors(rows=n, columns=n))) is None
    assert scalars(tiduc.from_jax(jnp.linalg.solve, np.eye(LARGEST), np.ones(LARGEST))) is not None
