"""Expands `chlo.scan` to loops, by CHLO's own pass; part of import.

Each scan is first outlined to a function of its own, so that the pass does not expand other CHLO ops, which have rules.
"""

from typing import Any

from torch_mlir import ir

from tiduc.dialect.context import run_passes
from tiduc.dialect.graph import operations

SCAN = "chlo.scan"
_EXPAND = "func.func(chlo-legalize-to-stablehlo,stablehlo-aggressive-simplification)"


def expand_scans(module: Any) -> None:
    """Replaces each scan in a module by a call of a new private function that holds its loop, in place."""
    scans: list[Any] = []

    def look(op: Any) -> Any:
        if op.name == SCAN:
            scans.append(op)
            return ir.WalkResult.SKIP  # the pass expands nested scans too
        return ir.WalkResult.ADVANCE

    module.operation.walk(look, ir.WalkOrder.PRE_ORDER)
    taken = {op.attributes["sym_name"].value for op in operations(module.body) if "sym_name" in op.attributes}
    names = (name for i in range(len(taken) + len(scans)) if (name := f"scan{i}") not in taken)
    for op, name in zip(scans, names, strict=False):
        _outline(module, op, name)


def _outline(module: Any, scan: Any, name: str) -> None:
    """Outlines a scan, which captures no values, to a new function, and expands it there."""
    read = list(scan.operands)
    results = [y.type for y in scan.results]
    attributes = {
        "sym_name": ir.StringAttr.get(name),
        "sym_visibility": ir.StringAttr.get("private"),
        "function_type": ir.TypeAttr.get(ir.FunctionType.get([x.type for x in read], results)),
    }
    function = ir.Operation.create(
        "func.func", attributes=attributes, regions=1, loc=scan.location, ip=ir.InsertionPoint(module.body)
    )
    block = function.regions[0].blocks.append(*(x.type for x in read), arg_locs=[scan.location] * len(read))
    ip = ir.InsertionPoint(block)
    inside = scan.clone(ip)
    for i, x in enumerate(block.arguments):
        inside.operands[i] = x
    ir.Operation.create("func.return", operands=list(inside.results), loc=scan.location, ip=ip)
    callee = {"callee": ir.FlatSymbolRefAttr.get(name)}
    call = ir.Operation.create(
        "func.call", results, read, callee, loc=scan.location, ip=ir.InsertionPoint(scan)
    )
    for old, new in zip(list(scan.results), list(call.results), strict=True):
        old.replace_all_uses_with(new)
    scan.erase()
    run_passes(function, _EXPAND)
