"""Batching rules of elementwise ops, whose result elements depend only on operand elements with the same index."""

from collections.abc import Sequence

from torch_mlir import ir

from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.ops.ir_types import Typed
from tiduc.dialect.ops.traits import BROADCASTING, ELEMENTWISE
from tiduc.dialect.shapes.types import dims, rank, with_element
from tiduc.passes.batching.registry import emit_batched, results_of, spread_all
from tiduc.passes.batching.table import batch, elementwise, leading

elementwise(*sorted(ELEMENTWISE))
leading("stablehlo.bitcast_convert")


@batch("stablehlo.map")
def map_(b: StablehloBuilder, op: Definition, x: Sequence[Value], at: Sequence[bool]) -> Sequence[Value]:
    """Batches all operands. Adds the batch dimension to the attribute `dimensions`, which must list all dimensions."""
    count = len(op.operands)
    whole = dims(range(rank(op.result) + 1))
    return emit_batched(b, op, spread_all(b, x[:count], at[:count]), dimensions=whole)


def _broadcasting(
    b: StablehloBuilder, op: Definition, x: Sequence[Value], at: Sequence[bool]
) -> Sequence[Value]:
    """Batches an op that broadcasts its operands implicitly, such as `chlo.broadcast_add`.

    First broadcasts each operand explicitly to the batched shape of the result, so that the emitted op has operands of
    one shape.
    """
    (result,) = results_of(b, op)
    given = dict.fromkeys(op.attributes)
    places = op.attributes["broadcast_dimensions"] if "broadcast_dimensions" in given else None
    full = []
    for v, flag, source in zip(x, at, op.operands, strict=True):
        first = rank(op.result) - rank(source)
        own = range(first, rank(op.result)) if places is None or not first else list(places)
        along = [1 + d for d in own]
        full.append(
            b.broadcast_in_dim(v, [0, *along] if flag else along, with_element(result, _element(source)))
        )
    attributes = {name: op.attributes[name] for name in given if name != "broadcast_dimensions"}
    # On operands of one shape, chlo.broadcast_select equals stablehlo.select, and later passes reject the former.
    name = "stablehlo.select" if op.name == "chlo.broadcast_select" else op.name
    return [b.emit(name, full, result, attributes)]


def _element(x: Typed) -> ir.Type:
    type_: ir.Type = x.type.element_type
    return type_


for _name in sorted(BROADCASTING):
    batch(_name)(_broadcasting)
