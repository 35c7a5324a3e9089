"""ONNX's quantized operators: integers of 4 and 2 bits, weights that are stored as integers, and the straight-through
estimator.
"""

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from ml_dtypes import int4
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import tiduc
from tiduc.backends.reference.interpreter import evaluate
from tiduc.cli import run
from tiduc.training.lora import with_lora
from tiduc.training.step import train_step

RNG = np.random.default_rng(5)
X = RNG.uniform(-3, 3, (4, 8)).astype(np.float32)
WEIGHT = RNG.uniform(-1, 1, (8, 3)).astype(np.float32)


def model(nodes: list[Any], inputs: dict[str, Any], arrays: dict[str, Any], version: int = 21) -> Any:
    graph = helper.make_graph(
        nodes,
        "model",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, x.shape) for name, x in inputs.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(x), name) for name, x in arrays.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)])


node = helper.make_node
F32 = np.float32

# ---- narrow integers ---------------------------------------------------------------------------------------


def test_weights_of_four_bits_in_blocks() -> None:
    codes = RNG.integers(-8, 8, (8, 3)).astype(int4)
    scales = RNG.uniform(0.1, 1, (2, 3)).astype(np.float32)
    nodes = [
        node("DequantizeLinear", ["codes", "scales"], ["w"], axis=0, block_size=4),
        node("MatMul", ["x", "w"], ["y"]),
    ]
    proto = model(nodes, {"x": X}, {"codes": codes, "scales": scales})
    program = tiduc.from_onnx(proto)
    w = codes.astype(np.float32) * np.repeat(scales, 4, 0)
    (y,) = evaluate(str(program), [X])
    (dx,) = evaluate(str(program.vjp()), [X, np.ones((4, 3), np.float32)])[1:]
    np.testing.assert_allclose(y, X @ w, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(dx, np.ones((4, 3)) @ w.T, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["INT2", "UINT2", "INT4", "UINT4"])
def test_quantizations_to_narrow_integers_clip(kind: str) -> None:
    nodes = [
        node("QuantizeLinear", ["x", "scale"], ["q"], output_dtype=TensorProto.DataType.Value(kind)),
        node("DequantizeLinear", ["q", "scale"], ["y"]),
    ]
    proto = model(nodes, {"x": X}, {"scale": np.float32(0.3)}, 23)
    bits, is_signed = int(kind[-1]), kind[0] == "I"
    least = -(2 ** (bits - 1)) if is_signed else 0
    expected = np.clip(np.round(X / np.float32(0.3)), least, least + 2**bits - 1) * np.float32(0.3)
    np.testing.assert_allclose(evaluate(str(tiduc.from_onnx(proto)), [X])[0], expected, rtol=1e-6)


# ---- the straight-through estimator ------------------------------------------------------------------------


def simulated() -> Any:
    """A layer as exported after quantization-aware training: weights and activations are quantized and dequantized."""
    arrays = {"w": WEIGHT, "sw": np.float32(0.011), "sx": np.float32(0.017)}
    arrays |= {"zw": np.int8(0), "zx": np.uint8(131)}
    nodes = [
        *(
            node(op, [x, f"s{name}", f"z{name}"], [y])
            for name in "xw"
            for op, x, y in (
                ("QuantizeLinear", name, f"q{name}"),
                ("DequantizeLinear", f"q{name}", f"d{name}"),
            )
        ),
        node("MatMul", ["dx", "dw"], ["y"]),
    ]
    return model(nodes, {"x": X}, arrays)


def test_the_estimator_has_the_derivative_of_pytorch() -> None:
    torch = pytest.importorskip("torch")
    x, w, seed = (torch.tensor(a) for a in (X, WEIGHT, RNG.standard_normal((4, 3)).astype(np.float32)))
    fake = torch.fake_quantize_per_tensor_affine
    x.requires_grad_()
    w.requires_grad_()
    y = fake(x, 0.017, 131, 0, 255) @ fake(w, 0.011, 0, -128, 127)
    y.backward(seed)
    program = tiduc.from_onnx(simulated(), lift_constants=True, straight_through=True).vjp(["w", "x"])
    found = program.compile(engine="xla")(*program.arguments(X, seed.numpy()))
    assert 0 < np.count_nonzero(x.grad == 0) < x.grad.numel()  # some elements exceed the quantized range
    for ours, theirs in zip(found, (y.detach(), w.grad, x.grad), strict=True):
        np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-4, atol=1e-4)


