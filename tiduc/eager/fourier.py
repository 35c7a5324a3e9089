"""`numpy.fft` on eager arrays. A transform along several axes is a sequence of transforms along one axis each.

StableHLO's inverse transforms divide by the number of points.
"""

from collections.abc import Callable, Sequence
from functools import partial
from math import sqrt

import numpy as np
from numpy.lib.array_utils import normalize_axis_index
from numpy.typing import ArrayLike
from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.graph.graph import Value
from tiduc.dialect.shapes.types import dims, element, rank, shape, with_element, with_shape
from tiduc.eager.array import Array, valued
from tiduc.eager.elementwise import converted
from tiduc.eager.record import EagerInput
from tiduc.eager.registry import Result, implements
from tiduc.eager.session import apply

_FACTORS: dict[str | None, Callable[[int, bool], float]] = {
    None: lambda n, inverse: 1,
    "backward": lambda n, inverse: 1,
    "ortho": lambda n, inverse: sqrt(n) if inverse else 1 / sqrt(n),
    "forward": lambda n, inverse: n if inverse else 1 / n,
}
"""Maps a normalization of NumPy to a function that returns the factor for the result of StableHLO's transform.

The arguments of the function are the number of points, and whether the transform is inverse.
"""


def _transform(kind: str, x: EagerInput, n: int | None, axis: int, norm: str | None) -> EagerInput:
    """StableHLO's transform of n points along an axis. A shorter axis is padded with zeros, and a longer one is cut."""
    if norm not in _FACTORS:
        raise ValueError(f'Invalid norm value {norm}; should be "backward", "ortho" or "forward".')
    axis = normalize_axis_index(axis, x.data.ndim)
    count = n if n is not None else x.data.shape[axis] if kind != "IRFFT" else 2 * (x.data.shape[axis] - 1)
    if count < 1:
        raise ValueError(f"Invalid number of FFT data points ({count}) specified.")
    of = np.result_type(x.data.dtype, np.float64 if x.data.dtype.kind in "iub" else np.float32)
    if kind != "RFFT":
        of = np.result_type(of, np.complex64)
    elif of.kind == "c":
        raise TypeError("np.fft.rfft requires real values")
    factor = _FACTORS[norm](count, kind[0] == "I")

    def emit(b: StablehloBuilder, x: Value) -> list[Value]:
        turned = [d for d in range(rank(x)) if d != axis] + [axis]
        x = b.transpose(converted(b, x, of), turned)
        points = count // 2 + 1 if kind == "IRFFT" else count
        if shape(x)[-1] != points:
            none, zero = [0] * rank(x), b.zero(with_shape(x.type, []))
            x = b.pad(x, zero, none, [*none[1:], points - shape(x)[-1]], none)
        part = element(x)
        if kind == "RFFT":
            result = with_element(
                with_shape(x.type, [*shape(x)[:-1], count // 2 + 1]), ir.ComplexType.get(part)
            )
        elif kind == "IRFFT":
            result = with_element(with_shape(x.type, [*shape(x)[:-1], count]), part.element_type)
        else:
            result = x.type
        y = b.emit(
            "stablehlo.fft",
            (x,),
            result,
            {"fft_type": hlo.FftTypeAttr.get(kind), "fft_length": dims([count])},
        )
        y = y if factor == 1 else b.multiply(y, b.constant(factor, y))
        return [b.transpose(y, [turned.index(d) for d in range(rank(x))])]

    return apply(("fft", kind, count, axis, factor, of), emit, x)


def _one(kind: str, a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Array:
    return Array.of(_transform(kind, valued(a), n, axis, norm))


def _several(
    kind: str,
    default: Sequence[int] | None,
    a: ArrayLike,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: str | None = None,
) -> Array:
    """The transform along several axes. If `kind` is real (RFFT or IRFFT), only the last axis has a real transform."""
    x = valued(a)
    axes = default if axes is None else axes
    if axes is None:
        axes = range(x.data.ndim) if s is None else range(-len(s), 0)
    sizes = [None if s is None or s[i] == -1 else s[i] for i in range(len(axes))]
    kinds = [f"{'I' if kind[0] == 'I' else ''}FFT"] * (len(axes) - 1) + [kind]
    steps = list(zip(kinds, sizes, axes, strict=True))
    for each, size, axis in steps if kind == "IRFFT" else reversed(steps):
        x = _transform(each, x, size, axis, norm)
    return Array.of(x)


_OPPOSITE = {None: "forward", "backward": "forward", "ortho": "ortho", "forward": "backward"}


@implements(np.fft.hfft)
def hfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Result:
    """The Fourier transform of a signal with Hermitian symmetry, of which `a` is the first half. The result is real."""
    return _one("IRFFT", np.conj(Array.of(valued(a))), n, axis, _OPPOSITE.get(norm, norm))


@implements(np.fft.ihfft)
def ihfft(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Result:
    return np.conj(_one("RFFT", a, n, axis, _OPPOSITE.get(norm, norm)))


for _kind in ("FFT", "IFFT", "RFFT", "IRFFT"):
    implements(getattr(np.fft, _kind.lower()))(partial(_one, _kind))
    implements(getattr(np.fft, f"{_kind.lower()}n"))(partial(_several, _kind, None))
    implements(getattr(np.fft, f"{_kind.lower()}2"))(partial(_several, _kind, (-2, -1)))
