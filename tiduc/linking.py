"""link: copies the graphs and functions of several files into one module.

    a.mlir: graph @F0 {...}                             graph @F0 {...}
            func private @relu {...}              ->    func private @relu {...}
    b.mlir: graph @L1 { external @F0::@p3 ... }         graph @L1 { external @F0::@p3 ... }
            func private @relu {...}                    func private @relu_0 {...}

Public symbols must be unique. A private function is renamed if its name is in use. A definition replaces declarations.
Equal Shardy meshes are merged. If no file defines a referenced graph or a declared function, it is looked up on the
search path.
"""

from collections.abc import Iterable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from torch_mlir import ir

from tiduc.dialect.errors import ResolveError
from tiduc.dialect.graph.functions import functions_in, symbol
from tiduc.dialect.graph.graph import operations
from tiduc.dialect.mlir.context import read, stage
from tiduc.dialect.ops.ir_types import IrOp
from tiduc.dialect.ops.shardy import MESH
from tiduc.passes.resolve import check, resolve


@stage
def link(
    modules: Sequence[tuple[str, ir.Module | IrOp]], search_path: Sequence[str | Path] = ()
) -> ir.Module:
    """A new module with the contents of `modules`, which are pairs of file name and module.

    The new module has the attributes of the first module. Raises `ResolveError`, with the file and the reference, for:

    - a symbol that two files define;
    - a reference that is unknown or has the wrong type;
    - a cycle of references.
    """
    linked = ir.Module.create(loc=modules[0][1].operation.location)
    for attribute in modules[0][1].operation.attributes:
        linked.operation.attributes[attribute] = modules[0][1].operation.attributes[attribute]
    modules = [*modules, *_searched([module for _, module in modules], search_path)]
    copies = [(file, module.operation.clone().operation) for file, module in modules]
    _make_distinct(copies)
    for _, copy in copies:
        for op in list(operations(copy.regions[0].blocks[0])):
            linked.body.append(op)
    _drop_declarations(linked)
    view = resolve(linked, search_path=search_path)
    check(view)
    for graph in view.graphs.values():
        if graph.module is not linked:
            graph.op.clone(ir.InsertionPoint(linked.body))
    return linked


def _searched(
    modules: Sequence[ir.Module | IrOp], search_path: Sequence[str | Path]
) -> list[tuple[str, Any]]:
    """For each declared function @NAME without a definition: the files NAME.mlir on the search path, with modules.

    Functions that these files declare are searched as well. A function without a file is skipped.
    """
    known: set[str] = set()
    declared: list[str] = []

    def look(module: ir.Module | IrOp) -> None:
        for function in functions_in(module):
            (declared.append if _is_declaration(function) else known.add)(symbol(function))

    for module in modules:
        look(module)
    files = []
    while declared:
        name = declared.pop()
        if name in known:
            continue
        known.add(name)
        for path in (Path(folder) / f"{name}.mlir" for folder in search_path):
            if path.is_file():
                files.append((str(path), read(path)))
                look(files[-1][1])
    return files


def _make_distinct(copies: Iterable[tuple[str, IrOp]]) -> None:
    """Renames private functions whose names are in use. Raises `ResolveError` if two public symbols have one name."""
    public: dict[str, tuple[str, Any]] = {}
    private: list[tuple[Any, Any]] = []
    for file, module in copies:
        for op in list(operations(module.regions[0].blocks[0])):
            name = symbol(op)
            if not name or _is_declaration(op):
                continue
            if _is_private(op):
                private.append((module, op))
            elif name not in public:
                public[name] = file, op
            elif op.name == MESH and str(op) == str(public[name][1]):
                op.erase()
            else:
                raise ResolveError(
                    f"symbol @{name} is ambiguous: in {public[name][0]} and in {file}", op.location
                )
    taken, names = set(public), set(public) | {symbol(op) for _, op in private}
    for module, op in private:
        name = symbol(op)
        if name in taken:
            # No other function may have the new name. Otherwise, a later renaming of that function would also rename
            # uses of this function.
            free = next(new for i in count() if (new := f"{name}_{i}") not in names)
            names.add(free)
            _rename(module, op, free)
        taken.add(name)


def _rename(module: ir.Operation, op: IrOp, name: str) -> None:
    # Renames uses only in functions, because the keys in graphs belong to another namespace.
    for user in operations(module.regions[0].blocks[0]):
        if user.name == "func.func":
            ir.SymbolTable.replace_all_symbol_uses(symbol(op), name, user)
    ir.SymbolTable.set_symbol_name(op, name)


def _drop_declarations(linked: ir.Module) -> None:
    """Erases declarations. Raises `ResolveError` if the function has no definition, or one of another type."""
    defined = {
        symbol(op): op for op in operations(linked.body) if op.name == "func.func" and not _is_declaration(op)
    }
    for op in list(operations(linked.body)):
        if not _is_declaration(op):
            continue
        definition = defined.get(symbol(op))
        if definition is None:
            raise ResolveError(
                f"unknown function @{symbol(op)}: it is declared here, but no file defines it", op.location
            )
        if definition.attributes["function_type"] != op.attributes["function_type"]:
            types = (ir.TypeAttr(f.attributes["function_type"]).value for f in (op, definition))
            raise ResolveError(
                "function @{} is declared with type {}, but defined with type {}".format(symbol(op), *types),
                op.location,
            )
        op.erase()


def _is_private(op: IrOp) -> bool:
    return (
        "sym_visibility" in op.attributes
        and ir.StringAttr(op.attributes["sym_visibility"]).value == "private"
    )


def _is_declaration(op: IrOp) -> bool:
    return bool(op.name == "func.func" and not len(op.regions[0].blocks))
