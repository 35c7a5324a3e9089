"""Training steps: losses equal JAX's, optimizers equal their formulas, and an ONNX model trains as in PyTorch."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from harness.check_rule import run
from harness.example_files import EXAMPLES, script

import tiduc
from tiduc.cli import run as cli
from tiduc.cli.rules import opset
from tiduc.dialect.errors import RequestError
from tiduc.training.losses import with_loss
from tiduc.training.step import train_step

RNG = np.random.default_rng(0)

LINEAR = """
func.func @main(%w: tensor<3x2xf64> {tidu.name = "w"}, %x: tensor<4x3xf64> {tidu.name = "x"})
    -> (tensor<4x2xf64> {tidu.name = "y"}) {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<4x3xf64>, tensor<3x2xf64>) -> tensor<4x2xf64>
  return %0 : tensor<4x2xf64>
}"""
W, X, T = (RNG.standard_normal(sizes) for sizes in ((3, 2), (4, 3), (4, 2)))
GRADIENT = 2 * X.T @ (X @ W - T) / T.size


def model(text: str, **weights: Any) -> tiduc.Model:
    from tiduc.dialect.mlir.context import parse
    from tiduc.models.model import model_of

    return model_of(parse(text), weights)


# ---- losses


def test_mse() -> None:
    value, dw = run(with_loss(tiduc.load(LINEAR), "mse").grad("w", value=True), [W, X, T])
    np.testing.assert_allclose(value, np.mean((X @ W - T) ** 2), rtol=1e-12)
    np.testing.assert_allclose(dw, GRADIENT, rtol=1e-12)


@pytest.mark.parametrize("sizes", [(5,), (4, 5), (2, 3, 5), (4, 1)])
def test_softmax_cross_entropy(sizes: tuple[int, ...]) -> None:
    """The softmax cross-entropy and its gradient equal JAX's, also for logits whose exponentials overflow."""
    y, labels = RNG.standard_normal(sizes) * 400, RNG.integers(0, sizes[-1], sizes[:-1]).astype(np.int32)
    type_ = f"tensor<{'x'.join(map(str, sizes))}xf64>"
    scores = tiduc.load(f"func.func @main(%y: {type_}) -> {type_} {{ return %y : {type_} }}")

    def by_jax(y: Any) -> Any:
        picked = jnp.take_along_axis(jax.nn.log_softmax(y), jnp.asarray(labels)[..., None], -1)
        return -jnp.mean(picked)

    loss, dy = run(with_loss(scores, "softmax-cross-entropy").grad("y", value=True), [y, labels])
    with jax.enable_x64(True):
        wanted, slope = jax.value_and_grad(by_jax)(y)
    np.testing.assert_allclose(loss, wanted, rtol=1e-12)
    np.testing.assert_allclose(dy, slope, rtol=1e-10, atol=1e-14)


TWO = """
func.func @main(%w: tensor<3xf64> {tidu.name = "w"}) -> (tensor<3xf64>, tensor<f64>) {
  %0 = stablehlo.constant dense<2.0> : tensor<f64>
  %1 = func.call @square(%w) : (tensor<3xf64>) -> tensor<3xf64>
  return %1, %0 : tensor<3xf64>, tensor<f64>
}
func.func private @square(%x: tensor<3xf64>) -> tensor<3xf64> {
  %0 = stablehlo.multiply %x, %x : tensor<3xf64>
  return %0 : tensor<3xf64>
}"""
OF_TWO = """
func.func @main(%y: tensor<3xf64>, %c: tensor<f64>, %t: tensor<3xf64> {tidu.name = "wanted"}) -> tensor<f64> {
  %0 = stablehlo.multiply %y, %t : tensor<3xf64>
  %1 = func.call @square(%0) : (tensor<3xf64>) -> tensor<f64>
  %2 = stablehlo.multiply %1, %c : tensor<f64>
  return %2 : tensor<f64>
}
func.func private @square(%x: tensor<3xf64>) -> tensor<f64> {
  %0 = stablehlo.dot_general %x, %x, contracting_dims = [0] x [0] : (tensor<3xf64>, tensor<3xf64>) -> tensor<f64>
  return %0 : tensor<f64>
}"""


