"""invariants: what passes on the text of IREE's compiler take for granted, and what follows where a text breaks it.

IREE's text between its phases has no specification, and these passes move arrays in memory. Each pass states its
invariants in its docstring, checks them on each text that it sees, and raises `Broken` where one does not hold. A pass
for speed is then left out, with a remark. Without a pass that corrects a program, the program would be wrong, so that
it is refused.
"""

import warnings
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from tiduc.dialect.errors import CompileError, TiducRemark

_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")

UNEXPECTED = LookupError, ValueError
"""Errors of code that meets text of another form than it expects."""


class Broken(Exception):
    """A text is not as a pass takes it to be; the message is the invariant."""


def require(holds: bool, invariant: str) -> None:
    """Raises `Broken` unless an invariant holds."""
    if not holds:
        raise Broken(invariant)


def unless_broken(
    function: Callable[_Given, _Result | None], *given: _Given.args, **options: _Given.kwargs
) -> _Result | None:
    """The result of a pass for speed; None, with a remark, where the text breaks an invariant of the pass."""
    try:
        return function(*given, **options)
    except (Broken, *UNEXPECTED) as error:
        warnings.warn(
            f"compiled without '{function.__name__}': IREE's text breaks an invariant of this pass ({_said(error)}); "
            "the program is right, but may be slower or take more memory",
            TiducRemark,
            stacklevel=2,
        )
        return None


def or_refuse(function: Callable[_Given, _Result], *given: _Given.args, **options: _Given.kwargs) -> _Result:
    """The result of a pass that corrects programs; `CompileError` where the text breaks an invariant of the pass."""
    try:
        return function(*given, **options)
    except (Broken, *UNEXPECTED) as error:
        raise CompileError(
            f"IREE's text breaks an invariant of '{function.__name__}', which corrects it ({_said(error)}): "
            "the program could be wrong. Compile for another target or with engine='xla', and report this"
        ) from error


def _said(error: Exception) -> str:
    return str(error) if isinstance(error, Broken) else f"{type(error).__name__}: {error}"
