"""Compares first and second derivatives of elementwise functions with mpmath, at points of all magnitudes.

    PYTHONPATH=test/py python test/sweep/elementwise_accuracy.py [--filter PATTERN] [--points N] [--write]

Errors of a derivative f at x are in units of epsilon times (|f| + |x f'|), which is the effect of one rounding of f and
of one rounding of x. A unit is at least the least normal number. If f exceeds the largest number, the result must be
infinite or close to the largest number. The points have all magnitudes of the element type, except the largest two
powers of two. With `--write`, the rows of these functions in a table of docs/conventions.md are replaced.
"""

import argparse
import re
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes
import mpmath as mp
import numpy as np
from counts import summary
from elementwise_functions import FUNCTIONS, Function
from harness.one_module import compiled_together
from numpy.typing import NDArray

from tiduc.backends.reference.interpreter import evaluate
from tiduc.loading import load

PAGE = Path(__file__).resolve().parents[2] / "docs" / "conventions.md"
DIGITS = 60
DTYPES = np.float32, np.float64

# ---- points and programs -----------------------------------------------------------------------------------


def points(function: Function, dtype: Any, count: int) -> NDArray[Any]:
    """Returns the numbers of `magnitudes` that are in the domain of a function."""
    x = magnitudes(dtype, count)
    return x[(function.low < x) & (x < function.high)]


def magnitudes(dtype: Any, count: int) -> NDArray[Any]:
    """Numbers of all magnitudes that a float type has, and numbers near 1 and -1, sorted."""
    info, rng = ml_dtypes.finfo(dtype), np.random.default_rng(0)
    lowest, highest = np.log2(float(info.tiny)) + 1, np.log2(float(info.max)) - 2
    sizes = np.exp2(np.linspace(lowest, highest, count) + rng.uniform(-0.5, 0.5, count))
    middle = np.exp2(rng.uniform(-8, 8, count))
    near_one = 1 - np.exp2(rng.uniform(np.log2(float(info.eps)), -1, max(count // 4, 2)))
    sizes = np.concatenate([sizes, middle, near_one, 2 - near_one])
    return np.unique(np.concatenate([sizes, -sizes]).astype(dtype))


def texts(function: Function, dtype: Any, count: int) -> list[str]:
    """Returns the programs of the first and second derivatives of a function.

    The first one takes x and a tangent, the second one x and two tangents.
    """
    t = f"tensor<{count}x{np.dtype(dtype).name.replace('bfloat', 'bf').replace('float', 'f')}>"
    first = load(f"""
    func.func @main(%x: {t}) -> {t} {{
      %c = stablehlo.constant dense<2.5> : {t}
      %one = stablehlo.constant dense<1.0> : {t}
      {function.before.replace("T", t)}
      %y = {function.text.replace("T", t)}
      return %y : {t}
    }}""").jvp()
    return [str(first), str(first.jvp([0]))]


# ---- errors ------------------------------------------------------------------------------------------------


@cache
def exact(name: str, number: int, x: float) -> Any:
    """Returns the derivative of order `number` + 1 of a function at x, by mpmath."""
    return FUNCTIONS[name].derivatives[number](mp.mpf(x))


def units(name: str, order: int, x: Any, computed: Any) -> float:
    """Returns the error of a computed derivative of order `order` at x, in units."""
    with mp.workdps(DIGITS):
        f, slope = exact(name, order - 1, float(x)), exact(name, order, float(x))
        return error(f, slope, x, computed, FUNCTIONS[name].sizes[order - 1])


def error(f: Any, slope: Any, x: Any, computed: Any, size: float = 0) -> float:
    """Returns the error of `computed`, in units. The exact value at x is `f`, and the exact derivative is `slope`.

    `size` is added to |f| + |x f'|.
    """
    info = ml_dtypes.finfo(x.dtype)
    if abs(f) > float(info.max) * 0.999:
        return 0.0 if abs(float(computed)) > 0.99 * float(info.max) else float(np.inf)
    if not np.isfinite(float(computed)):
        return float(np.inf)
    size = abs(f) + abs(mp.mpf(float(x)) * slope) + size
    return float(abs(mp.mpf(float(computed)) - f) / (float(info.eps) * size + float(info.tiny)))


@dataclass(frozen=True)
class Worst:
    """The largest error of a derivative, in units, and the point where it occurs."""

    units: float
    at: float

    def __str__(self) -> str:
        return f"{self.units:.1f} at {self.at:.3g}"


def worst(name: str, order: int, x: Any, computed: Any) -> Worst:
    errors = [units(name, order, *pair) for pair in zip(x, computed, strict=True)]
    i = int(np.argmax(errors))
    return Worst(errors[i], float(x[i]))


def by_reference(name: str, dtype: Any, count: int) -> list[Worst]:
    """Computes the largest errors of a function's first and second derivatives on the reference interpreter."""
    x = points(FUNCTIONS[name], dtype, count)
    programs = enumerate(texts(FUNCTIONS[name], dtype, len(x)), 1)
    return [
        worst(name, order, x, evaluate(text, [x] + [np.ones_like(x)] * order)[-1]) for order, text in programs
    ]


def by_iree(names: list[str], dtype: Any, count: int) -> Mapping[str, list[Worst]]:
    """Returns, for each function, the largest errors of its first and second derivatives on IREE."""
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
    """Maps each function to the cells of its row. They are the largest errors on the interpreter and on IREE."""
    iree = [by_iree(names, dtype, count) for dtype in DTYPES]
    return {
        name: [w for dtype in DTYPES for w in by_reference(name, dtype, count)]
        + [w for of in iree for w in of[name]]
        for name in names
    }


def _name(line: str) -> str:
    return line.split("|")[1].strip()


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
        end = page.index("\n\n", start)
        known = {_name(line): line for line in page[start:end].splitlines()} | {
            _name(line): line for line in lines
        }
        PAGE.write_text(page[:start] + "\n".join(known.values()) + page[end:])
    counts = Counter(
        "ok" if w.units <= FUNCTIONS[name].bar else "less accurate on IREE" if i >= 4 else "wrong"
        for name, cells in found.items()
        for i, w in enumerate(cells)
    )
    print(summary(counts))
    return int(counts["wrong"] > 0)


if __name__ == "__main__":
    sys.exit(main())