def test_a_custom_loss() -> None:
    """A custom loss may read all outputs of the model. It may have a function with the name of a function of the model,
    here @square.
    """
    program = with_loss(tiduc.load(TWO), tiduc.load(OF_TWO))
    assert [port.name for port in program.inputs] == ["w", "wanted"]
    w, t = RNG.standard_normal(3), RNG.standard_normal(3)
    value, dw = run(program.grad("w", value=True), [w, t])
    np.testing.assert_allclose(value, 2 * np.sum((w * w * t) ** 2), rtol=1e-12)
    np.testing.assert_allclose(dw, 8 * w**3 * t**2, rtol=1e-12)


# ---- optimizers


def steps(optimizer: str, count: int, **settings: Any) -> tuple[list[Any], list[Any]]:
    """The losses of `count` steps with learning rate 0.1, and the state after the last step."""
    program = train_step(model(LINEAR, w=W), "mse", optimizer, **settings)
    state = [program.weights[port.name] for port in program.inputs[: len(program.weights)]]
    losses = []
    for _ in range(count):
        loss, *state = run(program, [*state, X, T, np.float32(0.1)])
        losses.append(loss)
    return losses, state


def gradient(w: Any) -> Any:
    return 2 * X.T @ (X @ w - T) / T.size


def test_sgd() -> None:
    w = W
    for _ in range(3):
        w = w - np.float32(0.1).astype(np.float64) * gradient(w)
    losses, (actual,) = steps("sgd", 3)
    np.testing.assert_allclose(actual, w, rtol=1e-12)
    assert losses[0] > losses[1] > losses[2]


def test_momentum() -> None:
    w, v = W, np.zeros_like(W)
    for _ in range(3):
        v = 0.8 * v + gradient(w)
        w = w - np.float32(0.1).astype(np.float64) * v
    _, state = steps("momentum", 3, momentum=0.8)
    np.testing.assert_allclose(state[0], w, rtol=1e-12)
    np.testing.assert_allclose(state[1], v, rtol=1e-12)


@pytest.mark.parametrize("beta1", [0.9, 0.0])
def test_adam(beta1: float) -> None:
    """Adam equals its formula.

    The step count n is an f32, but the relative error of 1 - b^n must be 1e-7; a small absolute error is not enough.
    """
    w, m, v = W, np.zeros_like(W), np.zeros_like(W)
    for n in range(1, 4):
        g = gradient(w)
        m = beta1 * m + (1 - beta1) * g
        v = 0.999 * v + 0.001 * g**2
        w = w - 0.1 * (m / (1 - beta1**n)) / (np.sqrt(v / (1 - 0.999**n)) + 1e-8)
    _, (actual, step, first, second) = steps("adam", 3, beta1=beta1)
    assert step == 3
    np.testing.assert_allclose(actual, w, rtol=3e-6)
    np.testing.assert_allclose(first, m, rtol=1e-5)
    np.testing.assert_allclose(second, v, rtol=1e-5)


@pytest.mark.parametrize("decay", ["w", "*.weight"])
def test_adamw(decay: str) -> None:
    """AdamW equals its formula. A parameter decays only if its name matches the pattern `decay`."""
    w, m, v, d = W, np.zeros_like(W), np.zeros_like(W), 0.3 if decay == "w" else 0.0
    for n in range(1, 4):
        g = gradient(w)
        m = 0.9 * m + 0.1 * g
        v = 0.999 * v + 0.001 * g**2
        w = w - 0.1 * d * w - 0.1 * (m / (1 - 0.9**n)) / (np.sqrt(v / (1 - 0.999**n)) + 1e-8)
    _, (actual, step, *_) = steps("adamw", 3, weight_decay=0.3, decay=[decay])
    assert step == 3
    np.testing.assert_allclose(actual, w, rtol=1e-5)


