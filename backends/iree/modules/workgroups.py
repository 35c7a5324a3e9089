"""workgroups: replaces declarations in executables by tiduc's functions that compute a workgroup of a dispatch.

The invariant of the edit is that the module declares one of these functions, if the program has any. Otherwise the
program is refused, because it cannot run without these functions.
"""

from collections.abc import Mapping

from iree.compiler import ir

from tiduc.backends.iree.modules.invariants import require
from tiduc.backends.iree.modules.ops import blocks, operations, parsed, symbol

_FUNCTION = "func.func"


def put_in_workgroups(module: ir.Operation, workgroups: Mapping[str, str]) -> bool:
    """Replaces declarations by functions. `workgroups` maps names to texts. Returns False if there are no functions."""
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
    """The functions and declarations in the executables of a module."""
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
