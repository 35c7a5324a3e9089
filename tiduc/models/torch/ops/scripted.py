"""Exports the Python function of each `torch.jit.script` function.

TorchScript reads sizes as numbers, so that `torch.export` could trace a scripted function only for static shapes.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from tiduc.models.torch.ops.framework import torch


@contextmanager
def python_of_scripted() -> Iterator[None]:
    """In a block around an export, makes scripted functions call the Python functions that they were made of."""

    def call(self: torch.jit.ScriptFunction, *args: object, **kwargs: object) -> object:
        function = getattr(self, "_torchdynamo_inline", None)  # functions loaded from files have none
        return own(self, *args, **kwargs) if function is None else function(*args, **kwargs)

    own = torch.jit.ScriptFunction.__call__
    torch.jit.ScriptFunction.__call__ = call
    try:
        yield
    finally:
        torch.jit.ScriptFunction.__call__ = own
