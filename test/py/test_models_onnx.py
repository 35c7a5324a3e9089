"""ONNX models: outputs and VJPs equal those of the corresponding JAX functions."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from harness.xla import by_xla
from onnx import TensorProto, helper, numpy_helper

import tiduc
from tiduc.cli import run

RNG = np.random.default_rng(0)


def draw(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def model(
    nodes: list[Any], arrays: dict[str, Any], x: list[Any], y: list[Any], name: str = "a graph!"
) -> Any:
    graph = helper.make_graph(
        nodes,
        name,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, y)],
        [numpy_helper.from_array(array, key) for key, array in arrays.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


MLP = {"fc1.weight": draw(5, 4), "fc1.bias": draw(5), "fc2.weight": draw(5, 2), "fc2.bias": draw(2)}


def mlp(batch: int | str = 3) -> Any:
    nodes = [
        helper.make_node("Gemm", ["x", "fc1.weight", "fc1.bias"], ["a"], transB=1, name="fc1"),
        helper.make_node("Tanh", ["a"], ["h"]),
        helper.make_node("Gemm", ["h", "fc2.weight", "fc2.bias"], ["y"], name="fc2"),
    ]
    return model(nodes, MLP, [batch, 4], [batch, 2])


def mlp_in_jax(w: dict[str, Any], x: Any) -> Any:
    return jnp.tanh(x @ w["fc1.weight"].T + w["fc1.bias"]) @ w["fc2.weight"] + w["fc2.bias"]


CNN = {
    "conv.weight": draw(3, 2, 3, 3),
    "conv.bias": np.zeros(3, np.float32),
    "norm.scale": draw(3),
    "norm.bias": draw(3),
    "norm.mean": draw(3),
    "norm.var": np.abs(draw(3)) + 1,
    "head.weight": draw(12, 4),
}


def cnn() -> Any:
    nodes = [
        helper.make_node("Conv", ["x", "conv.weight", "conv.bias"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node(
            "BatchNormalization", ["c", "norm.scale", "norm.bias", "norm.mean", "norm.var"], ["n"]
        ),
        helper.make_node("Relu", ["n"], ["r"]),
        helper.make_node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Reshape", ["p", "shape"], ["f"]),
        helper.make_node("MatMul", ["f", "head.weight"], ["y"]),
    ]
    return model(nodes, {**CNN, "shape": np.array([2, -1])}, [2, 2, 4, 4], [2, 4])


def cnn_in_jax(w: dict[str, Any], x: Any) -> Any:
    def over_channels(v: Any) -> Any:
        return v[:, None, None]

    c = jax.lax.conv(x, w["conv.weight"], (1, 1), "SAME") + over_channels(w["conv.bias"])
    scaled = (c - over_channels(w["norm.mean"])) / jnp.sqrt(over_channels(w["norm.var"]) + 1e-5)
    n = scaled * over_channels(w["norm.scale"]) + over_channels(w["norm.bias"])
    r = jnp.maximum(n, 0).reshape(2, 3, 2, 2, 2, 2)
    return r.max((3, 5)).reshape(2, -1) @ w["head.weight"]


@pytest.mark.parametrize(
    ("proto", "weights", "function", "shape"),
    [(mlp(), MLP, mlp_in_jax, (3, 4)), (cnn(), CNN, cnn_in_jax, (2, 2, 4, 4))],
    ids=["mlp", "cnn"],
)
def test_the_vjp_is_that_of_jax(
    proto: Any, weights: dict[str, Any], function: Any, shape: tuple[int, ...]
) -> None:
    program = tiduc.from_onnx(proto, lift_constants=True)
    assert [port.name for port in program.inputs] == [*weights, "x"]
    assert [port.name for port in program.outputs] == ["y"]
    x, vjp = draw(*shape), program.vjp()
    y, pullback = jax.vjp(function, weights, x)
    seed = draw(*y.shape)
    got_y, *got = by_xla(vjp.text, vjp.arguments(x, seed))
    np.testing.assert_allclose(got_y, y, rtol=1e-5, atol=1e-5)
    by_name, dx = pullback(seed)
    for name, array, expected in zip([*weights, "x"], got, [*(by_name[n] for n in weights), dx], strict=True):
        np.testing.assert_allclose(array, expected, rtol=1e-5, atol=2e-5, err_msg=name)


def test_an_average_over_windows() -> None:
    """GlobalAveragePool has the right values and gradients. torch-mlir lowers it with a windowed sum of ones, which
    counts the elements of each window.
    """
    proto = model([helper.make_node("GlobalAveragePool", ["x"], ["y"])], {}, [2, 3, 8, 8], [2, 3, 1, 1])
    x, seed = draw(2, 3, 8, 8), draw(2, 3, 1, 1)
    y, dx = tiduc.from_onnx(proto).vjp().compile(engine="xla")(x, seed)
    np.testing.assert_allclose(y, x.mean((2, 3), keepdims=True), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(dx, np.broadcast_to(seed / 64, x.shape), rtol=1e-5, atol=1e-6)


def test_a_loss_that_counts() -> None:
    """NegativeLogLikelihoodLoss has the right value and gradient.

    Its mean divides by the number of labels, which the program computes as a sum of constant ones.
    """
    labels = np.array([0, 2, 1])
    proto = model(
        [helper.make_node("NegativeLogLikelihoodLoss", ["x", "t"], ["y"])], {"t": labels}, [3, 5], []
    )
    x = draw(3, 5)
    y, dx = tiduc.from_onnx(proto).grad(value=True).compile(engine="xla")(x)
    np.testing.assert_allclose(y, -x[np.arange(3), labels].mean(), rtol=1e-6)
    np.testing.assert_allclose(dx, -np.eye(5)[labels] / 3, rtol=1e-6)


def test_weights_may_stay_constants() -> None:
    program = tiduc.from_onnx(mlp())
    assert str(program.signature) == "(x: 3x4xf32) -> (y: 3x2xf32)"
    assert program.weights == {}
    x = draw(3, 4)
    np.testing.assert_allclose(program.compile(engine="xla")(x)[0], mlp_in_jax(MLP, x), rtol=1e-5, atol=1e-6)


def test_dynamic_sizes_stay_dynamic_or_are_set() -> None:
    assert str(tiduc.from_onnx(mlp("n"), sizes={"n": 6}).signature) == "(x: 6x4xf32) -> (y: 6x2xf32)"
    program = tiduc.from_onnx(mlp("n"))
    assert str(program.signature) == "(x: ?x4xf32) -> (y: ?x2xf32)"
    gradient = program.vjp().compile()
    for n in (1, 5):
        x, seed = draw(n, 4), draw(n, 2)
        y, dx = gradient(x, seed)
        expected, pullback = jax.vjp(lambda x: mlp_in_jax(MLP, x), x)
        np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(dx, pullback(seed)[0], rtol=1e-5, atol=1e-6)
    with pytest.raises(tiduc.RequestError, match="no dynamic dimension is called 'm'; the names are: n"):
        tiduc.from_onnx(mlp("n"), sizes={"m": 6})


def test_arrays_in_files_of_their_own(tmp_path: Path) -> None:
    file = tmp_path / "model.onnx"
    onnx.save(mlp(), file, save_as_external_data=True, size_threshold=0, location="model.data")
    program = tiduc.from_onnx(file, lift_constants=True)
    for name, array in MLP.items():
        np.testing.assert_array_equal(program.weights[name], array)
    (tmp_path / "model.data").unlink()
    with pytest.raises(tiduc.TiducError, match="cannot read the arrays of 'fc1.weight'"):
        tiduc.from_onnx(file, lift_constants=True)


def test_floats_needed_as_constants_stay() -> None:
    nodes = [
        helper.make_node("Clip", ["x", "low", "high"], ["c"]),
        helper.make_node("Mul", ["c", "scale"], ["y"]),
    ]
    arrays = {"low": np.float32(-1), "high": np.float32(1), "scale": np.float32(3)}
    program = tiduc.from_onnx(
        model(nodes, {k: np.array(v) for k, v in arrays.items()}, [4], [4]), lift_constants=True
    )
    assert list(program.weights) == ["scale"]
    x = np.array([-2, -0.5, 0.5, 2], np.float32)
    np.testing.assert_array_equal(
        program.compile(engine="xla")(*program.arguments(x))[0], 3 * np.clip(x, -1, 1)
    )


def test_initializers_that_are_also_inputs() -> None:
    proto = mlp()
    for name, array in MLP.items():
        proto.graph.input.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, array.shape))
    program = tiduc.from_onnx(proto, lift_constants=True)
    assert [port.name for port in program.inputs] == [*MLP, "x"]


def test_an_op_without_stablehlo_is_refused_by_name() -> None:
    nodes = [helper.make_node("Det", ["x"], ["y"], name="the determinant")]
    with pytest.raises(tiduc.Unsupported, match="linalg_det"):
        tiduc.from_onnx(model(nodes, {}, [2, 2], []))


def test_files_that_are_not_models(tmp_path: Path) -> None:
    with pytest.raises(tiduc.TiducError, match="cannot read"):
        tiduc.from_onnx(tmp_path / "none.onnx")
    (tmp_path / "text.onnx").write_text("hello")
    with pytest.raises(tiduc.ParseError, match="not an ONNX model"):
        tiduc.from_onnx(tmp_path / "text.onnx")
    (tmp_path / "empty.onnx").write_bytes(b"")
    with pytest.raises(tiduc.ParseError, match="not an ONNX model"):
        tiduc.from_onnx(tmp_path / "empty.onnx")
    made = model(
        [helper.make_node("Relu", ["x"], ["between"]), helper.make_node("Relu", ["between"], ["y"])],
        {},
        [2],
        [2],
    )
    bytes_ = made.SerializeToString().replace(b"between", b"betw\xffen")
    (tmp_path / "names.onnx").write_bytes(bytes_)
    with pytest.raises(tiduc.ParseError, match="names.onnx: error: .*(UTF-8|utf-8)"):
        tiduc.import_model(tmp_path / "names.onnx")


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out, weights = (str(tmp_path / name) for name in ("m.onnx", "m.mlir", "w.safetensors"))
    onnx.save(mlp("n"), source)
    assert run(["import", source, "--size", "n=3", "--weights", weights, "-o", out]) == 0
    program = tiduc.load(out)
    assert [port.name for port in program.inputs] == [*MLP, "x"]
    x, y = str(tmp_path / "x.npy"), str(tmp_path / "y.npz")
    np.save(x, draw(3, 4))
    assert run(["run", out, "--weights", weights, "--input", f"@{x}", "-o", y]) == 0
    np.testing.assert_allclose(np.load(y)["y"], mlp_in_jax(MLP, np.load(x)), rtol=1e-5, atol=1e-6)
    assert run(["run", out, "--weights", weights]) == 1
    assert "expected 1 inputs in addition to the weights (x: 3x4xf32), got 0" in capsys.readouterr().err
    assert run(["run", source.replace(".onnx", ".mlir"), "--weights", y, "--input", "random"]) == 1
    assert "there is no input 'y'" in capsys.readouterr().err
    assert run(["import", source, "--size", "n=3", "--lift-constants"]) == 0
    assert capsys.readouterr().out == Path(out).read_text()
    assert run(["import", source, "--size", "n"]) == 1
    assert "--size expects NAME=N" in capsys.readouterr().err
    assert run(["import", str(tmp_path / "m.xyz")]) == 1
    assert "unknown kind of file: models are read from files .onnx" in capsys.readouterr().err


@pytest.mark.more
def test_a_model_as_the_file_of_any_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = str(tmp_path / "m.onnx"), str(tmp_path / "m.mlir")
    onnx.save(mlp("n"), source)
    assert run(["import", source, "--size", "n=3", "--lift-constants", "-o", out]) == 0
    wrt = ["--wrt", next(iter(MLP))]
    assert run(["vjp", out, *wrt]) == 0
    expected = capsys.readouterr().out
    assert run(["vjp", source, "--size", "n=3", "--lift-constants", *wrt]) == 0
    assert capsys.readouterr().out == expected
    assert run(["-q", "check", source, "--size", "n=3"]) == 0
    assert run(["compile", source, "--size", "n=3", "-o", str(tmp_path / "m.vmfb")]) == 0
    assert run(["vjp", source, "--size", "n"]) == 1
    assert "--size expects NAME=N" in capsys.readouterr().err


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    for framework, call in {
        "onnx": lambda: tiduc.from_onnx("m.onnx"),
        "torch": lambda: tiduc.from_torch(None),
        "jax": lambda: tiduc.from_jax(lambda x: x, 1.0),
    }.items():
        with monkeypatch.context() as patch:
            patch.setitem(__import__("sys").modules, framework, None)
            with pytest.raises(tiduc.TiducError, match=rf"pip install 'tiduc\[{framework}\]'"):
                call()
