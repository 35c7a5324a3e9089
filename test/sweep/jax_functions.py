"""The functions of `jax.numpy`, `jax.nn`, `jax.scipy.special` and `jax.lax` whose derivatives `jax_accuracy.py` tests.

Each is a function of one number, with an equal function in mpmath. Of a function of an array or of several arguments,
one number varies and the others are fixed. There are three groups: functions for which JAX defines a derivative,
functions whose formulas are made for tails or singular points, and activations and losses of networks.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.special as special
import mpmath as mp
import numpy as np
from jax import lax, nn

LOG_TWO, ROOT_TWO = mp.log(2), mp.sqrt(2)
REST = (0.25, -0.75, 2.0)
"""The fixed numbers of an array of which one number varies. f32 represents all of them exactly."""


@dataclass(frozen=True)
class Function:
    """A function of one number in JAX (`of`) and in mpmath (`exact`).

    With `is_slope`, `exact` is the derivative of the function. The function is tested at numbers between `low` and
    `high` that are not in `kinks` and whose absolute value is at least `least`.
    """

    of: Callable[[Any], Any]
    exact: Callable[[Any], Any]
    low: float = -np.inf
    high: float = np.inf
    kinks: Sequence[float] = ()
    is_slope: bool = False
    digits: int = 400
    least: float = 0.0


def row(x: Any) -> Any:
    return jnp.stack([x, *(jnp.full_like(x, y) for y in REST)])


def listed(x: Any) -> list[Any]:
    return [x, *map(mp.mpf, REST)]


def logistic(x: Any) -> Any:
    """Returns the logistic function, computed without cancellation in both tails."""
    e = mp.exp(-abs(x))
    return 1 / (1 + e) if x >= 0 else e / (1 + e)


def softplus(x: Any) -> Any:
    return max(x, mp.mpf(0)) + mp.log1p(mp.exp(-abs(x)))


def log_sum(xs: Sequence[Any], weights: Sequence[Any] | None = None) -> Any:
    most = max(xs)
    return most + mp.log(sum(w * mp.exp(x - most) for x, w in zip(xs, weights or [1] * len(xs), strict=True)))


def deviation(xs: Sequence[Any]) -> Any:
    mean = sum(xs) / len(xs)
    return mp.sqrt(sum((x - mean) ** 2 for x in xs) / len(xs))


def standardized(x: Any) -> Any:
    xs = listed(x)
    mean = sum(xs) / len(xs)
    return (x - mean) / mp.sqrt(sum((y - mean) ** 2 for y in xs) / len(xs) + mp.mpf("1e-5"))


def if_above(bound: float, above: Callable[[Any], Any], below: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: above(x) if x > bound else below(x)


def beta_of(a: Any, b: Any) -> Any:
    return mp.gamma(a) * mp.gamma(b) / mp.gamma(a + b)


POSITIVE: dict[str, Any] = {"low": 0.0}
SLOW: dict[str, Any] = {"digits": 120}
ENDS: dict[str, Any] = {"least": 1e-5}
"""The least argument for `expn`. For smaller numbers, JAX's loop takes more than 10^5 steps or does not end."""
SELU = mp.mpf("1.0507009873554804934193349852946"), mp.mpf("1.6732632423543772848170429916717")

