"""Defines passes for textual pipelines that run the stages of tiduc, with their names, descriptions and options.

    tidu-import, tidu-linearize, tidu-linear-transpose, tidu-materialize-merge, tidu-lower

In this order, without options, these passes compute the VJP of a module's function. Between them, the module contains
graphs, on which native passes may run. `pipelines.py` defines names for such sequences. Each pass changes the module in
place. Options refer to graphs and values by symbols.
"""

from collections.abc import Sequence
from typing import Any

from torch_mlir import ir

from tiduc.dialect.control.control import called
from tiduc.dialect.errors import RequestError
from tiduc.dialect.graph.graph import Value, operations
from tiduc.dialect.graph.view import Reference
from tiduc.dialect.graph.write import write_graph
from tiduc.dialect.ops.ir_types import AnyModule
from tiduc.opt.defaults import (
    PLAN,
    argument_attributes,
    chosen_graph,
    differentiable_inputs,
    differentiable_outputs,
    free,
    keys_of,
    last_linear,
    name_outputs,
    no_linear_graph,
    outputs_of,
    plan_attribute,
    plan_of,
    sources_of,
)
from tiduc.opt.textual import Option, Pass, adds_to
from tiduc.passes.batch import batch
from tiduc.passes.chunk import AIM, LIMIT, chunk
from tiduc.passes.cut import cut
from tiduc.passes.importing.import_stablehlo import import_stablehlo
from tiduc.passes.infer_active import infer_active
from tiduc.passes.jet import jet_graph
from tiduc.passes.linear_transpose import linear_transpose
from tiduc.passes.linearize import linearize
from tiduc.passes.materialize_merge import materialize_merge
from tiduc.passes.resolve import check, resolve
from tiduc.passes.rules import OPSET
from tiduc.passes.rules.registry import OpSet

PASSES: dict[str, Pass] = {}
"""Maps names to passes. The decorator `_pass` adds each entry."""

_GRAPHS = ("tidu.graph", "tidu.bind")
_OUTPUTS = "the values to differentiate; default: the graph's differentiable outputs"
_WRT = "the inputs, by key; default: the graph's differentiable inputs"
_GRAPH = "the graph, by symbol; default: @main, or the only graph that is not linear"
_NAME = "the symbol of the new graph; default: the first free one of {}0, {}1, ..."
_pass = adds_to(PASSES)


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
    "tidu-chunk",
    Option(
        "limit", "number", f"the bytes of a product from which it is computed in chunks; default: {LIMIT}"
    ),
    Option("aim", "number", f"the bytes of a chunk; default: {AIM}"),
)
def chunk_in_place(module: AnyModule, limit: int = LIMIT, aim: int = AIM) -> None:
    """Replaces ops on large arrays by loops over chunks of these arrays, such as an attention's table of scores."""
    chunk(module, limit, aim)


