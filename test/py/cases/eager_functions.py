"""A program for each NumPy function that eager arrays implement.

The arguments of a program are a module, `numpy` or `jax.numpy`, and square f32 matrices of any size. A case has a range
for the entries of each matrix. Programs without a derivative return indices, sizes, integers or booleans.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tiduc.eager.elementwise import EMITTERS

Range = tuple[float, float]


class Case(NamedTuple):
    """A program, a range for the entries of each matrix, and whether the program has a derivative."""

    function: Callable[..., Any]
    ranges: tuple[Range, ...] = ((-2.0, 2.0),)
    differentiable: bool = True


ONE, TWO = ((-2.0, 2.0),), ((-2.0, 2.0), (-2.0, 2.0))
POSITIVE = ((0.2, 3.0),)

_RANGES: dict[str, tuple[Range, ...]] = {
    "arccos": ((-0.9, 0.9),),
    "arccosh": ((1.2, 3.0),),
    "arcsin": ((-0.9, 0.9),),
    "arctanh": ((-0.9, 0.9),),
    "cbrt": POSITIVE,
    "divide": ((-2.0, 2.0), (0.5, 2.0)),
    "float_power": ((0.2, 3.0), (-2.0, 2.0)),
    "floor_divide": ((-2.0, 2.0), (0.5, 2.0)),
    "fmod": ((-2.0, 2.0), (0.5, 2.0)),
    "log": POSITIVE,
    "log10": POSITIVE,
    "log1p": POSITIVE,
    "log2": POSITIVE,
    "power": ((0.2, 3.0), (-2.0, 2.0)),
    "reciprocal": POSITIVE,
    "remainder": ((-2.0, 2.0), (0.5, 2.0)),
    "sqrt": POSITIVE,
    "tan": ((-1.2, 1.2),),
}
"""Maps universal functions that are undefined or steep in the default range to their ranges."""

_OF_INTEGERS = ("bitwise_and", "bitwise_or", "bitwise_xor", "invert", "left_shift", "right_shift")
_WITHOUT_DERIVATIVE = ("nextafter",)


def _universal(name: str) -> Case:
    ufunc = getattr(np, name)
    ranges = _RANGES.get(name, (ONE if ufunc.nin == 1 else TWO))
    if name in _OF_INTEGERS:
        scale = 2 if "shift" in name else 8
        if "shift" in name:
            ranges = ((-9.0, 9.0), (0.0, 4.0))
        return Case(
            lambda xp, *xs: getattr(xp, name)(*((scale * x).astype(np.int32) for x in xs)), ranges, False
        )
    real = (
        name not in _WITHOUT_DERIVATIVE
        and ufunc.resolve_dtypes((*[np.dtype("f4")] * ufunc.nin, None))[-1].kind == "f"
    )
    return Case(lambda xp, *xs: getattr(xp, name)(*xs), ranges, real)


UNIVERSAL = {name: _universal(name) for name in EMITTERS}


def _positions(xp: Any, x: Any) -> Any:
    """Returns a NumPy array with the indices along the last dimension of x."""
    return np.arange(x.shape[-1], dtype=np.float32)


def _large(xp: Any, x: Any) -> Any:
    """Adds large numbers to the diagonal of x, so that the entries of the inverse are small."""
    return x + 3 * len(x) * np.eye(len(x), dtype=np.float32)


def _symmetric(xp: Any, x: Any) -> Any:
    return _large(xp, x @ xp.transpose(x))


def _few(x: Any) -> Any:
    """Returns the first 8 rows and columns of x, so that factorizations are fast."""
    return x[:8, :8]


FUNCTIONS: dict[str, Case] = {
    "all": Case(lambda xp, x: xp.all(x, axis=1), differentiable=False),
    "allclose": Case(lambda xp, x: xp.allclose(x, x), differentiable=False),
    "amax": Case(lambda xp, x: xp.amax(x, axis=0)),
    "amin": Case(lambda xp, x: xp.amin(x, axis=1)),
    "any": Case(lambda xp, x: xp.any(x, axis=0), differentiable=False),
    "append": Case(lambda xp, x, y: xp.append(x, y, axis=0), TWO),
    "argmax": Case(lambda xp, x: xp.argmax(x, axis=1), differentiable=False),
    "argmin": Case(lambda xp, x: xp.argmin(x), differentiable=False),
    "argsort": Case(lambda xp, x: xp.argsort(x, axis=0), differentiable=False),
    "argwhere": Case(lambda xp, x: xp.argwhere(x > 0), differentiable=False),
    "array_equal": Case(lambda xp, x: xp.array_equal(x, x), differentiable=False),
    "array_split": Case(lambda xp, x: xp.array_split(x, 2, axis=1)[0] * 2),
    "astype": Case(lambda xp, x: xp.astype(x * 2, np.float64)),
    "broadcast_arrays": Case(lambda xp, x: xp.broadcast_arrays(x, x[0])[1]),
    "broadcast_to": Case(lambda xp, x: xp.broadcast_to(x[0], x.shape)),
    "can_cast": Case(lambda xp, x: xp.can_cast(x, np.float64), differentiable=False),
    "clip": Case(lambda xp, x: xp.clip(x, -0.5, 1.0)),
    "column_stack": Case(
        lambda xp, x, y: xp.column_stack([x[0], y]) if len(x) == 1 else xp.column_stack([x[:, 0], y]), TWO
    ),
    "compress": Case(lambda xp, x: xp.compress(np.arange(len(x)) % 2 == 0, x, axis=0)),
    "concatenate": Case(lambda xp, x, y: xp.concatenate([x, y, x], axis=1), TWO),
    "copy": Case(lambda xp, x: xp.copy(x) * x),
    "count_nonzero": Case(lambda xp, x: xp.count_nonzero(x > 0, axis=0), differentiable=False),
    "cross": Case(
        lambda xp, x, y: xp.cross(x.reshape(-1)[:3], y.reshape(-1)[:3]) if len(x) > 2 else x * y, TWO
    ),
    "cumprod": Case(lambda xp, x: xp.cumprod(x, axis=1), ((0.97, 1.03),)),
    "cumsum": Case(lambda xp, x: xp.cumsum(x, axis=1)),
    "cumulative_prod": Case(
        lambda xp, x: xp.cumulative_prod(x, axis=0, include_initial=True), ((0.97, 1.03),)
    ),
    "cumulative_sum": Case(lambda xp, x: xp.cumulative_sum(x, axis=1, include_initial=True)),
    "delete": Case(lambda xp, x: xp.delete(xp.concatenate([x, x]), 0, axis=0)),
    "diag": Case(lambda xp, x: xp.diag(x[0]) @ x + xp.diag(x)),
    "diagflat": Case(lambda xp, x: xp.diagflat(x[0], 1)),
    "diagonal": Case(lambda xp, x: xp.diagonal(x)),
    "diff": Case(lambda xp, x: xp.diff(x, axis=0)),
    "dot": Case(lambda xp, x, y: xp.dot(x, y), TWO),
    "dstack": Case(lambda xp, x, y: xp.dstack([x, y]), TWO),
    "einsum": Case(lambda xp, x, y: xp.einsum("ij,kj->ki", x, y), TWO),
    "empty_like": Case(lambda xp, x: xp.empty_like(x).shape, differentiable=False),
    "expand_dims": Case(lambda xp, x: xp.expand_dims(x, 1)),
    "extract": Case(lambda xp, x: xp.extract(np.arange(x.size).reshape(x.shape) % 3 == 0, x)),
    "fft.fft": Case(lambda xp, x: xp.abs(xp.fft.fft(x)) ** 2),
    "fft.fft2": Case(lambda xp, x: xp.real(xp.fft.fft2(_few(x)) * (2 - 1j))),
    "fft.fftn": Case(lambda xp, x: xp.imag(xp.fft.fftn(_few(x), norm="ortho") * (2 - 1j))),
    "fft.fftshift": Case(lambda xp, x: xp.fft.fftshift(x)),
    "fft.hfft": Case(lambda xp, x: xp.fft.hfft(x + 2j * x, 9)),
    "fft.ifft": Case(lambda xp, x: xp.real(xp.fft.ifft(x, 7) * (2 - 1j))),
    "fft.ifft2": Case(lambda xp, x: xp.real(xp.fft.ifft2(_few(x)) * (2 - 1j))),
    "fft.ifftn": Case(lambda xp, x: xp.real(xp.fft.ifftn(_few(x)) * (2 - 1j))),
    "fft.ifftshift": Case(lambda xp, x: xp.fft.ifftshift(x, axes=1)),
    "fft.ihfft": Case(lambda xp, x: xp.real(xp.fft.ihfft(x) * (2 - 1j))),
    "fft.irfft": Case(lambda xp, x: xp.fft.irfft(x + 2j * x, 6)),
    "fft.irfft2": Case(lambda xp, x: xp.fft.irfft2(_few(x) + 2j * _few(x), (3, 4))),
    "fft.irfftn": Case(lambda xp, x: xp.fft.irfftn(_few(x) + 2j * _few(x), (3, 5))),
    "fft.rfft": Case(lambda xp, x: xp.real(xp.fft.rfft(x, norm="forward") * (2 - 1j))),
    "fft.rfft2": Case(lambda xp, x: xp.real(xp.fft.rfft2(_few(x)) * (2 - 1j))),
    "fft.rfftn": Case(lambda xp, x: xp.real(xp.fft.rfftn(_few(x)) * (2 - 1j))),
    "flatnonzero": Case(lambda xp, x: xp.flatnonzero(x > 0), differentiable=False),
    "flip": Case(lambda xp, x: xp.flip(x, axis=0) * x),
    "fliplr": Case(lambda xp, x: xp.fliplr(x) * x),
    "flipud": Case(lambda xp, x: xp.flipud(x) * x),
    "full_like": Case(lambda xp, x: xp.full_like(x, 2.5) * x),
    "hstack": Case(lambda xp, x, y: xp.hstack([x, y]), TWO),
    "imag": Case(lambda xp, x: xp.imag(x * 1j)),
    "inner": Case(lambda xp, x, y: xp.inner(x, y), TWO),
    "interp": Case(
        lambda xp, x, y: xp.interp(
            x,
            np.linspace(-1.5, 1.5, 7, dtype=np.float32),
            xp.sin(np.float32(3) * y.reshape(-1)[:1] + np.arange(7, dtype=np.float32)),
        ),
        TWO,
    ),
    "iscomplexobj": Case(lambda xp, x: xp.iscomplexobj(x), differentiable=False),
    "isin": Case(lambda xp, x: xp.isin(x, x[0]), differentiable=False),
    "isrealobj": Case(lambda xp, x: xp.isrealobj(x), differentiable=False),
    "kron": Case(lambda xp, x, y: xp.kron(_few(x), y[0]), TWO),
    "linalg.cholesky": Case(lambda xp, x: xp.linalg.cholesky(_symmetric(xp, _few(x)))),
    "linalg.cross": Case(
        lambda xp, x, y: xp.linalg.cross(x.reshape(-1)[:3], y.reshape(-1)[:3]) if len(x) > 2 else x * y, TWO
    ),
    "linalg.det": Case(lambda xp, x: xp.linalg.det(_few(x) / 2 + np.eye(len(_few(x)), dtype=np.float32))),
    "linalg.diagonal": Case(lambda xp, x: xp.linalg.diagonal(x[None], offset=0)),
    "linalg.eig": Case(
        lambda xp, x: xp.sort(xp.abs(xp.linalg.eig(_symmetric(xp, _few(x)))[0])), differentiable=False
    ),
    "linalg.eigh": Case(
        lambda xp, x: (
            xp.abs(xp.linalg.eigh(_symmetric(xp, _few(x)))[1] @ np.float32([[1.0]] * len(_few(x))))
            if len(x) < 2
            else xp.linalg.eigh(_symmetric(xp, _few(x)))[0]
        )
    ),
    "linalg.eigvals": Case(lambda xp, x: xp.sort(xp.abs(xp.linalg.eigvals(_symmetric(xp, _few(x)))))),
    "linalg.eigvalsh": Case(lambda xp, x: xp.linalg.eigvalsh(_symmetric(xp, _few(x)))),
    "linalg.inv": Case(lambda xp, x: xp.linalg.inv(_large(xp, _few(x)))),
    "linalg.matmul": Case(lambda xp, x, y: xp.linalg.matmul(x, y), TWO),
    "linalg.matrix_norm": Case(
        lambda xp, x: (
            xp.linalg.matrix_norm(x) + xp.linalg.matrix_norm(x, ord=1) + xp.linalg.matrix_norm(_few(x), ord=2)
        )
    ),
    "linalg.matrix_power": Case(lambda xp, x: xp.linalg.matrix_power(_few(x), 3)),
    "linalg.matrix_rank": Case(lambda xp, x: xp.linalg.matrix_rank(x), differentiable=False),
    "linalg.matrix_transpose": Case(lambda xp, x: xp.linalg.matrix_transpose(x) * x),
    "linalg.multi_dot": Case(
        lambda xp, x, y: xp.linalg.multi_dot([x[0], y, x, y[:, 0]]) + xp.linalg.multi_dot([x, y, x])[0], TWO
    ),
    "linalg.norm": Case(lambda xp, x: xp.linalg.norm(x) + xp.linalg.norm(x, axis=1)),
    "linalg.outer": Case(lambda xp, x, y: xp.linalg.outer(x[0], y[:, 0]), TWO),
    "linalg.pinv": Case(lambda xp, x: xp.linalg.pinv(_large(xp, _few(x)))),
    "linalg.qr": Case(lambda xp, x: (lambda q, r: q * r)(*xp.linalg.qr(_large(xp, _few(x))))),
    "linalg.slogdet": Case(lambda xp, x: xp.linalg.slogdet(_large(xp, _few(x)))[1]),
    "linalg.solve": Case(lambda xp, x, y: xp.linalg.solve(_large(xp, _few(x)), y[:8]), TWO),
    "linalg.svd": Case(lambda xp, x: (lambda u, s, v: (u * s**2) @ v)(*xp.linalg.svd(_large(xp, _few(x))))),
    "linalg.svdvals": Case(lambda xp, x: xp.linalg.svdvals(_few(x))),
    "linalg.tensordot": Case(lambda xp, x, y: xp.linalg.tensordot(x, y, axes=([0], [1])), TWO),
    "linalg.tensorinv": Case(
        lambda xp, x: xp.linalg.tensorinv(_large(xp, x[:4, :4]).reshape(2, 2, 2, 2)) if len(x) > 3 else x
    ),
    "linalg.trace": Case(lambda xp, x: xp.linalg.trace(x[None])),
    "linalg.vecdot": Case(lambda xp, x, y: xp.linalg.vecdot(x, y, axis=-1), TWO),
    "linalg.vector_norm": Case(
        lambda xp, x: xp.linalg.vector_norm(x, axis=1, ord=3) + xp.linalg.vector_norm(x)
    ),
    "matmul": Case(lambda xp, x, y: xp.matmul(x, y), TWO),
    "matrix_transpose": Case(lambda xp, x: xp.matrix_transpose(x) * x),
    "matvec": Case(lambda xp, x, y: xp.matvec(x, y), TWO),
    "max": Case(lambda xp, x: xp.max(x)),
    "mean": Case(lambda xp, x: xp.mean(x, axis=0)),
    "meshgrid": Case(lambda xp, x: xp.meshgrid(x[0], x[:, 0])[1] * x),
    "min": Case(lambda xp, x: xp.min(x, axis=1, keepdims=True)),
    "moveaxis": Case(lambda xp, x: xp.moveaxis(x[None], 0, 2) * 2),
    "ndim": Case(lambda xp, x: xp.ndim(x), differentiable=False),
    "nonzero": Case(lambda xp, x: xp.nonzero(x > 0)[1], differentiable=False),
    "ones_like": Case(lambda xp, x: xp.ones_like(x) * x),
    "outer": Case(lambda xp, x, y: xp.outer(x[0], y[:, 0]), TWO),
    "pad": Case(lambda xp, x: xp.pad(x, ((1, 0), (0, 2)))),
    "prod": Case(lambda xp, x: xp.prod(x, axis=1), ((0.97, 1.03),)),
    "ravel": Case(lambda xp, x: xp.ravel(x) * 2),
    "real": Case(lambda xp, x: xp.real(x * (1 + 1j))),
    "repeat": Case(lambda xp, x: xp.repeat(x, 2, axis=0)),
    "reshape": Case(lambda xp, x: xp.reshape(x, (-1, 1)) * 2),
    "resize": Case(lambda xp, x: xp.resize(x, (3, 5))),
    "result_type": Case(lambda xp, x: xp.result_type(x, np.int8) == np.float32, differentiable=False),
    "roll": Case(lambda xp, x: xp.roll(x, 1, axis=1)),
    "rot90": Case(lambda xp, x: xp.rot90(x) * x),
    "round": Case(lambda xp, x: xp.round(x, 1)),
    "searchsorted": Case(lambda xp, x: xp.searchsorted(xp.sort(x[0]), x[:, 0]), differentiable=False),
    "shape": Case(lambda xp, x: xp.shape(x), differentiable=False),
    "size": Case(lambda xp, x: xp.size(x), differentiable=False),
    "sort": Case(lambda xp, x: xp.sort(x, axis=1) * _positions(xp, x)),
    "split": Case(lambda xp, x: xp.split(x, 1, axis=1)[0] * x),
    "squeeze": Case(lambda xp, x: xp.squeeze(x[None], axis=0) * 2),
    "stack": Case(lambda xp, x, y: xp.stack([x, y], axis=1), TWO),
    "std": Case(lambda xp, x: xp.std(x, axis=1, keepdims=True) if x.shape[1] > 1 else x),
    "sum": Case(lambda xp, x: xp.sum(x, axis=0) + xp.sum(x)),
    "swapaxes": Case(lambda xp, x: xp.swapaxes(x, 0, 1) * x),
    "take": Case(lambda xp, x: xp.take(x, np.arange(x.shape[1])[::-1] // 2, axis=1)),
    "take_along_axis": Case(lambda xp, x: xp.take_along_axis(x, np.arange(len(x))[:, None] // 2, axis=1)),
    "tensordot": Case(lambda xp, x, y: xp.tensordot(x, y, axes=([0], [1])), TWO),
    "tile": Case(lambda xp, x: xp.tile(x, (2, 1))),
    "trace": Case(lambda xp, x: xp.trace(x)),
    "transpose": Case(lambda xp, x: xp.transpose(x) @ x),
    "tril": Case(lambda xp, x: xp.tril(x)),
    "triu": Case(lambda xp, x: xp.triu(x, 1)),
    "unique_all": Case(lambda xp, x: xp.unique_all(x).values.shape, differentiable=False),
    "unique_counts": Case(lambda xp, x: xp.unique_counts(x).values.shape, differentiable=False),
    "unique_inverse": Case(lambda xp, x: xp.unique_inverse(x).values.shape, differentiable=False),
    "unique_values": Case(lambda xp, x: xp.unique_values(x).shape, differentiable=False),
    "unstack": Case(lambda xp, x: xp.unstack(x, axis=1)[0]),
    "var": Case(lambda xp, x: xp.var(x, axis=0)),
    "vdot": Case(lambda xp, x, y: xp.vdot(x, y), TWO),
    "vecdot": Case(lambda xp, x, y: xp.vecdot(x, y), TWO),
    "vecmat": Case(lambda xp, x, y: xp.vecmat(x, y), TWO),
    "vstack": Case(lambda xp, x, y: xp.vstack([x, y]), TWO),
    "where": Case(lambda xp, x, y: xp.where(x > 0.1, x * y, 2.0), TWO),
    "zeros_like": Case(lambda xp, x: xp.zeros_like(x) + x),
}
"""Maps names of NumPy's functions to programs. It includes universal functions that are not elementwise."""

CASES = UNIVERSAL | FUNCTIONS
