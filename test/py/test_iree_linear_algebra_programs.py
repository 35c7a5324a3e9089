"""Runs JAX programs of linear algebra and their derivatives on IREE. Errors name the calls that are unsupported."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.scipy.linalg as jsl
import numpy as np
import pytest
from cases.hard_matrices import slow
from harness.exports import exported
from harness.vulkan import skip_without_device
from jax import lax
from jax import numpy as jnp
from numpy.typing import NDArray

import tiduc
from tiduc.backends.iree import legalize_for_iree
from tiduc.backends.iree.emit.emitter import CALLS
from tiduc.dialect.errors import ParseError, Unsupported
from tiduc.dialect.mlir.context import parse, stage

Array = NDArray[Any]
RNG = np.random.default_rng(0)


def normal(*shape: int) -> Array:
    return RNG.normal(size=shape)


@pytest.mark.more
@pytest.mark.parametrize("platform", ["cuda", slow("tpu")])
def test_exports_for_other_platforms(platform: str) -> None:
    """A program with factorizations that JAX exports for another platform gives the right results on this CPU."""

    def program(a: Any, s: Any) -> Any:
        values = () if platform == "tpu" else (jnp.linalg.svd(a, full_matrices=False),)
        return jnp.linalg.solve(s, a), jnp.linalg.cholesky(s), jnp.linalg.qr(a), jnp.linalg.eigh(s), values

    a = normal(3, 4)
    s = a @ a.T + np.eye(3)
    compiled = tiduc.load(exported(program, a, s, platform=platform)).compile()
    solved, factor, q, r, w, v, *values = compiled(a, s)
    assert np.allclose(s @ solved, a)
    assert np.allclose(factor @ factor.T, s) and np.allclose(q @ r, a) and np.allclose(v * w @ v.T, s)
    if values:
        u, sizes, vh = values
        assert np.allclose(u * sizes @ vh, a)


FACTORS: dict[str, Callable[..., Any]] = {
    "solve": lambda a: a @ jnp.linalg.solve(a, a),
    "qr": lambda a: jnp.matmul(*jnp.linalg.qr(a)),
    "eigh": lambda a: (lambda w, v: v * w @ v.T)(*jnp.linalg.eigh(a)),
    "svd": lambda a: (lambda u, s, vh: u * s @ vh)(*jnp.linalg.svd(a)),
}
"""Functions that return their argument, a symmetric matrix: as the product of its factors, or by a solve."""


@pytest.mark.slow
def test_on_several_threads() -> None:
    """Factorizations are right on several threads, where only data dependences order the iterations of loops."""
    a = normal(5, 5)
    a += a.T
    for x in tiduc.load(exported(lambda a: [f(a) for f in FACTORS.values()], a)).compile("cpu-threads")(a):
        np.testing.assert_allclose(x, a, atol=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("name", FACTORS)
def test_on_vulkan(name: str) -> None:
    """On Vulkan, the product of the factors of a real f32 matrix is the matrix."""
    skip_without_device("vulkan:llvmpipe")
    a = normal(5, 5).astype(np.float32)
    a += a.T
    (x,) = tiduc.load(exported(FACTORS[name], a)).compile("vulkan:llvmpipe")(a)
    np.testing.assert_allclose(x, a, atol=1e-4)


# ---- whole programs, and their derivatives -----------------------------------------------------------------


def gaussian_process(x: Any, y: Any, log_length: Any, log_noise: Any) -> Any:
    """The negative log marginal likelihood of a Gaussian process with values y at points x."""
    distances = (x[:, None] - x[None, :]) / jnp.exp(log_length)
    covariance = jnp.exp(-0.5 * distances * distances) + jnp.exp(log_noise) * jnp.eye(x.shape[0])
    factor = jnp.linalg.cholesky(covariance)
    _, log_determinant = jnp.linalg.slogdet(covariance)
    return 0.5 * (y @ jsl.cho_solve((factor, True), y) + log_determinant + x.shape[0] * jnp.log(2 * jnp.pi))


def kalman_filter(m: Any, p: Any, y: Any, f: Any, q: Any, h: Any, r: Any) -> Any:
    """A scalar that depends on the state after one step of a Kalman filter and on the likelihood of the observation."""
    m, p = f @ m, f @ p @ f.T + q
    s, innovation = h @ p @ h.T + r, y - h @ m
    gain = jnp.linalg.solve(s, h @ p).T
    m, p = m + gain @ innovation, p - gain @ s @ gain.T
    _, log_determinant = jnp.linalg.slogdet(s)
    return m @ m + jnp.trace(p) + innovation @ jnp.linalg.inv(s) @ innovation + log_determinant


def kalman_series(m: Any, p: Any, ys: Any, f: Any, q: Any, h: Any, r: Any) -> Any:
    """The log likelihood of a series of observations, computed by a loop over the steps of a Kalman filter."""

    def step(state: Any, y: Any) -> Any:
        m, p = f @ state[0], f @ state[1] @ f.T + q
        s, innovation = h @ p @ h.T + r, y - h @ m
        factor = jnp.linalg.cholesky(s)
        z = jsl.solve_triangular(factor, innovation, lower=True)
        gain = jsl.cho_solve((factor, True), h @ p).T
        state = m + gain @ innovation, p - gain @ s @ gain.T
        return state, -0.5 * z @ z - jnp.sum(jnp.log(jnp.diag(factor)))

    return jnp.sum(lax.scan(step, (m, p), ys)[1])


def definite(n: int) -> Array:
    x = normal(n, n)
    return np.asarray(x @ x.T + n * np.eye(n))


POINTS = np.linspace(0, 1, 8), normal(8), np.array(-1.0), np.array(-2.0)
STATES = (
    *(normal(4), definite(4), normal(2)),
    *(normal(4, 4), definite(4), normal(2, 4), definite(2)),
)
TALL, WEIGHTS = normal(5, 3), np.arange(15.0).reshape(5, 3)

PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Array, ...]]] = {
    "gaussian_process": (gaussian_process, POINTS),
    "kalman_filter": (kalman_filter, STATES),
    "kalman_series": (kalman_series, (*STATES[:2], normal(5, 2), 0.3 * STATES[3], *STATES[4:])),
    "qr": (lambda a: jnp.sum(jnp.linalg.qr(a)[0] * WEIGHTS) + jnp.sum(jnp.linalg.qr(a)[1] ** 3), (TALL,)),
    "eigh": (
        lambda a: (
            jnp.sum(jnp.linalg.eigh(a)[0] ** 3) + jnp.sum(jnp.abs(jnp.linalg.eigh(a)[1]) * WEIGHTS[:4, :1])
        ),
        (definite(4),),
    ),
    "svd": (
        lambda a: (
            jnp.sum(jnp.abs(jnp.linalg.svd(a, full_matrices=False)[0]) * WEIGHTS)
            + jnp.sum(jnp.linalg.svd(a, full_matrices=False)[1] ** 3)
        ),
        (TALL,),
    ),
    "eig": (lambda a: jnp.sum(jnp.abs(jnp.linalg.eigvals(a)) ** 3), (normal(4, 4),)),
    "det": (lambda a: jnp.linalg.det(a), (definite(4),)),
    "lstsq": (lambda a, y: jnp.sum(jnp.linalg.lstsq(a, y)[0] ** 3), (TALL, normal(5))),
    "expm": (lambda a: jnp.sum(jsl.expm(a) ** 2), (definite(3) / 9,)),
    "complex_solve": (
        lambda a, y: jnp.sum(jnp.abs(jnp.linalg.solve(a, y)) ** 2),
        (normal(4, 4) + 1j * normal(4, 4), normal(4, 2) + 1j * normal(4, 2)),
    ),
    "tridiagonal_solve": (
        lambda dl, d, du, y: jnp.sum(lax.linalg.tridiagonal_solve(dl, d, du, y) ** 3),
        (*normal(3, 5) + np.array([[0], [4], [0]]), normal(5, 2)),
    ),
}
DEARER = set(PROGRAMS) - {"gaussian_process"}


@pytest.mark.parametrize("name", [slow(name) if name in DEARER else name for name in PROGRAMS])
def test_gradients(name: str) -> None:
    """Values and gradients, computed by tiduc and IREE, equal JAX's."""
    function, point = PROGRAMS[name]
    ours = tiduc.load(exported(function, *point)).grad(value=True, conjugate=True).compile()(*point)
    with jax.enable_x64(True):
        expected = jax.tree.leaves(jax.jit(jax.value_and_grad(function, tuple(range(len(point)))))(*point))
    for actual, y in zip(ours, expected, strict=True):
        np.testing.assert_allclose(actual, y, atol=1e-11 * max(1, np.max(np.abs(y))))


