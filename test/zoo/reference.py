"""A module and its inputs in f64, as the reference for results in f32."""

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map


class InF64(TorchFunctionMode):
    """Replaces f32 by f64 where a module asks for f32 explicitly, as many do for angles, norms and softmax.

    Otherwise, the reference and PyTorch's f32 result would share roundings in f32, so that their errors would not show.
    """

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is torch.Tensor.float:
            function = torch.Tensor.double
        args, kwargs = tree_map(lambda x: torch.float64 if x is torch.float32 else x, (args, kwargs or {}))
        return function(*args, **kwargs)


@contextmanager
def wide(loss: torch.nn.Module, inputs: Sequence[torch.Tensor]) -> Iterator[tuple[Any, Sequence[Any]]]:
    """A context with the module and its inputs in f64. Inside, tensors that modules create are f64, too."""
    given = tuple(x.double() if x.is_floating_point() else x for x in inputs)
    torch.set_default_dtype(torch.float64)
    try:
        yield copy.deepcopy(loss).double(), given
    finally:
        torch.set_default_dtype(torch.float32)
