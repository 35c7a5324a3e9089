"""The class of test cases that IREE without tiduc computes incorrectly."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
INF, NAN = np.inf, np.nan


class Case(NamedTuple):
    """A function with its arguments, its expected result, and the relative tolerance of the result.

    `ops` are the names of the ops that IREE computes incorrectly.
    """

    ops: str
    signature: str
    body: str
    arguments: tuple[Array, ...]
    expected: Array
    rtol: float = 0.0


def function(name: str, case: Case) -> str:
    return f"func.func @{name}{case.signature} {{\n{case.body}\n}}\n"
