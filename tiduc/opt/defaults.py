"""Computes the default values of the options of passes, such as the graph to differentiate, its inputs and outputs."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from torch_mlir import ir

from tiduc.dialect.errors import RequestError
from tiduc.dialect.facts.costs import size
from tiduc.dialect.graph.graph import Graph, Value, operations
from tiduc.dialect.graph.view import View
from tiduc.dialect.ops.attributes import named_attributes
from tiduc.dialect.ops.ir_types import AnyModule
from tiduc.dialect.ops.verify import NAME
from tiduc.passes.batch import BATCH_OF, BATCHED
from tiduc.passes.cut import CutPlan, plan
from tiduc.passes.jet import JET_OF
from tiduc.passes.rules.registry import OpSet


def chosen_graph(view: View, name: str | None) -> Graph:
    """The graph named `name`. If `name` is None, the graph `main` or, if there is none, the only public primal graph.

    Raises `RequestError` if there is no such graph.
    """
    if name is not None:
        return view.graph(name)
    primal = [graph for graph in view.graphs.values() if not graph.linear and not graph.private]
    if "main" in view.graphs:
        return view.graph("main")
    if not view.graphs:
        raise RequestError("the module has no graph: run tidu-import first")
    if len(primal) != 1:
        names = ", ".join(f"@{graph.name}" for graph in primal)
        raise RequestError(f"expects a graph @main, or a single graph, but the graphs are {names or 'none'}")
    return view.graph(primal[0].name)


def last_linear(view: View, derived: bool = False) -> Graph | None:
    """The last linear graph, or with `derived`, the last graph that is linear, a batch or a jet.

    Returns None if there is no such graph.
    """
    of_kind = (
        graph.name
        for graph in reversed(view.graphs.values())
        if graph.linear or (derived and (BATCH_OF in graph.attributes or JET_OF in graph.attributes))
    )
    name = next(of_kind, None)
    return view.graph(name) if name is not None else None


def outputs_of(graph: Graph) -> list[Value]:
    """The active outputs of a graph, without duplicates."""
    return list(dict.fromkeys(y for y in graph.outputs if y is not None))


def differentiable_inputs(graph: Graph, opset: OpSet) -> list[str]:
    """The keys of those inputs of a graph whose types have tangents."""
    return [key for key, x in graph.inputs.items() if opset.builder.tangent_type(x.type) is not None]


def differentiable_outputs(graph: Graph, opset: OpSet) -> list[Value]:
    """The active outputs of a graph whose types have tangents, without duplicates."""
    return [y for y in outputs_of(graph) if opset.builder.tangent_type(y.type) is not None]


def _symbols(graph: Graph, name: str) -> list[str]:
    """The symbols in the attribute `name` of a graph. Returns an empty list if the graph lacks the attribute."""
    if name not in graph.attributes:
        return []
    try:
        return [ir.FlatSymbolRefAttr(symbol).value for symbol in ir.ArrayAttr(graph.attributes[name])]
    except ValueError:
        raise RequestError(
            f"expects symbols in {name}, has {graph.attributes[name]}", graph.location
        ) from None


def sources_of(view: View, graph: Graph) -> list[str]:
    """The names of the graphs from which a batch or a jet was derived, directly or through other batches and jets."""
    sources: list[str] = []
    left = _symbols(graph, BATCH_OF) + _symbols(graph, JET_OF)
    while left:
        name = left.pop()
        if name in view.graphs and name not in sources:
            sources.append(name)
            left += _symbols(view.graph(name), BATCH_OF) + _symbols(view.graph(name), JET_OF)
    return sources


def keys_of(view: View, graph: Graph) -> list[str]:
    """The keys of a graph's inputs that are not bound to a value.

    For a batch or a jet, the keys of the source graphs' inputs come first, in the order of those graphs.
    """
    keys = dict.fromkeys(graph.keys)
    batch_of: dict[str, str] = {}
    for name in [graph.name, *sources_of(view, graph)]:
        source = view.graph(name)
        keys = dict.fromkeys([*source.keys, *keys])
        batch_of |= zip(_symbols(source, BATCHED), source.keys, strict=False)
    keys_followed = dict.fromkeys(_followed(key, batch_of) for key in keys)
    return [key for key in keys_followed if view.input(key).definition is None]


def _followed(key: str, steps: Mapping[str, str], unless: Collection[str] = ()) -> str:
    """Follows the map `steps` from `key` on, and returns the last key.

    Stops before a key in `unless`. If the keys form a cycle, stops after as many steps as `steps` has entries.
    """
    for _ in steps:
        if key not in steps or steps[key] in unless:
            break
        key = steps[key]
    return key


def argument_attributes(view: View, flat: Graph) -> ir.ArrayAttr:
    """The attributes of a flat graph's arguments. They are copied from the graphs in `view`, which were merged.

    An input whose key is not the default, `argN`, also gets a name. A batched input gets the name of its source input,
    unless the flat graph has the source input, too.
    """
    source: dict[str, Any] = {}
    batch_of: dict[str, str] = {}
    for graph in view.graphs.values():
        batch_of |= zip(graph.keys, _symbols(graph, BATCHED), strict=False)
        if "arg_attrs" in graph.attributes:
            source |= zip(graph.keys, graph.attributes["arg_attrs"], strict=True)
    described = []
    for i, key in enumerate(flat.keys):
        attributes = named_attributes(source[key]) if key in source else {}
        key = _followed(key, batch_of, unless=flat.inputs)
        if key != f"arg{i}":
            attributes[NAME] = ir.StringAttr.get(key)
        described.append(ir.DictAttr.get(attributes))
    return ir.ArrayAttr.get(described)


def no_linear_graph(module: AnyModule) -> RequestError:
    """The error for a module on which `tidu-linearize` has not run. Its location is that of the module's first op."""
    first = next(iter(operations(module.body)), module.operation)
    why = "run tidu-import,tidu-linearize first" if first.name == "func.func" else "run tidu-linearize first"
    return RequestError(f"the module has no linear graph: {why}", first.location)


