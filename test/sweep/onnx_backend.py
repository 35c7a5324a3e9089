"""ONNX's backend tests, unmodified: python test/sweep/onnx_backend.py [--every N] [--jobs N] [NAME...]

Imports the model of each node test, runs the program on the test's inputs with StableHLO's interpreter, compares
the results with the test's, and writes the table of docs/onnx_backend.md. Where the import asks for the value of
an input, the test runs again with the test's own value as a constant, and is counted apart. Tests of
sequences, strings and element types that the interpreter cannot return are not counted. Exits with 1 where a
result is wrong or a process dies. With `--every N` only each N-th test runs, and with names only tests whose name
contains one of them; both print the table instead.
"""

import argparse
import os
import pickle
import resource
import select
import signal
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from onnx.backend.test.case.node import collect_testcases

import tiduc
from tiduc.backends.reference.interpreter import evaluate
from tiduc.models.onnx_inputs import needed_constants
from tiduc.runtime import worker

PAGE = Path(__file__).resolve().parents[2] / "docs" / "onnx_backend.md"
SECONDS, GIBIBYTES = 120, 8
RIGHT, CONSTANT, WRONG, REFUSED, DIED = "right", "right with constants", "wrong", "refused", "crash"
KINDS = (RIGHT, CONSTANT, WRONG, REFUSED, DIED)
ABOUT = """# ONNX's backend tests

The node tests of `onnx.backend.test`, each model as ONNX gives it and each input given when the program runs; written
by `python test/sweep/onnx_backend.py`. *Right with constants* are tests that need the value of an input, such
as axes or a shape, when the model is imported (`--constant INPUT=ARRAY`), and are right with this value. Tests of
sequences, strings, and element types that StableHLO's interpreter cannot return are not counted.

"""


@dataclass(frozen=True)
class Outcome:
    """The kind of one test's result, the type of its first node, and the reason of a refusal."""

    name: str
    operator: str
    kind: str
    why: str = ""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("names", nargs="*")
    given = parser.parse_args(arguments)
    chosen = [case for case in list(cases())[:: given.every] if matches(case.name, given.names)]
    outcomes = list(run_all(chosen, given.jobs))
    text = page(outcomes, given.every)
    if given.names or given.every > 1:
        print(text)
    else:
        PAGE.write_text(text)
    bad = [each for each in outcomes if each.kind in (WRONG, DIED)]
    for each in bad:
        print(each.kind, each.name, each.why, file=sys.stderr)
    return int(bool(bad))


def matches(name: str, wanted: Sequence[str]) -> bool:
    return not wanted or any(each in name for each in wanted)


