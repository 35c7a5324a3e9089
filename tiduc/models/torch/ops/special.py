"""Decompositions of PyTorch's special functions into those of CHLO, and into series where CHLO has none."""

from math import pi
from typing import Any

from tiduc.models.emitted_text import Body, Value
from tiduc.models.torch.ops.calls import call
from tiduc.models.torch.ops.complexes import unary
from tiduc.models.torch.ops.framework import TABLE, aten, decomposes, torch


def _binary(op: str, x: Any, y: Any) -> Any:
    """An elementwise op of CHLO on two tensors, or a tensor and a number."""
    like = x if isinstance(x, torch.Tensor) else y
    x, y = (v if isinstance(v, torch.Tensor) else torch.full_like(like, v) for v in (x, y))
    x, y = torch.broadcast_tensors(x, y)

    def emit(body: Body, a: Value, b: Value) -> list[Value]:
        return [body.emit(op, [a, b], a.sizes)]

    return call(op.rpartition(".")[2], [x, y], emit)


TABLE[aten.digamma.default] = lambda x: unary("chlo.digamma", x)
TABLE[aten.erf.default] = lambda x: unary("chlo.erf", x if x.is_floating_point() else x.float())
TABLE[aten.erfc.default] = lambda x: unary("chlo.erfc", x)
TABLE[aten.erfinv.default] = lambda x: unary("chlo.erf_inv", x)
TABLE[aten.lgamma.default] = lambda x: unary("chlo.lgamma", x)
TABLE[aten.polygamma.default] = lambda n, x: _binary("chlo.polygamma", float(n), x)
TABLE[aten.special_zeta.default] = lambda x, y: _binary("chlo.zeta", x, y)
TABLE[aten.special_ndtri.default] = lambda p: unary("chlo.erf_inv", 2 * p - 1) * 2**0.5


@decomposes(aten.gelu.default)
def gelu(x: Any, approximate: str = "none") -> Any:
    """x times the normal distribution function, in f32 for narrower types; torch-mlir would expand erf."""
    y = x.to(torch.promote_types(x.dtype, torch.float32))
    if approximate == "tanh":
        z = torch.tanh((2 / pi) ** 0.5 * (y + 0.044715 * y * y * y))
    else:
        z = torch.erf(y * 0.5**0.5)
    return (0.5 * y * (1 + z)).to(x.dtype)


@decomposes(aten.hypot.default)
def hypot(x: Any, y: Any) -> Any:
    """The root of x^2 + y^2, scaled by the larger of the two; its derivative at zero is NaN, as in PyTorch."""
    large = torch.maximum(torch.abs(x), torch.abs(y)).detach()
    scale = torch.where((large == 0) | torch.isinf(large), 1, large)
    return scale * torch.sqrt((x / scale) ** 2 + (y / scale) ** 2)


@decomposes(aten.special_erfcx.default)
def erfcx(x: Any) -> Any:
    """exp(x^2) erfc(x); above 5, where erfc underflows, the continued fraction of erfc, from its 60th term."""
    is_large = x > 5
    inside = torch.where(is_large, 0, x)
    outside = torch.where(is_large, x, 6)
    fraction = outside
    for k in range(60, 0, -1):
        fraction = outside + (k / 2) / fraction
    return torch.where(is_large, 1 / (pi**0.5 * fraction), torch.exp(inside * inside) * torch.erfc(inside))


def _bessel(order: int, x: Any, scaled: bool) -> Any:
    """The modified Bessel function of the first kind, times exp(-|x|) if `scaled`: DLMF 10.25.2 and 10.40.1.

    Each series is a sum of products of the ratios of its terms.
    """
    limit, terms, late = 30.0, 60, 20
    size = x * torch.sign(x)
    is_large = size > limit
    small, large = torch.where(is_large, 0, size), torch.where(is_large, size, limit)
    n = torch.arange(1, terms + 1, dtype=x.dtype)
    series = _sum((small * small / 4).unsqueeze(-1) / (n * (n + order))) * (small / 2) ** order
    n = n[:late]
    tail = _sum(((2 * n - 1) ** 2 - 4 * order**2) / (8 * n * large.unsqueeze(-1))) / torch.sqrt(
        2 * pi * large
    )
    y = torch.where(is_large, tail, series * torch.exp(-small))
    y = y if order == 0 else y * torch.sign(x)
    return y if scaled else y * torch.exp(size)


def _sum(ratios: Any) -> Any:
    """1 plus the sum of the products of the first ratios."""
    return 1 + torch.cumprod(ratios, -1).sum(-1)


TABLE[aten.i0.default] = TABLE[aten.special_i0.default] = lambda x: _bessel(0, x, False)
TABLE[aten.special_i0e.default] = lambda x: _bessel(0, x, True)
TABLE[aten.special_i1.default] = lambda x: _bessel(1, x, False)
TABLE[aten.special_i1e.default] = lambda x: _bessel(1, x, True)
