"""Test cases for `torch_degenerate.py`: elementwise functions, reductions, norms and indexing of PyTorch.

The inputs of elementwise functions include their kinks and the ends of their domains.
"""

from math import inf
from typing import Any

import torch
from torch_mathematics import Row, draw

L, S, F = torch.linalg, torch.special, torch.nn.functional

KINKS = torch.tensor([-20, -6, -3, -2, -1, -0.5, 0, 0.5, 1, 2, 3, 6, 20]).double()
UNIT = torch.tensor([-1, -0.5, 0, 0.25, 0.5, 1]).double()
OTHER = torch.tensor([0, -6, 3, -2, 0, 0.5, 0, -0.5, 1, 0, -3, 6, 1]).double()
TIES = torch.tensor([[0, 0, 0, 0], [1, 0, 1, -1], [2, -2, 0, 2], [3, 1, 2, 0.5]]).double()
TALL = torch.tensor([[1, 0, 0], [0, 1, 0], [0, 0, 0], [0, 0, 0]]).double()
SAME = torch.eye(3).double()
NEGATIVE = torch.tensor([-0.3, -5.3, -8.6, -11.7, -25.4]).double()


def of(function: Any, *rest: Any, **keywords: Any) -> Any:
    """Returns a function of tensors that calls `function` with these tensors, followed by `rest` and `keywords`."""
    return lambda *tensors: function(*tensors, *rest, **keywords)


UNARY = {
    torch: "abs acos acosh angle asin asinh atan atanh ceil cos cosh deg2rad digamma erf erfc erfinv exp exp2 expm1 "
    "floor frac i0 isfinite lgamma log log10 log1p log2 logit nan_to_num neg positive rad2deg real reciprocal relu "
    "round rsqrt sgn sigmoid sign signbit sin sinc sinh sqrt square tan tanh trunc",
    S: "airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 digamma entr erf erfc erfcx erfinv exp2 expit expm1 gammaln "
    "i0 i0e i1 i1e log1p log_ndtr logit modified_bessel_i0 modified_bessel_i1 modified_bessel_k0 modified_bessel_k1 "
    "ndtr ndtri psi round scaled_modified_bessel_k0 scaled_modified_bessel_k1 sinc spherical_bessel_j0",
    F: "celu elu gelu glu hardshrink hardsigmoid hardswish hardtanh leaky_relu logsigmoid mish relu relu6 rrelu selu "
    "sigmoid silu softplus softshrink softsign tanh tanhshrink",
}
BINARY = {
    torch: "add atan2 copysign div eq float_power floor_divide fmax fmin fmod heaviside hypot ldexp logaddexp "
    "logaddexp2 maximum minimum mul nextafter pow remainder sub xlogy",
    S: "chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w gammainc gammaincc "
    "hermite_polynomial_h hermite_polynomial_he laguerre_polynomial_l legendre_polynomial_p "
    "shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v "
    "shifted_chebyshev_polynomial_w xlog1py xlogy zeta",
}
NAMES = {torch: "torch", S: "special", F: "functional", L: "linalg"}

