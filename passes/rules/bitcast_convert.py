"""bitcast_convert: differentiable only as the identity, because bits are not a smooth function of a float."""

from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.passes.rules.opset import linearize, unsupported
from tiduc.passes.rules.registry import Tangents


@linearize("stablehlo.bitcast_convert")
def bitcast_convert(b: StablehloBuilder, op: Definition, dx: Tangents) -> list[Value | None]:
    """Returns the operand's tangent if the op is an identity, and None if it converts to integers."""
    if b.tangent_type(op.result.type) is None:
        return [None]
    if op.operands[0].type != op.result.type:
        raise unsupported("jvp", op, "it reinterprets the bits of a float as another float type")
    return [dx[0]]
