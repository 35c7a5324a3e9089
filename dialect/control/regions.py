"""Converts a region of an op to a graph that captures nothing.

Captured values become further inputs of the graph. Captured constants are copied into the graph.
"""

from typing import Any

from torch_mlir import ir

from tiduc.dialect.graph.check_control import check_control
from tiduc.dialect.graph.graph import Definition, Graph, Value, captured, definition_of, operations
from tiduc.dialect.graph.view import View
from tiduc.dialect.ops.control_ops import GRAPH_CALLS
from tiduc.dialect.ops.ir_types import IrValue
from tiduc.dialect.ops.verify import TERMINATOR


def outer(op: Definition) -> list[Value]:
    """The values that an op's regions capture, except constants.

    A result of any op without operands and regions, such as an iota, counts as a constant.
    """
    return [x for x in op.captures if not x.is_constant]


def region_graph(view: View, op: Definition, index: int, prefix: str) -> Graph:
    """Converts region number `index` of an op to a private graph whose name begins with `prefix`.

    The inputs of the graph are the region's arguments, then the values `outer(op)`. Captured constants are copied into
    the graph. The caller must add the graph to the view.
    """
    graph = Graph(view.fresh(prefix), op.location)
    graph.attributes["sym_visibility"] = ir.StringAttr.get("private")
    graph.held = (view,)
    block = op.regions[index].blocks[0]
    values: dict[Any, Value] = {}

    def take(inside: IrValue) -> None:
        key = f"{graph.name}.{len(graph.inputs)}"
        values[inside] = graph.inputs[key] = Value(inside.type, graph, key=key)

    for argument in block.arguments:
        take(argument)
    for inside, outside in zip(captured(op.source), op.captures, strict=True):
        if outside.is_constant:
            values[inside] = _brought_in(graph, outside)
        else:
            take(inside)
    for inner in operations(block):
        operands = [values[x] for x in inner.operands]
        if inner.name == TERMINATOR:
            graph.outputs = list(operands)
            break
        definition = definition_of(inner, graph)
        definition.operands = tuple(operands)
        if len(inner.regions):
            definition.captures = tuple([values[x] for x in captured(inner)])
        if definition.name in GRAPH_CALLS:
            check_control(view, definition)
        values.update(zip(inner.results, definition.results, strict=True))
        graph.definitions.append(definition)
    return graph


def _brought_in(graph: Graph, x: Value) -> Value:
    op = x.definition
    assert op is not None
    copy = Definition(op.name, (), graph, None, op.given, None, (), op.location)
    copy.results = tuple([Value(y.type, graph, copy) for y in op.results])
    graph.definitions.append(copy)
    return copy.results[op.results.index(x)]