ELEMENTWISE: list[Row] = [
    *(
        (f"{NAMES[module]}.{name}", getattr(module, name), [KINKS[:12] if name == "glu" else KINKS])
        for module, names in UNARY.items()
        for name in names.split()
    ),
    *(
        (f"{NAMES[module]}.{name} (unit interval)", getattr(module, name), [UNIT])
        for module, names in {torch: "acos asin atanh erfinv log logit", S: "entr ndtri"}.items()
        for name in names.split()
    ),
    *(
        (f"{NAMES[module]}.{name}", getattr(module, name), [KINKS, OTHER])
        for module, names in BINARY.items()
        for name in names.split()
    ),
    *((f"torch.pow (x to {p})", lambda x, p=p: x**p, [KINKS]) for p in (0, 0.5, 1, 1.5, 2, 3, 4, -1, -0.5)),
    *((f"torch.pow ({p} to x)", lambda x, p=p: p**x, [KINKS]) for p in (0, 1, 2, 0.5)),
    *(
        (f"torch.{f.__name__} (number)", lambda x, f=f: f(x, 2), [KINKS])
        for f in (torch.fmod, torch.remainder)
    ),
    ("torch.remainder (number, tensor)", lambda x: 2 % x, [KINKS]),
    ("torch.div (floor)", lambda x, y: torch.div(x, y, rounding_mode="floor"), [KINKS, OTHER]),
    ("torch.div (trunc)", lambda x, y: torch.div(x, y, rounding_mode="trunc"), [KINKS, OTHER]),
    ("torch.xlogy (number)", lambda x: torch.xlogy(x, 0.5) + torch.xlogy(0.5, x), [KINKS]),
    ("torch.logit (eps)", lambda x: torch.logit(x, 0.25), [UNIT]),
    ("torch.lerp", lambda x, y: torch.lerp(x, y, 0.5), [KINKS, OTHER]),
    ("torch.lerp (tensor)", torch.lerp, [KINKS, OTHER, KINKS.flip(0)]),
    ("torch.addcdiv", torch.addcdiv, [KINKS, OTHER, KINKS.flip(0)]),
    ("torch.addcmul", torch.addcmul, [KINKS, OTHER, KINKS.flip(0)]),
    ("torch.clamp", lambda x: torch.clamp(x, -1, 2), [KINKS]),
    ("torch.clamp (min)", lambda x: torch.clamp(x, min=0), [KINKS]),
    ("torch.clamp (max)", lambda x: torch.clamp(x, max=0.5), [KINKS]),
    ("torch.clamp (tensors)", torch.clamp, [KINKS, OTHER, KINKS.flip(0)]),
    ("torch.clamp (crossed)", lambda x: torch.clamp(x, 2, -1), [KINKS]),
    ("torch.where", lambda x, y: torch.where(x > y, x, y), [KINKS, OTHER]),
    ("special.polygamma", lambda x: S.polygamma(1, x), [KINKS]),
    *(
        (f"special.polygamma ({n}, negative)", lambda x, n=n: S.polygamma(n, x), [NEGATIVE])
        for n in (1, 2, 5)
    ),
    *((f"torch.{f.__name__} (negative)", f, [NEGATIVE]) for f in (torch.digamma, torch.lgamma)),
    ("special.multigammaln", lambda x: S.multigammaln(x, 2), [KINKS]),
    ("functional.prelu", F.prelu, [TIES, torch.tensor([0.25, 0, 1, -1]).double()]),
    ("functional.threshold", lambda x: F.threshold(x, 0.5, 20), [KINKS]),
    ("functional.softplus (beta)", lambda x: F.softplus(x, 2, 12), [KINKS]),
    ("functional.hardtanh (ends)", lambda x: F.hardtanh(x, -0.5, 3), [KINKS]),
    ("functional.gelu (tanh)", lambda x: F.gelu(x, approximate="tanh"), [KINKS]),
    ("functional.celu (alpha)", lambda x: F.celu(x, 0.5), [KINKS]),
    ("functional.leaky_relu (0)", lambda x: F.leaky_relu(x, 0.0), [KINKS]),
    ("functional.rrelu (ends)", lambda x: F.rrelu(x, 0.25, 0.5), [KINKS]),
    ("functional.hardshrink (0)", lambda x: F.hardshrink(x, 0.0), [KINKS]),
    ("functional.softshrink (0)", lambda x: F.softshrink(x, 0.0), [KINKS]),
]

ORDERS = (0, 0.5, 1, 1.5, 2, 3, 4, inf, -inf, -1, -2)

