"""A program for each NumPy function that eager arrays implement, on square matrices of any size.

The arguments of a program are a module (`numpy` or `jax.numpy`) and f32 matrices. A case has a range for the entries of
each matrix. Programs without a derivative return positions, sizes or truth values.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tiduc.eager.elementwise import EMITTERS

Range = tuple[float, float]


class Case(NamedTuple):
    """A program, the ranges of its matrices' entries, and whether it has a derivative."""

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
"""The ranges of universal functions that are undefined or steep in the usual range."""

_OF_INTEGERS = ("bitwise_and", "bitwise_or", "bitwise_xor", "invert")


def _universal(name: str) -> Case:
    ufunc = getattr(np, name)
    ranges = _RANGES.get(name, (ONE if ufunc.nin == 1 else TWO))
    if name in _OF_INTEGERS:
        return Case(lambda xp, *xs: getattr(xp, name)(*((8 * x).astype(np.int32) for x in xs)), ranges, False)
    real = ufunc.resolve_dtypes((*[np.dtype("f4")] * ufunc.nin, None))[-1].kind == "f"
    return Case(lambda xp, *xs: getattr(xp, name)(*xs), ranges, real)


UNIVERSAL = {name: _universal(name) for name in EMITTERS}


def _positions(xp: Any, x: Any) -> Any:
    """The positions 0, 1, ... along the last dimension of x, as a NumPy array rather than an eager array."""
    return np.arange(x.shape[-1], dtype=np.float32)


FUNCTIONS: dict[str, Case] = {
    "all": Case(lambda xp, x: xp.all(x, axis=1), differentiable=False),
    "allclose": Case(lambda xp, x: xp.allclose(x, x), differentiable=False),
    "amax": Case(lambda xp, x: xp.amax(x, axis=0)),
    "amin": Case(lambda xp, x: xp.amin(x, axis=1)),
    "any": Case(lambda xp, x: xp.any(x, axis=0), differentiable=False),
    "argmax": Case(lambda xp, x: xp.argmax(x, axis=1), differentiable=False),
    "argmin": Case(lambda xp, x: xp.argmin(x), differentiable=False),
    "argsort": Case(lambda xp, x: xp.argsort(x, axis=0), differentiable=False),
    "array_equal": Case(lambda xp, x: xp.array_equal(x, x), differentiable=False),
    "array_split": Case(lambda xp, x: xp.array_split(x, 2, axis=1)[0] * 2),
    "broadcast_to": Case(lambda xp, x: xp.broadcast_to(x[0], x.shape)),
    "clip": Case(lambda xp, x: xp.clip(x, -0.5, 1.0)),
    "concatenate": Case(lambda xp, x, y: xp.concatenate([x, y, x], axis=1), TWO),
    "copy": Case(lambda xp, x: xp.copy(x) * x),
    "cumsum": Case(lambda xp, x: xp.cumsum(x, axis=1)),
    "diagonal": Case(lambda xp, x: xp.diagonal(x)),
    "diff": Case(lambda xp, x: xp.diff(x, axis=0)),
    "dot": Case(lambda xp, x, y: xp.dot(x, y), TWO),
    "einsum": Case(lambda xp, x, y: xp.einsum("ij,kj->ki", x, y), TWO),
    "expand_dims": Case(lambda xp, x: xp.expand_dims(x, 1)),
    "flip": Case(lambda xp, x: xp.flip(x, axis=0) * x),
    "hstack": Case(lambda xp, x, y: xp.hstack([x, y]), TWO),
    "imag": Case(lambda xp, x: xp.imag(x * 1j)),
    "inner": Case(lambda xp, x, y: xp.inner(x, y), TWO),
    "matmul": Case(lambda xp, x, y: xp.matmul(x, y), TWO),
    "max": Case(lambda xp, x: xp.max(x)),
    "mean": Case(lambda xp, x: xp.mean(x, axis=0)),
    "min": Case(lambda xp, x: xp.min(x, axis=1, keepdims=True)),
    "moveaxis": Case(lambda xp, x: xp.moveaxis(x[None], 0, 2) * 2),
    "ndim": Case(lambda xp, x: xp.ndim(x), differentiable=False),
    "nonzero": Case(lambda xp, x: xp.nonzero(x > 0)[1], differentiable=False),
    "norm": Case(lambda xp, x: xp.linalg.norm(x) + xp.linalg.norm(x, axis=1)),
    "ones_like": Case(lambda xp, x: xp.ones_like(x) * x),
    "outer": Case(lambda xp, x, y: xp.outer(x[0], y[:, 0]), TWO),
    "pad": Case(lambda xp, x: xp.pad(x, ((1, 0), (0, 2)))),
    "prod": Case(lambda xp, x: xp.prod(x, axis=1), ((0.97, 1.03),)),
    "ravel": Case(lambda xp, x: xp.ravel(x) * 2),
    "real": Case(lambda xp, x: xp.real(x * (1 + 1j))),
    "repeat": Case(lambda xp, x: xp.repeat(x, 2, axis=0)),
    "reshape": Case(lambda xp, x: xp.reshape(x, (-1, 1)) * 2),
    "roll": Case(lambda xp, x: xp.roll(x, 1, axis=1)),
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
    "var": Case(lambda xp, x: xp.var(x, axis=0)),
    "vstack": Case(lambda xp, x, y: xp.vstack([x, y]), TWO),
    "where": Case(lambda xp, x, y: xp.where(x > 0.1, x * y, 2.0), TWO),
    "zeros_like": Case(lambda xp, x: xp.zeros_like(x) + x),
}
"""The programs by the name of NumPy's function; `matmul` is a universal function but not elementwise."""

CASES = UNIVERSAL | FUNCTIONS