def test_lion() -> None:
    w, m = W, np.zeros_like(W)
    for _ in range(3):
        g = gradient(w)
        w = w - np.float32(0.1).astype(np.float64) * (np.sign(0.9 * m + 0.1 * g) + 0.5 * w)
        m = 0.95 * m + 0.05 * g
    _, state = steps("lion", 3, beta2=0.95, weight_decay=0.5)
    np.testing.assert_allclose(state[0], w, rtol=1e-6)
    np.testing.assert_allclose(state[1], m, rtol=1e-6)


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_accumulation(optimizer: str) -> None:
    """With `accumulate=3`, three calls with batches equal one step with the concatenated batch.

    The first two calls do not change the weights.
    """
    settings: dict[str, Any] = {"train": ["w"], "clip_norm": 0.1}
    step = train_step(model(LINEAR), "mse", optimizer, accumulate=3, **settings)
    whole = train_step(model(LINEAR.replace("4x", "12x")), "mse", optimizer, **settings)
    xs, ts = RNG.standard_normal((3, 4, 3)), RNG.standard_normal((3, 4, 2))
    rate = np.float32(0.1)
    states = {port.name: np.zeros(port.type.shape, port.type.dtype) for port in step.signature.inputs}
    states["w"] = W
    for round in range(2):
        names = [port.name for port in whole.signature.inputs[:-3]]
        wanted = run(whole, [*(states[n] for n in names), np.concatenate(xs), np.concatenate(ts), rate])[1:]
        for x, t in zip(xs, ts, strict=True):
            before = states["w"]
            held = list(states)[:-3]
            _, *new = run(step, [*(states[n] for n in held), x, t, rate])
            states |= dict(zip(held, new, strict=True))
            assert (states["batches"] == 0) == (states["w"] != before).all()
        for name, value in zip(names, wanted, strict=True):
            np.testing.assert_allclose(states[name], value, rtol=1e-5, atol=1e-8, err_msg=f"{name}, {round}")
    with pytest.raises(RequestError, match="at least 1, got 0"):
        train_step(model(LINEAR), "mse", optimizer, accumulate=0, **settings)


@pytest.mark.parametrize("largest", [0.05, 1e6])
def test_clipping(largest: float) -> None:
    w, rate = W, np.float32(0.1).astype(np.float64)
    for _ in range(3):
        g = gradient(w)
        w = w - rate * g * min(1, largest / np.linalg.norm(g))
    _, (actual,) = steps("sgd", 3, clip_norm=largest)
    np.testing.assert_allclose(actual, w, rtol=1e-12)


HALF = """
func.func @main(%step: tensor<3xbf16> {tidu.name = "step"}, %f: tensor<3xbf16> {tidu.name = "a.frozen"},
    %x: tensor<3xbf16> {tidu.name = "x"}) -> tensor<3xbf16> {
  %0 = stablehlo.multiply %step, %x : tensor<3xbf16>
  %1 = stablehlo.add %0, %f : tensor<3xbf16>
  return %1 : tensor<3xbf16>
}"""


@pytest.mark.parametrize("type_", ["bf16", "f16"])
def test_narrow_elements(type_: str) -> None:
    """For weights in bf16 and f16, the moments of Adam are f32, because narrower types would round epsilon and 1 -
    beta2.

    A weight may have the name of a state, such as "step".
    """
    dtype = ml_dtypes.bfloat16 if type_ == "bf16" else np.float16
    w, f, x = (np.array(v, dtype) for v in ([1, 1, 1], [0, 0, 0], [1, 0, 0.01]))
    held = model(HALF.replace("bf16", type_), **{"step": w, "a.frozen": f})
    program = train_step(held, "mse", "adam", freeze=["*.frozen"])
    names = ["step", "step.2", "step.first_moment", "step.second_moment", "a.frozen"]
    assert [port.name for port in program.inputs] == [*names, "x", "target", "rate"]
    assert list(program.weights) == names
    assert program.weights["step.second_moment"].dtype == np.float32
    compiled = program.compile()
    loss, new, n, first, second = compiled(*program.arguments(x, np.zeros(3, dtype), np.float32(0.1)))
    g = 2 * x.astype(np.float32) ** 2 / 3
    assert n == 1
    np.testing.assert_allclose(loss, np.mean(x.astype(np.float32) ** 2), rtol=1e-2)
    np.testing.assert_allclose(second, 0.001 * g**2, rtol=2e-2)
    np.testing.assert_allclose(new.astype(np.float32), 1 - 0.1 * g / (g + 1e-8), rtol=1e-2)


