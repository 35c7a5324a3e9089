"""The record of a model of the zoo: a name, a family, a size, and a function that builds it with inputs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

Built = tuple[torch.nn.Module, tuple[Any, ...]]
"""A module in evaluation mode with random weights, and its example inputs."""

SMALL, REAL = "small", "real"


@dataclass(frozen=True)
class Entry:
    """A model. `build` takes no arguments, and draws equal weights and inputs in all processes."""

    name: str
    family: str
    size: str
    build: Callable[[], Built]


def images(side: int, batch: int = 1, channels: int = 3) -> torch.Tensor:
    """Images (batch, channels, side, side) of standard normal numbers."""
    return torch.randn(batch, channels, side, side)


def tokens(vocabulary: int, length: int, batch: int = 1) -> torch.Tensor:
    """Random tokens (batch, length). Excludes the numbers that tokenizers reserve, for example for padding."""
    return torch.randint(min(5, vocabulary - 1), vocabulary, (batch, length))


class Loss(torch.nn.Module):
    """A scalar: the sum of the means of y² + sin(i) y over all float outputs y of a module. i numbers the entries of y.

    Without the weights sin(i), the gradient of a normalized output would be zero.
    """

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        loss = torch.zeros(())
        for y in floats(self.module(*inputs)):
            flat = y.flatten()
            loss = loss + (flat.square() + torch.arange(flat.shape[0]).sin() * flat).mean()
        return loss


def floats(outputs: Any) -> list[torch.Tensor]:
    """The float tensors in a module's outputs: a tensor, or nested tuples and dictionaries of tensors."""
    if isinstance(outputs, torch.Tensor):
        return [outputs] if outputs.is_floating_point() else []
    if isinstance(outputs, dict):
        outputs = list(outputs.values())
    if not isinstance(outputs, list | tuple):  # other outputs: None, a number, or a cache of keys and values
        return []
    return [y for each in outputs for y in floats(each)]
