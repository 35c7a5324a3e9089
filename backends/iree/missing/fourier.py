"""fft of any length, rank and precision; IREE has f32 along one dimension of 2^k elements.

A length n = p q takes q transforms of length p, a rotation, and p transforms of length q (Cooley and Tukey).
A short or prime length takes a product with a constant matrix. A long prime takes a convolution whose length
is a power of two (Bluestein).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.backends.iree.emitter import Emitter, legalize
from tiduc.backends.iree.fault import Fault
from tiduc.backends.iree.refused import refused
from tiduc.dialect.types import element, is_complex, is_open, shape

Parts = tuple[Any, Any]

_SHORT = 32  # a matrix of at most this size is as fast as a recursion
_PRIME = 256  # from here on, a convolution is cheaper than a matrix


@legalize(
    "stablehlo.fft",
    fault=Fault(
        "missing",
        "Compiles only for f32, along one dimension of 2^k elements; emits real arithmetic for each dimension.",
        witness="fft_5",
    ),
)
def fft(b: Emitter, op: Any) -> Sequence[Any] | None:
    """Real arithmetic for each dimension."""
    x, y = op.operands[0], op.results[0]
    if is_open(x.type):
        raise refused(op, "its sizes are open")
    lengths = list(op.attributes["fft_length"])
    kind = hlo.FftTypeAttr(op.attributes["fft_type"]).value
    real = element(x).element_type if is_complex(x) else element(x)
    native = len(lengths) == 1 and real.width == 32 and lengths[0] > 1 and lengths[0] & (lengths[0] - 1) == 0
    if native and 0 not in shape(x):
        return None
    if 0 in shape(x):
        return [b.constant(0, y.type)]
    rank = len(shape(x))
    axes = list(range(rank - len(lengths), rank))
    parts = (b.real(x), b.imag(x)) if is_complex(x) else (x, b.constant(0, x))
    if kind == "IRFFT":
        parts = _whole(b, _each(b, parts, list(zip(axes, lengths, strict=True))[:-1], 1), lengths[-1])
        parts = _along(b, parts, rank - 1, lengths[-1], 1)
        return [_scaled(b, parts[0], lengths)]
    sign = 1 if kind == "IFFT" else -1
    pairs = list(zip(axes, lengths, strict=True))[::-1]
    if kind == "RFFT":
        parts = _along(b, parts, *pairs.pop(0), sign)
        parts = tuple(_front(b, v, lengths[-1] // 2 + 1) for v in parts)
    parts = _each(b, parts, pairs, sign)
    return [b.complex(*(_scaled(b, v, lengths) if kind == "IFFT" else v for v in parts))]


def _scaled(b: Emitter, x: Any, lengths: Sequence[int]) -> Any:
    return b.multiply(x, b.like(1 / float(np.prod(lengths)), x))


def _front(b: Emitter, x: Any, n: int) -> Any:
    """The first n elements along the last dimension."""
    sizes = shape(x)
    return b.slice(x, [0] * len(sizes), [*sizes[:-1], n], [1] * len(sizes))


def _whole(b: Emitter, parts: Parts, n: int) -> Parts:
    """The n elements of a spectrum whose first half is given: element k of the rest is the conjugate of n - k."""
    kept = [_front(b, v, n // 2 + 1) for v in parts]
    sizes, last = shape(kept[0]), len(shape(kept[0])) - 1
    high = n - n // 2
    if high <= 1:
        return kept[0], kept[1]
    start, limit = [0] * last + [1], [*sizes[:-1], high]
    mirrored = [b.reverse(b.slice(v, start, limit, [1] * (last + 1)), [last]) for v in kept]
    ends = mirrored[0], b.negate(mirrored[1])
    return tuple(b.concatenate([v, end], last) for v, end in zip(kept, ends, strict=True))


def _each(b: Emitter, parts: Parts, pairs: Sequence[tuple[int, int]], sign: int) -> Parts:
    for axis, n in pairs:
        parts = _along(b, parts, axis, n, sign)
    return parts


def _along(b: Emitter, parts: Parts, axis: int, n: int, sign: int) -> Parts:
    """The transform along one dimension: moves it last, and flattens all others to one."""
    sizes = shape(parts[0])
    order = [i for i in range(len(sizes)) if i != axis] + [axis]
    flat = [b.reshape(b.transpose(v, order), [_count(sizes) // n, n]) for v in parts]
    done = _transform(b, (flat[0], flat[1]), sign)
    turned = [b.reshape(v, [sizes[i] for i in order]) for v in done]
    back = np.argsort(order)
    return b.transpose(turned[0], back), b.transpose(turned[1], back)


def _count(sizes: Sequence[int]) -> int:
    return int(np.prod(sizes, dtype=np.int64))


def _transform(b: Emitter, parts: Parts, sign: int) -> Parts:
    """The transform of each row of a matrix: y_k = sum over j of x_j exp(sign 2 pi i j k / n)."""
    m, n = shape(parts[0])
    if n == 1:
        return parts
    p = _factor(n)
    if n <= _SHORT or p == n:
        return _bluestein(b, parts, sign) if n > _PRIME else _matrix(b, parts, sign)
    q = n // p
    # j = j1 q + j2, k = k1 + p k2: first over j1, for each j2, then over j2.
    first = [b.reshape(b.transpose(b.reshape(v, [m, p, q]), [0, 2, 1]), [m * q, p]) for v in parts]
    inner = _transform(b, (first[0], first[1]), sign)
    angles = np.outer(np.arange(q), np.arange(p)) * (2 * np.pi * sign / n)
    cube = [b.reshape(v, [m, q, p]) for v in inner]
    turn = [
        b.broadcast_in_dim(b.table(f(angles), element(cube[0])), [1, 2], cube[0].type)
        for f in (np.cos, np.sin)
    ]
    rotated = _times(b, (cube[0], cube[1]), (turn[0], turn[1]))
    second = [b.reshape(b.transpose(v, [0, 2, 1]), [m * p, q]) for v in rotated]
    outer = _transform(b, (second[0], second[1]), sign)
    done = [b.reshape(b.transpose(b.reshape(v, [m, p, q]), [0, 2, 1]), [m, n]) for v in outer]
    return done[0], done[1]


def _factor(n: int) -> int:
    """The greatest divisor of n that is at most _SHORT; else the least prime one."""
    for p in range(min(_SHORT, n - 1), 1, -1):
        if n % p == 0:
            return p
    return next((p for p in range(_SHORT + 1, int(n**0.5) + 1) if n % p == 0), n)


def _times(b: Emitter, x: Parts, y: Parts) -> Parts:
    (xr, xi), (yr, yi) = x, y
    re = b.subtract(b.multiply(xr, yr), b.multiply(xi, yi))
    return re, b.add(b.multiply(xr, yi), b.multiply(xi, yr))


def _matrix(b: Emitter, parts: Parts, sign: int) -> Parts:
    """The transform by the matrix of all roots of unity; integer arithmetic reduces the angles exactly."""
    n = shape(parts[0])[1]
    angles = np.outer(np.arange(n), np.arange(n)) % n * (2 * np.pi * sign / n)
    cos, sin = (b.table(f(angles), element(parts[0])) for f in (np.cos, np.sin))

    def dot(x: Any, y: Any) -> Any:
        return b.dot_general(x, y, ([], []), ([1], [0]), {})

    re, im = parts
    return b.subtract(dot(re, cos), dot(im, sin)), b.add(dot(re, sin), dot(im, cos))


def _bluestein(b: Emitter, parts: Parts, sign: int) -> Parts:
    """The transform of a long prime length, as a convolution with a chirp, whose length is a power of two.

    j k = (j^2 + k^2 - (k - j)^2) / 2, so that only a function of k - j is left within the sum.
    """
    m, n = shape(parts[0])
    size = 1 << (2 * n - 2).bit_length()
    angles = np.arange(n, dtype=np.int64) ** 2 % (2 * n) * (np.pi * sign / n)
    chirp = np.exp(1j * angles)
    kernel = np.zeros(size, np.complex128)
    kernel[:n] = chirp.conj()
    kernel[size - n + 1 :] = chirp.conj()[1:][::-1]
    spectrum = np.fft.fft(kernel) / size

    def table(values: Any, like: Any) -> Parts:
        re, im = (b.table(v, element(like)) for v in (values.real, values.imag))
        return b.broadcast_in_dim(re, [1], like.type), b.broadcast_in_dim(im, [1], like.type)

    turned = _times(b, parts, table(chirp, parts[0]))
    zero = b.table(0.0, element(parts[0]))
    padded = [b.pad(v, zero, [0, 0], [0, size - n], [0, 0]) for v in turned]
    there = _transform(b, (padded[0], padded[1]), -1)
    back = _transform(b, _times(b, there, table(spectrum, there[0])), 1)
    kept = _front(b, back[0], n), _front(b, back[1], n)
    return _times(b, kept, table(chirp, kept[0]))
