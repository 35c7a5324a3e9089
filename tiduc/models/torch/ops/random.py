"""Decomposes random functions into calls of StableHLO functions with the op `rng`, which the import expands.

torch-mlir's own lowerings have three faults. They do not support dynamic shapes. Dropout divides 0 by 0 if p = 1, and
draws numbers in f64. Normal numbers are computed from uniform numbers of the result's type, which may have only 8 bits
of precision.
"""

from collections.abc import Sequence
from itertools import count
from typing import Any

from tiduc.models.emitted_text import Body, TextTensor
from tiduc.models.torch.ops.calls import ELEMENTS, call
from tiduc.models.torch.ops.framework import aten, decomposes, torch

_NUMBERS = count()
"""Numbers for the names of functions. MLIR would merge two calls of the same function with equal operands."""


def _drawn(like: torch.Tensor, dtype: torch.dtype, distribution: str) -> torch.Tensor:
    """Random numbers in the shape of `like`: uniform in [0, 1), or standard normal, as `distribution` says."""
    kind = ELEMENTS[str(dtype).removeprefix("torch.")]

    def emit(body: Body, x: TextTensor) -> list[TextTensor]:
        bounds = [body.constant(number, [], kind) for number in ("0.0", "1.0")]
        parts = [body.size(x, d) for d in range(len(x.sizes))]
        sizes = body.concatenate(parts, 0) if parts else body.constant("", [0], "i64")
        chosen = f"rng_distribution = #stablehlo<rng_distribution {distribution}>"
        return [body.emit("rng", [*bounds, sizes], x.sizes, chosen, kind)]

    return call(f"{distribution.lower()}.{next(_NUMBERS)}", [like], emit)


def _of_size(size: Sequence[int], dtype: torch.dtype | None, distribution: str) -> torch.Tensor:
    dtype = torch.get_default_dtype() if dtype is None else dtype
    return _drawn(torch.zeros(size, dtype=dtype), dtype, distribution)


@decomposes(aten.rand.default)
def rand(size: Sequence[int], *, dtype: torch.dtype | None = None, **_: object) -> torch.Tensor:
    """Random numbers of the shape `size`, uniform in [0, 1)."""
    return _of_size(size, dtype, "UNIFORM")


@decomposes(aten.rand_like.default)
def rand_like(x: torch.Tensor, *, dtype: torch.dtype | None = None, **_: object) -> torch.Tensor:
    """Random numbers of the shape of x, uniform in [0, 1)."""
    return _drawn(x, x.dtype if dtype is None else dtype, "UNIFORM")


@decomposes(aten.uniform.default)
def uniform(x: torch.Tensor, low: float = 0.0, high: float = 1.0, **_: object) -> torch.Tensor:
    """Random numbers of the shape of x, uniform in [low, high)."""
    return low + (high - low) * rand_like(x)


@decomposes(aten.randn.default)
def randn(size: Sequence[int], *, dtype: torch.dtype | None = None, **_: object) -> torch.Tensor:
    """Standard normal random numbers of the shape `size`."""
    return _of_size(size, dtype, "NORMAL")


@decomposes(aten.randn_like.default)
def randn_like(x: torch.Tensor, *, dtype: torch.dtype | None = None, **_: object) -> torch.Tensor:
    """Standard normal random numbers of the shape of x."""
    return _drawn(x, x.dtype if dtype is None else dtype, "NORMAL")


@decomposes(aten.native_dropout.default)
def native_dropout(x: torch.Tensor, p: float, train: bool | None) -> tuple[Any, Any]:
    """Two results: x / (1 - p) where a random mask is true and zero elsewhere, and the mask.

    An element of the mask is true with probability 1 - p.
    """
    if train is False or p == 0:
        return x.clone(), torch.ones_like(x, dtype=torch.bool)
    mask = rand_like(x, dtype=torch.float32) < 1 - p
    return torch.where(mask, x * (0 if p == 1 else 1 / (1 - p)), 0), mask


@decomposes(aten.dropout.default)
def dropout(x: torch.Tensor, p: float, train: bool) -> torch.Tensor:
    """The first result of `native_dropout`. Returns x itself if `train` is false or p is 0."""
    return native_dropout(x, p, train)[0] if train and p else x


@decomposes(aten.bernoulli.default)
def bernoulli(p: torch.Tensor, **_: object) -> torch.Tensor:
    """Random numbers that are 1 with the probability in p, and 0 otherwise."""
    return (rand_like(p, dtype=torch.float32) < p).to(p.dtype)


@decomposes(aten.bernoulli.p)
def bernoulli_of_number(x: torch.Tensor, p: float, **_: object) -> torch.Tensor:
    """Random numbers of the shape of x that are 1 with probability p, and 0 otherwise."""
    return (rand_like(x, dtype=torch.float32) < p).to(x.dtype)


@decomposes(
    aten.normal.Tensor_Tensor,
    aten.normal.Tensor_float,
    aten.normal.float_Tensor,
    aten.normal_functional.default,
)
def normal(
    mean: float | torch.Tensor,
    std: float | torch.Tensor = 1.0,
    *deviation: float | torch.Tensor,
    generator: torch.Generator | None = None,
) -> torch.Tensor:
    """Normal random numbers with the given mean and standard deviation.

    The arguments of `normal_functional` are a tensor of the result's shape, the mean, and the standard deviation.
    """
    like = next(x for x in (mean, std) if isinstance(x, torch.Tensor))
    if deviation:
        mean, std = std, *deviation
    if isinstance(mean, torch.Tensor) and isinstance(std, torch.Tensor):
        like = mean + std
    return mean + std * randn_like(like)


@decomposes(aten.normal.float_float)
def normal_of_size(
    mean: float, std: float, size: Sequence[int], *, dtype: torch.dtype | None = None, **_: object
) -> torch.Tensor:
    """Normal random numbers of the shape `size` with the given mean and standard deviation."""
    return mean + std * randn(size, dtype=dtype)
