"""A module and its inputs in f64: the reference for results in f32."""

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map


class InF64(TorchFunctionMode):
    """Gives f64 to a module that asks for f32 by name, as many do for angles, norms and softmax.

    Without this, the rounding of f32 is part of the reference, and PyTorch's own f32 seems to have no such error.
    """

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is torch.Tensor.float:
            function = torch.Tensor.double
        args, kwargs = tree_map(lambda x: torch.float64 if x is torch.float32 else x, (args, kwargs or {}))
        return function(*args, **kwargs)


@contextmanager
def wide(loss: torch.nn.Module, inputs: Sequence[torch.Tensor]) -> Iterator[tuple[Any, Sequence[Any]]]:
    """The module and its inputs in f64; modules that make tensors make them in f64 during the block."""
    given = tuple(x.double() if x.is_floating_point() else x for x in inputs)
    torch.set_default_dtype(torch.float64)
    try:
        yield copy.deepcopy(loss).double(), given
    finally:
        torch.set_default_dtype(torch.float32)
