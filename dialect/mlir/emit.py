"""Writes a module as text, bytecode, or a StableHLO portable artifact."""

import io
from collections.abc import Callable
from typing import Any

from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo

from tiduc.dialect.errors import RequestError
from tiduc.dialect.mlir.constants import has_resources
from tiduc.dialect.mlir.context import collected_messages, run_passes, stage, verify
from tiduc.dialect.mlir.resources import inlined
from tiduc.dialect.ops.ir_types import IrOp

_SLICE_OF_SCALAR = ", , sizes = []"
"""StableHLO's printer writes this for a `dynamic_slice` of a scalar, although its parser rejects it."""


def text(module: ir.Module | IrOp) -> bytes:
    """The text of a verified module. Uses the generic form if MLIR could not parse the pretty form."""
    written = str(module.operation.get_asm(assume_verified=True))  # printing would verify the module again
    if _SLICE_OF_SCALAR in written:
        written = str(module.operation.get_asm(assume_verified=True, print_generic_op_form=True))
    return (written.rstrip("\n") + "\n").encode("utf-8", "surrogateescape")


def bytecode(module: ir.Module | IrOp) -> bytes:
    """The module as MLIR bytecode. It is compact, but only tools of the same MLIR version can read it."""
    written = io.BytesIO()
    module.operation.write_bytecode(written)
    return written.getvalue()


def artifact(module: ir.Module) -> bytes:
    """The module as a StableHLO portable artifact.

    Tools of the last twelve weeks can read it, and future tools will for years. Raises `RequestError` if the module has
    ops that StableHLO lacks.
    """
    portable = ir.Module.parse(inlined(str(module)))  # artifacts cannot hold resources
    run_passes(portable.operation, "builtin.module(func.func(chlo-legalize-to-stablehlo))")
    twelve_weeks = _stablehlo.StablehloCompatibilityRequirement.WEEK_12
    version = _stablehlo.get_version_from_compatibility_requirement(twelve_weeks)
    with collected_messages() as messages:
        try:
            return bytes(_stablehlo.serialize_portable_artifact(portable, version))
        except ValueError as error:
            why = messages[0] if messages else error
            raise RequestError(f"only StableHLO ops can be written as a portable artifact: {why}") from None


EMITTERS: dict[str, Callable[[Any], bytes]] = {"text": text, "bytecode": bytecode, "artifact": artifact}


@stage
def emit(module: ir.Module | IrOp, kind: str = "text") -> bytes:
    """The module as the bytes of a file; `kind` is "text", "bytecode" or "artifact".

    Raises `InvalidIR` if MLIR's verifier rejects the module.
    """
    verify(module)
    return EMITTERS[kind](module)


@stage
def shortest(module: ir.Module) -> str:
    """The default `kind` of `emit` for a module: "text", or "bytecode" if a constant is a resource."""
    return "bytecode" if has_resources(module) else "text"
