"""Derivatives of elementwise functions against mpmath, over the range of a type, in orders one and two.

    PYTHONPATH=test/py python test/sweep/elementwise_accuracy.py [--filter PATTERN] [--points N] [--write]

The error of a derivative f at x is counted in units of epsilon times |f| + |x f'|: the effect of one rounding of f and
one of x. Numbers below the least normal one count as zero, and numbers above the largest one as infinite. Points are
numbers of all magnitudes except the last two powers of two. With `--write`, the table in docs/conventions.md is
replaced.
"""

import argparse
import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np
from counts import summary
from harness.one_module import compiled_together
from numpy.typing import NDArray

from tiduc.backends.reference.interpreter import evaluate
from tiduc.program import load

PAGE = Path(__file__).resolve().parents[2] / "docs" / "conventions.md"
DIGITS = 60
DTYPES = np.float32, np.float64
BAR = 5.0
"""The most units of error, on the reference interpreter."""


@dataclass(frozen=True)
class Function:
    """A function, its first three derivatives, and the interval of its arguments.

    `text` is its op on %x, in which T stands for the type; %c is 2.5 and %one is 1. `sizes` are the largest derivatives
    of orders one and two, where these are computed from a result that rounds to 1: their errors are a rounding of the
    largest one. `source` says of what an expansion in ops makes larger errors, up to `bar`.
    """

    text: str
    derivatives: tuple[Callable[[Any], Any], ...]
    low: float = -np.inf
    high: float = np.inf
    sizes: tuple[float, float] = (0, 0)
    bar: float = BAR


def of(name: str, *derivatives: Callable[[Any], Any], **more: Any) -> Function:
    """A function of one op, whose name has the dialect in front."""
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


def _tanh(x: Any) -> tuple[Any, Any, Any]:
    first, t = mp.sech(x) ** 2, mp.tanh(x)
    return first, -2 * t * first, first * (6 * t * t - 2)


def _i1e(x: Any, order: int) -> Any:
    """A derivative of exp(-|x|) I_1(x), by the derivatives of I_1 in I_0 to I_4."""
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
}


# ---- points and programs -----------------------------------------------------------------------------------


def points(function: Function, dtype: Any, count: int) -> NDArray[Any]:
    """Numbers of all magnitudes of the type, and near 1 and -1, in the domain of a function."""
    info, rng = np.finfo(dtype), np.random.default_rng(0)
    lowest, highest = np.log2(float(info.tiny)) + 1, np.log2(float(info.max)) - 2
    sizes = np.exp2(np.linspace(lowest, highest, count) + rng.uniform(-0.5, 0.5, count))
    middle = np.exp2(rng.uniform(-8, 8, count))
    near_one = 1 - np.exp2(rng.uniform(np.log2(float(info.eps)), -1, max(count // 4, 2)))
    sizes = np.concatenate([sizes, middle, near_one, 2 - near_one])
    x = np.concatenate([sizes, -sizes]).astype(dtype)
    return np.unique(x[(function.low < x) & (x < function.high)])


def texts(function: Function, dtype: Any, count: int) -> list[str]:
    """The derivatives of orders one and two, as programs of x and of one or two tangents."""
    t = f"tensor<{count}x{np.dtype(dtype).name.replace('float', 'f')}>"
    first = load(f"""
    func.func @main(%x: {t}) -> {t} {{
      %c = stablehlo.constant dense<2.5> : {t}
      %one = stablehlo.constant dense<1.0> : {t}
      %y = {function.text.replace("T", t)}
      return %y : {t}
    }}""").jvp()
    return [str(first), str(first.jvp([0]))]


# ---- errors ------------------------------------------------------------------------------------------------


@cache
def exact(name: str, number: int, x: float) -> Any:
    """The derivative of order `number` + 1."""
    return FUNCTIONS[name].derivatives[number](mp.mpf(x))


def units(name: str, order: int, x: Any, computed: Any) -> float:
    """The error of a derivative at x, in units."""
    info = np.finfo(x.dtype)
    with mp.workdps(DIGITS):
        f, slope = exact(name, order - 1, float(x)), exact(name, order, float(x))
        if abs(f) > float(info.max) * 0.999:
            return 0.0 if abs(float(computed)) > 0.99 * float(info.max) else float(np.inf)
        if not np.isfinite(computed):
            return float(np.inf)
        size = abs(f) + abs(mp.mpf(float(x)) * slope) + FUNCTIONS[name].sizes[order - 1]
        return float(abs(mp.mpf(float(computed)) - f) / (float(info.eps) * size + float(info.tiny)))


@dataclass(frozen=True)
class Worst:
    """The largest error of a derivative, and its point."""

    units: float
    at: float

    def __str__(self) -> str:
        return f"{self.units:.1f} at {self.at:.3g}"


def worst(name: str, order: int, x: Any, computed: Any) -> Worst:
    errors = [units(name, order, *pair) for pair in zip(x, computed, strict=True)]
    i = int(np.argmax(errors))
    return Worst(errors[i], float(x[i]))


def by_reference(name: str, dtype: Any, count: int) -> list[Worst]:
    """The largest errors of orders one and two on the reference interpreter."""
    x = points(FUNCTIONS[name], dtype, count)
    programs = enumerate(texts(FUNCTIONS[name], dtype, len(x)), 1)
    return [
        worst(name, order, x, evaluate(text, [x] + [np.ones_like(x)] * order)[-1]) for order, text in programs
    ]


def by_iree(names: list[str], dtype: Any, count: int) -> Mapping[str, list[Worst]]:
    """The largest errors of all functions on the default engine, which compiles one module."""
    grids = {name: points(FUNCTIONS[name], dtype, count) for name in names}
    programs = {
        f"{name} {order}": text
        for name, x in grids.items()
        for order, text in enumerate(texts(FUNCTIONS[name], dtype, len(x)), 1)
    }
    compiled = compiled_together(programs)
    return {
        name: [
            worst(name, order, x, compiled[f"{name} {order}"](x, *[np.ones_like(x)] * order)[-1])
            for order in (1, 2)
        ]
        for name, x in grids.items()
    }


HEAD = "| function | f32, 1 | f32, 2 | f64, 1 | f64, 2 | IREE: f32, 1 | f32, 2 | f64, 1 | f64, 2 |"


def rows(names: list[str], count: int) -> dict[str, list[Worst]]:
    """The errors of each function, on the reference interpreter, then on IREE."""
    iree = [by_iree(names, dtype, count) for dtype in DTYPES]
    return {
        name: [w for dtype in DTYPES for w in by_reference(name, dtype, count)]
        + [w for of in iree for w in of[name]]
        for name in names
    }


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--filter", default="")
    parser.add_argument("--points", type=int, default=150)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    found = rows([name for name in FUNCTIONS if re.search(options.filter, name)], options.points)
    lines = [HEAD, "|---" * 9 + "|"]
    lines += [f"| {name} | " + " | ".join(map(str, cells)) + " |" for name, cells in found.items()]
    print("\n".join(lines))
    if options.write:
        page = PAGE.read_text()
        start = page.index(HEAD)
        PAGE.write_text(page[:start] + "\n".join(lines) + page[page.index("\n\n", start) :])
    counts = Counter(
        "ok" if w.units <= FUNCTIONS[name].bar else "less accurate on IREE" if i >= 4 else "wrong"
        for name, cells in found.items()
        for i, w in enumerate(cells)
    )
    print(summary(counts))
    return int(counts["wrong"] > 0)


if __name__ == "__main__":
    sys.exit(main())
