"""Tests factorizations that compiled programs compute by a callback to NumPy: values, failures, threads and errors."""

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import iree.runtime as rt
import jax
import numpy as np
import pytest
from cases.hard_matrices import (
    FAILURES,
    LIMIT,
    adjoint,
    backward_error,
    general,
    hermitian,
    lapack,
    normal,
    orthogonal,
    positive,
    slow,
)
from harness.exports import exported
from harness.processes import command
from harness.sources import source_of
from jax import lax
from jax import numpy as jnp
from numpy.typing import NDArray

import tiduc
import tiduc.runtime
from tiduc.cli import run as cli
from tiduc.runtime.lapack import FUNCTIONS
from tiduc.runtime.weights import write_weights

Array = NDArray[Any]
CALLBACK = "callback"


def compiled(function: Callable[..., Any], *arguments: Array, target: str = "cpu") -> tiduc.Executable:
    """Exports a JAX function, and compiles it with factorizations by callbacks to LAPACK."""
    return tiduc.load(exported(function, *arguments)).compile(target, lapack=CALLBACK)


def close(y: Array, x: Array) -> bool:
    """Whether each row of y equals that of x up to a few roundings of the largest number in the row."""
    most = np.max(np.abs(x), -1, keepdims=True)
    return bool(np.all(np.abs(y - x) <= 8 * LIMIT * np.finfo(x.dtype).eps * most))


def factors(x: Any, h: Any, p: Any) -> Any:
    """Factorizations of a general matrix x, a Hermitian matrix h, and a positive definite matrix p."""
    return (
        *jnp.linalg.svd(x),
        *jnp.linalg.svd(jnp.swapaxes(x, -1, -2), full_matrices=False),
        jnp.linalg.svd(x, compute_uv=False),
        *lax.linalg.eigh(h, symmetrize_input=False),
        jnp.linalg.eigvalsh(h, symmetrize_input=False),
        lax.linalg.cholesky(p, symmetrize_input=False),
        jnp.linalg.cholesky(p, upper=True),
        *jnp.linalg.eig(h),
        jnp.linalg.eigvals(h),
        *jnp.linalg.qr(x),
    )


@pytest.mark.parametrize("dtype", [slow(np.float32), slow(np.float64), slow(np.complex64), np.complex128])
def test_batches_of_hard_matrices(dtype: Any) -> None:
    """For matrices of all ranks and scales, factorizations by the callback have backward errors like LAPACK's.

    Eigenvalues are equal with and without eigenvectors.
    """
    x, h, p = general(dtype, 5, 4), hermitian(dtype, 4), positive(dtype, 4)
    run = compiled(factors, x, h, p)
    u, s, vh, thin_u, thin_s, thin_vh, values, v, w, alone, lower, upper, of_h, right, only, q, r = run(
        x, h, p
    )
    assert u.shape[1:] == (5, 5) and vh.shape[1:] == (4, 4) and thin_vh.shape[1:] == (4, 5)
    assert backward_error(u[..., :4] * s[:, None] @ vh, x) < 2 * LIMIT and orthogonal(u)
    assert backward_error(thin_u * thin_s[:, None] @ thin_vh, np.swapaxes(x, -1, -2)) < 2 * LIMIT
    assert close(values, s) and close(thin_s, s)
    assert backward_error(v * w[:, None] @ adjoint(v), h) < LIMIT and np.all(np.diff(w) >= 0)
    assert close(alone, w)
    assert backward_error(lower @ adjoint(lower), p) < LIMIT and np.array_equal(lower, np.tril(lower))
    assert backward_error(adjoint(upper) @ upper, p) < LIMIT and np.array_equal(upper, np.triu(upper))
    assert backward_error(h @ right, right * of_h[:, None], h) < LIMIT
    assert close(np.sort(only.real), np.sort(of_h.real)) and close(np.sort(of_h.real), w)
    assert backward_error(q @ r, x) < LIMIT and orthogonal(q)
    assert {y.dtype for y in (u, v, lower, q)} == {np.dtype(dtype)} and s.dtype == w.dtype == x.real.dtype


@pytest.mark.slow
def test_values_of_the_loops() -> None:
    """The callback gives the results of the compiled loops, for results that do not depend on a choice of vectors."""
    a = normal(np.float64, 2, 5, 5)

    def numbers(a: Any) -> Any:
        s = a @ jnp.swapaxes(a, -1, -2) + jnp.eye(5)
        return (
            jnp.linalg.svd(a, compute_uv=False),
            jnp.linalg.eigvalsh(s),
            jnp.linalg.cholesky(s),
            jnp.linalg.qr(a),
        )

    program = tiduc.load(exported(numbers, a))
    for y, of_loops in zip(program.compile(lapack=CALLBACK)(a), program.compile()(a), strict=True):
        np.testing.assert_allclose(y, of_loops, atol=1e-13)


