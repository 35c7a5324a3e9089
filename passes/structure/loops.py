"""Emits the loops of a cluster as one loop without sequences, as the plan says."""

from collections.abc import Callable, Mapping

from tiduc.dialect.control import needs_static_shapes
from tiduc.dialect.control_ops import sequence_type
from tiduc.dialect.errors import UnknownSize
from tiduc.dialect.graph import Value
from tiduc.dialect.types import is_empty
from tiduc.passes.structure.checkpointed import emit_checkpointed
from tiduc.passes.structure.clusters import Cluster, MemberResult, is_last_carry
from tiduc.passes.structure.scope import Scope
from tiduc.passes.structure.segmented import emit_segmented
from tiduc.passes.structure.stacked import emit_stacked
from tiduc.passes.structure.steps import unchanged_carries


def emit_loops(scope: Scope, cluster: Cluster) -> None:
    """Emits the cluster's loop, forwards or backwards, and records its results in the scope."""
    _give_invariants(scope, cluster)
    plan = scope.plan.loops[cluster]
    if plan.trip_count_source is not None:
        scope.trip_counts[cluster] = scope.trip_counts[plan.trip_count_source]
    try:
        EMITTERS[plan.emitter](scope, cluster)
    except UnknownSize as error:
        raise needs_static_shapes(error, cluster.ops[0].location) from None


def _give_invariants(scope: Scope, cluster: Cluster) -> None:
    """Records the results that need no loop: operands that no iteration changes, and sequences without entries."""
    for member in cluster.members:
        for op, record in member.records.items():
            first, idle = len(record.inits) + len(record.sequences), unchanged_carries(record)
            for y, j in zip(op.results, record.results, strict=True):
                if j < 0:
                    scope.local[y] = scope.local[record.operands[first + ~j]]
                elif j in idle:
                    scope.local[y] = scope.local[record.inits[j]]
                elif j >= len(record.inits) and j in member.used and y.type.has_static_shape and is_empty(y):
                    scope.local[y] = scope.b.zero(y.type)


def _emit_none(scope: Scope, cluster: Cluster) -> None:
    """Records the results of a loop of no iterations: the last carries are the first, the sequences are empty."""
    results: dict[MemberResult, Value] = {}
    for at in ((member, i) for member in cluster.members for i in member.used):
        element = at[0].record.body.outputs[at[1]].type
        results[at] = scope.init(at) if is_last_carry(at) else scope.b.zero(sequence_type(element, 0))
    scope.set_results(results)


EMITTERS: Mapping[str, Callable[[Scope, Cluster], None]] = {
    "none": _emit_none,
    "stacked": emit_stacked,
    "segmented": emit_segmented,
    "checkpointed": emit_checkpointed,
}
"""The emitters of loops, by `LoopPlan.emitter`."""