@pytest.mark.slow
def test_hessians() -> None:
    """A Hessian-vector product of a Gaussian process, with respect to both hyperparameters, equals JAX's."""
    moved = np.array(0.3), np.array(-0.7)
    text = exported(gaussian_process, *POINTS)
    ours = tiduc.load(text).hvp([2, 3]).compile()(*POINTS, *moved)
    with jax.enable_x64(True):
        gradient = jax.grad(gaussian_process, (2, 3))
        expected = jax.jvp(lambda *of: gradient(*POINTS[:2], *of), POINTS[2:], moved)[1]
    np.testing.assert_allclose(ours, expected, rtol=1e-11)


# ---- what is refused ---------------------------------------------------------------------------------------


def call(target: str, settings: str, results: str, sizes: str = "3x3xf64") -> str:
    names = ", ".join(f"%0#{i}" for i in range(results.count("tensor<")))
    return f"""func.func @main(%x: tensor<{sizes}>) -> ({results}) {{
      %0:{results.count("tensor<")} = stablehlo.custom_call @{target}(%x) {{mhlo.backend_config = {settings}}}
        : (tensor<{sizes}>) -> ({results})
      return {names} : {results}
    }}"""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (call("lapack_dgehrd_ffi", "{}", "tensor<3x3xf64>, tensor<2xf64>"), "IREE has no @lapack_dgehrd_ffi"),
        (
            call("lapack_dpotrf_ffi", '"?"', "tensor<3x3xf64>, tensor<i32>"),
            "its backend_config is not a dictionary",
        ),
        (
            call("lapack_dsyevd_ffi", "{uplo = 76 : ui8}", "tensor<3x2xf64>, tensor<2xf64>, tensor<i32>"),
            "result 0 is tensor<3x2xf64>, where tensor<3x3xf64> is expected",
        ),
        (
            call(
                "lapack_dgesdd_ffi",
                "{mode = 79 : ui8}",
                "tensor<3x3xf64>, tensor<3xf64>, tensor<3x3xf64>, tensor<3x3xf64>, tensor<i32>",
            ),
            "that overwrite the matrix",
        ),
        (
            call("lapack_dpotrf_ffi", "{uplo = 76 : ui8}", "tensor<?x3xf64>, tensor<i32>", "?x3xf64"),
            "its requirements on dynamic dimensions are not known",
        ),
    ],
)
def test_refused(text: str, reason: str) -> None:
    with pytest.raises((ParseError, Unsupported), match=reason) as refused:
        legalize_for_iree(parse(text, "f.mlir"))
    assert refused.value.location.split(":")[1] == "2"


