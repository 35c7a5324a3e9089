"""lower: converts a flat graph (it reads no values of other graphs) to a `func.func` of plain StableHLO.

    "tidu.graph"() ({ ^bb0(%x: T):                          func.func @main(%x: T) -> T {
      %t = stablehlo.multiply %a, %x {tidu.active = ...} ->   %0 = stablehlo.multiply %a, %x
      stablehlo.return %t }) {sym_name = "main"}                return %0 }

Masks of active operands are dropped, so CSE merges ops that differed only in their masks. Simplification then runs
until the number of ops stays the same, and sorts with the same order are fused.
"""

from collections.abc import Callable, Sequence
from functools import cache
from itertools import cycle
from typing import Any

from torch_mlir import ir
from torch_mlir.passmanager import PassManager

from tiduc.dialect.control.write_control import ControlWriter
from tiduc.dialect.emitters.dynamic_shapes import BROADCAST, say_expanding
from tiduc.dialect.errors import RequestError
from tiduc.dialect.graph.functions import within
from tiduc.dialect.graph.graph import Definition, Graph, Value, operations
from tiduc.dialect.graph.view import View
from tiduc.dialect.graph.write import write_block
from tiduc.dialect.mlir.context import run_passes, stage, verify
from tiduc.dialect.ops.control_ops import CUSTOM_CALL, TARGET
from tiduc.dialect.ops.ir_types import AnyOp, IrOp
from tiduc.dialect.ops.verify import CHECKPOINT, MERGED
from tiduc.dialect.shapes.types import is_empty
from tiduc.passes.lower.manual_regions import holds_calls, manual_regions
from tiduc.passes.lower.simplify import simplify
from tiduc.passes.lower.sorts import SORT, join_sorts

_CONCATENATE = "stablehlo.concatenate"
_MERGE_EQUAL = "cse"
_FOLD = "canonicalize{region-simplify=disabled}"
_STABLEHLO = "stablehlo-aggressive-simplification"
_RESULTS = "res_attrs"
_TYPE = "function_type"
_HELD = 16
"""While a function is simplified, several ops take the place of its return. Each reads at most this many outputs."""


@stage
def lower(
    graph: Graph,
    attributes: dict[str, ir.Attribute] | None = None,
    beside: Sequence[IrOp] = (),
    view: View | None = None,
) -> Any:
    """Returns a new module with one public function, named like the graph.

    `graph` must read no values of other graphs. Its control flow may run graphs of `view`; those that are called become
    private functions. `attributes` are set on the module. The graph's `arg_attrs` and `res_attrs` become those of the
    function. The ops `beside` are copied into the module, except private functions without uses. Raises `InvalidIR` if
    the verifier rejects an op of the graph. The simplified module is verified later, when it is written or compiled.
    """
    module = ir.Module.create()
    for name, value in (attributes or {}).items():
        module.operation.attributes[name] = value
    taken = [graph.name, *(op.attributes["sym_name"].value for op in beside if "sym_name" in op.attributes)]
    writer = ControlWriter(view, module, taken) if view is not None else None
    function, held, described = _to_function(graph, module, writer)
    if writer is not None:
        writer.write_functions()
    source = view.graphs.get(graph.name, graph) if view is not None else graph
    functions = list(operations(module.body))
    for op in beside:  # before the verifier runs, because composites of the functions may name these ops
        op.clone(ir.InsertionPoint(module.body))
    for op in functions:
        verify(op, source.location)  # native passes may crash on invalid IR
    graphs = (
        [graph, *(other for other in view.graphs.values() if other.private)] if view is not None else [graph]
    )
    definitions = [definition for each in graphs for definition in each.definitions]
    names = {definition.name for definition in definitions}
    marked = {
        definition.name
        for definition in definitions
        if (definition.given or definition.source is not None) and CHECKPOINT in definition.attributes
    }
    for op in (op for each in functions if marked for op in within(each, marked)):
        if CHECKPOINT in op.attributes:
            del op.attributes[CHECKPOINT]
    special = [
        definition
        for definition in definitions
        if definition.source is not None or not definition.operands or definition.name == _CONCATENATE
    ]
    steps = [_native(_MERGE_EQUAL), simplify, _native(_FOLD)]
    if not _is_misread(special):
        steps.insert(0, _native(_STABLEHLO))  # this runs before CSE, which merges the ops that it creates
    for op in functions:
        _to_fixed_point(op, steps)
        if SORT in names:
            join_sorts(op)
    _return_held(function, held, described)
    if BROADCAST in names:
        say_expanding(function, list(graph.inputs.values()))
    if beside:
        run_passes(module.operation, "builtin.module(symbol-dce)")
    if holds_calls(names, special):
        manual_regions(function)
    return module


@cache  # collecting the patterns of all dialects takes 0.25 ms
def _native(name: str) -> Callable[[Any], None]:
    """Returns a function that runs a native pass on a `func.func`."""
    manager = PassManager.parse(f"func.func({name})")
    manager.enable_verifier(False)
    return manager.run


