"""Reads and differentiates the exported programs in JAX's tests of backward compatibility.

    python test/sweep/jax_exports.py [--only TEXT] [--evaluate]
    PYTHONPATH=test/py python test/sweep/jax_exports.py --functions PATTERN [--write] [--journal FILE]

Prints each program that cannot be differentiated, with the reason, and the counts. With `--evaluate`, IREE runs each
program on its stored arguments, and its derivatives are compared with finite differences. With `--functions`, the
derivatives of functions of JAX are compared with mpmath instead (`jax_accuracy.py`).
"""

import argparse
import pkgutil
import sys
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from counts import summary

import tiduc
from tiduc.backends.backend import Lowered, Options, Runnable, compile_program
from tiduc.backends.static_shapes import at_each_shape
from tiduc.checking.check import check

PACKAGE = "jax._src.internal_test_util.export_back_compat_test_data"
CONTENTS = "mlir_module_serialized"


def exports() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the name of each exported program, and a dictionary with its bytes, arguments and results."""
    package = import_module(PACKAGE)
    for info in pkgutil.iter_modules(package.__path__, f"{PACKAGE}."):
        for name, value in vars(import_module(info.name)).items():
            if not name.startswith("__"):
                yield from _within(f"{info.name.rpartition('.')[2]}:{name}", value)


def _within(name: str, value: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(value, dict) and CONTENTS in value:
        yield name, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _within(f"{name}[{key}]", inner)
    elif isinstance(value, list | tuple):
        for i, inner in enumerate(value):
            yield from _within(f"{name}[{i}]", inner)


def outcome(contents: bytes) -> tuple[str, str]:
    """Returns the outcome of a program, and the error if there is one.

    It is "differentiated", "loaded" if only its differentiation fails, or "not read".
    """
    try:
        program = tiduc.load(contents)
    except tiduc.TiducError as error:
        return "not read", error.message
    try:
        program.jvp()
        program.vjp()
    except tiduc.TiducError as error:
        return "loaded", error.message
    return "differentiated", ""


def evaluated(export: dict[str, Any]) -> tuple[str, str]:
    """Returns the outcome of comparing derivatives with finite differences: "agrees", "disagrees" or "not run".

    Also returns the first comparison that fails, or the error.
    """
    arguments = [np.asarray(x) for x in export["inputs"]]
    try:
        comparisons = list(check(tiduc.load(export[CONTENTS]), arguments, _compiled))
    except tiduc.TiducError as error:
        return "not run", error.message
    wrong = [c for c in comparisons if not c.agrees]
    return ("disagrees", str(wrong[0])) if wrong else ("agrees", "")


def _compiled(program: tiduc.Program) -> Runnable:
    return at_each_shape(program.lower(), _on_iree)


def _on_iree(static: Lowered) -> Runnable:
    return compile_program(static, "iree", Options())


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="only exports whose names contain this text")
    parser.add_argument("--evaluate", action="store_true", help="also run the programs")
    parser.add_argument(
        "--functions", metavar="PATTERN", help="functions of JAX against mpmath, instead of exports"
    )
    parser.add_argument("--write", action="store_true", help="write the table of functions")
    parser.add_argument(
        "--journal", type=Path, help="a file for the errors of functions, from which a later run continues"
    )
    given = parser.parse_args()
    if given.functions is not None:
        from jax_accuracy import accuracy, judged, write

        found = accuracy(given.functions, given.journal)
        if given.write:
            write(found)
        return int(judged(found)["wrong"] > 0)
    counts: Counter[str] = Counter()
    for name, export in exports():
        if given.only not in name:
            continue
        results = [outcome(export[CONTENTS])]
        if given.evaluate and results[0][0] == "differentiated":
            results.append(evaluated(export))
        for kind, reason in results:
            counts[kind] += 1
            if reason:
                print(f"{name}: {kind}: {reason.splitlines()[0]}", flush=True)
    print(summary(counts))
    return 0


if __name__ == "__main__":
    sys.exit(main())
