"""Runs the tests of the Array API standard on eager arrays: python test/sweep/array_api.py DIRECTORY

DIRECTORY has the repository `data-apis/array-api-tests` with its submodule `array-api`. The tests also need the
packages `ndindex` and `pytest-json-report`. They test the namespace `tiduc.eager.array_api`. StableHLO's interpreter
runs the ops. IREE runs the Fourier transforms and the factorizations, which the interpreter cannot run. The sweep
writes docs/array_api.md. The exit status is 1 if a test fails for a reason that is not in `REASONS`. Each test runs
on N random inputs with `--examples N`. With `--only PATTERN`, only matching tests run, and the page is printed instead
of written.
"""

import argparse
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from counts import summary

from tiduc.eager import Interpreter, Iree, Session, array_api, executing
from tiduc.eager.executors import Run
from tiduc.eager.graphs import RecordedGraph

PAGE = Path(__file__).resolve().parents[2] / "docs" / "array_api.md"
LACKING = ("stablehlo.custom_call", "stablehlo.triangular_solve", "stablehlo.cholesky", "stablehlo.fft")
"""The ops that the reference interpreter cannot run."""

REASONS = {
    r"test_finfo\[(float32|complex64)\]": "`np.finfo` gives scalars of NumPy, not Python's floats",
    r"(floor_?div|__ifloordiv__).*infinity": "as NumPy: the quotient of an infinity is NaN; towards -infinity, -1",
    r"(remainder|mod__).*is [+-]0": "the remainder 0 has the sign of the dividend; a derivative goes through it",
    r"test_unary\[sign.*-0": "StableHLO's sign of -0 is -0",
    r"test_unary\[.*(imag|real)": "StableHLO's complex functions differ where a part is infinite, NaN or a signed zero",
    r"TestInspection::test_devices": "as NumPy: the devices are a list; the standard asks for a tuple",
    r"(dunder|from)_dlpack": "an array owns its elements, so that DLPack copies them, also where `copy=False`",
    r"test_(eig|eigvals)$": "as NumPy: eigenvalues of a real matrix are real if all of them are",
}
"""Maps patterns of test names to the reason why these tests fail. The first pattern that matches a name is used."""
ABOUT = """# The Array API standard

`tiduc.eager.array_api` is the namespace of version {version} of
[the Array API standard](https://data-apis.org/array-api/{version}/), for [eager arrays](eager.md);
`x.__array_namespace__()` returns it. Its functions are NumPy's own, which dispatch to eager arrays, and have
derivatives. This page has the results of the standard's own tests, `data-apis/array-api-tests`, with {examples} inputs
for each random test. `python test/sweep/array_api.py DIRECTORY` writes this page; DIRECTORY holds the repository of the
tests.

"""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a test, which is `passed`, `failed` or `skipped`."""

    name: str
    outcome: str
    message: str = ""

    @property
    def group(self) -> tuple[str, str]:
        """The file and the function of the test, without the prefix `test_`."""
        file, _, test = self.name.partition("::")
        return Path(file).stem.removeprefix("test_"), test.partition("[")[0].removeprefix("test_")

    @property
    def why(self) -> str:
        """The reason why the test fails. Returns "" if `REASONS` has no reason."""
        return next((why for pattern, why in REASONS.items() if re.search(pattern, self.name)), "")


class Mixed(Interpreter):
    """An executor that runs graphs with the interpreter, or with IREE if the interpreter cannot run an op."""

    def __init__(self) -> None:
        super().__init__()
        self.iree = Iree()

    def _make(self, graph: RecordedGraph) -> Run:
        lacks = any(name in graph.text for name in LACKING)
        return self.iree._make(graph) if lacks else super()._make(graph)


class Plugin:
    """A pytest plugin that runs each test in a session of the executor `Mixed`, and collects the outcomes."""

    def __init__(self) -> None:
        self.session = Session(Mixed())
        self.outcomes: dict[str, Outcome] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: Any) -> Iterator[None]:
        with executing(self.session):
            return (yield)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when == "call" or report.outcome != "passed":
            message = getattr(getattr(report.longrepr, "reprcrash", None), "message", "")
            self.outcomes[report.nodeid] = Outcome(report.nodeid, report.outcome, message)


def outcomes(directory: Path, examples: int, only: str) -> list[Outcome]:
    """Runs the tests in a directory and returns their outcomes in order."""
    os.environ.update(ARRAY_API_TESTS_MODULE=array_api.__name__)
    os.chdir(directory)
    sys.path.insert(0, str(directory))
    plugin = Plugin()
    options = [
        "-q",
        "--tb=line",
        "--assert=plain",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "-o",
        "addopts=",
    ]
    hypothesis = ["--disable-deadline", "--derandomize", "--max-examples", str(examples)]
    chosen = ["-k", only] if only else []
    pytest.main([*options, *hypothesis, *chosen, "array_api_tests"], plugins=[plugin])
    return list(plugin.outcomes.values())


def page(found: Sequence[Outcome], examples: int) -> str:
    """Returns the text of docs/array_api.md.

    It has counts for each file of tests, the failures by reason, and counts for each test.
    """
    by_file: dict[str, Counter[str]] = {}
    by_test: dict[tuple[str, str], Counter[str]] = {}
    for each in found:
        by_file.setdefault(each.group[0], Counter())[each.outcome] += 1
        by_test.setdefault(each.group, Counter())[each.outcome] += 1
    by_file["**all**"] = sum(by_file.values(), Counter())
    text = ABOUT.format(version=array_api.__array_api_version__, examples=examples)
    text += "| tests of | passed | failed | skipped |\n|---|---|---|---|\n"
    text += "".join(f"| {name} | {_row(counts)} |\n" for name, counts in by_file.items())
    text += "\n## Tests that fail\n\n| reason | tests | of |\n|---|---|---|\n"
    failed = [each for each in found if each.outcome == "failed"]
    for why in dict.fromkeys(each.why for each in failed):
        same = [each for each in failed if each.why == why]
        names = sorted({_subject(each) for each in same})
        text += f"| {why or 'unknown'} | {len(same)} | {', '.join(f'`{name}`' for name in names)} |\n"
    text += (
        "\n## Counts of each test\n\n| tests of | test | passed | failed | skipped |\n|---|---|---|---|---|\n"
    )
    return text + "".join(
        f"| {file} | `{test}` | {_row(counts)} |\n" for (file, test), counts in by_test.items()
    )


def _row(counts: Counter[str]) -> str:
    return " | ".join(str(counts[name] or "") for name in ("passed", "failed", "skipped"))


def _subject(each: Outcome) -> str:
    """Returns the name of the function that a test tests. For tests of special cases, it is in the test's parameter."""
    _, bracket, rest = each.name.partition("[")
    return re.split(r"[(\]]", rest)[0] if bracket and each.group[0] == "special_cases" else each.group[1]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    parser.add_argument("--examples", type=int, default=10)
    parser.add_argument("--only", default="")
    given = parser.parse_args(arguments)
    found = outcomes(given.directory.resolve(), given.examples, given.only)
    if given.only:
        print(page(found, given.examples))
    else:
        PAGE.write_text(page(found, given.examples))
    unknown = [each for each in found if each.outcome == "failed" and not each.why]
    for each in unknown:
        print(each.name, each.message.partition("\n")[0], file=sys.stderr)
    known = sum(each.outcome == "failed" for each in found) - len(unknown)
    passed, skipped = (sum(each.outcome == name for each in found) for name in ("passed", "skipped"))
    print(summary({"right": passed, "known": known, "skipped": skipped, "wrong": len(unknown)}))
    return int(bool(unknown))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