NORMS: list[Row] = [
    *(
        (f"linalg.vector_norm ({p})", lambda x, p=p: L.vector_norm(x, p, 1), [TIES])
        for p in (*ORDERS, 0.25, 2.5)
    ),
    *((f"linalg.vector_norm ({p}, all)", lambda x, p=p: L.vector_norm(x, p), [TIES]) for p in ORDERS),
    *(
        (f"linalg.vector_norm ({p}, keepdim)", lambda x, p=p: L.vector_norm(x, p, 0, True), [TIES])
        for p in (3, inf)
    ),
    *(
        (f"linalg.vector_norm ({p}, scalar)", lambda x, p=p: L.vector_norm(x[0, 0], p), [TIES])
        for p in ORDERS
    ),
    *(
        (
            f"linalg.vector_norm ({p}, complex)",
            lambda x, p=p: L.vector_norm(torch.complex(x, x.mT), p, 1),
            [torch.diag(TIES[1])],
        )
        for p in (0, 0.5, 1, 1.5, 2, 3, inf, -inf)
    ),
    *((f"torch.norm ({p})", lambda x, p=p: torch.norm(x, p, 1), [TIES]) for p in (*ORDERS, "fro")),
    *((f"torch.norm ({p}, all)", lambda x, p=p: torch.norm(x, p), [TIES]) for p in (0.5, 1, 2, 3, inf)),
    ("torch.norm (nuc)", lambda x: torch.norm(x, "nuc"), [TALL]),
    *((f"torch.dist ({p})", lambda x, y, p=p: torch.dist(x, y, p), [TIES, TIES.flip(0)]) for p in ORDERS),
    *(
        (f"torch.dist ({p}, equal)", lambda x, p=p: torch.dist(x, x + 0, p), [TIES])
        for p in (0.5, 1, 2, 3, inf)
    ),
    *((f"torch.cdist ({p})", lambda x, y, p=p: torch.cdist(x, y, p), [TIES, TIES[1:]]) for p in ORDERS[:8]),
    *((f"functional.pdist ({p})", lambda x, p=p: F.pdist(x, p), [TIES]) for p in ORDERS[:8]),
    *(
        (
            f"functional.pairwise_distance ({p})",
            lambda x, y, p=p: F.pairwise_distance(x, y, p, 0.0),
            [TIES, TIES[1]],
        )
        for p in ORDERS
    ),
    ("functional.pairwise_distance", F.pairwise_distance, [TIES, TIES]),
    *((f"functional.normalize ({p})", lambda x, p=p: F.normalize(x, p), [TIES]) for p in (0.5, 1, 2, 3, inf)),
    *((f"torch.renorm ({p})", lambda x, p=p: torch.renorm(x, p, 0, 1.5), [TIES]) for p in (0.5, 1, 2, 3)),
    ("torch.renorm (0)", lambda x: torch.renorm(x, 2, 0, 0.0), [TIES]),
    *(
        (
            f"functional.cosine_similarity ({d})",
            lambda x, y, d=d: F.cosine_similarity(x, y, d),
            [TIES, TIES.flip(0)],
        )
        for d in (0, 1)
    ),
    *(
        (f"linalg.matrix_norm ({p})", lambda x, p=p: L.matrix_norm(x, p), [SAME])
        for p in ("fro", "nuc", 1, -1, 2, -2, inf, -inf)
    ),
    *((f"linalg.norm ({p})", lambda x, p=p: L.norm(x, p), [SAME]) for p in (None, "fro", "nuc", 1, 2, inf)),
    *((f"linalg.cond ({p})", lambda x, p=p: L.cond(x, p), [SAME]) for p in (None, 1, 2, inf, "fro")),
    *(
        (f"torch.{name}", of(getattr(torch, name), 1), [TIES])
        for name in ("std", "var", "std_mean", "var_mean")
    ),
    *((f"torch.{name} (all)", getattr(torch, name), [TIES]) for name in ("std", "var", "std_mean")),
    *((f"torch.{f.__name__} (one)", lambda x, f=f: f(x[:1], 0), [TIES]) for f in (torch.std, torch.var)),
    *(
        (f"torch.{f.__name__} (one, correction 0)", lambda x, f=f: f(x[:1], dim=0, correction=0), [TIES])
        for f in (torch.std, torch.var)
    ),
]

