"""Names of inputs and outputs, which are taken from hand-written text and from the text that JAX writes."""

import os
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tiduc
from tiduc.dialect.errors import RequestError
from tiduc.dialect.mlir.emit import bytecode

TEXT = """// func.func @main(%wrong: tensor<f64>, %names: tensor<f64>)
module {
  func.func public @main(%a: tensor<f64>, // %comment
                         %x.y-1: tensor<f64> {mine.text = "%wrong: )"}, %2: tensor<f64>, %arg7: tensor<f64>)
      -> tensor<f64> {
    %0 = stablehlo.multiply %a, %x.y-1 : tensor<f64>
    return %0 : tensor<f64>
  }
  func.func private @other(%wrong: tensor<f64>) -> tensor<f64> { return %wrong : tensor<f64> }
}"""
NAMES = ["a", "x.y-1", "arg2", "arg3"]


def names(ports: Any) -> list[str]:
    return [port.name for port in ports]


def test_arguments_have_the_names_of_the_text(tmp_path: Path) -> None:
    """Inputs get the names of the arguments in the text.

    Numbers, and names that MLIR's printer generates, are not used.
    """
    file = tmp_path / "f.mlir"
    file.write_text(TEXT)
    program = tiduc.load(file)
    for each in (program, tiduc.load(TEXT), tiduc.load(TEXT.encode()), tiduc.load(bytecode(program.module))):
        assert names(each.inputs) == NAMES
    assert names(program.grad("x.y-1").outputs) == ["x.y-1.cotangent"]
    assert names(tiduc.load(program.text).inputs) == NAMES
    assert names(tiduc.load(file, isolated=True).inputs) == NAMES


@pytest.mark.parametrize("name", ['we"ird é.mlir', "a b.mlir", "a\\b.mlir", os.fsdecode(b"\xff.mlir")])
def test_names_of_files(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.write_text(TEXT)
    assert names(tiduc.load(file).inputs) == NAMES


def test_functions_of_nested_modules() -> None:
    assert names(tiduc.load(f"module @outer {{\n{TEXT}\n}}").inputs) == NAMES


def test_other_sources_of_names_come_first() -> None:
    text = """func.func @main(%a: tensor<f64> {tidu.name = "one"}, %b: tensor<f64> loc("two"), %é: tensor<f64>)"""
    body = "-> tensor<f64> { return %a : tensor<f64> }"
    assert names(tiduc.load(f"{text.replace(', %é: tensor<f64>', '')} {body}").inputs) == ["one", "two"]
    with pytest.raises(tiduc.ParseError):  # MLIR's names must be ASCII
        tiduc.load(f"{text} {body}")


def test_a_location_that_names_another_file() -> None:
    text = 'func.func @main(%a: tensor<f64> loc("-":1:17)) -> tensor<f64> { return %a : tensor<f64> }'
    assert names(tiduc.load(text).inputs) == ["a"]
    for elsewhere in ('"-":7:1', '"-":1:900', '"-":0:0', '"model.py":1:17', '"-":1:2'):
        assert names(tiduc.load(text.replace('"-":1:17', elsewhere)).inputs) == ["arg0"]


def test_a_location_whose_file_is_not_text() -> None:
    text = rb"""func.func @main(%x: tensor<f64> loc("\FF.py":1:2), %y: tensor<f64>) -> tensor<f64> {
      return %x : tensor<f64>
    }"""
    assert names(tiduc.load(text).inputs) == ["arg0", "y"]


def test_unknown_names_are_answered_with_the_inputs() -> None:
    program = tiduc.load(TEXT)
    for wrong in ("z", "arg4", "A", ""):
        with pytest.raises(RequestError, match=r"the inputs are 0: a, 1: x\.y-1, 2: arg2, 3: arg3$"):
            program.vjp(wrong)


def test_positions_as_mlir_prints_them() -> None:
    program = tiduc.load(TEXT)
    assert names(program.grad("arg1").outputs) == ["x.y-1.cotangent"]
    with pytest.raises(RequestError, match="given twice"):
        program.grad(["a", "arg0"])


def test_jax_text_with_locations() -> None:
    def loss(params: dict[str, Any], x: Any) -> dict[str, Any]:
        y = x @ params["w"]
        return {"loss": jnp.sum(y), "scores": (y, [x])}

    lowered = jax.jit(loss).lower({"w": jnp.ones((3, 2))}, jnp.ones(3))
    outputs = ["result['loss']", "result['scores'][0]", "result['scores'][1][0]"]
    for debug_info, inputs in ((True, ["params['w']", "x"]), (False, ["arg0", "arg1"])):
        program = tiduc.load(lowered.as_text(debug_info=debug_info))
        assert names(program.inputs) == inputs and names(program.outputs) == outputs


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("['loss']", "result['loss']"),
        ("result.loss", "result.loss"),
        ("result[0]", "result0"),
        ("[0][1]", "result0"),
        ("", "result0"),
        ("result", "result0"),
    ],
)
def test_paths_of_results(path: str, name: str) -> None:
    text = f"""func.func @main(%x: tensor<f64>) -> (tensor<f64> {{jax.result_info = "{path}"}}) {{
      return %x : tensor<f64>
    }}"""
    assert names(tiduc.load(text).outputs) == [name]


@pytest.mark.parametrize("name", [r"f\22g", ") -> (%x: tensor<f32>", r"a\0A\\x"])
def test_names_of_functions_that_iree_does_not_escape(name: str) -> None:
    """A program compiles and runs if the name of its function contains characters that IREE does not escape.

    IREE writes the function's declaration with this name before the arguments.
    """
    text = f"""func.func @"{name}"(%x: tensor<2xf32> {{tidu.name = "x"}}) -> tensor<2xf32> {{
      %0 = stablehlo.multiply %x, %x : tensor<2xf32>
      return %0 : tensor<2xf32>
    }}"""
    call = tiduc.load(text).vjp().compile()
    x, t = np.array([2, 3], np.float32), np.ones(2, np.float32)
    np.testing.assert_array_equal(call(x, t)[1], 2 * x)
