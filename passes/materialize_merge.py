"""materialize_merge: combines graphs into one flat graph, merges equal values, and drops dead ones.

    F0: p2 = mul a, x; p3 = exp p2        merge [p3, c2]:  p2 = mul a, x
    T0: c1 = mul @F0::@p3, ct                              p3 = exp p2
        c2 = mul @F0::@a, c1                               c1 = mul p3, ct
                                                           c2 = mul a, c1

The flat graph has only ops on which the wanted values depend, so a linear graph that only its transpose uses
disappears. If all ops belong to one graph, they keep its order, which `rematerialize` may have chosen. Values with
equal keys are merged (CSE), and ops are simplified by the op set's identities, such as `x * 1 = x`. An op is copied
only if it reads other values than before; other ops are shared with the graphs from which they come.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from torch_mlir import ir

from tiduc.dialect.graph.graph import Definition, Graph, Value
from tiduc.dialect.graph.keys import KeyTable
from tiduc.dialect.graph.view import BINDING, Reference, View
from tiduc.dialect.mlir.context import stage
from tiduc.dialect.ops.verify import MERGED
from tiduc.dialect.shapes.types import is_dynamic
from tiduc.passes.rules.registry import OpSet


@dataclass(frozen=True)
class Zero:
    """A wanted output of zeros. If its type has dynamic dimensions, `like` is a value with these dimensions."""

    type: Any
    like: Value | None = None


def explicit_zero(view: View, type_: ir.RankedTensorType, of: Value | Zero) -> Zero:
    """Returns a `Zero` of a type. If the type has dynamic dimensions, their sizes are those of the primal `of`."""
    return Zero(type_, of.like if isinstance(of, Zero) else of if is_dynamic(type_) else None)


@stage
def materialize_merge(
    view: View,
    wanted: Sequence[Value | Zero | Reference],
    inputs: Sequence[str],
    opset: OpSet,
    name: str = "main",
    keep_dead_inputs: bool = True,
) -> Graph:
    """Merges graphs into one flat graph whose outputs are the wanted values (or `Zero`s), in order.

    The first inputs are those with the keys `inputs`, in that order. Other required inputs follow in order of
    creation; those of a graph come after those of the graphs to which it refers. Without `keep_dead_inputs`, inputs on
    which no wanted value depends are omitted.
    """
    values = _with_sizes(view, opset, wanted)
    read = {x for x in values if not isinstance(x, Zero)}
    schedule = view.schedule((x for x in values if not isinstance(x, Zero)), inputs=read)
    b = opset.builder(View(ir.Module.create()), name)
    for key in _needed_inputs(view, schedule, read, inputs, keep_dead_inputs):
        b.graph.inputs[key] = view.input(key)
    keys = KeyTable(opset.stateful, opset.commutative)
    stands_for: dict[Value, Value] = {}  # maps replaced values to their replacements
    definitions, simplify = b.graph.definitions, opset.identities.get
    have_others, simpler = stands_for.keys(), False
    for op in _as_in_graph(schedule):
        operands, captures = op.operands, op.captures
        if not have_others.isdisjoint(operands):
            operands = tuple([stands_for.get(x, x) for x in operands])
        if captures:
            captures = tuple([stands_for.get(x, x) for x in captures])
        if op.name == BINDING:
            stands_for[op.result] = operands[0]
            continue
        taken = op
        if (rule := simplify(op.name)) is not None and (replacement := rule(op, operands)) is not None:
            simpler = True
            replacement = _simplest(replacement, opset, stands_for)
            if isinstance(replacement, Value):
                stands_for[op.result] = replacement
                continue
            taken, operands = replacement, replacement.operands
        results = keys.results(taken, operands, captures)
        if results is taken.results:  # this op is the first one with its key
            as_it_is = operands is taken.operands and not captures
            definitions.append(taken if as_it_is else taken.reading(operands, captures))
        if results is not op.results:
            stands_for.update(zip(op.results, results, strict=True))
    outputs = [b.zero(x.type) if isinstance(x, Zero) else stands_for.get(x, x) for x in values]
    if simpler:
        b.graph.definitions = live(definitions, outputs)
    b.graph.held += (view,)
    b.graph.attributes[MERGED] = ir.UnitAttr.get()
    return b.finish(outputs)


def _as_in_graph(schedule: list[Definition]) -> list[Definition]:
    """Returns the ops in the order of their graph if all belong to one graph and none is a binding, else `schedule`."""
    if not schedule:
        return schedule
    graph = schedule[0].graph
    if any(op.graph is not graph or op.name == BINDING for op in schedule):
        return schedule
    needed = set(schedule)
    return [op for op in graph.definitions if op in needed]


def _simplest(
    replacement: Value | Definition, opset: OpSet, stands_for: dict[Value, Value]
) -> Value | Definition:
    """Simplifies `replacement` until no identity applies.

    `replacement` is the value or op by which an identity replaces an op. Returns the simplified value or op.
    """
    while isinstance(replacement, Definition):
        replacement.operands = tuple([stands_for.get(x, x) for x in replacement.operands])
        rule = opset.identities.get(replacement.name)
        simpler = rule(replacement, replacement.operands) if rule is not None else None
        if simpler is None:
            return replacement
        replacement = simpler
    return stands_for.get(replacement, replacement)


def live(definitions: list[Definition], outputs: Sequence[Value]) -> list[Definition]:
    """Returns the ops on which the outputs depend, in the same order."""
    needed = set(outputs)
    kept = []
    for op in reversed(definitions):
        if not needed.isdisjoint(op.results):
            needed.update(op.operands, op.captures)
            kept.append(op)
    return kept[::-1]


def _with_sizes(view: View, opset: OpSet, wanted: Sequence[Value | Zero | Reference]) -> list[Value | Zero]:
    """Replaces references by their values, and each `Zero` of dynamic shape by zeros emitted in a new graph."""
    values = [x if isinstance(x, Zero) else view.values([x])[0] for x in wanted]
    if any(isinstance(x, Zero) and x.like is not None for x in values):
        b = opset.builder(view, view.fresh("Z"))
        values = [b.zeros_like(x.like) if isinstance(x, Zero) and x.like is not None else x for x in values]
        b.finish([])
    return values


def _needed_inputs(
    view: View,
    schedule: Sequence[Definition],
    read: Collection[Value],
    inputs: Sequence[str],
    keep_dead: bool,
) -> list[str]:
    """The keys of the merged graph's inputs, in the order of its signature."""
    needed = {key: x for key, x in view.inputs.items() if x.definition is None and x in read}
    listed = dict.fromkeys(key for key in inputs if keep_dead or key in needed)
    others = {key: x.graph for key, x in needed.items() if key not in listed}
    if len(set(others.values())) > 1:
        number = _order_of_graphs(view, schedule)
        return [*listed, *sorted(others, key=lambda key: number[others[key]])]
    return [*listed, *others]


def _order_of_graphs(view: View, schedule: Sequence[Definition]) -> dict[Graph, int]:
    """Numbers the graphs in the view's order, except that a graph comes after the graphs to which it refers."""
    referred: dict[Graph, dict[Graph, None]] = {}
    for op in schedule:
        referred.setdefault(op.graph, {}).update((x.graph, None) for x in op.reads)
    for graph in view.graphs.values():
        primals = (x.graph for x in (*graph.input_of, *graph.output_of) if x is not None)
        referred.setdefault(graph, {}).update(dict.fromkeys(primals))
    number: dict[Graph, int] = {}
    visited: set[Graph] = set()
    stack = list(view.graphs.values())[::-1]
    while stack:
        graph = stack[-1]
        waiting = [] if graph in visited else [x for x in referred.get(graph, ()) if x not in visited]
        visited.add(graph)
        if waiting:
            stack += waiting[::-1]
        else:
            number.setdefault(stack.pop(), len(number))
    return number
