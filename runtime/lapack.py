"""Matrix factorizations that compiled modules import. NumPy's LAPACK computes them on the host.

    %v, %w, %info = call @tiduc_lapack.eigh_f64(%x)      a call in a module (backends/iree/linear_algebra/host.py)
    w, v = numpy.linalg.eigh(x)                          the code that runs, in the thread that called the module

Arrays are batches of matrices and have three dimensions. `info` has one number for each matrix. The number is 1 if the
matrix is not finite or the iteration does not converge, and the other results for the matrix are then NaN. Otherwise,
the number is 0. NumPy computes in double precision for all element types.
"""

import threading
from collections.abc import Callable, Sequence
from functools import partial

import iree.runtime as rt
import numpy as np
from iree.runtime.dtypes import map_dtype_to_hal_element_type

from tiduc.runtime.devices import Array, Device, as_number, message_of_iree

Function = Callable[..., Sequence[Array]]

MODULE = "tiduc_lapack"
"""The name of the IREE module that exports these functions.

IREE's error message contains this name if a context lacks the module.
"""

_DTYPES = {"f32": np.float32, "f64": np.float64, "c64": np.complex64, "c128": np.complex128}
"""Maps the suffixes of function names to element types."""

_raised = threading.local()
"""`_raised.error` is the exception that a function of this file raised in this thread.

It is stored because IREE's own error contains only the text of the exception.
"""


def lapack_module(device: Device) -> rt.VmModule:
    """Returns an IREE module with the functions of `FUNCTIONS`. A context needs it for modules that import these
    functions.

    The arguments and results of the functions are on `device`.
    """
    interface = rt.PyModuleInterface(MODULE, lambda _: None)
    for name, (function, taken, given) in FUNCTIONS.items():
        for suffix, dtype in _DTYPES.items():
            called = partial(_called, device, f"{name}_{suffix}", function, np.dtype(dtype))
            interface.export(f"{name}_{suffix}", f"0{'r' * taken}_{'r' * given}", called)
    return interface.create()


def error_of_lapack() -> Exception | None:
    """Returns the exception that a function of this file raised in this thread, and forgets it.

    Returns None if no function raised an exception. Raises a `KeyboardInterrupt` instead of returning it.
    """
    error, _raised.error = getattr(_raised, "error", None), None
    if error is None or isinstance(error, Exception):
        return error
    raise error


def _called(
    device: Device, name: str, function: Function, dtype: np.dtype[np.generic], _: None, *given: rt.VmRef
) -> rt.VmRef | tuple[rt.VmRef, ...]:
    """Calls a function with arrays from the device. `given`, and the results, are references to IREE's buffer views."""
    views: list[rt.HalBufferView] = []
    try:
        views += [ref.deref(rt.HalBufferView) for ref in given]  # type: ignore[misc]  # never None here
        with np.errstate(all="ignore"):
            results = function(*[device.download(view, dtype) for view in views])
        refs = [_uploaded(device, y) for y in results]
    except Exception as error:
        of = " and ".join("x".join(map(str, view.shape)) for view in views)
        text = message_of_iree(error) or type(error).__name__
        _raised.error = RuntimeError(f"{MODULE}.{name} failed on arrays of shape {of}: {text}")
        raise
    except BaseException as error:
        _raised.error = error
        raise
    return refs[0] if len(refs) == 1 else tuple(refs)


def _uploaded(device: Device, y: Array) -> rt.VmRef:
    return device.upload(np.ascontiguousarray(y), as_number(map_dtype_to_hal_element_type(y.dtype))).ref


# ---- factorizations -----------------------------------------------------------------------------------------


def cholesky(x: Array) -> Sequence[Array]:
    """Returns the lower Cholesky factors of a batch of matrices. Reads only the lower triangles.

    If a pivot is not positive, the factor is NaN in the lower triangle, from the column of the pivot on.
    """
    try:
        return (np.linalg.cholesky(x),)
    except np.linalg.LinAlgError:
        return (np.stack([_up_to_failure(a) for a in x]),)


def _up_to_failure(a: Array) -> Array:
    """Returns the lower Cholesky factor of a matrix that is not positive definite, up to the first pivot that fails.

    Let n be the size of the largest leading block that has a factor; bisection finds n. From column n on, the lower
    triangle of the result is NaN.
    """
    done, beyond = 0, len(a) + 1
    while beyond - done > 1:
        n = (done + beyond) // 2
        try:
            np.linalg.cholesky(a[:n, :n])
            done = n
        except np.linalg.LinAlgError:
            beyond = n
    factor = np.linalg.cholesky(a[:done, :done])
    y = np.tril(np.full_like(a, np.nan))
    y[:done, :done] = factor
    y[done:, :done] = _adjoint(np.linalg.solve(factor, _adjoint(a[done:, :done])))
    return y


