"""Lowers the torch dialect to StableHLO with torch-mlir's pipelines, in a worker process with its own MLIR context.

    torch dialect --bytecode--> worker: operators as custom calls, pipelines, legalize --bytecode--> StableHLO

The pipelines run in a worker because they abort the process on some programs and exhaust memory on others.
"""

import io
import re
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar

from torch_mlir import ir
from torch_mlir.passmanager import PassManager

from tiduc.dialect.errors import CompileError, Unsupported
from tiduc.dialect.mlir.context import parse, stage
from tiduc.dialect.mlir.emit import bytecode
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.models.expansions import Expansion, expand_calls, replace_operators
from tiduc.models.legalize import legalize
from tiduc.models.torch.counts import count_in_integers
from tiduc.runtime.process import Limits
from tiduc.runtime.worker import Died, in_worker

P = ParamSpec("P")
R = TypeVar("R")

_LAST = "builtin.module(torch-backend-to-stablehlo-backend-pipeline)"
_FAILED = re.compile(r"failed to legalize operation '([\w.]+)'(?:.*?name = \"([\w.]+)\")?", re.DOTALL)

_CLASS = re.compile(r"\bAten(\w+)Op\b")
"""Matches the name of a C++ class for an op of PyTorch. Some error messages of torch-mlir contain such names."""

_NAMED = re.compile(r'loc\("([^"]+)"\)')
"""Matches a location that is a name without a line. It is the name of an ONNX node."""


def import_in_worker(
    function: Callable[P, R], limits: Limits | None, *arguments: P.args, **keywords: P.kwargs
) -> R:
    """Calls `function` in a worker process, and returns the function's result.

    Raises `Unsupported` if LLVM aborts the worker, and `CompileError` if the worker dies for another reason.
    """
    try:
        return in_worker(function, limits or Limits(), *arguments, **keywords)
    except Died as died:
        if died.fatal:
            raise Unsupported(f"torch-mlir cannot import the model: {died.fatal}") from None
        raise CompileError(f"the import of the model by torch-mlir {died}") from None


def lower_written(written: bytes, first: str, operators: Mapping[str, Expansion]) -> bytes:
    """Parses a module from bytecode, and returns the result of `lower_torch` for it."""
    from torch_mlir.dialects import torch as dialect

    context = ir.Context()
    dialect.register_dialect(context)
    with context:
        module = ir.Module.parse(written)
    return lower_torch(module, first, operators)


def lower_torch(module: Any, first: str, operators: Mapping[str, Expansion]) -> bytes:
    """Lowers the module to StableHLO in place, and returns the result as bytecode.

    `first` is the pipeline that lowers the module to torch-mlir's backend contract. `operators` maps names of ops to
    expansions. These ops are custom calls while the pipelines run, and are expanded afterwards. Raises `Unsupported`
    if the module has an op that StableHLO cannot express.
    """
    with module.context as context, ir.Location.unknown():
        # Running the pipeline on an empty function loads all its dialects.
        PassManager.parse(_LAST).run(ir.Module.parse("func.func @main() { return }").operation)
        replace_operators(module, operators)
        inner = _published(module)
        said: list[Any] = []

        def hear(diagnostic: ir.Diagnostic) -> bool:
            if diagnostic.severity == ir.DiagnosticSeverity.ERROR:
                said.append((diagnostic.message, diagnostic.location))
            return True

        # A handler collects the errors, because some passes report an error without failing.
        context.emit_error_diagnostics = True
        with context.attach_diagnostic_handler(hear):
            for pipeline in (first, _LAST):
                try:
                    PassManager.parse(pipeline).run(module.operation)
                except ir.MLIRError as error:
                    message, location = said[0] if said else (str(error), None)
                    named = _NAMED.fullmatch(str(location))
                    prefix = f"{named[1]}: " if named else ""
                    raise Unsupported(f"{prefix}{_explained(message, location, module)}", location) from None
        for op in module.body.operations:
            for name in [each for each in op.attributes if each.startswith("torch.")]:
                del op.attributes[name]  # versions and assumptions, which only the torch dialect defines
        for op in inner:
            op.attributes["sym_visibility"] = ir.StringAttr.get("private")
        written = io.BytesIO()
        module.operation.write_bytecode(written)
    return _legal(written.getvalue(), operators)


