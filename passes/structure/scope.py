"""The graph under construction, and the arrays that its loops store for later loops according to the plan."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch_mlir import ir

from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.errors import Unsupported
from tiduc.dialect.graph.graph import Graph, Value
from tiduc.dialect.graph.view import View
from tiduc.passes.engine.close import close, inline, private_builder
from tiduc.passes.rules.registry import OpSet
from tiduc.passes.structure.clusters import Cluster, MemberResult
from tiduc.passes.structure.plan import Plan


@dataclass(frozen=True, eq=False)
class Scope:
    """The state of the emission of one graph, which follows `plan`.

    `b` builds the new graph, and `local` maps values of the old graph to values of the new graph. `structured` lowers
    the control flow in a closed graph. Emitted loops store residuals, trip counts and checkpoints here for later loops:
    `residuals` maps a sequence to `steps.Residuals`, and `checkpoints` maps a cluster and its carries to arrays.
    """

    view: View
    opset: OpSet
    memory: str
    plan: Plan
    b: Any
    local: dict[Value, Value]
    structured: Callable[[Graph], Graph]
    residuals: dict[MemberResult, Any] = field(default_factory=dict)
    trip_counts: dict[Cluster, Value] = field(default_factory=dict)
    checkpoints: dict[Cluster, dict[MemberResult, Value]] = field(default_factory=dict)

    def builder(self, prefix: str = "F") -> Any:
        """A builder of a new private closed graph of the view."""
        return private_builder(self.view, self.opset, prefix)

    def closed(self, wanted: Sequence[Value | ir.Type], given: Sequence[Value], name: str = "F") -> Graph:
        """Builds a closed graph that computes `wanted` from `given`, and lowers the control flow in it."""
        return self.structured(close(self.view, wanted, given, self.opset, name=name))

    def inlined(self, b: StablehloBuilder, graph: Graph, arguments: Sequence[Value]) -> list[Value]:
        """Inlines a closed graph on these arguments into the graph that `b` builds. Returns its outputs there."""
        outputs = [y for y in graph.outputs if y is not None]
        copies = inline(b, self.view, outputs, dict(zip(graph.inputs.values(), arguments, strict=True)))
        return [copies[y] for y in outputs]

    def init(self, at: MemberResult) -> Value:
        """The initial value of a loop-carried value, in the new graph."""
        member, i = at
        return self.local[member.record.inits[i]]

    def trip_count(self, cluster: Cluster) -> Value:
        """The trip count of a cluster of fused loops, as `tensor<i32>`. Loops that it recomputes are emitted before.

        Raises `Unsupported` if the iterations would have to be recomputed while the trip count is unknown.
        """
        plan = self.plan.loops[cluster]
        for known in (cluster, *plan.recomputed):
            if known in self.trip_counts:
                return self.trip_counts[known]
        if plan.trip_count is None or plan.bound is not None:
            raise Unsupported(
                "a loop of unknown trip count is read where its iterations cannot be recomputed: bound the trip "
                "count by tidu.max_trip_count",
                cluster.ops[0].location,
            )
        return self.b.constant(plan.trip_count, index_type())  # type: ignore[no-any-return]

    def set_results(self, results: Mapping[MemberResult, Value]) -> None:
        """Records the values that replace the results of a cluster's ops."""
        places = self.plan.fusion.places
        for member in dict.fromkeys(member for member, _ in results):
            for op in member.records:
                self.local.update((y, results[places[y]]) for y in op.results if places.get(y) in results)


def index_type() -> ir.RankedTensorType:
    """The type of iteration numbers and indices: `tensor<i32>`."""
    return ir.RankedTensorType.get([], ir.IntegerType.get_signless(32))
