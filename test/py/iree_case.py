"""A function that IREE alone does not get right, and what it should give."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
INF, NAN = np.inf, np.nan


class Case(NamedTuple):
    """The ops that it is about, a function's types and body, arguments, what comes out, and how nearly."""

    ops: str
    signature: str
    body: str
    arguments: tuple[Array, ...]
    expected: Array
    rtol: float = 0.0


def function(name: str, case: Case) -> str:
    return f"func.func @{name}{case.signature} {{\n{case.body}\n}}\n"