def test_values_of_numpy() -> None:
    """For a batch of matrices, the callback gives NumPy's results, including the signs of QR."""
    a = normal(np.float64, 2, 5, 5)
    s = a @ adjoint(a) + np.eye(5)

    def numbers(a: Any, s: Any) -> Any:
        return (
            jnp.linalg.svd(a, compute_uv=False),
            jnp.linalg.eigvalsh(s),
            jnp.linalg.cholesky(s),
            jnp.linalg.qr(a),
        )

    expected = [np.linalg.svd(a)[1], np.linalg.eigvalsh(s), np.linalg.cholesky(s), *np.linalg.qr(a)]
    for y, of_numpy in zip(compiled(numbers, a, s)(a, s), expected, strict=True):
        np.testing.assert_allclose(y, of_numpy, atol=1e-13)


def test_info() -> None:
    """For matrices for which factorizations fail, the callback gives the `info` of the compiled loops.

    The matrices are positive definite, indefinite, singular, and with a NaN.
    """
    x = np.stack([np.eye(4) + 0.1, np.diag([1.0, 2, -3, 4]), np.diag([1.0, 0, 2, 3]), np.eye(4)])
    x[3, 2, 1] = np.nan
    y, *info = tiduc.load(FAILURES).compile(lapack=CALLBACK)(x, np.zeros(3), np.ones((3, 1)))
    assert [i.tolist() for i in info] == [[0, 3, 2, 3], [0, 0, 2, 0], [0, 0, 0, 1], [0, 0, 0, 1], 1]
    upper = np.triu_indices(4, 1)
    assert np.array_equal(y[0][upper], x[0][upper])  # entries that are not read are returned unchanged
    assert np.array_equal(y[1, :, 1], [0, np.sqrt(2), 0, 0]) and np.isnan(y[1, 2:, 2]).all()


def test_columns_before_a_failure() -> None:
    """If a Cholesky factorization fails at column k, the columns before k are correct, and the others are NaN."""
    cholesky, *_ = FUNCTIONS["cholesky"]
    for k in range(7):
        a = normal(np.complex128, 7, 7)
        a = a @ adjoint(a) + np.eye(7)
        whole = np.linalg.cholesky(a)
        a[k, k] = -1
        (y,) = cholesky(np.stack([a, np.eye(7)]))
        assert np.allclose(y[0, :, :k], whole[:, :k]) and np.isnan(y[0, k:, k:][np.tril_indices(7 - k)]).all()
        assert np.array_equal(y[1], np.eye(7)) and np.array_equal(np.triu(y[0], 1), np.zeros((7, 7)))


@pytest.mark.parametrize("dtype", [np.float64, np.complex64])
def test_products_of_reflections(dtype: Any) -> None:
    """Products of Householder reflections from QR factorizations are orthogonal and accurate.

    Some tau are zero. An infinite tau gives NaN for its matrix only.
    """
    x, c = general(dtype, 40, 7), normal(dtype, 13, 40, 3)
    packed, tau = FUNCTIONS["qr"][0](x)
    assert np.any(tau == 0)
    (q,) = FUNCTIONS["apply_q"][0](packed, tau, np.broadcast_to(np.eye(40, dtype=dtype), (13, 40, 40)))
    (back,) = FUNCTIONS["apply_qh"][0](packed, tau, c)
    assert q.dtype == back.dtype == dtype and orthogonal(q) and backward_error(adjoint(q) @ c, back) < LIMIT
    assert backward_error(q[..., :7] @ np.triu(packed)[:, :7], x) < LIMIT
    tau[0, 0] = np.inf
    with np.errstate(all="ignore"):
        (none,) = FUNCTIONS["apply_q"][0](packed, tau, c)
    assert np.isnan(none[0]).all() and np.isfinite(none[1:]).all()


def test_no_convergence(monkeypatch: pytest.MonkeyPatch) -> None:
    """If LAPACK does not converge for one matrix of a batch, only this matrix gets a nonzero `info` and NaN."""
    original = np.linalg.eigh

    def eigh(x: Array) -> Any:
        if np.any(x == 13):
            raise np.linalg.LinAlgError("no convergence")
        return original(x)

    monkeypatch.setattr(np.linalg, "eigh", eigh)
    x = np.stack([np.eye(3), 13 * np.eye(3), 2 * np.eye(3)])
    v, w, info = FUNCTIONS["eigh"][0](x)
    assert info.tolist() == [0, 1, 0] and w[[0, 2]].tolist() == [[1] * 3, [2] * 3]
    assert np.isnan(w[1]).all() and np.isnan(v[1]).all() and np.isfinite(v[[0, 2]]).all()


