"""A pytest plugin for the tests of rules that runs their programs on a target instead of checking derivatives.

    TARGET=cuda PYTHONPATH=test/py:test/sweep python -m pytest -p target_rules test/py/rules

The VJP of each program with respect to all differentiable inputs is compiled for the target. Its results, which include
the program's outputs, are compared with the results of the reference interpreter, or of XLA if the interpreter cannot
run an op. If tiduc refuses the program for the target, the test is skipped with the error message as the reason. A test
in `CHOICES` may fail.
"""

import os
from typing import Any

import numpy as np
import pytest
from harness import check_rule
from harness.check_rule import active, like, run
from harness.compare import compare

from tiduc.dialect.errors import CompileError, TiducError
from tiduc.loading import load

_INITIAL = "StableHLO allows engines to omit an initial value, and this initial value is not neutral"
CHOICES = {
    "test_eigh.py::test_as_jax": "eigenvectors are unique only up to sign or phase",
    "test_reduce.py::test_affine_maps": _INITIAL,
    "test_reduce_window.py::test_any_body": _INITIAL,
}
"""The tests that may fail, each with a reason: StableHLO's specification permits several results."""

TARGET = os.environ.get("TARGET", "cpu")
RTOL = 1e-9


def pytest_collection_modifyitems(items: Any) -> None:
    for item in items:
        name = item.nodeid.rpartition("/")[2].partition("[")[0]
        if name in CHOICES:
            item.add_marker(pytest.mark.xfail(raises=AssertionError, reason=CHOICES[name]))


def on_target(text: str, *arguments: Any, rtol: float = 0, seed: int = 0, **options: Any) -> None:
    """Checks the VJP on the target. The tests call this function instead of `check_rule`."""
    given = {"opset": options["opset"]} if "opset" in options else {}
    program, point = load(text, **given), [np.asarray(x) for x in arguments]
    names = [program.inputs[i].name for i in active(point)]
    primal, rng = run(program, point), np.random.default_rng(seed)
    derived = program.vjp(names) if names else program
    if names:
        point = [*point, *(like(y, rng) for y in primal if y.dtype.kind in "fc")]
    try:
        executable = derived.compile(TARGET)
    except CompileError:
        raise
    except TiducError as refused:
        pytest.skip(f"refused: {refused}")
    point = [x.astype(port.type.dtype) for x, port in zip(point, executable.signature.inputs, strict=True)]
    compare(executable(*point), run(derived, point), max(rtol, RTOL), f"on {TARGET}")


check_rule.check_rule = on_target  # type: ignore[assignment]
