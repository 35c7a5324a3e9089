"""Compares the results of static libraries with the results of modules that IREE's runtime runs.

PYTHONPATH=test/py python test/sweep/static_libraries.py examples/*_f32.mlir

If a program has one scalar result, its gradient is compared, otherwise the program itself.
"""

import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
from counts import summary
from harness.static_libraries import run_library

import tiduc
from tiduc.dialect.errors import TiducError
from tiduc.program import Program
from tiduc.runtime.arrays import parse_inputs


def compared(name: str, program: Program) -> str:
    """Runs a program both ways with random arguments. Returns "equal", or the largest difference of the results."""
    arrays = parse_inputs(["random"] * len(program.signature.inputs), program.signature.inputs, 0)
    expected = program.compile("x86_64")(*arrays)
    with tempfile.TemporaryDirectory() as folder:
        found = run_library(program, arrays, Path(folder), offset=4)
    for x, y in zip(found, expected, strict=True):
        if not np.allclose(x, y, rtol=1e-4, atol=1e-5, equal_nan=True):
            return f"differs by {np.max(np.abs(x.astype(complex) - y)):.1e}"
    return "equal"


def main() -> int:
    counts: Counter[str] = Counter()
    for file in sys.argv[1:]:
        try:
            program = tiduc.load(file)
            scalar = len(program.outputs) == 1 and not program.signature.outputs[0].type.shape
            told = compared(file, program.grad() if scalar else program)
        except TiducError as error:
            told = f"refused: {str(error)[:150]}"
        except Exception as error:  # such as a failure of the C compiler or of the compiled program
            told = f"failed: {error!r:.200}"
        counts[told.partition(":")[0].partition(" ")[0]] += 1
        print(f"{file}: {told}", flush=True)
    print(summary(counts))
    return int(counts["differs"] + counts["failed"] > 0)


if __name__ == "__main__":
    sys.exit(main())