def qr(x: Array) -> Sequence[Array]:
    """Returns the results of LAPACK's geqrf: R with the Householder vectors below the diagonal, and tau."""
    packed, tau = np.linalg.qr(x, mode="raw")
    return np.swapaxes(packed, -1, -2), tau


def apply_q(packed: Array, tau: Array, c: Array, adjoint: bool) -> Sequence[Array]:
    """Returns Q c, or Q^H c if `adjoint`, where Q is the product of the reflections 1 - tau_j v_j v_j^H.

    Q equals 1 - v t v^H. The inverse of t is upper triangular; it has 1 / tau on the diagonal, and the elements of v^H
    v above the diagonal (Joffrain, Low, Quintana-Orti, van de Geijn, "Accumulating Householder transformations,
    revisited", 2006).
    """
    m, k = packed.shape[-2], tau.shape[-1]
    none = tau == 0
    v = np.where(none[:, None], 0, np.tril(packed[..., :k], -1) + np.eye(m, k, dtype=packed.dtype))
    inverse = np.triu(_adjoint(v) @ v, 1)
    inverse[:, range(k), range(k)] = 1 / np.where(none, 1, tau)
    try:
        return (c - v @ np.linalg.solve(_adjoint(inverse) if adjoint else inverse, _adjoint(v) @ c),)
    except np.linalg.LinAlgError:  # raised if an element of tau is not finite
        if len(c) == 1:
            return (np.full_like(c, np.nan),)
        each = zip(packed[:, None], tau[:, None], c[:, None], strict=True)
        return (np.concatenate([apply_q(*one, adjoint)[0] for one in each]),)


def with_info(decomposed: Function) -> Function:
    """Returns a function that calls `decomposed` on a batch of matrices and appends the result `info`.

    `info` is 1 for each matrix that is not finite or cannot be decomposed, and 0 for the others. For a matrix with
    `info` 1, the other results are NaN.
    """

    def run(x: Array) -> Sequence[Array]:
        failed: Array = ~np.all(np.isfinite(x), axis=(-2, -1), keepdims=True)
        x = np.where(failed, np.zeros_like(x), x)
        failed = failed.reshape(-1)
        try:
            results = decomposed(x)
        except np.linalg.LinAlgError:  # the error does not tell which matrix failed
            each = [_decomposed_or_zero(decomposed, a) for a in x]
            results = [
                np.concatenate(parts) for parts in zip(*(results_of for results_of, _ in each), strict=True)
            ]
            failed |= np.array([of_one for _, of_one in each])
        for y in results:
            y[failed] = np.nan
        return *results, failed.astype(np.int32)

    return run


def _decomposed_or_zero(decomposed: Function, a: Array) -> tuple[Sequence[Array], bool]:
    """Returns the decomposition of one matrix, and False. If it fails, returns the decomposition of a zero matrix, and
    True.
    """
    try:
        return decomposed(a[None]), False
    except np.linalg.LinAlgError:
        return decomposed(np.zeros_like(a)[None]), True


def _eigh(x: Array) -> Sequence[Array]:
    w, v = np.linalg.eigh(x)
    return v, w


def _eig(x: Array) -> Sequence[Array]:
    w, v = np.linalg.eig(x)
    return _complex(w, x), _complex(v, x)


def _svd(x: Array, full: bool) -> Sequence[Array]:
    u, s, vh = np.linalg.svd(x, full_matrices=full)
    return u, s, _adjoint(vh)


def _complex(y: Array, like: Array) -> Array:
    """Converts an array to complex numbers with the precision of `like`.

    NumPy returns real eigenvalues and eigenvectors if all imaginary parts are 0.
    """
    return y.astype(np.result_type(like, np.complex64), copy=False)


def _adjoint(x: Array) -> Array:
    return np.conj(np.swapaxes(x, -1, -2))


FUNCTIONS: dict[str, tuple[Function, int, int]] = {
    "apply_q": (partial(apply_q, adjoint=False), 3, 1),
    "apply_qh": (partial(apply_q, adjoint=True), 3, 1),
    "cholesky": (cholesky, 1, 1),
    "eig": (with_info(_eig), 1, 3),
    "eigh": (with_info(_eigh), 1, 3),
    "eigvals": (with_info(lambda x: [_complex(np.linalg.eigvals(x), x)]), 1, 2),
    "eigvalsh": (with_info(lambda x: [np.linalg.eigvalsh(x)]), 1, 2),
    "qr": (qr, 1, 2),
    "svd": (with_info(partial(_svd, full=False)), 1, 4),
    "svd_full": (with_info(partial(_svd, full=True)), 1, 4),
    "svdvals": (with_info(lambda x: [np.linalg.svd(x, compute_uv=False)]), 1, 2),
}
"""Maps each name to a function on batches of matrices, the number of its arguments, and the number of its results."""
