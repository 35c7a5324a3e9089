"""Which control flow ops are fused: ops of one call site, loops that run in lockstep, branches of one index."""

from collections import defaultdict
from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import Any

from tiduc.dialect.cache import Cache
from tiduc.dialect.control import Branches, Loop, control, draws, is_control, is_kept
from tiduc.dialect.control_ops import element_type
from tiduc.dialect.errors import Unsupported
from tiduc.dialect.graph import Definition, Graph, Value
from tiduc.dialect.keys import KeyTable
from tiduc.dialect.view import View
from tiduc.passes.rules.registry import OpSet
from tiduc.passes.structure.scope import Cluster, Member, Scope


class ValueNumbers:
    """Numbers the values of graphs by the first equal value in any graph, given equal inputs.

    Results of stateful ops are equal only if `copied` is set and both ops are copies of one op.
    """

    def __init__(self, opset: OpSet, copied: bool) -> None:
        self._copied, self._stateful = copied, opset.stateful
        self._table = KeyTable(opset.stateful, opset.commutative)
        self._copies: dict[Any, Definition] = {}
        self._outputs: dict[Graph, list[Value]] = {}

    def of(self, view: View, graph: Graph) -> list[Value]:
        """The numbers of a graph's outputs."""
        if graph not in self._outputs:
            first = {x: self._table.input(str(i), x) for i, x in enumerate(graph.inputs.values())}
            outputs = [y for y in graph.outputs if y is not None]
            for op in view.schedule(outputs, graph.inputs.values()):
                operands, captures = (tuple([first[x] for x in read]) for read in (op.operands, op.captures))
                if self._copied and op.name in self._stateful:  # copies share the attribute dictionary
                    results = self._copies.setdefault((op.name, id(op.given), operands), op).results
                else:
                    results = self._table.results(op, operands, captures)
                first.update(zip(op.results, results, strict=True))
            self._outputs[graph] = [first[y] for y in outputs]
        return self._outputs[graph]


_VALUE_NUMBERS = Cache[bool, ValueNumbers]()
"""By `copied`."""

_SUMS = Cache[Any, Graph]()
"""Bodies of loops that add two sequences, by the type of the sequences."""


def find_members(scope: Scope, outputs: Sequence[Value]) -> None:
    """Groups the ops of each call site into a member, and records which ops read its results."""
    sites: dict[Any, list[Member]] = defaultdict(list)
    for op in scope.order:
        record = None
        if is_control(op):
            record = control(scope.view, op) if not is_kept(scope.view, op) else None
        elif op.name == "stablehlo.add":
            record = _sum_of_sequences(scope, op)
        if record is not None:
            candidates = sites[_site_key(record)]
            member = next((m for m in candidates if _can_be_one_op(scope, m.record, record)), None)
            if member is None:
                member = Member(record)
                candidates.append(member)
            elif record.width > member.record.width:
                member.record = record
            member.ops.append(op)
            scope.member_of[op], scope.record_of[op] = member, record
            for i, y in enumerate(op.results):
                j = record.results[i] if isinstance(record, Loop) else i
                if j >= 0:
                    scope.sequence[y] = member, j
    for op in scope.order:
        read = (*op.operands, *op.captures) if op.captures else op.operands
        if not scope.sequence.keys().isdisjoint(read):
            for member, j in (scope.sequence[x] for x in read if x in scope.sequence):
                member.used[j].append(op)
    for y in outputs:
        if y in scope.sequence:
            member, j = scope.sequence[y]
            member.used[j].append(None)


def _sum_of_sequences(scope: Scope, op: Definition) -> Loop | None:
    """The sum of two sequences of dynamic length, as a loop that adds their elements; None for other sums.

    Accumulated cotangents are such sums. As a loop, the sum can be fused, and needs no stack of unknown length.
    """
    if any(x not in scope.sequence for x in op.operands):
        return None
    x, y = op.operands
    member, i = scope.sequence[x]
    if x.type.has_static_shape or not isinstance(member.record, Loop) or i < len(member.record.inits):
        return None
    body = _SUMS.get(scope.view, x.type, lambda: _sum(scope.builder(), element_type(x.type)))
    return Loop((), (x, y), (), body, None, member.record.reverse, None, body.name, (0, 1), (0,))


def _sum(b: Any, type_: Any) -> Graph:
    terms = [b.input(f"{b.graph.name}.{j}", type_) for j in range(2)]
    return b.finish([b.add(*terms)])  # type: ignore[no-any-return]


def _site_key(record: Any) -> Any:
    """A hashable key; ops with equal keys may be at one call site, if their graphs `_can_be_one_op`."""
    if isinstance(record, Loop):
        return len(record.inits), len(record.sequences), record.reverse, record.cond is None, record.operands
    return record.index, len(record.graphs), record.operands


def _graphs(record: Any) -> tuple[Graph, ...]:
    if isinstance(record, Loop):
        return (record.body,) if record.cond is None else (record.body, record.cond)
    return record.graphs  # type: ignore[no-any-return]