NN: dict[str, Function] = {
    "celu": Function(nn.celu, if_above(0, lambda x: x, mp.expm1), kinks=(0,)),
    "elu": Function(nn.elu, if_above(0, lambda x: x, mp.expm1), kinks=(0,)),
    "selu": Function(
        nn.selu, if_above(0, lambda x: SELU[0] * x, lambda x: SELU[0] * SELU[1] * mp.expm1(x)), kinks=(0,)
    ),
    "gelu": Function(
        nn.gelu, lambda x: x * logistic(2 * mp.sqrt(2 / mp.pi) * (x + mp.mpf("0.044715") * x**3))
    ),
    "gelu (exact)": Function(
        lambda x: nn.gelu(x, approximate=False), lambda x: x * mp.erfc(-x / ROOT_TWO) / 2
    ),
    "glu": Function(lambda x: nn.glu(jnp.stack([x, x])).sum(), lambda x: x * logistic(x)),
    "hard_sigmoid": Function(nn.hard_sigmoid, lambda x: min(max(x + 3, 0), 6) / mp.mpf(6)),
    "hard_silu": Function(nn.hard_silu, lambda x: x * min(max(x + 3, 0), 6) / mp.mpf(6)),
    "leaky_relu": Function(nn.leaky_relu, if_above(0, lambda x: x, lambda x: x / 100), kinks=(0,)),
    "log1mexp": Function(nn.log1mexp, lambda x: mp.log(-mp.expm1(-x)), **POSITIVE),
    "log_sigmoid": Function(nn.log_sigmoid, lambda x: -softplus(-x)),
    "log_softmax": Function(
        lambda x: nn.log_softmax(row(x))[0], lambda x: -log_sum([y - x for y in listed(x)])
    ),
    "log_softmax, another": Function(
        lambda x: nn.log_softmax(row(x))[1], lambda x: REST[0] - log_sum(listed(x))
    ),
    "logmeanexp": Function(lambda x: nn.logmeanexp(row(x)), lambda x: log_sum(listed(x))),
    "logsumexp": Function(lambda x: nn.logsumexp(row(x)), lambda x: log_sum(listed(x))),
    "logsumexp toward b": Function(
        lambda x: nn.logsumexp(row(x) * 0 + jnp.asarray([1, 2, 0, 1], x.dtype), b=row(x) + 1),
        lambda x: log_sum([mp.mpf(y) for y in (1, 2, 0, 1)], [y + 1 for y in listed(x)]),
        low=-1,
    ),
    "mish": Function(nn.mish, lambda x: x * mp.tanh(softplus(x))),
    "sigmoid": Function(nn.sigmoid, logistic),
    "silu": Function(nn.silu, lambda x: x * logistic(x)),
    "soft_sign": Function(nn.soft_sign, lambda x: x / (1 + abs(x)), kinks=(0,)),
    "softmax": Function(lambda x: nn.softmax(row(x))[0], lambda x: mp.exp(x - log_sum(listed(x)))),
    "softmax, another": Function(
        lambda x: nn.softmax(row(x))[1], lambda x: mp.exp(REST[0] - log_sum(listed(x)))
    ),
    "softplus": Function(nn.softplus, softplus),
    "squareplus": Function(nn.squareplus, lambda x: (x + mp.sqrt(x * x + 4)) / 2),
    "standardize": Function(lambda x: nn.standardize(row(x))[0], standardized),
    "tanh": Function(nn.tanh, lambda x: logistic(2 * x) - logistic(-2 * x)),
}

