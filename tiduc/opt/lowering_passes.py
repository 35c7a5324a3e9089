"""Defines the passes that lower flat graphs to functions, with their names, descriptions and options."""

from torch_mlir import ir

from tiduc.dialect.control.control import called
from tiduc.dialect.errors import RequestError
from tiduc.dialect.graph.functions import functions_in
from tiduc.dialect.graph.graph import Graph, operations
from tiduc.dialect.graph.write import write_graph
from tiduc.dialect.ops.ir_types import AnyModule
from tiduc.opt.textual import Option, Pass, adds_to
from tiduc.passes.contract import contract
from tiduc.passes.lower.lower import lower
from tiduc.passes.lower.simplify import simplify
from tiduc.passes.rematerialize.rematerialize import rematerialize
from tiduc.passes.resolve import resolve
from tiduc.passes.rules import OPSET
from tiduc.passes.rules.registry import OpSet
from tiduc.passes.structure.structure import structure
from tiduc.passes.widen import widen

PASSES: dict[str, Pass] = {}
"""Maps names to passes. The decorator `_pass` adds each entry."""

_LOOP_MEMORY = Option(
    "loop-memory",
    "string",
    "how the reverse pass of a loop gets its residuals, unless the loop says so itself: stack, sqrt, log or auto",
)
_MEMORY = Option(
    "memory",
    "string",
    "the memory budget of a graph: a size such as 100MB, a share such as 0.3x, or min; default: no limit",
)


_pass = adds_to(PASSES)


@_pass("tidu-structure", _LOOP_MEMORY)
def structure_in_place(module: AnyModule, loop_memory: str = "auto", opset: OpSet = OPSET) -> None:
    """Lowers loops, branches and calls of flat graphs to StableHLO control flow, and fuses loops that
    run in lockstep."""
    view = resolve(module)
    kept: set[str] = set()
    for graph in [view.graph(name) for name in list(view.graphs)]:
        if not graph.private:
            _check_flat(graph)
            structured = structure(view, graph, opset, loop_memory)
            view.write()
            if structured is not graph:
                old = graph.op
                write_graph(structured, module)
                old.erase()
            kept |= {other.name for other in called(view, structured)}
    for other in view.graphs.values():
        if other.private and other.name not in kept:
            other.op.erase()


@_pass("tidu-rematerialize", _MEMORY)
def rematerialize_in_place(module: AnyModule, memory: str = "", opset: OpSet = OPSET) -> None:
    """Lowers the peak memory of flat graphs: reorders ops, recomputes cheap values, and recomputes other values if
    a memory budget requires it."""
    view = resolve(module)
    for graph in [view.graph(name) for name in list(view.graphs)]:
        if not graph.private:
            _check_flat(graph)
            fitted = rematerialize(view, graph, opset, memory)
            if fitted is not graph:
                write_graph(fitted, module)
                graph.op.erase()


@_pass("tidu-lower", _LOOP_MEMORY)
def lower_in_place(module: AnyModule, loop_memory: str = "auto", opset: OpSet = OPSET) -> None:
    """Lowers each flat graph to a simplified function of plain StableHLO. Lowers control flow first if
    tidu-structure has not run."""
    bind = next((op for op in operations(module.body) if op.name == "tidu.bind"), None)
    if bind is not None:
        raise RequestError("cannot lower a binding: run tidu-materialize-merge first", bind.location)
    view = resolve(module)
    graphs = [view.graph(name) for name in list(view.graphs)]
    named = functions_in(module)  # composites may refer to these functions
    names = {op.attributes["sym_name"] for op in named}
    for graph in graphs:
        if not graph.private:
            _check_flat(graph)
            flat = structure(view, graph, opset, loop_memory)
            lowered = lower(
                flat, beside=named, view=view
            )  # the variable keeps the module alive; an op in the module does not
            for function in list(operations(lowered.body)):
                if function.attributes["sym_name"] not in names:
                    function.move_before(graph.op)
    for graph in graphs:
        graph.op.erase()


@_pass("tidu-simplify")
def simplify_in_place(module: AnyModule) -> None:
    """Simplifies all functions by patterns that the passes of MLIR and StableHLO lack."""
    for op in operations(module.body):
        if op.name == "func.func" and len(op.regions[0].blocks):
            simplify(op)


_pass("tidu-contract")(contract)
_pass("tidu-widen")(widen)


def _check_flat(graph: Graph) -> None:
    """Raises `RequestError`, located at the reference, if the graph refers to a value of another graph."""
    for op in operations(graph.op.regions[0].blocks[0]):
        if op.name == "tidu.external":
            owner = ir.SymbolRefAttr(op.attributes["ref"]).value[0]
            message = f"graph @{graph.name} refers to a value of @{owner}: run tidu-materialize-merge first"
            raise RequestError(message, op.location)
