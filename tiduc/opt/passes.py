"""The stages as MLIR passes, which textual pipelines can name: their names, descriptions and options.

    tidu-import, tidu-linearize, tidu-linear-transpose, tidu-materialize-merge, tidu-lower

In this order, without options, these passes produce the VJP of a module's function. In between, the module holds
graphs, on which native passes may run. `pipelines.py` names such sequences. Each pass changes a module in place, and
names its graphs and values by symbol.
"""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from torch_mlir import ir

from tiduc.dialect.control.control import called
from tiduc.dialect.errors import RequestError
from tiduc.dialect.graph.functions import functions_in
from tiduc.dialect.graph.graph import Graph, Value, operations
from tiduc.dialect.graph.view import Reference, View
from tiduc.dialect.graph.write import write_graph
from tiduc.dialect.ops.ir_types import AnyModule
from tiduc.opt.defaults import (
    argument_attributes,
    chosen_graph,
    differentiable_inputs,
    keys_of,
    last_linear,
    outputs_of,
    sources_of,
)
from tiduc.opt.textual import Option, Pass
from tiduc.passes.batch import batch
from tiduc.passes.importing.import_stablehlo import import_stablehlo
from tiduc.passes.infer_active import infer_active
from tiduc.passes.jet import jet_graph
from tiduc.passes.linear_transpose import linear_transpose
from tiduc.passes.linearize import linearize
from tiduc.passes.lower.lower import lower
from tiduc.passes.lower.simplify import simplify
from tiduc.passes.materialize_merge import materialize_merge
from tiduc.passes.rematerialize.rematerialize import rematerialize
from tiduc.passes.resolve import check, resolve
from tiduc.passes.rules import OPSET
from tiduc.passes.rules.registry import OpSet
from tiduc.passes.structure.structure import structure
from tiduc.passes.widen import widen

PASSES: dict[str, Pass] = {}
"""The passes, by name; `_pass` adds each of them."""

_GRAPHS = ("tidu.graph", "tidu.bind")
_GRAPH = "the graph, by symbol; default: @main, or the only graph that is not linear"
_NAME = "the symbol of the new graph; default: the first free one of {}0, {}1, ..."
_LOOP_MEMORY = Option(
    "loop-memory",
    "string",
    "how the reverse pass of a loop gets its residuals, unless the loop says so itself: stack, sqrt, log or auto",
)
_MEMORY = Option(
    "memory",
    "string",
    "how many bytes a graph may take: a size such as 100MB, a share such as 0.3x, or min; default: any",
)


