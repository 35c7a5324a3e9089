"""PyTorch, which carries too many types for the type checker, and the table of decompositions."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

torch: Any = import_module("torch")
aten: Any = torch.ops.aten

TABLE: dict[Any, Callable[..., Any]] = {}
"""The decomposition of each overload, for `ExportedProgram.run_decompositions`.

A decomposition is a function of the overload's arguments, written in PyTorch's functions. It gives `NotImplemented` to
keep the op.
"""


def decomposes(*overloads: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorates the decomposition of these overloads."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        TABLE.update(dict.fromkeys(overloads, function))
        return function

    return register
