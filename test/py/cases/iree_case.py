"""A function that IREE without tiduc gets wrong, with its expected result."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
INF, NAN = np.inf, np.nan


class Case(NamedTuple):
    """The ops that IREE gets wrong; a function's signature and body, its arguments, expected result and tolerance."""

    ops: str
    signature: str
    body: str
    arguments: tuple[Array, ...]
    expected: Array
    rtol: float = 0.0


def function(name: str, case: Case) -> str:
    return f"func.func @{name}{case.signature} {{\n{case.body}\n}}\n"
