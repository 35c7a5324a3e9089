"""reduce: makes a program smaller while a test finds it interesting."""

import os
import shlex
import shutil
import sys
import time

import click

from tiduc.cli.diagnostics import about, is_quiet, waiting
from tiduc.cli.files import FILE, OUTPUT, read_input, read_module, write
from tiduc.cli.models import is_model
from tiduc.dialect.errors import RequestError
from tiduc.dialect.mlir.context import EVERY_DIALECT, parse
from tiduc.dialect.mlir.emit import text as text_of
from tiduc.reduction.reduce import reduce
from tiduc.runtime.process import Limits, run_within, scratch_folder

_NOT_STARTED = (126, 127)  # exit statuses of shells for a command that cannot run


@click.command("reduce")
@FILE
@click.option(
    "--test",
    "command",
    required=True,
    metavar="CMD",
    help="The command that says whether a file, which is its last argument, is interesting: exit status 0 means no, "
    "another status means yes, as for mlir-reduce.",
)
@click.option(
    "--test-arg",
    "more",
    multiple=True,
    metavar="ARG",
    help="An argument of the command, after the file. Repeatable.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=600,
    show_default=True,
    metavar="SECONDS",
    help="Time limit of the reduction.",
)
@click.option(
    "--test-timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=60,
    show_default=True,
    metavar="SECONDS",
    help="Time limit of each test; a file whose test takes longer is not interesting.",
)
@OUTPUT
def _reduce(
    file: str, command: str, more: tuple[str, ...], timeout: float, test_timeout: float, output: str
) -> None:
    """Make a program smaller while a test finds it interesting: drop functions, results, arguments, ops and branches.

    An op is dropped by replacing its results with operands or zeros. Each tested file is a valid module. A command that
    fails is a test: --test 'tiduc compile -o /dev/null' keeps a program that does not compile. To keep one particular
    error, write a script: tiduc compile "$1" -o /dev/null 2>&1 | grep -q 'the error' && exit 1; exit 0
    """
    words = shlex.split(command)
    if not words or shutil.which(words[0]) is None:
        raise RequestError(f"no command {words[0] if words else ''!r} to test with")
    begin = time.monotonic()
    contents = text_of(read_module(file)) if is_model(file) else read_input(file)
    with about(file), scratch_folder() as folder, waiting(f"reducing {file}"):
        path = os.path.join(folder, "candidate.mlir")

        def is_interesting(text: bytes) -> bool:
            with open(path, "wb") as candidate:
                candidate.write(text)
            ended = run_within([*words, path, *more], b"", Limits(test_timeout, 0), os.environ)
            if ended.code in _NOT_STARTED:
                raise RequestError(f"the test cannot run (exit status {ended.code}): {ended.errors.strip()}")
            return ended.code not in (0, None)

        if not is_interesting(contents):
            raise RequestError(
                "the file is not interesting: the test ended with status 0, or took too long; "
                "as for mlir-reduce, another status means interesting"
            )
        module = parse(contents, file, EVERY_DIALECT)
        reduction = reduce(module, is_interesting, timeout - (time.monotonic() - begin))
        text = reduction.text
    if not is_quiet():
        seconds = time.monotonic() - begin
        told = f"{len(contents)} bytes to {len(text)} in {reduction.tested} tests, {seconds:.1f} s"
        click.echo(told + (", at the time limit" if reduction.is_over else ""), file=sys.stderr)
    write(text, output)


COMMANDS = {"reduce": _reduce}
