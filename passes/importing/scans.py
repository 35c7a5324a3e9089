"""Expands `chlo.scan` to loops, by CHLO's own pass; part of import.

Each scan is first outlined to a function of its own, because the pass would also expand other CHLO ops, which have
rules. A scan captures no values, so its operands are the function's only arguments.
"""

from itertools import count
from typing import Any

from torch_mlir import ir

from tiduc.dialect.graph.functions import outline, replace_by_call, unused_symbol
from tiduc.dialect.mlir.context import run_passes

SCAN = "chlo.scan"
_EXPAND = "func.func(chlo-legalize-to-stablehlo,stablehlo-aggressive-simplification)"


def expand_scans(module: ir.Module) -> None:
    """Replaces each scan in a module, in place, by a call of a new private function that contains the loop."""
    scans: list[Any] = []

    def look(op: ir.Operation) -> Any:
        if op.name == SCAN:
            scans.append(op)
            return ir.WalkResult.SKIP  # the pass also expands nested scans
        return ir.WalkResult.ADVANCE

    module.operation.walk(look, ir.WalkOrder.PRE_ORDER)
    for op in scans:
        name = unused_symbol(module.body, (f"scan{i}" for i in count()))
        function = outline(op, name, module.body)
        replace_by_call(op, name)
        run_passes(function, _EXPAND)