def steps(a: Any, count: Any) -> Any:
    """A loop with `count` iterations, each of which computes one of two factorizations."""

    def by_values(x: Any) -> Any:
        w, v = jnp.linalg.eigh(x)
        return (v * jnp.sqrt(jnp.abs(w) + 1)) @ v.T

    def body(i: Any, x: Any) -> Any:
        return lax.cond(i % 2 == 0, by_values, lambda x: jnp.linalg.qr(x)[1] + x, x)

    return lax.fori_loop(0, count, body, a)


@pytest.mark.more
@pytest.mark.parametrize("target", [slow("cpu"), "cpu-threads"])
def test_loops_and_threads(target: str) -> None:
    """A loop of data-dependent length that calls factorizations gives the right values if eight threads call it.

    A call with NaN returns NaN.
    """
    a = normal(np.float64, 5, 5)
    a = a + a.T
    run = compiled(steps, a, np.int32(3), target=target)
    expected = [lapack(steps, a, np.int32(n))[0] for n in range(4)]
    wrong = []

    def work(first: int) -> None:
        for i in range(40):
            n = (first + i) % 4
            (y,) = run(a, np.int32(n))
            (none,) = run(np.full_like(a, np.nan), np.int32(1))
            if not np.allclose(y, expected[n], atol=1e-12) or not np.isnan(none).all():
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.slow
def test_gradient_of_a_batch_in_a_loop() -> None:
    """The gradient of a loop with factorizations equals JAX's, and calls the callback."""

    def loss(a: Any) -> Any:
        def body(x: Any, _: Any) -> Any:
            w, v = jnp.linalg.eigh(x)
            return jnp.cos((v * jnp.sqrt(jnp.abs(w) + 1)) @ v.T), jnp.linalg.svd(x, compute_uv=False)[0]

        y, s = lax.scan(body, a + a.T, None, length=3)
        return jnp.sum(y**2) + jnp.sum(jnp.log(s))

    def both(a: Any) -> Any:
        return jnp.sum(jax.vmap(loss)(a))

    a = normal(np.float64, 2, 4, 4)
    gradient = tiduc.load(exported(both, a)).grad()
    assert str(source_of(gradient, lapack=CALLBACK).stablehlo).count("call @tiduc_lapack.") >= 2
    (expected,) = lapack(jax.grad(both), a)
    np.testing.assert_allclose(gradient.compile(lapack=CALLBACK)(a)[0], expected, atol=1e-10)


ROOTS = """
func.func @main(%x: tensor<3x3xf64>) -> (tensor<3x3xf64>, tensor<3xf64>, tensor<i32>) {
  %0:3 = stablehlo.custom_call @lapack_dsyevd_ffi(%x) {mhlo.backend_config = {mode = 86 : ui8, uplo = 76 : ui8}}
    : (tensor<3x3xf64>) -> (tensor<3x3xf64>, tensor<3xf64>, tensor<i32>)
  return %0#0, %0#1, %0#2 : tensor<3x3xf64>, tensor<3xf64>, tensor<i32>
}
"""


@pytest.fixture(scope="module")
def roots() -> tiduc.Executable:
    return tiduc.load(ROOTS).compile(lapack=CALLBACK)


