"""Batching rules of collectives. On each device, operands and results get a leading batch dimension."""

from collections.abc import Sequence

from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.passes.batching.registry import BatchRule, emit_batched, spread_all
from tiduc.passes.batching.shape import next_
from tiduc.passes.batching.table import batch, leading

leading(
    "stablehlo.all_reduce",
    "stablehlo.collective_broadcast",
    "stablehlo.collective_permute",
    "stablehlo.cross-replica-sum",
)


def _along(*names: str) -> BatchRule:
    """Returns a rule that adds 1 to the dimension numbers in the attributes `names`, as the batch is dimension 0."""

    def rule(b: StablehloBuilder, op: Definition, x: Sequence[Value], at: Sequence[bool]) -> Sequence[Value]:
        count = len(op.operands)
        changed = {name: next_(op.attributes[name]) for name in names}
        return emit_batched(b, op, spread_all(b, x[:count], at[:count]), None, **changed)

    return rule


batch("stablehlo.all_gather")(_along("all_gather_dim"))
batch("stablehlo.all_to_all")(_along("split_dimension", "concat_dimension"))
batch("stablehlo.reduce_scatter")(_along("scatter_dimension"))
