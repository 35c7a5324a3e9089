"""Runs programs with StableHLO's reference interpreter, which is slow and exact. Numeric tests compare to its results.

The interpreter runs in a separate process, because some programs make it abort its process.
"""

from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiduc.backends.reference import in_process as interpreter
from tiduc.dialect.errors import CompileError, Unsupported
from tiduc.runtime.arrays import refuse_masked
from tiduc.runtime.process import Limits
from tiduc.runtime.worker import Died, in_worker

P = ParamSpec("P")
R = TypeVar("R")


class Interpreted:
    """The function `main` of a StableHLO or CHLO module, prepared in a separate process and called with arrays."""

    def __init__(self, text: str, limits: Limits | None = None) -> None:
        self._text, self._limits = text, limits
        _in_worker(interpreter.prepare, limits, text)

    def __call__(self, arguments: Sequence[NDArray[Any]]) -> tuple[NDArray[Any], ...]:
        """Runs `main` and returns its results. Raises `InputError` for a wrong number or a wrong shape of arguments.

        Raises `Unsupported` or `CompileError` if the interpreter aborts or exceeds the limits.
        """
        return _in_worker(interpreter.run, self._limits, self._text, _arrays(arguments))


def evaluate(
    text: str, arguments: Sequence[NDArray[Any]], limits: Limits | None = None
) -> tuple[NDArray[Any], ...]:
    """Runs the function `main` of a StableHLO or CHLO module once, and returns its results.

    Raises the same errors as `Interpreted`.
    """
    return _in_worker(interpreter.run, limits, text, _arrays(arguments))


def _arrays(arguments: Sequence[ArrayLike]) -> list[NDArray[Any]]:
    for i, x in enumerate(arguments):
        refuse_masked(x, f"argument {i}")
    return [np.asarray(x) for x in arguments]


def _in_worker(
    function: Callable[P, R], limits: Limits | None, *arguments: P.args, **keywords: P.kwargs
) -> R:
    try:
        return in_worker(function, limits or Limits(), *arguments, **keywords)
    except Died as died:
        if died.fatal:
            raise Unsupported(f"StableHLO's reference interpreter cannot run it: {died.fatal}") from None
        raise CompileError(f"StableHLO's reference interpreter {died}") from None
    except (TypeError, ValueError) as error:  # the bindings raise these for unsupported element types
        raise Unsupported(f"StableHLO's reference interpreter cannot run it: {error}") from None
