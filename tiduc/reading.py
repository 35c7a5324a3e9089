"""Reads modules from files, text and bytecode. An untrusted source is read in a worker process first.

    source -> worker: parse, verify, import -> bytecode -> this process

If a source crashes MLIR or does not terminate, only the worker ends. The calling process parses only bytecode that MLIR
in the worker wrote.
"""

import resource
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Any

from torch_mlir import ir

from tiduc.dialect.errors import ParseError, RequestError
from tiduc.dialect.graph.functions import symbol
from tiduc.dialect.graph.graph import operations
from tiduc.dialect.mlir.context import parse, read, stage
from tiduc.dialect.mlir.emit import bytecode
from tiduc.dialect.ops.ir_types import IrOp
from tiduc.passes.importing.import_stablehlo import import_stablehlo
from tiduc.passes.resolve import resolve
from tiduc.passes.rules import OPSET
from tiduc.runtime.process import Limits
from tiduc.runtime.worker import Died, Worker

Readable = str | bytes | Path
READABLE = (str, bytes, Path)


def module_in(source: Readable, dialects: Collection[str] = ()) -> Any:
    """Parses a module from a file, StableHLO text or bytecode.

    A `str` with a newline or a brace is text; any other `str` is a file's name.
    """
    if isinstance(source, bytes) or (isinstance(source, str) and _is_text(source)):
        return parse(source, dialects=dialects)
    return read(source, dialects)


def isolated_module(
    source: Readable, entry: str | None = None, dialects: Collection[str] = (), limits: Limits | None = None
) -> Any:
    """Parses a module as `module_in` does, but in a worker process, and returns a copy of it.

    The worker also checks that the module can be imported. Raises `ParseError` if a signal ends the worker, or if the
    worker exceeds `limits`.
    """
    with Worker() as worker:
        try:
            written = worker.call(_written, limits or Limits(), source, entry, tuple(dialects))
        except Died as died:
            is_file = not isinstance(source, bytes) and not _is_text(str(source))
            raise ParseError(f"reading {died}", str(source) if is_file else None) from None
    return parse(written, dialects=dialects)


@stage
def _written(source: Readable, entry: str | None, dialects: tuple[str, ...]) -> bytes:
    """Parses a module, checks that it can be imported, and returns its bytecode.

    Halves the limit of the stack first. A module that can be imported with this limit does not overflow the stack of
    the caller.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_STACK)
    with suppress(ValueError):
        resource.setrlimit(
            resource.RLIMIT_STACK, (2**22 if soft == resource.RLIM_INFINITY else soft // 2, hard)
        )
    module = module_in(source, dialects)
    written = bytecode(module)
    if not dialects:  # this process lacks the rules of custom dialects
        resolve(import_stablehlo(*entry_in(module, entry), OPSET))
    return written


def _is_text(source: str) -> bool:
    return "\n" in source or "{" in source


def entry_in(module: ir.Module, entry: str | None) -> tuple[ir.Module, str]:
    """Finds the function or graph to load. Returns the module that contains it, and its name.

    `entry` is the name of the function. If it is None, the function is `main`, or the only public function. The name of
    a function in a nested module is `module::function`, or `function` if no other nested module has a function with
    this name. Raises `RequestError` unless exactly one function matches.
    """
    nested = [op for op in operations(module.body) if op.name == "builtin.module"]
    candidates = [(None, name) for name in _public(module.body)] or [
        (inner, name) for inner in nested for name in _public(inner.regions[0].blocks[0])
    ]
    wanted = (
        candidates if entry is None else [each for each in candidates if entry in (each[1], _spelled(*each))]
    )
    if entry is None and len(candidates) > 1:
        wanted = [each for each in candidates if each[1] == "main"]
    if len(wanted) == 1:
        inner, name = wanted[0]
        return module if inner is None else _unnested(inner), name
    if next(iter(operations(module.body)), None) is None:
        raise RequestError("the module is empty")
    names = ", ".join(f"@{_spelled(*each)}" for each in candidates) or "none"
    how_many = "several public functions" if wanted else "no public function"
    choose = "; choose one with --entry" if len(candidates) > 1 else ""
    raise RequestError(f"{how_many} @{entry or 'main'}; there are {names}{choose}")


def _public(block: ir.Block) -> list[str]:
    """The names of the public functions and graphs in the block of a module."""
    return [
        str(ir.StringAttr(op.attributes["sym_name"]).value)
        for op in operations(block)
        if (op.name == "tidu.graph" and "sym_visibility" not in op.attributes)
        or (op.name == "func.func" and _is_public(op))
    ]


def _spelled(module: IrOp | None, function: str) -> str:
    """The name `module::function`, or `function` if `module` is None or has no name."""
    return f"{symbol(module)}::{function}" if module is not None and symbol(module) else function


def _unnested(module: IrOp) -> ir.Module:
    """A copy of a nested module, as a top-level module."""
    copy = ir.Module.create(loc=module.location)
    for name in module.attributes:
        copy.operation.attributes[name] = module.attributes[name]
    for op in operations(module.regions[0].blocks[0]):
        op.clone(ir.InsertionPoint(copy.body))
    return copy


def _is_public(function: IrOp) -> bool:
    visibility = function.attributes.get("sym_visibility")
    return len(function.regions[0].blocks) > 0 and (
        visibility is None or ir.StringAttr(visibility).value == "public"
    )
