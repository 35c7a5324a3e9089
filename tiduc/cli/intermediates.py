"""The intermediate files of `tiduc compile`: the IR after each stage, and the files of IREE's compiler."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import click

from tiduc.backends.backend import Options
from tiduc.backends.iree.build import LEGALIZED, text_after
from tiduc.backends.iree.compile import PHASES
from tiduc.cli.models import Command
from tiduc.cli.watching import Watch
from tiduc.dialect import progress
from tiduc.dialect.errors import TiducError
from tiduc.dialect.mlir.emit import emit
from tiduc.pipeline import stops
from tiduc.program import Program
from tiduc.runtime.files import written_whole

STOP_AFTER = click.option(
    "--stop-after",
    type=click.Choice([*stops([]), LEGALIZED, *PHASES]),
    help="Write the IR after this stage instead of the module: a stage of tiduc, legalize for IREE, or a phase of "
    "IREE's compiler.",
)
IREE_FLAGS = click.option(
    "--iree-flag",
    "iree_flags",
    multiple=True,
    metavar="FLAG",
    help="A flag of iree-compile, such as --iree-opt-level=O2, after tiduc's own. Repeatable.",
)
DUMP = click.option(
    "--dump-intermediates",
    "folder",
    metavar="DIR",
    type=click.Path(),
    help="Write to this folder the IR after each stage, IREE's input, the IR after each phase of IREE's compiler, "
    "and its object files.",
)


def stopped(
    program: Program, stage: str, options: Options, flags: Sequence[str], parameters: Sequence[str]
) -> bytes:
    """Returns the IR of a program, as text, after a stage of tiduc or a phase of IREE's compiler."""
    if stage in stops([]):
        return emit(program.module_after(stage))
    return text_after(program.lower(), options, stage, flags, parameters)


@contextmanager
def dumped(folder: str | None) -> Iterator[None]:
    """A context in which the IR after each stage is written to numbered files in the folder.

    Nothing is written if `folder` is None.
    """
    if folder is None:
        yield
        return
    try:
        for name in ("phases", "executables"):
            os.makedirs(os.path.join(folder, name), exist_ok=True)
    except OSError as error:
        raise TiducError(f"cannot write: {error.strerror}", folder) from None
    count = 0

    def shows(name: str, text: str) -> None:
        nonlocal count
        _write(os.path.join(folder, f"{count:02}-{name}.mlir"), text.encode("utf-8", "surrogateescape"))
        count += 1

    with progress.watched(Watch(shows)):
        yield


def _write(path: str, data: bytes) -> None:
    with written_whole(path) as file:
        file.write(data)


def observing_options(command: Command) -> Command:
    """Adds the options `--stop-after`, `--iree-flag` and `--dump-intermediates` to a command."""
    return STOP_AFTER(IREE_FLAGS(DUMP(command)))
