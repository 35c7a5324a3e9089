"""The derivatives of a relu at its kink, to order two, are 0, as in other frameworks.

An option applies this rule to other maxima with 0.
"""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from harness.exports import exported, exported_dynamic

import tiduc
from tiduc.cli import run
from tiduc.dialect.mlir.emit import EMITTERS, emit

X = np.array([-1.0, 0, 2, 6, 7])
ONES = np.ones_like(X)


def derivatives(program: tiduc.Program) -> list[Any]:
    """The first derivatives in forward and reverse mode, and the derivative of each in forward mode, at the elements of
    X.
    """
    jvp, vjp = program.jvp(0), program.vjp(0)
    second = jvp.jvp(0), vjp.jvp(0)
    seeds = [ONES] * 2
    return [
        each.compile(engine="reference")(X, *seeds[:count])[-1]
        for each, count in ((jvp, 1), (vjp, 1), (second[0], 2), (second[1], 2))
    ]


@pytest.mark.parametrize(
    "function",
    [
        jax.nn.relu,
        jax.nn.relu6,
        lambda x: jax.nn.relu(x) * jax.nn.relu(2 * x) + jax.nn.relu6(x - 1) ** 2,
        lambda x: jnp.maximum(x, 0) + jnp.maximum(0, x) * x,
        lambda x: jax.lax.fori_loop(0, 2, lambda i, y: jax.nn.relu(y), x),
        jax.nn.hard_swish,
        jax.nn.softplus,
    ],
)
def test_jax(function: Any) -> None:
    with jax.enable_x64(True):

        def first(x: Any) -> Any:
            return jax.jvp(function, (x,), (ONES,))[1]

        expected = [first(X), jax.jvp(first, (X,), (ONES,))[1]]
        program = tiduc.load(exported(function, X))
    for got, wanted in zip(derivatives(program), (expected[0], expected[0], *expected[1:] * 2), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-12)


TEXT = """
func.func @main(%x: tensor<5xf64>) -> tensor<5xf64> {
  %0 = call @NAME(%x) : (tensor<5xf64>) -> tensor<5xf64>
  return %0 : tensor<5xf64>
}
func.func private @NAME(%x: tensor<5xf64>) -> tensor<5xf64> {
  %c = stablehlo.constant dense<NUMBER> : tensor<f64>
  %b = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f64>) -> tensor<5xf64>
  %0 = stablehlo.maximum %x, %b {ATTRIBUTE} : tensor<5xf64>
  return %0 : tensor<5xf64>
}
"""


@pytest.mark.parametrize(
    ("name", "number", "attribute", "relu", "slope"),
    [
        ("relu", "0.0", "", False, 0),
        ("relu_12", "0.0", "", False, 0),
        ("relu", "0.0", "tidu.relu = false", False, 0.5),
        ("relu", "0.0", "tidu.relu = false", True, 0.5),
        ("my_relu", "0.0", "", False, 0.5),
        ("my_relu", "0.0", "", True, 0),
        ("my_relu", "0.0", "tidu.relu", False, 0),
        ("my_relu", "0.0", "tidu.relu = true", False, 0),
        ("relu6", "0.0", "", False, 0.5),  # the name is relu6, but the body is not
    ],
)
def test_at_zero(name: str, number: str, attribute: str, relu: bool, slope: float) -> None:
    text = TEXT.replace("NAME", name).replace("NUMBER", number).replace("ATTRIBUTE", attribute)
    first, reverse, *second = derivatives(tiduc.load(text, relu=relu))
    assert first.tolist() == reverse.tolist() == [0, slope, 1, 1, 1]
    assert not np.any(second)


def test_a_function_named_relu_that_is_another_one() -> None:
    text = TEXT.replace("NAME", "relu").replace("NUMBER", "2.0").replace("ATTRIBUTE", "")
    for relu in (False, True):
        assert derivatives(tiduc.load(text, relu=relu))[0].tolist() == [0, 0, 0.5, 1, 1]


@pytest.mark.parametrize("kind", list(EMITTERS))
def test_written_programs_keep_the_choice(kind: str) -> None:
    text = TEXT.replace("NAME", "relu").replace("NUMBER", "0.0").replace("ATTRIBUTE", "")
    program = tiduc.load(emit(tiduc.load(text).module, kind))
    assert derivatives(program)[0].tolist() == [0, 0, 1, 1, 1]


def test_the_option_of_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "f.mlir"
    file.write_text(TEXT.replace("NAME", "f").replace("NUMBER", "0.0").replace("ATTRIBUTE", ""))
    for options, compared in (([], "GE"), (["--relu"], "GT")):
        assert run(["jvp", str(file), *options]) == 0
        assert f"stablehlo.compare {compared}," in capsys.readouterr().out
        assert run(["import", str(file), *options]) == 0
        assert ("tidu.relu" in capsys.readouterr().out) == bool(options)
    assert run(["opt", str(file), "--pass-pipeline=tidu-import{relu=true}"]) == 0
    assert "tidu.relu = true" in capsys.readouterr().out


def test_dynamic_shapes() -> None:
    text = exported_dynamic(lambda x: jax.nn.relu(x) + jax.nn.relu6(x), "(n,)")
    assert tiduc.load(text).jvp().text.count("tidu.relu = true") == 2  # one in each of relu and relu6


def test_the_option_keeps_smooth_functions() -> None:
    """With the option, JAX's softplus keeps its derivative at 0: its maximum keeps the usual derivative at ties,
    although one operand is 0.
    """
    program = tiduc.load(exported(jax.nn.softplus, X), relu=True)
    for got, wanted in zip(derivatives(program), [jax.nn.sigmoid(X)] * 2, strict=False):
        np.testing.assert_allclose(got, wanted, rtol=1e-6)


@pytest.mark.parametrize(("node", "slope"), [("Relu", 0), ("LeakyRelu", 0.01), ("Softplus", 0.5), ("Elu", 1)])
def test_onnx(node: str, slope: float) -> None:
    onnx = pytest.importorskip("onnx")
    helper, double = onnx.helper, onnx.TensorProto.DOUBLE
    x, y = (helper.make_tensor_value_info(name, double, [5]) for name in "xy")
    graph = helper.make_graph([helper.make_node(node, ["x"], ["y"])], "kink", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    for first in derivatives(tiduc.from_onnx(model))[:2]:
        np.testing.assert_allclose(first[1], slope, rtol=1e-6)


def test_explain_states_the_choice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "f.mlir"
    for name, choice in (("relu", "0, as in every framework"), ("f", "half to each")):
        file.write_text(TEXT.replace("NAME", name).replace("NUMBER", "0.0").replace("ATTRIBUTE", ""))
        assert run(["explain", str(file)]) == 0
        assert choice in capsys.readouterr().out
