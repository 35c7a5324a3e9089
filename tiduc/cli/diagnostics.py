"""What a command says beside its results: diagnostics in MLIR's form, and that it is still at work."""

import os
import re
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import click

from tiduc.cli.colours import is_coloured
from tiduc.dialect import progress
from tiduc.dialect.errors import TiducError, TiducWarning

PATIENCE = 1.5  # seconds until a spinner says that work goes on
_PLACE = re.compile(r"(.*):(\d+):(\d+)", re.DOTALL)


def report(error: TiducError) -> None:
    """Prints `file:line:col: error: message` and that line to standard error, coloured as the command line says.

    A file's name is printed byte by byte, also where it is no UTF-8.
    """
    message, *more = error.message.splitlines() or [""]
    place = error.location
    head = click.style(f"{place}: ", bold=True) if place else ""
    lines = [head + click.style("error: ", fg="red", bold=True) + click.style(message, bold=True)]
    lines += _source(place)
    for line in more:
        note = line.startswith("note: ")
        lines.append(
            click.style("note: ", fg="cyan", bold=True) + line.removeprefix("note: ") if note else line
        )
    printed = "\n".join(lines) + "\n"
    if not is_coloured(sys.stderr):
        printed = click.unstyle(printed)
    with suppress(OSError):  # nobody can be told
        click.echo(os.fsencode(printed), nl=False, err=True)


def _source(place: str) -> list[str]:
    """The line of a file that a place names, and a caret below its column; nothing if it cannot be read."""
    found = _PLACE.fullmatch(place)
    if not found or not int(found[2]):
        return []
    number, column = int(found[2]), int(found[3])
    try:
        with open(found[1], encoding="utf-8") as file:
            line = next((text for i, text in enumerate(file, 1) if i == number), "").rstrip("\n")
    except (OSError, ValueError):
        return []
    if not line or len(line) > 200:
        return []
    padding = re.sub(r"[^\t]", " ", line[: column - 1])
    return [line, padding + click.style("^", fg="green", bold=True)] if column else [line]


@contextmanager
def about(file: str) -> Iterator[None]:
    """Errors in the block that have no location, or only a symbol or MLIR's "-", are about this file."""
    progress.work_on(file)
    try:
        yield
    except TiducError as error:
        file = "<stdin>" if file == "-" else file
        if error.location.startswith("-:"):
            error.location = file + error.location[1:]
        elif error.location.startswith("@"):  # what the compiler calls a program
            error.message, error.location = f"{error.location}: {error.message}", file
        error.location = error.location or file
        raise


@contextmanager
def warnings_reported() -> Iterator[None]:
    """Warnings of tiduc in the block are printed as `warning: message`, without a line of its source."""
    with warnings.catch_warnings():
        others = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *more: Any, **options: Any) -> None:
            if issubclass(category, TiducWarning):
                click.echo(click.style("warning: ", fg="magenta", bold=True) + str(message), err=True)
            else:
                others(message, category, *more, **options)

        warnings.showwarning = show
        yield


def is_quiet() -> bool:
    """Whether `tiduc --quiet` was asked for."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.find_root().params.get("quiet"))


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Shows on a terminal what is done, and for how long, once it has taken longer than one likes to wait."""
    if is_quiet() or not sys.stderr or not sys.stderr.isatty():
        yield
        return
    from rich.console import Console  # takes a while to import, and is rarely needed
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True, no_color=not is_coloured(sys.stderr))
    columns = SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn()
    progress = Progress(*columns, console=console, transient=True)
    progress.add_task(what, total=None)
    timer = threading.Timer(PATIENCE, progress.start)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        progress.stop()
