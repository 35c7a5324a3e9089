"""Imports programs of JAX's libraries by `tiduc.from_jax`, and compares values and derivatives with JAX's, in f64.

    python test/sweep/jax_libraries.py [JOURNAL] [--only PATTERN] [--engine xla] [--of gradient,hvp] [--table]

The programs are examples from the documentation of diffrax, equinox, optimistix, lineax, optax, jaxopt, flax and haiku.
The function is the sum of the squares of a program's results. Four parts of each program are tested: its value
(`value`), tiduc's gradient (`gradient`), JAX's gradient, exported and imported (`exported`), and tiduc's Hessian-vector
product (`hvp`). They are compared with JAX's results, or with finite differences if JAX cannot differentiate the
program. The outcomes are written to the file JOURNAL, from which a later run continues. The exit status is 1 if a value
is wrong, or if an exception is not a `TiducError`.
"""

import argparse
import json
import os
import re
import sys
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from xla_flags import XLA_FLAGS  # noqa: E402

os.environ.setdefault("XLA_FLAGS", XLA_FLAGS)
import jax  # noqa: E402
import numpy as np  # noqa: E402
from counts import summary  # noqa: E402
from jax_library_cases import Case, cases  # noqa: E402

import tiduc  # noqa: E402

jax.config.update("jax_enable_x64", True)
PARTS = ("value", "gradient", "exported", "hvp")
TOLERANCE = 1e-7
"""The tolerance of errors relative to the largest element."""


def scalar(case: Case) -> Callable[..., Any]:
    """Returns the function of a case whose value is the sum of the squares of all results."""

    def summed(*arguments: Any) -> Any:
        leaves = jax.tree.leaves(case.function(*arguments))
        floats = [x for x in map(jax.numpy.asarray, leaves) if jax.numpy.issubdtype(x.dtype, np.inexact)]
        return sum(jax.numpy.sum(jax.numpy.abs(x) ** 2) for x in floats)

    return summed


def traced(arguments: Any) -> list[bool]:
    """Returns, for each leaf of the arguments, whether it is traced.

    Arrays are traced, and so are floats outside modules of equinox.
    """
    equinox = sys.modules.get("equinox")

    def is_module(x: Any) -> bool:
        return equinox is not None and isinstance(x, equinox.Module)

    return [
        isinstance(x, np.ndarray | jax.Array) or (isinstance(x, float) and not is_module(part))
        for part in jax.tree.leaves(arguments, is_leaf=is_module)
        for x in jax.tree.leaves(part)
    ]


def of_leaves(case: Case) -> tuple[Callable[..., Any], list[Any], list[int]]:
    """Returns the function `scalar(case)` with the traced leaves as arguments.

    Also returns these leaves and the positions of floats among them.
    """
    everything, structure = jax.tree.flatten(case.arguments)
    places = [i for i, is_traced in enumerate(traced(case.arguments)) if is_traced]
    leaves = [np.asarray(everything[i]) for i in places]
    function = scalar(case)

    def of(*given: Any) -> Any:
        whole = list(everything)
        for i, x in zip(places, given, strict=True):
            whole[i] = x
        return function(*structure.unflatten(whole))

    return of, leaves, [i for i, x in enumerate(leaves) if np.issubdtype(x.dtype, np.inexact)]


def difference(actual: list[Any], expected: list[Any]) -> float:
    """Returns the largest difference between arrays, relative to the largest expected element.

    It is infinite if the numbers or shapes of the arrays differ, or if an element is NaN or infinite.
    """
    if len(actual) != len(expected):
        return float("inf")
    worst = 0.0
    scale = max([1e-30, *(float(np.max(np.abs(y), initial=0)) for y in map(np.asarray, expected))])
    for x, y in zip(map(np.asarray, actual), map(np.asarray, expected), strict=True):
        if x.shape != y.shape or not np.all(np.isfinite(x)):
            return float("inf")
        worst = max(worst, float(np.max(np.abs(x - y), initial=0)) / scale)
    return worst


