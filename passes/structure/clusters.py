"""Chooses the control-flow ops to fuse: ops of one call site, loops that run in lockstep, branches with one index."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import chain
from operator import attrgetter, or_
from typing import Any

from torch_mlir import ir

from tiduc.dialect.control.control import Branches, Loop, calls_function, control, draws, is_control
from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.errors import Unsupported
from tiduc.dialect.graph.cache import Cache
from tiduc.dialect.graph.graph import Definition, Graph, Value
from tiduc.dialect.graph.value_numbers import ValueNumbers
from tiduc.dialect.graph.view import View
from tiduc.dialect.ops.control_ops import element_type
from tiduc.passes.engine.close import private_builder
from tiduc.passes.rules.registry import OpSet


@dataclass(frozen=True, eq=False)
class Member:
    """All ops of one call site. They become one op.

    `records` maps each op to its record, a `Branches` or a `Loop`. `used` maps the index of a result to its readers.
    A reader is an op, or None for an output of the graph.
    """

    records: dict[Definition, Any]
    used: dict[int, list[Definition | None]]

    @property
    def record(self) -> Any:
        """The record of the op with the most results."""
        return max(self.records.values(), key=attrgetter("width"))


MemberResult = tuple[Member, int]
"""A result of a member: the member, and the index of the result. A result of a loop is a carry or a sequence."""


@dataclass(frozen=True, eq=False)
class Cluster:
    """Members that are fused into one op.

    `is_separated` says whether they depend on the values `separated` that were passed to `fuse`.
    """

    number: int
    is_separated: bool
    members: list[Member]

    @property
    def leader(self) -> Any:
        """The record of the first member, which says what kind of op the cluster becomes."""
        return self.members[0].record

    @property
    def ops(self) -> list[Definition]:
        """The ops that the cluster replaces."""
        return [op for member in self.members for op in member.records]

    def is_used(self, at: MemberResult) -> bool:
        """Whether `at` is a result of this cluster that an op or an output of the graph reads."""
        return at[0] in self.members and at[1] in at[0].used


@dataclass(frozen=True)
class Fusion:
    """The ops of a graph, in order, and the clusters: groups of control-flow ops that are fused into one op.

    A member of a cluster is all ops of one call site. `places` maps each result of control flow to its member and to
    its index among the member's results.
    """

    order: Sequence[Definition]
    clusters: Sequence[Cluster]
    places: Mapping[Value, MemberResult]

    @cached_property
    def cluster_of(self) -> dict[Member, Cluster]:
        """Maps each member to its cluster."""
        return {member: cluster for cluster in self.clusters for member in cluster.members}

    @cached_property
    def member_of(self) -> dict[Definition | None, Member]:
        """Maps each op of a member to the member."""
        return {op: member for member in self.cluster_of for op in member.records}

    @cached_property
    def defining_op(self) -> dict[Value, Definition]:
        """Maps each result to the op that defines it."""
        return {y: op for op in self.order for y in op.results}

    def is_result_of(self, x: Value, cluster: Cluster) -> bool:
        """Whether a value is a result of one of the cluster's ops."""
        return x in self.places and self.cluster_of[self.places[x][0]] is cluster

    def nodes(self) -> list[Cluster | Definition]:
        """The clusters, and the ops that are in no cluster, in topological order."""
        cluster_of = {op: self.cluster_of[member] for op, member in self.member_of.items()}
        placed: dict[Any, None] = {}
        begun: set[Any] = set()
        for first in self.order:
            if first not in cluster_of:  # its operands have been placed before it
                placed[first] = None
                continue
            stack: list[Any] = [cluster_of[first]]
            while stack:
                node = stack[-1]
                if node in placed:
                    stack.pop()
                    continue
                ops = (node,) if isinstance(node, Definition) else node.ops
                defining = [self.defining_op.get(x) for op in ops for x in op.reads]
                nodes = [cluster_of.get(op, op) for op in defining if op is not None]
                before = [n for n in nodes if n not in placed and n is not node]
                if before and node not in begun:
                    begun.add(node)
                    stack += before
                else:
                    stack.pop()
                    placed[node] = None
        return list(placed)


