"""Input and output of commands. A file is named by its path; `-` stands for standard input or standard output."""

import json
import os
import re
import sys
from collections.abc import Callable, Collection

import click
from torch_mlir import ir

from tiduc.cli.colours import is_coloured
from tiduc.cli.models import Command, imported, is_model, model_options, with_choices
from tiduc.cli.options import shared_options
from tiduc.dialect import progress
from tiduc.dialect.errors import RequestError, TiducError
from tiduc.dialect.mlir.context import parse, read, stage
from tiduc.dialect.mlir.emit import EMITTERS
from tiduc.dialect.ops import shardy
from tiduc.dialect.reading import read_stream
from tiduc.runtime.files import read_bytes, written_whole

_SURROGATE = re.compile("[\ud800-\udfff]")
PATH = click.Path(allow_dash=True)
"""The type of an argument that is a path. Shells complete the path; click does not check whether it exists."""


def _noted(context: click.Context, parameter: click.Parameter, file: str) -> str:
    progress.work_on(file)
    return file


_FILE = click.argument("file", metavar="FILE", type=PATH, is_eager=True, callback=_noted)


def FILE(command: Command) -> Command:
    """Adds the argument FILE, the program to read, and the options for importing models to a command."""
    return _FILE(model_options(command))


def writes(help: str) -> Callable[[Command], Command]:
    """Returns the option `--output`, which says where a command writes, with this help text."""
    return click.option(
        "-o",
        "--output",
        default="-",
        metavar="OUT",
        type=PATH,
        show_default="standard output",
        help=help,
    )


OUTPUT = writes("The file to write.")
EMIT = click.option(
    "--emit",
    "kind",
    type=click.Choice(list(EMITTERS)),
    show_default="text, or bytecode where constants are large",
    help="Output format: MLIR text, MLIR bytecode, or a StableHLO portable artifact.",
)


def _noted_json(context: click.Context, parameter: click.Parameter, value: bool) -> bool:
    if value:
        shared_options().json_errors = True
    return value


JSON = click.option(
    "--json",
    "as_data",
    is_flag=True,
    is_eager=True,
    callback=_noted_json,
    help="Print JSON, errors too.",
)
ENTRY = click.option(
    "--entry", metavar="NAME", help="The public function to process; by default main, or the only one."
)


def read_input(file: str) -> bytes:
    """Returns all bytes of a file or of standard input."""
    progress.work_on(file)
    if file != "-":
        return read_bytes(file)
    if sys.stdin is None:
        raise TiducError("standard input is closed")
    try:
        contents = read_stream(sys.stdin.buffer)
    except OSError as error:
        raise TiducError(f"cannot read: {error.strerror}", "<stdin>") from None
    progress.keep(contents)
    return contents


def read_module(file: str, contents: bytes | None = None, dialects: Collection[str] = ()) -> ir.Module:
    """Returns the `ir.Module` in a file or in standard input.

    `contents` are the bytes of the file if the caller has read them already. The module may contain unregistered ops of
    `dialects`. A model of PyTorch, ONNX or JAX is imported.
    """
    progress.work_on(file)
    if is_model(file):
        return with_choices(_with_calls(imported(file).module))
    if file != "-" and (contents is None or os.path.isfile(file)):
        return with_choices(read(file, dialects))
    name = "<stdin>" if file == "-" else file  # `contents` is parsed, because a pipe cannot be read again
    return with_choices(parse(read_input(file) if contents is None else contents, name, dialects))


@stage
def _with_calls(module: ir.Module) -> ir.Module:
    """Replaces Shardy's ops in a module by custom calls, which have derivative rules. Returns the module."""
    shardy.fold(module)
    return module


def write(data: bytes | str, output: str = "-") -> None:
    """Writes data to a file atomically, or to standard output. Raises `TiducError` if that fails.

    `--color` decides whether text keeps its colours. By default, it keeps them only on a terminal.
    """
    if isinstance(data, str):
        data = (data if shows_colours(output) else click.unstyle(data)).encode("utf-8", "surrogateescape")
    if output != "-":
        with written_whole(output) as file:
            file.write(data)
        return
    if sys.stdout is None:
        raise TiducError("standard output is closed")
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        # The reader has closed the pipe. Without the next line, Python would report an error when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise click.exceptions.Exit(141) from None
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise TiducError(f"cannot write: {error.strerror}", "<stdout>") from None


def write_json(data: object, output: str = "-") -> None:
    r"""Writes data as JSON.

    A name may contain a byte that is not UTF-8. Such a byte becomes an escape such as "\udcff", which Python can read.
    """
    text = json.dumps(data, indent=2, ensure_ascii=False)
    write(_SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", text) + "\n", output)


def shows_colours(output: str) -> bool:
    """Whether text written to `output` may be coloured."""
    return output == "-" and is_coloured(sys.stdout)


def is_terminal(output: str) -> bool:
    """Whether `output` is standard output and a terminal."""
    return output == "-" and sys.stdout is not None and sys.stdout.isatty()


def write_binary(data: bytes, output: str) -> None:
    """Writes data as `write` does. Raises `RequestError` if the output is a terminal."""
    if is_terminal(output):
        raise RequestError("standard output is a terminal and the output is binary; name a file with -o")
    write(data, output)
