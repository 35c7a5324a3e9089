"""Messages other than results: diagnostics in MLIR's form, warnings, remarks, and a line that shows progress."""

import json
import os
import re
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TextIO

import click

from tiduc.cli.colours import is_coloured
from tiduc.cli.options import shared_options
from tiduc.dialect import progress
from tiduc.dialect.errors import TiducError, TiducRemark, TiducWarning
from tiduc.runtime.files import open_regular

PATIENCE = 1.5  # the number of seconds before progress is shown
_MOST_OF_SOURCE = 2**26  # the number of bytes of a source file that are read to find a line
_PLACE = re.compile(r"(.*):(\d+):(\d+)", re.DOTALL)


def report(error: TiducError) -> None:
    """Prints `file:line:col: error: message` and the source line to standard error, in colour if colours are on.

    A file name that is not UTF-8 is printed byte by byte. With `--json` of a command, or `tiduc --json-errors`, prints
    a JSON object instead.
    """
    if shared_options().json_errors:
        with suppress(OSError):
            click.echo(json.dumps(as_data(error)), err=True)
        return
    message, *more = error.message.splitlines() or [""]
    place = error.location
    head = click.style(f"{place}: ", bold=True) if place else ""
    lines = [head + click.style("error: ", fg="red", bold=True) + click.style(message, bold=True)]
    lines += source_at(place)
    for line in more:
        note = line.startswith("note: ")
        lines.append(
            click.style("note: ", fg="cyan", bold=True) + line.removeprefix("note: ") if note else line
        )
    printed = "\n".join(lines) + "\n"
    if not is_coloured(sys.stderr):
        printed = click.unstyle(printed)
    with suppress(OSError):  # standard error is closed or full
        click.echo(os.fsencode(printed), nl=False, err=True)


def as_data(error: TiducError) -> dict[str, Any]:
    """Returns an error as data for JSON: its class, message and notes, and its file, line and column.

    The file, the line and the column are None if unknown.
    """
    message, *more = error.message.splitlines() or [""]
    match = _PLACE.fullmatch(error.location)
    file, line, column = match.groups() if match else (error.location or None, None, None)
    where = {"file": file, "line": line and int(line), "column": column and int(column)}
    notes = [text.removeprefix("note: ") for text in more]
    return {"error": type(error).__name__, "message": message, **where, "notes": notes}


def remark(file: str, message: str) -> None:
    """Prints `file: remark: message` to standard error, unless the user passed `--quiet`."""
    if not is_quiet():
        place = "<stdin>" if file == "-" else file
        click.echo(f"{place}: {click.style('remark: ', fg='blue', bold=True)}{message}", err=True)


def source_at(place: str) -> list[str]:
    """Returns the source line at a place, and a line with a caret below the column.

    Returns an empty list if the line cannot be read. A location in a program may name any file. Therefore, only regular
    files that the user has named are read, and only up to a limit.
    """
    match = _PLACE.fullmatch(place)
    if not match or not int(match[2]) or match[1] not in progress.files:
        return []
    number, column = int(match[2]), int(match[3])
    try:
        with open_regular(match[1]) as file:
            lines = file.read(_MOST_OF_SOURCE).split(b"\n", number)
        line = lines[number - 1].decode().rstrip("\r") if len(lines) > number - 1 else ""
    except (OSError, ValueError):
        return []
    if not line or len(line) > 200:
        return []
    padding = re.sub(r"[^\t]", " ", line[: column - 1])
    return [line, padding + click.style("^", fg="green", bold=True)] if column else [line]


@contextmanager
def about(file: str) -> Iterator[None]:
    """A context that gives the location `file` to each `TiducError` that names no file.

    The location of such an error is empty, a symbol, or begins with MLIR's name "-" for standard input.
    """
    progress.work_on(file)
    try:
        yield
    except TiducError as error:
        file = "<stdin>" if file == "-" else file
        if error.location.startswith("-:"):
            error.location = file + error.location[1:]
        elif error.location.startswith("@"):  # IREE's compiler uses such a name for a program
            error.message, error.location = f"{error.location}: {error.message}", file
        error.location = error.location or file
        raise


@contextmanager
def warnings_reported() -> Iterator[None]:
    """A context in which tiduc's warnings and remarks are printed as `warning: message`, without a source line."""
    with warnings.catch_warnings():
        others = warnings.showwarning

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if issubclass(category, TiducRemark):
                if not is_quiet():
                    click.echo(click.style("remark: ", fg="blue", bold=True) + str(message), err=True)
            elif issubclass(category, TiducWarning):
                click.echo(click.style("warning: ", fg="magenta", bold=True) + str(message), err=True)
            else:
                others(message, category, filename, lineno, file, line)

        warnings.showwarning = show
        yield


def is_quiet() -> bool:
    """Whether the user passed `tiduc --quiet`."""
    return shared_options().quiet


@contextmanager
def waiting(message: str) -> Iterator[None]:
    """A context that shows progress on a terminal once it lasts longer than `PATIENCE`.

    The line shows the message, the running stage and its progress, the number of completed stages, and the elapsed
    time.
    """
    if is_quiet() or not sys.stderr or not sys.stderr.isatty():
        yield
        return
    from rich.console import Console  # takes a while to import, and is rarely needed
    from rich.progress import Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True, no_color=not is_coloured(sys.stderr))
    columns = TextColumn("{task.description}", markup=False), TimeElapsedColumn()
    shown = Progress(*columns, console=console, transient=True)
    task = shown.add_task(message, total=None)
    stages = _Stages(lambda text: shown.update(task, description=f"{message}: {text}"))
    timer = threading.Timer(PATIENCE, shown.start)
    timer.start()
    try:
        with progress.watched(stages), progress.listening(stages.report):
            yield
    finally:
        timer.cancel()
        timer.join()
        shown.stop()


class _Stages:
    """A watcher that shows the running stage, its progress, and the number of completed stages."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._running: list[str] = []
        self._ended = 0

    def entered(self, stage: str) -> None:
        self._running.append(stage)
        self._tell()

    def left(self, stage: str, arguments: Sequence[object], result: object) -> None:
        self._ended += 1
        if self._running:
            self._running.pop()
        self._tell()

    def report(self, text: str) -> None:
        self._tell(f": {text}")

    def _tell(self, more: str = "") -> None:
        if self._running:
            self._say(f"{self._running[-1]}, after {self._ended} stage{'s' * (self._ended != 1)}{more}")