REDUCTIONS: list[Row] = [
    *(
        (f"torch.{name}", of(getattr(torch, name), 1), [TIES])
        for name in "all amax amin argmax argmin any count_nonzero cummax cummin cumprod cumsum logcumsumexp logsumexp "
        "max mean median min mode nanmean nanmedian nansum prod sum".split()
    ),
    *(
        (f"torch.{name} (all)", getattr(torch, name), [TIES])
        for name in "amax amin aminmax max mean median min nanmean nanmedian nansum prod sum".split()
    ),
    *(
        (f"{NAMES[m]}.{name}", of(getattr(m, name), 1), [TIES])
        for m, name in (
            (S, "log_softmax"),
            (S, "softmax"),
            (S, "logsumexp"),
            (F, "softmax"),
            (F, "log_softmax"),
            (F, "softmin"),
        )
    ),
    *(
        (f"{name} (rows of -inf)", lambda x, f=f: f(torch.where(x > 0, x, -inf), 1), [TIES])
        for name, f in (
            ("torch.softmax", torch.softmax),
            ("torch.log_softmax", torch.log_softmax),
            ("torch.logsumexp", torch.logsumexp),
            ("torch.logcumsumexp", torch.logcumsumexp),
        )
    ),
    *(
        (f"torch.quantile ({q})", lambda x, q=q: torch.quantile(x, q, 1), [TIES])
        for q in (0.0, 0.5, 0.3, 1.0)
    ),
    ("torch.nanquantile", lambda x: torch.nanquantile(x, 0.5, 1), [TIES]),
    *((f"torch.kthvalue ({k})", lambda x, k=k: torch.kthvalue(x, k, 1)[0], [TIES]) for k in (1, 4)),
    *((f"torch.topk ({k})", lambda x, k=k: torch.topk(x, k)[0], [TIES]) for k in (0, 1, 4)),
    ("torch.topk (smallest)", lambda x: torch.topk(x, 2, largest=False)[0], [TIES]),
    ("torch.sort (stable)", lambda x: torch.sort(x, 1, stable=True), [TIES]),
    ("torch.sort (descending)", lambda x: torch.sort(x, stable=True, dim=0, descending=True), [TIES]),
    ("torch.msort", torch.msort, [TIES]),
    ("torch.argsort", lambda x: x * torch.argsort(x, 1, stable=True), [TIES]),
    ("torch.cov", torch.cov, [TIES]),
    ("torch.corrcoef", torch.corrcoef, [TIES]),
    ("torch.cov (correction)", lambda x: torch.cov(x, correction=0), [TIES]),
    ("torch.diff", lambda x: torch.diff(x, 3), [TIES]),
    ("torch.gradient", torch.gradient, [TIES]),
    ("torch.trapezoid", lambda x, y: torch.trapezoid(x, y), [TIES, TIES.flip(0)]),
    ("torch.cumulative_trapezoid", torch.cumulative_trapezoid, [TIES]),
    ("torch.histc", lambda x: torch.histc(x.detach(), 3, 0, 3) * x.sum(), [TIES]),
    ("torch.bucketize", lambda x: x * torch.bucketize(x, torch.tensor([-1.0, 0, 1]).double()), [TIES]),
    (
        "torch.searchsorted (right)",
        lambda x: x * torch.searchsorted(torch.tensor([0.0, 0, 1]).double(), x, right=True),
        [TIES],
    ),
]

ENDS = torch.tensor([[0, 3, 0], [-1, 2, 3]]) % 4
EDGES = torch.tensor([0, -1, 3, -4])


def assigned(x: Any, at: Any, values: Any) -> Any:
    y = x.clone()
    y[at] = values
    return y