def fuse(
    view: View,
    opset: OpSet,
    order: Sequence[Definition],
    outputs: Sequence[Value],
    separated: Collection[Value],
) -> Fusion:
    """Groups the control-flow ops among `order` into clusters, each of which is fused into one op.

    Ops that depend on the values `separated` are not fused with ops that do not.
    """
    members, places = _find_members(view, opset, order, outputs)
    return Fusion(order, _find_clusters(order, members, places, set(separated)), places)


# ---- the ops of each call site form a member -----------------------------------------------------------------


def _find_members(
    view: View, opset: OpSet, order: Sequence[Definition], outputs: Sequence[Value]
) -> tuple[list[Member], dict[Value, MemberResult]]:
    """Groups the ops of each call site into a member. Also maps each result to its member and index."""
    sites: dict[Any, list[Member]] = defaultdict(list)
    members: list[Member] = []
    places: dict[Value, MemberResult] = {}
    for op in order:
        record = None
        if is_control(op):
            record = control(view, op) if not calls_function(view, op) else None
        elif op.name == "stablehlo.add":
            record = _sum_of_sequences(view, opset, op, places)
        if record is not None:
            candidates = sites[_site_key(record)]
            member = next((m for m in candidates if _can_be_one_op(view, opset, m.record, record)), None)
            if member is None:
                member = Member({}, defaultdict(list))
                candidates.append(member)
                members.append(member)
            member.records[op] = record
            for i, y in enumerate(op.results):
                j = record.results[i] if isinstance(record, Loop) else i
                if j >= 0:
                    places[y] = member, j
    results = places.keys()
    readers = ((op, op.reads) for op in order if not results.isdisjoint(op.reads))
    for reader, read in chain(readers, [(None, outputs)]):
        for x in read:
            if x in places:
                member, j = places[x]
                member.used[j].append(reader)
    return members, places


def _sum_of_sequences(
    view: View, opset: OpSet, op: Definition, places: Mapping[Value, MemberResult]
) -> Loop | None:
    """A loop that adds the elements of two sequences of dynamic length. Returns None if `op` adds other values.

    Such sums accumulate cotangents. If the loop is fused with the loops that compute the elements, no array of dynamic
    length is needed.
    """
    if any(x not in places for x in op.operands):
        return None
    x, y = op.operands
    member, i = places[x]
    if x.type.has_static_shape or not isinstance(member.record, Loop) or i < len(member.record.inits):
        return None
    body = _SUMS.get(view, x.type, lambda: _sum(private_builder(view, opset, "F"), element_type(x.type)))
    return Loop((), (x, y), (), body, None, member.record.reverse, None, body.name, (0, 1), (0,))


_SUMS = Cache[Any, Graph]()
"""Bodies of loops that add two sequences, by the type of the sequences."""


def _sum(b: StablehloBuilder, type_: ir.Type) -> Graph:
    terms = [b.input(f"{b.graph.name}.{j}", type_) for j in range(2)]
    return b.finish([b.add(*terms)])


def _site_key(record: Branches | Loop) -> tuple[int | Value | tuple[Value, ...] | None, ...]:
    """A hashable key. Two ops become one op only if their keys are equal and `_can_be_one_op` is true."""
    if isinstance(record, Loop):
        return len(record.inits), len(record.sequences), record.reverse, record.cond is None, record.operands
    return record.index, len(record.graphs), record.operands


def _graphs(record: Branches | Loop) -> tuple[Graph, ...]:
    if isinstance(record, Loop):
        return (record.body,) if record.cond is None else (record.body, record.cond)
    return record.graphs


def _can_be_one_op(view: View, opset: OpSet, first: Branches | Loop, second: Branches | Loop) -> bool:
    """Whether the results of one op are the first results of the other, so that one op can replace both.

    This holds for two ops whose graphs extend one base graph (`passes/rules/sites.py`) if one was linearized after the
    other. Ops that were linearized separately, with respect to different inputs, have different residuals. Raises
    `Unsupported` if such ops draw random numbers, because they would draw different numbers.
    """
    same = first.base == second.base
    for graphs in zip(_graphs(first), _graphs(second), strict=True):
        if graphs[0] is not graphs[1]:
            numbers = _VALUE_NUMBERS.get(
                view, same, lambda: ValueNumbers(opset.stateful, opset.commutative, same)
            )
            one, other = (numbers.of(view, graph) for graph in graphs)
            if any(x is not y for x, y in zip(one, other, strict=False)):
                if same and any(draws(view, graph) for graph in graphs):
                    message = (
                        "draws random numbers or has effects, and is linearized twice, for different inputs"
                    )
                    raise Unsupported(f"@{first.base} {message}", graphs[0].location)
                return False
    return True


