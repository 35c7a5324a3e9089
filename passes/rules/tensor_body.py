"""Applies a region of scalar ops to whole tensors. The rules of map, and of ops that reduce by a body, use it."""

from collections.abc import Sequence

from tiduc.dialect.emitters.bodies import returned
from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.graph.graph import Definition, Value, captured, operations
from tiduc.dialect.ops.traits import ELEMENTWISE, VIEWS
from tiduc.dialect.shapes.types import rank, shape, with_shape
from tiduc.passes.rules.opset import unsupported

_SAME_FORM = ELEMENTWISE | {"stablehlo.bitcast_convert", "stablehlo.optimization_barrier"}
"""Ops whose scalar form is the same op, with the same attributes, as their tensor form."""


def of_tensors(b: StablehloBuilder, op: Definition, operands: Sequence[Value]) -> list[Value]:
    """The results of the region of `op`, computed on tensors of one shape in place of scalars.

    Constants and captured scalars are broadcast. Raises `Unsupported` if an op of the region is not elementwise.
    """
    sizes = shape(operands[0])

    def spread(scalar: Value) -> Value:
        return b.broadcast_in_dim(scalar, [], sizes) if sizes else scalar

    block = op.regions[0].blocks[0]
    values = dict(zip(block.arguments, operands, strict=True))
    for inside, outside in zip(captured(op.source), op.captures, strict=True):
        if not rank(outside):
            values[inside] = spread(outside)
    for inner in operations(block):
        attributes = {name: inner.attributes[name] for name in inner.attributes}
        if inner.name == "stablehlo.constant":
            values[inner.result] = spread(b.emit(inner.name, (), inner.result.type, attributes))
        elif inner.name in VIEWS and rank(inner.operands[0]) == rank(inner.result) == 0:
            values[inner.result] = values[inner.operands[0]]
        elif inner.name in _SAME_FORM and not any(rank(v) for v in (*inner.operands, *inner.results)):
            types = [with_shape(y.type, sizes) for y in inner.results]
            results = b.emit_all(inner.name, [values[x] for x in inner.operands], types, attributes)
            values.update(zip(inner.results, results, strict=True))
        elif inner.name != "stablehlo.return":
            raise unsupported("jvp", op, f"its region holds {inner.name}, which is not elementwise")
    return [values[y] for y in returned(op)]