def _pass(name: str, *options: Option) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Makes a function on modules a pass: its docstring begins with the description, keywords are the options."""

    def add(function: Callable[..., None]) -> Callable[..., None]:
        first = str(inspect.getdoc(function)).partition("\n\n")[0]
        PASSES[name] = Pass(name, " ".join(first.split()), function, options)
        return function

    return add


@_pass(
    "tidu-import",
    Option("inline", "bool", "inline every call; default: false"),
    Option(
        "relu", "bool", "treat every maximum with 0 as a relu, whose derivative at 0 is 0; default: false"
    ),
)
def import_in_place(
    module: AnyModule, inline: bool = False, relu: bool = False, opset: OpSet = OPSET
) -> None:
    """Converts each public function, and each private function called more than once, to a graph."""
    imported = import_stablehlo(module, opset=opset, inline=inline, relu=relu)
    for op in list(operations(module.body)):
        op.erase()
    for op in list(operations(imported.body)):
        module.body.append(op)


@_pass(
    "tidu-resolve",
    Option(
        "search-path", "names", "directories to search for NAME.mlir, for a graph @NAME that the module lacks"
    ),
)
def resolve_in_place(module: AnyModule, search_path: Sequence[str] = ()) -> None:
    """Checks all references between graphs: each names one value of the right type, and no value
    depends on itself. Copies the graphs that are found on the search path to the module.

    A pass gets no more than the module, so the passes that follow find these graphs there.
    """
    view = resolve(module, search_path=search_path)
    check(view)
    ip = ir.InsertionPoint(module.body)
    for graph in view.graphs.values():
        if graph.module is not module:
            graph.op.clone(ip)


@_pass(
    "tidu-linearize",
    Option("graph", "string", _GRAPH),
    Option(
        "outputs", "references", "the values to differentiate; default: the graph's differentiable outputs"
    ),
    Option("wrt", "names", "the inputs, by key; default: the graph's differentiable inputs"),
    Option("name", "string", _NAME.format("L", "L")),
)
def linearize_in_place(
    module: AnyModule,
    graph: str | None = None,
    outputs: Sequence[Value | Reference] | None = None,
    wrt: Sequence[str] | None = None,
    name: str | None = None,
    opset: OpSet = OPSET,
) -> None:
    """Adds the linear graph of a graph, which maps tangents of inputs to tangents of outputs (JVP).

    The tangent of a value `@y` gets the name `@y.tangent`.
    """
    view = resolve(module)
    if outputs is None or wrt is None:
        source = chosen_graph(view, graph)
        if outputs is None:
            outputs = [y for y in outputs_of(source) if opset.builder.tangent_type(y.type) is not None]
        if wrt is None:
            wrt = differentiable_inputs(source, opset)
    _name_outputs(view, linearize(view, outputs, wrt, opset, _free(view, name)), "tangent")
    view.write()


@_pass(
    "tidu-linear-transpose",
    Option("graph", "string", "the linear graph, by symbol; default: the last one"),
    Option("name", "string", _NAME.format("T", "T")),
)
def linear_transpose_in_place(
    module: AnyModule, graph: str | None = None, name: str | None = None, opset: OpSet = OPSET
) -> None:
    """Adds the transpose of a linear graph, which maps cotangents of outputs to cotangents of inputs (VJP).

    The cotangent of an input `@x` gets the name `@x.cotangent`.
    """
    view = resolve(module)
    source = view.graph(graph) if graph is not None else last_linear(view)
    if source is None:
        raise _no_linear_graph(module)
    _name_outputs(view, linear_transpose(view, source, opset, _free(view, name)), "cotangent")
    view.write()


@_pass("tidu-seed", Option("graph", "string", "the linear graph, by symbol; default: the last one"))
def seed_in_place(module: AnyModule, graph: str | None = None, opset: OpSet = OPSET) -> None:
    """Binds the input of a transposed graph, the cotangent of a real scalar output, to 1: the VJP
    becomes a gradient."""
    view = resolve(module)
    source = view.graph(graph) if graph is not None else last_linear(view)
    if source is None:
        raise _no_linear_graph(module)
    for key in keys_of(view, source):
        type_ = view.input(key).type
        if type_.rank or not isinstance(type_.element_type, ir.FloatType):
            raise RequestError(
                f"a gradient needs one real scalar output; the cotangent {key} is a {type_}", source.location
            )
        b: Any = opset.builder(view, view.fresh("S"))
        one = b.constant(1, type_)
        b.finish([one])
        view.bind(key, one)
    view.write()


@_pass(
    "tidu-batch",
    Option("size", "number", "the batch size"),
    Option("graph", "string", "the graph, by symbol; default: the last linear one, or @main"),
    Option("inputs", "names", "the batched inputs, by key; default: the graph's inputs"),
    Option("outputs", "references", "the values; default: the graph's outputs"),
    Option("name", "string", _NAME.format("B", "B")),
)
def batch_in_place(
    module: AnyModule,
    size: int | None = None,
    graph: str | None = None,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[Value | Reference] | None = None,
    name: str | None = None,
    opset: OpSet = OPSET,
) -> None:
    """Adds a batched version of a graph (vmap)."""
    if size is None:
        raise RequestError("tidu-batch needs the size of the batch", module.operation.location)
    view = resolve(module)
    source = last_linear(view) if graph is None else view.graph(graph)
    if source is None:
        source = chosen_graph(view, None)
    if outputs is None:
        outputs = outputs_of(source)
    batch(view, outputs, source.keys if inputs is None else inputs, size, opset, _free(view, name))
    view.write()


@_pass(
    "tidu-jet",
    Option("order", "number", "the highest order of the Taylor coefficients"),
    Option("graph", "string", _GRAPH),
    Option("outputs", "references", "the values to expand; default: the graph's outputs"),
    Option("wrt", "names", "the inputs, by key; default: the graph's differentiable inputs"),
    Option("name", "string", _NAME.format("J", "J")),
)
def jet_in_place(
    module: AnyModule,
    order: int | None = None,
    graph: str | None = None,
    outputs: Sequence[Value | Reference] | None = None,
    wrt: Sequence[str] | None = None,
    name: str | None = None,
    opset: OpSet = OPSET,
) -> None:
    """Adds the graph of a graph's Taylor coefficients up to an order, given those of its inputs (jet)."""
    if order is None:
        raise RequestError("tidu-jet needs the order of the coefficients", module.operation.location)
    view = resolve(module)
    if outputs is None or wrt is None:
        source = chosen_graph(view, graph)
        if outputs is None:
            outputs = outputs_of(source)
        if wrt is None:
            wrt = differentiable_inputs(source, opset)
    jet_graph(view, outputs, wrt, order, opset, _free(view, name))
    view.write()


@_pass("tidu-infer-active")
def infer_active_in_place(module: AnyModule) -> None:
    """Restores the active masks of linear graphs after native passes have dropped them."""
    for op in operations(module.body):
        if op.name == "tidu.graph":
            infer_active(op)


