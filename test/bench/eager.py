"""Times a training step of a small network with eager arrays and with PyTorch: python test/bench/eager.py [--parts]

The network is that of examples/eager_mlp.py: it has two hidden layers of 32 units, and a batch has 256 points. A step
is the forward pass, the backward pass and the update of six parameters. Steps of both libraries alternate in one
process on one core. The figures are medians of processor time. With `--parts`, also prints the times of the parts of
tiduc's step.
"""

import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from tiduc.eager import Array, no_grad, rehearsing

ROUNDS, STEPS, RATE = 60, 5, 0.5

draw = np.random.default_rng(0)
POINTS = draw.uniform(-1, 1, (256, 2)).astype(np.float32)
INSIDE = (np.abs(np.hypot(*POINTS.T) - 0.6) < 0.2).astype(np.int64)
SIZES = (2, 32, 32, 2)
WEIGHTS = [
    draw.normal(0, (2 / m) ** 0.5, (m, n)).astype(np.float32) for m, n in zip(SIZES, SIZES[1:], strict=False)
]


class OfTiduc:
    """The network, written with eager arrays."""

    def __init__(self) -> None:
        self.layers = [
            (Array(w, requires_grad=True), Array(np.zeros(w.shape[1], np.float32), requires_grad=True))
            for w in WEIGHTS
        ]

    def loss(self) -> Any:
        h: Any = POINTS
        for i, (w, b) in enumerate(self.layers):
            h = h @ w + b
            if i < len(self.layers) - 1:
                h = np.maximum(h, 0)
        log_p = h - np.log(np.sum(np.exp(h), axis=1, keepdims=True))
        return -np.mean(np.take_along_axis(log_p, INSIDE[:, None], axis=1))

    def update(self) -> None:
        with no_grad():
            for layer in self.layers:
                for p in layer:
                    p -= RATE * p.grad


class OfTorch:
    """The network, written with PyTorch's tensors."""

    def __init__(self) -> None:
        self.layers = [
            (torch.tensor(w, requires_grad=True), torch.zeros(w.shape[1], requires_grad=True))
            for w in WEIGHTS
        ]
        self.points, self.inside = torch.tensor(POINTS), torch.tensor(INSIDE)[:, None]

    def loss(self) -> Any:
        h = self.points
        for i, (w, b) in enumerate(self.layers):
            h = h @ w + b
            if i < len(self.layers) - 1:
                h = torch.clamp_min(h, 0)
        log_p = h - torch.log(torch.sum(torch.exp(h), dim=1, keepdim=True))
        return -torch.mean(torch.take_along_dim(log_p, self.inside, dim=1))

    def update(self) -> None:
        with torch.no_grad():
            for layer in self.layers:
                for p in layer:
                    p -= RATE * p.grad
                    p.grad = None


def step(net: OfTiduc | OfTorch) -> float:
    loss = net.loss()
    loss.backward()
    net.update()
    return float(loss.item())


def seconds(f: Callable[[], Any]) -> float:
    start = time.process_time()
    f()
    return time.process_time() - start


def steps(net: OfTiduc | OfTorch) -> float:
    """Returns the mean processor time of `STEPS` steps, in seconds."""
    return seconds(lambda: [step(net) for _ in range(STEPS)]) / STEPS


def parts(net: OfTiduc) -> str:
    """Returns a text with the median times of the forward pass, the backward pass and the update, in microseconds."""
    times: list[list[float]] = [[], [], []]
    for _ in range(ROUNDS * STEPS):
        held: list[Any] = []
        times[0].append(seconds(lambda: held.append(net.loss())))  # noqa: B023
        times[1].append(seconds(lambda: held[0].backward()))  # noqa: B023
        times[2].append(seconds(net.update))
    names = ("forward", "backward", "update")
    return ", ".join(
        f"{name} {1e6 * statistics.median(t):.0f} us" for name, t in zip(names, times, strict=True)
    )


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--parts", action="store_true")
    given = parser.parse_args(arguments)
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    torch.set_num_threads(1)
    with rehearsing():
        step(OfTiduc())
    ours, theirs = OfTiduc(), OfTorch()
    losses = [(step(ours), step(theirs)) for _ in range(20)]
    assert all(abs(x - y) < 1e-4 * y for x, y in losses), losses
    times = [[steps(ours), steps(theirs)] for _ in range(ROUNDS)]
    tiduc, pytorch = (1e3 * statistics.median(column) for column in zip(*times, strict=True))
    ratio = statistics.median(x / y for x, y in times)
    print(f"tiduc {tiduc:.2f} ms, PyTorch {pytorch:.2f} ms a step, ratio {ratio:.2f}")
    if given.parts:
        print(parts(ours))


if __name__ == "__main__":
    main(sys.argv[1:])
