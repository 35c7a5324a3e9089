"""Calls `Program` objects with positional, named and default arguments, and tests their cost, text and picture."""

import importlib.metadata
from typing import Any

import numpy as np
import pytest
from harness.stages import F64

import tiduc
from tiduc.dialect.errors import InputError
from tiduc.dialect.mlir.context import parse
from tiduc.loading import load
from tiduc.models.model import model_of
from tiduc.program import Program

TEXT = f"""
func.func @main(%a: {F64} {{tidu.name = "a"}}, %x: {F64} {{tidu.name = "x"}}) -> ({F64} {{tidu.name = "y"}}) {{
  %0 = stablehlo.multiply %a, %x : {F64}
  %1 = stablehlo.exponential %0 : {F64}
  return %1 : {F64}
}}
"""


@pytest.fixture(scope="module")
def program() -> Program:
    return load(TEXT)


def test_arguments(program: Program) -> None:
    a, x = np.array(2.0), np.array(0.5)
    expected = np.exp(1.0)
    for y in (program(a, x), program(a, x=x), program(x=x, a=a)):
        assert isinstance(y, np.ndarray) and y.shape == () and np.allclose(y, expected)
    value, da = program.grad("a", value=True)(a, x)
    assert np.allclose([value, da], [expected, 0.5 * expected])


def test_compiled_once_for_each_target(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []

    def count(self: Program, target: str = "cpu", **options: Any) -> Any:
        compiled.append(target)
        return compile_(self, "cpu", **options)

    compile_ = Program.compile
    monkeypatch.setattr(Program, "compile", count)
    again = load(TEXT)
    for _ in range(2):
        again(1.0, 2.0)
        again.on("cpu-threads")(1.0, x=2.0)
    assert compiled == ["cpu", "cpu-threads"]


@pytest.mark.parametrize(
    ("arguments", "named", "message"),
    [
        ((1.0,), {}, "no argument for x; the inputs are: a, x"),
        ((1.0, 2.0, 3.0), {}, "takes 2 arguments"),
        ((1.0,), {"a": 2.0}, "'a' is given by position and by name"),
        ((1.0,), {"b": 2.0}, "no input 'b'"),
        ((np.float32(1.0), 2.0), {}, "got dtype float32"),
    ],
)
def test_wrong_arguments(program: Program, arguments: Any, named: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        program(*arguments, **named)


def test_weights_are_defaults() -> None:
    model = model_of(parse(TEXT), {"a": np.array(2.0)})
    assert np.allclose(model(0.5), np.exp(1.0))
    assert np.allclose(model(x=0.5), np.exp(1.0))
    assert np.allclose(model(0.5, a=4.0), np.exp(2.0))
    assert np.allclose(model.grad("x")(0.5), 2 * np.exp(1.0))
    with pytest.raises(InputError, match=r"takes 1 arguments \(x\), but the call has 2"):
        model(1.0, 2.0)


def test_lower(program: Program) -> None:
    lowered = program.lower()
    assert lowered.as_text() == program.text and str(lowered.signature) == "(a: f64, x: f64) -> (y: f64)"


def test_cost(program: Program) -> None:
    cost = program.cost()
    assert (cost.flops, cost.transcendentals) == (2, 1)


def test_names_of_the_package() -> None:
    assert tiduc.__version__ == importlib.metadata.version("tiduc")
    names = dir(tiduc)
    assert {"load", "OpSet", "Program", "__version__", "eager", "runtime"} <= set(names)
    assert not [name for name in names if name.startswith("_") and name != "__version__"]
    assert not {"import_module", "Any", "TYPE_CHECKING"} & set(names)
    assert tiduc.OPSET.__class__ is tiduc.OpSet


def test_picture(program: Program) -> None:
    pytest.importorskip("pygraphviz")
    shown = program._repr_html_()
    assert "<svg" in shown and "exponential" in shown and "tensor&lt;f64&gt;" in shown and "@main" in shown


def test_a_large_program_is_not_drawn() -> None:
    lines = [f"%v0 = stablehlo.tanh %x : {F64}"]
    rng = np.random.default_rng(0)
    for i in range(400):
        lines.append(
            f"%v{i + 1} = stablehlo.{rng.choice(['sine', 'tanh', 'cosine', 'negate', 'cbrt'])} %v{i} : {F64}"
        )
    text = f"func.func @main(%x: {F64}) -> {F64} {{" + "\n".join(lines) + f"\nreturn %v400 : {F64} }}"
    assert "boxes; <code>tiduc view</code>" in load(text)._repr_html_()
