"""Runs the reference interpreter at several points. Worker processes import this module, but no test library."""

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from tiduc.backends.reference import in_process

Array = NDArray[Any]


def interpret_at(text: str, points: Sequence[Sequence[Array]]) -> list[tuple[Array, ...]]:
    """The results of the function `main` of a StableHLO text, for each point."""
    return [in_process.run(text, point) for point in points]
