"""The elementwise functions that `elementwise_accuracy.py` tests, with their derivatives in mpmath."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mpmath as mp
import numpy as np

BAR = 5.0
"""The largest error, in units, that a derivative may have on the reference interpreter."""


@dataclass(frozen=True)
class Function:
    """A function, its first three derivatives, and the interval of its arguments.

    - `text`: the function's op on %x. T stands for the type of %x, %c is the constant 2.5, and %one is the constant 1.
    - `before`: ops that define other operands.
    - `sizes`: 0, or the largest values of the first and second derivatives. They are given if the derivatives are
      computed from a value of the function that rounds to 1, because errors are then relative to these largest values.
    - `bar`: the largest error, in units. It exceeds `BAR` if the function is expanded into ops that lose accuracy.
    """

    text: str
    derivatives: tuple[Callable[[Any], Any], ...]
    low: float = -np.inf
    high: float = np.inf
    sizes: tuple[float, float] = (0, 0)
    bar: float = BAR
    before: str = ""


def of(name: str, *derivatives: Callable[[Any], Any], **more: Any) -> Function:
    """Returns the function that applies one op to x. `name` is the op's full name, such as `stablehlo.sine`."""
    if name.startswith("chlo."):
        return Function(f"{name} %x : T -> T", derivatives, **more)
    return Function(f"{name} %x : T", derivatives, **more)


POSITIVE: dict[str, Any] = {"low": 0.0}
UNIT: dict[str, Any] = {"low": -1.0, "high": 1.0}
HALF_PI = 2 / mp.sqrt(mp.pi)


def _logistic(x: Any) -> tuple[Any, Any, Any]:
    e = mp.exp(-abs(x))
    sign = 1 if x >= 0 else -1
    first = e / (1 + e) ** 2
    return first, -sign * e * (1 - e) / (1 + e) ** 3, e * (1 - 4 * e + e * e) / (1 + e) ** 4


def _with_value(x: Any) -> tuple[Any, ...]:
    """Returns the values of the logistic function and its derivatives."""
    return 1 / (1 + mp.exp(-x)), *_logistic(x)


def _tanh(x: Any) -> tuple[Any, Any, Any]:
    first, t = mp.sech(x) ** 2, mp.tanh(x)
    return first, -2 * t * first, first * (6 * t * t - 2)


def _i1e(x: Any, order: int) -> Any:
    """Returns the derivative of order `order` of exp(-|x|) I_1(x), in terms of the Bessel functions I_0 to I_4."""
    of = [mp.besseli(k, x) for k in range(5)]
    derivatives = of[1], (of[0] + of[2]) / 2, (3 * of[1] + of[3]) / 4, (3 * of[0] + 4 * of[2] + of[4]) / 8
    terms = [mp.binomial(order, i) * (-mp.sign(x)) ** (order - i) * derivatives[i] for i in range(order + 1)]
    return mp.exp(-abs(x)) * sum(terms)


def _root(x: Any) -> Any:
    return mp.sign(x) * mp.cbrt(abs(x))