def _published(module: ir.Module) -> list[Any]:
    """Makes private functions public, and returns these functions.

    The pipelines would remove private functions, because the calls of these functions are still text in attributes.
    """
    inner = [op for op in module.body.operations if "sym_visibility" in op.attributes]
    for op in inner:
        del op.attributes["sym_visibility"]
    return inner


@stage
def _legal(written: bytes, operators: Mapping[str, Expansion]) -> bytes:
    """Parses a StableHLO module, expands its custom calls, corrects and legalizes its ops, and returns its bytecode."""
    module = parse(written)
    expand_calls(module, operators)
    _correct(module)
    count_in_integers(module)
    legalize(module)
    return bytecode(module)


def _correct(module: ir.Module) -> None:
    """Makes sorts stable and comparisons of i1 unsigned. torch-mlir emits unstable sorts and signed comparisons."""
    predicate = ir.IntegerType.get_signless(1)
    unsigned = ir.Attribute.parse("#stablehlo<comparison_type UNSIGNED>", module.context)

    def look(op: IrOp) -> ir.WalkResult:
        if op.name == "stablehlo.sort":
            op.operation.attributes["is_stable"] = ir.BoolAttr.get(True)
        elif op.name == "stablehlo.compare" and op.operation.operands[0].type.element_type == predicate:
            op.operation.attributes["compare_type"] = unsigned
        return ir.WalkResult.ADVANCE

    module.operation.walk(look)


def _explained(message: str, location: ir.Location | None, module: ir.Module) -> str:
    """Rewrites an error message of a pipeline so that it names the ops that have no lowering to StableHLO.

    If the pipeline failed at a constant, the new message names the constant's users.
    """
    match = _FAILED.match(message)
    if match is None:
        names = _ops_at(location, message, module)
        if not names:
            return f"torch-mlir cannot lower the model: {message}"
        if len(names) > 1:
            return f"torch-mlir does not lower to StableHLO one of: {', '.join(names)}"
        return f"torch-mlir lowers no {names[0]} with operands of these types to StableHLO"
    name = match[2] or match[1]
    if not name.startswith("torch.constant."):
        return f"torch-mlir lowers no {name} to StableHLO"
    takers = _takers(module, name, message)
    return f"torch-mlir does not lower to StableHLO one of: {', '.join(takers) or name}"


def _ops_at(location: ir.Location | None, message: str, module: ir.Module) -> list[str]:
    """The names of the PyTorch ops at a location. If the message has the C++ class of one op, returns only this op."""
    found: dict[str, None] = {}

    def look(op: ir.Operation) -> Any:
        if op.name.startswith("torch.aten.") and str(op.location) == str(location):
            found[op.name] = None
        return ir.WalkResult.ADVANCE

    module.operation.walk(look)
    named = {each.lower() for each in _CLASS.findall(message)}
    chosen = [name for name in found if re.sub(r"[._]", "", name.removeprefix("torch.aten.")) in named]
    return chosen or list(found)


def _takers(module: ir.Module, name: str, message: str) -> list[str]:
    """The names of the ops that read the constants, with the op name `name`, whose text is in the error message.

    An op may read a constant directly or as an element of a list.
    """
    takers: dict[str, None] = {}

    def take(result: IrValue) -> None:
        for use in result.uses:
            if use.owner.name == "torch.prim.ListConstruct":
                take(use.owner.result)
            else:
                takers[use.owner.name] = None

    def look(op: ir.Operation) -> Any:
        if op.name == name:
            text = str(op.operation.get_asm(print_generic_op_form=True))
            if text.partition(" = ")[2].strip() in message:
                take(op.operation.result)
        return ir.WalkResult.ADVANCE

    module.operation.walk(look)
    return list(takers)
