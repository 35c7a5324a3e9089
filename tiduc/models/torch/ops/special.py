"""Decompositions of PyTorch's special functions into ops of CHLO, or into series if CHLO lacks the function."""

from collections.abc import Callable
from math import gamma, log, pi
from typing import Any

from tiduc.dialect.emitters.polygamma import of_cotangent
from tiduc.models.emitted_text import Body, TextTensor
from tiduc.models.torch.ops.calls import call
from tiduc.models.torch.ops.complexes import unary
from tiduc.models.torch.ops.fills import as_tensors
from tiduc.models.torch.ops.framework import TABLE, aten, decomposes, torch

where = torch.where


def _binary(op: str, x: float | torch.Tensor, y: float | torch.Tensor) -> torch.Tensor:
    """Applies a binary elementwise op to two tensors, or to a tensor and a number."""
    like = x if isinstance(x, torch.Tensor) else y
    x, y = (v if isinstance(v, torch.Tensor) else torch.full_like(like, v) for v in (x, y))
    x, y = torch.broadcast_tensors(x, y)

    def emit(body: Body, a: TextTensor, b: TextTensor) -> list[TextTensor]:
        return [body.emit(op, [a, b], a.sizes)]

    return call(op.rpartition(".")[2], [x, y], emit)


def _unary(op: str) -> Callable[[Any], Any]:
    """The decomposition of a function into one op of CHLO.

    torch-mlir's own expansions have wrong derivatives at x = 0 or x = 1.
    """
    return lambda x: unary(op, x if x.is_floating_point() or x.is_complex() else x.float())


for _name in ("acos", "acosh", "asin", "asinh", "atanh", "erf", "erfc"):
    TABLE[getattr(aten, _name).default] = _unary(f"chlo.{_name}")
TABLE[aten.erfinv.default] = _unary("chlo.erf_inv")
TABLE[aten.special_ndtri.default] = lambda p: unary("chlo.erf_inv", 2.0 * p - 1) * 2**0.5


@decomposes(aten.digamma.default)
def digamma(x: torch.Tensor) -> torch.Tensor:
    """Computes digamma(x). The result is -inf at 0 and inf at -0."""
    x = x if x.is_floating_point() else x.float()
    is_zero = x == 0
    return where(is_zero, -1 / where(is_zero, x, 1), unary("chlo.digamma", where(is_zero, 1, x)))


@decomposes(aten.lgamma.default)
def lgamma(x: torch.Tensor) -> torch.Tensor:
    x = x if x.is_floating_point() else x.float()
    is_zero = x == 0
    return where(is_zero, -torch.log(where(is_zero, x, 1)), unary("chlo.lgamma", where(is_zero, 1, x)))


@decomposes(aten.polygamma.default)
def polygamma(n: int, x: torch.Tensor) -> torch.Tensor:
    """The n-th derivative of digamma. For negative x, uses the reflection formula, because CHLO's expansion is wrong.

    At a pole, the function and its derivatives are the limits from the right.
    """
    x = x if x.is_floating_point() else x.float()
    if n == 0:
        return digamma(x)
    is_left = x < 0
    is_pole = (x <= 0) & (x == torch.floor(x))
    beyond = where(is_pole, x - x.detach(), 1)
    at_pole = (-1) ** (n + 1) * gamma(n + 1) * beyond ** -(n + 1)
    left = where(is_left & ~is_pole, x, -0.5)
    turn = pi * (left - torch.round(left).detach())
    cotangent = torch.cos(turn) / torch.sin(turn)
    total: Any = 0.0
    for coefficient in reversed(of_cotangent(n)):
        total = total * cotangent + coefficient
    right = _binary("chlo.polygamma", float(n), where(is_pole, 1, where(is_left, 1 - left, x)))
    return where(is_pole, at_pole, where(is_left, total + (-1) ** n * right, right))


