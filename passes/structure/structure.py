"""structure: control flow over graphs, made such that StableHLO has it: loops without sequences, each at one place.

    W:  x' = while x0                        one loop: carries x, and r of each iteration in a stack;
    P:  x', rs = loop x0          ->         one loop that runs backwards: reads the stack
    T:  ct = loop reversed ct0, rs

What stands at one site becomes one op, with the results that somebody reads and no others. A loop that runs along
with another, in the same direction, becomes part of it, and branches of one index become one: then what one reads of
the other needs no stack and no slot. What is left between loops that run in opposite directions is kept in stacks, or
computed again from checkpoints (`passes/structure/stacked.py`, `passes/structure/checkpointed.py`).
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from torch_mlir import ir

from tiduc.dialect.context import stage
from tiduc.dialect.control import (
    CALL,
    DERIVATIVES,
    KEPT,
    MEMORIES,
    Loop,
    branches,
    emit_call,
    emit_case,
    is_control,
)
from tiduc.dialect.errors import RequestError
from tiduc.dialect.graph import Definition, Graph, Value, stem
from tiduc.dialect.view import View
from tiduc.passes.materialize_merge import live
from tiduc.passes.rules.registry import OpSet
from tiduc.passes.structure.clusters import find_clusters, find_members, in_order, is_call
from tiduc.passes.structure.loops import emit_loops
from tiduc.passes.structure.plan import plan
from tiduc.passes.structure.scope import Cluster, Member, Scope


@stage
def structure(
    view: View, graph: Graph, opset: OpSet, memory: str = "auto", separated: Collection[str] = ()
) -> Graph:
    """The flat graph with loops of StableHLO's kind; itself where it has no control flow.

    `memory` says how loops that run backwards get what they read, where they do not: one of `MEMORIES`. No loop or
    branch does both what depends on the inputs with the keys `separated` and what does not.
    """
    if memory not in MEMORIES:
        raise RequestError(f"loop memory is one of {', '.join(MEMORIES)}, not {memory!r}")
    control = {op.name for op in graph.definitions if is_control(op)}
    if not control:
        return graph
    b = opset.builder(View(ir.Module.create()), graph.name)
    values = [graph.inputs[key] for key in separated]
    made = _rebuilt(view, graph, b, opset, memory, values, shares=control == {CALL})
    made.held += (view, graph)
    made.attributes = graph.attributes
    return made


def structured(view: View, graph: Graph, opset: OpSet, memory: str) -> Graph:
    """The same of a closed graph of the view, once each."""
    key = "structured", graph.name, memory
    found = view.derived.get(key)
    if found is None:
        found, named = graph, [name for name in DERIVATIVES if name in graph.attributes]
        if named or any(is_control(op) for op in graph.definitions):
            b = opset.builder(view, view.fresh(stem(graph)))
            b.graph.attributes["sym_visibility"] = ir.StringAttr.get("private")
            found = _rebuilt(view, graph, b, opset, memory)
        view.derived[key] = found
        if KEPT in graph.attributes:
            found.attributes |= graph.attributes
        for name in named:
            derivative = structured(view, view.graph(graph.attributes[name].value), opset, memory)
            found.attributes[name] = ir.FlatSymbolRefAttr.get(derivative.name)
    return found


class _Themselves(dict[Value, Value]):
    """What stands for the values of a graph of which only calls become others: mostly the values themselves."""

    def __missing__(self, x: Value) -> Value:
        return x


def _rebuilt(
    view: View,
    graph: Graph,
    b: Any,
    opset: OpSet,
    memory: str,
    separated: Collection[Value] = (),
    shares: bool = False,
) -> Graph:
    """The graph built anew; one that `shares` has the same values and ops, as far as they stay as they are."""
    local: dict[Value, Value] = _Themselves()
    if shares:
        b.graph.inputs = dict(graph.inputs)
    else:
        local = {x: b.input(key, x.type) for key, x in graph.inputs.items()}
    outputs = [y for y in graph.outputs if y is not None]
    order = live(graph.definitions, outputs)  # a merged op reads others than the first maker of its results
    scope = Scope(view, opset, memory, b, local, lambda graph: structured(view, graph, opset, memory), order)
    scope.separated.update(separated)
    find_members(scope, outputs)
    find_clusters(scope)
    for member in filter(lambda member: is_call(member.record), scope.cluster_of):
        scope.used_of_calls[member.record.graphs[0]].update(member.used)
    nodes = in_order(scope)
    scope.plans = plan(scope, [node for node in nodes if isinstance(node, Cluster)])
    for node in nodes:
        if isinstance(node, Cluster):
            b.location = node.members[0].ops[0].location
            (emit_loops if isinstance(node.leader, Loop) else _emit_branches)(scope, node)
        elif is_control(node):  # the call of a function that is kept
            b.location = node.location
            (called,) = branches(view, node).graphs
            results = emit_call(
                b, structured(view, called, opset, memory), tuple([local[x] for x in node.operands])
            )
            local.update(zip(node.results, results, strict=True))
        elif not shares:
            local.update(zip(node.results, b.copy(node, *_read(node, local)), strict=True))
        elif node.captures or not local.keys().isdisjoint(node.operands):
            b.graph.definitions.append(node.reading(*_read(node, local)))
        else:
            b.graph.definitions.append(node)
    return b.finish([local[y] for y in outputs])  # type: ignore[no-any-return]


def _read(op: Definition, local: Mapping[Value, Value]) -> tuple[tuple[Value, ...], tuple[Value, ...]]:
    """What stands for the operands and captures of an op."""
    return tuple([local[x] for x in op.operands]), tuple([local[x] for x in op.captures])


# ---- branches and calls --------------------------------------------------------------------------------------


def _emit_branches(scope: Scope, cluster: Cluster) -> None:
    """One call or case for a cluster, with the results that are read and the arguments that these need."""
    inside = {id(op) for member in cluster.members for op in member.ops}
    wanted = [
        (member, j)
        for member in cluster.members
        for j, users in sorted(member.used.items())
        if any(op is None or id(op) not in inside for op in users)
    ]
    if cluster.leader.index is None:  # the same results wherever the same graph is called
        wanted = [(cluster.members[0], j) for j in sorted(scope.used_of_calls[cluster.leader.graphs[0]])]
    arguments = list(
        dict.fromkeys(
            x for m in cluster.members for x in m.record.operands if not scope.is_made_by(x, cluster)
        )
    )
    graphs = [_branch(scope, cluster, i, wanted, arguments) for i in range(len(cluster.leader.graphs))]
    read = [i for i, _ in enumerate(arguments) if any(_reads(scope, graph, i) for graph in graphs)]
    graphs = [_narrowed(scope, graph, read) for graph in graphs]
    operands = [scope.local[arguments[i]] for i in read]
    index = cluster.leader.index
    made = (
        emit_call(scope.b, graphs[0], operands)
        if index is None
        else emit_case(scope.b, scope.local[index], graphs, operands)
    )
    scope.give_results(dict(zip(wanted, made, strict=True)))


def _branch(
    scope: Scope, cluster: Cluster, i: int, wanted: Sequence[tuple[Member, int]], arguments: Sequence[Value]
) -> Graph:
    """Branch i of all members, one after another."""
    places = [
        (
            m.record.graphs[i].name,
            *(arguments.index(x) if x in arguments else ~j for j, x in enumerate(m.record.operands)),
        )
        for m in cluster.members
    ]
    results = [(cluster.members.index(m), j) for m, j in wanted]
    key = "branch", tuple(places), tuple(results), scope.memory
    found = scope.view.derived.get(key)
    if found is None:
        b = scope.builder()
        inputs = {x: b.input(f"{b.graph.name}.{j}", x.type) for j, x in enumerate(arguments)}
        given: dict[tuple[Member, int], Value] = {}
        for member in cluster.members:
            own = [inputs[x] if x in inputs else given[scope.sequence[x]] for x in member.record.operands]
            outputs = scope.inlined(b, member.record.graphs[i], own)
            given.update(((member, j), y) for j, y in enumerate(outputs))
        name = stem(cluster.leader.graphs[i])
        found = scope.closed([given[at] for at in wanted], list(inputs.values()), name)
        scope.view.derived[key] = found
    return found


def _reads(scope: Scope, graph: Graph, i: int) -> bool:
    key = "read", graph.name
    if key not in scope.view.derived:
        read = {x for op in graph.definitions for x in (*op.operands, *op.captures)}
        scope.view.derived[key] = [x in read or x in graph.outputs for x in graph.inputs.values()]
    return scope.view.derived[key][i]  # type: ignore[no-any-return]


def _narrowed(scope: Scope, graph: Graph, read: Sequence[int]) -> Graph:
    """The graph without the inputs that no branch reads."""
    if len(read) == len(graph.inputs):
        return graph
    key = "narrowed", graph.name, tuple(read)
    if key not in scope.view.derived:
        inputs = list(graph.inputs.values())
        scope.view.derived[key] = scope.closed(graph.outputs, [inputs[i] for i in read], stem(graph))
    return scope.view.derived[key]  # type: ignore[no-any-return]
