"""Trip counts of loops, as values of the graph that is being built."""

from tiduc.dialect.errors import Unsupported
from tiduc.dialect.graph import Value
from tiduc.passes.structure.plan import max_trip_count, static_trip_count
from tiduc.passes.structure.scope import Cluster, Scope
from tiduc.passes.structure.steps import index_type


def emit_trip_count(scope: Scope, cluster: Cluster) -> Value:
    """The trip count of a cluster, as `tensor<i32>`; the clusters recomputed for it must have been emitted."""
    for known in (cluster, *scope.plans[cluster].recomputed):
        if known in scope.trip_counts:
            return scope.trip_counts[known]
    trip_count = static_trip_count(cluster)
    if trip_count is None or max_trip_count(cluster) is not None:
        raise unknown_trip_count(cluster)
    return scope.b.constant(trip_count, index_type())  # type: ignore[no-any-return]


def first_iteration(scope: Scope, cluster: Cluster, trip_count: int | None) -> Value:
    """The number of the iteration that a cluster's loop runs first."""
    b, i32 = scope.b, index_type()
    if not cluster.leader.reverse or trip_count is None:
        return b.constant(0, i32)  # type: ignore[no-any-return]
    if scope.plans[cluster].trip_count_source is not None:
        return b.subtract(scope.trip_counts[cluster], b.constant(1, i32))  # type: ignore[no-any-return]
    return b.constant(trip_count - 1, i32)  # type: ignore[no-any-return]


def unknown_trip_count(cluster: Cluster) -> Unsupported:
    """The error for iterations that would have to be recomputed while their number is unknown."""
    return Unsupported(
        "a loop of unknown trip count is read where its iterations cannot be recomputed: bound the trip "
        "count by tidu.max_trip_count",
        cluster.members[0].ops[0].location,
    )