SPECIAL: dict[str, Function] = {
    "bessel_jn": Function(
        lambda x: special.bessel_jn(x, v=1, n_iter=50)[1],
        lambda x: mp.besselj(1, x),
        low=0.1,
        high=20,
        **SLOW,
    ),
    "beta": Function(lambda x: special.beta(x, 2.5), lambda x: beta_of(x, 2.5), **POSITIVE, high=50, **SLOW),
    "betainc": Function(
        lambda x: special.betainc(2.5, 1.5, x),
        lambda x: x**1.5 * mp.sqrt(1 - x) / beta_of(2.5, 1.5),
        **POSITIVE,
        high=1,
        is_slope=True,
        **SLOW,
    ),
    "betaln": Function(
        lambda x: special.betaln(x, 2.5),
        lambda x: mp.loggamma(x) + mp.loggamma(2.5) - mp.loggamma(x + 2.5),
        **POSITIVE,
        **SLOW,
    ),
    "boxcox": Function(
        lambda x: special.boxcox(x, 0.75), lambda x: (x ** mp.mpf(0.75) - 1) / 0.75, **POSITIVE
    ),
    "boxcox toward lambda": Function(
        lambda x: special.boxcox(jnp.asarray(1.5, x.dtype), x),
        lambda x: (mp.mpf(1.5) ** x - 1) / x if x else mp.log(1.5),
        high=100,
    ),
    "boxcox1p": Function(
        lambda x: special.boxcox1p(x, 0.75), lambda x: ((1 + x) ** mp.mpf(0.75) - 1) / 0.75, low=-1
    ),
    "dawsn": Function(
        special.dawsn,
        lambda x: 1 - x * mp.sqrt(mp.pi) * mp.exp(-x * x) * mp.erfi(x),
        is_slope=True,
        low=-1e3,
        high=1e3,
        **SLOW,
    ),
    "digamma": Function(special.digamma, mp.digamma, **POSITIVE, **SLOW),
    "entr": Function(special.entr, lambda x: -x * mp.log(x), **POSITIVE),
    "erf": Function(special.erf, lambda x: 2 / mp.sqrt(mp.pi) * mp.exp(-x * x), is_slope=True),
    "erfc": Function(special.erfc, lambda x: -2 / mp.sqrt(mp.pi) * mp.exp(-x * x), is_slope=True),
    "erfcx": Function(special.erfcx, lambda x: mp.exp(x * x) * mp.erfc(x), low=-20, high=1e3),
    "erfinv": Function(special.erfinv, mp.erfinv, low=-1, high=1, **SLOW),
    "exp1": Function(special.exp1, lambda x: -mp.exp(-x) / x, **POSITIVE, **ENDS, is_slope=True),
    "expi": Function(special.expi, lambda x: mp.exp(x) / x, is_slope=True, **ENDS),
    "expn": Function(
        lambda x: special.expn(3, x),
        lambda x: x * mp.e1(x) - mp.exp(-x),
        **POSITIVE,
        **ENDS,
        high=700,
        is_slope=True,
        **SLOW,
    ),
    "factorial": Function(special.factorial, lambda x: mp.gamma(x + 1), **POSITIVE, high=100, **SLOW),
    **{
        f"fresnel, {name}": Function(
            lambda x, i=i: special.fresnel(x)[i],
            lambda x, wave=wave: wave(mp.pi * x * x / 2),
            is_slope=True,
            low=-50,
            high=50,
            **SLOW,
        )
        for i, (name, wave) in enumerate({"sine": mp.sin, "cosine": mp.cos}.items())
    },
    "gamma": Function(special.gamma, mp.gamma, **POSITIVE, high=150, **SLOW),
    "gammainc": Function(
        lambda x: special.gammainc(2.5, x),
        lambda x: x**1.5 * mp.exp(-x) / mp.gamma(2.5),
        **POSITIVE,
        is_slope=True,
    ),
    "gammainc toward a": Function(
        lambda x: special.gammainc(x, 2.5),
        lambda x: mp.gammainc(x, 0, 2.5, regularized=True),
        low=1e-4,
        high=50,
        **SLOW,
    ),
    "gammaincc": Function(
        lambda x: special.gammaincc(2.5, x),
        lambda x: -(x**1.5) * mp.exp(-x) / mp.gamma(2.5),
        **POSITIVE,
        is_slope=True,
    ),
    "gammaln": Function(special.gammaln, mp.loggamma, **POSITIVE, **SLOW),
    "hyp1f1": Function(
        lambda x: special.hyp1f1(1.5, 2.5, x), lambda x: mp.hyp1f1(1.5, 2.5, x), low=-50, high=50, **SLOW
    ),
    "hyp2f1": Function(
        lambda x: special.hyp2f1(0.5, 1.5, 2.5, x),
        lambda x: mp.hyp2f1(0.5, 1.5, 2.5, x),
        low=-0.95,
        high=0.95,
        **SLOW,
    ),
    "i0": Function(special.i0, lambda x: mp.besseli(0, x), low=-80, high=80, **SLOW),
    "i0e": Function(
        special.i0e, lambda x: mp.exp(-abs(x)) * mp.besseli(0, x), low=-700, high=700, kinks=(0,), **SLOW
    ),
    "i1": Function(special.i1, lambda x: mp.besseli(1, x), low=-80, high=80, **SLOW),
    "i1e": Function(
        special.i1e, lambda x: mp.exp(-abs(x)) * mp.besseli(1, x), low=-700, high=700, kinks=(0,), **SLOW
    ),
    "kl_div": Function(
        lambda x: special.kl_div(x, 1.5), lambda x: x * mp.log(x / 1.5) - x + 1.5 if x else 1.5, **POSITIVE
    ),
    "kl_div toward q": Function(
        lambda x: special.kl_div(1.5, x), lambda x: 1.5 * mp.log(1.5 / x) - 1.5 + x, **POSITIVE
    ),
    "log_ndtr": Function(special.log_ndtr, lambda x: mp.log(mp.erfc(-x / ROOT_TWO) / 2), low=-1e4),
    "logit": Function(special.logit, lambda x: mp.log(x) - mp.log1p(-x), **POSITIVE, high=1),
    "multigammaln": Function(
        lambda x: special.multigammaln(x, 2), lambda x: mp.loggamma(x) + mp.loggamma(x - 0.5), low=0.6, **SLOW
    ),
    "ndtr": Function(special.ndtr, lambda x: mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi), is_slope=True),
    "ndtri": Function(special.ndtri, lambda x: ROOT_TWO * mp.erfinv(2 * x - 1), low=1e-4, high=1, **SLOW),
    "owens_t": Function(
        lambda x: special.owens_t(x, 0.75),
        lambda x: -mp.exp(-x * x / 2) * mp.erf(0.75 * x / ROOT_TWO) / (2 * mp.sqrt(2 * mp.pi)),
        is_slope=True,
        **SLOW,
    ),
    "poch": Function(lambda x: special.poch(x, 2.5), lambda x: mp.rf(x, 2.5), **POSITIVE, high=1e4, **SLOW),
    "polygamma": Function(
        lambda x: special.polygamma(1, x), lambda x: mp.psi(1, x), **POSITIVE, high=1e4, **SLOW
    ),
    "rel_entr": Function(lambda x: special.rel_entr(x, 1.5), lambda x: x * mp.log(x / 1.5), **POSITIVE),
    "sici, sine": Function(lambda x: special.sici(x)[0], lambda x: mp.sinc(x), is_slope=True),
    "sici, cosine": Function(
        lambda x: special.sici(x)[1], lambda x: mp.cos(x) / x, is_slope=True, **POSITIVE
    ),
    "spence": Function(
        special.spence,
        lambda x: -mp.log(x) / (x - 1) if x != 1 else mp.mpf(-1),
        is_slope=True,
        **POSITIVE,
        **SLOW,
    ),
    "xlog1py": Function(lambda x: special.xlog1py(2.0, x), lambda x: 2 * mp.log1p(x), low=-1),
    "xlogy": Function(lambda x: special.xlogy(2.0, x), lambda x: 2 * mp.log(x), **POSITIVE),
    "xlogy of x and x": Function(lambda x: special.xlogy(x, x), lambda x: x * mp.log(x), **POSITIVE),
    "zeta": Function(lambda x: special.zeta(x, 2.5), lambda x: mp.zeta(x, 2.5), low=1, high=50, **SLOW),
}

