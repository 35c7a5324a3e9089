"""resolve: looks up symbols across graphs, modules and files.

    module A: graph @F0 { p3 = exp(...) }        view.value(@F0::@p3)  ->  the result of exp, in A
    module B: graph @L1 { e = external @F0::@p3; t = mul e, dx }

`resolve` returns a view, which finds the values of graphs by name. The view does not copy graphs. It reads a graph when
a reference to the graph is first followed. A name that no module defines is looked up in the file `NAME.mlir` on the
search path.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from torch_mlir import ir

from tiduc.dialect.errors import ResolveError
from tiduc.dialect.graph.graph import operations
from tiduc.dialect.graph.view import View
from tiduc.dialect.mlir.context import read, stage
from tiduc.dialect.ops.ir_types import AnyModule


@stage
def resolve(*modules: AnyModule, search_path: Sequence[str | Path] = ()) -> View:
    """Returns a view of the graphs in these modules. Compiler stages add new graphs to the first module.

    Raises `ResolveError` for a symbol defined twice, or an input whose type differs between graphs. A reference is
    checked only when it is followed. To check all references, call `check`.
    """
    view = View(modules[0], _search(search_path) if search_path else None)
    binds = []
    for module in modules:
        for op in operations(module.body):
            if op.name == "tidu.graph":
                view.add(op, module)
            elif op.name == "tidu.bind":
                binds.append(op)
    for op in binds:
        view.set_binding(
            op.attributes["input"].value, view.value(op.attributes["value"], op.location), op.location
        )
    return view


@stage
def check(view: View) -> None:
    """Follows all references of all graphs, including `tidu.input_of` and `tidu.output_of` of linear graphs.

    Raises `ResolveError` for the first reference that is unknown, has the wrong type, or is part of a cycle.
    """
    for name in list(view.graphs):
        graph = view.graph(name)
        if graph.linear:
            tangents = [*graph.inputs.values(), *graph.outputs]
            for primal, tangent in zip([*graph.input_of, *graph.output_of], tangents, strict=True):
                if tangent is not None and tangent.type != primal.type:
                    message = f"a tangent of type {tangent.type} in @{name} for {view.reference(primal)}"
                    raise ResolveError(f"{message}, a {primal.type}", graph.location)
    view.schedule([y for graph in view.graphs.values() for d in graph.definitions for y in d.results])


def _search(paths: Sequence[str | Path]) -> Callable[[str], Any | None]:
    loaded: dict[Path, Any] = {}

    def search(name: str) -> Any | None:
        graphs_found = []
        for path in (Path(p) / f"{name}.mlir" for p in paths):
            if path not in loaded:
                loaded[path] = read(path) if path.is_file() else None
            if loaded[path] is not None:
                graphs = (op for op in operations(loaded[path].body) if op.name == "tidu.graph")
                graphs_found += [
                    (path, op, loaded[path])
                    for op in graphs
                    if ir.StringAttr(op.attributes["sym_name"]).value == name
                ]
        if len(graphs_found) > 1:
            raise ResolveError(
                f"symbol @{name} is ambiguous: in {' and in '.join(str(p) for p, _, _ in graphs_found)}"
            )
        return graphs_found[0][1:] if graphs_found else None

    return search
