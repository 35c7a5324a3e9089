"""Lowers loops, branches and calls of graphs to StableHLO's `while`, `case` and `if`, and to function calls."""

from collections.abc import Iterable, Sequence
from typing import Any

from torch_mlir import ir

from tiduc.dialect.control.control import Branches, Loop, control, options
from tiduc.dialect.graph.graph import Definition, Graph, Value, stem
from tiduc.dialect.graph.view import View
from tiduc.dialect.graph.write import write_block, write_definitions
from tiduc.dialect.ops.control_ops import CALL, FUNCTION, NAMED_GRAPHS, SOLVER
from tiduc.dialect.ops.ir_types import IrValue
from tiduc.dialect.ops.verify import TERMINATOR


class ControlWriter:
    """Writes the control-flow ops of a view's graphs as MLIR operations.

    Each graph that a `tidu.call` names becomes a function at the end of the module. No new function gets a name that is
    in `taken`.
    """

    def __init__(self, view: View, module: ir.Module, taken: Iterable[str]) -> None:
        self._view = view
        self._module = module
        self._taken = set(taken)
        self._functions: dict[str, str] = {}
        self._unwritten: list[Graph] = []

    def create(self, op: Definition, operands: Sequence[IrValue], ip: ir.InsertionPoint) -> Any:
        """Lowers a `tidu.call`, `tidu.case` or `tidu.loop` to one `ir.Operation`, and returns this operation."""
        structure = control(self._view, op)
        types = [y.type for y in op.results]
        if isinstance(structure, Loop):
            return self._while(op, structure, operands, types, ip)
        if op.name == CALL:
            return self._call(op, structure, operands, ip)
        return self._case(op, structure, operands, types, ip)

    def write_functions(self) -> None:
        """Writes a function for each queued graph. This may queue further graphs; ends when the queue is empty."""
        while self._unwritten:
            graph = self._unwritten.pop()
            outputs = [y for y in graph.outputs if y is not None]
            type_ = ir.FunctionType.get([x.type for x in graph.inputs.values()], [y.type for y in outputs])
            own: dict[str, ir.Attribute] = {
                name: ir.FlatSymbolRefAttr.get(
                    self._function_of(self._view.graph(graph.attributes[name].value))
                )
                for name in NAMED_GRAPHS
                if name in graph.attributes
            }
            if SOLVER in graph.attributes:
                own[SOLVER] = graph.attributes[SOLVER]
            attributes = {
                **own,
                "sym_name": ir.StringAttr.get(self._functions[graph.name]),
                "function_type": ir.TypeAttr.get(type_),
                "sym_visibility": ir.StringAttr.get("private"),
            }
            end = ir.InsertionPoint(self._module.body)
            function = ir.Operation.create(
                "func.func", attributes=attributes, regions=1, loc=graph.location, ip=end
            )
            block, local = function.regions[0].blocks.append(), dict[Value, Any]()
            write_block(graph, block, local, masks=False, own=self.create)
            ir.Operation.create(
                "func.return", operands=[local[y] for y in outputs], ip=ir.InsertionPoint(block)
            )

    def _call(
        self, op: Definition, call: Branches, operands: Sequence[IrValue], ip: ir.InsertionPoint
    ) -> ir.Operation:
        (graph,) = call.graphs
        callee = ir.FlatSymbolRefAttr.get(self._function_of(graph))
        types = [y.type for y in op.results]
        return ir.Operation.create("func.call", types, operands, {"callee": callee}, loc=op.location, ip=ip)

    def _function_of(self, graph: Graph) -> str:
        """Returns the name of the function for a graph.

        If this is the first call for the graph, also queues the graph for `write_functions`.
        """
        if graph.name not in self._functions:
            kept = graph.attributes.get(FUNCTION)
            self._functions[graph.name] = self._free(kept.value if kept is not None else stem(graph))
            self._unwritten.append(graph)
        return self._functions[graph.name]

    def _free(self, name: str) -> str:
        free, copy = name, 0
        while free in self._taken:
            copy += 1
            free = f"{name}_{copy}"
        self._taken.add(free)
        return free

    def _case(
        self,
        op: Definition,
        branches: Branches,
        operands: Sequence[IrValue],
        types: Sequence[ir.RankedTensorType],
        ip: ir.InsertionPoint,
    ) -> ir.Operation:
        assert branches.index is not None
        is_if = branches.index.type.element_type == ir.IntegerType.get_signless(1)
        name = "stablehlo.if" if is_if else "stablehlo.case"
        case = ir.Operation.create(
            name, types, operands[:1], regions=len(branches.graphs), loc=op.location, ip=ip
        )
        for region, graph in zip(case.regions, branches.graphs, strict=True):
            self._region(region.blocks.append(), graph, operands[1:])
        return case

    def _while(
        self,
        op: Definition,
        structure: Loop,
        operands: Sequence[IrValue],
        types: Sequence[ir.RankedTensorType],
        ip: ir.InsertionPoint,
    ) -> ir.Operation:
        n = len(structure.inits)
        given = options(structure)
        loop = ir.Operation.create(
            "stablehlo.while", types, operands[:n], given, regions=2, loc=op.location, ip=ip
        )
        for region, graph in zip(loop.regions, (structure.cond, structure.body), strict=True):
            assert graph is not None
            block = region.blocks.append(*types, arg_locs=[op.location] * n)
            self._region(block, graph, [*block.arguments, *operands[n:]])
        return loop

    def _region(self, block: ir.Block, graph: Graph, arguments: Sequence[IrValue]) -> None:
        """Writes a graph's ops and a terminator into a block. `arguments` are the `ir.Value`s of the graph's inputs."""
        local = dict(zip(graph.inputs.values(), arguments, strict=True))
        ip = ir.InsertionPoint(block)
        write_definitions(graph, ip, local, masks=False, own=self.create)
        outputs = [local[y] for y in graph.outputs if y is not None]
        ir.Operation.create(TERMINATOR, operands=outputs, ip=ip)
