"""lower: a flat graph to a `func.func` of plain StableHLO.

    "tidu.graph"() ({ ^bb0(%x: T):                          func.func @main(%x: T) -> T {
      %t = stablehlo.multiply %a, %x {tidu.active = ...} ->   %0 = stablehlo.multiply %a, %x
      stablehlo.return %t }) {sym_name = "main"}                return %0 }

Active masks are dropped, after which ops that differed only in them are equal; then simplification runs until
nothing shrinks any more.
"""

from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import cycle
from typing import Any

from torch_mlir import ir
from torch_mlir.passmanager import PassManager

from tiduc.dialect.context import run_passes, stage
from tiduc.dialect.dynamic import BROADCAST, say_expanding
from tiduc.dialect.errors import RequestError
from tiduc.dialect.graph import Graph, Value, operations
from tiduc.dialect.verify import MERGED
from tiduc.dialect.view import View
from tiduc.dialect.write import write_block
from tiduc.dialect.write_control import ControlWriter
from tiduc.passes.manual_regions import holds_calls, manual_regions
from tiduc.passes.simplify import simplify

_MERGE_EQUAL = "cse"
_FOLD = "canonicalize{region-simplify=disabled}"
_STABLEHLO = "stablehlo-aggressive-simplification"


@stage
def lower(
    graph: Graph,
    attributes: dict[str, Any] | None = None,
    beside: Sequence[Any] = (),
    view: View | None = None,
) -> Any:
    """A new module with one public function of the graph's name; `graph` must refer to no value of another.

    `attributes` are those of the module. The graph's `arg_attrs` and `res_attrs`, where it has them, become the
    function's. Of the ops `beside` there are copies, but for private functions that nothing names any more. The
    graphs of structured control flow are those of `view`; those that are called become private functions.
    """
    module = ir.Module.create()
    for name, value in (attributes or {}).items():
        module.operation.attributes[name] = value
    taken = [graph.name, *(op.attributes["sym_name"].value for op in beside if "sym_name" in op.attributes)]
    writer = ControlWriter(view, module, taken) if view is not None else None
    function, held = _to_function(graph, module, writer)
    if writer is not None:
        writer.write_functions()
    graphs = (
        [graph, *(other for other in view.graphs.values() if other.private)] if view is not None else [graph]
    )
    steps = [_native(_MERGE_EQUAL), simplify, _native(_FOLD)]
    if not any(map(_is_misread, graphs)):
        steps.insert(0, _native(_STABLEHLO))  # what it makes anew, the next one merges
    bodies = [op.regions[0].blocks[0].operations for op in operations(module.body)]
    _until_settled(bodies, [partial(step, module.operation) for step in steps])
    _return_held(function, held)
    if any(definition.name == BROADCAST for definition in graph.definitions):
        say_expanding(function, list(graph.inputs.values()))
    for op in beside:
        op.clone(ir.InsertionPoint(module.body))
    if beside:
        run_passes(module.operation, "builtin.module(symbol-dce)")
    if holds_calls(graphs):
        manual_regions(function)
    return module


@cache  # to gather the patterns of all dialects anew takes a quarter of a millisecond
def _native(name: str) -> Callable[[Any], None]:
    """A native pass, over all functions of a module."""
    manager = PassManager.parse(f"builtin.module(func.func({name}))")
    manager.enable_verifier(False)
    return manager.run  # type: ignore[no-any-return]


def _until_settled(bodies: Sequence[Any], steps: Sequence[Callable[[], None]]) -> None:
    """Repeats the steps, each of which settles by itself, until all have run since a function last got smaller."""
    size, settled = sum(map(len, bodies)), 0
    for step in cycle(steps):
        step()
        before, size = size, sum(map(len, bodies))
        settled = settled + 1 if size == before else 1
        if settled == len(steps):
            return


def _to_function(graph: Graph, module: Any, writer: ControlWriter | None) -> tuple[Any, list[Any]]:
    """The function, returning nothing yet, and one op an output that holds it.

    MLIR's greedy driver looks at all operands of an op whenever one of them is replaced: were there a return of
    thousands of outputs, its time would be quadratic.
    """
    outputs = [y for y in graph.outputs if y is not None]
    type_ = ir.FunctionType.get([x.type for x in graph.inputs.values()], [y.type for y in outputs])
    attributes = {name: value for name, value in graph.attributes.items() if name != MERGED}
    attributes |= {"sym_name": ir.StringAttr.get(graph.name), "function_type": ir.TypeAttr.get(type_)}
    function = ir.Operation.create(
        "func.func", attributes=attributes, regions=1, loc=graph.location, ip=ir.InsertionPoint(module.body)
    )
    block = function.regions[0].blocks.append()
    local = _Local(graph)
    write_block(graph, block, local, masks=False, own=writer.create if writer is not None else None)
    ip, name = ir.InsertionPoint(block), {"sym_name": ir.StringAttr.get("output")}
    held = [ir.Operation.create("tidu.name", operands=[local[y]], attributes=name, ip=ip) for y in outputs]
    ir.Operation.create("func.return", ip=ip)
    return function, held


def _return_held(function: Any, held: list[Any]) -> None:
    block = function.regions[0].blocks[0]
    outputs = [op.operands[0] for op in held]
    block.operations[len(block.operations) - 1].operation.erase()
    ir.Operation.create("func.return", operands=outputs, ip=ir.InsertionPoint(block))
    for op in held:
        op.erase()


def _is_misread(graph: Graph) -> bool:
    """Somewhere in the graph is an op that StableHLO's simplification takes for another.

    A reduce over no dimensions, it takes for its operand, though the initial value is part of the result; of a
    quantized constant, it takes what is stored for the number itself. `test_lower.py` says when that is mended.
    """
    looked_at: set[int] = set()  # ops that rules emitted share the op that holds their regions
    for definition in graph.definitions:
        if definition.name == "stablehlo.constant":
            if definition.attributes["value"].type != definition.result.type:
                return True
        elif definition.source is None:
            continue
        elif definition.name == "stablehlo.reduce" and not len(definition.attributes["dimensions"]):
            return True
        elif id(definition.source) not in looked_at:
            looked_at.add(id(definition.source))
            blocks = [block for region in definition.regions for block in region.blocks]
            while blocks:
                for op in operations(blocks.pop()):
                    if op.name == "stablehlo.reduce" and not len(op.attributes["dimensions"]):
                        return True
                    blocks += [block for region in op.regions for block in region.blocks]
    return False


class _Local(dict[Value, Any]):
    """The `ir.Value`s of a flat graph."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self._graph = graph

    def __missing__(self, x: Value) -> Any:
        message = f"graph @{self._graph.name} refers to a value of @{x.graph.name}: run tidu-materialize-merge first"
        raise RequestError(message, self._graph.location)