def test_empty_matrices() -> None:
    """Calls on empty matrices are replaced, so that no custom call remains."""
    for target, settings, results in (
        ("lapack_dpotrf_ffi", "{uplo = 76 : ui8}", "tensor<2x0x0xf64>, tensor<2xi32>"),
        ("lapack_dgetrf_ffi", "{}", "tensor<2x0x0xf64>, tensor<2x0xi32>, tensor<2xi32>"),
        ("lapack_dgeqrf_ffi", "{}", "tensor<2x0x0xf64>, tensor<2x0xf64>"),
        (
            "lapack_dsyevd_ffi",
            "{mode = 86 : ui8, uplo = 76 : ui8}",
            "tensor<2x0x0xf64>, tensor<2x0xf64>, tensor<2xi32>",
        ),
    ):
        module = parse(call(target, settings, results, "2x0x0xf64"))
        legalize_for_iree(module)
        assert "custom_call" not in stage(str)(module)


def test_page() -> None:
    """docs/iree.md names each supported call, without the prefixes for the library and the element type."""
    page = (Path(__file__).parents[2] / "docs" / "iree.md").read_text()
    for target in CALLS:
        name = re.sub("^(lapack_[sdcz]|(cu|hip)(solver|sparse|hybrid)?_)", "", target).removesuffix("_ffi")
        assert name in page, target
