"""Emits the loops of a cluster as one loop without sequences: stacked, segmented or checkpointed, as planned.

A loop of no iterations is not emitted at all.
"""

from typing import Any

from tiduc.dialect.control import open_loop
from tiduc.dialect.control_ops import sequence_type
from tiduc.dialect.errors import OpenSize, Unsupported
from tiduc.dialect.graph import Value
from tiduc.passes.structure.checkpointed import emit_recomputed
from tiduc.passes.structure.plan import static_trip_count
from tiduc.passes.structure.scope import Cluster, Scope
from tiduc.passes.structure.segmented import emit_segmented
from tiduc.passes.structure.stacked import emit_stacked
from tiduc.passes.structure.steps import Place, unchanged_carries


def emit_loops(scope: Scope, cluster: Cluster) -> None:
    """Emits the cluster's loop, forwards or backwards, and records its results in the scope."""
    _give_invariants(scope, cluster)
    trip_count, loop_plan = static_trip_count(cluster), scope.plans[cluster]
    if cluster.leader.cond is None and trip_count is not None and trip_count >= 2**31:
        message = f"a loop of {trip_count} iterations runs backwards, whose induction variable has 32 bits"
        raise Unsupported(message, cluster.members[0].ops[0].location)
    if loop_plan.trip_count_source is not None:
        scope.trip_counts[cluster] = scope.trip_counts[loop_plan.trip_count_source]
    try:
        if trip_count == 0:
            _emit_none(scope, cluster)
        elif all(source.leader.reverse == cluster.leader.reverse for source in loop_plan.recomputed):
            emit_stacked(scope, cluster, trip_count)
        elif loop_plan.memory == "sqrt" and trip_count is not None:
            emit_segmented(scope, cluster, trip_count)
        else:
            emit_recomputed(scope, cluster, trip_count)
    except OpenSize as error:
        raise open_loop(error, cluster.members[0].ops[0].location) from None


def _give_invariants(scope: Scope, cluster: Cluster) -> None:
    """Records the results that need no loop: operands that no iteration changes, and sequences without entries."""
    for member in cluster.members:
        for op in member.ops:
            record = scope.record_of[op]
            first, idle = len(record.inits) + len(record.sequences), unchanged_carries(record)
            for y, j in zip(op.results, record.results, strict=True):
                if j < 0:
                    scope.local[y] = scope.local[record.operands[first + ~j]]
                elif j in idle:
                    scope.local[y] = scope.local[record.inits[j]]
                elif j >= len(record.inits) and j in member.used and _is_empty(y.type):
                    scope.local[y] = scope.b.zero(y.type)


def _is_empty(type_: Any) -> bool:
    return type_.has_static_shape and 0 in type_.shape


def _emit_none(scope: Scope, cluster: Cluster) -> None:
    """Records the results of a loop of no iterations: the last carries are the first, the sequences are empty."""
    results: dict[Place, Value] = {}
    for member in cluster.members:
        inits = member.record.inits
        for i in member.used:
            if i < len(inits):
                results[member, i] = scope.local[inits[i]]
            else:
                results[member, i] = scope.b.zero(sequence_type(member.record.body.outputs[i].type, 0))
    scope.set_results(results)
