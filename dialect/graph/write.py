"""Writes graphs as MLIR: each `Definition` becomes an operation of a block."""

from collections.abc import Callable, Hashable
from typing import Any

from torch_mlir import ir

from tiduc.dialect.graph.graph import Definition, Graph, Value
from tiduc.dialect.ops.control_ops import GRAPH_CALLS
from tiduc.dialect.ops.ir_types import AnyModule, IrOp, IrValue
from tiduc.dialect.ops.verify import ACTIVE_OUTPUTS, INPUT_OF, OUTPUT_OF, TERMINATOR

Own = Callable[[Definition, list[IrValue], ir.InsertionPoint], IrOp]
"""A function that creates the op to which a `tidu.call`, `tidu.case` or `tidu.loop` is lowered.

The arguments are the definition, the operands as `ir.Value`s, and the insertion point.
"""


def write_graph(graph: Graph, module: AnyModule) -> None:
    """Writes a graph as a `tidu.graph` at the end of a module.

    If an op of the graph reads a value of another graph, a `tidu.external` op refers to that value.
    """
    attributes = {
        **graph.attributes,
        "sym_name": ir.StringAttr.get(graph.name),
        "inputs": ir.ArrayAttr.get([ir.FlatSymbolRefAttr.get(key) for key in graph.inputs]),
    }
    if graph.linear:
        attributes[INPUT_OF] = ir.ArrayAttr.get([x.reference for x in graph.input_of])
        attributes[OUTPUT_OF] = ir.ArrayAttr.get([x.reference for x in graph.output_of])
        attributes[ACTIVE_OUTPUTS] = ir.DenseBoolArrayAttr.get([y is not None for y in graph.outputs])
    op = ir.Operation.create(
        "tidu.graph", attributes=attributes, regions=1, loc=graph.location, ip=ir.InsertionPoint(module.body)
    )
    graph.op, graph.module = op, module
    block = op.regions[0].blocks.append()
    local = _External(ir.InsertionPoint(block))
    write_block(graph, block, local, masks=not graph.private)
    outputs = [local[x] for x in graph.outputs if x is not None]
    ir.Operation.create(TERMINATOR, operands=outputs, ip=ir.InsertionPoint(block))
    for y in (y for definition in graph.definitions for y in definition.results):
        if y.graph is graph:
            y.mlir = local[y]


def write_block(
    graph: Graph,
    block: ir.Block,
    local: dict[Value, IrValue],
    masks: bool = True,
    own: Own | None = None,
) -> None:
    """Writes the graph's inputs and definitions into an empty block, and records their `ir.Value`s in `local`.

    If `masks` is true, ops get their active masks as attributes. `own` creates the ops that replace `tidu.call`,
    `tidu.case` and `tidu.loop`. Without `own`, these ops are written unchanged.
    """
    for x in graph.inputs.values():
        local[x] = block.add_argument(x.type, x.location)
    write_definitions(graph, ir.InsertionPoint(block), local, masks, own)


def write_definitions(
    graph: Graph,
    ip: ir.InsertionPoint,
    local: dict[Value, IrValue],
    masks: bool = True,
    own: Own | None = None,
) -> None:
    """Writes the graph's definitions at an insertion point. The other arguments are those of `write_block`."""
    written = local.__getitem__
    alike: dict[Hashable, Any] = {}
    for definition in graph.definitions:
        operands = list(map(written, definition.operands))
        if own is not None and definition.name in GRAPH_CALLS:
            op = own(definition, operands, ip)
        elif definition.source is None:
            op = definition.create(operands, (), ip, masks)
        elif definition.captures:
            op = definition.create(operands, list(map(written, definition.captures)), ip, masks)
        else:
            op = _repeated(definition, operands, ip, masks, alike)
        results = definition.results
        if len(results) == 1:
            local[results[0]] = op.result
        else:
            local.update(zip(results, op.results, strict=True))


def _repeated(
    definition: Definition,
    operands: list[IrValue],
    ip: ir.InsertionPoint,
    masks: bool,
    alike: dict[Hashable, IrOp],
) -> IrOp:
    """Writes an op with regions. If a written op differs only in operands and location, clones the written op.

    The reason is that building regions takes three times as long as cloning them.
    """
    role = definition.active if masks else None
    types = [y.type for y in definition.results]
    key = id(definition.source), id(definition.given), role, len(operands), *types
    if key not in alike:
        alike[key] = definition.create(operands, (), ip, masks)
        return alike[key]
    copy = alike[key].clone(ip)
    copy.location = definition.location
    mine = copy.operands
    for i, x in enumerate(operands):
        mine[i] = x
    return copy


class _External(dict[Value, Any]):
    """Maps values to `ir.Value`s. Looking up a value that is not in the map creates a `tidu.external` for the value."""

    def __init__(self, ip: ir.InsertionPoint) -> None:
        super().__init__()
        self._ip = ip

    def __missing__(self, x: Value) -> IrValue:
        attributes = {"ref": x.reference}
        op = ir.Operation.create("tidu.external", [x.type], (), attributes, loc=x.location, ip=self._ip)
        self[x] = op.result
        return op.result