SECOND: dict[str, Function] = {
    "beta toward b": Function(
        lambda x: special.beta(2.5, x), lambda x: beta_of(2.5, x), **POSITIVE, high=50, **SLOW
    ),
    "betainc toward a": Function(
        lambda x: special.betainc(x, 1.5, 0.25),
        lambda x: mp.betainc(x, 1.5, 0, 0.25, regularized=True),
        low=0.005,
        high=50,
        **SLOW,
    ),
    "betainc toward b": Function(
        lambda x: special.betainc(1.5, x, 0.25),
        lambda x: mp.betainc(1.5, x, 0, 0.25, regularized=True),
        low=0.005,
        high=50,
        **SLOW,
    ),
    "float_power toward the exponent": Function(
        lambda x: jnp.float_power(2.5, x).astype(x.dtype), lambda x: mp.mpf(2.5) ** x, low=-90, high=90
    ),
    "gammaincc toward a": Function(
        lambda x: special.gammaincc(x, 2.5),
        lambda x: mp.gammainc(x, 2.5, mp.inf, regularized=True),
        low=1e-4,
        high=50,
        **SLOW,
    ),
    "owens_t toward a": Function(
        lambda x: special.owens_t(0.75, x),
        lambda x: mp.exp(-(mp.mpf(0.75) ** 2) * (1 + x * x) / 2) / (2 * mp.pi * (1 + x * x)),
        is_slope=True,
        **SLOW,
    ),
    "poch toward m": Function(
        lambda x: special.poch(2.5, x), lambda x: mp.rf(2.5, x), **POSITIVE, high=30, **SLOW
    ),
    "rel_entr toward q": Function(
        lambda x: special.rel_entr(1.5, x), lambda x: 1.5 * mp.log(1.5 / x), **POSITIVE
    ),
    "xlogy toward x": Function(lambda x: special.xlogy(x, 2.5), lambda x: x * mp.log(2.5)),
    "zeta toward q": Function(
        lambda x: special.zeta(2.5, x),
        lambda x: -2.5 * mp.zeta(3.5, x),
        **POSITIVE,
        high=1e4,
        is_slope=True,
        **SLOW,
    ),
}
"""Functions of several arguments, of which an argument other than the usual one varies."""