_VALUE_NUMBERS = Cache[bool, ValueNumbers]()
"""The value numbers of a view's graphs. The key is the argument `copied` of `ValueNumbers`."""


# ---- the members are grouped into clusters -------------------------------------------------------------------


def _find_clusters(
    order: Sequence[Definition],
    members: Sequence[Member],
    places: Mapping[Value, MemberResult],
    separated: set[Value],
) -> list[Cluster]:
    """Adds each member to a cluster whose results it reads iteration by iteration, or to a new cluster.

    The member's other operands must not depend on the cluster. Extends the set `separated` by all values that depend on
    its values. In this function, a set of clusters is a bit mask of their numbers.
    """
    if all(is_call(member.record) for member in members):  # since each call is a cluster of its own
        return [Cluster(i, False, [member]) for i, member in enumerate(members)]
    member_of = {op: member for member in members for op in member.records}
    clusters: list[Cluster] = []
    cluster_of: dict[Member, Cluster] = {}
    depends_on: dict[Value, int] = {}  # the clusters on which each value depends
    below: dict[int, int] = defaultdict(int)  # by cluster number: the clusters on which its operands depend

    def fitting(record: Any, is_separated: bool) -> Cluster:
        is_loop = isinstance(record, Loop)
        operands = record.operands if is_loop else (*record.operands, record.index)
        fusible = [x for x in (record.sequences if is_loop else record.operands) if x in places]
        for cluster in dict.fromkeys(cluster_of[places[x][0]] for x in fusible):
            if cluster.is_separated == is_separated and _can_be_fused(cluster.leader, record):
                lockstep = {
                    x
                    for x in fusible
                    if cluster_of[places[x][0]] is cluster and not (is_loop and is_last_carry(places[x]))
                }
                read = reduce(or_, [depends_on.get(x, 0) for x in operands if x not in lockstep], 0)
                if not _with_dependencies(below, read) >> cluster.number & 1:
                    return cluster
        clusters.append(Cluster(len(clusters), is_separated, []))
        return clusters[-1]

    for op in order:
        read = op.reads
        mask = reduce(or_, [depends_on.get(x, 0) for x in read], 0)
        is_separated = bool(separated) and not separated.isdisjoint(read)
        if is_separated:
            separated.update(op.results)
        member = member_of.get(op)
        if member is not None:
            if member not in cluster_of:
                cluster_of[member] = fitting(member.record, is_separated)
                cluster_of[member].members.append(member)
            number = cluster_of[member].number
            below[number] |= mask & ~(1 << number)
            mask = 1 << number
        if mask:
            depends_on.update((y, mask) for y in op.results)
    return clusters


def _with_dependencies(below: Mapping[int, int], read: int) -> int:
    """The clusters in `read`, and all clusters on which they depend. Both sets are bit masks."""
    mask, left = 0, read
    while left:
        number = left.bit_length() - 1
        mask |= 1 << number
        left = (left | below[number]) & ~mask
    return mask


def is_last_carry(at: MemberResult) -> bool:
    """Whether a result of a loop is the final value of a carry (loop-carried value), not a sequence."""
    member, i = at
    return i < len(member.record.inits)


def is_call(record: Branches | Loop) -> bool:
    """Whether the record is a call: neither a loop nor a choice between branches."""
    return not isinstance(record, Loop) and record.index is None


def _can_be_fused(leader: Branches | Loop, record: Branches | Loop) -> bool:
    if isinstance(record, Loop):
        return isinstance(leader, Loop) and leader.reverse == record.reverse
    if record.index is None or not isinstance(leader, Branches) or leader.index is not record.index:
        return False
    return len(leader.graphs) == len(record.graphs)
