"""Runs the reference interpreter at several points.

Worker processes import this module. It therefore imports no libraries of the tests.
"""

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from tiduc.backends.reference import in_process

Array = NDArray[Any]


def interpret_at(text: str, points: Sequence[Sequence[Array]]) -> list[tuple[Array, ...]]:
    """Returns the results of the function `main` of a StableHLO text at each point."""
    return [in_process.run(text, point) for point in points]