class Wrong(Exception):
    """Raised if a result differs from the expected one. Libraries raise `AssertionError`s of their own."""


class Neither(Exception):
    """Raised if neither tiduc nor JAX has a derivative."""


@dataclass
class Work:
    """The imported program of a case, and JAX's value and gradient. All parts of the case share them."""

    case: Case

    def __post_init__(self) -> None:
        self.function, self.leaves, self.active = of_leaves(self.case)
        rng = np.random.default_rng(0)
        like = [self.leaves[i] for i in self.active]
        self.directions = [np.asarray(rng.standard_normal(x.shape), x.dtype) for x in like]

    @cached_property
    def program(self) -> tiduc.Program:
        return tiduc.from_jax(scalar(self.case), *self.case.arguments)

    @cached_property
    def value(self) -> Callable[..., Any]:
        return jax.jit(self.function)

    @cached_property
    def gradient(self) -> Callable[..., Any]:
        return jax.jit(jax.grad(self.function, self.active))

    def moved(self, *some: Any) -> list[Any]:
        """Returns the traced leaves, with `some` instead of the float leaves."""
        given = list(self.leaves)
        for i, x in zip(self.active, some, strict=True):
            given[i] = x
        return given

    def forwards(self, *some: Any) -> Any:
        """JAX's Hessian-vector product at the float leaves `some`, by forward mode over reverse mode."""
        return jax.jvp(lambda *x: self.gradient(*self.moved(*x)), some, tuple(self.directions))[1]

    def backwards(self, *some: Any) -> Any:
        """JAX's Hessian-vector product at the float leaves `some`, by reverse mode over reverse mode."""

        def slope(*x: Any) -> Any:
            products = zip(self.gradient(*self.moved(*x)), self.directions, strict=True)
            return sum(jax.numpy.sum(dx * direction) for dx, direction in products)

        return jax.grad(slope, range(len(some)))(*some)


def expectation(part: str, work: Work) -> tuple[str, list[Any]]:
    """Returns the expected result for a part.

    It is ("jax", JAX's result) or ("along", finite differences along the directions).

    Differences are used only if JAX has no result. For `hvp`, they are differences of JAX's gradient. A function may
    define a gradient that is not the derivative of its value; then they would differ from JAX's second derivative.
    """
    if part == "value":
        return "jax", [work.value(*work.leaves)]
    at = [work.leaves[i] for i in work.active]
    candidates = [work.gradient]
    if part == "hvp":
        second = Work(replace(work.case, function=work.case.twice or work.case.function))
        candidates = [second.forwards, second.backwards]
    for candidate in candidates:
        try:
            given = work.leaves if part in ("gradient", "exported") else at
            return "jax", list(jax.jit(candidate)(*given))
        except Exception:  # JAX and its libraries raise errors of many types
            if part == "exported":
                raise

    step, compiled = 1e-5, work.value if part == "gradient" else work.gradient

    def moved(by: float) -> list[Any]:
        given = work.moved(*(x + by * dx for x, dx in zip(at, work.directions, strict=True)))
        return [np.asarray(y) for y in jax.tree.leaves(compiled(*given))]

    return "along", [(x - y) / (2 * step) for x, y in zip(moved(step), moved(-step), strict=True)]


def imported(work: Work, part: str) -> Any:
    """Returns the program of a part."""
    if part == "exported":  # the value of the imported program is JAX's gradient
        return tiduc.from_jax(jax.grad(work.function, work.active), *work.leaves, custom_derivatives=1)
    if part == "value":
        return work.program
    return work.program.grad(work.active) if part == "gradient" else work.program.hvp(work.active)


