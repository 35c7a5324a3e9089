"""Data that the steps of `structure` share: clusters of ops, a plan for each loop, and the graph being built."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tiduc.dialect.graph import Definition, Graph, Value
from tiduc.dialect.view import View
from tiduc.passes.engine.close import close, inline, private_builder
from tiduc.passes.rules.registry import OpSet


@dataclass(eq=False)
class Member:
    """All ops of one call site, which become one op.

    `record` is the record of the op with the most results. `used` maps the number of each result that is read to its
    readers: ops, or None for an output of the graph.
    """

    record: Any
    ops: list[Definition] = field(default_factory=list)
    used: dict[int, list[Any]] = field(default_factory=lambda: defaultdict(list))


@dataclass(eq=False)
class Cluster:
    """Members that are fused into one op.

    `depends_on` is a bit mask of cluster numbers: the clusters whose results the operands of this cluster depend on,
    directly or through ordinary ops. `is_separated`: the cluster depends on values in `Scope.separated`.
    """

    number: int
    members: list[Member]
    depends_on: int = 0
    is_separated: bool = False

    @property
    def leader(self) -> Any:
        """The record of the first member, which says what kind of op the cluster becomes."""
        return self.members[0].record


@dataclass(frozen=True)
class LoopPlan:
    """How a loop gets the residuals that other loops compute, and what other loops need from this one.

    `memory` is one of `control_ops.MEMORIES`. `recomputed` are the clusters whose iterations are recomputed for this
    loop. `trip_count_source` is the cluster that computes the trip count, where only a bound is known when compiling.
    `needs_trip_count`: other loops read the trip count that this loop computes. `sets_checkpoints`: this loop stores
    checkpoints, from which other loops recompute its iterations.
    """

    memory: str = "stack"
    recomputed: tuple[Cluster, ...] = ()
    trip_count_source: Cluster | None = None
    needs_trip_count: bool = False
    sets_checkpoints: bool = False


@dataclass(eq=False)
class Scope:
    """The state of structuring one graph: its clusters, their plans, and the new graph's value for each old one.

    `local` maps old values to new ones. `structured` structures a closed graph. `order` are the ops of the old graph.
    `sequence` maps each result of control flow to its member and its number there. `used_of_calls` are the numbers of
    the results of a called graph that any call site reads. `separated` are values that are fused only with each
    other. `residuals` say how loops get the elements of a sequence; `trip_counts` and `checkpoints` belong to
    loops that are already emitted.
    """

    view: View
    opset: OpSet
    memory: str
    b: Any
    local: dict[Value, Value]
    structured: Callable[[Graph], Graph]
    order: Sequence[Definition]
    record_of: dict[Definition, Any] = field(default_factory=dict)
    member_of: dict[Definition, Member] = field(default_factory=dict)
    cluster_of: dict[Member, Cluster] = field(default_factory=dict)
    sequence: dict[Value, tuple[Member, int]] = field(default_factory=dict)
    used_of_calls: dict[Graph, set[int]] = field(default_factory=lambda: defaultdict(set))
    separated: set[Value] = field(default_factory=set)
    plans: Mapping[Cluster, LoopPlan] = field(default_factory=dict)
    residuals: dict[tuple[Member, int], Any] = field(default_factory=dict)
    trip_counts: dict[Cluster, Value] = field(default_factory=dict)
    checkpoints: dict[Cluster, Any] = field(default_factory=dict)

    @cached_property
    def defining_op(self) -> dict[Value, Definition]:
        """The op that defines each result."""
        return {y: op for op in self.order for y in op.results}

    def builder(self, prefix: str = "F") -> Any:
        """A builder of a new private closed graph of the view."""
        return private_builder(self.view, self.opset, prefix)

    def closed(self, wanted: Sequence[Any], given: Sequence[Value], name: str = "F") -> Graph:
        """The closed graph that computes `wanted` from `given`, structured."""
        return self.structured(close(self.view, wanted, given, self.opset, name=name))

    def inlined(self, b: Any, graph: Graph, arguments: Sequence[Value]) -> list[Value]:
        """Inlines a closed graph, at these arguments, into the graph that `b` builds; its outputs there."""
        outputs = [y for y in graph.outputs if y is not None]
        copies = inline(b, self.view, outputs, dict(zip(graph.inputs.values(), arguments, strict=True)))
        return [copies[y] for y in outputs]

    def recomputed_for(self, cluster: Cluster) -> tuple[Cluster, ...]:
        """The clusters whose iterations are recomputed for a cluster; none for branches and calls."""
        return self.plans[cluster].recomputed if cluster in self.plans else ()

    def is_result_of(self, x: Value, cluster: Cluster) -> bool:
        """Whether a value is a result of one of the cluster's ops."""
        return x in self.sequence and self.cluster_of[self.sequence[x][0]] is cluster

    def set_results(self, results: Mapping[tuple[Member, int], Value]) -> None:
        """Records the values that replace the results of a cluster's ops."""
        for member in dict.fromkeys(member for member, _ in results):
            for op in member.ops:
                for y in op.results:
                    at = self.sequence.get(y)
                    if at is not None and at in results:
                        self.local[y] = results[at]
