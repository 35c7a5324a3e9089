"""Tests which programs of JAX's libraries `tiduc.from_jax` imports: values and derivatives of two orders, in f64.

    python test/sweep/jax_libraries.py [JOURNAL] [--only PATTERN] [--engine xla] [--of gradient,hvp] [--table]

The programs are those of the documentation of diffrax, equinox, optimistix, lineax, optax, jaxopt, flax and haiku.
`gradient` is tiduc's gradient of the program, and `exported` is the import of `jax.grad`. Each is compared with JAX's,
or with differences if JAX has no derivative. Results are kept in the file JOURNAL, from which a later run continues.
Exits with 1 if a value is wrong, or if an exception is not a `TiducError`.
"""

import argparse
import json
import re
import sys
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import jax  # noqa: E402
import numpy as np  # noqa: E402
from counts import summary  # noqa: E402
from jax_library_cases import Case, cases  # noqa: E402

import tiduc  # noqa: E402

jax.config.update("jax_enable_x64", True)
PARTS = ("value", "gradient", "exported", "hvp")
TOLERANCE = 1e-7
"""The largest difference, relative to the largest entry."""


def scalar(case: Case) -> Callable[..., Any]:
    """The sum of the squares of the results, so that the gradient has one seed."""

    def summed(*arguments: Any) -> Any:
        leaves = jax.tree.leaves(case.function(*arguments))
        floats = [x for x in map(jax.numpy.asarray, leaves) if jax.numpy.issubdtype(x.dtype, np.inexact)]
        return sum(jax.numpy.sum(jax.numpy.abs(x) ** 2) for x in floats)

    return summed


def smooth(arguments: Any) -> tuple[list[Any], list[int]]:
    """The leaves of the arguments that JAX traces, and the positions of the real ones among these."""
    leaves = [
        np.asarray(x) for x in jax.tree.leaves(arguments) if isinstance(x, float | np.ndarray | jax.Array)
    ]
    return leaves, [i for i, x in enumerate(leaves) if np.issubdtype(x.dtype, np.inexact)]


def of_leaves(case: Case) -> tuple[Callable[..., Any], list[Any], list[int]]:
    """The scalar as a function of the leaves of the arguments, the leaves, and the positions of the real ones."""
    everything, structure = jax.tree.flatten(case.arguments)
    leaves, active = smooth(case.arguments)
    places = [i for i, x in enumerate(everything) if isinstance(x, float | np.ndarray | jax.Array)]
    function = scalar(case)

    def of(*given: Any) -> Any:
        whole = list(everything)
        for i, x in zip(places, given, strict=True):
            whole[i] = x
        return function(*structure.unflatten(whole))

    return of, leaves, active


def difference(actual: list[Any], expected: list[Any]) -> float:
    """The largest relative difference of the arrays; infinite if the numbers of arrays, or NaNs, differ."""
    if len(actual) != len(expected):
        return float("inf")
    worst = 0.0
    scale = max([1e-30, *(float(np.max(np.abs(y), initial=0)) for y in map(np.asarray, expected))])
    for x, y in zip(map(np.asarray, actual), map(np.asarray, expected), strict=True):
        if x.shape != y.shape or not np.all(np.isfinite(x)):
            return float("inf")
        worst = max(worst, float(np.max(np.abs(x - y), initial=0)) / scale)
    return worst


def expectation(part: str, case: Case, directions: list[Any]) -> tuple[str, list[Any]]:
    """JAX's result for a part, or if JAX has none, its differences: ("along", the change along the directions)."""
    function, leaves, active = of_leaves(case)
    if part == "value":
        return "jax", [jax.jit(function)(*leaves)]
    gradient = jax.grad(function, active)
    try:
        if part in ("gradient", "exported"):
            return "jax", list(jax.jit(gradient)(*leaves))
        moved = [leaves[i] for i in active]

        def of(*some: Any) -> Any:
            given = list(leaves)
            for i, x in zip(active, some, strict=True):
                given[i] = x
            return gradient(*given)

        return "jax", list(jax.jit(lambda *x: jax.jvp(of, x, tuple(directions))[1])(*moved))
    except Exception:  # JAX and its libraries raise errors of many types
        if part == "exported":
            raise

    step, compiled = 1e-5, jax.jit(function if part == "gradient" else gradient)

    def at(by: float) -> list[Any]:
        given = list(leaves)
        for i, dx in zip(active, directions, strict=True):
            given[i] = given[i] + by * dx
        return [np.asarray(y) for y in jax.tree.leaves(compiled(*given))]

    return "along", [(x - y) / (2 * step) for x, y in zip(at(step), at(-step), strict=True)]


