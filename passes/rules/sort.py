"""sort: tangents are reordered like the values that they belong to. The comparator has no derivative."""

from torch_mlir import ir

from tiduc.dialect.emitters.bodies import RegionBuilder, returned, self_contained
from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.ops.attributes import without
from tiduc.dialect.ops.verify import ACTIVE
from tiduc.dialect.shapes.types import with_shape
from tiduc.passes.rules.opset import linearize, unsupported
from tiduc.passes.rules.registry import Tangents
from tiduc.passes.rules.selection import numbers, take_elements


@linearize("stablehlo.sort")
def sort(b: StablehloBuilder, op: Definition, dx: Tangents) -> list[Value | None]:
    """Gathers the tangents in the order of the sorted elements. The transpose is therefore a scatter-add."""
    if not self_contained(op):
        raise unsupported("jvp", op, "its comparator reads a value from outside")
    order = _order(b, op)
    return [None if tangent is None else take_elements(b, tangent, order, None) for tangent in dx]


def _order(b: StablehloBuilder, op: Definition) -> Value:
    """The original indices of the sorted elements. Emits the sort again, with the indices as a further operand."""
    at = numbers(b, op.operands[0])

    def fill(region: ir.Region) -> None:
        block = op.regions[0].blocks[0]
        scalar = with_shape(at.type, [])
        body = RegionBuilder(region, [*(x.type for x in block.arguments), scalar, scalar], b.location)
        body.returns(body.copy_of(op, 0, body.arguments[:-2])[returned(op)[0]])

    operands = [*op.operands, at]
    attributes = without(op.attributes, ACTIVE)
    return b.emit_all(op.name, operands, [x.type for x in operands], attributes, [fill])[-1]