def name_outputs(view: View, graph: Graph, kind: str) -> None:
    """Gives each active output of a linear graph the name `NAME.kind`, where NAME is the name of the output's primal.

    Passes can then refer to the output by its name.
    """
    for of, y in zip(graph.output_of, graph.outputs, strict=True):
        if y is not None and y.graph is graph and y.key is None:
            graph.name_of(y, f"{view.reference(of).value[-1]}.{kind}")


def free(view: View, name: str | None) -> str | None:
    """Returns `name`. Raises `RequestError` if a graph already has this name."""
    if name in view.graphs:
        raise RequestError(f"the module has a graph @{name} already")
    return name


# ---- cuts ----------------------------------------------------------------------------------------------------------


PLAN = "tidu.plan"
"""The name of an attribute of the first graph of a cut.

It has the estimated times to compute a whole Jacobian by the cut, by forward mode, and by reverse mode.
"""


def plan_of(view: View, linear: Graph) -> CutPlan:
    """The plan for a cut of a linear graph, with one seed for each element of each input and output."""
    inputs = [(t, float(size(t))) for t in linear.inputs.values()]
    outputs = [(y, float(size(y))) for y in linear.outputs if y is not None]
    return plan(view, linear, inputs, outputs)


def plan_attribute(view: View, planned: CutPlan, at: Sequence[Value]) -> ir.Attribute:
    """The value of the attribute `PLAN` for a cut at the values `at`.

    The dictionary has the time by the cut only if these are the values that the plan chose.
    """
    real = ir.F64Type.get()
    entries: dict[str, ir.Attribute] = {
        "at": ir.ArrayAttr.get([view.reference(x) for x in at]),
        "cheapest": ir.StringAttr.get(planned.cheapest),
        "forward_seconds": ir.FloatAttr.get(real, planned.forward),
        "reverse_seconds": ir.FloatAttr.get(real, planned.reverse),
        "seeds": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), sum(map(size, at))),
    }
    if set(at) == set(planned.at):
        entries["cut_seconds"] = ir.FloatAttr.get(real, planned.through)
    return ir.DictAttr.get(entries)
