"""Tests training of PyTorch models with weights that have no gradient, such as frozen parameters and buffers."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from harness.check_rule import run

import tiduc
from tiduc.cli import run as cli
from tiduc.dialect.errors import RequestError
from tiduc.training.step import train_step

torch = pytest.importorskip("torch")


class Net(torch.nn.Module):
    """A network with a frozen weight, an unused weight, a buffer, running statistics, and tied weights."""

    def __init__(self) -> None:
        super().__init__()
        self.frozen = torch.nn.Parameter(torch.linspace(1, 99, 24).sin().reshape(8, 3), requires_grad=False)
        self.unread = torch.nn.Parameter(torch.ones(2))
        self.detached = torch.nn.Parameter(torch.ones(3))
        self.last = torch.nn.Linear(3, 3)
        self.norm = torch.nn.BatchNorm1d(3)
        self.first = torch.nn.Parameter(torch.eye(3))
        self.tied = torch.nn.Parameter(self.first.detach(), requires_grad=False)
        self.register_buffer("table", torch.tensor([0.5, 1.0, 2.0]))

    def forward(self, x: Any) -> Any:
        hidden = self.norm(x @ self.frozen @ self.first * self.table + self.detached.detach())
        return self.last(torch.tanh(hidden @ self.tied))


X = np.random.default_rng(0).standard_normal((5, 8), np.float32)
TARGET = np.random.default_rng(1).standard_normal((5, 3), np.float32)
TRAINED = ["first", "last.weight", "last.bias", "norm.weight", "norm.bias"]
LEFT = "frozen (requires_grad=False), unread (the loss has no derivative in it), detached (the loss has no derivative "


@pytest.fixture(scope="module")
def file(tmp_path_factory: Any) -> Path:
    path: Path = tmp_path_factory.mktemp("frozen") / "net.pt2"
    with torch.random.fork_rng():
        torch.manual_seed(0)
        exported = torch.export.export(Net().train(), (torch.tensor(X),))
    torch.export.save(exported, path)
    return path


@pytest.fixture(scope="module", params=["file", "module"])
def model(request: Any, file: Path) -> tiduc.Model:
    if request.param == "file":
        return tiduc.from_torch(file, lift_constants=True)
    return tiduc.from_torch(torch.export.load(file), lift_constants=True)


def test_steps_are_those_of_pytorch(model: tiduc.Model, file: Path) -> None:
    """Training steps of AdamW give PyTorch's losses and weights.

    AdamW's weight decay changes each parameter that is trained, even if its gradient is zero.
    """
    step = train_step(model, "mse", "adamw", weight_decay=0.5, epsilon=0.01)
    assert [port.name for port in step.outputs[1:6]] == TRAINED
    compiled, state = step.compile(), dict(step.weights)
    losses = []
    for _ in range(10):
        loss, *new = compiled(*[state[x] for x in step.weights], X, TARGET, np.float32(0.1))
        state |= dict(zip([port.name for port in step.outputs[1:]], new, strict=True))
        losses.append(float(loss))
    net = torch.export.load(file).module()
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.1, weight_decay=0.5, eps=0.01)
    for loss in losses:
        optimizer.zero_grad()
        wanted = torch.nn.functional.mse_loss(net(torch.tensor(X)), torch.tensor(TARGET))
        wanted.backward()
        assert abs(wanted.item() - loss) < 1e-6
        optimizer.step()
    for name, tensor in net.state_dict().items():
        if name != "tied":  # the shared weight is named `first`
            np.testing.assert_allclose(state[name], tensor.numpy(), rtol=1e-5, atol=1e-6, err_msg=name)


def test_derivatives_without_names(model: tiduc.Model) -> None:
    """If no inputs are named, tiduc differentiates with respect to the inputs for which PyTorch has gradients.

    If inputs are named, frozen weights may be among them.
    """
    from tiduc.training.losses import with_loss

    lossy = with_loss(model, "mse")
    scalar = tiduc.load(lossy.text)  # the text records which inputs are frozen
    for program in (lossy, scalar):
        names = [port.name for port in program.differentiated(None)]
        assert names == ["unread", "detached", *TRAINED, "x", "target"]
    named = [port.name for port in lossy.differentiated(["frozen", "table"])]
    assert named == ["frozen", "table"]


def test_the_command_names_what_it_leaves_alone(file: Path, tmp_path: Path, capsys: Any) -> None:
    assert cli(["train-step", str(file), "-o", str(tmp_path / "step.mlir")]) == 0
    trained, updated, left = capsys.readouterr().err.splitlines()
    assert trained == f"trains: {', '.join(TRAINED)}"
    assert updated == "updates: norm.running_mean, norm.running_var, norm.num_batches_tracked"
    assert left == f"leaves alone: {LEFT}in it), table (a buffer)"
    assert cli(["train-step", str(file), "--train", "frozen", "-o", str(tmp_path / "step.mlir")]) == 0
    assert capsys.readouterr().err.startswith("trains: frozen\n")


def test_nothing_is_left() -> None:
    text = """func.func @main(%w: tensor<3xf32> {tidu.name = "w", tidu.frozen = "requires_grad=False"},
        %n: tensor<3xi32>) -> tensor<f32> {
      %0 = stablehlo.dot_general %w, %w, contracting_dims = [0] x [0] : (tensor<3xf32>, tensor<3xf32>) -> tensor<f32>
      return %0 : tensor<f32>
    }"""
    program = tiduc.load(text)
    with pytest.raises(RequestError, match=r"because all of them are frozen: w \(requires_grad=False\)"):
        program.grad()
    w = np.ones(3, np.float32)
    np.testing.assert_array_equal(run(program.grad("w"), [w, np.zeros(3, np.int32)])[0], 2 * w)
    with pytest.raises(RequestError, match=r"no parameter is left to train: name some; held: w \(requires"):
        train_step(tiduc.Model(**vars(program), weights={"w": w}), "none")
    free = tiduc.load(
        "func.func @main(%w: tensor<f32>, %x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }"
    )
    with pytest.raises(RequestError, match="the loss has no derivative in any parameter: w"):
        train_step(free, "none", train=["w"])
