"""Runs PyTorch's modules in f64. The results are the reference for results in f32."""

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map


class InF64(TorchFunctionMode):
    """Replaces f32 by f64 where a module asks for f32 explicitly.

    Many modules compute angles, norms and softmax in f32. The reference would then be rounded to f32 in the same way
    as the f32 result, and the comparison would hide the error of this rounding.
    """

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is torch.Tensor.float:
            function = torch.Tensor.double
        args, kwargs = tree_map(lambda x: torch.float64 if x is torch.float32 else x, (args, kwargs or {}))
        return function(*args, **kwargs)


@contextmanager
def wide(loss: torch.nn.Module, inputs: Sequence[torch.Tensor]) -> Iterator[tuple[Any, Sequence[Any]]]:
    """Enters a context that yields a copy of the module and its inputs in f64.

    In the context, tensors that modules create are also f64 by default.
    """
    given = tuple(x.double() if x.is_floating_point() else x for x in inputs)
    torch.set_default_dtype(torch.float64)
    try:
        yield copy.deepcopy(loss).double(), given
    finally:
        torch.set_default_dtype(torch.float32)
