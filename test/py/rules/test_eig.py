"""Eigenvalues and eigenvectors of square matrices, by calls of LAPACK and cuSOLVER."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from harness.check_rule import check_rule, like, run
from harness.compare import compare
from harness.exports import exported, with_stand_ins
from harness.xla import by_xla
from jax import lax

from tiduc.dialect.errors import Unsupported
from tiduc.loading import load

RNG = np.random.default_rng(0)


def matrix(*sizes: int, kind: str = "f") -> Any:
    return like(np.zeros(sizes, {"f": np.float64, "c": np.complex128}[kind]), RNG)


def eig(left: bool, right: bool) -> Callable[..., Any]:
    """A function that calls JAX's `eig` with the option that allows derivatives of eigenvectors."""
    options = {"compute_left_eigenvectors": left, "compute_right_eigenvectors": right}
    return lambda x: lax.linalg.eig(x, **options, enable_eigvec_derivs=True)


def without_signs(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that returns the eigenvalues and the squares of the eigenvectors' components.

    Rounding of the matrix may flip the sign of an eigenvector, but not its squares.
    """

    def of_squares(x: Any) -> Any:
        w, *vectors = function(x)
        return w, *(v * v for v in vectors)

    return of_squares


VALUES, RIGHT = eig(False, False), eig(False, True)


@pytest.mark.parametrize(
    ("left", "right", "sizes", "kind"),
    [(0, 1, (3, 3), "c"), (1, 0, (3, 3), "f"), (1, 1, (2, 2, 2), "f"), (1, 1, (2, 2), "c")],
)
def test_vectors(left: bool, right: bool, sizes: tuple[int, ...], kind: str) -> None:
    """The derivatives of eigenvectors equal JAX's.

    The phases of eigenvectors are determined; some of the real matrices have complex eigenvalues.
    """
    x, function = matrix(*sizes, kind=kind), without_signs(eig(bool(left), bool(right)))
    check_rule(exported(function, x), x, order=1, jax_function=jax.jit(function))


@pytest.mark.parametrize(("sizes", "kind"), [((4, 4), "f"), ((2, 3, 3), "c"), ((0, 0), "f")])
def test_values(sizes: tuple[int, ...], kind: str) -> None:
    x = matrix(*sizes, kind=kind)
    check_rule(exported(VALUES, x), x, order=1, jax_function=jax.jit(VALUES))


def test_order_two() -> None:
    x = np.array([[0.3, -2.0], [1.5, 0.1]])
    check_rule(exported(without_signs(RIGHT), x), x, rtol=1e-6)


@pytest.mark.parametrize("n", [60, pytest.param(160, marks=pytest.mark.slow)])
def test_values_keep_their_order(n: int) -> None:
    """The tangents are in the order of the eigenvalues of the same call, also for large matrices.

    LAPACK may order eigenvalues differently if it also computes eigenvectors.
    """
    x, dx = matrix(n, n, kind="c"), matrix(n, n, kind="c")
    w, dw = run(load(exported(VALUES, x)).jvp(), [x, dx])
    with jax.enable_x64(True):
        (other,), (expected,) = (np.asarray(y) for y in jax.jvp(VALUES, (x,), (dx,)))
    order = np.argmin(np.abs(w[:, None] - other), axis=1)
    compare([dw], [expected[order]], 1e-10, "tangent")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("function", [VALUES, RIGHT])
@pytest.mark.parametrize("of", [np.eye(4), matrix(4, 4)])
def test_values_that_are_equal(of: Any, function: Any) -> None:
    """The gradient of the sum of w^3 over the eigenvalues w of a is 3 (a^2)^T, also for equal eigenvalues that rounding
    may separate.
    """
    x = of @ np.diag([1.0, 2.0, 1.0, 2.0]) @ np.linalg.inv(of)
    p = load(exported(lambda x: jnp.sum(function(x)[0] ** 3).real, x))
    compare([run(p.grad(), [x])[0]], [3 * (x @ x).T], 1e-10, "gradient")


@pytest.mark.parametrize("of", [np.eye(3), pytest.param(matrix(3, 3), marks=pytest.mark.more)])
def test_second_derivatives_at_equal_values_are_not_finite(of: Any) -> None:
    """At equal eigenvalues, second derivatives are infinite or NaN, not silently wrong.

    They depend on the derivatives of eigenvectors, which do not exist there.
    """
    x, dx = of @ np.diag([1.0, 1.0, 2.0]) @ np.linalg.inv(of), matrix(3, 3)
    p = load(exported(lambda x: jnp.sum(VALUES(x)[0] ** 2).real, x))
    assert not np.isfinite(run(p.jvp().jvp([0]), [x, dx, dx])[-1])
    root = load(exported(lambda x: (lambda w, v: (v * jnp.sqrt(w)) @ jnp.linalg.inv(v))(*RIGHT(x)).real, x))
    assert not np.isfinite(run(root.jvp(), [x, dx])[1]).all()


def test_components_that_tie() -> None:
    """A real eigenvector and its tangent are real, even if two components share the largest magnitude."""
    x = np.array([[0.0, 1.0], [1.0, 0.0]])
    _, v, _, dv = run(load(exported(RIGHT, x)).jvp(), [x, matrix(2, 2)])
    np.testing.assert_allclose(np.abs(v), np.sqrt(0.5))
    assert np.all(np.isfinite(dv)) and not np.any(dv.imag)


def cusolver(n: int, kind: str, right: bool, left: bool = False) -> str:
    """The text of the program that JAX exports on machines with CUDA."""
    of_x, of_w = (f"tensor<{size}x{e}>" for size, e in ((f"{n}x{n}", ELEMENT[kind]), (n, "complex<f64>")))
    settings = f"left = {str(left).lower()}, right = {str(right).lower()}"
    return f"""
    func.func @main(%x: {of_x}) -> ({of_w}, {of_x}) {{
      %0:5 = stablehlo.custom_call @cusolver_geev_ffi(%x)
        {{api_version = 4 : i32, backend_config = {{{settings}}}}}
        : ({of_x}) -> ({of_x}, {of_w}, {of_x}, {of_x}, tensor<i32>)
      return %0#1, %0#3 : {of_w}, {of_x}
    }}"""


ELEMENT = {"f": "f64", "c": "complex<f64>"}


@pytest.mark.parametrize("kind", ["f", "c"])
def test_cusolver(kind: str) -> None:
    """Derivatives of cuSOLVER's call equal JAX's.

    For a real matrix, two real columns of its result hold a conjugate pair of eigenvectors.
    """
    x, dx = matrix(5, 5, kind=kind), matrix(5, 5, kind=kind)
    with jax.enable_x64(True):
        (w, v), (dw, dv) = jax.jvp(RIGHT, (x,), (dx,))
    assert kind == "c" or 0 < np.count_nonzero(np.imag(w)) < 5
    second = np.imag(w) < 0 if kind == "f" else np.zeros(5, bool)
    packed = [np.where(second, -np.imag(y), np.real(y)) if kind == "f" else y for y in (v, dv)]
    for right, expected in ((True, [w, packed[0], dw, packed[1]]), (False, [w, None, dw, 0 * x])):
        program = str(load(cusolver(5, kind, right)).jvp())
        for actual, y in zip(by_xla(with_stand_ins(program), [x, dx]), expected, strict=True):
            if y is not None:
                compare([actual], [np.asarray(y)], 1e-12, f"right = {right}")


def test_left_vectors_of_cusolver_are_refused() -> None:
    with pytest.raises(Unsupported, match="no left eigenvectors"):
        load(cusolver(3, "f", True, left=True)).jvp()
