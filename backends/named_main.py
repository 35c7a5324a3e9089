"""Renames a module's function to `main`, the only name that XLA and the reference interpreter run."""

from torch_mlir import ir

from tiduc.dialect.graph.functions import functions_in
from tiduc.dialect.mlir.context import stage
from tiduc.dialect.ops.ir_types import IrOp


@stage
def text_with_main(module: ir.Module | IrOp) -> str:
    """Returns the text of a copy of an `ir.Module`. The copy's first function is renamed to `main`."""
    return str(with_main(module)[0])


def with_main(module: ir.Module | IrOp) -> tuple[ir.Operation, ir.Operation]:
    """Copies an `ir.Module`, and renames the copy's first function to `main`. Returns the copy and the function."""
    copy = module.operation.clone().operation
    function = functions_in(copy)[0]
    function.attributes["sym_name"] = ir.StringAttr.get("main")
    return copy, function