@_pass(
    "tidu-resolve",
    Option(
        "search-path", "names", "directories to search for NAME.mlir, for a graph @NAME that the module lacks"
    ),
)
def resolve_in_place(module: AnyModule, search_path: Sequence[str] = ()) -> None:
    """Checks that each reference between graphs refers to one value of the right type, and that no value
    depends on itself. Copies graphs from the search path to the module if references need them.

    Later passes get only the module, so these graphs must be in the module.
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
    Option("outputs", "references", _OUTPUTS),
    Option("wrt", "names", _WRT),
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
    """Adds the linear graph of a graph. The linear graph maps tangents of inputs to tangents of outputs (JVP).

    The tangent of a value `@y` gets the name `@y.tangent`.
    """
    view = resolve(module)
    if outputs is None or wrt is None:
        source = chosen_graph(view, graph)
        if outputs is None:
            outputs = differentiable_outputs(source, opset)
        if wrt is None:
            wrt = differentiable_inputs(source, opset)
    name_outputs(view, linearize(view, outputs, wrt, opset, free(view, name)), "tangent")
    view.write()


@_pass(
    "tidu-linear-transpose",
    Option("graph", "string", "the linear graph, by symbol; default: the last one"),
    Option("wrt", "names", "the inputs whose cotangents to compute, by the key of the primal; default: all"),
    Option("outputs", "references", "the primal values whose cotangents are given; default: all outputs"),
    Option("name", "string", _NAME.format("T", "T")),
)
def linear_transpose_in_place(
    module: AnyModule,
    graph: str | None = None,
    wrt: Sequence[str] | None = None,
    outputs: Sequence[Value | Reference] | None = None,
    name: str | None = None,
    opset: OpSet = OPSET,
) -> None:
    """Adds the transpose of a linear graph. The transpose maps cotangents of outputs to cotangents of inputs (VJP).

    The cotangent of an input `@x` gets the name `@x.cotangent`.
    """
    view = resolve(module)
    source = view.graph(graph) if graph is not None else last_linear(view)
    if source is None:
        raise no_linear_graph(module)
    inputs = None if wrt is None else [view.input(key) for key in wrt]
    back = linear_transpose(view, source, opset, free(view, name), inputs, outputs)
    name_outputs(view, back, "cotangent")
    view.write()


@_pass(
    "tidu-cut",
    Option("graph", "string", _GRAPH),
    Option("outputs", "references", _OUTPUTS),
    Option("wrt", "names", _WRT),
    Option(
        "at",
        "references",
        "the values to cut at; default: values with the fewest elements through which all tangents pass",
    ),
)
def cut_in_place(
    module: AnyModule,
    graph: str | None = None,
    outputs: Sequence[Value | Reference] | None = None,
    wrt: Sequence[str] | None = None,
    at: Sequence[Value | Reference] | None = None,
    opset: OpSet = OPSET,
) -> None:
    """Adds the linear graph of a graph, and splits it at some values: adds a graph from tangents of inputs to
    tangents of these values, and a graph from tangents of these values to tangents of outputs. The attribute
    tidu.plan of the first of the two graphs has the estimated times to compute a Jacobian by the split, in forward
    mode, and in reverse mode."""
    view = resolve(module)
    if outputs is None or wrt is None:
        source = chosen_graph(view, graph)
        outputs = differentiable_outputs(source, opset) if outputs is None else outputs
        wrt = differentiable_inputs(source, opset) if wrt is None else wrt
    linear = linearize(view, outputs, wrt, opset)
    planned = plan_of(view, linear)
    values = view.values(planned.at if at is None else at)
    if not values:
        raise RequestError(
            f"no values of static shape separate {', '.join(wrt)} from the outputs", linear.location
        )
    parts = cut(view, linear, values, opset)
    parts[0].attributes[PLAN] = plan_attribute(view, planned, values)
    for part in parts:
        name_outputs(view, part, "tangent")
    view.write()


@_pass("tidu-seed", Option("graph", "string", "the linear graph, by symbol; default: the last one"))
def seed_in_place(module: AnyModule, graph: str | None = None, opset: OpSet = OPSET) -> None:
    """Binds the input of a transposed graph, which is the cotangent of a real scalar output, to 1. The VJP
    becomes a gradient."""
    view = resolve(module)
    source = view.graph(graph) if graph is not None else last_linear(view)
    if source is None:
        raise no_linear_graph(module)
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
    batch(view, outputs, source.keys if inputs is None else inputs, size, opset, free(view, name))
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
    """Adds a graph that maps Taylor coefficients of a graph's inputs to Taylor coefficients of its outputs (jet)."""
    if order is None:
        raise RequestError("tidu-jet needs the order of the coefficients", module.operation.location)
    view = resolve(module)
    if outputs is None or wrt is None:
        source = chosen_graph(view, graph)
        if outputs is None:
            outputs = outputs_of(source)
        if wrt is None:
            wrt = differentiable_inputs(source, opset)
    jet_graph(view, outputs, wrt, order, opset, free(view, name))
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
        "primal-outputs",
        "bool",
        "without values, compute the outputs of the primal graph, too; default: true",
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
    """Replaces all graphs by one flat graph that computes each value once."""
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
