"""resolve: symbol-based lookup across graphs, modules and files.

    module A: graph @F0 { p3 = exp(...) }        view.value(@F0::@p3)  ->  the result of exp, in A
    module B: graph @L1 { e = external @F0::@p3; t = mul e, dx }

The view is logical: it copies nothing, and reads a graph when a reference first leads to it. A name that no module
at hand defines is looked for on the search path, in the file `NAME.mlir`.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from torch_mlir import ir

from tiduc.dialect.context import read, stage
from tiduc.dialect.errors import ResolveError
from tiduc.dialect.graph import Graph, operations
from tiduc.dialect.view import View


@stage
def resolve(*modules: Any, search_path: Sequence[str | Path] = ()) -> View:
    """The resolved view of the graphs in these modules; stages put new graphs into the first.

    `ResolveError` for a symbol defined twice, or an input whose type differs between graphs. What references lead to
    is checked when they are followed, or for all at once by `check`.
    """
    view = View(modules[0], _search(search_path) if search_path else None)
    binds = []
    for module in modules:
        for op in operations(module.body):
            if op.name == "tidu.graph":
                view.add(Graph(op, module))
            elif op.name == "tidu.bind":
                binds.append(op)
    for op in binds:
        view.bind(op.attributes["input"].value, view.value(op.attributes["value"], op.location))
    return view


@stage
def check(view: View) -> None:
    """Follows every reference of every graph, linear graphs' `tidu.input_of` and `tidu.output_of` included.

    `ResolveError` for the first that is unknown, of another type than it says, or part of a cycle.
    """
    for graph in list(view.graphs.values()):
        view.read(graph)
        for op in operations(graph.block):
            if op.name == "tidu.external":  # also one that is only named or returned
                view.follow(op.results[0])
        if graph.linear:
            types = [x.type for x in graph.inputs.values()]
            for ref, type_ in zip(graph.input_of, types, strict=True):
                _check_tangent(view, ref, type_, graph)
            for ref, value in zip(graph.output_of, graph.aligned_outputs, strict=True):
                _check_tangent(view, ref, value.type if value is not None else None, graph)
    view.schedule(list(view.definitions))


def _check_tangent(view: View, ref: Any, type_: Any, graph: Graph) -> None:
    value = view.value(ref, graph.op.location)
    if type_ is not None and value.type != type_:
        raise ResolveError(
            f"a tangent of type {type_} in @{graph.name} for {ref}, a {value.type}", graph.op.location
        )


def _search(paths: Sequence[str | Path]) -> Callable[[str], Any | None]:
    loaded: dict[Path, Any] = {}

    def search(name: str) -> Any | None:
        found = []
        for path in (Path(p) / f"{name}.mlir" for p in paths):
            if path not in loaded:
                loaded[path] = read(path) if path.is_file() else None
            if loaded[path] is not None:
                graphs = (op for op in operations(loaded[path].body) if op.name == "tidu.graph")
                found += [
                    (path, op, loaded[path])
                    for op in graphs
                    if ir.StringAttr(op.attributes["sym_name"]).value == name
                ]
        if len(found) > 1:
            raise ResolveError(
                f"symbol @{name} is ambiguous: in {' and in '.join(str(p) for p, _, _ in found)}"
            )
        return found[0][1:] if found else None

    return search
