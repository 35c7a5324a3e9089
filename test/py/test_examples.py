"""The example networks, compiled for CPUs, give JAX's results, which are stored in files beside the networks.

IREE takes seconds to compile a derivative. Fast tests compile only the perceptron's f64 gradient with IREE, and the
other derivatives with XLA.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from harness.example_files import EXAMPLES

from tiduc.loading import load
from tiduc.program import Program

TOLERANCE = {"f32": 1e-5, "f64": 1e-10}  # relative to the largest entry of each array


class Example:
    """The example program in the file `name`, and its stored arrays."""

    def __init__(self, name: str) -> None:
        self.program = load(EXAMPLES / f"{name}.mlir")
        self.stored = np.load(EXAMPLES / f"{name}.npz")
        self.tolerance = TOLERANCE[name.rpartition("_")[2]]
        self.inputs = [self.stored[f"input.{i}"] for i in range(len(self.program.inputs))]
        self.wrt = [i for i in range(len(self.inputs)) if f"grad.{i}" in self.stored]
        self.tangents = [self.stored[f"tangent.{i}"] for i in self.wrt]

    def check(self, derived: Program, arguments: Sequence[Any], keys: Sequence[str], engine: str) -> None:
        """Asserts that the derived program's results equal the arrays stored under these keys."""
        results = derived.compile(engine=engine)(*arguments)
        for key, actual in zip(keys, results, strict=True):
            expected = self.stored[key]
            allowed = self.tolerance * float(np.max(np.abs(expected)))
            np.testing.assert_allclose(actual, expected, rtol=0, atol=allowed, err_msg=key)


NAMES = [f"{name}_{kind}" for name in ("mlp", "convnet", "transformer") for kind in TOLERANCE]
FAST = ("mlp_f64", "convnet_f64")
F64_FIRST = [pytest.param(name, marks=[] if name in FAST else [pytest.mark.slow]) for name in NAMES]
ENGINES = ["xla", pytest.param("iree", marks=pytest.mark.slow)]


@pytest.fixture(scope="module")
def example(request: pytest.FixtureRequest) -> Example:
    return Example(request.param)


every_example = pytest.mark.parametrize("example", NAMES, indirect=True, scope="module")
f64_first = pytest.mark.parametrize("example", F64_FIRST, indirect=True, scope="module")
every_engine = pytest.mark.parametrize("engine", ENGINES)


@every_engine
@f64_first
def test_gradient(example: Example, engine: str) -> None:
    keys = ["loss", *(f"grad.{i}" for i in example.wrt)]
    example.check(example.program.grad(value=True), example.inputs, keys, engine)


def test_gradient_by_iree() -> None:
    example = Example("mlp_f64")
    keys = ["loss", *(f"grad.{i}" for i in example.wrt)]
    example.check(example.program.grad(value=True), example.inputs, keys, "iree")


@every_engine
@f64_first
def test_jvp(example: Example, engine: str) -> None:
    example.check(example.program.jvp(), [*example.inputs, *example.tangents], ["loss", "jvp"], engine)


@every_engine
@f64_first
def test_hvp(example: Example, engine: str) -> None:
    keys = [f"hvp.{i}" for i in example.wrt]
    example.check(example.program.hvp(), [*example.inputs, *example.tangents], keys, engine)


@every_example
def test_every_differentiable_input_is_stored(example: Example) -> None:
    assert [port.name for port in example.program.differentiated(None)] == [
        example.program.inputs[i].name for i in example.wrt
    ]