def check(case: Case, part: str, engine: str) -> str:
    """Raises if tiduc refuses the part, or if a number differs; returns with what the numbers were compared."""
    function, leaves, active = of_leaves(case)
    rng = np.random.default_rng(0)
    directions = [rng.standard_normal(leaves[i].shape) for i in active]
    kind, expected = expectation(part, case, directions)
    if part == "exported":
        program: Any = tiduc.from_jax(jax.grad(function, active), *leaves)
    else:
        program = tiduc.from_jax(scalar(case), *case.arguments)
        if part != "value":
            program = program.grad(active) if part == "gradient" else program.hvp(active)
    actual = list(program.compile(engine=engine)(*leaves, *(directions if part == "hvp" else ())))
    if kind == "along" and part == "gradient":
        actual = [sum(np.sum(g * d) for g, d in zip(actual, directions, strict=True))]
    error = difference(actual, expected)
    if not error <= (1e-4 if kind == "along" else case.tolerance or TOLERANCE):
        raise AssertionError(f"relative difference {error:.1e} from {kind}")
    return kind


def outcome(case: Case, part: str, engine: str) -> tuple[str, str]:
    """One of "right", "refused", "wrong", "crashed" and "none" (JAX has none), and the reason."""
    try:
        return "right", check(case, part, engine)
    except AssertionError as error:
        return "wrong", " ".join(str(error).split())[:300]
    except tiduc.TiducError as error:
        return "refused", str(error)[:400]
    except Exception as error:  # noqa: BLE001
        inside = error.__traceback__
        names = []
        while inside is not None:
            names.append(inside.tb_frame.f_code.co_name)
            inside = inside.tb_next
        if "expectation" in names:
            return "none", f"JAX: {type(error).__name__}: {' '.join(str(error).split())[:200]}"
        return "crashed", f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


def rows(given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The outcome of each part of each case; those in the journal are not computed again."""
    journal = Path(given.journal) if given.journal else None
    known = {}
    if journal is not None and journal.exists():
        for row in map(json.loads, journal.read_text().splitlines()):
            known[row["name"], row["part"], row["engine"]] = row
    for case in cases():
        if not re.search(given.only, case.name) or not all(map(find_spec, case.needs)):
            continue
        for part in given.of.split(","):
            if part in case.without:
                continue
            row = known.get((case.name, part, given.engine))
            if row is None or row["category"] in ("wrong", "crashed"):
                start = time.process_time()
                category, why = outcome(case, part, given.engine)
                seconds = round(time.process_time() - start, 1)
                row = {"name": case.name, "part": part, "engine": given.engine, "category": category}
                row |= {"why": why, "seconds": seconds}
                if journal is not None:
                    with journal.open("a") as file:
                        file.write(json.dumps(row) + "\n")
            yield row


def table(found: list[dict[str, Any]]) -> str:
    """The table of docs/from_jax.md: a row for each library and kind of program."""
    groups: dict[str, dict[str, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for row in found:
        groups[row["name"].partition(":")[0]][row["part"]].append(row)
    lines = ["| programs | " + " | ".join(PARTS) + " | refused |", "|---" * (len(PARTS) + 2) + "|"]
    for group, parts in groups.items():
        cells = []
        for part in PARTS:
            counted = [row for row in parts[part] if row["category"] != "none"]
            right = sum(row["category"] == "right" for row in counted)
            cells.append(f"{right} of {len(counted)}" if counted else "")
        names = {
            row["name"].partition(": ")[2]
            for of in parts.values()
            for row in of
            if row["category"] == "refused"
        }
        lines.append(f"| {group} | {' | '.join(cells)} | {', '.join(sorted(names))} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("journal", nargs="?")
    parser.add_argument("--only", default="", help="only programs whose names match this regular expression")
    parser.add_argument("--engine", default="xla")
    parser.add_argument("--of", default=",".join(PARTS))
    parser.add_argument("--table", action="store_true", help="print the table of docs/from_jax.md")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    found = []
    for row in rows(given):
        found.append(row)
        if not given.table and (row["category"] != "right" or row["why"] != "jax"):
            print(f"{row['category']:8} {row['name']}, {row['part']}: {row['why']}", flush=True)
    if given.table:
        print(table(found))
    counts = Counter(row["category"] for row in found)
    print(summary(counts))
    return int(bool(counts["wrong"] or counts["crashed"]))


if __name__ == "__main__":
    sys.exit(main())
