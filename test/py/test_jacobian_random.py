"""For random programs, all modes give equal Jacobians, and batched programs agree with single runs.

This command checks 1000 programs:

PYTHONPATH=test/py:test/fuzz python test/py/test_jacobian_random.py 1000
"""

import sys
from collections import Counter
from random import Random
from typing import Any

import numpy as np
from comparison import point_of
from composer import composed
from control_families import CONTROL
from elementwise_families import ELEMENTWISE
from harness.check_batch import check_batch
from harness.check_rule import run
from harness.compare import compare
from index_families import INDICES
from numpy.typing import NDArray
from reduction_families import REDUCTIONS
from shape_families import SHAPES
from window_families import WINDOWS

from tiduc.loading import load
from tiduc.program import Program

Array = NDArray[Any]
FAMILIES = (*ELEMENTWISE, *CONTROL, *SHAPES, *REDUCTIONS, *INDICES, *WINDOWS)
"""Families of ops that the reference interpreter, or the engine that replaces it in tests, can run."""


def is_complex(port: Any) -> bool:
    return "complex" in str(port.type)


def agree(actual: tuple[Array, ...], expected: tuple[Array, ...], text: str) -> None:
    """Asserts that arrays agree where both are finite.

    One may be NaN elsewhere, because only dense derivatives multiply 0 by infinity.
    """
    for x, y in zip(actual, expected, strict=True):
        finite = np.isfinite(x) & np.isfinite(y)
        compare([x[finite]], [y[finite]], 1e-8, text)


def check(text: str, seed: int) -> Counter[str]:
    """Checks a program: batches against single runs, Jacobians in all modes, and the Laplacian against the Hessian.

    Returns which checks were possible.
    """
    program = load(text)
    point = point_of(program, np.random.default_rng(seed))
    check_batch(program, *point, subsets=False, rtol=1e-9)
    counts = Counter(batched=1)
    wrt = [port.name for port in program.differentiated(None) if not is_complex(port)]
    if not wrt:
        return counts
    expected = run(program.jacobian(wrt, "forward"), point)
    agree(run(program.jacobian(wrt, "forward", sparsity="auto"), point), expected, text)
    if not any(map(is_complex, program.outputs)):
        for sparsity in (None, "auto"):
            for mode in ("reverse", "auto"):
                agree(run(program.jacobian(wrt, mode, sparsity=sparsity), point), expected, text)
        _check_laplacian(program, wrt[:1], point, text)
        counts["reversed"] += 1
    counts["differentiated"] += 1
    return counts


def _check_laplacian(program: Program, wrt: list[str], point: list[Array], text: str) -> None:
    laplacians = run(program.laplacian(wrt), point)
    (x,) = program.differentiated(wrt)
    count = int(np.prod(x.type.shape, dtype=np.int64))
    hessians = run(program.hessian(wrt), point)
    squares = [h.reshape(*y.shape, count, count) for h, y in zip(hessians, laplacians, strict=True)]
    agree(laplacians, tuple(np.trace(h, axis1=-2, axis2=-1) for h in squares), text)


def sample(count: int) -> Counter[str]:
    """Checks `count` random programs, and returns how often each kind of check was possible."""
    total: Counter[str] = Counter()
    for seed in range(count):
        total.update(check(composed(Random(seed), FAMILIES), seed))
    return total


def test_random_programs() -> None:
    total = sample(20)
    assert total["batched"] >= 20 and total["differentiated"] > 15 and total["reversed"] > 10


if __name__ == "__main__":
    print(dict(sample(int(sys.argv[1]))))