NUMPY: dict[str, Function] = {
    "exp2": Function(jnp.exp2, lambda x: mp.mpf(2) ** x),
    "float_power": Function(
        lambda x: jnp.float_power(x, 2.5).astype(x.dtype), lambda x: x ** mp.mpf(2.5), **POSITIVE
    ),
    "hypot": Function(lambda x: jnp.hypot(x, jnp.full_like(x, 0.25)), lambda x: mp.hypot(x, 0.25)),
    "hypot of x and 2 x": Function(lambda x: jnp.hypot(x, 2 * x), lambda x: mp.sqrt(5) * abs(x), kinks=(0,)),
    "jnp.i0": Function(jnp.i0, lambda x: mp.besseli(0, x), low=-80, high=80, **SLOW),
    "linalg.norm": Function(
        lambda x: jnp.linalg.norm(row(x)), lambda x: mp.sqrt(sum(y * y for y in listed(x)))
    ),
    "log10": Function(jnp.log10, mp.log10, **POSITIVE),
    "logaddexp": Function(lambda x: jnp.logaddexp(x, 0.25), lambda x: log_sum([x, mp.mpf(0.25)])),
    "logaddexp2": Function(
        lambda x: jnp.logaddexp2(x, 0.25), lambda x: log_sum([x * LOG_TWO, LOG_TWO / 4]) / LOG_TWO
    ),
    "sinc": Function(jnp.sinc, lambda x: mp.sincpi(x), low=-1e4, high=1e4),
    "std": Function(lambda x: jnp.std(row(x)), lambda x: deviation(listed(x))),
    "cumlogsumexp": Function(lambda x: lax.cumlogsumexp(row(x))[-1], lambda x: log_sum(listed(x))),
    "integer_pow": Function(lambda x: lax.integer_pow(x, -3), lambda x: x ** mp.mpf(-3), kinks=(0,)),
    "1 - sigmoid": Function(lambda x: 1 - jax.nn.sigmoid(x), lambda x: logistic(-x)),
}

FUNCTIONS = NN | SPECIAL | SECOND | NUMPY