INDICES: list[Row] = [
    *(
        (f"torch.roll ({s}, {d})", lambda x, s=s, d=d: torch.roll(x, s, d), [draw(4, 3)])
        for s, d in (
            (0, 0),
            (4, 0),
            (-4, 0),
            (9, 0),
            (-9, 1),
            (3, None),
            (-25, None),
            ((0, 5), (0, 1)),
            ((1, 2), (1, 1)),
        )
    ),
    ("torch.roll (size 0)", lambda x: torch.roll(x[:, :0], 2, 1), [draw(4, 3)]),
    ("torch.roll (size 1)", lambda x: torch.roll(x[:, :1], -3, 1), [draw(4, 3)]),
    ("torch.gather", lambda x: torch.gather(x, 1, ENDS), [TIES]),
    ("torch.take", lambda x: torch.take(x, torch.tensor([0, 15, -1, -16])), [TIES]),
    ("torch.take_along_dim", lambda x: torch.take_along_dim(x, ENDS, 1), [TIES[:2]]),
    ("torch.index_select", lambda x: torch.index_select(x, 1, torch.tensor([3, 0, 3])), [TIES]),
    (
        "torch.index_select (none)",
        lambda x: torch.index_select(x, 1, torch.tensor([], dtype=torch.int64)),
        [TIES],
    ),
    ("x[[0, -1, 3, -4]]", lambda x: x[EDGES] + x[:, EDGES] + x[EDGES, EDGES], [TIES]),
    ("x[[]]", lambda x: x[torch.tensor([], dtype=torch.int64)], [TIES]),
    ("x[-1], x[..., -4:]", lambda x: (x[-1], x[..., -4:], x[-9:9], x[4:], x[::3]), [TIES]),
    ("x[[0, -1]] = y", lambda x, y: assigned(x, torch.tensor([0, -1]), y), [TIES, draw(2, 4)]),
    ("x[-1] = y", lambda x, y: assigned(x, -1, y), [TIES, draw(4)]),
    ("x[4:] = y", lambda x: assigned(x, slice(4, None), 2.0), [TIES]),
    ("x[mask] = 0", lambda x: assigned(x, x == 0, 5.0), [TIES]),
    (
        "torch.index_put (accumulate)",
        lambda x, y: x.index_put((torch.tensor([3, -1, 3, 0]),), y, accumulate=True),
        [TIES, draw(4, 4)],
    ),
    ("torch.put", lambda x, y: x.put(torch.tensor([0, -1, 3]), y), [TIES, draw(3)]),
    (
        "torch.put (accumulate)",
        lambda x, y: x.put(torch.tensor([0, -1, 15]), y, accumulate=True),
        [TIES, draw(3)],
    ),
    ("torch.index_add", lambda x, y: torch.index_add(x, 0, torch.tensor([3, 3, 0]), y), [TIES, draw(3, 4)]),
    ("torch.index_copy", lambda x, y: torch.index_copy(x, 1, torch.tensor([3, 0]), y), [TIES, draw(4, 2)]),
    ("torch.index_fill", lambda x: torch.index_fill(x, 1, torch.tensor([-1, 0]), 3.0), [TIES]),
    *(
        (
            f"torch.index_reduce ({how})",
            lambda x, y, how=how: x.index_reduce(0, torch.tensor([3, 3, 0]), y, how),
            [TIES, TIES[:3]],
        )
        for how in ("prod", "mean", "amax", "amin")
    ),
    ("torch.scatter", lambda x, y: torch.scatter(x, 1, ENDS, y), [TIES, draw(2, 3)]),
    ("torch.scatter_add", lambda x, y: torch.scatter_add(x, 1, ENDS, y), [TIES, draw(2, 3)]),
    *(
        (
            f"torch.scatter_reduce ({how}, {own})",
            lambda x, y, how=how, own=own: x.scatter_reduce(1, ENDS, y, how, include_self=own),
            [TIES, TIES[:2, :3]],
        )
        for how in ("sum", "prod", "mean", "amax", "amin")
        for own in (True, False)
    ),
    ("torch.masked_fill", lambda x: torch.masked_fill(x, x == 0, 5), [TIES]),
    ("torch.masked_scatter", lambda x, y: torch.masked_scatter(x, x == 0, y), [TIES, draw(4, 4)]),
    *(
        (
            f"torch.diagonal ({k})",
            lambda x, k=k: (torch.diagonal(x, k), torch.tril(x, k), torch.triu(x, k)),
            [TIES],
        )
        for k in (-4, -3, 0, 3, 4)
    ),
    ("torch.diag_embed", lambda x: torch.diag_embed(x, 2), [TIES]),
    (
        "torch.narrow (nothing)",
        lambda x: torch.cat([torch.narrow(x, 0, 4, 0), x[:, :0].mT.mT, x], 0) if x.shape[1] else x,
        [TIES[:, :0]],
    ),
    ("torch.cat (empty)", lambda x: torch.cat([x[:0], x, x[:0]]), [TIES]),
    ("torch.unfold", lambda x: x.unfold(1, 4, 1), [TIES]),
    ("functional.embedding (padding)", lambda x: F.embedding(ENDS, x, padding_idx=0), [TIES]),
    ("functional.embedding (padding -1)", lambda x: F.embedding(ENDS, x, padding_idx=-1), [TIES]),
    *(
        (
            f"functional.embedding_bag ({how}, padding)",
            lambda x, how=how: F.embedding_bag(ENDS, x, mode=how, padding_idx=3),
            [TIES],
        )
        for how in ("sum", "mean", "max")
    ),
    *(
        (
            f"functional.embedding_bag ({how}, empty bags)",
            lambda x, how=how: F.embedding_bag(ENDS.flatten(), x, torch.tensor([0, 0, 6]), mode=how),
            [TIES],
        )
        for how in ("sum", "mean", "max")
    ),
    ("functional.one_hot", lambda x: F.one_hot(ENDS, 4) * x.sum(), [TIES]),
    *(
        (f"functional.pad ({how}, {w})", lambda x, how=how, w=w: F.pad(x[None], w, mode=how), [TIES])
        for how, w in (
            ("reflect", (3, 3)),
            ("reflect", (0, 3)),
            ("replicate", (5, 0)),
            ("circular", (4, 4)),
            ("constant", (-1, -2)),
            ("constant", (0, 0)),
            ("reflect", (0, 0)),
        )
    ),
]
