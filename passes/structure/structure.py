"""structure: lowers the loops, branches and calls of a graph to StableHLO's control flow.

    W:  x' = while x0                        one loop that returns x' and the stack of residuals
    P:  x', rs = loop x0          ->         one loop that runs backwards, and reads the stack
    T:  ct = loop reversed ct0, rs

W is a loop of the program, P the same loop with a sequence of residuals rs, and T the transposed loop, which reads rs.
A `tidu.loop` reads and returns *sequences*, one element per iteration; a `stablehlo.while` cannot. This stage removes
sequences. Ops of one call site become one op, which returns only the results that are read. Loops that run in lockstep
in one direction are fused, and so are branches with one index. Fused ops read each other's values directly. Between
loops that run in opposite directions, residuals are stored in stacks (`loops.py`), or recomputed from checkpoints
(`segmented.py`, `checkpointed.py`). `plan.py` chooses between these.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any

from torch_mlir import ir

from tiduc.dialect.control.control import Loop, branches, emit_call, emit_case, is_control
from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.errors import RequestError
from tiduc.dialect.graph.cache import Cache
from tiduc.dialect.graph.graph import Definition, Graph, Value, stem
from tiduc.dialect.graph.view import View
from tiduc.dialect.mlir.context import stage
from tiduc.dialect.ops.control_ops import CALL, FUNCTION, MEMORIES, NAMED_GRAPHS
from tiduc.passes.engine.close import private_builder
from tiduc.passes.materialize_merge import live
from tiduc.passes.rules.registry import OpSet
from tiduc.passes.structure.clusters import Cluster, MemberResult
from tiduc.passes.structure.loops import emit_loops
from tiduc.passes.structure.plan import plan
from tiduc.passes.structure.scope import Scope
from tiduc.passes.structure.while_loops import read_inputs

_STRUCTURED = Cache[tuple[Graph, str], Graph]()
"""Graphs with lowered control flow. The key is the original graph and the loop memory."""

_FUSED = Cache[tuple[tuple[Any, ...], tuple[tuple[int, int], ...], str], Graph]()
"""Fused branches. The key is the graph and the arguments of each fused op, the results, and the loop memory."""

_NARROWED = Cache[tuple[Graph, tuple[int, ...]], Graph]()
"""Graphs without some of their inputs. The key is the graph, and the indices of the inputs that are kept."""

_READ = Cache[Graph, set[Value]]()
"""The inputs that a graph reads."""


@stage
def structure(
    view: View,
    graph: Graph,
    opset: OpSet,
    memory: str = "auto",
    separated: Collection[str] = (),
    chosen: Mapping[int, str] = MappingProxyType({}),
) -> Graph:
    """Lowers the loops, branches and calls of a graph that reads no values of other graphs. Returns the new graph.

    A graph without control flow is returned unchanged.
    `memory`, one of `MEMORIES`, says how loops that run backwards get their residuals; an attribute of a loop takes
    precedence. `separated` are keys of inputs: ops that depend on them are not fused with ops that do not. `chosen` has
    the memory options of individual loops, by the numbers in `loop_choices`.
    """
    if memory not in MEMORIES:
        raise RequestError(f"loop memory is one of {', '.join(MEMORIES)}, not {memory!r}")
    control = {op.name for op in graph.definitions if is_control(op)}
    if not control:
        return graph
    b: Any = opset.builder(View(ir.Module.create()), graph.name)
    values = [graph.inputs[key] for key in separated]
    flat = _build(view, graph, b, opset, memory, values, chosen, reuses_ops=control == {CALL})
    flat.held += (view, graph)
    flat.attributes = graph.attributes
    return flat


def structured(view: View, graph: Graph, opset: OpSet, memory: str) -> Graph:
    """Lowers the control flow in a closed graph. Returns the new graph, which is cached in the view."""
    results = _STRUCTURED.of(view)
    result = results.get((graph, memory))
    if result is None:
        result, named = graph, [name for name in NAMED_GRAPHS if name in graph.attributes]
        if named or any(is_control(op) for op in graph.definitions):
            result = _build(view, graph, private_builder(view, opset, stem(graph)), opset, memory)
        # The result is cached before the graph's derivatives are lowered, because these may call the graph.
        results[graph, memory] = results[result, memory] = result
        if FUNCTION in graph.attributes:
            result.attributes |= graph.attributes
        for name in named:
            derivative = structured(view, view.graph(graph.attributes[name].value), opset, memory)
            result.attributes[name] = ir.FlatSymbolRefAttr.get(derivative.name)
    return result


class _Replacements(dict[Value, Value]):
    """Maps the values of a graph to their replacements; a value without a replacement maps to itself."""

    def __missing__(self, x: Value) -> Value:
        return x


def _build(
    view: View,
    graph: Graph,
    b: StablehloBuilder,
    opset: OpSet,
    memory: str,
    separated: Collection[Value] = (),
    chosen: Mapping[int, str] = MappingProxyType({}),
    reuses_ops: bool = False,
) -> Graph:
    """Builds the lowered graph. With `reuses_ops`, it keeps the inputs, and the ops whose operands do not change."""
    local: dict[Value, Value] = _Replacements()
    if reuses_ops:
        b.graph.inputs = dict(graph.inputs)
    else:
        local = {x: b.input(key, x.type) for key, x in graph.inputs.items()}
    outputs = [y for y in graph.outputs if y is not None]
    order = live(
        graph.definitions, outputs
    )  # not `y.definition`, because merging has given some ops other operands
    decided = plan(view, opset, order, outputs, memory, separated, chosen)

    def of_memory(memory: str) -> Callable[[Graph], Graph]:
        return lambda graph: structured(view, graph, opset, memory)

    scope = Scope(view, opset, memory, decided, b, local, of_memory(memory))
    for node in decided.nodes:
        if isinstance(node, Cluster):
            own, within = chosen.get(node.number), scope
            if own is not None:  # replaces the scope, because the option also applies to inner loops
                within = replace(scope, memory=own, structured=of_memory(own))
            b.location = node.ops[0].location
            (emit_loops if isinstance(node.leader, Loop) else _emit_branches)(within, node)
        elif is_control(node):  # a call outside of clusters: the called graph remains a function
            b.location = node.location
            (called,) = branches(view, node).graphs
            results = emit_call(b, scope.structured(called), tuple([local[x] for x in node.operands]))
            local.update(zip(node.results, results, strict=True))
        elif not reuses_ops:
            local.update(zip(node.results, b.copy(node, *_replaced(node, local)), strict=True))
        elif node.captures or not local.keys().isdisjoint(node.operands):
            b.graph.definitions.append(node.reading(*_replaced(node, local)))
        else:
            b.graph.definitions.append(node)
    return b.finish([local[y] for y in outputs])


def _replaced(op: Definition, local: Mapping[Value, Value]) -> tuple[tuple[Value, ...], tuple[Value, ...]]:
    """The values that replace the operands and captures of an op."""
    return tuple([local[x] for x in op.operands]), tuple([local[x] for x in op.captures])


# ---- these functions emit fused branches and calls -----------------------------------------------------------


def _emit_branches(scope: Scope, cluster: Cluster) -> None:
    """Emits one call or case for fused ops, with only the results that are read and the operands for these."""
    inside, index = set(cluster.ops), cluster.leader.index
    wanted = [
        (member, j)
        for member in cluster.members
        for j, users in sorted(member.used.items())
        if not inside.issuperset(users)
    ]
    if index is None:
        # A call returns every result that some call site needs, so that all call sites share one graph.
        wanted = [(cluster.members[0], j) for j in sorted(scope.plan.used_of_calls[cluster.leader.graphs[0]])]
    operands = dict.fromkeys(x for member in cluster.members for x in member.record.operands)
    arguments = [x for x in operands if not scope.plan.fusion.is_result_of(x, cluster)]
    graphs = [_branch(scope, cluster, i, wanted, arguments) for i in range(len(cluster.leader.graphs))]
    inputs = (
        (graph.inputs.values(), _READ.get(scope.view, graph, partial(read_inputs, graph))) for graph in graphs
    )
    read = sorted({i for own, reads in inputs for i, x in enumerate(own) if x in reads})
    graphs = [_narrowed(scope, graph, read) for graph in graphs]
    given = [scope.local[arguments[i]] for i in read]
    if index is None:
        results = emit_call(scope.b, graphs[0], given)
    else:
        results = emit_case(scope.b, scope.local[index], graphs, given)
    scope.set_results(dict(zip(wanted, results, strict=True)))


def _branch(
    scope: Scope, cluster: Cluster, i: int, wanted: Sequence[MemberResult], arguments: Sequence[Value]
) -> Graph:
    """A graph that runs branch i of all fused ops, one after another. For a single op, it may be the op's own graph."""
    first = cluster.members[0]
    graph = first.record.graphs[i]
    every = [(first, j) for j in range(len(graph.outputs))]
    if len(cluster.members) == 1 and every == list(wanted) and arguments == list(first.record.operands):
        return scope.structured(graph)

    def emit() -> Graph:
        b = scope.builder()
        inputs = {x: b.input(f"{b.graph.name}.{j}", x.type) for j, x in enumerate(arguments)}
        given: dict[MemberResult, Value] = {}
        for member in cluster.members:
            own = [
                inputs[x] if x in inputs else given[scope.plan.fusion.places[x]]
                for x in member.record.operands
            ]
            outputs = scope.inlined(b, member.record.graphs[i], own)
            given.update(((member, j), y) for j, y in enumerate(outputs))
        name = stem(cluster.leader.graphs[i])
        return scope.closed([given[at] for at in wanted], list(inputs.values()), name)

    number = {x: j for j, x in enumerate(arguments)}
    places = [
        (m.record.graphs[i], *(number.get(x, ~j) for j, x in enumerate(m.record.operands)))
        for m in cluster.members
    ]
    results = tuple([(cluster.members.index(m), j) for m, j in wanted])
    return _FUSED.get(scope.view, (tuple(places), results, scope.memory), emit)


def _narrowed(scope: Scope, graph: Graph, read: Sequence[int]) -> Graph:
    """The graph without the inputs that no branch reads. `read` has the indices of the inputs that are read."""
    if len(read) == len(graph.inputs):
        return graph
    inputs = list(graph.inputs.values())
    return _NARROWED.get(
        scope.view,
        (graph, tuple(read)),
        lambda: scope.closed(
            [y for y in graph.outputs if y is not None], [inputs[i] for i in read], stem(graph)
        ),
    )
