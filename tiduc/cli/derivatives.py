"""jvp, vjp, grad, hvp: a program in, its derivative out."""

import sys
from pathlib import Path
from typing import Any

import click


def _wrt(text: str | None) -> list[int | str] | None:
    if text is None:
        return None
    return [int(part) if part.isdigit() else part for part in text.split(",")]


def _command(name: str) -> click.Command:
    @click.command(name)
    @click.argument("file")
    @click.option("--entry")
    @click.option("--wrt")
    @click.option("-o", "output", default="-")
    def command(file: str, entry: str | None, wrt: str | None, output: str, **options: Any) -> None:
        from tiduc.program import load

        program = load(sys.stdin.buffer.read() if file == "-" else Path(file), entry)
        text = getattr(program, name)(_wrt(wrt), **options).text
        if output == "-":
            sys.stdout.write(text)
        else:
            Path(output).write_text(text)

    if name == "grad":
        command = click.option("--value", is_flag=True)(command)
    return command


COMMANDS = [_command(name) for name in ("jvp", "vjp", "grad", "hvp")]
