"""Compares derivatives of JAX's functions with mpmath, for `jax_exports.py --functions`.

Derivatives of orders one and two are computed at 0 and at numbers of all magnitudes, in three ways: by tiduc from
`tiduc.from_jax`, which keeps the derivatives that JAX defines for its functions; by tiduc from a file of `jax.export`,
which lacks them; and by JAX. `elementwise_accuracy.py` defines the unit of errors.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import jax
import mpmath as mp
import numpy as np
from counts import summary
from elementwise_accuracy import DTYPES, Worst, error
from jax_functions import FUNCTIONS, Function
from jax_reasons import REASONS
from numpy.typing import NDArray

import tiduc

PAGE = Path(__file__).resolve().parents[2] / "docs" / "conventions.md"
TOGETHER = 16
SIZES = (
    *(1e-30, 1e-20, 1e-9, 1e-4, 0.01, 0.3, 0.5, 0.99, 1, 1.5, 2, 3.3, 5, 9.3, 17, 30),
    *(40, 88, 100, 300, 700, 1e4, 1e9),
)
BAR = 1000.0
"""Derivatives with a larger error, in units, are poor: the page has a row for the function."""
SOURCES = ("from_jax", "file", "JAX")
Found = dict[str, dict[str, list[Worst] | str]]
"""Maps functions to sources, and sources to the largest errors: for each type, those of orders one and two.

