"""Computes fft of any length, rank and precision. IREE has fft only for f32, along one dimension of 2^k elements.

Real and imaginary parts are stored along an additional dimension of size 2. A transform of length n = p q is split into
q transforms of length p, products with roots of unity, and p transforms of length q (Cooley and Tukey). A transform of
short or prime length is a product with a constant matrix. But if the prime is large, the transform is a convolution
whose length is a power of two (Bluestein).
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.backends.iree.emit.emitter import Emitter, legalize
from tiduc.backends.iree.emit.refused import refused
from tiduc.backends.iree.fault import missing
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.shapes.types import element, is_complex, is_dynamic, shape

_SHORT = 32
"""Up to this length, a product with a matrix is as fast as splitting the transform."""
_PRIME = 256
"""For prime lengths above this one, a convolution is cheaper than a product with a matrix."""


@legalize("stablehlo.fft")
@missing(
    "The op compiles only for f32, along one dimension of 2^k elements; tiduc emits arithmetic for each dimension.",
    "fft_5",
    upstream="https://github.com/iree-org/iree/issues/12263",
)
def fft(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Computes the transform of each dimension in real arithmetic. Returns None for a transform that IREE compiles.

    Raises `Unsupported` for dynamic shapes.
    """
    x, y = op.operands[0], op.results[0]
    if is_dynamic(x.type):
        raise refused(op, "its shapes are dynamic")
    lengths = list(op.attributes["fft_length"])
    kind = hlo.FftTypeAttr(op.attributes["fft_type"]).value
    real = element(x).element_type if is_complex(x) else element(x)
    native = len(lengths) == 1 and real.width == 32 and lengths[0] > 1 and lengths[0] & (lengths[0] - 1) == 0
    if native and 0 not in shape(x):
        return None
    if 0 in shape(x):
        return [b.constant(0, y.type)]
    parts = (b.real(x), b.imag(x)) if is_complex(x) else (x, b.constant(0, x))
    z = b.concatenate([b.reshape(v, [1, *shape(x)]) for v in parts], 0)
    last = len(shape(x))  # the last dimension of z
    axes = list(zip(range(last + 1 - len(lengths), last + 1), lengths, strict=True))[::-1]
    sign = -1 if kind in ("FFT", "RFFT") else 1
    if kind == "IRFFT":  # the last dimension is transformed last, because the result of its transform is real
        axes = [*axes[1:], axes[0]]
    for axis, n in axes:
        if kind == "IRFFT" and axis == last:
            z = _both_halves(b, z, n)
        z = _along(b, z, axis, n, sign)
        if kind == "RFFT" and axis == last:
            z = b.cut(z, last, 0, n // 2 + 1)
    if sign > 0:
        z = b.multiply(z, b.constant(1 / math.prod(lengths), z))
    re, im = (b.reshape(b.cut(z, 0, i, i + 1), shape(z)[1:]) for i in range(2))
    return [re if kind == "IRFFT" else b.complex(re, im)]


def _both_halves(b: Emitter, z: IrValue, n: int) -> IrValue:
    """Completes a spectrum of n elements along the last dimension, from its first n // 2 + 1 elements.

    Element n - k is the conjugate of element k.
    """
    last = len(shape(z)) - 1
    half = b.cut(z, last, 0, n // 2 + 1)
    if n < 3:
        return half
    mirrored = b.reverse(b.cut(half, last, 1, n - n // 2), [last])
    signs = b.broadcast_in_dim(b.table([1, -1], element(z)), [0], mirrored.type)
    return b.concatenate([half, b.multiply(mirrored, signs)], last)


def _along(b: Emitter, z: IrValue, axis: int, n: int, sign: int) -> IrValue:
    """Transforms z along the dimension `axis`, whose size is n. Dimension 0 of z has the real and imaginary parts."""
    order = [i for i in range(1, len(shape(z))) if i != axis] + [0, axis]
    turned = b.transpose(z, order)
    rows = b.reshape(turned, [math.prod(shape(turned)[:-2]), 2, n])
    return b.transpose(b.reshape(_transform(b, rows, sign), shape(turned)), np.argsort(order))


def _transform(b: Emitter, z: IrValue, sign: int) -> IrValue:
    """Transforms m rows of n elements: y_k = sum over j of z_j exp(sign 2 pi i j k / n).

    z has the shape (m, 2, n); its dimension 1 has the real and imaginary parts.
    """
    m, _, n = shape(z)
    if n == 1:
        return z
    p = _factor(n)
    if n <= _SHORT or p == n:
        return _bluestein(b, z, sign) if n > _PRIME else _by_matrix(b, z, sign)
    q = n // p
    # With j = j1 q + j2 and k = k1 + p k2, the sum over j1 is computed first, for each j2, and then the sum over j2.
    columns = b.transpose(b.reshape(z, [m, 2, p, q]), [0, 3, 1, 2])
    inner = b.reshape(_transform(b, b.reshape(columns, [m * q, 2, p]), sign), [m, q, 2, p])
    angles = np.outer(np.arange(q), np.arange(p)) * (2 * np.pi * sign / n)
    rows = b.transpose(_times(b, inner, np.exp(1j * angles), [1, 3]), [0, 3, 2, 1])
    outer = b.reshape(_transform(b, b.reshape(rows, [m * p, 2, q]), sign), [m, p, 2, q])
    return b.reshape(b.transpose(outer, [0, 2, 3, 1]), [m, 2, n])


def _factor(n: int) -> int:
    """The greatest divisor of n that is less than n and at most `_SHORT`, if it is not 1.

    Otherwise the least prime divisor of n, which is n itself if n is prime.
    """
    for p in range(min(_SHORT, n - 1), 1, -1):
        if n % p == 0:
            return p
    return next((p for p in range(_SHORT + 1, int(n**0.5) + 1) if n % p == 0), n)


def _times(b: Emitter, z: IrValue, factors: NDArray[Any], dimensions: Sequence[int]) -> IrValue:
    """Multiplies z by the complex constants `factors`, broadcast along all other dimensions of z than `dimensions`.

    The last dimension but one of z has the real and imaginary parts.
    """
    parts = len(shape(z)) - 2

    def table(values: NDArray[Any]) -> IrValue:
        return b.broadcast_in_dim(b.table(values, element(z)), dimensions, z.type)

    signs = b.broadcast_in_dim(b.table([-1, 1], element(z)), [parts], z.type)
    turned = b.multiply(b.reverse(z, [parts]), signs)  # i z
    return b.add(b.multiply(z, table(factors.real)), b.multiply(turned, table(factors.imag)))


def _by_matrix(b: Emitter, z: IrValue, sign: int) -> IrValue:
    """Transforms rows by a product with the matrix of roots of unity. Their angles are reduced exactly: j k mod n."""
    m, _, n = shape(z)
    angles = np.outer(np.arange(n), np.arange(n)) % n * (2 * np.pi * sign / n)
    cos, sin = np.cos(angles), np.sin(angles)
    matrix = b.table(np.block([[cos, sin], [-sin, cos]]), element(z))
    return b.reshape(b.dot_general(b.reshape(z, [m, 2 * n]), matrix, ([], []), ([1], [0]), {}), [m, 2, n])


def _bluestein(b: Emitter, z: IrValue, sign: int) -> IrValue:
    """Transforms rows of long prime length by a convolution with a chirp. Pads the rows to a power of two.

    Since j k = (j^2 + k^2 - (k - j)^2) / 2, each root of unity is a product of a function of j, a function of k and a
    function of k - j. The sum over j is therefore a convolution, with factors before and after it.
    """
    n = shape(z)[2]
    size = 1 << (2 * n - 2).bit_length()
    chirp = np.exp(1j * (np.arange(n, dtype=np.int64) ** 2 % (2 * n) * (np.pi * sign / n)))
    kernel = np.zeros(size, np.complex128)
    kernel[:n] = chirp.conj()
    kernel[size - n + 1 :] = chirp.conj()[1:][::-1]
    zero = b.table(0.0, element(z))
    padded = b.pad(_times(b, z, chirp, [2]), zero, [0, 0, 0], [0, 0, size - n], [0, 0, 0])
    spectrum = _times(b, _transform(b, padded, -1), np.fft.fft(kernel) / size, [2])
    return _times(b, b.cut(_transform(b, spectrum, 1), 2, 0, n), chirp, [2])
