"""The option --emit of `tiduc compile`. It chooses between modules, C code for IREE's runtime, and static libraries."""

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import click

from tiduc.backends.backend import Options
from tiduc.backends.iree.build import build
from tiduc.backends.iree.static.library import compile_library
from tiduc.cli.files import write, write_binary
from tiduc.dialect.errors import RequestError
from tiduc.program import Program

MODULE, C, LIBRARY = "vmfb", "c", "static-library"
BOTH = f"{MODULE},{LIBRARY}"

EMIT = click.option(
    "--emit",
    "kind",
    type=click.Choice([MODULE, C, LIBRARY, BOTH]),
    default=MODULE,
    show_default=True,
    help="What to write: a module for IREE's runtime; C code of such a module, to build with the runtime's sources; "
    "or a static library that needs no runtime: with -o NAME.o, NAME.o has the kernels, and "
    "NAME.c and NAME.h the C function NAME that calls them. A module and a library together take less time than "
    "separately; the module is then NAME.vmfb.",
)

FINITE = click.option(
    "--assume-finite",
    "finite",
    is_flag=True,
    help="In a static library of scalar ops, assume that all numbers and the reciprocals of denominators are finite. "
    "Products with a constant zero are then zero, as in CasADi, and derivatives are multiplied by reciprocals that "
    "they share. The code is shorter and faster, but wrong if a number is infinite or NaN.",
)


def compiled_files(
    program: Program,
    kind: str,
    output: str,
    options: Options,
    flags: Sequence[str] = (),
    parameters: Sequence[str] = (),
    *,
    identity: str = "",
    folder: str | None = None,
    tell: Callable[[str], None] | None = None,
) -> dict[str, bytes | str]:
    """Compiles a program. Returns the contents of the output files by file name. `output` is the name of the first
    file.

    `identity` is a text that identifies the model of a training step. The other arguments are those of `build`. Raises
    `RequestError` if the kind does not fit the name of the file, the parameters, or the program's name.
    """
    if kind != MODULE and parameters:
        raise RequestError(f"--parameters is for modules: there is no archive with --emit {kind}")
    if options.finite and kind not in (LIBRARY, BOTH):
        raise RequestError(f"--assume-finite is for static libraries: --emit {kind} ignores it")
    if kind not in (LIBRARY, BOTH):
        every = *_flags_for(kind, program), *flags
        return {output: build(program.lower(), options, every, parameters, folder=folder, tell=tell)}
    path = Path(output)
    if path.suffix != ".o":
        raise RequestError(f"--emit {kind} needs -o NAME.o, and writes NAME.c and NAME.h beside it")
    library = compile_library(
        program.lower(),
        path.stem,
        options,
        flags,
        identity,
        beside_module=kind == BOTH,
        folder=folder,
        tell=tell,
    )
    files: dict[str, bytes | str] = {
        output: library.kernels,
        str(path.with_suffix(".c")): library.host,
        str(path.with_suffix(".h")): library.header,
        str(path.with_name(f"{path.stem}Config.cmake")): library.package,
    }
    return files | ({str(path.with_suffix(".vmfb")): library.module} if kind == BOTH else {})


def write_files(files: Mapping[str, bytes | str]) -> None:
    """Writes the contents of each file under its name."""
    for name, content in files.items():
        if isinstance(content, bytes):
            write_binary(content, name)
        else:
            write(content, name)


def _flags_for(kind: str, program: Program) -> tuple[str, ...]:
    """Returns the flags of IREE's compiler for this kind of output.

    Raises `RequestError` if the kind is C code, and the program's name cannot be part of a name in C.
    """
    if kind != C:
        return ()
    if not re.fullmatch(r"[\w$]+", program.name, re.ASCII):
        raise RequestError(
            f"--emit c: the function {program.name!r} has a name that IREE cannot write in C: rename it"
        )
    return ("--output-format=vm-c",)
