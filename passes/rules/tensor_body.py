"""Applies a region of scalar ops to whole tensors, for map and for ops that combine elements by a body."""

from collections.abc import Sequence
from typing import Any

from tiduc.dialect.bodies import returned
from tiduc.dialect.graph import Definition, captured, operations
from tiduc.dialect.types import rank, shape, with_shape
from tiduc.passes.rules.opset import unsupported

ELEMENTWISE = frozenset(
    "stablehlo." + name
    for name in """abs add and atan2 bitcast_convert cbrt ceil clamp compare complex convert cosine
    count_leading_zeros divide exponential exponential_minus_one floor imag is_finite log log_plus_one logistic
    maximum minimum multiply negate not optimization_barrier or popcnt power real reduce_precision remainder
    round_nearest_afz round_nearest_even rsqrt select shift_left shift_right_arithmetic shift_right_logical sign
    sine sqrt subtract tan tanh xor""".split()
) | frozenset(
    "chlo." + name
    for name in """acos acosh asin asinh atan atanh bessel_i1e conj cosh digamma erf erf_inv erfc is_inf is_neg_inf
    is_pos_inf lgamma mulhi next_after polygamma sinh square tan zeta""".split()
)
"""Ops whose scalar form is the same op, with the same attributes, as their tensor form."""

SAME = frozenset(f"stablehlo.{name}" for name in ("broadcast_in_dim", "reshape", "transpose"))
"""Ops that are the identity on scalars."""


def of_tensors(b: Any, op: Definition, operands: Sequence[Any], region: int = 0) -> list[Any]:
    """The results of a region of `op` with tensors of one shape in place of its scalar arguments.

    Constants and captured scalars are broadcast. Raises `Unsupported` if the region holds an op that is not
    elementwise.
    """
    sizes = shape(operands[0])

    def spread(scalar: Any) -> Any:
        return b.broadcast_in_dim(scalar, [], sizes) if sizes else scalar

    block = op.regions[region].blocks[0]
    values = dict(zip(block.arguments, operands, strict=True))
    for inside, outside in zip(captured(op.source), op.captures, strict=True):
        if not rank(outside):
            values[inside] = spread(outside)
    for inner in operations(block):
        attributes = {name: inner.attributes[name] for name in inner.attributes}
        if inner.name == "stablehlo.constant":
            values[inner.result] = spread(b.emit(inner.name, (), inner.result.type, attributes))
        elif inner.name in SAME and rank(inner.operands[0]) == rank(inner.result) == 0:
            values[inner.result] = values[inner.operands[0]]
        elif inner.name in ELEMENTWISE and not any(rank(v) for v in (*inner.operands, *inner.results)):
            types = [with_shape(y.type, sizes) for y in inner.results]
            made = b.emit_all(inner.name, [values[x] for x in inner.operands], types, attributes)
            values.update(zip(inner.results, made, strict=True))
        elif inner.name != "stablehlo.return":
            raise unsupported("jvp", op, f"its region holds {inner.name}, which is not elementwise")
    return [values[y] for y in returned(op, region)]
