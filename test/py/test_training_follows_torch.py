"""200 steps of training follow PyTorch's losses: a perceptron with SGD, and a network with batch norm and Adam."""

from typing import Any

import numpy as np
import pytest

import tiduc
import tiduc.runtime

torch = pytest.importorskip("torch")

STEPS, ROWS = 200, 16


def perceptron() -> Any:
    return torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 4))


def convolutions() -> Any:
    conv, norm = torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4)
    return torch.nn.Sequential(conv, norm, torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(64, 4))


NETS: dict[str, tuple[Any, tuple[int, ...], str, float]] = {
    "perceptron": (perceptron, (8,), "sgd", 0.1),
    "convolutions": (convolutions, (1, 6, 6), "adam", 1e-3),
}
"""The network, the shape of a row, the optimizer and the learning rate."""


@pytest.mark.parametrize("name", NETS)
def test_losses(name: str) -> None:
    """The losses of all steps differ by at most 1e-6 of PyTorch's, on other batches in each step."""
    make, shape, optimizer, rate = NETS[name]
    torch.manual_seed(0)
    net = make().train()
    step = tiduc.train_step(
        tiduc.from_torch(net, (torch.ones(ROWS, *shape),), lift_constants=True),
        "softmax-cross-entropy",
        optimizer,
    )
    rng = np.random.default_rng(0)
    x = rng.standard_normal((STEPS, ROWS, *shape)).astype(np.float32)
    t = rng.integers(0, 4, (STEPS, ROWS)).astype(np.int32)
    own = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[optimizer](net.parameters(), lr=rate)
    compiled = step.compile()
    kept: list[Any] = [step.weights[port.name] for port in step.inputs if port.name in step.weights]
    differences = []
    for i in range(STEPS):
        loss, *kept = compiled.keep(*kept, x[i], t[i], np.float32(rate))
        own.zero_grad()
        wanted = torch.nn.functional.cross_entropy(
            net(torch.tensor(x[i])), torch.tensor(t[i], dtype=torch.int64)
        )
        wanted.backward()
        own.step()
        differences.append(abs(float(loss) - wanted.item()) / wanted.item())
    assert len(kept) == len(step.weights)  # nothing is frozen
    assert max(differences) <= 1e-6, max(differences)
