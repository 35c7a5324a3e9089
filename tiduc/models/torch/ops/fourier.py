"""Decompositions of PyTorch's Fourier transforms into StableHLO's `fft`, which transforms the last dimensions."""

from collections.abc import Sequence
from math import prod, sqrt
from typing import Any

from tiduc.models.emitted_text import Body, TextTensor
from tiduc.models.torch.ops.calls import call, element
from tiduc.models.torch.ops.framework import aten, decomposes, torch

_LONGEST = 3  # the largest number of dimensions that StableHLO's `fft` transforms


def _transformed(x: torch.Tensor, dims: Sequence[int], kind: str, lengths: Sequence[int], result: int) -> Any:
    """Applies StableHLO's `fft` along `dims`. `result` is the size of the last of these dimensions in the result."""
    count = len(dims)
    others = [d for d in range(x.dim()) if d not in dims]
    permutation = [*others, *dims]
    inverse = [permutation.index(d) for d in range(x.dim())]
    real = element(x).removeprefix("complex<").removesuffix(">")
    of_result = real if kind == "IRFFT" else f"complex<{real}>"
    settings = (
        f"fft_type = #stablehlo<fft_type {kind}>, fft_length = array<i64: {', '.join(map(str, lengths))}>"
    )

    def emit(body: Body, a: TextTensor) -> list[TextTensor]:
        return [body.emit("fft", [a], [*a.sizes[:-1], result], settings, of_result)]

    assert count <= _LONGEST
    return call(kind.lower(), [x.permute(permutation)], emit).permute(inverse)


def _scaled(x: torch.Tensor, normalization: int, sizes: Sequence[int], is_inverse: bool) -> torch.Tensor:
    """Multiplies x, a result of StableHLO's `fft`, by the factor for PyTorch's code `normalization`.

    Code 0 means no normalization, code 1 means division by the square root of the size, and code 2 means division by
    the size. For an inverse transform, the factor also cancels StableHLO's division by the size.
    """
    count = prod(sizes)
    factor = [1.0, 1 / sqrt(count), 1 / count][normalization] * (count if is_inverse else 1)
    return x if factor == 1 else x * factor


def _batches(dims: Sequence[int], rank: int) -> list[list[int]]:
    """Splits dimensions into groups that one transform can handle. The first group has the last dimensions."""
    positive = [d % rank for d in dims]
    groups = [positive[max(0, end - _LONGEST) : end] for end in range(len(positive), 0, -_LONGEST)]
    return groups


@decomposes(aten._fft_c2c.default)
def complex_to_complex(x: torch.Tensor, dims: Sequence[int], normalization: int, forward: bool) -> Any:
    sizes = [x.shape[d] for d in dims]
    for group in _batches(dims, x.dim()):
        lengths = [x.shape[d] for d in group]
        x = _transformed(x, group, "FFT" if forward else "IFFT", lengths, lengths[-1])
    return _scaled(x, normalization, sizes, not forward)


@decomposes(aten._fft_r2c.default)
def real_to_complex(x: torch.Tensor, dims: Sequence[int], normalization: int, onesided: bool) -> Any:
    sizes = [x.shape[d] for d in dims]
    if not onesided:
        return complex_to_complex(x.to(torch.complex(x, x).dtype), dims, normalization, True)
    *before, group = _batches(dims, x.dim())[::-1]
    lengths = [x.shape[d] for d in group]
    y = _transformed(x, group, "RFFT", lengths, lengths[-1] // 2 + 1)
    for each in before:
        y = complex_to_complex(y, each, 0, True)
    return _scaled(y, normalization, sizes, False)


@decomposes(aten._fft_c2r.default)
def complex_to_real(x: torch.Tensor, dims: Sequence[int], normalization: int, last: int) -> torch.Tensor:
    *before, group = _batches(dims, x.dim())[::-1]
    for each in before:
        x = complex_to_complex(x, each, 2, False)
    lengths = [*(x.shape[d] for d in group[:-1]), last]
    y = _transformed(x, group, "IRFFT", lengths, last)
    return _scaled(y, normalization, [*(x.shape[d] for d in dims[:-1]), last], True)


@decomposes(aten.fft_fftfreq.default)
def fftfreq(n: int, d: float = 1.0, *, dtype: torch.dtype | None = None, **keywords: object) -> Any:
    """The frequencies 0, 1, ..., (n - 1) // 2, -(n // 2), ..., -1, divided by n d."""
    numbers = torch.arange(n, dtype=dtype or torch.get_default_dtype())
    return torch.where(numbers < (n + 1) // 2, numbers, numbers - n) / (n * d)


@decomposes(aten.fft_rfftfreq.default)
def rfftfreq(n: int, d: float = 1.0, *, dtype: torch.dtype | None = None, **keywords: object) -> Any:
    return torch.arange(n // 2 + 1, dtype=dtype or torch.get_default_dtype()) / (n * d)
