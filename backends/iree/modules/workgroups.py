"""Adds definitions to IREE's executables for functions of tiduc that these only declare. Each computes a workgroup.

If a program has such functions, its module must declare at least one of them. Otherwise the compilation fails, because
the program cannot run without these functions.
"""

from collections.abc import Mapping

from iree.compiler import ir

from tiduc.backends.iree.modules.invariants import require
from tiduc.backends.iree.modules.ops import blocks, operations, parsed, symbol

_FUNCTION = "func.func"


def put_in_workgroups(module: ir.Operation, workgroups: Mapping[str, str]) -> bool:
    """Replaces the declarations of functions by their definitions. Returns False if `workgroups` is empty.

    `workgroups` maps the name of each function to the MLIR text of its definition. Raises `Broken` if the module
    declares none of them.
    """
    known: dict[str, ir.Operation] = {}
    used = set[str]()
    for declared in _functions(module):
        name = symbol(declared)
        if name not in workgroups:
            continue
        is_declared = all(not list(region.blocks) for region in declared.regions)
        require(is_declared, "a workgroup is declared, and not defined")
        if name not in known:
            known[name] = parsed(workgroups[name], module.context)
            require(
                symbol(known[name]) == name, "the function of a workgroup has the name of its declaration"
            )
        known[name].clone(ir.InsertionPoint(declared))
        declared.erase()
        used.add(name)
    require(bool(used) or not workgroups, "a program declares its workgroups")
    return bool(used)


def _functions(module: ir.Operation) -> list[ir.Operation]:
    """Returns the ops `func.func` in the executables of a module, whether they are definitions or declarations."""
    return [
        function
        for executable in operations(module.regions[0].blocks[0])
        if executable.name == "stream.executable"
        for block in blocks(executable)
        for inner in operations(block)
        if inner.name == "builtin.module"
        for function in operations(inner.regions[0].blocks[0])
        if function.name == _FUNCTION
    ]
