"""Constant folding of splats: the number that all elements of an array are known to equal."""

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from torch_mlir import ir

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

_LONGEST = 4
"""The longest chain of ops that is folded: for an exponent that a derivative decrements, or polygamma's."""


def known_number(x: Any, steps: int = _LONGEST) -> Any | None:
    """The number that all elements of an f32 or f64 array equal; None if it is unknown or not finite."""
    kind = _FLOATS.get(str(element(x)))
    if kind is None or isinstance(x.owner, ir.Block):
        return None
    number: Any
    value = splat(x)
    if value is not None:
        number = kind(value.value)
    elif x.owner.name in _ARITHMETIC and steps:
        operands = [known_number(y, steps - 1) for y in x.owner.operands]
        if any(y is None for y in operands):
            return None
        with np.errstate(all="ignore"):
            number = _ARITHMETIC[x.owner.name](*operands)
    else:
        return None
    return number if math.isfinite(number) else None


def splat(x: Any) -> Any | None:
    """The attribute of a splat constant's number; None if x is not a splat constant."""
    if isinstance(x.owner, ir.Block) or x.owner.name != "stablehlo.constant":
        return None
    value = x.owner.attributes["value"]
    return ir.DenseElementsAttr(value).get_splat_value() if getattr(value, "is_splat", False) else None
