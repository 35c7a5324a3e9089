"""Trip counts of loops, as values of the graph that is being built."""

from tiduc.dialect.errors import Unsupported
from tiduc.dialect.graph import Value
from tiduc.passes.structure.clusters import Cluster
from tiduc.passes.structure.scope import Scope
from tiduc.passes.structure.while_loops import index_type


def emit_trip_count(scope: Scope, cluster: Cluster) -> Value:
    """The trip count of a cluster, as `tensor<i32>`; the clusters recomputed for it must have been emitted."""
    plan = scope.plan.loops[cluster]
    for known in (cluster, *plan.recomputed):
        if known in scope.trip_counts:
            return scope.trip_counts[known]
    if plan.trip_count is None or plan.bound is not None:
        raise unknown_trip_count(cluster)
    return scope.b.constant(plan.trip_count, index_type())  # type: ignore[no-any-return]


def first_iteration(scope: Scope, cluster: Cluster) -> Value:
    """The number of the iteration that a cluster's loop runs first."""
    b, i32, plan = scope.b, index_type(), scope.plan.loops[cluster]
    if not cluster.leader.reverse or plan.trip_count is None:
        return b.constant(0, i32)  # type: ignore[no-any-return]
    if plan.trip_count_source is not None:
        return b.subtract(scope.trip_counts[cluster], b.constant(1, i32))  # type: ignore[no-any-return]
    return b.constant(plan.trip_count - 1, i32)  # type: ignore[no-any-return]


def unknown_trip_count(cluster: Cluster) -> Unsupported:
    """The error for iterations that would have to be recomputed while their number is unknown."""
    return Unsupported(
        "a loop of unknown trip count is read where its iterations cannot be recomputed: bound the trip "
        "count by tidu.max_trip_count",
        cluster.ops[0].location,
    )
