"""The option `--rules`, which takes a user's op set from a Python module or file."""

from collections.abc import Collection, Iterator
from difflib import get_close_matches

import click
from torch_mlir import ir

from tiduc.cli.files import read_module
from tiduc.cli.user_modules import named_value
from tiduc.dialect.errors import RequestError
from tiduc.dialect.ops.ir_types import IrOp
from tiduc.passes.rules import OPSET
from tiduc.passes.rules.registry import OpSet


def opset(where: str | None) -> OpSet:
    """Returns the op set that `MODULE`, `FILE.py`, `MODULE:NAME` or `FILE.py:NAME` names, or tiduc's own for None.

    Raises `RequestError` if there is no op set of this name. Raises `RuleError`, with the line, if the user's code
    raises.
    """
    if where is None:
        return OPSET
    module_name, value, name = named_value(where, "OPSET")
    if not isinstance(value, OpSet):
        raise RequestError(f"{module_name} has no op set {name}")
    return value


def read_with(
    opset: OpSet, file: str, contents: bytes | None = None, dialects: Collection[str] | None = None
) -> ir.Module:
    """Reads the `ir.Module` in a file by `read_module`. Warns of rules whose names look misspelt.

    Ops of `dialects` may be unregistered; the default is the dialects of the op set.
    """
    module = read_module(file, contents, opset.dialects if dialects is None else dialects)
    for rule, there in _misspelt(module, opset):
        warning = click.style("warning: ", fg="magenta", bold=True)
        message = f"no op uses the rule for {rule}; did you mean {there}?"
        click.echo(f"{file}: {warning}{message}", err=True)
    return module


def _misspelt(module: ir.Module, opset: OpSet) -> Iterator[tuple[str, str]]:
    """Yields each rule for a call target that the module lacks, with a similar target that has no rule."""
    rules = {key for key in (*opset.forms, *opset.lowerings) if " @" in key and key not in OPSET.forms}
    if not rules:
        return
    naming = {name: attribute for name, (prefix, attribute) in opset.named_by.items() if name == prefix}
    naming["func.call"] = "callee"
    called: set[str] = set()

    def note(op: IrOp) -> ir.WalkResult:
        if op.name in naming:
            called.add(f"{op.name} @{op.attributes[naming[op.name]].value}")
        return ir.WalkResult.ADVANCE

    module.operation.walk(note)
    others = {key.partition(" @")[2]: key for key in called - opset.forms.keys()}
    for rule in sorted(rules - called):
        for name in get_close_matches(rule.partition(" @")[2], others, 1, 0.8):
            yield rule, others[name]


def _read(ctx: click.Context, parameter: click.Parameter, value: str | None) -> OpSet:
    return opset(value)


RULES = click.option(
    "--rules",
    "opset",
    metavar="MODULE",
    callback=_read,
    help="Python module or file whose OPSET supplies the rules and lowerings of ops; mine.rules:OTHER names "
    "another variable. See the page on rules.",
)