def test_errors_of_the_callback(roots: tiduc.Executable, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error in the callback raises TiducError, and KeyboardInterrupt is passed on. The module stays usable."""
    error: list[BaseException] = [MemoryError("no 9 GiB are free")]

    def fails(_: Array) -> Any:
        raise error[0]

    with monkeypatch.context() as patch:
        patch.setattr(np.linalg, "eigh", fails)
        message = "main failed while running: tiduc_lapack.eigh_f64 failed on arrays of shape 1x3x3: no 9 GiB are free"
        with pytest.raises(tiduc.TiducError, match=message):
            roots(np.eye(3))
        error[0] = KeyboardInterrupt()
        with pytest.raises(KeyboardInterrupt):
            roots(np.eye(3))
    v, w, info = roots(2 * np.eye(3))
    assert w.tolist() == [2, 2, 2] and info == 0 and np.allclose(np.abs(v), np.eye(3))


def test_another_runtime_names_the_missing_module(roots: tiduc.Executable) -> None:
    instance = rt.VmInstance()
    hal = rt.create_hal_module(instance, devices=[rt.get_device("local-sync")])
    with pytest.raises(ValueError, match="required module 'tiduc_lapack' not registered"):
        rt.VmContext(instance, [hal, rt.VmModule.copy_buffer(instance, roots.vmfb)])


def test_the_runtime_alone(roots: tiduc.Executable, tmp_path: Path) -> None:
    """A compiled file with callbacks runs with `tiduc.runtime` alone, without MLIR."""
    roots.save(tmp_path / "roots.vmfb")
    code = f"""
import sys, numpy, tiduc.runtime
with tiduc.runtime.load({str(tmp_path / "roots.vmfb")!r}) as module:
    v, w, info = module["main"](numpy.diag([3.0, 1.0, 2.0]))
print(w.tolist(), "torch_mlir" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[1.0, 2.0, 3.0] False\n", "")


@pytest.mark.parametrize("target", ["cuda", "vmvx", "wasm32"])
def test_targets_other_than_cpus(target: str, tmp_path: Path) -> None:
    file = tmp_path / "f.mlir"
    file.write_text(ROOTS.replace("f64", "f32").replace("dsyevd", "ssyevd"))
    with pytest.raises(
        tiduc.RequestError, match=f"'{target}' cannot call LAPACK on the host; these targets can: cpu, "
    ):
        tiduc.load(file).compile(target, lapack=CALLBACK)
    with pytest.raises(
        tiduc.RequestError, match="unknown way to factorize 'mkl'; there are: loops, callback"
    ):
        tiduc.load(file).compile(lapack="mkl")


def test_at_a_shell(tmp_path: Path) -> None:
    """`tiduc compile --lapack=callback` refuses CUDA and writes no file, and works together with --parameters."""
    (tmp_path / "f.mlir").write_text(ROOTS)
    write_weights(tmp_path / "x.irpa", {"x": np.diag([3.0, 1, 2])})
    words = "compile", "f.mlir", "--lapack=callback", "-o", "f.vmfb"
    refused = command(tmp_path, *words, "--target=cuda")
    assert refused.returncode == 1 and not (tmp_path / "f.vmfb").exists()
    assert refused.stderr.startswith("f.mlir: error: target 'cuda' cannot call LAPACK on the host")
    assert command(tmp_path, *words, "--parameters=x.irpa").returncode == 0
    with tiduc.runtime.load(tmp_path / "f.vmfb", parameters=tmp_path / "x.irpa") as module:
        assert module["main"]()[1].tolist() == [1, 2, 3]


def test_runs_at_a_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """`tiduc run --lapack=callback` calls NumPy. The option is refused for compiled modules and for XLA."""
    monkeypatch.chdir(tmp_path)
    Path("f.mlir").write_text(ROOTS)
    tiduc.load(ROOTS).compile(lapack=CALLBACK).save("f.vmfb")
    options = ["--lapack=callback", "--input=3x3xf64=3,0,0,0,1,0,0,0,2"]
    with monkeypatch.context() as patched:
        patched.setattr(np.linalg, "eigh", lambda x: (np.full((1, 3), 7.0), x))
        assert cli(["run", "f.mlir", *options]) == 0
    assert "3xf64=7.0,7.0,7.0" in capsys.readouterr().out
    for given in (["f.vmfb"], ["f.mlir", "--engine=xla"]):
        assert cli(["run", *given, *options]) == 1
        assert f"{given[0]}: error: --lapack is for " in capsys.readouterr().err


MODEL = """
func.func @main(%w: tensor<2x2xf64>) -> tensor<f64> {
  %0 = stablehlo.cholesky %w, lower = true : tensor<2x2xf64>
  %zero = stablehlo.constant dense<0.0> : tensor<f64>
  %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [0, 1]
    : (tensor<2x2xf64>, tensor<f64>) -> tensor<f64>
  return %1 : tensor<f64>
}
"""


def test_training_at_a_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A training step that the command compiles with --lapack=callback calls NumPy's Cholesky factorization."""
    monkeypatch.chdir(tmp_path)
    Path("model.mlir").write_text(MODEL)
    options = ["--loss=none", "--train=w", "--lapack=callback", "-o", "step.vmfb"]
    assert cli(["train-step", "model.mlir", *options]) == 0
    called: list[Array] = []
    monkeypatch.setattr(np.linalg, "cholesky", lambda x: called.append(x) or np.tril(x))
    with tiduc.runtime.load("step.vmfb") as module:
        module["main"](np.eye(2), np.float32(0.5))
    assert called
