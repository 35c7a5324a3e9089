"""PyTorch, with the type `Any` for the type checker, and the table of decompositions."""

from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

torch: Any = import_module("torch")


class Absent:
    """Stands for an op, and its overloads, that the installed version of PyTorch lacks. No program has such an op."""

    def __getattr__(self, overload: str) -> "Absent":
        return self


class _Aten:
    """PyTorch's ops by name. An op that the installed version lacks, such as `cholesky` since 2.15, is `Absent`."""

    def __getattr__(self, name: str) -> Any:
        return getattr(torch.ops.aten, name, None) or Absent()


aten = _Aten()

F = TypeVar("F", bound=Callable[..., Any])
"""The function that a decorator takes and returns."""

TABLE: dict[Any, Callable[..., Any]] = {}
"""The decomposition of each overload, for `ExportedProgram.run_decompositions`.

A decomposition is a function of the overload's arguments, written in PyTorch's functions. It returns `NotImplemented`
to keep the op.
"""


def decomposes(*overloads: Any) -> Callable[[F], F]:
    """Decorates the decomposition of these overloads."""

    def register(function: F) -> F:
        TABLE.update(dict.fromkeys(overloads, function))
        return function

    return register
