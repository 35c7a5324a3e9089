"""Decompositions of PyTorch's scatters with a reduction into StableHLO's `scatter`.

The derivatives of `scatter` for equal elements are those of PyTorch.
"""

from collections.abc import Sequence
from typing import Any

from tiduc.dialect.errors import Unsupported
from tiduc.models.emitted_text import Body, TextTensor
from tiduc.models.torch.ops.calls import call
from tiduc.models.torch.ops.framework import aten, decomposes, torch

_BODIES = {"sum": "add", "mean": "add", "prod": "multiply", "amax": "maximum", "amin": "minimum"}
"""Maps the name of a reduction in PyTorch to the StableHLO op that combines two elements."""


@decomposes(aten.scatter_reduce.two)
def scatter_reduce(
    x: torch.Tensor,
    dim: int,
    index: torch.Tensor,
    source: torch.Tensor,
    reduce: str,
    *,
    include_self: bool = True,
) -> torch.Tensor:
    """Combines each element of `source` into the element of x at the corresponding index along `dim`.

    Without `include_self`, an element of x that gets an update is replaced by the identity element first.
    """
    if x.dim() == 0:
        x, index, source = (y.reshape(1) for y in (x, index, source))
        return scatter_reduce(x, 0, index, source, reduce, include_self=include_self).reshape([])
    if any(not isinstance(n, int) for y in (x, index) for n in y.shape):
        raise Unsupported(
            f"scatter_reduce by {reduce!r} needs static shapes; export the module with static sizes"
        )
    source = source[tuple(slice(n) for n in index.shape)]
    places = _coordinates(index, dim % x.dim())
    counts: Any = None
    if reduce == "mean" or not include_self:
        counts = _scattered(torch.zeros_like(x), places, torch.ones_like(source), "add")
    if not include_self:
        x = torch.where(counts > 0, _identity(reduce, x.dtype), x)
    y = _scattered(x, places, source, _BODIES[reduce])
    if reduce != "mean":
        return y
    counts = (counts + (1 if include_self else 0)).clamp(min=1)
    return y / counts if y.is_floating_point() else torch.div(y, counts, rounding_mode="floor")


@decomposes(aten.index_reduce.default)
def index_reduce(
    x: torch.Tensor,
    dim: int,
    index: torch.Tensor,
    source: torch.Tensor,
    reduce: str,
    *,
    include_self: bool = True,
) -> torch.Tensor:
    shape = [1] * source.dim()
    if source.dim():
        shape[dim] = -1
    spread = index.reshape(shape).expand(source.shape)
    return scatter_reduce(x, dim, spread, source, reduce, include_self=include_self)


def _coordinates(index: torch.Tensor, dim: int) -> torch.Tensor:
    """The index in the operand of each update, as an array of shape (number of updates, rank of the operand)."""
    parts = []
    for d, size in enumerate(index.shape):
        shape = [1] * index.dim()
        shape[d] = size
        parts.append(index if d == dim else torch.arange(size).reshape(shape).expand(index.shape))
    return torch.stack(parts, -1).reshape(-1, index.dim())


def _identity(reduce: str, dtype: torch.dtype) -> torch.Tensor:
    """The identity element of the reduction: -inf for "amax", 1 for "prod", 0 for "sum" and so on."""
    if reduce in ("amax", "amin"):
        limits = torch.finfo(dtype) if dtype.is_floating_point else torch.iinfo(dtype)
        least, most = (float("-inf"), float("inf")) if dtype.is_floating_point else (limits.min, limits.max)
        return torch.full([], least if reduce == "amax" else most, dtype=dtype)
    return torch.full([], 1 if reduce == "prod" else 0, dtype=dtype)


def _scattered(x: torch.Tensor, places: torch.Tensor, source: torch.Tensor, op: str) -> torch.Tensor:
    """Combines each element of `source` by `op` with the element of x at the corresponding index in `places`."""

    def emit(body: Body, x: TextTensor, places: TextTensor, updates: TextTensor) -> Sequence[TextTensor]:
        dims = ", ".join(map(str, range(len(x.sizes))))
        numbers = f"inserted_window_dims = [{dims}], scatter_dims_to_operand_dims = [{dims}]"
        region = body.region([((), x.element)] * 2, lambda a, b: [body.emit(op, [a, b], [])])
        attributes = f"scatter_dimension_numbers = #stablehlo.scatter<{numbers}, index_vector_dim = 1>"
        return body.emit_all("scatter", [x, places, updates], [(x.sizes, x.element)], attributes, [region])

    return call(f"scatter_{op}", [x, places, source.reshape(-1)], emit)