def test_without_the_estimator_the_derivative_is_zero() -> None:
    program = tiduc.from_onnx(simulated())
    (dx,) = evaluate(str(program.vjp()), [X, np.ones((4, 3), np.float32)])[1:]
    assert not dx.any()


def integer_layers() -> Any:
    """A model with quantized matrix products and a transposition between them, and the arrays of the model."""
    scale, zero, one = np.float32(0.02), np.uint8(128), np.float32(0.0)
    arrays = {"s": scale, "z": zero, "w": RNG.integers(0, 255, (8, 3)).astype(np.uint8), "one": one}
    arrays |= {"v": RNG.integers(-90, 90, (4, 2)).astype(np.int8), "zero": np.int8(0)}
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["qx"]),
        node("QLinearMatMul", ["qx", "s", "z", "w", "s", "z", "s", "z"], ["qy"]),
        node("Transpose", ["qy"], ["qt"], perm=[1, 0]),
        node("MatMulInteger", ["qt", "v", "z", "zero"], ["whole"]),
        node("Cast", ["whole"], ["float"], to=TensorProto.FLOAT),
        node("Mul", ["float", "s"], ["y"]),
    ]
    return model(nodes, {"x": X}, arrays), arrays


def test_the_estimator_through_integer_layers() -> None:
    proto, given = integer_layers()
    wanted = ReferenceEvaluator(proto).run(None, {"x": X})[0]
    seed = RNG.standard_normal(wanted.shape).astype(np.float32)
    program = tiduc.from_onnx(proto, straight_through=True)
    y, dx = evaluate(str(program.vjp()), [X, seed])
    np.testing.assert_allclose(y, wanted, rtol=1e-5)
    w, v = (given["w"].astype(np.float32) - 128) * 0.02, given["v"].astype(np.float32)
    whole = np.round((np.clip(np.round(X / 0.02) + 128, 0, 255) - 128) * 0.02 @ w / 0.02) + 128
    of_layer = (v @ seed.T).T * 0.02 * ((whole >= 0) & (whole <= 255)).T
    inside = (np.round(X / 0.02) + 128 >= 0) & (np.round(X / 0.02) + 128 <= 255)
    np.testing.assert_allclose(dx, of_layer.T / 0.02 @ w.T * inside, rtol=1e-4, atol=1e-3)


def test_arithmetic_on_quantized_numbers_is_refused() -> None:
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        node("Add", ["q", "q"], ["sum"]),
        node("Cast", ["sum"], ["y"], to=TensorProto.FLOAT),
    ]
    proto = model(nodes, {"x": X}, {"s": np.float32(0.1), "z": np.int8(0)})
    with pytest.raises(tiduc.Unsupported, match="Add of 'sum': .* dequantize them first"):
        tiduc.from_onnx(proto, straight_through=True)


def test_a_body_that_reads_quantized_numbers_is_refused() -> None:
    out = [helper.make_tensor_value_info("z", TensorProto.FLOAT, None)]
    then = helper.make_graph([node("DequantizeLinear", ["q", "scale"], ["z"])], "then", [], out)
    other = helper.make_graph([node("Identity", ["x"], ["z"])], "other", [], out)
    nodes = [
        node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
        node("ReduceMax", ["x"], ["most"], keepdims=0),
        node("Greater", ["most", "scale"], ["is_large"]),
        node("If", ["is_large"], ["y"], then_branch=then, else_branch=other, name="choice"),
    ]
    proto = model(nodes, {"x": X}, {"scale": np.float32(0.3), "zero": np.int8(0)})
    assert evaluate(str(tiduc.from_onnx(proto)), [X])[0].shape == X.shape
    with pytest.raises(tiduc.Unsupported, match="If 'choice': .* dequantize them first"):
        tiduc.from_onnx(proto, straight_through=True)


