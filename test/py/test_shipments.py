"""A training step, evaluation and inference in one module with a shared state.

The trained weights are written to the model's file.
"""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.reference
import pytest
from harness.example_files import EXAMPLES

import tiduc
import tiduc.runtime
from tiduc.cli import run as cli
from tiduc.dialect.errors import RequestError
from tiduc.runtime.weights import IDENTITY, notes_in, read_weights, write_weights
from tiduc.training.identity import identity_of
from tiduc.training.shipment import TrainStep
from tiduc.training.step import train_step

RNG = np.random.default_rng(0)

NET = """
func.func @main(%w: tensor<3x2xf32> {tidu.name = "w"}, %m: tensor<2xf32> {tidu.name = "mean"},
    %seed: tensor<2xui64> {tidu.name = "seed"}, %x: tensor<?x3xf32> {tidu.name = "x"})
    -> (tensor<?x2xf32> {tidu.name = "y"}, tensor<2xf32> {tidu.name = "mean.updated"}) {
  %0 = func.call @product(%x, %w) : (tensor<?x3xf32>, tensor<3x2xf32>) -> tensor<?x2xf32>
  %half = stablehlo.constant dense<0.5> : tensor<2xf32>
  %one = stablehlo.constant dense<1.0> : tensor<2xf32>
  %1 = stablehlo.multiply %m, %half : tensor<2xf32>
  %2 = stablehlo.add %1, %one : tensor<2xf32>
  return %0, %2 : tensor<?x2xf32>, tensor<2xf32>
}
func.func private @product(%x: tensor<?x3xf32>, %w: tensor<3x2xf32>) -> tensor<?x2xf32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<?x3xf32>, tensor<3x2xf32>) -> tensor<?x2xf32>
  return %0 : tensor<?x2xf32>
}
func.func @predict(%m: tensor<2xf32> {tidu.name = "mean"}, %w: tensor<3x2xf32> {tidu.name = "w"},
    %x: tensor<4x3xf32> {tidu.name = "x"}) -> (tensor<4x2xf32> {tidu.name = "y"}) {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<4x3xf32>, tensor<3x2xf32>) -> tensor<4x2xf32>
  %1 = stablehlo.broadcast_in_dim %m, dims = [1] : (tensor<2xf32>) -> tensor<4x2xf32>
  %2 = stablehlo.subtract %0, %1 : tensor<4x2xf32>
  return %2 : tensor<4x2xf32>
}
func.func @other(%w: tensor<3x3xf32> {tidu.name = "w"}) -> tensor<3x3xf32> {
  return %w : tensor<3x3xf32>
}
func.func @nothing(%x: tensor<3x3xf32> {tidu.name = "x"}) -> tensor<3x3xf32> {
  return %x : tensor<3x3xf32>
}
"""
"""A model in training mode, which updates a running mean and has a random seed but draws no numbers.

Other functions are the model in evaluation mode, and a function without weights.
"""