@_pass(
    "tidu-materialize-merge",
    Option("graph", "string", _GRAPH),
    Option(
        "values",
        "references",
        "the values to compute; default: the outputs of the primal graph and of the last linear graph, batch or jet",
    ),
    Option("inputs", "names", "the first inputs of the result, by key; default: those of these two graphs"),
    Option("name", "string", "the symbol of the result; default: that of the primal graph"),
    Option("keep-dead-inputs", "bool", "keep inputs that no value needs; default: true"),
    Option(
        "primal-outputs", "bool", "by default, compute the outputs of the primal graph, too; default: true"
    ),
)
def materialize_merge_in_place(
    module: AnyModule,
    graph: str | None = None,
    values: Sequence[Value | Reference] | None = None,
    inputs: Sequence[str] | None = None,
    name: str | None = None,
    keep_dead_inputs: bool = True,
    primal_outputs: bool = True,
    opset: OpSet = OPSET,
) -> None:
    """Replaces all graphs by one flat graph that holds each value once."""
    view = resolve(module)
    main, last = None, last_linear(view, derived=True)
    if values is None or inputs is None or name is None:
        main = chosen_graph(view, graph)
        sources = [main] if last is None else [main, last]
        if last is not None and main.name in sources_of(view, last):
            sources = [last]
        if values is None:
            computed = sources if primal_outputs else sources[-1:]
            values = [y for source in computed for y in source.outputs if y is not None]
        if inputs is None:
            inputs = [key for source in sources for key in keys_of(view, source)]
    flat = materialize_merge(view, values, inputs, opset, name or main.name, keep_dead_inputs)  # type: ignore[union-attr]
    flat.attributes["arg_attrs"] = argument_attributes(view, flat)
    merged = [op for op in operations(module.body) if op.name in _GRAPHS]
    write_graph(flat, module)
    kept = [other.op for other in called(view, flat)]
    for op in merged:
        if op not in kept:
            op.erase()


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
    """Orders the ops of flat graphs for a lower peak of memory, and recomputes values to fit a budget."""
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
    """Lowers each flat graph to a simplified function of plain StableHLO; lowers loops first if
    tidu-structure has not run."""
    bind = next((op for op in operations(module.body) if op.name == "tidu.bind"), None)
    if bind is not None:
        raise RequestError("cannot lower a binding: run tidu-materialize-merge first", bind.location)
    view = resolve(module)
    graphs = [view.graph(name) for name in list(view.graphs)]
    named = functions_in(module)  # functions that composites may name
    names = {op.attributes["sym_name"] for op in named}
    for graph in graphs:
        if not graph.private:
            _check_flat(graph)
            flat = structure(view, graph, opset, loop_memory)
            lowered = lower(flat, beside=named, view=view)  # held, since an op does not keep its module alive
            for function in list(operations(lowered.body)):
                if function.attributes["sym_name"] not in names:
                    function.move_before(graph.op)
    for graph in graphs:
        graph.op.erase()


@_pass("tidu-simplify")
def simplify_in_place(module: AnyModule) -> None:
    """Applies simplifications that MLIR's and StableHLO's passes lack."""
    for op in operations(module.body):
        if op.name == "func.func" and len(op.regions[0].blocks):
            simplify(op)


_pass("tidu-widen")(widen)


def _check_flat(graph: Graph) -> None:
    """Raises `RequestError`, with the location, if the graph refers to values of other graphs."""
    for op in operations(graph.op.regions[0].blocks[0]):
        if op.name == "tidu.external":
            owner = ir.SymbolRefAttr(op.attributes["ref"]).value[0]
            message = f"graph @{graph.name} refers to a value of @{owner}: run tidu-materialize-merge first"
            raise RequestError(message, op.location)


def _no_linear_graph(module: AnyModule) -> RequestError:
    """The error for a module on which `tidu-linearize` has not run, located at its first op."""
    first = next(iter(operations(module.body)), module.operation)
    why = "run tidu-import,tidu-linearize first" if first.name == "func.func" else "run tidu-linearize first"
    return RequestError(f"the module has no linear graph: {why}", first.location)


def _name_outputs(view: View, graph: Graph, kind: str) -> None:
    """Gives the active outputs of a linear graph names, so that passes can refer to these values."""
    for of, y in zip(graph.output_of, graph.outputs, strict=True):
        if y is not None and y.graph is graph and y.key is None:
            graph.name_of(y, f"{view.reference(of).value[-1]}.{kind}")


def _free(view: View, name: str | None) -> str | None:
    if name in view.graphs:
        raise RequestError(f"the module has a graph @{name} already")
    return name
