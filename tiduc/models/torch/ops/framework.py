"""Imports PyTorch with the type `Any`, so that the type checker ignores it. Defines the table of decompositions."""

from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

torch: Any = import_module("torch")


class Absent:
    """Represents an op that the installed version of PyTorch lacks, and each overload of the op."""

    def __getattr__(self, overload: str) -> "Absent":
        return self


class _Aten:
    """The namespace of PyTorch's ops.

    An op that the installed version lacks, such as `cholesky` since version 2.15, is an `Absent`.
    """

    def __getattr__(self, name: str) -> Any:
        return getattr(torch.ops.aten, name, None) or Absent()


aten = _Aten()

F = TypeVar("F", bound=Callable[..., Any])
"""The type of the function that a decorator takes and returns."""

TABLE: dict[Any, Callable[..., Any]] = {}
"""Maps each overload to its decomposition. The table is passed to `ExportedProgram.run_decompositions`.

A decomposition takes the overload's arguments, and computes the result with other functions of PyTorch. To keep the op,
it returns `NotImplemented`.
"""


def decomposes(*overloads: Any) -> Callable[[F], F]:
    """Decorator that registers a function in `TABLE` as the decomposition of these overloads."""

    def register(function: F) -> F:
        TABLE.update(dict.fromkeys(overloads, function))
        return function

    return register
