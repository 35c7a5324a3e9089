"""plan: decides how each loop gets its residuals, before anything is emitted.

A loop that runs opposite to the loop that computes its residuals reads them from stacks, or recomputes that loop's
iterations from checkpoints.
"""

from collections.abc import Mapping, Sequence
from math import prod

from tiduc.dialect.control import Loop, draws
from tiduc.dialect.errors import Unsupported
from tiduc.dialect.graph import Value
from tiduc.dialect.types import bits
from tiduc.passes.structure.scope import Cluster, LoopPlan, Scope

LIMIT = 2**28
"""The most bytes of sequences that loop memory `auto` reads from stacks; above, it takes `sqrt`."""


def plan(scope: Scope, clusters: Sequence[Cluster]) -> Mapping[Cluster, LoopPlan]:
    """The plan of each cluster of loops; `clusters` are in topological order."""
    memory: dict[Cluster, str] = {}
    recomputed: dict[Cluster, tuple[Cluster, ...]] = {}
    sources: dict[Cluster, Cluster] = {}
    needs_trip_count: set[Cluster] = set()
    sets_checkpoints: set[Cluster] = set()
    loops = [cluster for cluster in clusters if isinstance(cluster.leader, Loop)]
    for cluster in loops:
        outside = [
            x for m in cluster.members for x in m.record.sequences if not scope.is_result_of(x, cluster)
        ]
        memory[cluster] = _memory(scope, cluster, outside)
        recomputed[cluster] = ()
        if memory[cluster] != "stack":
            recomputed[cluster] = _recomputed(scope, cluster, outside, recomputed)
            needs_trip_count.update(c for c in recomputed[cluster] if c.leader.cond is not None)
            if memory[cluster] == "sqrt":
                sets_checkpoints.update(
                    c for c in recomputed[cluster] if c.leader.reverse != cluster.leader.reverse
                )
        if cluster.leader.cond is None and max_trip_count(cluster) is not None:
            source = _trip_count_source(scope, cluster, outside)
            if source is not None:
                sources[cluster] = source
                needs_trip_count.add(source)
    return {
        c: LoopPlan(memory[c], recomputed[c], sources.get(c), c in needs_trip_count, c in sets_checkpoints)
        for c in loops
    }


def _recomputed(
    scope: Scope,
    cluster: Cluster,
    outside: Sequence[Value],
    recomputed: Mapping[Cluster, tuple[Cluster, ...]],
) -> tuple[Cluster, ...]:
    """The clusters that compute the sequences `outside`, and the clusters that those recompute in turn."""
    sources = [source for x in dict.fromkeys(outside) if (source := _source(scope, x)) is not None]
    clusters = tuple(dict.fromkeys(c for source in sources for c in (*recomputed[source], source)))
    if any(draws(scope.view, m.record.body) for source in clusters for m in source.members):
        raise Unsupported(
            "a loop that draws random numbers, or has effects, cannot be recomputed from checkpoints",
            cluster.members[0].ops[0].location,
        )
    return clusters


def _source(scope: Scope, x: Value) -> Cluster | None:
    """The cluster whose iterations compute the elements of a sequence; None for an array that exists as a whole.

    The last carry of a loop is such an array, for example a sum of cotangents over its iterations.
    """
    member, i = scope.sequence.get(x, (None, 0))
    if member is None or not isinstance(member.record, Loop) or i < len(member.record.inits):
        return None
    return scope.cluster_of[member]


def _memory(scope: Scope, cluster: Cluster, outside: Sequence[Value]) -> str:
    """The memory of a cluster: `log` for sequences of dynamic length, else as the loop says, or else the caller.

    `auto` decides by size.
    """
    if any(not x.type.has_static_shape for x in outside):
        return "log"
    wanted = next((m.record.memory for m in cluster.members if m.record.memory is not None), scope.memory)
    if wanted == "auto":
        return "sqrt" if sum(prod(x.type.shape) * bits(x) // 8 for x in outside) > LIMIT else "stack"
    return wanted


def max_trip_count(cluster: Cluster) -> int | None:
    """The upper bound of a cluster's trip count, where only a bound is known; else None."""
    if any(m.record.trip_count is not None for m in cluster.members):
        return None
    return next((m.record.bound for m in cluster.members if m.record.bound is not None), None)


def _trip_count_source(scope: Scope, cluster: Cluster, outside: Sequence[Value]) -> Cluster | None:
    """A cluster that computes this cluster's trip count: the sequences come from it, directly or through ops."""
    unread, seen = list(outside), set(outside)
    while unread:
        x = unread.pop()
        source = _source(scope, x)
        if source is not None:
            if source is not cluster and max_trip_count(source) is not None:
                return source
        elif x in scope.defining_op and x not in scope.sequence:
            read = scope.defining_op[x].operands
            unread += [y for y in read if y not in seen]
            seen.update(read)
    return None


def static_trip_count(cluster: Cluster) -> int | None:
    """The trip count, or an upper bound of it, where either is known when compiling."""
    for member in cluster.members:
        record = member.record
        if record.trip_count is not None:
            return record.trip_count  # type: ignore[no-any-return]
        for x in record.sequences:
            if not x.type.is_dynamic_dim(0):
                return int(x.type.shape[0])
    return max_trip_count(cluster)
