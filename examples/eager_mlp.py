"""Trains a network in eager mode: NumPy functions run op by op in Python loops, without a compiled program.

    python examples/eager_mlp.py

First, a rehearsal of one step compiles all ops of the forward and the reverse pass together. The later steps
therefore compile nothing.
"""

import numpy as np

from tiduc.eager import Array, no_grad, rehearsing


def train(steps: int = 100, rate: float = 0.5, seed: int = 0) -> list[float]:
    """Trains a network to classify points as inside or outside a ring. Returns the loss before each step."""
    draw = np.random.default_rng(seed)
    x = draw.uniform(-1, 1, (256, 2)).astype(np.float32)
    inside = (np.abs(np.hypot(*x.T) - 0.6) < 0.2).astype(np.int32)
    sizes = [2, 32, 32, 2]
    layers = [
        (
            Array(draw.normal(0, (2 / m) ** 0.5, (m, n)).astype(np.float32), requires_grad=True),
            Array(np.zeros(n, np.float32), requires_grad=True),
        )
        for m, n in zip(sizes, sizes[1:], strict=False)
    ]
    losses = []
    for _ in range(steps):
        h = x
        for i, (w, b) in enumerate(layers):
            h = h @ w + b
            if i < len(layers) - 1:
                h = np.maximum(h, 0)
        log_p = h - np.log(np.sum(np.exp(h), axis=1, keepdims=True))
        loss = -np.mean(np.take_along_axis(log_p, inside[:, None], axis=1))
        loss.backward()
        with no_grad():
            for parameter in (p for layer in layers for p in layer):
                parameter -= rate * parameter.grad
        losses.append(loss.item())
    return losses


if __name__ == "__main__":
    with rehearsing():
        train(steps=1)
    losses = train()
    print(f"loss {losses[0]:.4f} at first, {losses[-1]:.4f} after {len(losses)} steps")