# ---- the weights that are trained


def test_signature() -> None:
    program = train_step(model(LINEAR, w=W), "mse", "adam")
    names = ["w", "step", "w.first_moment", "w.second_moment"]
    assert [port.name for port in program.inputs] == [*names, "x", "target", "rate"]
    assert [port.name for port in program.outputs] == ["loss", *names]
    assert list(program.weights) == names
    for i in range(4):
        assert f"iree.abi.output = {i + 1} : index" in program.text


BUFFERED = """
func.func @main(%b: tensor<2xf64> {tidu.name = "b"}, %m: tensor<2xf64> {tidu.name = "m"},
    %f: tensor<2xf64> {tidu.name = "f"}, %n: tensor<2xi32> {tidu.name = "n"})
    -> (tensor<2xf64>, tensor<2xf64> {tidu.name = "m.updated"}) {
  %0 = stablehlo.multiply %b, %f : tensor<2xf64>
  %1 = stablehlo.add %0, %m : tensor<2xf64>
  %2 = stablehlo.convert %n : (tensor<2xi32>) -> tensor<2xf64>
  %3 = stablehlo.add %1, %2 : tensor<2xf64>
  return %3, %1 : tensor<2xf64>, tensor<2xf64>
}"""


def test_buffers_and_frozen_weights() -> None:
    """A step returns the updated buffers of a model. Frozen weights and integers are inputs, but are not updated."""
    ones = np.ones(2)
    held = model(BUFFERED, b=ones, m=ones, f=2 * ones, n=np.ones(2, np.int32))
    program = train_step(held, freeze=["f*"])
    assert [port.name for port in program.inputs] == ["b", "m", "f", "n", "target", "rate"]
    assert [port.name for port in program.outputs] == ["loss", "b", "m"]
    loss, b, m = run(program, [ones, ones, 2 * ones, np.ones(2, np.int32), ones, np.float32(1)])
    np.testing.assert_allclose([loss, *b, *m], [9, -5, -5, 3, 3], rtol=1e-12)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"loss": "hinge"}, "unknown loss 'hinge'"),
        ({"optimizer": "rms"}, "unknown optimizer 'rms'"),
        ({"momentum": 0.9}, "sgd has no setting momentum"),
        ({"optimizer": "adam", "beta2": 1.0}, "beta2 must be at least 0 and less than 1, not 1.0"),
        ({"optimizer": "adam", "epsilon": float("nan")}, "epsilon must be at least 0, not nan"),
        ({"freeze": ["w"]}, "no parameter is left to train; frozen: w"),
        ({"train": ["target"]}, "no input is a parameter: name some; the inputs are w, x"),
        ({"train": ["v"]}, "no input is a parameter"),
        ({"loss": "none"}, "grad needs one real scalar float output"),
    ],
)
def test_refused(wanted: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError, match=message):
        train_step(model(LINEAR, w=W), **wanted)


def test_losses_that_do_not_fit() -> None:
    with pytest.raises(RequestError, match="takes one output, and the model has 2"):
        train_step(tiduc.load(TWO), train=["w"])
    with pytest.raises(RequestError, match="input 'y' of the loss is .*; the model's 'y' is"):
        with_loss(tiduc.load(LINEAR), tiduc.load(OF_TWO))
    with pytest.raises(RequestError, match="a loss must have one output; this one has 2"):
        with_loss(tiduc.load(LINEAR), tiduc.load(TWO))
    whole = LINEAR.replace("f64", "i32")
    with pytest.raises(RequestError, match="needs floats; 'y' is tensor<4x2xi32>"):
        with_loss(tiduc.load(whole), "mse")


# ---- a model of ONNX, trained by the example


