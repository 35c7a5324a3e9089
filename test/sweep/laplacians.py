"""Compares Laplacians of random programs with sums of second derivatives, which jets compute one by one.

    PYTHONPATH=test/py:test/sweep:test/fuzz python test/sweep/laplacians.py [--first SEED] [--count N]

The programs are those of `test/fuzz/programs.py` with static shapes. The Laplacian is that with respect to all real
inputs of at most six elements. `Program.laplacian` batches the basis vectors and moves sums through ops
(`passes/collapse.py`). The expected value is the sum of the second derivatives along the basis vectors, each computed
by a jet, without batching. Prints each program whose category is not `ok`: `wrong`, `refused`, `no inputs`, or `not
run` if neither the reference interpreter nor XLA runs the program. The exit status is 1 if a program is wrong.
"""

import argparse
import re
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from comparison import case_of
from counts import summary
from harness.check_rule import run
from harness.xla import OF_IREE
from numpy.typing import NDArray
from programs import program

from tiduc.dialect.errors import TiducError
from tiduc.loading import load
from tiduc.program import Program

MOST = 6
TOLERANCE = 1e-9

Array = NDArray[Any]


def category(seed: int) -> tuple[str, str]:
    """Returns the category of a program, and the reason if the category is not `ok`."""
    text = program(seed)
    if "?" in text or any(re.search(pattern, text) for pattern in OF_IREE):
        return "not run", ""  # only IREE runs these programs, and here without tiduc's workarounds
    try:
        f, case = load(text), case_of(text, seed)
        wrt = [i for i in case.wrt if case.point[i].dtype.kind == "f" and 0 < case.point[i].size <= MOST]
        if not wrt:
            return "no inputs", ""
        found = run(f.laplacian([f.inputs[i].name for i in wrt]), case.point)
        expected = by_jets(f, case.point, wrt)
    except TiducError as error:
        return "refused", str(error)
    for x, y in zip(found, expected, strict=True):
        finite = np.isfinite(y)
        error = np.max(np.abs(x - y)[finite], initial=0) / np.max(np.abs(y)[finite], initial=1)
        if error > TOLERANCE:
            return "wrong", f"relative error {error:.1e}"
    return "ok", ""


def by_jets(f: Program, point: Sequence[Array], wrt: Sequence[int]) -> list[Array]:
    """Returns the Laplacian of each differentiable output: the sum of its second derivatives along all basis vectors.

    A second derivative is twice the second Taylor coefficient, which a jet computes.
    """
    jet = f.jet(2, [f.inputs[i].name for i in wrt])
    total: list[Array] = []
    for i in wrt:
        for entry in range(point[i].size):
            series = [np.zeros((2, *point[k].shape)) for k in wrt]
            series[wrt.index(i)].reshape(2, -1)[0, entry] = 1
            seconds = [2 * y[1] for y in run(jet, [*point, *series])[len(f.outputs) :]]
            total = [a + b for a, b in zip(total, seconds, strict=True)] if total else seconds
    return total


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=200)
    given = parser.parse_args()
    found: Counter[str] = Counter()
    for seed in range(given.first, given.first + given.count):
        kind, reason = category(seed)
        found[kind] += 1
        if kind != "ok":
            print(f"{seed}: {kind} {reason.partition(chr(10))[0]}".rstrip(), flush=True)
    print(summary(found))
    return int(found["wrong"] > 0)


if __name__ == "__main__":
    sys.exit(main())
