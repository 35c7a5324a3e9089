"""What a target lacks, looked for in a program before the compiler sees it."""

from typing import Any

from torch_mlir import ir

from tiduc.dialect.errors import CompileError
from tiduc.runtime.targets import Target


def refuse_types(module: Any, target: Target) -> None:
    """`CompileError`, at the op, where a value of a module has an element type that the target lacks."""
    if not target.lacks:
        return

    def look(op: Any) -> Any:
        types = [x.type for x in op.results]
        types += [x.type for region in op.regions for block in region for x in block.arguments]
        for type_ in types:
            if not isinstance(type_, ir.ShapedType):
                continue
            element = str(ir.ShapedType(type_).element_type)
            if element in target.lacks:
                message = f"target {target.name!r} has no {element}: {target.lacks[element]}"
                raise CompileError(message, op.location)
        return ir.WalkResult.ADVANCE

    module.operation.walk(look, ir.WalkOrder.PRE_ORDER)
