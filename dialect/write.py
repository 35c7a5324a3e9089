"""Records to MLIR: a graph's definitions, as operations of a block."""

from collections.abc import Callable
from typing import Any

from torch_mlir import ir

from tiduc.dialect.graph import OWN, Graph, Value
from tiduc.dialect.verify import ACTIVE_OUTPUTS, INPUT_OF, OUTPUT_OF, TERMINATOR
from tiduc.dialect.view import View


def write_graph(view: View, graph: Graph, module: Any) -> None:
    """Writes the graph's `tidu.graph` at the end of a module; references become `tidu.external`s."""
    attributes = {
        **graph.attributes,
        "sym_name": ir.StringAttr.get(graph.name),
        "inputs": ir.ArrayAttr.get([ir.FlatSymbolRefAttr.get(key) for key in graph.inputs]),
    }
    if graph.linear:
        attributes[INPUT_OF] = ir.ArrayAttr.get([view.reference(x) for x in graph.input_of])
        attributes[OUTPUT_OF] = ir.ArrayAttr.get([view.reference(x) for x in graph.output_of])
        attributes[ACTIVE_OUTPUTS] = ir.DenseBoolArrayAttr.get([y is not None for y in graph.outputs])
    op = ir.Operation.create(
        "tidu.graph", attributes=attributes, regions=1, loc=graph.location, ip=ir.InsertionPoint(module.body)
    )
    graph.op, graph.module = op, module
    block = op.regions[0].blocks.append()
    local = _External(view, ir.InsertionPoint(block))
    write_block(graph, block, local, masks=not graph.private)
    outputs = [local[x] for x in graph.outputs if x is not None]
    ir.Operation.create(TERMINATOR, operands=outputs, ip=ir.InsertionPoint(block))
    for y in (y for definition in graph.definitions for y in definition.results):
        if y.graph is graph:
            y.mlir = local[y]


def write_block(
    graph: Graph,
    block: Any,
    local: dict[Value, Any],
    masks: bool = True,
    own: Callable[..., Any] | None = None,
) -> None:
    """Writes the graph's inputs and definitions into an empty block; `local` learns the `ir.Value` of each.

    `own` creates the ops of our dialect, (definition, operands, insertion point), where these are not to be left.
    """
    for x in graph.inputs.values():
        local[x] = block.add_argument(x.type, x.location)
    write_definitions(graph, ir.InsertionPoint(block), local, masks, own)


def write_definitions(
    graph: Graph, ip: Any, local: dict[Value, Any], masks: bool = True, own: Callable[..., Any] | None = None
) -> None:
    """Writes the graph's definitions at an insertion point."""
    written = local.__getitem__
    for definition in graph.definitions:
        operands = list(map(written, definition.operands))
        captures = list(map(written, definition.captures)) if definition.captures else ()
        if own is not None and definition.name in OWN:
            op = own(definition, operands, ip)
        else:
            op = definition.create(operands, captures, ip, masks)
        results = definition.results
        if len(results) == 1:
            local[results[0]] = op.result
        else:
            local.update(zip(results, op.results, strict=True))


class _External(dict[Value, Any]):
    """The `ir.Value` of each value in one graph; one of another graph gets a `tidu.external` when it is asked for."""

    def __init__(self, view: View, ip: Any) -> None:
        super().__init__()
        self._view = view
        self._ip = ip

    def __missing__(self, x: Value) -> Any:
        attributes = {"ref": self._view.reference(x)}
        op = ir.Operation.create("tidu.external", [x.type], (), attributes, loc=x.location, ip=self._ip)
        self[x] = op.result
        return op.result
