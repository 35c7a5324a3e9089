"""Compares IREE's results with XLA's, for random loop programs, their derivatives, and random array programs.

    PYTHONPATH=test/py python test/sweep/random_loops.py [--target NAME]
        [--of program,vjp,jvp,vjp.jvp,arrays,calls,calls.vjp.memory] [--first N] [--count N] [--check-memory]
        [--journal FILE [--again CATEGORY,...]]
    PYTHONPATH=test/py python test/sweep/random_loops.py --reduce vjp:17 [--target NAME] [--seconds S]

A case is a kind and a seed. The kinds are:

    program            a loop program (`loop_programs.py`)
    vjp, jvp, vjp.jvp  a derivative of a loop program
    arrays             a program without loops (`array_programs.py`)
    calls              a loop program with calls of functions, nested up to three levels deep; its optimization barriers
                       are marked as barriers of recomputed ops
    calls.vjp.memory   the VJP of such a program, rematerialized to the lowest memory peak

The program is compiled as by `tiduc compile`, and called four times with three sets of arguments
(`random_arguments.py`), for which loops have trip counts of up to 3, 0, and up to 5. Then the calls are repeated with
arguments and results that stay on the device. The results of all calls are compared with XLA's after the last call, so
that a call that overwrites the results of another call is noticed. Results of derivatives have a tolerance. A call must
not change an argument unless a result aliases it. `--reduce` reduces a program that fails to a smaller program that
fails in the same way (`loop_reducer.py`). Categories:

    ok        the results agree
    refused   tiduc raises an error before it calls the compiler
    rejected  the compiler rejects the program, or crashes
    wrong     a result differs, or a call changes an argument
    error     the run raises a `TiducError`
    crash     the process dies, or raises another exception
    hang      there is no outcome after SECONDS
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
SECONDS = 300  # the time limit of a case
CALLS = 0, 1, 0, 2
"""For each call, the index of its set of arguments."""
_DONATED = r"iree\.abi\.output = \d+ : index"

_BARRIER = re.compile(r'"stablehlo\.optimization_barrier"\([^)]*\)')
_STEPS: dict[str, Callable[[tiduc.Program], tiduc.Program]] = {
    "vjp": lambda program: program.vjp(),
    "jvp": lambda program: program.jvp(),
    "memory": lambda program: program.rematerialize("min"),
}

Array = NDArray[Any]
Outcome = tuple[str, str]
"""The category of an outcome, and a text with details."""


def text_of(case: str, target: str) -> str:
    """Returns the program of a case such as `vjp:17`.

    For Vulkan, derivatives are in f32, because Vulkan has no sine in f64.
    """
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
    """Returns the kind of elements in the arguments of a case: "whole", "any" or "smooth", as for `arguments_of`."""
    return {"program": "whole", "calls": "whole", "arrays": "any"}.get(case.partition(":")[0], "smooth")


def outcome(text: str, target: str, numbers: str) -> Outcome:
    """Returns the outcome of a program.

    With "smooth" arguments, results have a tolerance. Otherwise, they must be equal.
    """
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
    """Calls a program on host arrays and on device arrays.

    Returns messages about wrong results and changed arguments.
    """
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
    """Returns whether two arrays are equal.

    Without `exact`, floats may have an error relative to the largest element.
    """
    if x.shape != y.shape or x.dtype != y.dtype:
        return False
    if exact or x.dtype.kind not in "fc":
        return bool(np.array_equal(x, y, equal_nan=x.dtype.kind in "fcV"))
    tolerance = 1e-7 if x.dtype in (np.float64, np.complex128) else 3e-3
    largest = max(1.0, float(np.max(np.abs(y), initial=0, where=np.isfinite(y))))
    return bool(np.allclose(x, y, rtol=0, atol=tolerance * largest, equal_nan=True))


def tried(request: Sequence[str]) -> Outcome:
    """Returns the outcome of a request, which is (case, target) or (program text, target, kind of elements)."""
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
    """Returns a worker process with flags that reduce XLA's compile time."""
    os.environ.setdefault("XLA_FLAGS", XLA_FLAGS)
    return Worker([sys.executable, __file__, "--work"])


def asked(worker: Worker, *request: str) -> Outcome:
    answer = worker.asked(request, SECONDS)
    return (answer, "") if isinstance(answer, str) else (answer[0], answer[1])


def known(journal: Path | None, target: str, repeated: str) -> dict[str, Outcome]:
    """Maps cases to their outcomes for a target in a journal.

    Cases whose category is in `repeated`, a comma-separated list, are left out, so that they run again.
    """
    if journal is None or not journal.exists():
        return {}
    rows = [json.loads(line) for line in journal.read_text().splitlines()]
    outcomes = {case: (category, detail) for case, of, category, detail in rows if of == target}
    return {case: outcome for case, outcome in outcomes.items() if outcome[0] not in repeated.split(",")}


def sweep(cases: Sequence[str], target: str, journal: Path | None = None, repeated: str = "") -> Counter[str]:
    """Runs the cases that are not in the journal.

    Prints those that are neither ok nor refused, and returns the counts.
    """
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
    """Returns the text of a smaller program with the outcome of the case, and a comment with this outcome."""
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
    """Returns the beginning of the compiler's error message, without the location."""
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
