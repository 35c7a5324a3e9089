"""Completion of input names after `--wrt` in shells."""

from contextlib import suppress

import click
from click.shell_completion import CompletionItem

from tiduc.dialect.errors import TiducError
from tiduc.loading import load
from tiduc.models import MODELS


def inputs_of_file(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Completes the last name in a list of inputs, separated by commas, with the inputs of the command's FILE.

    Returns no names for standard input, or for models of frameworks, because their import takes too long.
    """
    # click does not parse the arguments while the last option lacks its value.
    file = str(context.params.get("file") or next(iter(context.args), "-"))
    if file == "-" or file.lower().endswith(MODELS):
        return []
    names: list[str] = []
    with suppress(TiducError, OSError):
        names = [port.name for port in load(file, context.params.get("entry")).inputs]
    before, comma, last = incomplete.rpartition(",")
    taken = before.split(",")
    return [
        CompletionItem(f"{before}{comma}{name}")
        for name in names
        if name.startswith(last) and name not in taken and not (comma and "," in name)
    ]
