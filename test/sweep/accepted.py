"""Checks for each op, its JVP and its VJP whether a target, by default `cpu`, computes right results.

    PYTHONPATH=test/py python test/sweep/accepted.py [--filter PATTERN] [--target NAME] [--write]

The program for an op comes from the op's test in test/lit/rules, or from `one_op.mlir`. It is compiled and run on
random arguments in a separate process. The results are compared with those of the reference interpreter, or of XLA if
the interpreter lacks an op. The verdicts:

    right       the results agree
    wrong       a result differs, an exception is raised, or the process dies or exceeds the time limit
    compiles    the program compiles, but there is no reference result
    not run     the program compiles, but the runtime raises a `TiducError`
    refused     tiduc or the compiler refuses the program
    -           there is no program: the op has no such derivative, or the program does not contain the op
"""

import argparse
import multiprocessing
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import numpy as np
from counts import summary

from tiduc.dialect.errors import TiducError
from tiduc.dialect.ops.traits import STATEFUL
from tiduc.loading import load
from tiduc.program import Program
from tiduc.tables import ACCEPTED, Accepted

ROOT = Path(__file__).resolve().parents[2]
LIT = ROOT / "test" / "lit" / "rules"
SECONDS = 120
EPSILON = {"float64": 1e-9, "complex128": 1e-9, "float32": 1e-4, "complex64": 1e-4}


def programs() -> dict[str, str]:
    """Maps each op to the text of its program, in the order of test/py/cases/opset.txt."""
    lines = (ROOT / "test" / "py" / "cases" / "opset.txt").read_text().splitlines()
    ops = [line for line in lines if line and not line.startswith("#")]
    parts = Path(__file__).with_name("one_op.mlir").read_text().split("// -----\n")
    by_op = {}
    for op in ops:
        file = LIT / (op.replace("chlo.", "chlo_").removeprefix("stablehlo.") + ".mlir")
        named = re.compile(re.escape(op) + r'[\s"(]')
        texts = [file.read_text()] if file.is_file() else [part for part in parts if named.search(part)]
        if texts:
            by_op[op] = texts[0]
    return by_op


def program_of(op: str, text: str, kind: str) -> Program | None:
    """Returns the program of the first public function in a text, or its derivative.

    `kind` is "primal", "jvp" or "vjp".

    Returns None if the function does not contain the op, or has no such derivative.
    """
    entry = re.search(r"func\.func (?:public )?@(\w+)", text)
    program = load(text, entry[1] if entry else None)
    if op not in str(program):
        return None
    if kind == "primal":
        return program
    try:
        smooth = [
            port for port in program.outputs if program.opset.builder.tangent_type(port.type) is not None
        ]
        derived = getattr(program, kind)() if smooth and program.differentiated(None) else None
        return derived if derived is not None and derived.text else None
    except TiducError:
        return None


def arguments(program: Program) -> list[Any]:
    """Returns random arguments for a program. Floats are between 1 and 2, where all functions are defined.

    Integers are 0 or 1. Square matrices have a large diagonal, so that factorizations exist.
    """
    rng = np.random.default_rng(0)
    given = []
    for value in program.signature.inputs:
        shape = tuple(3 if n is None else n for n in value.type.shape)
        kind = np.dtype(value.type.dtype)
        x: Any = rng.integers(0, 2, shape) if kind.kind in "iub" else rng.uniform(1, 2, shape)
        if kind.kind == "c":
            x = x + 1j * rng.uniform(1, 2, shape)
        if kind.kind in "fc" and len(shape) > 1 and shape[-1] == shape[-2]:
            x = x + 4 * shape[-1] * np.eye(shape[-1])
        given.append(np.asarray(x).astype(kind))
    return given


def compiled(op: str, text: str, kind: str, target: str) -> Any:
    """Compiles and runs the program of an op. Returns the results, or a text such as "refused: ..." for an error.

    Returns None if there is no program.
    """
    program = program_of(op, text, kind)
    if program is None:
        return None
    try:
        executable = program.compile(target)
    except TiducError as error:
        return "refused: " + error.message.partition(": ")[2].partition(". ")[0]
    try:
        return [np.asarray(y) for y in executable(*arguments(program))]
    except TiducError as error:
        return "not run: " + "; ".join(
            error.message.removeprefix("main failed while running: ").split("; ")[:2]
        )


def expected(op: str, text: str, kind: str) -> Any:
    """Returns the results of the program of an op on the reference interpreter or XLA."""
    from harness.check_rule import run

    program = program_of(op, text, kind)
    assert program is not None
    return run(program, arguments(program))


class Worker:
    """A worker process that calls functions. It is replaced if it dies or exceeds the time limit."""

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None

    def __call__(self, function: Callable[..., Any], *given: Any) -> Any:
        """Calls a function in the process and returns its result.

        Returns a text that begins with "wrong: " if the call raises an exception, or if the process dies or takes too
        long.
        """
        if self._pool is None:
            self._pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))
        try:
            return self._pool.submit(function, *given).result(SECONDS)
        except (BrokenProcessPool, TimeoutError):
            for process in list((self._pool._processes or {}).values()):
                process.kill()
            self.close()
            return "wrong: the process died, or took too long"
        except Exception as error:  # the call may raise any exception
            return f"wrong: {type(error).__name__}: {str(error).strip().splitlines()[-1][:100]}"

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None


def verdict(worker: Worker, op: str, text: str, kind: str, target: str = "cpu") -> str:
    """Returns the verdict for the program of an op. Verdicts are listed in the text above.

    "refused" and "not run" are followed by a reason.
    """
    actual = worker(compiled, op, text, kind, target)
    if actual is None:
        return "-"
    if isinstance(actual, str) and not actual.startswith("not run"):
        return actual
    known = worker(expected, op, text, kind)
    if isinstance(known, str) or op in STATEFUL:
        return "compiles"
    if isinstance(actual, str):
        return actual
    for x, y in zip(actual, known, strict=True):
        tolerance = EPSILON.get(x.dtype.name, 0 if x.dtype.kind in "iub" else 0.05)
        if not np.allclose(x.astype(complex), y.astype(complex), tolerance, tolerance, equal_nan=True):
            return "wrong"
    return "right"


def sweep(ops: Sequence[str], target: str = "cpu") -> Iterator[Accepted]:
    """Yields a row of the table for each op that has a program."""
    worker, texts = Worker(), programs()
    for op in ops:
        if op in texts:
            verdicts = (verdict(worker, op, texts[op], kind, target) for kind in ("primal", "jvp", "vjp"))
            yield Accepted(op, *verdicts)
    worker.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--filter", default="", help="only ops whose names match this pattern")
    parser.add_argument("--target", default="cpu", help="the target for compilation and runs")
    parser.add_argument(
        "--write", action="store_true", help="write the rows of these ops to tiduc/tables/accepted.tsv"
    )
    options = parser.parse_args()
    if options.write and options.target != "cpu":
        parser.error("the table is that of the target cpu: --write does not go with --target")
    rows = []
    for row in sweep([op for op in programs() if re.search(options.filter, op)], options.target):
        rows.append(row)
        print(*row, sep="\t", flush=True)
    if options.write:
        known = {row.op: row for row in [*ACCEPTED.read(), *rows]}
        ACCEPTED.write(known[op] for op in programs() if op in known)
    counts = Counter(each for row in rows for each in (row.primal, row.jvp, row.vjp))
    counts["no program"] = counts.pop("-", 0)
    print(summary(counts))
    return int(options.target == "cpu" and counts["wrong"] > 0)


if __name__ == "__main__":
    sys.exit(main())
