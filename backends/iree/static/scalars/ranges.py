"""Ranges of integers: the least and the largest value of a scalar op. Truth values are 0 and 1.

Ranges decide many comparisons of indices, such as `i < 0` for a pivot i. They also bound the elements that an index may
select.
"""

from collections.abc import Sequence

import numpy as np

Range = tuple[int, int]

LIMITS: dict[str, Range] = {
    "i1": (0, 1),
    **{f"i{n}": (-(2 ** (n - 1)), 2 ** (n - 1) - 1) for n in (8, 16, 32, 64)},
}
"""The range of each type of integers."""

_CORNERS = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
}
"""Ops whose extreme values are among the values of the ends of the operands' ranges."""


def range_of(name: str, kind: str, operands: Sequence[Range]) -> Range:
    """The range of an op's result, which may exceed the limits of its type."""
    if name == "convert":
        return operands[0]
    if name == "select":
        return min(x[0] for x in operands[1:]), max(x[1] for x in operands[1:])
    if name not in _CORNERS:
        return LIMITS[kind]
    first, second = (np.array(x, object) for x in operands)
    corners = _CORNERS[name](first[:, None], second[None, :]).ravel().tolist()
    return min(corners), max(corners)


def decided(name: str, x: Range, y: Range) -> bool | None:
    """The value of a comparison, if the ranges of its operands decide it."""
    if name in ("GT", "GE"):
        return decided({"GT": "LT", "GE": "LE"}[name], y, x)
    if name in ("LT", "LE"):
        strict = name == "LT"
        if x[1] < y[0] or (x[1] == y[0] and not strict):
            return True
        return False if x[0] > y[1] or (x[0] == y[1] and strict) else None
    if x[1] < y[0] or y[1] < x[0]:
        return name == "NE"
    return name == "EQ" if x == y and x[0] == x[1] else None
