"""Factorizations and solves, which JAX exports as calls of LAPACK, cuSOLVER and XLA's TPU targets, compared with
JAX.
"""

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from harness.check_rule import check_rule, run
from harness.exports import exported, random
from harness.xla import by_xla
from jax import export, lax
from jax.scipy import linalg

from tiduc.dialect.errors import Unsupported
from tiduc.loading import load

BOTH = [False, True]


@pytest.fixture(autouse=True)
def double() -> Any:
    with jax.enable_x64(True):
        yield


def positive(*sizes: int) -> Any:
    x = random(*sizes)
    return x @ np.swapaxes(x, -1, -2) + 2 * np.eye(sizes[-1])


def differentiable(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that returns the results of `function` without integer arrays, which have no derivatives."""

    def of(*arguments: Any) -> list[Any]:
        leaves = jax.tree_util.tree_leaves(function(*arguments))
        return [y for y in leaves if jnp.issubdtype(y.dtype, jnp.inexact)]

    return of


def as_jax(function: Callable[..., Any], *arguments: Any, order: int = 1) -> None:
    check_rule(
        exported(function, *arguments),
        *arguments,
        order=order,
        subsets=False,
        jax_function=jax.jit(differentiable(function)),
    )


# ---- Cholesky factors --------------------------------------------------------------------------------------


def potrf(uplo: str) -> str:
    a, info = "tensor<2x3x3xf64>", "tensor<2xi32>"
    layout = "dense<[1, 2, 0]> : tensor<3xindex>"
    return f"""
    func.func @main(%a: {a}) -> {a} {{
      %0:2 = stablehlo.custom_call @lapack_dpotrf_ffi(%a) {{mhlo.backend_config = {{uplo = {ord(uplo)} : ui8}},
        operand_layouts = [{layout}], result_layouts = [{layout}, dense<0> : tensor<1xindex>]}}
        : ({a}) -> ({a}, {info})
      return %0#0 : {a}
    }}"""


@pytest.mark.parametrize(("uplo", "order"), [("L", 2), ("U", 1)])
def test_potrf_keeps_the_other_triangle(uplo: str, order: int) -> None:
    kept = np.triu if uplo == "L" else np.tril
    a, da = positive(2, 3, 3) + kept(random(2, 3, 3), 1 if uplo == "L" else -1), random(2, 3, 3)
    check_rule(potrf(uplo), a, order=order)
    dy = run(load(potrf(uplo)).jvp(), [a, da])[1]
    assert np.array_equal(*(kept(x, 1 if uplo == "L" else -1) for x in (dy, da)))


@pytest.mark.parametrize("complex_", BOTH)
def test_cholesky_as_jax(complex_: bool) -> None:
    as_jax(lambda x: jnp.linalg.cholesky(x @ jnp.conj(x.T)), random(3, 3, complex_=complex_) + 2 * np.eye(3))


def test_failed_cholesky_factorizations() -> None:
    """After a failed Cholesky factorization, for which JAX's export selects NaN, cotangents are NaN.

    Differentiating only the select would give zeros.
    """
    a = np.stack([positive(2, 2), -positive(2, 2)])
    cotangent = run(load(exported(jnp.linalg.cholesky, a)).vjp(), [a, random(2, 2, 2)])[1]
    assert np.all(np.isfinite(cotangent[0])) and np.all(np.isnan(cotangent[1]))


# ---- solves ------------------------------------------------------------------------------------------------


@pytest.mark.sampled(12)
@pytest.mark.parametrize("complex_", BOTH)
@pytest.mark.parametrize("kind", "NTC")
@pytest.mark.parametrize("side", "LR")
@pytest.mark.parametrize("uplo", "LU")
@pytest.mark.parametrize("diag", "NU")
def test_trsm_is_triangular_solve(side: str, uplo: str, diag: str, kind: str, complex_: bool) -> None:
    """The derivatives of a call of LAPACK's trsm equal those of the op triangular_solve."""
    t = f"tensor<3x3x{'complex<f64>' if complex_ else 'f64'}>"
    letters = {"side": side, "uplo": uplo, "diag": diag, "trans_x": kind}
    config = ", ".join(f"{name} = {ord(value)} : ui8" for name, value in letters.items())
    flags = f"left_side = {side == 'L'}, lower = {uplo == 'L'}, unit_diagonal = {diag == 'U'}".lower()
    turned = {"N": "NO_TRANSPOSE", "T": "TRANSPOSE", "C": "ADJOINT"}[kind]
    call = f"@lapack_{'z' if complex_ else 'd'}trsm_ffi(%a, %y) {{mhlo.backend_config = {{{config}}}}}"
    op = f'"stablehlo.triangular_solve"(%a, %y) {{{flags}, transpose_a = #stablehlo<transpose {turned}>}}'
    primal = '%0 = "stablehlo.triangular_solve"(%arg0, %arg1)'
    for mode in ("jvp", "vjp"):
        lines = []
        for solve in (f"stablehlo.custom_call {call}", op):
            text = f"func.func @main(%a: {t}, %y: {t}) -> {t} {{\n%0 = {solve} : ({t}, {t}) -> {t}\nreturn %0 : {t}\n}}"
            derived = str(getattr(load(text), mode)()).splitlines()
            lines.append([line for line in derived if "custom_call" not in line and primal not in line])
        assert lines[0] == lines[1] and "triangular_solve" in "".join(lines[0])


@pytest.mark.parametrize(
    ("function", "sizes"),
    [
        (lambda a, y: linalg.solve_triangular(a, y, trans=2, lower=True), ([3, 3], [3, 2])),
        (jnp.linalg.solve, ([2, 3, 3], [2, 3, 2])),
        (jnp.linalg.inv, ([3, 3],)),
        (lambda a, y: linalg.lu_solve(linalg.lu_factor(a), y, trans=1), ([3, 3], [3])),
        (lambda a, y: linalg.cho_solve((a, True), y), ([3, 3], [3, 2])),
    ],
)
def test_solves_as_jax(function: Any, sizes: tuple[list[int], ...]) -> None:
    a, *ys = (random(*each, complex_=len(sizes[0]) == 2) for each in sizes)
    as_jax(function, a + 2 * np.eye(3), *ys)


def diagonals(*sizes: int, complex_: bool) -> list[Any]:
    dl, d, du = (random(*sizes, complex_=complex_) for _ in range(3))
    return [dl, d + 3, du]


@pytest.mark.parametrize(
    ("sizes", "complex_", "order"), [([4], False, 2), ([2, 3], True, 1), ([1], False, 1)]
)
def test_tridiagonal_solve(sizes: list[int], complex_: bool, order: int) -> None:
    arguments = *diagonals(*sizes, complex_=complex_), random(*sizes, 2, complex_=complex_)
    as_jax(lax.linalg.tridiagonal_solve, *arguments, order=order)


def test_tridiagonal_solve_of_some_active_operands() -> None:
    dl, d, du = diagonals(3, complex_=True)
    text = exported(
        lambda dl, y: lax.linalg.tridiagonal_solve(dl, d, du, y), dl, y := random(3, 1, complex_=True)
    )
    check_rule(text, dl, y, order=1)


def test_perturbed_tridiagonal_solve() -> None:
    def function(*arguments: Any) -> Any:
        return lax.linalg.tridiagonal_solve(*arguments, perturb_singular=True)

    arguments = *diagonals(4, complex_=False), random(4, 2)
    as_jax(function, *arguments)


def test_diagonals_returned_by_gtsv_are_refused() -> None:
    arguments = *diagonals(3, complex_=False), random(3, 2)
    text = exported(lax.linalg.tridiagonal_solve, *arguments)
    value = re.search(r"return (%\d+) : tensor<3x2xf64>", text)
    assert value
    text = text.replace(f"return {value[1]} : tensor<3x2xf64>", "return %0#1 : tensor<3xf64>")
    text = text.replace("-> (tensor<3x2xf64> {", "-> (tensor<3xf64> {")
    with pytest.raises(Unsupported, match="a result that holds its overwritten diagonals is used"):
        load(text).jvp()


# ---- factors with pivots -----------------------------------------------------------------------------------


def factors(x: Any) -> Any:
    return lax.linalg.lu(x)[0]


@pytest.mark.parametrize(
    ("sizes", "complex_", "order"),
    [([4, 3], False, 2), ([2, 3, 5], True, 1), ([0, 2], False, 1)],
)
def test_lu(sizes: list[int], complex_: bool, order: int) -> None:
    x = random(*sizes, complex_=complex_)
    as_jax(factors, x, order=order)


def test_lu_with_its_permutation_as_a_matrix() -> None:
    as_jax(linalg.lu, random(3, 3)[[2, 0, 1]])


def test_lu_of_a_tpu() -> None:
    """Derivatives of the LU call for TPUs, which also returns the permutation, are those of LAPACK's call.

    The test replaces the call by LAPACK's to run it.
    """
    x, dx, ct = random(2, 4, 3), random(2, 4, 3), random(2, 4, 3)
    t, perm, piv = "tensor<2x4x3xf64>", "tensor<2x4xi32>", "tensor<2x3xi32>"
    text = f"""
    func.func @main(%x: {t}) -> {t} {{
      %0:3 = stablehlo.custom_call @LuDecomposition(%x) : ({t}) -> ({t}, {piv}, {perm})
      return %0#0 : {t}
    }}"""
    lapack = exported(lax.linalg.lu, x).replace("func.func public @main", "func.func private @lu")
    functions = lapack[lapack.index("func.func") : lapack.rindex("}")]
    for derived, other, expected in (
        (load(text).jvp(), dx, jax.jit(lambda x, dx: jax.jvp(factors, [x], [dx])[1])(x, dx)),
        (load(text).vjp(), ct, jax.jit(lambda x, ct: jax.vjp(factors, x)[1](ct)[0])(x, ct)),
    ):
        whole = str(derived).replace("stablehlo.custom_call @LuDecomposition", "func.call @lu")
        whole = f"{whole.rstrip().removesuffix('}')}{functions}}}"
        np.testing.assert_allclose(by_xla(whole, [x, other])[1], expected, atol=1e-12)


# ---- other platforms ---------------------------------------------------------------------------------------

CUDA = {
    r"lapack_[sdcz]potrf_ffi": "cusolver_potrf_ffi",
    r"uplo = 76 : ui8": "lower = true",
    r"lapack_[sdcz]getrf_ffi": "hipsolver_getrf_ffi",
    r"lapack_[sdcz]geqrf_ffi": "Qr",
    r"lapack_[sdcz](or|un)gqr_ffi": "ProductOfElementaryHouseholderReflectors",
    r"lapack_[sdcz](or|un)mqr_ffi": "cusolver_ormqr_ffi",
}


@pytest.mark.parametrize("complex_", BOTH)
@pytest.mark.parametrize(
    ("function", "sizes"),
    [
        (jnp.linalg.cholesky, ([2, 2],)),
        (jnp.linalg.qr, ([3, 2],)),
        (linalg.lu_factor, ([2, 2],)),
        (lax.linalg.ormqr, ([3, 2], [2], [3, 1])),
    ],
)
def test_other_names_have_the_same_rules(function: Any, sizes: Any, complex_: bool) -> None:
    def renamed(text: str) -> str:
        for mine, other in CUDA.items():
            text = re.sub(mine, other, text)
        return text

    text = exported(function, *(random(*each, complex_=complex_) for each in sizes))
    assert "lapack" in text and "lapack" not in renamed(text)
    for mode in ("jvp", "vjp"):
        ours, others = (getattr(load(each), mode)() for each in (text, renamed(text)))
        assert renamed(str(ours)) == str(others)


PLATFORMS = ("cpu", "cuda", "rocm", "tpu")


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("function", "sizes", "platform"),
    [
        *((jnp.linalg.cholesky, ([2, 3, 3],), name) for name in PLATFORMS),
        *((jnp.linalg.solve, ([3, 3], [3, 2]), name) for name in PLATFORMS),
        *((jnp.linalg.qr, ([2, 4, 3],), name) for name in PLATFORMS),
        *((lax.linalg.tridiagonal_solve, ([3], [3], [3], [3, 2]), name) for name in PLATFORMS[:3]),
        *((lax.linalg.ormqr, ([3, 2], [2], [3, 1]), name) for name in PLATFORMS[:3]),
    ],
)
def test_exports_for_platforms(function: Any, sizes: Any, platform: str) -> None:
    """A factorization that has derivatives on one platform has derivatives on all platforms to which JAX exports it."""
    arguments = [jax.ShapeDtypeStruct(each, jnp.float32) for each in sizes]
    checks = [export.DisabledSafetyCheck.custom_call(name) for name in UNSTABLE]
    module = export.export(jax.jit(function), platforms=[platform], disabled_checks=checks)(*arguments)
    p = load(module.mlir_module())
    assert len(p.jvp().outputs) == 2 * len(p.outputs) and len(p.vjp().outputs) == len(p.outputs) + len(sizes)


UNSTABLE = ("lapack_sormqr_ffi", "cusolver_ormqr_ffi", "hipsolver_ormqr_ffi", "hipsparse_gtsv2_ffi")
"""Call targets whose names JAX does not guarantee to keep."""
