"""Mixed precision in training steps: losses are compared with PyTorch's autocast, and the updates of the loss scale are
checked.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiduc
from tiduc.cli import run as cli
from tiduc.dialect.errors import RequestError
from tiduc.runtime.weights import read_weights
from tiduc.training.precision import INTERVAL

RNG = np.random.default_rng(0)
NET = """
func.func @main(%w: tensor<3x4xf32> {tidu.name = "w"}, %x: tensor<5x3xf32> {tidu.name = "x"}) -> tensor<5x4xf32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<5x3xf32>, tensor<3x4xf32>) -> tensor<5x4xf32>
  return %0 : tensor<5x4xf32>
}"""


def called(step: Any, run: Any, **given: Any) -> dict[str, Any]:
    """The outputs of a step by name."""
    arrays = {**step.weights, **{name: np.asarray(x, np.float32) for name, x in given.items()}}
    results = run(*(arrays[port.name] for port in step.inputs))
    return dict(zip((port.name for port in step.outputs), results, strict=True))


def test_the_loss_scale() -> None:
    """Steps with finite gradients update the weights, and double the loss scale after a number of such steps.

    Other steps only halve the loss scale.
    """
    step = tiduc.train_step(tiduc.load(NET), "mse", "adam", train=["w"], precision="f16")
    run = step.compile()
    assert step.weights["loss_scale"] == 2**16 and step.weights["loss_scale.steps"] == 0
    given = {
        name: RNG.standard_normal(shape) for name, shape in (("w", (3, 4)), ("x", (5, 3)), ("target", (5, 4)))
    }
    given["rate"] = np.array(0.01)
    first = called(step, run, **given)
    half = {name: np.asarray(given[name], np.float16).astype(np.float64) for name in ("w", "x")}
    error = half["x"] @ half["w"] - given["target"]
    np.testing.assert_allclose(first["loss"], np.mean(error**2), rtol=2e-3)
    gradient = half["x"].T @ (2 * error / error.size)
    np.testing.assert_allclose(first["w.first_moment"], 0.1 * gradient, rtol=5e-3, atol=1e-4)
    assert (first["loss_scale"], first["loss_scale.steps"], first["step"]) == (2**16, 1, 1)
    last = called(step, run, **given, **{"loss_scale.steps": INTERVAL - 1, "loss_scale": 64})
    assert (last["loss_scale"], last["loss_scale.steps"]) == (128, 0)
    np.testing.assert_allclose(last["w"], first["w"], rtol=1e-3, atol=1e-4)
    skipped = called(step, run, **{**given, "loss_scale": 2.0**30, "loss_scale.steps": 7})
    assert (skipped["loss_scale"], skipped["loss_scale.steps"], skipped["step"]) == (2**29, 0, 0)
    np.testing.assert_array_equal(skipped["w"], np.float32(given["w"]))
    np.testing.assert_array_equal(skipped["w.second_moment"], 0)
    np.testing.assert_allclose(skipped["loss"], first["loss"])


def test_refused() -> None:
    model = tiduc.load(NET)
    plain = tiduc.load("func.func @main(%w: tensor<f32>) -> tensor<f32> { return %w : tensor<f32> }")
    for program, wanted, message in (
        (model, {"precision": "f8"}, "unknown precision 'f8'; there are f32, bf16, f16"),
        (model, {"precision": "f16", "accumulate": 2}, "f16 is not supported with accumulate"),
        (plain, {"precision": "bf16"}, "the model has no product or convolution of f32 to compute in bf16"),
    ):
        with pytest.raises(RequestError, match=message):
            tiduc.train_step(program, "mse", train=["w"], **wanted)


def test_at_a_shell(tmp_path: Path) -> None:
    (tmp_path / "net.mlir").write_text(NET)
    words = [
        "--train",
        "w",
        "--optimizer",
        "momentum",
        "--precision",
        "f16",
        "-o",
        str(tmp_path / "step.mlir"),
    ]
    assert cli(["train-step", str(tmp_path / "net.mlir"), *words, "--state", str(tmp_path / "s.npz")]) == 0
    text = (tmp_path / "step.mlir").read_text()
    assert text.count("xf16>) -> tensor") >= 2 and "tensor<3x4xf16>" in text
    assert read_weights(tmp_path / "s.npz")["loss_scale"] == 2**16


@pytest.mark.more
@pytest.mark.parametrize("precision, tolerance", [("bf16", 3e-2), ("f16", 4e-3)])
def test_losses_follow_pytorch(precision: str, tolerance: float) -> None:
    """The losses of 100 steps equal PyTorch's under `autocast`, with a `GradScaler` for f16.

    With f32 products, the losses would differ.
    """
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 4))
    model = tiduc.from_torch(net, (torch.ones(16, 8),), lift_constants=True)
    step = tiduc.train_step(model, "softmax-cross-entropy", "adam", precision=precision)
    compiled, dtype = step.compile(), {"bf16": torch.bfloat16, "f16": torch.float16}[precision]
    kept: list[Any] = [step.weights[port.name] for port in step.inputs if port.name in step.weights]
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    scaler = torch.amp.GradScaler("cpu", enabled=precision == "f16")
    x, t = RNG.standard_normal((100, 16, 8), np.float32), RNG.integers(0, 4, (100, 16)).astype(np.int32)
    differences = []
    for i in range(100):
        loss, *kept = compiled.keep(*kept, x[i], t[i], np.float32(3e-3))
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=dtype):
            wanted = torch.nn.functional.cross_entropy(net(torch.tensor(x[i])), torch.tensor(t[i]).long())
        scaler.scale(wanted).backward()
        scaler.step(optimizer)
        scaler.update()
        differences.append(abs(float(loss) - wanted.item()) / wanted.item())
    assert max(differences) < tolerance
