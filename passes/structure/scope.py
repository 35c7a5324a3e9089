"""What the steps of structure share: clusters of ops, the plan of each loop, and the graph that is being built."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from torch_mlir import ir

from tiduc.dialect.graph import Definition, Graph, Value
from tiduc.dialect.view import View
from tiduc.passes.engine.close import close, inline
from tiduc.passes.rules.registry import OpSet


@dataclass(eq=False)
class Member:
    """All ops at one call site: the record of the widest op, and which of its results somebody reads."""

    record: Any
    ops: list[Definition] = field(default_factory=list)
    used: dict[int, list[Any]] = field(default_factory=lambda: defaultdict(list))  # by whom: ops, or None


@dataclass(eq=False)
class Cluster:
    """Members that are fused into one op.

    `waits` has a bit for each other cluster, by number, whose results the operands of this cluster need first.
    A cluster `is_separated` as `Scope.separated` says.
    """

    number: int
    members: list[Member]
    waits: int = 0
    is_separated: bool = False

    @property
    def leader(self) -> Any:
        """The record of the first member, which says what kind of op the cluster becomes."""
        return self.members[0].record


@dataclass(frozen=True)
class LoopPlan:
    """How a loop gets what the iterations of other loops have given, and what other loops need of it.

    `memory` is one of `control.MEMORIES`. `recomputed` are the clusters whose iterations run again for this loop.
    `trip_count_source` is the cluster that knows the trip count, where this loop knows only a bound of its own.
    """

    memory: str = "stack"
    recomputed: tuple[Cluster, ...] = ()
    trip_count_source: Cluster | None = None
    needs_trip_count: bool = False
    sets_checkpoints: bool = False


@dataclass(eq=False)
class Scope:
    """One graph while it is structured: its clusters, their plans, and what stands for its values in the new graph."""

    view: View
    opset: OpSet
    memory: str
    b: Any
    local: dict[Value, Value]
    structured: Callable[[Graph], Graph]  # structures a closed graph
    order: Sequence[Definition]  # its ops
    record_of: dict[Definition, Any] = field(default_factory=dict)
    member_of: dict[Definition, Member] = field(default_factory=dict)
    cluster_of: dict[Member, Cluster] = field(default_factory=dict)
    sequence: dict[Value, tuple[Member, int]] = field(default_factory=dict)
    used_of_calls: dict[Graph, set[int]] = field(default_factory=lambda: defaultdict(set))  # which results
    separated: set[Value] = field(default_factory=set)  # values that are fused only with others of this set
    plans: Mapping[Cluster, LoopPlan] = field(default_factory=dict)
    residuals: dict[tuple[Member, int], Any] = field(
        default_factory=dict
    )  # what elements of sequences come from
    trip_counts: dict[Cluster, Value] = field(default_factory=dict)  # of loops that are emitted
    checkpoints: dict[Cluster, Any] = field(default_factory=dict)  # of loops that are emitted

    @cached_property
    def maker_of(self) -> dict[Value, Definition]:
        """The op that each result is of."""
        return {y: op for op in self.order for y in op.results}

    def builder(self, prefix: str = "F") -> Any:
        """The builder of a closed graph of the view."""
        b = self.opset.builder(self.view, self.view.fresh(prefix))
        b.graph.attributes["sym_visibility"] = ir.StringAttr.get("private")
        return b

    def closed(self, wanted: Sequence[Any], given: Sequence[Value], name: str = "F") -> Graph:
        """The structured closed graph of some values."""
        return self.structured(close(self.view, wanted, given, self.opset, name=name))

    def inlined(self, b: Any, graph: Graph, arguments: Sequence[Value]) -> list[Value]:
        """What a closed graph gives for arguments, in a graph that is being built."""
        outputs = [y for y in graph.outputs if y is not None]
        made = inline(b, self.view, outputs, dict(zip(graph.inputs.values(), arguments, strict=True)))
        return [made[y] for y in outputs]

    def recomputed_for(self, cluster: Cluster) -> tuple[Cluster, ...]:
        """The clusters whose iterations run again for a cluster; none for branches and calls."""
        return self.plans[cluster].recomputed if cluster in self.plans else ()

    def is_made_by(self, x: Value, cluster: Cluster) -> bool:
        """A value is a result of one of the cluster's ops."""
        return x in self.sequence and self.cluster_of[self.sequence[x][0]] is cluster

    def give_results(self, made: Mapping[tuple[Member, int], Value]) -> None:
        """Notes what stands for the results of a cluster's ops."""
        for member in dict.fromkeys(member for member, _ in made):
            for op in member.ops:
                for y in op.results:
                    at = self.sequence.get(y)
                    if at is not None and at in made:
                        self.local[y] = made[at]
