"""cut: splits a linear graph at values into two, either of which can be transposed or batched by itself.

    L0: dx = input            cut at h       C0: dx = input          C1: dh = input
        dh = mul a, dx           ->              dh = mul a, dx          dy = mul b, dh
        dy = mul b, dh

The composition of the two graphs, C1 C0, is the map of the whole graph. If a Jacobian depends on its inputs through few
numbers, it is the product of a Jacobian by forward mode and a Jacobian by reverse mode, each with few seeds. The chain
rule is then applied in another order (cross-country elimination). The coefficients of linear ops are referenced, not
copied.

Source: Griewank, Walther, "Evaluating Derivatives" (2008), chapter 10.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tiduc.dialect.errors import RequestError
from tiduc.dialect.graph.flow import UNLIMITED, minimum_cut
from tiduc.dialect.graph.graph import Definition, Graph, Value
from tiduc.dialect.graph.view import View
from tiduc.dialect.mlir.context import stage
from tiduc.passes.rules.registry import OpSet


@stage
def cut(view: View, linear: Graph, at: Sequence[Value], opset: OpSet) -> tuple[Graph, Graph]:
    """Splits a linear graph at the tangents of the primal values `at`, into two linear graphs.

    The first graph maps the inputs of `linear` to these tangents, and the second maps these tangents to the outputs.
    `at` are primal values, or references to them. The second graph has one input for each of them, in order. Raises
    `RequestError` if a value has no tangent in the graph, if two values share a tangent, or if an output depends on an
    input along a path without these values.
    """
    values, tangents = view.values(at), list[Value]()
    for x in values:
        if x not in linear.tangent_of:
            raise RequestError(f"cut at {view.reference(x)}, which has no tangent in graph @{linear.name}")
        if linear.tangent_of[x] in tangents:
            raise RequestError(f"cut at {view.reference(x)}, or at a value of equal tangent, twice")
        tangents.append(linear.tangent_of[x])
    inputs = list(linear.inputs.values())
    first = _part(view, linear, opset, dict(zip(inputs, linear.input_of, strict=True)), tangents, values)
    outputs, primals = linear.outputs, linear.output_of
    second = _part(view, linear, opset, dict(zip(tangents, values, strict=True)), outputs, primals)
    return first, second


def _part(
    view: View,
    linear: Graph,
    opset: OpSet,
    given: Mapping[Value, Value],
    wanted: Sequence[Value | None],
    primals: Sequence[Value],
) -> Graph:
    """The linear graph from some tangents of `linear`, which become its inputs, to other ones, with their primals."""
    b: Any = opset.builder(view, view.fresh("C"))
    local = {
        t: b.input(f"{b.graph.name}.{i}", t.type, linear=True) for i, t in enumerate(dict.fromkeys(given))
    }
    for op in active_ops(view, linear, [y for y in wanted if y is not None and y not in given], given):
        assert op.active is not None
        replaced = {}
        for i, (x, flag) in enumerate(zip(op.operands, op.active, strict=True)):
            if flag and x not in local:
                raise RequestError(f"graph @{linear.name} has a path around the values that it is cut at")
            if flag:
                replaced[i] = local[x]
        b.location = op.location
        local.update(zip(op.results, b.reapply(op, replaced), strict=True))
    outputs = [None if y is None else local.get(y) for y in wanted]
    if any(y is not None and z is None for y, z in zip(wanted, outputs, strict=True)):
        raise RequestError(f"graph @{linear.name} has a path around the values that it is cut at")
    graph: Graph = b.finish_linear(outputs, [given[t] for t in local if t in given], primals)
    return graph


def active_ops(
    view: View, linear: Graph, wanted: Sequence[Value], given: Mapping[Value, object] | Sequence[Value] = ()
) -> list[Definition]:
    """The linear ops of a graph that compute the wanted tangents from the given ones, in order."""
    order = view.schedule(wanted, given)
    return [op for op in order if op.graph is linear and op.active is not None]


def bottleneck(
    view: View, linear: Graph, capacity: Callable[[Value], int], wanted: Sequence[Value]
) -> list[Value]:
    """The primal values of least total capacity that separate a linear graph's inputs from the wanted tangents.

    `cut` splits the graph at these values. A tangent without a primal value, such as a partial sum, is never one of
    them.
    """
    primal = {t: x for x, t in linear.tangent_of.items()}
    before: dict[Value, list[Value]] = {t: [] for t in linear.inputs.values()}
    for op in active_ops(view, linear, wanted):
        assert op.active is not None
        reads = [x for x, flag in zip(op.operands, op.active, strict=True) if flag]
        before.update((y, list(dict.fromkeys(reads))) for y in op.results)
    tangents = minimum_cut(before, lambda t: capacity(t) if t in primal else UNLIMITED, wanted)
    return [primal[t] for t in tangents]
