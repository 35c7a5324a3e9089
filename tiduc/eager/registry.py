"""The table of NumPy's functions that eager arrays implement: `array.py` reads it, and `functions.py` fills it."""

from collections.abc import Callable
from typing import Any, TypeVar

FUNCTIONS: dict[Any, Callable[..., Any]] = {}
"""The implementation for eager arrays of each of NumPy's functions."""

Implementation = TypeVar("Implementation", bound=Callable[..., Any])


def implements(*functions: Callable[..., Any]) -> Callable[[Implementation], Implementation]:
    """Registers an implementation of NumPy's functions."""

    def decorate(implementation: Implementation) -> Implementation:
        FUNCTIONS.update(dict.fromkeys(functions, implementation))
        return implementation

    return decorate
