"""The number that an array is known to hold everywhere, since it follows from constants alone."""

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from torch_mlir import ir

from tiduc.backends.iree.fast.packing import splat
from tiduc.dialect.types import element

_FLOATS = {"f32": np.float32, "f64": np.float64}
"""Types in which NumPy rounds as StableHLO does."""

_ARITHMETIC: dict[str, Callable[..., Any]] = {
    "stablehlo.add": operator.add,
    "stablehlo.divide": operator.truediv,
    "stablehlo.multiply": operator.mul,
    "stablehlo.negate": operator.neg,
    "stablehlo.subtract": operator.sub,
}

_FAR = 4
"""Ops between a number and the constants: an exponent that a derivative counts down, or polygamma's."""


def known_number(x: Any, far: int = _FAR) -> Any | None:
    """It, of f32 or f64; None where no such number is known, or it is not finite."""
    kind = _FLOATS.get(str(element(x)))
    if kind is None or isinstance(x.owner, ir.Block):
        return None
    number: Any
    value = splat(x)
    if value is not None:
        number = kind(value.value)
    elif x.owner.name in _ARITHMETIC and far:
        operands = [known_number(y, far - 1) for y in x.owner.operands]
        if any(y is None for y in operands):
            return None
        with np.errstate(all="ignore"):
            number = _ARITHMETIC[x.owner.name](*operands)
    else:
        return None
    return number if math.isfinite(number) else None
