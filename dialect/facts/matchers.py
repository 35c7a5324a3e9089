"""Recognizes functions that a program computes by several ops, such as `logistic` as 1 / (1 + exp(-x)).

Each matcher starts from the last of these ops, in a graph or a module. JAX exports `logistic` as several ops, and also
`logaddexp` and functions built on it, such as `softplus` and `cumlogsumexp`.
"""

import re
from typing import Any

from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.dialect.graph.matching import defined_by, definition
from tiduc.dialect.mlir.constants import as_floats, dense, is_splat, splat_number
from tiduc.dialect.ops.ir_types import AnyOp, Typed
from tiduc.dialect.ops.traits import TRAITS
from tiduc.dialect.shapes.types import bits, is_float

_NAN = re.compile(r"dense<\(?0x[7F]F(?:F8|C0)0*[,>]")
"""Matches the beginning of the text of a splat of NaN in 32 or 64 bits, or of complex numbers with real part NaN."""

_LOWEST = re.compile(r"dense<\(?0xFF(?:F0|80)0*[,>]")
"""Matches the beginning of the text of a splat of -inf in 32 or 64 bits, or of complex numbers with real part -inf."""

KEEP_SPLATS = frozenset(
    name for name, row in TRAITS.items() if row.kind == "view" or row.sizes_in == (1,)
) - {
    "stablehlo.concatenate",
    "stablehlo.pad",
}
"""Ops whose result is a splat of a number if their first operand is a splat of this number."""


def compares_equal(op: AnyOp) -> bool:
    """Whether an op compares floating-point numbers by EQ or NE, as gradients of maxima do.

    The operands of such an op must not be recomputed. A compiler may fuse and round a recomputed operand differently.
    An element that was equal to the maximum would then differ from the maximum.
    """
    if op.name != "stablehlo.compare" or not is_float(op.operands[0]):
        return False
    return hlo.ComparisonDirectionAttr(op.attributes["comparison_direction"]).value in ("EQ", "NE")


def splat(x: Typed) -> float | None:
    """The value of all elements of x, if x holds real floats and is known to be a splat; else None."""
    op = definition(_moved(x))
    if op is None or not is_float(x):
        return None
    if op.name == "stablehlo.convert":
        return _converted(op)
    if op.name != "stablehlo.constant":
        return None
    value = op.attributes["value"]
    return float(splat_number(value)) if is_splat(value) else None


def _converted(op: AnyOp) -> float | None:
    """The value of all elements of the result of a `convert`. None if it is unknown.

    Also None if floats are converted to floats of fewer than 16 bits, because overflow does not always give infinity.
    """
    x, of = op.results[0], _moved(op.operands[0])
    scalar = ir.RankedTensorType.get([], x.type.element_type)
    if is_float(of):
        number = splat(of)
        converted = None if number is None or bits(x) < 16 else dense(number, scalar)
    elif (constant := defined_by(of, "stablehlo.constant")) is not None:
        converted = as_floats(constant.attributes["value"], of.type, scalar)
    else:
        return None
    return None if converted is None else float(converted.get_splat_value().value)


def _moved(x: Typed) -> Typed:
    """Follows x back through ops in `KEEP_SPLATS`, and returns the operand of the first of these ops.

    If the returned value is a splat, x is a splat of the same number. Returns x itself if no such op computes x.
    """
    while (op := definition(x)) is not None and op.name in KEEP_SPLATS:
        x = op.operands[0]
    return x


def logistic(op: AnyOp) -> Typed | None:
    """Returns z if the divide `op` computes 1 / (1 + exp z), else None."""
    one, below = op.operands
    total = defined_by(below, "stablehlo.add")
    if total is None or splat(one) != 1:
        return None
    for x, y in (total.operands, total.operands[::-1]):
        power = defined_by(y, "stablehlo.exponential")
        if power is not None and splat(x) == 1:
            z: Typed = power.operands[0]
            return z
    return None


def log_add_exp(op: AnyOp) -> tuple[Any, Any, Any] | None:
    """Returns (u, v, u - v) if the add `op` computes max(u, v) + log1p(exp(-|u - v|)), else None.

    If u or v is 0, as in softplus, the program may use the other one instead of u - v.
    """
    for x, y in (op.operands, op.operands[::-1]):
        if (larger := defined_by(x, "stablehlo.maximum")) is None:
            continue
        size = defined_by(y, "stablehlo.log_plus_one")
        for name in ("exponential", "negate", "abs"):
            size = None if size is None else defined_by(size.operands[0], f"stablehlo.{name}")
        if size is None:
            continue
        u, v = larger.operands
        (gap,) = size.operands
        for a, b in ((u, v), (v, u)):
            if gap == a and splat(b) == 0:
                return a, b, gap
        difference = defined_by(gap, "stablehlo.subtract")
        if difference is not None and all(map(_are_equal, larger.operands, difference.operands)):
            return u, v, gap
    return None


def guards_call(op: AnyOp) -> bool:
    """Whether the select `op` replaces a result of a custom call by NaN if another result of the call reports failure.

    JAX exports such a select with each factorization.
    """
    predicate, x, other = op.operands
    compare, constant = (definition(_moved(y)) for y in (predicate, other))
    if compare is None or compare.name != "stablehlo.compare" or not _is_nan(constant):
        return False
    if (parts := defined_by(x, "stablehlo.complex")) is not None:  # x holds eigenvalues of a real matrix
        x = parts.operands[0]
    info = defined_by(_moved(compare.operands[0]), "stablehlo.custom_call")
    return info is not None and bool(definition(x) == info)


def is_lowest(x: Typed) -> bool:
    """Whether x is known to be a splat of -inf, or of complex numbers with real part -inf."""
    return _begins(definition(_moved(x)), _LOWEST)


def _is_nan(op: AnyOp | None) -> bool:
    """Whether an op is a splat constant of NaN, or of complex numbers with real part NaN."""
    return _begins(op, _NAN)


def _begins(op: AnyOp | None, pattern: re.Pattern[str]) -> bool:
    """Whether an op is a splat constant whose text begins with the pattern."""
    if op is None or op.name != "stablehlo.constant" or not is_splat(op.attributes["value"]):
        return False
    return pattern.match(str(op.attributes["value"])) is not None


def _are_equal(x: Typed, y: Typed) -> bool:
    """Whether x and y are the same value, or splats of the same number and type."""
    return bool(x == y) or (x.type == y.type and splat(x) is not None and splat(x) == splat(y))
