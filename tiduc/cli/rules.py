"""The option `--rules`: a user's op set, from a Python module or file."""

import os
import sys
import traceback
from collections.abc import Iterator
from difflib import get_close_matches
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import click
from torch_mlir import ir

from tiduc.cli.files import read_module
from tiduc.dialect.errors import RequestError, RuleError, TiducError
from tiduc.passes.rules import OPSET
from tiduc.passes.rules.registry import OpSet


def opset(where: str | None) -> OpSet:
    """The op set that `MODULE`, `FILE.py`, `MODULE:NAME` or `FILE.py:NAME` names; without any, tiduc's own.

    `RequestError` where there is none; `RuleError`, with the line, where the user's code raises.
    """
    if where is None:
        return OPSET
    module_name, _, name = where.partition(":")
    is_file = module_name.endswith(".py")
    try:
        module = _of_file(module_name) if is_file else _of_module(module_name)
    except (TiducError, MemoryError):
        raise
    except Exception as error:
        message, place = f"{type(error).__name__}: {error}", module_name
        if isinstance(error, SyntaxError) and error.filename is not None:
            message, place = f"{type(error).__name__}: {error.msg}", f"{error.filename}:{error.lineno}"
        elif value := _raised_at(error):
            place = value
        raise RuleError(message, place) from error
    value = getattr(module, name or "OPSET", None)
    if not isinstance(value, OpSet):
        raise RequestError(f"{module_name} has no op set {name or 'OPSET'}")
    return value


def read_with(opset: OpSet, file: str, contents: bytes | None = None) -> Any:
    """The `ir.Module` in a file, as `read_module` reads it; warns of rules whose names look misspelt."""
    module = read_module(file, contents, opset.dialects)
    for rule, there in _misspelt(module, opset):
        warning = click.style("warning: ", fg="magenta", bold=True)
        message = f"no op uses the rule for {rule}; did you mean {there}?"
        click.echo(f"{file}: {warning}{message}", err=True)
    return module


def _misspelt(module: Any, opset: OpSet) -> Iterator[tuple[str, str]]:
    """The rules for call targets that the module lacks, each with a similar target that the module has."""
    rules = {key for key in (*opset.forms, *opset.lowerings) if " @" in key and key not in OPSET.forms}
    if not rules:
        return
    naming = {name: attribute for name, (prefix, attribute) in opset.named_by.items() if name == prefix}
    naming["func.call"] = "callee"
    called: set[str] = set()

    def note(op: Any) -> Any:
        if op.name in naming:
            called.add(f"{op.name} @{op.attributes[naming[op.name]].value}")
        return ir.WalkResult.ADVANCE

    module.operation.walk(note)
    others = {key.partition(" @")[2]: key for key in called - opset.forms.keys()}
    for rule in sorted(rules - called):
        for name in get_close_matches(rule.partition(" @")[2], others, 1, 0.8):
            yield rule, others[name]


def _raised_at(error: Exception) -> str | None:
    """The innermost line of a traceback that is neither tiduc's nor Python's import system's."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = str(Path(__file__).parents[1])
    places = [frame for frame in frames if not frame.filename.startswith((ours, "<frozen"))]
    return f"{places[-1].filename}:{places[-1].lineno}" if places else None


def _of_file(path: str) -> ModuleType:
    if not Path(path).is_file():
        raise RequestError(f"file of rules not found: {path}")
    spec = spec_from_file_location(Path(path).stem, path)
    assert spec is not None and spec.loader is not None  # it ends in .py
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _of_module(name: str) -> ModuleType:
    """The module, looked for in the working directory too; `RequestError` where there is none."""
    here = os.getcwd()
    sys.path.insert(0, here)
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # the module exists, but a module that it imports does not
        raise RequestError(f"module of rules not found: {name}") from None
    finally:
        sys.path.remove(here)


def _read(ctx: click.Context, parameter: click.Parameter, value: str | None) -> Any:
    return opset(value)


RULES = click.option(
    "--rules",
    "opset",
    metavar="MODULE",
    callback=_read,
    help="Python module or file whose OPSET supplies the rules and lowerings of ops; mine.rules:OTHER names "
    "another variable. See the page on rules.",
)
