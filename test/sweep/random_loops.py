"""Compares random loop programs, their derivatives, and random array programs, run by IREE, with XLA.

    PYTHONPATH=test/py python test/sweep/random_loops.py [--target NAME]
        [--of program,vjp,jvp,vjp.jvp,arrays,calls,calls.vjp.memory] [--first N] [--count N] [--check-memory]
        [--journal FILE [--again CATEGORY,...]]
    PYTHONPATH=test/py python test/sweep/random_loops.py --reduce vjp:17 [--target NAME] [--seconds S]

A case has a kind and a seed. The kind `program`, or a derivative such as `vjp`, is for loop programs
(`loop_programs.py`), and `arrays` for programs without loops (`array_programs.py`). With `calls`, calls are nested up
to three levels deep, and the only barriers are those of recomputed ops. `calls.vjp.memory` is the VJP with the lowest
memory peak.

The program is compiled as by `tiduc compile`, and called four times with three sets of arguments
(`random_arguments.py`): loops run up to three times, not at all, or up to five times. Then the calls are repeated with
arguments and results that stay on the device. Values are compared with XLA's after all calls, in order to notice a call
that overwrites the results of another call. Derivatives have a tolerance. No argument may change unless a result
aliases it. `--reduce` shrinks a program as long as it fails in the same way (`loop_reducer.py`). Categories:

    ok        the values are XLA's
    refused   a `TiducError` before the compiler, with a location, or from differentiation
    rejected  the compiler refuses the program, or crashes on it
    wrong     a value differs, or an argument changes in a call
    error     the run ends with an error
    crash     the process dies, or any other exception
    hang      nothing after SECONDS
"""

import argparse
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from array_programs import ArrayProgram
from counts import summary
from harness.xla import by_xla
from loop_programs import Program
from loop_reducer import reduced
from memory_checks import add_option, memory_fault, pass_on
from numpy.typing import NDArray
from random_arguments import arguments_of
from worker import Worker, answer_requests
from xla_flags import XLA_FLAGS

import tiduc
from tiduc.backends.backend import Options
from tiduc.backends.iree.build import build
from tiduc.backends.iree.targets import find_target
from tiduc.dialect.errors import CompileError, TiducError
from tiduc.runtime import load as load_module
from tiduc.runtime.process import Limits

CATEGORIES = "ok refused rejected wrong error crash hang".split()
MODES = "program vjp jvp vjp.jvp arrays calls calls.vjp.memory".split()
SECONDS = 300  # per case
CALLS = 0, 1, 0, 2
"""The index of the set of arguments for each call."""
_DONATED = r"iree\.abi\.output = \d+ : index"

_BARRIER = re.compile(r'"stablehlo\.optimization_barrier"\([^)]*\)')
_STEPS: dict[str, Callable[[tiduc.Program], tiduc.Program]] = {
    "vjp": lambda program: program.vjp(),
    "jvp": lambda program: program.jvp(),
    "memory": lambda program: program.rematerialize("min"),
}

Array = NDArray[Any]
Outcome = tuple[str, str]
"""A category and a detail."""


def text_of(case: str, target: str) -> str:
    """The text of a case such as `vjp:17`. Derivatives for Vulkan are in f32, because Vulkan lacks f64 sines."""
    mode, _, seed = case.partition(":")
    derived = "vjp" in mode or "jvp" in mode
    without = ("f64",) if mode != "program" and find_target(target).spirv else ()
    if mode == "arrays":
        return ArrayProgram(int(seed), without).text
    text = Program(int(seed), derived, without, 3 if "calls" in mode else 1).text
    if "calls" in mode and not derived:
        return _BARRIER.sub(r"\g<0> {tidu.recomputed}", text)
    program = tiduc.load(text)
    for step in mode.split(".") if derived else []:
        program = _STEPS[step](program) if step in _STEPS else program
    return program.text if derived else text


def numbers_of(case: str) -> str:
    """The kind of numbers in a case's arguments."""
    return {"program": "whole", "calls": "whole", "arrays": "any"}.get(case.partition(":")[0], "smooth")


def outcome(text: str, target: str, numbers: str) -> Outcome:
    """The outcome of a program. For "smooth" arguments, results are compared with a tolerance."""
    try:
        program = tiduc.load(text)
        options = Options(target, limits=Limits(seconds=SECONDS / 2), cached=False)
        lowered = program.lower()
    except TiducError as error:
        return "refused", str(error)
    arguments = arguments_of(program.signature, numbers)
    expected = [by_xla(re.sub(_DONATED, "", text), each) for each in arguments]
    try:
        vmfb = build(lowered, options)
    except CompileError as error:
        return "rejected", str(error)
    except TiducError as error:
        return "refused", str(error)
    try:
        wrong = _differences(vmfb, target, arguments, expected, numbers != "smooth")
    except TiducError as error:
        return "error", str(error)
    if not wrong:
        wrong = [fault for each in arguments if (fault := memory_fault(program, target, each))]
    return ("wrong", "; ".join(wrong)) if wrong else ("ok", "")