def cases() -> Iterator[Any]:
    """The node tests whose inputs and outputs are numeric arrays that the interpreter can take and return."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        collected = collect_testcases(None)
    for case in collected:
        if case.model is None or not case.data_sets:
            continue
        ends = [x for side in case.data_sets[0] for x in side]
        if all(isinstance(x, np.ndarray | np.generic) and is_numeric(x.dtype) for x in ends):
            yield case


def is_numeric(dtype: Any) -> bool:
    return dtype.kind in "biufc" and dtype.isbuiltin == 1 and dtype != ml_dtypes.bfloat16


# ---- processes ---------------------------------------------------------------------------------------------


def run_all(chosen: Sequence[Any], jobs: int) -> Iterator[Outcome]:
    """The outcome of each test, each in a forked process with limits of time and memory.

    The process imports the model itself, which is fast. Where it dies, the test runs again as users run it: with
    the import in tiduc's worker.
    """
    worker._serving = True
    if chosen:
        outcome(chosen[0])  # loads, once, the packages that the forked processes share
    waiting = [(case, False) for case in reversed(chosen)]
    running: dict[int, tuple[int, Any, bool]] = {}
    while waiting or running:
        while waiting and len(running) < jobs:
            case, in_worker = waiting.pop()
            pipe, child = started(case, in_worker)
            running[pipe] = (child, case, in_worker)
        for pipe in select.select(list(running), [], [])[0]:
            data = os.read(pipe, 1 << 12)  # an outcome is written at once
            child, case, in_worker = running.pop(pipe)
            os.close(pipe)
            os.waitpid(child, 0)
            if not data and not in_worker:
                waiting.append((case, True))
                continue
            kind, why = pickle.loads(data) if data else (DIED, "the process ended")
            yield Outcome(case.name, case.model.graph.node[0].op_type, kind, why)


def started(case: Any, in_worker: bool) -> tuple[int, int]:
    """The pipe that the outcome comes through, and the process; `apart` imports in a worker of the process."""
    receiver, sender = os.pipe()
    child = os.fork()
    if child:
        os.close(sender)
        return receiver, child
    signal.alarm(SECONDS)
    resource.setrlimit(resource.RLIMIT_AS, (GIBIBYTES << 30, GIBIBYTES << 30))
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    worker._serving = not in_worker
    try:
        kind, why = outcome(case)
        os.write(sender, pickle.dumps((kind, why[:1000])))
    finally:
        os._exit(0)


# ---- one test ----------------------------------------------------------------------------------------------


def outcome(case: Any) -> tuple[str, str]:
    names = [value.name for value in case.model.graph.input]
    inputs, expected = case.data_sets[0]
    arrays = dict(zip(names, map(np.asarray, inputs), strict=True))
    try:
        return (RIGHT if is_right(case, arrays, {}, expected) else WRONG), ""
    except tiduc.TiducError as error:
        why = str(error).removeprefix("error: ").partition("\n")[0]
    if "--constant" not in why:
        return REFUSED, why
    constants = {name: arrays[name] for name in needed_constants(case.model.graph)}
    try:
        return (CONSTANT if is_right(case, arrays, constants, expected) else WRONG), ""
    except tiduc.TiducError as error:
        return REFUSED, str(error).removeprefix("error: ").partition("\n")[0]


def is_right(
    case: Any, arrays: Mapping[str, Any], constants: Mapping[str, Any], expected: Sequence[Any]
) -> bool:
    """Whether the program gives the test's results; random results are compared by type and shape only."""
    model = type(case.model)()
    model.CopyFrom(case.model)
    program = tiduc.from_onnx(model, constants=constants)
    results = evaluate(str(program), [x for name, x in arrays.items() if name not in constants])
    is_random = "stablehlo.rng" in str(program)
    return len(results) == len(expected) and all(
        is_close(x, np.asarray(y), is_random, case) for x, y in zip(results, expected, strict=True)
    )


def is_close(x: Any, y: Any, is_random: bool, case: Any) -> bool:
    if x.shape != y.shape or x.dtype != y.dtype:
        return False
    tolerance = 5e-3 if y.dtype == np.float16 else max(case.rtol, 1e-4)
    return is_random or np.allclose(x, y, rtol=tolerance, atol=max(case.atol, 1e-5), equal_nan=True)


# ---- the page ----------------------------------------------------------------------------------------------


def page(outcomes: Sequence[Outcome], every: int) -> str:
    counts = Counter(each.kind for each in outcomes)
    total = len(outcomes) or 1
    sample = f"These are the figures of one test in {every} (`--every {every}`).\n\n" if every > 1 else ""
    rows = [sample, "| | tests | share |\n|---|---|---|\n"]
    rows += [f"| {kind} | {counts[kind]} | {counts[kind] / total:.1%} |\n" for kind in KINDS]
    rows.append(f"| all | {len(outcomes)} | |\n\n")
    rows.append("## Tests that are not right\n\n")
    rows.append("| first node | tests | outcome | reason of the first |\n|---|---|---|---|\n")
    groups: dict[tuple[str, str], list[Outcome]] = {}
    for each in sorted(outcomes, key=lambda o: (o.operator, o.kind)):
        if each.kind not in (RIGHT, CONSTANT):
            groups.setdefault((each.operator, each.kind), []).append(each)
    for (operator, kind), members in groups.items():
        rows.append(f"| {operator} | {len(members)} | {kind} | {shortened(members[0].why)} |\n")
    return ABOUT + "".join(rows)


def shortened(why: str, width: int = 110) -> str:
    why = why.replace("|", r"\|")
    return why if len(why) <= width else why[: why.rindex(" ", 0, width)] + " ..."


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