FUNCTIONS: dict[str, Function] = {
    "cbrt": of(
        "stablehlo.cbrt",
        lambda x: _root(x) / (3 * x),
        lambda x: -2 * _root(x) / (9 * x * x),
        lambda x: 10 * _root(x) / (27 * x**3),
    ),
    "cosine": of("stablehlo.cosine", lambda x: -mp.sin(x), lambda x: -mp.cos(x), mp.sin),
    "exponential": of("stablehlo.exponential", mp.exp, mp.exp, mp.exp),
    "exponential_minus_one": of("stablehlo.exponential_minus_one", mp.exp, mp.exp, mp.exp),
    "log": of("stablehlo.log", lambda x: 1 / x, lambda x: -1 / x**2, lambda x: 2 / x**3, **POSITIVE),
    "log_plus_one": of(
        "stablehlo.log_plus_one",
        lambda x: 1 / (1 + x),
        lambda x: -1 / (1 + x) ** 2,
        lambda x: 2 / (1 + x) ** 3,
        low=-1,
    ),
    "logistic": of(
        "stablehlo.logistic", *(lambda x, i=i: _logistic(x)[i] for i in range(3)), sizes=(0.5, 0.5)
    ),
    "rsqrt": of(
        "stablehlo.rsqrt",
        lambda x: -1 / (2 * x * mp.sqrt(x)),
        lambda x: 3 / (4 * x**2 * mp.sqrt(x)),
        lambda x: -15 / (8 * x**3 * mp.sqrt(x)),
        **POSITIVE,
    ),
    "sine": of("stablehlo.sine", mp.cos, lambda x: -mp.sin(x), lambda x: -mp.cos(x)),
    "sqrt": of(
        "stablehlo.sqrt",
        lambda x: 1 / (2 * mp.sqrt(x)),
        lambda x: -1 / (4 * x * mp.sqrt(x)),
        lambda x: 3 / (8 * x**2 * mp.sqrt(x)),
        **POSITIVE,
    ),
    "tan": of(
        "stablehlo.tan",
        lambda x: mp.sec(x) ** 2,
        lambda x: 2 * mp.tan(x) * mp.sec(x) ** 2,
        lambda x: mp.sec(x) ** 2 * (2 + 6 * mp.tan(x) ** 2),
    ),
    "tanh": of("stablehlo.tanh", *(lambda x, i=i: _tanh(x)[i] for i in range(3)), sizes=(1, 1)),
    "power of 2.5": Function(
        "stablehlo.power %x, %c : T",
        (
            lambda x: 2.5 * x ** mp.mpf(1.5),
            lambda x: 3.75 * mp.sqrt(x),
            lambda x: 1.875 / mp.sqrt(x),
        ),
        **POSITIVE,
    ),
    "power to x": Function(
        "stablehlo.power %c, %x : T",
        tuple(lambda x, i=i: mp.log(2.5) ** i * mp.mpf(2.5) ** x for i in (1, 2, 3)),
    ),
    "atan2 of x and 2.5": Function(
        "stablehlo.atan2 %x, %c : T",
        (
            lambda x: 2.5 / (x * x + 6.25),
            lambda x: -5 * x / (x * x + 6.25) ** 2,
            lambda x: 5 * (3 * x * x - 6.25) / (x * x + 6.25) ** 3,
        ),
    ),
    "2.5 over x": Function(
        "stablehlo.divide %c, %x : T",
        (lambda x: -2.5 / x**2, lambda x: 5 / x**3, lambda x: -15 / x**4),
    ),
    "acos": of(
        "chlo.acos",
        lambda x: -1 / mp.sqrt(1 - x * x),
        lambda x: -x / (1 - x * x) ** 1.5,
        lambda x: -(1 + 2 * x * x) / (1 - x * x) ** 2.5,
        **UNIT,
    ),
    "acosh": of(
        "chlo.acosh",
        lambda x: 1 / mp.sqrt(x * x - 1),
        lambda x: -x / (x * x - 1) ** 1.5,
        lambda x: (1 + 2 * x * x) / (x * x - 1) ** 2.5,
        low=1,
    ),
    "asin": of(
        "chlo.asin",
        lambda x: 1 / mp.sqrt(1 - x * x),
        lambda x: x / (1 - x * x) ** 1.5,
        lambda x: (1 + 2 * x * x) / (1 - x * x) ** 2.5,
        **UNIT,
    ),
    "asinh": of(
        "chlo.asinh",
        lambda x: 1 / mp.sqrt(1 + x * x),
        lambda x: -x / (1 + x * x) ** 1.5,
        lambda x: (2 * x * x - 1) / (1 + x * x) ** 2.5,
    ),
    "atan": of(
        "chlo.atan",
        lambda x: 1 / (1 + x * x),
        lambda x: -2 * x / (1 + x * x) ** 2,
        lambda x: (6 * x * x - 2) / (1 + x * x) ** 3,
    ),
    "atanh": of(
        "chlo.atanh",
        lambda x: 1 / (1 - x * x),
        lambda x: 2 * x / (1 - x * x) ** 2,
        lambda x: (2 + 6 * x * x) / (1 - x * x) ** 3,
        **UNIT,
    ),
    "cosh": of("chlo.cosh", mp.sinh, mp.cosh, mp.sinh),
    "digamma": of("chlo.digamma", *(lambda x, i=i: mp.psi(i, x) for i in (1, 2, 3)), **POSITIVE),
    "erf": of(
        "chlo.erf",
        lambda x: HALF_PI * mp.exp(-x * x),
        lambda x: -2 * x * HALF_PI * mp.exp(-x * x),
        lambda x: (4 * x * x - 2) * HALF_PI * mp.exp(-x * x),
    ),
    "erf_inv": of(
        "chlo.erf_inv",
        lambda x: mp.exp(mp.erfinv(x) ** 2) / HALF_PI,
        lambda x: 2 * mp.erfinv(x) * (mp.exp(mp.erfinv(x) ** 2) / HALF_PI) ** 2,
        lambda x: (2 + 8 * mp.erfinv(x) ** 2) * (mp.exp(mp.erfinv(x) ** 2) / HALF_PI) ** 3,
        **UNIT,
    ),
    "erfc": of(
        "chlo.erfc",
        lambda x: -HALF_PI * mp.exp(-x * x),
        lambda x: 2 * x * HALF_PI * mp.exp(-x * x),
        lambda x: (2 - 4 * x * x) * HALF_PI * mp.exp(-x * x),
    ),
    "lgamma": of("chlo.lgamma", *(lambda x, i=i: mp.psi(i, x) for i in (0, 1, 2)), **POSITIVE),
    "sinh": of("chlo.sinh", mp.cosh, mp.sinh, mp.cosh),
    "bessel_i1e": of(
        "chlo.bessel_i1e", *(lambda x, i=i: _i1e(x, i) for i in (1, 2, 3)), low=-100, high=100, bar=20
    ),
    "polygamma of order 1": Function(
        "chlo.polygamma %one, %x : T, T -> T",
        tuple(lambda x, i=i: mp.psi(i, x) for i in (2, 3, 4)),
        **POSITIVE,
    ),
    "atan2 of 2.5 and x": Function(
        "stablehlo.atan2 %c, %x : T",
        (
            lambda x: -2.5 / (x * x + 6.25),
            lambda x: 5 * x / (x * x + 6.25) ** 2,
            lambda x: -5 * (3 * x * x - 6.25) / (x * x + 6.25) ** 3,
        ),
    ),
    "square": of("chlo.square", lambda x: 2 * x, lambda x: mp.mpf(2), lambda x: mp.mpf(0)),
    "digamma, negative": of(
        "chlo.digamma", *(lambda x, i=i: mp.psi(i, x) for i in (1, 2, 3)), low=-30, high=0
    ),
    "lgamma, negative": of("chlo.lgamma", *(lambda x, i=i: mp.psi(i, x) for i in (0, 1, 2)), low=-30, high=0),
    "polygamma of order 1, negative": Function(
        "chlo.polygamma %one, %x : T, T -> T",
        tuple(lambda x, i=i: mp.psi(i, x) for i in (2, 3, 4)),
        low=-30,
        high=0,
    ),
    "polygamma of order 2": Function(
        "chlo.polygamma %two, %x : T, T -> T",
        tuple(lambda x, i=i: mp.psi(i, x) for i in (3, 4, 5)),
        **POSITIVE,
        before="%two = stablehlo.constant dense<2.0> : T",
    ),
    "zeta of 2.5 and x": Function(
        "chlo.zeta %c, %x : T, T -> T",
        (
            lambda x: -2.5 * mp.zeta(3.5, x),
            lambda x: 8.75 * mp.zeta(4.5, x),
            lambda x: -39.375 * mp.zeta(5.5, x),
        ),
        **POSITIVE,
    ),
    "zeta of x and 2.5": Function(
        "chlo.zeta %x, %c : T, T -> T",
        tuple(lambda x, i=i: mp.zeta(x, 2.5, i) for i in (1, 2, 3)),
        low=1,
        high=80,
    ),
    **{
        f"power of {n}": Function(
            "stablehlo.power %x, %n : T",
            (
                lambda x, n=n: n * x ** mp.mpf(n - 1),
                lambda x, n=n: n * (n - 1) * x ** mp.mpf(n - 2),
                lambda x, n=n: n * (n - 1) * (n - 2) * x ** mp.mpf(n - 3),
            ),
            low=-np.inf if n == int(n) else 1e-24,  # x^(n - 2) would overflow in f32
            before=f"%n = stablehlo.constant dense<{float(n)}> : T",
        )
        for n in (-1.5, -1, 0.5, 3)
    },
    "1 / (1 + exp(-x))": Function(
        "stablehlo.divide %one, %s : T",
        tuple(lambda x, i=i: _logistic(x)[i] for i in range(3)),
        sizes=(0.5, 0.5),
        before="""%m = stablehlo.negate %x : T
      %e = stablehlo.exponential %m : T
      %s = stablehlo.add %one, %e : T""",
    ),
    "log(1 + exp(x))": Function(
        "stablehlo.log_plus_one %e : T",
        tuple(lambda x, i=i: _with_value(x)[i] for i in range(3)),
        high=88,
        sizes=(0, 0.5),
        before="%e = stablehlo.exponential %x : T",
    ),
    "x logistic(x)": Function(
        "stablehlo.multiply %x, %s : T",
        tuple(lambda x, k=k: k * _with_value(x)[k - 1] + x * _with_value(x)[k] for k in (1, 2, 3)),
        sizes=(0.5, 0.5),
        bar=40,  # the rounding error of logistic(x), times x
        before="%s = stablehlo.logistic %x : T",
    ),
}