@decomposes(*(getattr(aten.special_zeta, name) for name in ("default", "self_scalar", "other_scalar")))
def zeta(x: float | torch.Tensor, q: float | torch.Tensor) -> torch.Tensor:
    """The Hurwitz zeta function zeta(x, q), whose poles include all negative integers q.

    The result is NaN for q < -5 that is not an integer, because the expansion of CHLO's op is wrong for such q.
    """
    x, q = (v if v.is_floating_point() else v.float() for v in as_tensors(x, q))
    x, q = torch.broadcast_tensors(x, q)
    is_unknown = (q < -5) & (q != torch.floor(q))
    return where(is_unknown, x * q * float("nan"), _binary("chlo.zeta", x, where(is_unknown, 1, q)))


@decomposes(aten.logit.default)
def logit(x: torch.Tensor, eps: float | None = None) -> torch.Tensor:
    """Computes log(x / (1 - x)). If `eps` is given, x is clamped to [eps, 1 - eps], with derivative zero outside."""
    x = x if x.is_floating_point() else x.float()
    if eps is not None:
        x = where(x < eps, eps, x)
        x = where(x > 1 - eps, 1 - eps, x)
    return torch.log(x) - torch.log1p(-x)


@decomposes(aten.sinc.default)
def sinc(x: torch.Tensor) -> torch.Tensor:
    """Computes sin(pi x) / (pi x). If |pi x| < 1, uses the power series, so that all derivatives at zero are right."""
    x = pi * (x if x.is_floating_point() else x.float())
    is_small = torch.abs(x) < 1
    square, terms = where(is_small, x, 0) ** 2, 10
    series = torch.ones_like(x)
    for k in range(terms, 0, -1):
        series = 1 - series * square / (2 * k * (2 * k + 1))
    large = where(is_small, 1, x)
    return where(is_small, series, torch.sin(large) / large)


@decomposes(aten.special_entr.default)
def entr(x: torch.Tensor) -> torch.Tensor:
    """Computes -x log(x). At x = 0, the result is 0 and the derivative is inf. For negative x, the result is -inf."""
    x = x if x.is_floating_point() else x.float()
    is_zero = x == 0
    inside = where(x > 0, x, 1)
    result = where(x > 0, -inside * torch.log(inside), where(x < 0, float("-inf"), x))
    return where(is_zero, torch.sqrt(where(is_zero, x, 1)), result)


@decomposes(aten.xlogy.Tensor, aten.xlogy.Scalar_Self, aten.xlogy.Scalar_Other)
def xlogy(x: float | torch.Tensor, y: float | torch.Tensor) -> torch.Tensor:
    return _scaled_log(*as_tensors(x, y), torch.log, 0)


@decomposes(*(getattr(aten.special_xlog1py, name) for name in ("default", "self_scalar", "other_scalar")))
def xlog1py(x: float | torch.Tensor, y: float | torch.Tensor) -> torch.Tensor:
    return _scaled_log(*as_tensors(x, y), torch.log1p, -1)


def _scaled_log(
    x: torch.Tensor, y: torch.Tensor, logarithm: Callable[[torch.Tensor], torch.Tensor], pole: float
) -> torch.Tensor:
    """Computes x logarithm(y). If x = 0 and y is inf or at most `pole`, the result and its derivatives are zero."""
    x, y = (v if v.is_floating_point() else v.float() for v in (x, y))
    is_zero = (x == 0) & ((y <= pole) | (y == float("inf")))
    return where(is_zero, 0, x * logarithm(where(is_zero, 1, y)))


@decomposes(aten.gelu.default)
def gelu(x: torch.Tensor, approximate: str = "none") -> torch.Tensor:
    """Computes x times the normal distribution function of x. Computes in f32 if the type of x is narrower.

    The function is decomposed because torch-mlir would expand the error function.
    """
    y = x.to(torch.promote_types(x.dtype, torch.float32))
    if approximate == "tanh":
        z = torch.tanh((2 / pi) ** 0.5 * (y + 0.044715 * y * y * y))
    else:
        z = torch.erf(y * 0.5**0.5)
    return (0.5 * y * (1 + z)).to(x.dtype)


