"""split: writes the VJP of a program as two programs."""

import os

import click

from tiduc.cli.derivatives import LOOP_MEMORY, MEMORY, WRT, parse_wrt
from tiduc.cli.diagnostics import about
from tiduc.cli.files import ENTRY, FILE, write
from tiduc.cli.rules import RULES, read_with
from tiduc.dialect.errors import TiducError
from tiduc.dialect.mlir.emit import emit, shortest
from tiduc.passes.rules.registry import OpSet
from tiduc.program import from_module
from tiduc.runtime.files import written_together
from tiduc.splitting import split


@click.command("split")
@FILE
@ENTRY
@WRT
@RULES
@LOOP_MEMORY
@MEMORY
@click.option(
    "-o",
    "--output",
    default=".",
    metavar="FOLDER",
    show_default="this one",
    help="The folder for forward.mlir and backward.mlir.",
)
def _split(
    file: str,
    entry: str | None,
    wrt: tuple[str, ...],
    opset: OpSet,
    loop_memory: str,
    memory: str,
    output: str,
) -> None:
    """Write the VJP of a program as two: forward.mlir, (primals...) -> (outputs..., residuals...), and backward.mlir,
    (residuals..., cotangents of the outputs...) -> (cotangents of wrt...).

    Lists the residuals, each with its type, its size, and the op or input from which it comes.
    """
    with about(file):
        program = from_module(read_with(opset, file), entry, opset, False, loop_memory).rematerialize(memory)
        parts = split(program, parse_wrt(program, wrt))
        written = {
            os.path.join(output, f"{name}.mlir"): emit(part.module, shortest(part.module))
            for name, part in (("forward", parts.forward), ("backward", parts.backward))
        }
        table = parts.table()
    try:
        os.makedirs(output, exist_ok=True)
    except OSError as error:
        raise TiducError(f"cannot write: {error.strerror}", output) from None
    with written_together():
        for path, data in written.items():
            write(data, path)
        write(table)


COMMANDS = {"split": _split}
