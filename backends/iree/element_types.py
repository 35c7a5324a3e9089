"""Refuses programs with element types that the target lacks, before the compiler runs."""

from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.targets import Target
from tiduc.dialect.errors import CompileError


def refuse_types(module: Any, target: Target) -> None:
    """Raises `CompileError`, located at the op, if a value has an element type that the target lacks."""
    if not target.lacks:
        return

    found: list[tuple[str, Any]] = []

    def look(op: Any) -> Any:
        types = [x.type for x in (*op.operands, *op.results)]
        shaped = (ir.ShapedType(type_) for type_ in types if isinstance(type_, ir.ShapedType))
        found.extend((e, op.location) for x in shaped if (e := str(x.element_type)) in target.lacks)
        # An exception raised inside the walk does not come out unchanged.
        return ir.WalkResult.INTERRUPT if found else ir.WalkResult.ADVANCE

    module.operation.walk(look, ir.WalkOrder.PRE_ORDER)
    if found:
        element, location = found[0]
        raise CompileError(_message(element, target), location)


def _message(element: str, target: Target) -> str:
    base, having = target.name.partition(":")[0], target.lacks[element]
    those = ", ".join(f"{base}:{variant}" for variant in having)
    advice = f"these have: {those}" if having else "convert to another type, or choose another target"
    return f"target {target.name!r} has no arithmetic of {element}; {advice}"
