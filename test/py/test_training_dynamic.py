"""Training steps of models with a dynamic batch size: one compiled module serves batches of all sizes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiduc
from tiduc.dialect.mlir.context import parse
from tiduc.models.model import model_of
from tiduc.training.losses import with_loss
from tiduc.training.step import train_step

RNG = np.random.default_rng(0)
LINEAR = """func.func @main(%w: tensor<3x5xf32> {tidu.name = "w"}, %x: tensor<?x3xf32> {tidu.name = "x"})
    -> (tensor<?x5xf32> {tidu.name = "y"}) {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<?x3xf32>, tensor<3x5xf32>) -> tensor<?x5xf32>
  return %0 : tensor<?x5xf32>
}"""


def mse(y: Any, t: Any) -> tuple[Any, Any]:
    return np.mean((y - t) ** 2), 2 * (y - t) / y.size


def softmax_cross_entropy(y: Any, t: Any) -> tuple[Any, Any]:
    share = np.exp(y - y.max(-1, keepdims=True))
    share /= share.sum(-1, keepdims=True)
    return -np.mean(np.log(share[np.arange(len(t)), t])), (share - np.eye(5)[t]) / len(t)


@pytest.mark.parametrize("loss, formula", [("mse", mse), ("softmax-cross-entropy", softmax_cross_entropy)])
def test_batches_of_several_sizes(loss: str, formula: Any) -> None:
    """For batches of several sizes, the loss is the mean over the batch.

    Inputs and targets with different numbers of rows are refused, even if one number is 1.
    """
    w = RNG.standard_normal((3, 5), np.float32)
    step = train_step(model_of(parse(LINEAR), {"w": w}), loss).compile()
    wide = w.astype(np.float64)
    for n in (8, 8, 3, 1, 50, 8):
        x = RNG.standard_normal((n, 3), np.float32)
        t = (
            RNG.standard_normal((n, 5), np.float32)
            if loss == "mse"
            else RNG.integers(0, 5, n).astype(np.int32)
        )
        found, w = step(w, x, t, np.float32(0.5))
        wanted, slope = formula(x @ wide, t)
        wide = wide - 0.5 * x.T @ slope
        np.testing.assert_allclose(found, wanted, rtol=1e-5)
        np.testing.assert_allclose(w, wide, rtol=1e-4, atol=1e-5)
    for other in (t[:1], t[:5]):
        with pytest.raises(tiduc.TiducError, match="dimension 0 of x is 8, dimension 0 of target is"):
            step(w, x, other, np.float32(0.5))


def test_losses_are_those_of_pytorch(tmp_path: Path) -> None:
    """The losses of 200 steps of AdamW equal PyTorch's. Every fourth step has a smaller batch."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4))
    shapes = ({0: torch.export.Dim("batch", min=2, max=64)},)
    torch.export.save(
        torch.export.export(net, (torch.ones(16, 8),), dynamic_shapes=shapes), tmp_path / "net.pt2"
    )
    step = train_step(tiduc.from_torch(tmp_path / "net.pt2", lift_constants=True), "mse", "adamw")
    compiled, state = step.compile(), list(step.weights.values())
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    for i in range(200):
        n = 5 if i % 4 == 3 else 16
        x, t = torch.randn(n, 8), torch.randn(n, 4)
        loss, *state = compiled(*state, x, t, np.float32(1e-2))
        optimizer.zero_grad()
        wanted = torch.nn.functional.mse_loss(net(x), t)
        wanted.backward()
        optimizer.step()
        assert abs(wanted.item() - loss) < 2e-6


@pytest.mark.more
@pytest.mark.parametrize("type_", ["tensor<4x5xf64>", "tensor<?x5xf64>", "tensor<?x?xf64>"])
def test_targets_that_are_no_class(type_: str) -> None:
    """A target of -100 excludes a row from the loss, as with PyTorch's `ignore_index`.

    For targets that PyTorch refuses, the loss is NaN.
    """
    scores = tiduc.load(f"func.func @main(%y: {type_}) -> {type_} {{ return %y : {type_} }}")
    gradient = with_loss(scores, "softmax-cross-entropy").grad("y", value=True).compile()
    y, labels = RNG.standard_normal((4, 5)), np.array([2, -100, 4, -100], np.int32)
    loss, dy = gradient(y, labels)
    share = np.exp(y) / np.exp(y).sum(-1, keepdims=True)
    np.testing.assert_allclose(loss, -(np.log(share[0, 2]) + np.log(share[2, 4])) / 2, rtol=1e-12)
    wanted = (share - np.eye(5)[labels % 5]) / 2
    wanted[[1, 3]] = 0
    np.testing.assert_allclose(dy, wanted, rtol=1e-12, atol=1e-16)
    for label in (5, -1, -(2**31)):
        assert np.isnan(gradient(y, np.array([2, label, 4, 0], np.int32))[0])
    assert np.isnan(gradient(y, np.full(4, -100, np.int32))[0])  # the mean over no rows is NaN, as in PyTorch
