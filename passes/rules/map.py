"""map: a region of elementwise ops, linearized as the same ops of whole tensors."""

from collections.abc import Sequence
from typing import Any

from tiduc.dialect.bodies import returned
from tiduc.dialect.graph import Definition, captured, operations
from tiduc.dialect.types import rank, with_shape
from tiduc.passes.rules.expansion import expanded
from tiduc.passes.rules.opset import linearize, unsupported
from tiduc.passes.rules.registry import Tangents

ELEMENTWISE = frozenset(
    "stablehlo." + name
    for name in """abs add and atan2 cbrt ceil clamp compare complex convert cosine count_leading_zeros divide
    exponential exponential_minus_one floor imag is_finite log log_plus_one logistic maximum minimum multiply negate
    not or popcnt power real reduce_precision remainder round_nearest_afz round_nearest_even rsqrt select shift_left
    shift_right_arithmetic shift_right_logical sign sine sqrt subtract tan tanh xor""".split()
) | frozenset(
    "chlo." + name
    for name in """acos acosh asin asinh atan atanh bessel_i1e conj cosh digamma erf erf_inv erfc is_inf is_neg_inf
    is_pos_inf lgamma mulhi next_after polygamma sinh square tan zeta""".split()
)
"""Ops of scalars that are the same op of tensors, with the same attributes."""


@linearize("stablehlo.map")
def map_(b: Any, op: Definition, dx: Tangents) -> list[Any | None]:
    return expanded(b, op.operands, dx, lambda *operands: _of_tensors(b, op, operands))


def _of_tensors(b: Any, op: Definition, operands: Sequence[Any]) -> list[Any]:
    """What the region holds, of whole tensors; scalars from inside or outside of it are broadcast."""
    sizes = list(op.result.type.shape)

    def spread(scalar: Any) -> Any:
        return b.broadcast_in_dim(scalar, [], with_shape(scalar.type, sizes))

    block = op.regions[0].blocks[0]
    values = dict(zip(block.arguments, operands, strict=True))
    for inside, outside in zip(captured(op.source), op.captures, strict=True):
        if not rank(outside):
            values[inside] = spread(outside)
    for inner in operations(block):
        attributes = {name: inner.attributes[name] for name in inner.attributes}
        if inner.name == "stablehlo.constant":
            values[inner.result] = spread(b.emit(inner.name, (), inner.result.type, attributes))
        elif inner.name in ELEMENTWISE:
            types = [with_shape(y.type, sizes) for y in inner.results]
            made = b.emit_all(inner.name, [values[x] for x in inner.operands], types, attributes)
            values.update(zip(inner.results, made, strict=True))
        elif inner.name != "stablehlo.return":
            raise unsupported("jvp", op, f"its region holds {inner.name}, which is not elementwise")
    return [values[y] for y in returned(op)]
