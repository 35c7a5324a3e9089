"""batch: writes a program that computes a program for many values of some inputs at once."""

from typing import Any

import click

from tiduc.cli.derivatives import LOOP_MEMORY, MEMORY
from tiduc.cli.diagnostics import about, waiting
from tiduc.cli.files import EMIT, ENTRY, FILE, OUTPUT, write, write_binary
from tiduc.cli.rules import RULES, read_with
from tiduc.dialect.errors import RequestError
from tiduc.dialect.mlir.emit import emit, shortest
from tiduc.passes.rules.registry import OpSet
from tiduc.program import from_module
from tiduc.vmap import Axes


@click.command("batch")
@FILE
@ENTRY
@click.option(
    "--batch-size",
    type=click.IntRange(1, 2**31 - 1),
    metavar="K",
    required=True,
    help="The size of the batch.",
)
@click.option(
    "--in-axes",
    default="0",
    show_default=True,
    metavar="AXES",
    help="The batched dimension of each input: one number for all; a list such as 0,none,1; or names such as x=0,y=1, "
    "where the other inputs are shared.",
)
@click.option(
    "--out-axes",
    default="0",
    show_default=True,
    metavar="AXES",
    help="The batched dimension of each output, as for inputs; none for an output without a batched dimension.",
)
@RULES
@click.option("--inline", is_flag=True, help="Inline every call.")
@LOOP_MEMORY
@MEMORY
@OUTPUT
@EMIT
def _batch(
    file: str,
    entry: str | None,
    batch_size: int,
    in_axes: str,
    out_axes: str,
    opset: OpSet,
    inline: bool,
    loop_memory: str,
    memory: str,
    output: str,
    kind: str | None,
) -> None:
    """Write a program that evaluates FILE for K values of some inputs at once, as jax.vmap does.

    Each batched input and output gets a dimension of size K. Inputs and outputs keep their order and their names.
    """
    with about(file), waiting(f"batching {file}"):
        program = from_module(read_with(opset, file), entry, opset, inline, loop_memory)
        program = program.rematerialize(memory)
        module = program.batch(axes(in_axes, "--in-axes"), batch_size, axes(out_axes, "--out-axes")).module
        kind = kind or shortest(module)
        data: Any = emit(module, kind)
    (write if kind == "text" else write_binary)(data, output)


def axes(text: str, option: str) -> Axes:
    """Parses the axes in the value of an option: `1`, `0,none`, `x=0,y=none`. Raises `RequestError` for any other text.

    A name may contain commas and equality signs, because an entry ends only at a comma that follows `=` and a number or
    `none`.
    """
    parts = text.split(",")
    if "=" not in text:
        each = [_axis(part, option) for part in parts]
        return each[0] if len(each) == 1 else each
    named: dict[str, int | None] = {}
    name = ""
    for part in parts:
        name += part
        before, equals, axis = name.rpartition("=")
        if equals and _spells_axis(axis):
            named[before.strip()] = _axis(axis, option)
            name = ""
        else:
            name += ","
    if name:
        raise RequestError(f"{option} expects NAME=AXIS, not {name.rstrip(',')!r}")
    return named


def _spells_axis(text: str) -> bool:
    return text.strip() == "none" or text.strip().removeprefix("-").isdecimal()


def _axis(text: str, option: str) -> int | None:
    if not _spells_axis(text):
        raise RequestError(f"{option} expects numbers or none, not {text.strip()!r}")
    return None if text.strip() == "none" else int(text)


COMMANDS = {"batch": _batch}