If the derivatives of a source could not be computed, it is mapped to the error message.
"""


HEAD = "| function | from_jax: f32, 1 | f32, 2 | f64, 1 | f64, 2 | file: f32, 1 | f32, 2 | f64, 1 | f64, 2 |"
START, END = "<!-- functions of JAX -->\n", "<!-- end of the functions of JAX -->"

# ---- references ---------------------------------------------------------------------------------------------


def points(function: Function, dtype: Any) -> NDArray[Any]:
    x = np.unique(np.array([0, *SIZES, *(-x for x in SIZES)], dtype))
    inside = (function.low < x) & (x < function.high) & (np.abs(x) >= function.least)
    return x[inside & ~np.isin(x, function.kinks)]


@cache
def exact(name: str, x: float) -> tuple[Any, Any, Any]:
    """Returns the derivatives of orders one to three of a function at x, by mpmath."""
    function = FUNCTIONS[name]
    with mp.workdps(function.digits):
        start = 0 if function.is_slope else 1
        at = mp.mpf(x)
        return tuple(
            mp.diff(function.exact, at, start + i, relative=x != 0) if start + i else function.exact(at)
            for i in range(3)
        )  # type: ignore[return-value]


def worst(name: str, order: int, x: NDArray[Any], computed: NDArray[Any]) -> Worst:
    function, errors = FUNCTIONS[name], []
    for at, y in zip(x, computed, strict=True):
        with mp.workdps(function.digits):
            f = exact(name, float(at))
            errors.append(error(f[order - 1], f[order], at, y))
    i = int(np.argmax(errors))
    return Worst(errors[i], float(x[i]))


# ---- derivatives --------------------------------------------------------------------------------------------


def derivatives(source: str, together: Callable[[Any], Any], x: NDArray[Any]) -> list[Sequence[Any]]:
    """Returns the first and second derivatives of several functions, computed by `source`.

    `together` evaluates all functions: it applies function i to row i of x.
    """
    ones, count = np.ones_like(x), len(x)
    if source == "JAX":
        first = lambda x: jax.jvp(together, (x,), (ones,))[1]  # noqa: E731
        second = lambda x: jax.jvp(first, (x,), (ones,))[1]  # noqa: E731
        return [jax.jit(first)(x), jax.jit(second)(x)]
    if source == "file":
        spec = jax.ShapeDtypeStruct(x.shape, x.dtype)
        program = tiduc.load(jax.export.export(jax.jit(together))(spec).mlir_module_serialized)
    else:
        program = tiduc.from_jax(together, x)
    first, second = program.jvp(), program.jvp().jvp([0])
    return [
        first.compile(engine="xla")(x, ones)[-count:],
        second.compile(engine="xla")(x, ones, ones)[-count:],
    ]


def errors(names: Sequence[str], dtype: Any, source: str) -> Iterator[tuple[str, list[Worst] | str]]:
    """Differentiates functions in one program, and yields the largest errors of each function.

    If the program fails, each half of the functions gets a separate program. A function whose own program fails
    yields the error message.
    """
    grids = [points(FUNCTIONS[name], dtype) for name in names]
    most = max(map(len, grids))
    x = np.stack([np.concatenate([grid, np.repeat(grid[-1:], most - len(grid))]) for grid in grids])
    functions = [jax.vmap(FUNCTIONS[name].of) for name in names]
    try:
        with jax.enable_x64(np.dtype(dtype).itemsize == 8):
            found = derivatives(source, lambda x: [f(x[i]) for i, f in enumerate(functions)], x)
    except Exception as failure:  # noqa: BLE001  a failure of one function must not hide the errors of the others
        if len(names) > 1:
            for half in (names[: len(names) // 2], names[len(names) // 2 :]):
                yield from errors(half, dtype, source)
        else:
            kind = "refused" if isinstance(failure, tiduc.TiducError) else "failed"
            yield names[0], f"{kind}: {' '.join(str(failure).split())[:200]}"
        return
    for i, (name, grid) in enumerate(zip(names, grids, strict=True)):
        own = [np.asarray(of_order[i])[: len(grid)] for of_order in found]
        yield name, [worst(name, order, grid, y) for order, y in enumerate(own, 1)]


def accuracy(pattern: str, journal: Path | None = None) -> Found:
    """Returns the errors of all functions whose names match a regular expression.

    Errors of functions in the journal are not computed again, and new errors are added to it.
    """
    names = [name for name in FUNCTIONS if re.search(pattern, name)]
    found = {} if journal is None else kept(journal)
    missing = [name for name in names if name not in found]
    for start in range(0, len(missing), TOGETHER):
        group = missing[start : start + TOGETHER]
        of_group: Found = {name: {} for name in group}
        for source, dtype in product(SOURCES, DTYPES):
            for name, own in errors(group, dtype, source):
                before = of_group[name].get(source, [])
                whole = own if isinstance(own, str) or isinstance(before, str) else [*before, *own]
                of_group[name][source] = whole
        found |= of_group
        if journal is not None:
            keep(journal, of_group)
    return {name: found[name] for name in names}


def kept(journal: Path) -> Found:
    """Reads the errors in a journal, which has a line of JSON for each function."""
    found: Found = {}
    for line in journal.read_text().splitlines() if journal.exists() else []:
        name, of_sources = json.loads(line)
        found[name] = {
            source: own if isinstance(own, str) else [Worst(*numbers) for numbers in own]
            for source, own in of_sources.items()
        }
    return found


def keep(journal: Path, found: Found) -> None:
    with journal.open("a") as file:
        for name, of_sources in found.items():
            rows = {
                s: own if isinstance(own, str) else [astuple(w) for w in own] for s, own in of_sources.items()
            }
            file.write(json.dumps([name, rows]) + "\n")


# ---- the page -----------------------------------------------------------------------------------------------


def category(found: Mapping[str, list[Worst] | str]) -> str:
    """Returns the category of a function: "right", "poor" or "refused"."""
    for source in SOURCES[:2]:
        if isinstance(found[source], str):
            return "refused"
    return "poor" if any(w.units > BAR for source in SOURCES[:2] for w in found[source]) else "right"


def judged(found: Found) -> Counter[str]:
    """Prints the functions that are refused, or that are poor without a reason in `REASONS`, and the counts.

    Returns the counts.
    """
    counts: Counter[str] = Counter()
    listed = {name for names in REASONS.values() for name in names}
    for name, own in found.items():
        kind = category(own)
        kind = "expected" if kind == "poor" and name in listed else "wrong" if kind == "poor" else kind
        counts[kind] += 1
        if kind in ("wrong", "refused"):
            print(f"{kind:8} {name}: {own}", flush=True)
    print(summary(counts))
    return counts


def write(found: Found) -> None:
    """Replaces the table of JAX's functions in docs/conventions.md, and the list of reasons below it."""
    rows = [HEAD, "|---" * 9 + "|"]
    for name, own in found.items():
        if category(own) == "poor":
            cells = [cell(w, own["JAX"], i) for s in SOURCES[:2] for i, w in enumerate(own[s])]
            rows.append(f"| `{name}` | " + " | ".join(cells) + " |")
    right = ", ".join(f"`{name}`" for name, own in found.items() if category(own) == "right")
    reasons = [f"- {', '.join(f'`{n}`' for n in names)}: {reason}." for reason, names in REASONS.items()]
    missing = ", ".join(f"`{name}`" for name in FUNCTIONS if name not in found)
    note = f" Not run yet: {missing}." if missing else ""
    body = f"At most {BAR:.0f} units: {right}.{note}\n\n" + "\n".join([*rows, "", *reasons]) + "\n"
    text = PAGE.read_text()
    before, _, rest = text.partition(START)
    PAGE.write_text(f"{before}{START}{body}{END}{rest.partition(END)[2]}")


def cell(own: Worst | str, of_jax: list[Worst] | str, i: int) -> str:
    """Returns the text of a cell, which is the error of a derivative.

    It is followed by a star if JAX's error is at least a tenth as large.
    """
    if isinstance(own, str) or own.units <= BAR:
        return own if isinstance(own, str) else f"{own.units:.1f}"
    is_shared = not isinstance(of_jax, str) and not of_jax[i].units < own.units / 10
    return f"{'not finite' if np.isinf(own.units) else f'{own.units:.0e}'} at {own.at:.3g}{'*' if is_shared else ''}"