def test_one_module_over_one_state(tmp_path: Path) -> None:
    """In one module, the step updates the state in place on the device, and `loss` and `infer` read this state,
    including the running mean.
    """
    (tmp_path / "net.mlir").write_text(NET)
    module = tmp_path / "step.vmfb"
    words = ["--train", "w", "--infer", "@predict", "-o", str(module)]
    assert cli(["train-step", str(tmp_path / "net.mlir"), *words]) == 0
    w, m, x, t = (RNG.standard_normal(n).astype(np.float32) for n in ((3, 2), 2, (4, 3), (4, 2)))
    with tiduc.runtime.load(module) as loaded:
        assert list(loaded) == ["step", "loss", "infer"]
        step, loss, infer = loaded["step"], loaded["loss"], loaded["infer"]
        value, new_w, new_m, _ = step.keep(w, m, np.zeros(2, np.uint64), x, t, np.float32(0.1))
        np.testing.assert_allclose(float(value), np.mean((x @ w - t) ** 2), rtol=1e-5)
        trained = w - 0.1 * 2 * x.T @ (x @ w - t) / t.size
        y = x @ trained - (0.5 * m + 1)
        np.testing.assert_allclose(infer(new_m, new_w, x)[0], y, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(loss(new_m, new_w, x, t)[0], np.mean((y - t) ** 2), rtol=1e-5)
        np.testing.assert_allclose(new_w.numpy(), trained, rtol=1e-5, atol=1e-6)  # not changed by `infer`


def parts(text: str, name: str) -> Any:
    return tiduc.load(text, name)


def test_a_step_is_pickled_with_its_functions() -> None:
    step = train_step(parts(NET, "main"), train=["w"], infer=parts(NET, "predict"))
    copy = pickle.loads(pickle.dumps(step))
    assert isinstance(copy, TrainStep) and copy.identity == step.identity
    assert {*copy.lower().others} == {"loss", "infer"}
    assert str(copy.further["infer"].signature) == str(step.further["infer"].signature)


@pytest.mark.parametrize(
    "infer, message",
    [
        ("main", "is in training mode: it updates mean"),
        (
            "other",
            "'w' is tensor<3x3xf32> in the model for inference, and tensor<3x2xf32> in the training step",
        ),
        ("nothing", "reads no parameter of the step: w"),
    ],
)
def test_refused(infer: str, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        train_step(parts(NET, "main"), train=["w"], infer=parts(NET, infer))


def test_weights_of_another_model_are_refused() -> None:
    model = tiduc.from_onnx(EXAMPLES / "digits.onnx", lift_constants=True)
    other = model.with_weights({name: x + 1 for name, x in model.weights.items()})
    with pytest.raises(RequestError, match="has other values in the model for inference"):
        train_step(model, "softmax-cross-entropy", infer=other)
    drawn = 'func.func @main(%w: tensor<2xf32>, %s: tensor<2xui64> {tidu.name = "seed"}) -> tensor<2xf32> {\n'
    drawn += "return %w : tensor<2xf32>\n}"
    one = "func.func @main(%w: tensor<2xf32>) -> tensor<2xf32> {\nreturn %w : tensor<2xf32>\n}"
    with pytest.raises(RequestError, match="draws random numbers"):
        train_step(tiduc.load(one), train=["w"], infer=tiduc.load(drawn))


CONVOLUTION = """
func.func @main(%w: tensor<2x1x3x3xf32> {tidu.name = "w"}, %x: tensor<4x1x6x6xf32>) -> tensor<4x2xf32> {
  %slope = stablehlo.constant dense<0.01> : tensor<4x2xf32>
  %n = stablehlo.constant dense<4.0> : tensor<2xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1],
    window = {stride = [3, 3]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<4x1x6x6xf32>, tensor<2x1x3x3xf32>) -> tensor<4x2x2x2xf32>
  %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [2, 3]
    : (tensor<4x2x2x2xf32>, tensor<f32>) -> tensor<4x2xf32>
  %2 = stablehlo.multiply %1, %1 : tensor<4x2xf32>
  %3 = stablehlo.add %2, %slope : tensor<4x2xf32>
  %4 = stablehlo.reduce(%3 init: %zero) applies stablehlo.add across dimensions = [0]
    : (tensor<4x2xf32>, tensor<f32>) -> tensor<2xf32>
  %mean = stablehlo.divide %4, %n : tensor<2xf32>
  %5 = stablehlo.broadcast_in_dim %mean, dims = [1] : (tensor<2xf32>) -> tensor<4x2xf32>
  %6 = stablehlo.subtract %3, %5 : tensor<4x2xf32>
  return %6 : tensor<4x2xf32>
}"""
"""A program with a convolution, a constant called slope, and the subtraction of a mean over a batch of 4 rows."""


def identities(*texts: str) -> list[str]:
    return [identity_of(tiduc.load(text)) for text in texts]


def test_identity() -> None:
    """The identity of a model depends on its ops, their operands and the weights, but not on the batch size."""
    text = """func.func @main(%w: tensor<3x3xf32> {tidu.name = "w"}, %x: tensor<4x3xf32>) -> tensor<4x3xf32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<4x3xf32>, tensor<3x3xf32>) -> tensor<4x3xf32>
  %1 = stablehlo.tanh %0 : tensor<4x3xf32>
  %2 = stablehlo.subtract %1, %x : tensor<4x3xf32>
  return %2 : tensor<4x3xf32>
}"""
    changed = text.replace("tanh", "logistic"), text.replace("%1, %x", "%x, %1")
    first, larger, *others = identities(text, text.replace("4x3", "8x3"), *changed)
    assert first == larger and len({first, *others}) == 3
    with pytest.raises(RequestError, match="an identity may have at most 200 characters"):
        train_step(tiduc.load(text), train=["w"], identity='"')


def test_identity_has_strides_and_slopes() -> None:
    """The identity of a model depends on attributes and constants, except for the divisor of a mean over the batch."""
    larger = CONVOLUTION.replace("<4x", "<8x").replace("dense<4.0>", "dense<8.0>")
    others = [
        CONVOLUTION.replace("[3, 3]", "[2, 2]"),  # changes the strides, but no shapes
        CONVOLUTION.replace("[3, 3]", "[3, 3], pad = [[0, 0], [0, 1]]"),
        CONVOLUTION.replace("0.01", "0.25"),
    ]
    first, same, *rest = identities(CONVOLUTION, larger, *others)
    assert first == same and len({first, *rest}) == 4
    # In this program, the slope and the divisor of the mean are equal.
    equal = CONVOLUTION.replace("dense<4.0>", "dense<0.01>")
    assert identities(equal) == [first]


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the state of an ONNX model after three training steps, and the scores that `infer` gives for this
    state.
    """
    place = tmp_path_factory.mktemp("digits")
    model = str(EXAMPLES / "digits.onnx")
    words = [
        "--loss",
        "softmax-cross-entropy",
        "--optimizer",
        "adam",
        "--state",
        str(place / "state.safetensors"),
    ]
    assert cli(["train-step", model, *words, "--infer", model, "-o", str(place / "step.vmfb")]) == 0
    with np.load(EXAMPLES / "digits.npz") as data:
        images, labels = data["images"], data["labels"]
    np.savez(place / "batch.npz", images=images, target=labels)
    state = read_weights(place / "state.safetensors")
    with tiduc.runtime.load(place / "step.vmfb") as module:
        step = module["step"]
        arrays = [state[x.name] for x in step.signature.inputs if x.name in state]
        for _ in range(3):
            _, *arrays = step(*arrays, images, labels.astype(np.int32), np.float32(0.01))
        new = dict(zip([x.name for x in step.signature.outputs[1:]], arrays, strict=True))
        infer = module["infer"]
        (scores,) = infer(*({**state, **new, "images": images}[x.name] for x in infer.signature.inputs))
    notes = notes_in(place / "state.safetensors")
    assert set(notes) == {IDENTITY}
    write_weights(place / "trained.safetensors", {**state, **new}, notes)
    np.save(place / "scores.npy", scores)
    return place


@pytest.mark.more
def test_weights_go_back_to_onnx(digits: Path) -> None:
    """The exported ONNX file gives the scores of `infer` in ONNX's evaluator.

    It differs from the original in its initializers only.
    """
    model, trained = EXAMPLES / "digits.onnx", digits / "trained.onnx"
    assert cli(["export", str(model), str(digits / "trained.safetensors"), "-o", str(trained)]) == 0
    before, after = onnx.load(model), onnx.load(trained)
    onnx.checker.check_model(after)
    assert before.graph.node == after.graph.node and before.graph.input == after.graph.input
    with np.load(digits / "batch.npz") as data:
        (scores,) = onnx.reference.ReferenceEvaluator(after).run(
            None, {after.graph.input[0].name: data["images"]}
        )
    wanted = np.load(digits / "scores.npy")
    np.testing.assert_allclose(scores, wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())


def test_weights_alone_and_as_constants(digits: Path) -> None:
    model, state = str(EXAMPLES / "digits.onnx"), digits / "trained.safetensors"
    for name in ("weights.safetensors", "trained.mlir"):
        assert cli(["export", model, str(state), "-o", str(digits / name)]) == 0
    weights, arrays = read_weights(digits / "weights.safetensors"), read_weights(state)
    imported = tiduc.from_onnx(model, lift_constants=True)
    assert set(weights) == set(imported.weights)
    for name, x in weights.items():
        np.testing.assert_array_equal(x, arrays[name])
    with np.load(digits / "batch.npz") as data:
        scores = tiduc.load(digits / "trained.mlir").compile()(data["images"])[0]
    wanted = np.load(digits / "scores.npy")
    np.testing.assert_allclose(scores, wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())


def test_export_refuses(digits: Path, tmp_path: Path, capsys: Any) -> None:
    model, state = str(EXAMPLES / "digits.onnx"), read_weights(digits / "trained.safetensors")
    less = {name: x for name, x in state.items() if name != "0.bias"}
    write_weights(tmp_path / "less.npz", less)
    write_weights(tmp_path / "other.npz", {**state, "0.bias": np.zeros(3, np.float32)})
    whole = str(digits / "trained.safetensors")
    for given, output, message in (
        (str(tmp_path / "less.npz"), "x.onnx", "no array '0.bias' among the weights"),
        (str(tmp_path / "other.npz"), "x.onnx", "weight '0.bias' is 8xf32, and the array is float32[3]"),
        (whole, "x.pt2", "are written to files .npz, .safetensors, .irpa, .mlir, .onnx"),
    ):
        assert cli(["export", model, given, "-o", str(tmp_path / output)]) == 1
        assert message in capsys.readouterr().err
        assert not (tmp_path / output).exists()
