"""Factorizations and solves at singular matrices:

JVP and VJP agree, or neither is finite. Equal eigenvalues and singular values of these matrices often differ by
rounding errors.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from harness.check_rule import inner, like, run
from harness.exports import exported
from jax import lax
from jax.scipy import linalg

import tiduc
from tiduc.cli import run as command
from tiduc.dialect.errors import RequestError
from tiduc.loading import load

N = 3


def ones(x: Any, columns: int) -> Any:
    return jnp.ones((N, columns), x.dtype)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "cholesky": jnp.linalg.cholesky,
    "potrf": lambda x: lax.linalg.cholesky(x, symmetrize_input=False),
    "lu": lambda x: lax.linalg.lu(x)[0],
    "lu of a wide matrix": lambda x: lax.linalg.lu(x[:2])[0],
    "lu of a tall matrix": lambda x: lax.linalg.lu(x[:, :2])[0],
    "qr": jnp.linalg.qr,
    "qr of a tall matrix": lambda x: jnp.linalg.qr(x[:, :2]),
    "qr, complete": lambda x: jnp.linalg.qr(x[:, :2], mode="complete"),
    "qr of a wide matrix": lambda x: jnp.linalg.qr(x[:2]),
    "reflectors": lambda x: jnp.linalg.qr(x, mode="raw"),
    "qr with pivots": lambda x: linalg.qr(x, pivoting=True)[:2],
    "product of reflectors": lambda x: lax.linalg.householder_product(x, x[0]),
    "eigh": lambda x: lax.linalg.eigh(x),
    "eigvalsh": jnp.linalg.eigvalsh,
    "svd": lambda x: lax.linalg.svd(x, full_matrices=False),
    "svd of a tall matrix": lambda x: lax.linalg.svd(x[:, :2], full_matrices=False),
    "svd, full": lambda x: lax.linalg.svd(x[:2], full_matrices=True),
    "singular values": lambda x: lax.linalg.svd(x, compute_uv=False),
    "pinv": jnp.linalg.pinv,
    "eig": lambda x: lax.linalg.eig(x, enable_eigvec_derivs=True),
    "eigvals": jnp.linalg.eigvals,
    "schur": lambda x: lax.linalg.schur(x + 0j),
    "triangular_solve": lambda x: lax.linalg.triangular_solve(x, ones(x, 2), left_side=True, lower=True),
    "transposed solve": lambda x: lax.linalg.triangular_solve(
        x, ones(x, 2), left_side=True, transpose_a=True
    ),
    "tridiagonal_solve": lambda x: lax.linalg.tridiagonal_solve(*x, ones(x, 1)),
    "solve": lambda x: jnp.linalg.solve(x, ones(x, 1)),
    "inv": jnp.linalg.inv,
    "lstsq": lambda x: jnp.linalg.lstsq(x, ones(x, 1))[0],
}


def orthogonal(rng: Any, n: int, kind: str) -> Any:
    return np.linalg.qr(like(np.zeros((n, n), kind), rng))[0]


def adjoint(x: Any) -> Any:
    return np.conj(np.swapaxes(x, -1, -2))


def points(rng: Any, kind: str) -> list[Any]:
    """Matrices that are singular, are defective, or have eigenvalues or singular values that are equal, exactly or up
    to rounding.
    """
    q, p, s = orthogonal(rng, N, kind), orthogonal(rng, N, kind), like(np.zeros((N, N), kind), rng)
    jordan = np.array([[1.0, 1, 0], [0, 1, 0], [0, 0, 3]])
    split = jordan + 1e-14 * np.eye(N, k=-1)
    thin = s[:, :2]
    exact = [
        np.zeros((N, N)),
        np.eye(N),
        np.ones((N, N)),
        jordan,
        jordan.T,
        np.eye(N, k=1),
        np.diag([1.0, 0, 2]),
        [[1.0, 0, 2], [3, 0, 1], [2, 0, 5]],
        [[1.0, 2, 3], [2, 5, 1], [3, 7, 4]],
        [[1.0, 2, 3], [0, 1, 4], [0, 0, 2]],
        [[1.0, 0, 0], [3, 0, 0], [2, 5, 2]],
        split,
        jordan + 1e-30 * np.eye(N, k=-1),
    ]
    rounded = [
        thin @ adjoint(p[:, :2]),
        s[:, :1] @ adjoint(p[:, :1]),
        thin @ adjoint(thin),
        (q * [1.0, 1, 2]) @ adjoint(q),
        (q * [1.0, 1, 2]) @ adjoint(p),
        (q * [1.0, 1 + 1e-12, 2]) @ adjoint(q),
        (q * [1.0, 1e-15, 2]) @ adjoint(p),
        s @ jordan @ np.linalg.inv(s),
        s @ np.diag([1.0, 1, 3]) @ np.linalg.inv(s),
    ]
    return [np.asarray(x, kind) for x in (*exact, *rounded)]


@pytest.mark.sampled(30)
@pytest.mark.parametrize("kind", ["f8", "c16"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_jvp_and_vjp_agree_or_are_not_finite(name: str, kind: str) -> None:
    """At these matrices, JVP and VJP agree or neither is finite, for a dense cotangent and for the cotangent of one
    element.
    """
    rng = np.random.default_rng(0)
    program = load(exported(FUNCTIONS[name], np.eye(N, dtype=kind)))
    jvp, vjp, count = program.jvp(), program.vjp(), len(program.outputs)
    for number, x in enumerate(points(rng, kind)):
        if name.startswith("eig") and name.endswith("h"):
            x = (x + adjoint(x)) / 2
        for is_dense in (True, False):
            dx = like(x, rng)
            results = run(jvp, [x, dx])
            dy = results[count:]
            ct = [like(y, rng) for y in dy]
            if not is_dense:
                chosen = ct[0].flat[0]
                ct = [np.zeros_like(y) for y in ct]
                ct[0].flat[0] = chosen
            actual = inner(run(vjp, [x, *ct])[count:], [dx])
            is_finite = np.isfinite(inner(ct, dy))
            expected = inner(ct, dy) if is_dense else inner([ct[0].flat[:1]], [dy[0].flat[:1]])
            if is_dense or not np.isfinite(actual):  # the derivatives of other elements need not be finite
                assert is_finite == np.isfinite(actual), (number, is_dense, expected, actual)
            else:
                assert np.isfinite(expected), (number, is_dense, expected, actual)
            if np.isfinite(actual):
                sums = [float(np.sum(np.abs(y[np.isfinite(y)]))) for y in dy]
                size = max(float(np.max(np.abs(c))) * total for c, total in zip(ct, sums, strict=True))
                assert abs(actual - expected) <= 1e-3 * size, (number, is_dense, expected, actual)


# ---- defective eigenvalues ---------------------------------------------------------------------------------


@pytest.mark.parametrize("x", [[[1.0, 1], [0, 1]], [[0.0, 1], [0, 0]]])
@pytest.mark.parametrize("dx", [np.eye(2), np.array([[0.5, 0.25], [-1, 2]]), np.diag([1.0, 0])])
def test_derivatives_of_defective_eigenvalues_are_not_finite(x: Any, dx: Any) -> None:
    program = load(exported(lambda x: jnp.real(jnp.sum(jnp.linalg.eigvals(x))), dx))
    results = run(program.jvp(), [x, dx])[1], run(program.vjp(), [x, np.float64(1)])[1]
    assert not any(np.isfinite(y).any() for y in results)
    twice = program.jvp().jvp([0])
    assert not np.isfinite(run(twice, [x, dx, dx])[-1]).any()


def test_a_simple_eigenvalue_beside_defective_ones() -> None:
    """The derivative of the largest real part of the eigenvalues agrees with finite differences if that eigenvalue is
    simple and the others are defective.
    """
    x = np.array([[0.0, 1, 0], [0, 0, 0], [0.5, 2, 3]])
    dx = np.random.default_rng(0).standard_normal((3, 3))
    program = load(exported(lambda x: jnp.max(jnp.real(jnp.linalg.eigvals(x))), x))
    step = 1e-6
    radius = [np.max(np.linalg.eigvals(x + sign * step * dx).real) for sign in (1, -1)]
    expected = (radius[0] - radius[1]) / (2 * step)
    results = run(program.jvp(), [x, dx])[1], inner([run(program.vjp(), [x, np.float64(1)])[1]], [dx])
    np.testing.assert_allclose(results, expected, rtol=1e-7)


# ---- values that are equal up to rounding ------------------------------------------------------------------


def _pair(n: int, kind: str) -> tuple[Any, Any, Any]:
    """Unitary matrices q and p, and n values, the first two of which are equal."""
    rng = np.random.default_rng(n)
    return orthogonal(rng, n, kind), orthogonal(rng, n, kind), np.array([1.0, 1, *range(2, n)])


@pytest.mark.parametrize(("n", "kind"), [(3, "f8"), (6, "c16"), (5, "f4")])
def test_projectors_onto_vectors_of_equal_eigenvalues(n: int, kind: str) -> None:
    q, _, w = _pair(n, "c16" if kind == "c16" else "f8")
    x = ((q * w) @ adjoint(q)).astype(kind)
    x, dx = ((y + adjoint(y)) / 2 for y in (x, like(x, np.random.default_rng(0)).astype(kind)))

    def projector(x: Any) -> Any:
        v = jnp.linalg.eigh(x)[1][:, :2]
        return v @ jnp.conj(v.T)

    onto = q[:, :2] @ adjoint(q[:, :2])
    others = [(w[j], q[:, j : j + 1] @ adjoint(q[:, j : j + 1])) for j in range(2, n)]
    expected = sum((onto @ dx @ other + other @ dx @ onto) / (1 - value) for value, other in others)
    _check(projector, x, dx, expected, 1e-12 if kind != "f4" else 1e-4)


@pytest.mark.parametrize(("n", "kind"), [(3, "f8"), (6, "c16"), (5, "f4")])
def test_unitary_factors_with_equal_singular_values(n: int, kind: str) -> None:
    q, p, s = _pair(n, "c16" if kind == "c16" else "f8")
    x = ((q * s) @ adjoint(p)).astype(kind)
    dx = like(x, np.random.default_rng(0)).astype(kind)

    def factor(x: Any) -> Any:
        u, _, vh = jnp.linalg.svd(x, full_matrices=False)
        return u @ vh

    c = adjoint(q) @ dx @ p
    expected = q @ ((c - adjoint(c)) / (s[:, None] + s)) @ adjoint(p)
    _check(factor, x, dx, expected, 1e-12 if kind != "f4" else 1e-4)


def _check(function: Callable[..., Any], x: Any, dx: Any, expected: Any, tolerance: float) -> None:
    """Compares the JVP with `expected`, and the VJP with the JVP.

    Asserts that derivatives of order two are not finite.
    """
    program = load(exported(function, x))
    y, dy = run(program.jvp(), [x, dx])
    size = np.max(np.abs(expected))
    np.testing.assert_allclose(dy, expected, rtol=0, atol=tolerance * size)
    rng = np.random.default_rng(1)
    ct = like(y, rng).astype(y.dtype)
    for derived, more in ((program, []), (program.jvp(), [dx]), (program.vjp(), [ct])):
        tangents = [like(each, rng).astype(x.dtype) for each in [x, *more]]
        results = run(derived.jvp(), [x, *more, *tangents])
        tangent = results[len(results) // 2 :]
        cts = [like(each, rng).astype(x.dtype) for each in tangent]
        cx = run(derived.vjp(), [x, *more, *cts])[len(tangent) :]
        sums = inner(cts, tangent), inner(cx, tangents)
        if derived is program:
            total = sum(np.sum(np.abs(c * t)) for c, t in zip(cts, tangent, strict=True))
            assert abs(sums[0] - sums[1]) <= tolerance * total
        else:
            assert not np.isfinite(sums).any()


def test_the_width_is_an_option(tmp_path: Any, capsys: Any) -> None:
    x, dx = np.diag([1, 1 + 1e-9, 2]), np.random.default_rng(0).standard_normal((3, 3))
    text = exported(lambda x: jnp.linalg.eigh(x)[1], x)
    sizes = [np.max(np.abs(run(load(text, equal_within=ulps).jvp(), [x, dx])[1])) for ulps in (None, 0, 1e8)]
    assert sizes[0] == sizes[1] > 1e7 and sizes[2] == np.inf
    with pytest.raises(RequestError, match="not by -1"):
        load(text, equal_within=-1)
    (tmp_path / "f.mlir").write_text(text)
    assert command(["jvp", str(tmp_path / "f.mlir"), "--equal-within", "12"]) == 0
    assert "tidu.equal_within = 1.2" in capsys.readouterr().out


def test_failed_calls_have_tangents_of_nan() -> None:
    """After a failed Cholesky factorization, for which JAX's export selects a constant NaN, the tangent is NaN and not
    zero.
    """
    x = np.stack([np.eye(2), -np.eye(2)])
    with jax.enable_x64(True):
        dy = run(load(exported(jnp.linalg.cholesky, x)).jvp(), [x, x])[1]
    assert np.isfinite(dy[0]).all() and np.isnan(dy[1][np.tril_indices(2)]).all()


# ---- determinants ------------------------------------------------------------------------------------------

RANK_3 = np.array([[1.0, 2, 3, 4], [2, 5, 1, 0], [3, 7, 4, 4], [1, 1, 0, 2]])


def adjugate(x: Any) -> Any:
    """The adjugate of a real matrix. It is the transpose of the gradient of the determinant."""
    u, s, vh = np.linalg.svd(x)
    others = [np.prod(np.delete(s, i)) for i in range(len(s))]
    return np.linalg.det(u @ vh) * (vh.T * others) @ u.T


@pytest.mark.more  # the derivatives take two seconds to compile
def test_determinants_of_singular_matrices() -> None:
    """At singular matrices, the derivatives of `det` are right to order two, except at zero, and those of `slogdet` are
    infinite or NaN.

    In files of `jax.export`, both functions contain a select for such matrices.
    """
    rng = np.random.default_rng(0)
    log = load(exported(lambda x: jnp.linalg.slogdet(x)[1], RANK_3))
    det = load(exported(jnp.linalg.det, RANK_3))
    both = load(exported(lambda x: (jnp.linalg.slogdet(x)[1], jnp.linalg.det(x)), RANK_3)).jvp()
    jvp, vjp, of_log, from_log, twice = both, det.vjp(), log.jvp(), log.vjp(), both.jvp([0])
    last = RANK_3 * [1, 1, 1, 0]  # the last pivot is 0
    thin = rng.standard_normal((4, 2)) @ rng.standard_normal((2, 4))
    for x in (rng.standard_normal((4, 4)), RANK_3, last, thin, 0 * RANK_3):
        dx, one = rng.standard_normal((4, 4)), np.float64(1)
        is_finite = np.isfinite(run(of_log, [x, dx])[1]), np.isfinite(run(from_log, [x, one])[1]).all()
        assert is_finite[0] == is_finite[1] == (abs(np.linalg.slogdet(x)[1]) < np.inf)
        tangent, cotangent = run(jvp, [x, dx])[3], run(vjp, [x, one])[1]
        expected, size = adjugate(x).T, np.sum(np.abs(x)) ** 3
        np.testing.assert_allclose(cotangent, expected, rtol=0, atol=1e-14 * size)
        np.testing.assert_allclose(tangent, np.sum(expected * dx), rtol=0, atol=1e-13 * size)
        if not x.any():  # the first pivot is 0
            assert not np.isfinite(run(twice, [x, dx, dx])[-1])
            continue
        step = 1e-4 * dx
        second = np.sum((adjugate(x + step) - adjugate(x - step)).T * dx) / 2e-4
        np.testing.assert_allclose(run(twice, [x, dx, dx])[-1], second, rtol=0, atol=1e-6 * size)


DEPENDENT = RANK_3 + np.eye(4)[:, 3:]
EARLY = {
    "second pivot": np.diag([1.0, 0, 2, -3]),
    "first pivot": np.diag([1.0, 2, -3], 1),
    "dependent columns": np.stack(
        [DEPENDENT[:, 0], 2 * DEPENDENT[:, 0], DEPENDENT[:, 1], DEPENDENT[:, 3]], 1
    ),
    "two pivots": np.array([[0.0, 2, 1, 5], [0, 3, 4, 1], [0, 0, 0, 7], [0, 0, 0, 0]]),
    "rank 2": np.diag([1.0, 0, 0, 3]),
    "zero": np.zeros((4, 4)),
}


@pytest.mark.more  # compiles with two engines
@pytest.mark.parametrize("is_file", [True, False])
def test_determinants_where_an_earlier_pivot_is_zero(is_file: bool) -> None:
    """If a pivot before the last one is 0, the derivative of the determinant is the adjugate.

    There, JAX's derivative is 0, and differentiating the ops in a file gives NaN.
    """
    x = np.stack([*EARLY.values(), RANK_3 + np.eye(4), RANK_3])
    with jax.enable_x64(True):
        program = load(exported(jnp.linalg.det, x)) if is_file else tiduc.from_jax(jnp.linalg.det, x)
    dx, ct = np.random.default_rng(0).standard_normal(x.shape), np.arange(1.0, len(x) + 1)
    engine = "iree" if is_file else "xla"
    tangent, cotangent = (
        p.compile(engine=engine)(x, y)[1] for p, y in ((program.jvp(), dx), (program.vjp(), ct))
    )
    expected = np.stack([adjugate(each).T for each in x])
    np.testing.assert_allclose(tangent, np.sum(expected * dx, (1, 2)), atol=1e-11)
    np.testing.assert_allclose(cotangent, ct[:, None, None] * expected, atol=1e-11)


@pytest.mark.more
def test_jets_of_determinants() -> None:
    """The Taylor coefficients of det(x + t a + t^2 b + t^3 c) are right.

    If a pivot before the last one is 0, only the first coefficient is finite.
    """
    rng = np.random.default_rng(0)
    series, times = rng.standard_normal((3, 4, 4)), np.linspace(-1, 1, 25)
    jet = load(exported(jnp.linalg.det, RANK_3)).jet(3)
    last = RANK_3 * [1, 1, 1, 0]  # the last pivot is 0
    for x in (rng.standard_normal((4, 4)), RANK_3 + np.eye(4), last, np.diag([1.0, 0, 2, 3])):
        along = [x + sum(t ** (k + 1) * a for k, a in enumerate(series)) for t in times]
        expected = np.polynomial.Polynomial.fit(
            times, np.linalg.det(np.stack(along)), 12, domain=[-1, 1]
        ).coef
        found = run(jet, [x, series])[1]
        orders = 3 if np.linalg.det(x) or x is last else 1
        np.testing.assert_allclose(found[:orders], expected[1 : orders + 1], rtol=1e-8)
        assert not np.isfinite(found[orders:]).any()


def test_lu_of_a_matrix_whose_last_pivot_is_zero() -> None:
    x, rng = np.array([[2.0, 1, 4], [4, 1, 2], [1, 0.5, 2]]), np.random.default_rng(0)
    program, dx = load(exported(lambda x: lax.linalg.lu(x)[0], x)), rng.standard_normal((3, 3))
    y, dy = run(program.jvp(), [x, dx])
    assert y[2, 2] == 0
    step = 1e-6 * dx
    with jax.enable_x64(True):
        expected = (linalg.lu_factor(x + step)[0] - linalg.lu_factor(x - step)[0]) / 2e-6
    np.testing.assert_allclose(dy, expected, atol=1e-8)
    ct = rng.standard_normal((3, 3))
    np.testing.assert_allclose(np.sum(run(program.vjp(), [x, ct])[1] * dx), np.sum(ct * dy), rtol=1e-12)
