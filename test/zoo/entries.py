"""The record of a model of the zoo, and functions that create inputs and losses for the models."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

Built = tuple[torch.nn.Module, tuple[Any, ...]]
"""A module with random weights, and the inputs of its forward function."""

SMALL, REAL = "small", "real"


@dataclass(frozen=True)
class Entry:
    """A model of the zoo. `build` creates the module and its inputs.

    The numbers that `build` draws depend only on the seed of PyTorch's generator.
    """

    name: str
    family: str
    size: str
    build: Callable[[], Built]


def images(side: int, batch: int = 1, channels: int = 3) -> torch.Tensor:
    """Draws images of shape (batch, channels, side, side) from the standard normal distribution."""
    return torch.randn(batch, channels, side, side)


def tokens(vocabulary: int, length: int, batch: int = 1) -> torch.Tensor:
    """Draws tokens of shape (batch, length).

    The tokens 0 to 4 are left out, because tokenizers reserve them, for example for padding.
    """
    return torch.randint(min(5, vocabulary - 1), vocabulary, (batch, length))


class Loss(torch.nn.Module):
    """A scalar function of a module's float outputs, which is differentiated.

    For each output y with the elements yᵢ, it adds the mean of yᵢ² + sin(i) yᵢ over i. Without the term sin(i) yᵢ,
    the gradient of a normalized output would be zero, because the mean of yᵢ² is constant.
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
    """Returns the float tensors in the outputs of a module, which may be nested in tuples, lists and dictionaries."""
    if isinstance(outputs, torch.Tensor):
        return [outputs] if outputs.is_floating_point() else []
    if isinstance(outputs, dict):
        outputs = list(outputs.values())
    if not isinstance(outputs, list | tuple):  # other outputs: None, a number, or a cache of keys and values
        return []
    return [y for each in outputs for y in floats(each)]