def check(work: Work, part: str, engine: str) -> str:
    """Compares a part with its expected result. Returns the kind of this result: "jax" or "along".

    Raises `TiducError` if tiduc refuses the part, `Neither` if JAX has no result either, and `Wrong` if the result of
    tiduc is wrong.
    """
    case, directions = work.case, work.directions
    kind, expected = expectation(part, work)
    try:
        program = imported(work, part)
    except tiduc.TiducError as error:
        if kind == "along":
            raise Neither(str(error)) from error
        raise
    actual = list(program.compile(engine=engine)(*work.leaves, *(directions if part == "hvp" else ())))
    if kind == "along" and part == "gradient":
        actual = [sum(np.sum(g * d) for g, d in zip(actual, directions, strict=True))]
    error = difference(actual, expected)
    if not error <= (1e-4 if kind == "along" else case.tolerance or TOLERANCE):
        raise Wrong(f"relative difference {error:.1e} from {kind}")
    return kind


def outcome(work: Work, part: str, engine: str) -> tuple[str, str]:
    """Returns the outcome of a part ("right", "refused", "wrong" or "crashed") and its reason.

    The outcome is "none" if JAX cannot compute the expected result, or neither JAX nor tiduc has a derivative.
    """
    try:
        return "right", check(work, part, engine)
    except Neither as error:
        return "none", f"JAX and tiduc: {error}"[:400]
    except Wrong as error:
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


def read(journal: Path | None, engine: str) -> dict[tuple[str, str], dict[str, Any]]:
    """Maps each pair of a program's name and a part to its last row in a journal."""
    if journal is None or not journal.exists():
        return {}
    known = map(json.loads, journal.read_text().splitlines())
    return {(row["name"], row["part"]): row for row in known if row["engine"] == engine}


def rows(given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yields a row for each part of each case. Only parts that are not in the journal, or that failed, run."""
    known = read(given.journal, given.engine)
    for case in cases():
        if not re.search(given.only, case.name) or not all(map(find_spec, case.needs)):
            continue
        work = Work(case)
        for part in given.of.split(","):
            if part in case.without:
                continue
            row = known.get((case.name, part))
            if row is None or row["category"] in ("wrong", "crashed"):
                start = time.process_time()
                category, why = outcome(work, part, given.engine)
                seconds = round(time.process_time() - start, 1)
                row = {"name": case.name, "part": part, "engine": given.engine, "category": category}
                row |= {"why": why, "seconds": seconds}
                if given.journal is not None:
                    with given.journal.open("a") as file:
                        file.write(json.dumps(row) + "\n")
            yield row


def table(found: list[dict[str, Any]]) -> str:
    """Returns the table of docs/from_jax.md. It has a row for each library and kind of program.

    For each part, the row says how many programs are right, and of how many. The last two columns list the programs
    that tiduc refuses, and those that JAX cannot differentiate.
    """
    groups: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in found:
        groups[row["name"].partition(":")[0]].append(row)
    heads = ["programs", *PARTS, "refused", "JAX has none"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for group, of_group in sorted(groups.items()):
        cells = []
        for part in PARTS:
            tried = [row for row in of_group if row["part"] == part and row["category"] != "none"]
            right = sum(row["category"] == "right" for row in tried)
            cells.append(f"{right} of {len(tried)}" if tried else "")
        for category in ("refused", "none"):
            names: dict[str, list[str]] = defaultdict(list)
            for row in of_group:
                if row["category"] == category:
                    names[row["part"]].append(row["name"].partition(": ")[2])
            cells.append("; ".join(f"{part} of {', '.join(each)}" for part, each in names.items()))
        lines.append(f"| {group} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("journal", nargs="?", type=Path)
    parser.add_argument("--only", default="", help="only programs whose names match this regular expression")
    parser.add_argument("--engine", default="xla")
    parser.add_argument("--of", default=",".join(PARTS))
    parser.add_argument("--table", action="store_true", help="print the journal as in docs/from_jax.md")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    found = []
    if given.table:
        found = list(read(given.journal, given.engine).values())
        print(table(found))
    else:
        for row in rows(given):
            found.append(row)
            if row["category"] != "right" or row["why"] != "jax":
                print(f"{row['category']:8} {row['name']}, {row['part']}: {row['why']}", flush=True)
    counts = Counter(row["category"] for row in found)
    print(summary(counts))
    return int(bool(counts["wrong"] or counts["crashed"]))


if __name__ == "__main__":
    sys.exit(main())
