"""The torch dialect, in a context of its own, lowered to StableHLO by torch-mlir's pipelines."""

import io
import re
from collections.abc import Mapping
from typing import Any

from torch_mlir import ir
from torch_mlir.passmanager import PassManager

from tiduc.dialect.context import parse, stage
from tiduc.dialect.errors import Unsupported
from tiduc.models.apart import Expansion, put_back, set_apart

_LAST = "builtin.module(torch-backend-to-stablehlo-backend-pipeline)"
_FAILED = re.compile(r"failed to legalize operation '([\w.]+)'(?:.*?name = \"([\w.]+)\")?", re.DOTALL)


def lower_torch(module: Any, first: str, apart: Mapping[str, Expansion]) -> Any:
    """The module as StableHLO, in the context of all others; `Unsupported` at the op that has none.

    `first` is the pipeline from the module to torch-mlir's backend contract; `apart` are operators, by name, that
    pass it, and what becomes of them. The module is changed.
    """
    with module.context as context, ir.Location.unknown():
        # After which all dialects of the pipeline are known.
        PassManager.parse(_LAST).run(ir.Module.parse("func.func @main() { return }").operation)
        set_apart(module, apart)
        said: list[Any] = []

        def hear(diagnostic: Any) -> bool:
            if diagnostic.severity == ir.DiagnosticSeverity.ERROR:
                said.append((diagnostic.message, diagnostic.location))
            return True

        # Not the errors of exceptions: some passes report one, and go on.
        context.emit_error_diagnostics = True
        with context.attach_diagnostic_handler(hear):
            for pipeline in (first, _LAST):
                try:
                    PassManager.parse(pipeline).run(module.operation)
                except ir.MLIRError as error:
                    message, location = said[0] if said else (str(error), None)
                    raise Unsupported(_explained(message, module), location) from None
        for op in module.body.operations:
            for name in [each for each in op.attributes if each.startswith("torch.")]:
                del op.attributes[name]  # of versions and assumptions; no other dialect knows it
        written = io.BytesIO()
        module.operation.write_bytecode(written)
    lowered = parse(written.getvalue())
    _put_back(lowered, apart)
    return lowered


@stage
def _put_back(module: Any, apart: Mapping[str, Expansion]) -> None:
    put_back(module, apart)


def _explained(message: str, module: Any) -> str:
    """The error of a pipeline without the text of the op.

    Of a scalar it says who takes it: that is what there is no StableHLO for.
    """
    found = _FAILED.match(message)
    if found is None:
        return f"torch-mlir cannot lower the model: {message}"
    name = found[2] or found[1]
    if not name.startswith("torch.constant."):
        return f"torch-mlir lowers no {name} to StableHLO"
    takers = _takers(module, name, message)
    return f"torch-mlir does not lower to StableHLO one of: {', '.join(takers) or name}"


def _takers(module: Any, name: str, message: str) -> list[str]:
    """The ops that take the constant of that name whose text the message has."""
    takers: dict[str, None] = {}

    def look(op: Any) -> Any:
        if op.name == name:
            text = op.operation.get_asm(print_generic_op_form=True)
            if text.partition(" = ")[2].strip() in message:
                takers.update((use.owner.name, None) for use in op.operation.result.uses)
        return ir.WalkResult.ADVANCE

    module.operation.walk(look)
    return list(takers)