@pytest.fixture(scope="module")
def trained(tmp_path_factory: Any) -> Sequence[Path]:
    folder = tmp_path_factory.mktemp("train")
    step, state = folder / "step.vmfb", folder / "state.npz"
    model = str(EXAMPLES / "digits.onnx")
    wanted = ["--loss", "softmax-cross-entropy", "--optimizer", "adam", "--state", str(state)]
    assert cli(["train-step", model, *wanted, "-o", str(step)]) == 0
    return step, state


def test_ten_steps_are_those_of_pytorch(trained: Sequence[Path]) -> None:
    with np.load(EXAMPLES / "digits.npz") as stored, np.load(trained[1]) as weights:
        data, state = dict(stored), dict(weights)
    batch = [data["images"], data["labels"], data["rate"]]
    losses, after = script("finetune_on_device").train(trained[0], state, batch, 10)
    np.testing.assert_allclose(losses, data["losses"], rtol=1e-5)
    for name, x in data.items():
        if name.startswith("after."):
            actual = after[name.removeprefix("after.")]
            np.testing.assert_allclose(actual, x, rtol=0, atol=1e-5 * np.max(np.abs(x)))


def test_settings_at_a_shell(tmp_path: Path, capsys: Any) -> None:
    """The options of `tiduc train-step` set the parameters of `train_step`."""
    two, out = tmp_path / "two.mlir", tmp_path / "step.mlir"
    two.write_text(LINEAR)
    options = ["train-step", str(two), "--train", "w", "--optimizer", "adam", "-o", str(out)]
    assert cli([*options, "--beta1", "0.5", "--beta2", "0.75", "--epsilon", "0.25"]) == 0
    wanted = train_step(tiduc.load(LINEAR), "mse", "adam", train=["w"], beta1=0.5, beta2=0.75, epsilon=0.25)
    assert out.read_text() == f"{wanted.text.rstrip()}\n"
    assert cli([*options, "--freeze", "w"]) == 1
    assert "no parameter is left to train; frozen: w" in capsys.readouterr().err


def test_rules_at_a_shell(tmp_path: Path, capsys: Any) -> None:
    """`tiduc train-step` applies a user's rule to an op of the model. The rule multiplies the cotangent by 7."""
    text = """func.func @main(%w: tensor<3xf32>) -> tensor<3xf32> {
  %0 = "foreign.f"(%w) : (tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}"""
    two, out, rules = tmp_path / "two.mlir", tmp_path / "step.mlir", tmp_path / "rules.py"
    two.write_text(text)
    rules.write_text(
        """from tiduc import OPSET as ours
OPSET = ours.extended()
OPSET.elementwise("foreign.f", lambda b, x, y: b.constant(7.0, x))
@OPSET.lowering("foreign.f")
def lowered(b, op, x):
    return b.multiply(x, b.constant(5.0, x))
"""
    )
    options = ["train-step", str(two), "--train", "w", "-o", str(out)]
    assert cli([*options, "--rules", str(rules)]) == 0
    program = tiduc.load(out, opset=opset(str(rules)))
    new = program.compile(engine="reference")(np.ones(3, np.float32), np.zeros(3, np.float32), np.float32(1))[
        1
    ]
    np.testing.assert_allclose(new, 1 - 7 * 2 * 5 / 3, rtol=1e-6)
    assert cli(options) == 1
    assert "foreign" in capsys.readouterr().err


def test_at_a_shell(tmp_path: Path, capsys: Any) -> None:
    own = tmp_path / "loss.mlir"
    own.write_text(OF_TWO)
    two = tmp_path / "two.mlir"
    two.write_text(TWO)
    out = tmp_path / "step.mlir"
    options = ["train-step", str(two), "--train", "w", "--optimizer", "momentum", "--momentum", "0.5"]
    assert cli([*options, "--loss", str(own), "-o", str(out)]) == 0
    assert [port.name for port in tiduc.load(out).inputs] == ["w", "w.velocity", "wanted", "rate"]
    assert cli([*options, "--loss", "hinge", "-o", str(out)]) == 1
    assert "unknown loss 'hinge'" in capsys.readouterr().err
    assert cli([*options, "--loss", str(tmp_path / "none.mlir")]) == 1
    assert "none.mlir: error: No such file" in capsys.readouterr().err
