"""The namespace of the Array API standard, for eager arrays: `x.__array_namespace__()`.

    from tiduc.eager import array_api as xp

    x = xp.asarray([3.0, 4.0])
    xp.linalg.vector_norm(x)                                    # Array(5., dtype=float64)

NumPy implements the functions of the standard, and dispatches them to eager arrays. The namespace therefore contains
NumPy's own functions. The exceptions are functions that create arrays, and functions whose parameters or results differ
from NumPy's, such as `sort`.
"""

from collections.abc import Callable
from functools import wraps
from types import SimpleNamespace
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from tiduc.eager.array import Array
from tiduc.eager.registry import NumpyFunction, Result


class SupportsDLPack(Protocol):
    """An array of any library that exports its elements by DLPack."""

    def __dlpack__(self, *, stream: None = None) -> object: ...


Cpu = Literal["cpu"] | None
"""The device of eager arrays, which is always the CPU. None is the default device."""

__array_api_version__ = "2025.12"
VERSIONS = "2022.12", "2023.12", "2024.12", __array_api_version__

CREATING = "arange empty eye full linspace ones zeros"
"""The functions that create arrays. NumPy cannot dispatch them, because no argument is an eager array."""
TYPES = """bool complex128 complex64 float32 float64 int16 int32 int64 int8 uint16 uint32 uint64 uint8
e inf nan newaxis pi __array_namespace_info__ broadcast_shapes can_cast finfo iinfo isdtype result_type"""
FUNCTIONS = """
abs acos acosh add all any argmax argmin asin asinh astype atan atan2 atanh bitwise_and bitwise_invert
bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor broadcast_arrays broadcast_to ceil concat conj
copysign cos cosh count_nonzero cumulative_prod cumulative_sum diff divide empty_like equal exp expand_dims
expm1 flip floor floor_divide full_like greater greater_equal hypot imag isfinite isin isinf isnan less
less_equal log log10 log1p log2 logaddexp logical_and logical_not logical_or logical_xor matmul
matrix_transpose max maximum mean meshgrid min minimum moveaxis multiply negative nextafter nonzero
not_equal ones_like permute_dims positive pow prod real reciprocal remainder repeat reshape roll round
searchsorted sign signbit sin sinh sqrt square squeeze stack std subtract sum take take_along_axis tan tanh
tensordot tile tril triu trunc unique_all unique_counts unique_inverse unique_values unstack var vecdot
where zeros_like
"""
LINALG = """
cholesky cross det diagonal eig eigh eigvals eigvalsh inv matmul matrix_norm matrix_power matrix_rank
matrix_transpose outer pinv qr slogdet solve svd svdvals tensordot trace vecdot vector_norm
"""
FFT = "fft fftn fftshift hfft ifft ifftn ifftshift ihfft irfft irfftn rfft rfftn"


def asarray(
    obj: ArrayLike, /, *, dtype: DTypeLike | None = None, device: str | None = None, copy: bool | None = None
) -> Array:
    """Converts an object to an eager array of type `dtype`.

    Returns an eager array itself if it has this type, unless `copy` is True. Raises `ValueError` if `copy` is False but
    the type requires a copy.
    """
    if not isinstance(obj, Array):
        return _created(np.asarray)(obj, dtype=dtype, device=device, copy=copy)
    if dtype is not None and np.dtype(dtype) != obj.dtype:
        if copy is False:
            raise ValueError(f"{obj.dtype} cannot become {np.dtype(dtype)} without a copy")
        return obj.astype(dtype)
    return obj.copy() if copy else obj


def from_dlpack(x: SupportsDLPack, /, *, device: Cpu = None, copy: bool | None = None) -> Array:
    """A copy of an array of another library. Raises `ValueError` if `copy` is False."""
    if copy is False:
        raise ValueError("eager arrays own their elements: from_dlpack copies")
    other: Any = x  # NumPy's annotation requires capsules, for which Python 3.11 has no type
    return Array(np.from_dlpack(other, device=device))


def argsort(x: Array, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    """The indices that sort x along an axis. The sort is stable, and NaN is greater than any number."""
    if not descending:
        return Array(np.argsort(x.data, axis=axis, stable=True))
    last: Any = x.shape[axis] - 1
    return Array(last - np.flip(np.argsort(np.flip(x.data, axis), axis=axis, stable=True), axis))


def sort(x: Array, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Result:
    """x sorted along an axis, in the order of `argsort`."""
    return np.take_along_axis(x, argsort(x, axis=axis, descending=descending).data, axis)


def clip(x: Array, /, min: ArrayLike | None = None, max: ArrayLike | None = None) -> Result:
    """x with each element outside of the bounds replaced by the nearest bound. The result has the type of x."""
    return np.clip(x, min, max).astype(x.dtype)


def fftfreq(n: int, /, *, d: float = 1.0, dtype: DTypeLike | None = None, device: Cpu = None) -> Array:
    """The frequencies of a Fourier transform of n points with spacing d, as `np.fft.fftfreq`."""
    return Array(np.fft.fftfreq(n, d, device), dtype)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: DTypeLike | None = None, device: Cpu = None) -> Array:
    """The frequencies of a Fourier transform of n real points with spacing d, as `np.fft.rfftfreq`."""
    return Array(np.fft.rfftfreq(n, d, device), dtype)


def _created(function: NumpyFunction) -> Callable[..., Array]:
    @wraps(function)
    def create(*args: object, **options: object) -> Array:
        return Array(function(*args, **options))

    return create


_NAMES = {
    **{name: getattr(np, name) for name in (TYPES + " " + FUNCTIONS).split()},
    **{name: _created(getattr(np, name)) for name in CREATING.split()},
    "linalg": SimpleNamespace(**{name: getattr(np.linalg, name) for name in LINALG.split()}),
    "fft": SimpleNamespace(
        **{name: getattr(np.fft, name) for name in FFT.split()}, fftfreq=fftfreq, rfftfreq=rfftfreq
    ),
}


def __getattr__(name: str) -> Any:
    try:
        return _NAMES[name]
    except KeyError:
        raise AttributeError(f"the Array API standard has no {name!r}") from None


def __dir__() -> list[str]:
    return sorted({*_NAMES, *globals()})