def _to_fixed_point(function: IrOp, steps: Sequence[Callable[[IrOp], None]]) -> None:
    """Repeats the steps until no step changes the number of ops. Each step runs to its own fixed point."""
    body = function.regions[0].blocks[0].operations
    size = unchanged = 0
    for step in cycle(steps):
        step(function)
        before, size = size, len(body)
        unchanged = unchanged + 1 if size == before else 1
        if unchanged == len(steps):
            return


def _to_function(
    graph: Graph, module: ir.Module, writer: ControlWriter | None
) -> tuple[ir.Operation, list[ir.Operation], dict[str, ir.ArrayAttr]]:
    """Writes a graph as a function that does not return its outputs yet. Instead, ops at its end read the outputs.

    Returns the function, these ops, and the attributes of the results. Each of these ops reads few outputs, because
    MLIR's greedy driver visits all operands of an op whenever one of them is replaced: for a single return of thousands
    of outputs, it would take quadratic time.
    """
    outputs = [y for y in graph.outputs if y is not None]
    inputs = [x.type for x in graph.inputs.values()]
    attributes = {name: value for name, value in graph.attributes.items() if name not in (MERGED, _RESULTS)}
    type_ = ir.TypeAttr.get(ir.FunctionType.get(inputs, []))
    attributes |= {"sym_name": ir.StringAttr.get(graph.name), _TYPE: type_}
    function = ir.Operation.create(
        "func.func", attributes=attributes, regions=1, loc=graph.location, ip=ir.InsertionPoint(module.body)
    )
    block = function.regions[0].blocks.append()
    local = _Local(graph)
    write_block(graph, block, local, masks=False, own=writer.create if writer is not None else None)
    returned, ip = [local[y] for y in outputs], ir.InsertionPoint(block)
    effect = {TARGET: ir.StringAttr.get("outputs"), "has_side_effect": ir.BoolAttr.get(True)}
    held = [
        ir.Operation.create(CUSTOM_CALL, (), returned[i : i + _HELD], effect, ip=ip)
        for i in range(0, len(returned), _HELD)
    ]
    described = {_RESULTS: graph.attributes[_RESULTS]} if _RESULTS in graph.attributes else {}
    return function, [*held, ir.Operation.create("func.return", ip=ip)], described


def _return_held(function: IrOp, held: list[ir.Operation], described: dict[str, ir.ArrayAttr]) -> None:
    """Replaces the ops `held`, which read the outputs, by a return. Sets the types and attributes of the results.

    Simplification may find the static sizes of a dynamic output; the result's type then has these sizes.
    """
    outputs = [x for op in held for x in op.operands]
    for name, value in described.items():
        function.attributes[name] = value
    inputs = ir.FunctionType(ir.TypeAttr(function.attributes[_TYPE]).value).inputs
    function.attributes[_TYPE] = ir.TypeAttr.get(ir.FunctionType.get(inputs, [x.type for x in outputs]))
    for op in held:
        op.erase()
    ir.Operation.create("func.return", operands=outputs, ip=ir.InsertionPoint(function.regions[0].blocks[0]))


def _is_misread(definitions: Sequence[Definition]) -> bool:
    """Whether StableHLO's simplification would miscompile one of these ops, or crash on it.

    `definitions` are all ops with regions or without operands, and all concatenations. The pass has these faults:
    - it replaces a reduce over no dimensions by its operand and drops the initial value;
    - it replaces a reduce of an empty operand by its initial value, without converting to the result's element type;
    - it reads the stored integer of a quantized constant as the number itself;
    - it crashes on a slice that begins where a concatenation ends, if the last operand is empty.

    `test_lower.py` fails once StableHLO has fixed these faults.
    """
    for definition in definitions:
        if definition.name == "stablehlo.constant":
            if definition.attributes["value"].type != definition.result.type:
                return True
        elif definition.name == _CONCATENATE:
            if any(is_empty(x) for x in definition.operands):
                return True
        elif definition.name == "stablehlo.reduce" and _is_misread_reduce(definition):
            return True
    # Ops that rules emitted share the op that holds their regions.
    sources = {id(op.source): op.source for op in definitions if op.source is not None}
    nested = ((op, source) for source in sources.values() for op in within(source, ("stablehlo.reduce",)))
    return any(op != source and _is_misread_reduce(op) for op, source in nested)


def _is_misread_reduce(op: AnyOp) -> bool:
    """Whether a reduce combines no dimension, or the element type of an empty operand differs from its result's."""
    return not len(op.attributes["dimensions"]) or any(
        is_empty(x) and x.type.element_type != y.type.element_type
        for x, y in zip(op.operands, op.results, strict=False)
    )


class _Local(dict[Value, Any]):
    """Maps the values of a flat graph to `ir.Value`s."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self._graph = graph

    def __missing__(self, x: Value) -> Any:
        message = f"graph @{self._graph.name} refers to a value of @{x.graph.name}: run tidu-materialize-merge first"
        raise RequestError(message, self._graph.location)