def test_the_option(tmp_path: Path, capfd: Any) -> None:
    onnx.save(simulated(), tmp_path / "a.onnx")
    out = tmp_path / "vjp.mlir"
    assert run(["vjp", str(tmp_path / "a.onnx"), "--straight-through", "-o", str(out)]) == 0
    (dx,) = evaluate(out.read_text(), [X, np.ones((4, 3), np.float32)])[1:]
    assert dx.any()
    with pytest.raises(tiduc.RequestError, match="an option of ONNX models"):
        tiduc.import_model(out, straight_through=True)


def column(x: Any) -> Any:
    return x.astype(F32).reshape(-1, 1)


def matrices(as_integers: bool) -> Any:
    """A model of two layers whose quantized weights are stored as integers with scales, or already dequantized to
    floats.
    """
    random = np.random.default_rng(0)
    codes = {"one": random.integers(-127, 128, (40, 24)), "two": random.integers(0, 256, (8, 40))}
    scales = {"one": random.uniform(1e-3, 2e-3, 40).astype(F32), "two": np.asarray(2e-3, F32)}
    arrays = {
        "one.codes": codes["one"].astype(np.int8),
        "one.zeros": random.integers(-3, 4, 40).astype(np.int8),
        "two.codes": codes["two"].astype(np.uint8),
        "two.zeros": np.asarray(128, np.uint8),
        **{f"{name}.scale": x for name, x in scales.items()},
    }
    nodes = [
        node("Gemm", ["x", "one.weight"], ["h"], transB=1),
        node("Tanh", ["h"], ["t"]),
        node("Gemm", ["t", "two.weight"], ["y"], transB=1),
    ]
    if as_integers:
        given = ((name, [f"{name}.{each}" for each in ("codes", "scale", "zeros")]) for name in codes)
        nodes = [
            *(node("DequantizeLinear", names, [f"{name}.weight"], axis=0) for name, names in given),
            *nodes,
        ]
    else:
        arrays = {
            f"{name}.weight": (arrays[f"{name}.codes"].astype(F32) - column(arrays[f"{name}.zeros"]))
            * column(scales[name])
            for name in codes
        }
    return model(nodes, {"x": np.empty((16, 24), F32)}, arrays)


def test_matrices_of_a_trained_model_stay_integers() -> None:
    """If weights become inputs for training, quantized weights stay integer constants, and their scales are inputs that
    are not trained.

    Otherwise, the program has float constants.
    """
    trained = tiduc.from_onnx(matrices(as_integers=True), lift_constants=True)
    assert [port.name for port in trained.inputs] == ["one.scale", "two.scale", "x"]
    assert dict(trained.held) == dict.fromkeys(("one.scale", "two.scale"), "read by DequantizeLinear only")
    for kind in ("40x24xi8", "8x40xui8"):
        assert re.search(rf"constant dense<.*> : tensor<{kind}>", trained.text), kind
    plain = tiduc.from_onnx(matrices(as_integers=True))  # for inference, floats are faster
    assert "xi8>" not in plain.text and "xui8>" not in plain.text
    x = np.random.default_rng(1).standard_normal((16, 24)).astype(F32)
    (wanted,) = ReferenceEvaluator(matrices(as_integers=False)).run(None, {"x": x})
    given = [*trained.weights.values(), x]
    for y in (*evaluate(str(trained), given), *evaluate(str(plain), [x])):
        np.testing.assert_allclose(y, wanted, rtol=0, atol=1e-6)


@pytest.mark.more
def test_adapters_on_the_integers_of_an_onnx_file() -> None:
    """Training low-rank adapters has equal losses, whether the weights are stored as integers or dequantized to
    floats.
    """
    losses = []
    random = np.random.default_rng(2)
    x, target = (random.standard_normal((16, n)).astype(F32) for n in (24, 8))
    for as_integers in (True, False):
        imported = tiduc.from_onnx(matrices(as_integers), lift_constants=True)
        step = train_step(with_lora(imported, ["*"], rank=4, alpha=8.0), "mse", "adam")
        compiled, state = step.compile(), dict(step.weights)
        for _ in range(10):
            loss, *new = compiled(*(state[name] for name in step.weights), x, target, F32(0.01))
            state |= dict(zip([port.name for port in step.outputs[1:]], new, strict=True))
            losses.append(float(loss))
    np.testing.assert_allclose(losses[:10], losses[10:], rtol=1e-6)
    assert losses[9] < 0.9 * losses[0]