@decomposes(aten.hypot.default)
def hypot(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Computes sqrt(x^2 + y^2). Divides x and y by the larger magnitude first, so that no square overflows.

    The derivative at x = y = 0 is NaN, as in PyTorch.
    """
    large = torch.maximum(torch.abs(x), torch.abs(y)).detach()
    scale = where((large == 0) | torch.isinf(large), 1, large)
    return scale * torch.sqrt((x / scale) ** 2 + (y / scale) ** 2)


@decomposes(aten.special_erfcx.default)
def erfcx(x: torch.Tensor) -> torch.Tensor:
    """Computes exp(x^2) erfc(x). For x > 5, uses 60 terms of a continued fraction, because erfc may underflow."""
    is_large = x > 5
    inside = where(is_large, 0, x)
    outside = where(is_large, x, 6)
    fraction = outside
    for k in range(60, 0, -1):
        fraction = outside + (k / 2) / fraction
    return where(is_large, 1 / (pi**0.5 * fraction), torch.exp(inside * inside) * torch.erfc(inside))


@decomposes(aten.logaddexp2.default)
def logaddexp2(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Computes log2(2^x + 2^y). If the operands are equal, the derivative with respect to each is one half."""
    x, y = torch.broadcast_tensors(*as_tensors(x, y))
    is_first = x >= y
    high, low = where(is_first, x, y), where(is_first, y, x)
    rest = where(torch.isinf(high) & (x == y), 0, low - high)
    return high + torch.log1p(torch.exp2(rest)) / log(2)


@decomposes(aten.atan2.default)
def atan2(y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Computes atan2(y, x). The derivative at the origin is zero."""
    y, x = torch.broadcast_tensors(*as_tensors(y, x))
    y, x = (v if v.is_floating_point() else v.float() for v in (y, x))
    is_origin = (x == 0) & (y == 0)
    return where(is_origin, _binary("atan2", y, x).detach(), _binary("atan2", y, where(is_origin, 1, x)))


@decomposes(aten.special_log_ndtr.default)
def log_ndtr(x: torch.Tensor) -> torch.Tensor:
    """The logarithm of the normal distribution function. For x < -1, uses `erfcx`, which does not underflow."""
    x = x if x.is_floating_point() else x.float()
    is_low = x < -1
    low, high = (where(is_low, a, b) * 0.5**0.5 for a, b in ((x, -1), (0, x)))
    return where(is_low, torch.log(erfcx(-low) / 2) - low * low, torch.log1p(-torch.erfc(high) / 2))


def _bessel(order: int, x: torch.Tensor, scaled: bool) -> torch.Tensor:
    """The modified Bessel function of the first kind of order 0 or 1, times exp(-|x|) if `scaled`.

    Uses the power series (DLMF 10.25.2) for |x| <= 30, and the asymptotic expansion (DLMF 10.40.1) for larger |x|.
    """
    limit, terms, late = 30.0, 60, 20
    size = x * torch.sign(x)
    is_large = size > limit
    small, large = where(is_large, 0, x), where(is_large, size, limit)
    n = torch.arange(1, terms + 1, dtype=x.dtype)
    series = _sum((small * small / 4).unsqueeze(-1) / (n * (n + order))) * (small / 2 if order else 1)
    n = n[:late]
    tail = _sum(((2 * n - 1) ** 2 - 4 * order**2) / (8 * n * large.unsqueeze(-1))) / torch.sqrt(
        2 * pi * large
    )
    tail = tail if order == 0 else tail * torch.sign(x)
    y = where(is_large, tail, series * torch.exp(-where(is_large, 0, size)))
    return y if scaled else y * torch.exp(size)


def _sum(ratios: torch.Tensor) -> torch.Tensor:
    """The sum of a series whose first term is 1. `ratios` has the ratios of successive terms in the last dimension."""
    return 1 + torch.cumprod(ratios, -1).sum(-1)


TABLE[aten.i0.default] = TABLE[aten.special_i0.default] = lambda x: _bessel(0, x, False)
TABLE[aten.special_i0e.default] = lambda x: _bessel(0, x, True)
TABLE[aten.special_i1.default] = lambda x: _bessel(1, x, False)
TABLE[aten.special_i1e.default] = lambda x: _bessel(1, x, True)