def _can_be_one_op(scope: Scope, first: Any, second: Any) -> bool:
    """Whether the results of one op are the first results of the other, so that one op can replace both.

    For ops of the same base (`passes/rules/sites.py`) this holds if one was linearized after the other. It does not
    hold if the two were linearized separately, in different inputs: then each has its own residuals. `Unsupported`
    if two such ops draw random numbers, since each would draw its own.
    """
    same = first.base == second.base
    for graphs in zip(_graphs(first), _graphs(second), strict=True):
        if graphs[0] is not graphs[1]:
            numbers = _VALUE_NUMBERS.get(scope.view, same, lambda: ValueNumbers(scope.opset, same))
            one, other = (numbers.of(scope.view, graph) for graph in graphs)
            if any(x is not y for x, y in zip(one, other, strict=False)):
                if same and any(draws(scope.view, graph) for graph in graphs):
                    message = (
                        "draws random numbers, or has effects, and is linearized twice, in different inputs"
                    )
                    raise Unsupported(f"@{first.base} {message}", graphs[0].location)
                return False
    return True


def find_clusters(scope: Scope) -> None:
    """Adds each member to a cluster whose results it reads iteration by iteration, or else to a new cluster.

    The member's other operands must not depend on that cluster.
    """
    members = list(dict.fromkeys(scope.member_of.values()))
    if all(is_call(member.record) for member in members):  # each by itself
        scope.cluster_of = {member: Cluster(i, [member]) for i, member in enumerate(members)}
        return
    depends_on: dict[Value, int] = {}
    clusters: list[Cluster] = []
    for op in scope.order:
        read = (*op.operands, *op.captures)
        mask = reduce(or_, [depends_on.get(x, 0) for x in read], 0)
        is_separated = bool(scope.separated) and not scope.separated.isdisjoint(read)
        if is_separated:
            scope.separated.update(op.results)
        member = scope.member_of.get(op)
        if member is not None:
            cluster = scope.cluster_of.get(member) or _cluster(
                scope, member, depends_on, clusters, is_separated
            )
            scope.cluster_of[member] = cluster
            bit = 1 << cluster.number
            cluster.depends_on |= mask & ~bit
            mask = bit
        if mask:
            depends_on.update((y, mask) for y in op.results)


def is_call(record: Any) -> bool:
    """Whether the record is a call: neither a loop nor a choice between branches."""
    return not isinstance(record, Loop) and record.index is None


def _cluster(
    scope: Scope, member: Member, depends_on: dict[Value, int], clusters: list[Cluster], is_separated: bool
) -> Cluster:
    record = member.record
    operands = record.operands if isinstance(record, Loop) else (*record.operands, record.index)
    producers: dict[Cluster, None] = {}
    for x in record.sequences if isinstance(record, Loop) else record.operands:
        if x in scope.sequence:
            producers[scope.cluster_of[scope.sequence[x][0]]] = None
    for cluster in producers:
        if cluster.is_separated == is_separated and _can_be_fused(cluster.leader, record):
            others = [x for x in operands if x is not None and not _is_in_lockstep(scope, x, cluster, record)]
            read = reduce(or_, [depends_on.get(x, 0) for x in others], 0)
            if not _with_dependencies(clusters, read) >> cluster.number & 1:
                cluster.members.append(member)
                return cluster
    clusters.append(Cluster(len(clusters), [member], is_separated=is_separated))
    return clusters[-1]


def _with_dependencies(clusters: Sequence[Cluster], read: int) -> int:
    """The clusters in the bit mask `read` and all clusters that they depend on, as a bit mask."""
    mask, left = 0, read
    while left:
        number = left.bit_length() - 1
        mask |= 1 << number
        left = (left | clusters[number].depends_on) & ~mask
    return mask


def _is_in_lockstep(scope: Scope, x: Value, cluster: Cluster, record: Any) -> bool:
    """Whether the cluster itself gives the operand: in the same iteration, or in the same branch."""
    if x not in scope.sequence or (isinstance(record, Loop) and x not in record.sequences):
        return False
    member, i = scope.sequence[x]
    if scope.cluster_of.get(member) is not cluster:
        return False
    return not isinstance(record, Loop) or i >= len(member.record.inits)


def _can_be_fused(leader: Any, record: Any) -> bool:
    if isinstance(record, Loop):
        return isinstance(leader, Loop) and leader.reverse == record.reverse
    if record.index is None or not isinstance(leader, Branches) or leader.index is not record.index:
        return False
    return len(leader.graphs) == len(record.graphs)


def in_order(scope: Scope) -> list[Any]:
    """The ops and clusters in topological order."""
    cluster_of = {op: scope.cluster_of[member] for op, member in scope.member_of.items()}
    placed: dict[Any, None] = {}
    begun: set[Any] = set()
    for first in scope.order:
        if first not in cluster_of:  # its operands have been placed before it
            placed[first] = None
            continue
        stack: list[Any] = [cluster_of[first]]
        while stack:
            node = stack[-1]
            if node in placed:
                stack.pop()
                continue
            ops = (node,) if isinstance(node, Definition) else [op for m in node.members for op in m.ops]
            defining = [scope.defining_op.get(x) for op in ops for x in op.operands + op.captures]
            nodes = [cluster_of.get(op, op) for op in defining if op is not None]
            before = [n for n in nodes if n not in placed and n is not node]
            if before and node not in begun:
                begun.add(node)
                stack += before
            else:
                stack.pop()
                placed[node] = None
    return list(placed)