def _differences(
    vmfb: bytes, target: str, arguments: list[list[Array]], expected: list[tuple[Array, ...]], exact: bool
) -> list[str]:
    """Messages about wrong results and changed arguments, for calls on host arrays and on device arrays."""
    module = load_module(vmfb, target)
    run = next(iter(module.values()))
    ways: list[tuple[str, Callable[[Array], Any], Callable[..., Any]]] = [
        ("host", np.array, run),
        ("device", module.put, run.keep),
    ]
    differences = []
    for where, put, call in ways:
        given = [[put(x) for x in each] for each in arguments]
        results = []
        for n in CALLS:
            fresh = (put(arguments[n][i]) if i in run.donated else x for i, x in enumerate(given[n]))
            results.append((n, call(*fresh)))
        for each, before in zip(given, arguments, strict=True):
            for i, (x, y) in enumerate(zip(each, before, strict=True)):
                if not np.array_equal(np.asarray(x), y):
                    differences.append(f"{where}: argument {i} has changed")
        for n, values in results:
            for i, (x, y) in enumerate(zip(values, expected[n], strict=True)):
                if not agree(np.asarray(x), y, exact):
                    differences.append(
                        f"{where}: result {i} of arguments {n}: {x!r} for {y!r}".replace("\n", " ")
                    )
    return differences


def agree(x: Array, y: Array, exact: bool) -> bool:
    """Whether two arrays are equal or, without `exact`, close relative to the largest number."""
    if x.shape != y.shape or x.dtype != y.dtype:
        return False
    if exact or x.dtype.kind not in "fc":
        return bool(np.array_equal(x, y, equal_nan=x.dtype.kind in "fcV"))
    tolerance = 1e-7 if x.dtype in (np.float64, np.complex128) else 3e-3
    largest = max(1.0, float(np.max(np.abs(y), initial=0, where=np.isfinite(y))))
    return bool(np.allclose(x, y, rtol=0, atol=tolerance * largest, equal_nan=True))


def tried(request: Sequence[str]) -> Outcome:
    """The outcome of (case, target), or of (text, target, numbers)."""
    try:
        if len(request) == 3:
            text, target, numbers = request
            return outcome(text, target, numbers)
        case, target = request
        try:
            text = text_of(case, target)
        except TiducError as error:
            return "refused", str(error)
        return outcome(text, target, numbers_of(case))
    except Exception as error:
        return "crash", repr(error)


def new_worker() -> Worker:
    """Starts a worker, with flags that make XLA compile quickly."""
    os.environ.setdefault("XLA_FLAGS", XLA_FLAGS)
    return Worker([sys.executable, __file__, "--work"])


def asked(worker: Worker, *request: str) -> Outcome:
    answer = worker.asked(request, SECONDS)
    return (answer, "") if isinstance(answer, str) else (answer[0], answer[1])


def known(journal: Path | None, target: str, repeated: str) -> dict[str, Outcome]:
    """A journal's outcomes for a target, except categories in `repeated`, a comma-separated list."""
    if journal is None or not journal.exists():
        return {}
    rows = [json.loads(line) for line in journal.read_text().splitlines()]
    outcomes = {case: (category, detail) for case, of, category, detail in rows if of == target}
    return {case: outcome for case, outcome in outcomes.items() if outcome[0] not in repeated.split(",")}


def sweep(cases: Sequence[str], target: str, journal: Path | None = None, repeated: str = "") -> Counter[str]:
    """Counts the cases by category. Prints the cases that are neither ok nor refused."""
    counts: Counter[str] = Counter()
    before, worker = known(journal, target, repeated), new_worker()
    for case in cases:
        category, detail = before.get(case) or asked(worker, case, target)
        counts[category] += 1
        if case not in before and journal is not None:
            with journal.open("a") as file:
                file.write(json.dumps([case, target, category, detail[:1000]]) + "\n")
        if category not in ("ok", "refused"):
            print(f"{category:9}{case:14}{detail[:300]}", flush=True)
    worker.close()
    return counts


def reduce(case: str, target: str, seconds: float) -> str:
    """A smaller program that fails like the case, with its outcome in a comment."""
    worker, numbers = new_worker(), numbers_of(case)
    text = text_of(case, target)
    first = asked(worker, text, target, numbers)

    def fails(text: str) -> bool:
        category, detail = asked(worker, text, target, numbers)
        return category == first[0] and (category != "rejected" or _message(detail) == _message(first[1]))

    if first[0] != "ok":
        text = reduced(text, fails, seconds)
    worker.close()
    return f"// {first[0]}: {first[1][:300]}\n{text}"


def _message(detail: str) -> str:
    """The compiler's message without its location."""
    return detail.partition("error: ")[2][:60]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--of", default=",".join(MODES[:3]), help="kinds of cases")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=100, help="how many seeds")
    parser.add_argument(
        "--journal", type=Path, help="file for outcomes, one per line; a later run continues it"
    )
    parser.add_argument("--again", default="", metavar="CATEGORY,...", help="categories to run again")
    add_option(parser)
    parser.add_argument("--reduce", metavar="CASE", help="print a smaller program that fails like this case")
    parser.add_argument("--seconds", type=float, default=300, help="time limit of --reduce")
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    pass_on(options)
    if options.work:
        answer_requests(tried)
    elif options.reduce:
        print(reduce(options.reduce, options.target, options.seconds))
    else:
        seeds = range(options.first, options.first + options.count)
        cases = [f"{mode}:{seed}" for seed in seeds for mode in options.of.split(",")]
        counts = sweep(cases, options.target, options.journal, options.again)
        print(summary(counts))


if __name__ == "__main__":
    main()
