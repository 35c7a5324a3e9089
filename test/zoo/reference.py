"""A module and its inputs in f64: the reference for results in f32."""

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def wide(loss: torch.nn.Module, inputs: Sequence[torch.Tensor]) -> Iterator[tuple[Any, Sequence[Any]]]:
    """The module and its inputs in f64; modules that make tensors make them in f64 during the block."""
    given = tuple(x.double() if x.is_floating_point() else x for x in inputs)
    torch.set_default_dtype(torch.float64)
    try:
        yield copy.deepcopy(loss).double(), given
    finally:
        torch.set_default_dtype(torch.float32)
