"""The option --emit of `tiduc compile`: modules, C code for IREE's runtime, and static libraries."""

import re
from collections.abc import Sequence
from pathlib import Path

import click

from tiduc.backends.backend import Options
from tiduc.backends.iree.static.library import compile_library
from tiduc.cli.files import write
from tiduc.dialect.errors import RequestError
from tiduc.program import Program

MODULE, C, LIBRARY = "vmfb", "c", "static-library"

EMIT = click.option(
    "--emit",
    "kind",
    type=click.Choice([MODULE, C, LIBRARY]),
    default=MODULE,
    show_default=True,
    help="What to write: a module for IREE's runtime; C code of such a module, to build with the runtime's sources; "
    "or a static library that needs no runtime: with -o NAME.o, NAME.o has the kernels, and "
    "NAME.c and NAME.h the C function NAME that calls them.",
)


def flags_for(kind: str, program: Program) -> tuple[str, ...]:
    """Flags of IREE's compiler for this kind of output.

    Raises `RequestError` if the program's name cannot be part of a name in C.
    """
    if kind != C:
        return ()
    if not re.fullmatch(r"[\w$]+", program.name, re.ASCII):
        raise RequestError(
            f"--emit c: the function {program.name!r} has a name that IREE cannot write in C: rename it"
        )
    return ("--output-format=vm-c",)


def library_files(
    program: Program, output: str, options: Options, flags: Sequence[str] = (), identity: str = ""
) -> dict[str, bytes | str]:
    """The files of a program's static library, by name; `output` is the name of the object file.

    `identity` identifies the model of a training step.
    """
    path = Path(output)
    if path.suffix != ".o":
        raise RequestError("--emit static-library needs -o NAME.o, and writes NAME.c and NAME.h beside it")
    library = compile_library(program.lower(), path.stem, options, flags, identity)
    host, header = str(path.with_suffix(".c")), str(path.with_suffix(".h"))
    package = str(path.with_name(f"{path.stem}Config.cmake"))
    return {output: library.kernels, host: library.host, header: library.header, package: library.package}


def write_library(program: Program, output: str, options: Options, flags: Sequence[str]) -> None:
    """Compiles a static library and writes its files."""
    for name, content in library_files(program, output, options, flags).items():
        write(content, name)
