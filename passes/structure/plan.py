"""plan: decides which ops are fused and how each loop gets its residuals, before any op is emitted.

A backward loop may read residuals of a forward loop from stacks, or recompute the iterations of the forward loop from
checkpoints. A forward loop may get residuals of a backward loop in both ways, too. The plan states what each loop
stores, and which function of `loops.EMITTERS` emits the loop. Emitters read the plan and never change it.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from tiduc.dialect.control.control import Loop, draws
from tiduc.dialect.errors import Unsupported
from tiduc.dialect.facts.costs import stored_bytes
from tiduc.dialect.graph.graph import Definition, Graph, Value
from tiduc.dialect.graph.view import View
from tiduc.dialect.ops.control_ops import MEMORIES
from tiduc.dialect.shapes.types import is_empty
from tiduc.passes.materialize_merge import live
from tiduc.passes.rules.registry import OpSet
from tiduc.passes.structure.clusters import (
    Cluster,
    Fusion,
    Member,
    MemberResult,
    fuse,
    is_call,
    is_last_carry,
)

LIMIT = 2**28
"""With loop memory `auto`, a loop reads at most this many bytes of sequences from arrays. Else it uses `sqrt`."""


@dataclass(frozen=True)
class LoopPlan:
    """How a cluster (loops fused into one) gets the residuals of other loops, and what it stores for other loops.

    - `emitter` is a key of `loops.EMITTERS`, and `memory` is one of `control_ops.MEMORIES`.
    - `trip_count` is the trip count, or an upper bound, if one is known at compile time. If only a bound is known,
      `bound` is the bound, and `trip_count_source` is the cluster that computes the trip count.
    - `needs_trip_count`: other loops read the trip count that this loop computes.
    - `recomputed` are the clusters whose iterations are recomputed for this loop.
    - `read_whole` are the sequences of this loop that ops read as whole arrays. They are stored as arrays.
    - `residuals` are the sequences of which loops read one element per iteration. Arrays store them, or values from
      which cheap ops recompute them.
    - `sets_checkpoints`: this loop stores checkpoints. Other loops recompute the sequences `recomputed_from` from them.
    """

    emitter: str
    memory: str
    trip_count: int | None
    bound: int | None
    trip_count_source: Cluster | None
    needs_trip_count: bool
    recomputed: tuple[Cluster, ...]
    read_whole: tuple[MemberResult, ...]
    residuals: tuple[MemberResult, ...]
    sets_checkpoints: bool
    recomputed_from: tuple[MemberResult, ...]


@dataclass(frozen=True)
class Plan:
    """The clusters (fused control-flow ops) of a graph, the plan of each cluster of loops, and the order of emission.

    `nodes` are the clusters, and the ops that are in no cluster. `used_of_calls` maps each called graph to the indices
    of the results that at least one call site reads.
    """

    fusion: Fusion
    nodes: Sequence[Cluster | Definition]
    loops: Mapping[Cluster, LoopPlan]
    used_of_calls: Mapping[Graph, Collection[int]]

    def members(self, cluster: Cluster) -> list[Member]:
        """The members (each is the ops of one call site) whose iterations run in the cluster's loop.

        Members that are recomputed for the cluster come first.
        """
        return [m for c in (*self.loops[cluster].recomputed, cluster) for m in c.members]


@dataclass(frozen=True)
class LoopChoice:
    """A loop for which a memory option can be chosen. `number` is the number of its cluster (loops fused with it).

    The loop reads residuals of the loops `recomputed`. `bytes` is the size of the residuals of all iterations.
    """

    number: int
    bytes: int
    trip_count: int
    recomputed: tuple[Graph, ...]


def loop_choices(view: View, opset: OpSet, graph: Graph, separated: Collection[str]) -> list[LoopChoice]:
    """The loops of a graph for which a memory option can be chosen. Omits loops inside other loops and in branches.

    The option says how a loop gets residuals of loops that run in the opposite direction.
    """
    outputs = [y for y in graph.outputs if y is not None]
    values = [graph.inputs[key] for key in separated]
    decided = plan(view, opset, live(graph.definitions, outputs), outputs, MEMORIES[0], values)
    choices = []
    for cluster, own in decided.loops.items():
        read = [x for m in cluster.members for x in m.record.sequences]
        sources = [c for x in read if (c := _source(decided.fusion, x)) not in (None, cluster)]
        opposite = any(c.leader.reverse != cluster.leader.reverse for c in sources if c is not None)
        is_free = own.memory == MEMORIES[0] and all(m.record.memory is None for m in cluster.members)
        if opposite and is_free and own.trip_count is not None:
            bodies = tuple(
                [m.record.body for c in dict.fromkeys(sources) if c is not None for m in c.members]
            )
            size = sum(stored_bytes(x.type) or 0 for x in dict.fromkeys(read))
            choices.append(LoopChoice(cluster.number, size, own.trip_count, bodies))
    return choices


def plan(
    view: View,
    opset: OpSet,
    order: Sequence[Definition],
    outputs: Sequence[Value],
    memory: str,
    separated: Collection[Value] = (),
    chosen: Mapping[int, str] = MappingProxyType({}),
) -> Plan:
    """Makes the plan of a graph with the ops `order`. `memory` is used for loops without a memory option of their own.

    `chosen` maps numbers of clusters to memory options of their loops. Ops that depend on the values `separated` are
    not fused with ops that do not. Raises `Unsupported` if a loop must be recomputed and draws random numbers, or must
    run backwards for more iterations than 32 bits can number.
    """
    fusion = fuse(view, opset, order, outputs, separated)
    nodes = fusion.nodes()
    loops = [node for node in nodes if isinstance(node, Cluster) and isinstance(node.leader, Loop)]
    used: dict[Graph, set[int]] = defaultdict(set)
    for member in fusion.cluster_of:
        if is_call(member.record):
            used[member.record.graphs[0]].update(member.used)
    memories: dict[Cluster, str] = {}
    recomputed: dict[Cluster, tuple[Cluster, ...]] = {}
    sources: dict[Cluster, Cluster | None] = {}
    for cluster in loops:
        read = [x for m in cluster.members for x in m.record.sequences if not fusion.is_result_of(x, cluster)]
        memories[cluster] = _memory(cluster, read, chosen.get(cluster.number, memory))
        keeps = memories[cluster] == "stack"
        recomputed[cluster] = () if keeps else _recomputed(view, fusion, cluster, read, recomputed)
        has_bound = cluster.leader.cond is None and _bound(cluster) is not None
        sources[cluster] = _trip_count_source(fusion, cluster, read) if has_bound else None
    readers_of: dict[Cluster, list[Cluster]] = defaultdict(list)
    for reader in loops:
        for cluster in recomputed[reader]:
            readers_of[cluster].append(reader)
    counting, plans = set(sources.values()), {}
    for cluster in loops:
        trip_count, leader, readers = _trip_count(cluster), cluster.leader, readers_of[cluster]
        opposite = [reader for reader in readers if reader.leader.reverse != leader.reverse]
        whole, residuals = _stacked(fusion, cluster, recomputed) if trip_count is not None else ((), ())
        plans[cluster] = LoopPlan(
            _emitter(cluster, memories[cluster], recomputed[cluster], trip_count),
            memories[cluster],
            trip_count,
            _bound(cluster),
            sources[cluster],
            needs_trip_count=cluster in counting or (leader.cond is not None and bool(readers)),
            recomputed=recomputed[cluster],
            read_whole=whole,
            residuals=residuals,
            sets_checkpoints=trip_count is not None and any(memories[c] == "sqrt" for c in opposite),
            recomputed_from=_recomputed_from(fusion, readers, recomputed),
        )
    return Plan(fusion, nodes, plans, used)


def _emitter(cluster: Cluster, memory: str, recomputed: Sequence[Cluster], trip_count: int | None) -> str:
    if all(
        source.leader.reverse == cluster.leader.reverse or not _has_carries(source) for source in recomputed
    ):
        return "stacked"
    return "segmented" if memory == "sqrt" and trip_count is not None else "checkpointed"


def _has_carries(cluster: Cluster) -> bool:
    """Whether a loop of a cluster has loop-carried values. Otherwise, its iterations can run in any order."""
    return any(m.record.inits for m in cluster.members if isinstance(m.record, Loop))


# ---- these functions decide which loops are recomputed -------------------------------------------------------


def _memory(cluster: Cluster, read: Sequence[Value], given: str) -> str:
    """The memory option of a cluster that reads the sequences `read`.

    The option is "log" if the length of a sequence is dynamic. Otherwise, it is the option in an attribute of a loop,
    or `given` without an attribute. "auto" becomes "sqrt" if the sequences exceed `LIMIT` bytes, and else "stack".
    """
    if any(not x.type.has_static_shape for x in read):
        return "log"
    wanted = next((m.record.memory for m in cluster.members if m.record.memory is not None), given)
    if wanted == "auto":
        return "sqrt" if sum(stored_bytes(x.type) or 0 for x in read) > LIMIT else "stack"
    return wanted


def _recomputed(
    view: View,
    fusion: Fusion,
    cluster: Cluster,
    read: Sequence[Value],
    recomputed: Mapping[Cluster, tuple[Cluster, ...]],
) -> tuple[Cluster, ...]:
    """The clusters (fused loops) to recompute: those that compute the sequences `read`, and what these recompute."""
    sources = [source for x in dict.fromkeys(read) if (source := _source(fusion, x)) is not None]
    clusters = tuple(dict.fromkeys(c for source in sources for c in (*recomputed[source], source)))
    if any(draws(view, m.record.body) for source in clusters for m in source.members):
        raise Unsupported(
            "a loop that draws random numbers, or has effects, cannot be recomputed from checkpoints",
            cluster.ops[0].location,
        )
    return clusters


def _source(fusion: Fusion, x: Value) -> Cluster | None:
    """The cluster whose iterations compute the elements of the sequence x. Returns None if x is not a sequence.

    The final value of a carry, such as a sum of cotangents over the iterations, is not a sequence.
    """
    at = fusion.places.get(x)
    if at is None or not isinstance(at[0].record, Loop) or is_last_carry(at):
        return None
    return fusion.cluster_of[at[0]]


# ---- these functions decide which values are stored ----------------------------------------------------------


def _stacked(
    fusion: Fusion, cluster: Cluster, recomputed: Mapping[Cluster, tuple[Cluster, ...]]
) -> tuple[tuple[MemberResult, ...], tuple[MemberResult, ...]]:
    """The sequences of a cluster to store as arrays: those that are read as whole arrays, then those read by element.

    Leaves out sequences that are read only by the cluster's loops or by loops that recompute it: these need no arrays.
    """

    def needs_stack(op: Definition | None) -> bool:
        member = fusion.member_of.get(op)
        reader = fusion.cluster_of[member] if member is not None else None
        return reader is None or (reader is not cluster and cluster not in recomputed.get(reader, ()))

    whole, one_by_one = list[MemberResult](), list[MemberResult]()
    for at in ((member, i) for member in cluster.members for i in sorted(member.used)):
        readers = [op for op in at[0].used[at[1]] if needs_stack(op)]
        if readers and not is_last_carry(at) and not is_empty(at[0].record.body.outputs[at[1]]):
            are_loops = all(_reads_elements(fusion, op, at) for op in readers)
            (one_by_one if are_loops else whole).append(at)
    return tuple(whole), tuple(one_by_one)


def _reads_elements(fusion: Fusion, op: Definition | None, at: MemberResult) -> bool:
    """Whether `op`, which reads the sequence `at`, is a loop that reads only one element in each iteration."""
    member = fusion.member_of.get(op)
    if member is None or not isinstance(member.record, Loop):
        return False
    record = member.record
    return all(fusion.places.get(x) != at for x in (*record.inits, *record.invariants))


def _recomputed_from(
    fusion: Fusion, readers: Sequence[Cluster], recomputed: Mapping[Cluster, tuple[Cluster, ...]]
) -> tuple[MemberResult, ...]:
    """The sequences that `readers` read, and the sequences that the loops recomputed for them read."""
    recomputing = dict.fromkeys(c for reader in readers for c in (*recomputed[reader], reader))
    sequences = (x for c in recomputing for m in c.members for x in m.record.sequences)
    return tuple(dict.fromkeys(fusion.places[x] for x in sequences if x in fusion.places))


# ---- these functions find trip counts, or bounds of them -----------------------------------------------------


def _trip_count(cluster: Cluster) -> int | None:
    """The trip count, or an upper bound of it, if one is known at compile time; else None.

    Raises `Unsupported` if a loop without a condition has 2^31 iterations or more.
    """
    trip_count = _bound(cluster)
    for record in (member.record for member in cluster.members):
        lengths = [x.type.shape[0] for x in record.sequences if not x.type.is_dynamic_dim(0)]
        known = [record.trip_count] if record.trip_count is not None else lengths
        if known:
            trip_count = int(known[0])
            break
    if cluster.leader.cond is None and trip_count is not None and trip_count >= 2**31:
        message = (
            f"a loop of {trip_count} iterations cannot run backwards: its induction variable has 32 bits"
        )
        raise Unsupported(message, cluster.ops[0].location)
    return trip_count


def _bound(cluster: Cluster) -> int | None:
    """The upper bound of a cluster's trip count, if only a bound is known. Otherwise returns None."""
    if any(m.record.trip_count is not None for m in cluster.members):
        return None
    return next((m.record.bound for m in cluster.members if m.record.bound is not None), None)


def _trip_count_source(fusion: Fusion, cluster: Cluster, read: Sequence[Value]) -> Cluster | None:
    """A cluster whose trip count has only a bound, and from whose sequences the sequences `read` are computed.

    Such a cluster has the trip count of `cluster`. Returns None if there is none.
    """
    unread, seen = list(read), set(read)
    while unread:
        x = unread.pop()
        source = _source(fusion, x)
        if source is not None:
            if source is not cluster and _bound(source) is not None:
                return source
        elif x in fusion.defining_op and x not in fusion.places:
            operands = fusion.defining_op[x].operands
            unread += [y for y in operands if y not in seen]
            seen.update(operands)
    return None
