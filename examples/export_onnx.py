"""Writes digits.onnx, a small convolutional network, and digits.npz, a batch of images and what PyTorch learns from it.

    pip install torch onnx onnxscript
    python examples/export_onnx.py

The script is needed only to recreate these two files. Each image shows a digit as a seven-segment display does, with
noise added.
"""

from pathlib import Path

import numpy as np
import torch
from torch import nn

HERE = Path(__file__).parent
BATCH = 64
STEPS = 10
RATE = 1e-2

# For each digit, the segments that are lit. Segments a to f run clockwise from the top; g is the middle.
LIT = ("abcdef", "bc", "abdeg", "abcdg", "bcfg", "acdfg", "acdefg", "abc", "abcdefg", "abcdfg")
PLACES = {
    "a": (slice(0, 1), slice(1, 5)),
    "b": (slice(0, 4), slice(5, 6)),
    "c": (slice(4, 8), slice(5, 6)),
    "d": (slice(7, 8), slice(1, 5)),
    "e": (slice(4, 8), slice(0, 1)),
    "f": (slice(0, 4), slice(0, 1)),
    "g": (slice(3, 4), slice(1, 5)),
}


def drawings() -> np.ndarray:
    images = np.zeros((10, 1, 8, 8), np.float32)
    for image, lit in zip(images, LIT, strict=True):
        for segment in lit:
            image[0][PLACES[segment]] = 1
    return images


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1),
        nn.Tanh(),
        nn.Flatten(),
        nn.Linear(16 * 4 * 4, 10),
    )


def main() -> None:
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 10, BATCH)
    images = drawings()[labels] + rng.normal(0, 0.3, (BATCH, 1, 8, 8)).astype(np.float32)
    model, x, t = network(), torch.from_numpy(images), torch.from_numpy(labels)
    names = {"input_names": ["images"], "output_names": ["scores"]}
    torch.onnx.export(model, (x,), HERE / "digits.onnx", external_data=False, **names)
    optimizer, losses = torch.optim.Adam(model.parameters(), lr=RATE), []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), t)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    after = {f"after.{name}": x.detach().numpy() for name, x in model.named_parameters()}
    np.savez(
        HERE / "digits.npz",
        images=images,
        labels=labels.astype(np.int32),
        rate=np.float32(RATE),
        losses=np.array(losses),
        **after,
    )


if __name__ == "__main__":
    main()
