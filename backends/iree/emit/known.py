"""Constant folding of splats (arrays whose elements are all equal): finds the number that fills an array."""

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.dialect.graph.matching import defined_by
from tiduc.dialect.mlir.constants import is_splat
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.shapes.types import element

_WIDTHS = 8, 16, 32, 64
_KINDS: dict[str, type[np.generic]] = {
    **{"f32": np.float32, "f64": np.float64, "i1": np.bool_},
    **{f"i{n}": np.dtype(f"int{n}").type for n in _WIDTHS},
    **{f"ui{n}": np.dtype(f"uint{n}").type for n in _WIDTHS},
}
"""The NumPy types of the element types for which arithmetic rounds, or wraps around, in NumPy as in StableHLO."""

_ARITHMETIC: dict[str, Callable[..., np.generic]] = {
    "stablehlo.add": operator.add,
    "stablehlo.divide": operator.truediv,
    "stablehlo.multiply": operator.mul,
    "stablehlo.negate": operator.neg,
    "stablehlo.subtract": operator.sub,
}

_LONGEST = 4
"""The length of the longest chain of ops that is folded.

Decremented exponents in derivatives of powers, and the derivatives of polygamma, are chains of this length.
"""


def known_number(
    x: IrValue, known: Mapping[IrValue, np.generic | None] | None = None, steps: int = _LONGEST
) -> np.generic | None:
    """Returns the number with which an array is filled, as a NumPy scalar. Returns None if it is unknown or not finite.

    `known` holds the numbers that fill other values, such as block arguments. Chains of at most `steps` ops are folded.
    """
    if known and x in known:
        return known[x]
    kind = _KINDS.get(str(x.type.element_type)) if isinstance(x.type, ir.RankedTensorType) else None
    if kind is None or isinstance(x.owner, ir.Block):
        return None
    value, function = constant_splat(x), _function(x.owner)
    if value is not None:
        number = kind(value.value)
    elif function is None or not steps:
        return None
    else:
        operands = [known_number(y, known, steps - 1) for y in x.owner.operands]
        if any(y is None for y in operands):
            return None
        with np.errstate(all="ignore"):
            number = function(*operands)
    # A quotient of integers is not folded, because it is a float in NumPy, but an integer in StableHLO.
    return number if type(number) is kind and math.isfinite(number) else None


def _function(op: IrOp) -> Callable[..., np.generic] | None:
    """The function on NumPy scalars that folds an op. Returns None if it cannot be folded, as a float comparison."""
    if op.name != "stablehlo.compare" or isinstance(element(op.operands[0]), ir.FloatType):
        return _ARITHMETIC.get(op.name)
    direction = str(hlo.ComparisonDirectionAttr(op.attributes["comparison_direction"]).value)
    return getattr(operator, direction.lower())  # type: ignore[no-any-return]


def constant_splat(x: IrValue) -> ir.FloatAttr | ir.IntegerAttr | None:
    """Returns the number that fills x, as an attribute, if x is the result of a splat constant, else None."""
    constant = defined_by(x, "stablehlo.constant")
    value: Any = constant.attributes["value"] if constant else None
    number: Any = value.get_splat_value() if is_splat(value) else None
    found: ir.FloatAttr | ir.IntegerAttr | None = number
    return found


def is_no_negative_zero(x: IrValue) -> bool:
    """Whether x is a constant array (or scalar) filled with a number other than -0."""
    value = constant_splat(x)
    return value is not None and (value.value != 0 or math.copysign(1, value.value) > 0)
