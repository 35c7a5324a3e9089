"""Weights of a model as inputs of the program and as constants in it, in memory and in files."""

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tiduc
from tiduc.backends.reference.interpreter import evaluate
from tiduc.cli import run
from tiduc.dialect.mlir.constants import has_resources
from tiduc.dialect.mlir.context import parse
from tiduc.dialect.mlir.emit import emit
from tiduc.models.constants import INLINE, freeze, lift
from tiduc.models.model import model_of
from tiduc.runtime.signature import DTYPES, ELEMENTS
from tiduc.runtime.weights import read_weights, write_weights

RNG = np.random.default_rng(0)
LARGE = RNG.standard_normal((INLINE // 4 + 1, 2)).astype(np.float32)


def program(**arrays: Any) -> str:
    """The text of a function that returns its inputs.

    The inputs have the types of the given arrays; the last one is a scalar %x.
    """
    types = {
        name: f"tensor<{'x'.join([*map(str, x.shape), ELEMENTS[x.dtype]])}>" for name, x in arrays.items()
    }
    inputs = "".join(f'%{name}: {type_} {{tidu.name = "{name}.0"}}, ' for name, type_ in types.items())
    results = "".join(f"{type_}, " for type_ in types.values())
    values = "".join(f"%{name}, " for name in types)
    return (
        f"func.func @main({inputs}%x: tensor<f32>) -> ({results}tensor<f32>) {{\n"
        f"  return {values}%x : {results}tensor<f32>\n}}"
    )


def named(**arrays: Any) -> dict[str, Any]:
    return {f"{name}.0": array for name, array in arrays.items()}


@pytest.mark.parametrize("array", [LARGE, LARGE[:2, :1], np.float32([[1, 2], [3, 4]]).T], ids=str)
def test_a_weight_is_an_input_or_a_constant(array: Any) -> None:
    module = parse(program(w=array))
    freeze(module, named(w=array))
    model = model_of(module, {})
    assert str(model.signature).startswith("(x: f32)")
    np.testing.assert_array_equal(model.compile()(np.float32(0))[0], array)
    assert has_resources(module) == (array.nbytes > INLINE)
    weights = lift(module)
    assert list(weights) == ["w.0"]
    np.testing.assert_array_equal(weights["w.0"], array)
    assert [port.name for port in model_of(module, weights).inputs] == ["w.0", "x"]


@pytest.mark.parametrize("name", [n for n, d in DTYPES.items() if d.kind in "fcV" and "E8M0" not in n])
@pytest.mark.parametrize("count", [3, INLINE + 1])
def test_element_types_survive(name: str, count: int) -> None:
    array = (np.arange(count) % 3 - 1).astype(DTYPES[name])
    module = parse(program(w=array))
    freeze(module, named(w=array))
    (lifted,) = lift(module).values()
    assert lifted.dtype == array.dtype
    np.testing.assert_array_equal(lifted.view(np.uint8), array.view(np.uint8))


def test_scalars_zeros_and_integers_stay_constants() -> None:
    module = parse("""func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
      %zero = stablehlo.constant dense<0.0> : tensor<2xf32>
      %index = stablehlo.constant dense<[1, 0]> : tensor<2xi32>
      %one = stablehlo.constant dense<1.0> : tensor<f32>
      %w = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
      %same = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
      %other = stablehlo.constant dense<[1.0, 3.0]> : tensor<2xf32>
      %0 = stablehlo.add %w, %same : tensor<2xf32>
      %1 = stablehlo.add %0, %other : tensor<2xf32>
      return %1 : tensor<2xf32>
    }""")
    weights = lift(module)
    assert {name: x.tolist() for name, x in weights.items()} == {"constant0": [1, 2], "constant1": [1, 3]}
    assert str(module).count("stablehlo.constant") == 3


def test_a_large_array_is_referred_to() -> None:
    array = LARGE.copy()
    module = parse(program(w=array))
    freeze(module, named(w=array))
    before = str(module)
    array[0, 0] += 1
    assert str(module) != before


def test_resources_in_a_file_become_inputs(tmp_path: Path) -> None:
    text = """func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
      %0 = stablehlo.constant dense_resource<"a weight"> : tensor<2xf32>
      %1 = stablehlo.multiply %0, %x : tensor<2xf32>
      return %1 : tensor<2xf32>
    }
    {-# dialect_resources: { builtin: { "a weight": "0x040000000000803F00000040" } } #-}"""
    (tmp_path / "m.mlir").write_text(text)
    out, weights = tmp_path / "out.mlir", tmp_path / "w.npz"
    command = ["import", str(tmp_path / "m.mlir"), "--weights", str(weights), "-o", str(out)]
    assert run(command) == 0
    assert {name: x.tolist() for name, x in read_weights(weights).items()} == {"a weight": [1, 2]}
    gradient = tiduc.load(out).vjp(["a weight"])
    assert gradient.outputs[1].name == "a weight.cotangent"


def test_derivatives_keep_resources_as_they_are() -> None:
    text = program(w=LARGE).replace("  return %w,", "  %y = stablehlo.tanh %w : TYPE\n  return %y,")
    module = parse(text.replace("TYPE", f"tensor<{LARGE.shape[0]}x2xf32>"))
    freeze(module, named(w=LARGE))
    model = model_of(module, {})
    assert has_resources(model.vjp().module)
    y = model.compile()(np.float32(0))[0]
    np.testing.assert_allclose(y, np.tanh(LARGE), rtol=1e-5, atol=1e-6)


ARRAYS = {
    "layer.0.weight": RNG.standard_normal((2, 3)).astype(np.float32).T,
    "scalar": np.array(2.5),
    "none": np.zeros((0, 3), np.float32),
    "integers": np.arange(3),
    "flags": np.array([True, False]),
}


@pytest.mark.parametrize("suffix", [".npz", ".safetensors", ".irpa"])
def test_files_of_weights(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"w{suffix}"
    write_weights(file, ARRAYS)
    read = read_weights(file)
    assert set(read) == set(ARRAYS)
    for name, array in ARRAYS.items():
        assert read[name].dtype == array.dtype
        np.testing.assert_array_equal(read[name], array)


@pytest.mark.parametrize("suffix", [".npz", ".safetensors", ".irpa"])
def test_files_that_are_damaged(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"w{suffix}"
    with pytest.raises(tiduc.TiducError, match="cannot read"):
        read_weights(file)
    file.write_bytes(b"hello")
    with pytest.raises(tiduc.InputError):
        read_weights(file)
    with pytest.raises(tiduc.TiducError, match="cannot"):
        write_weights(tmp_path / "nowhere" / file.name, ARRAYS)
    assert [each.name for each in tmp_path.iterdir()] == [file.name]


def test_other_suffixes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        tiduc.RequestError,
        match="unknown kind of file: weights are stored in .npz, .safetensors, .irpa files",
    ):
        write_weights(tmp_path / "w.bin", ARRAYS)


def test_weights_of_other_types_are_refused() -> None:
    array = np.ones(3, ml_dtypes.bfloat16)
    model = model_of(parse(program(w=array)), named(w=array))
    raw = array.view("V2")  # NumPy's files store bfloat16 as untyped elements of 2 bytes
    assert model.with_weights({"w.0": raw}).weights["w.0"].dtype == array.dtype
    for given, message in [
        ({}, "no array 'w.0'"),
        ({"w.0": array[:2]}, "is 3xbf16, and the array is"),
        ({"w.0": np.ones(3, np.float32)}, "is 3xbf16, and the array is"),
        ({"w.0": array, "v": array}, "the model has no weight 'v'; it has: w.0"),
    ]:
        with pytest.raises(tiduc.RequestError, match=message):
            model.with_weights(given)
    with pytest.raises(tiduc.InputError, match="expects 1 arrays beside the weights"):
        model.arguments()


def test_every_way_to_run_sees_the_elements_of_resources() -> None:
    text = program(w=LARGE).replace("  return %w,", "  %y = stablehlo.negate %w : TYPE\n  return %y,")
    module = parse(text.replace("TYPE", f"tensor<{LARGE.shape[0]}x2xf32>"))
    freeze(module, named(w=LARGE))
    model = model_of(module, {})
    assert "dense_resource" in model.text
    np.testing.assert_array_equal(evaluate(model.text, [np.float32(0)])[0], -LARGE)
    np.testing.assert_array_equal(model.compile(engine="xla")(np.float32(0))[0], -LARGE)
    reloaded = tiduc.load(emit(model.module, "artifact"))
    assert "dense_resource" not in reloaded.text
    np.testing.assert_array_equal(evaluate(reloaded.text, [np.float32(0)])[0], -LARGE)


def test_commands_write_bytecode_where_constants_are_large(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    module = parse(program(w=LARGE))
    freeze(module, named(w=LARGE))
    file = tmp_path / "m.mlir"
    model_of(module, {}).save(file)
    assert file.read_bytes().startswith(b"ML\xefR")
    for command in (["import"], ["vjp"]):
        assert run([*command, str(file)]) == 0
        assert capsysbinary.readouterr().out.startswith(b"ML\xefR")
        assert run([*command, str(file), "--emit", "text"]) == 0
        assert capsysbinary.readouterr().out.startswith(b"module")


def test_rules_take_resources_for_unknown_numbers() -> None:
    exponents = np.full(INLINE, 2, np.float32)
    text = program(w=exponents).replace("%x: tensor<f32>", f"%x: tensor<{INLINE}xf32>")
    text = text.replace("tensor<f32>", f"tensor<{INLINE}xf32>").replace(
        "  return %w,",
        f"  %y = stablehlo.power %x, %w : tensor<{INLINE}xf32>\n  return %y,",
    )
    module = parse(text)
    freeze(module, named(w=exponents))
    x = np.linspace(1, 2, INLINE, dtype=np.float32)
    ones = np.ones(INLINE, np.float32)
    results = evaluate(model_of(module, {}).jvp().text, [x, ones])
    np.testing.assert_allclose(results[2], 2 * x, rtol=1e-5)
