"""size: shows the sizes of a compiled module or of a static library, by function."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from tiduc.backends.iree.elf import NO_KERNELS, Elf, is_elf, read_elf
from tiduc.backends.iree.sizes import SizeReport, sizes_of
from tiduc.backends.iree.static.header import HEAP_BYTES
from tiduc.backends.iree.wasm import is_wasm, read_wasm
from tiduc.cli.files import JSON, OUTPUT, PATH, read_input, write, write_json
from tiduc.dialect.errors import TiducError


@click.command("size")
@click.argument("file", metavar="FILE", type=PATH)
@JSON
@OUTPUT
def _size(file: str, as_data: bool, output: str) -> None:
    """Show the sizes in bytes of a module (.vmfb) or of the kernels of a static library (.o).

    Also reads .wasm files of WebAssembly, but does not list their functions.

    'buffers' is the largest number of bytes that a call of a module allocates at a time, besides arguments and
    constants. In a function with loops or branches, each instruction that allocates counts once. 'heap' is the memory
    that a call of a static library takes from malloc, as stated in NAME.h beside NAME.o; it is unknown for programs
    with loops.
    """
    contents = read_input(file)
    sizes: SizeReport | Elf
    try:
        if is_wasm(contents):
            sizes = read_wasm(contents)
        elif contents == NO_KERNELS:
            sizes = Elf("", 0, 0, 0, 0, {})
        else:
            sizes = read_elf(contents) if is_elf(contents) else sizes_of(contents, file)
    except ValueError as error:
        raise TiducError(str(error), file) from None
    heap = _heap_beside(file) if isinstance(sizes, Elf) else None
    if as_data:
        write_json(asdict(sizes) | ({"heap": heap} if isinstance(sizes, Elf) else {}), output)
        return
    rows = _of_library(sizes, len(contents), heap) if isinstance(sizes, Elf) else _of_module(sizes)
    width = max(len(f"{number:,}") for number, *_ in rows)
    write("".join(f"{number:>{width},}  {what}\n" for number, what in rows), output)


def _heap_beside(file: str) -> int | None:
    """Returns the most bytes that a call takes from malloc, from the header beside an object file.

    Returns None if there is no header, or if the header does not state the number.
    """
    header = Path(file).with_suffix(".h")
    match = HEAP_BYTES.search(header.read_text(errors="replace")) if header.is_file() else None
    return int(match[1]) if match else None


def _of_library(elf: Elf, file: int, heap: int | None) -> list[tuple[int, str]]:
    totals = [
        (file, f"file, for {elf.machine} of {elf.bits} bits" if elf.machine else "file, without kernels"),
        (elf.code, "code"),
        (elf.constants, "constant data"),
        (elf.variables, "variables"),
    ]
    if heap is not None:
        totals.append((heap, "heap of a call, at most"))
    return totals + _functions(elf.functions)


def _of_module(sizes: SizeReport) -> list[tuple[int, str]]:
    rows = [
        (sizes.file, f"file, with kernels of the format {sizes.format}"),
        (sizes.code, "kernels, with their data"),
        (sizes.constants, "constants of the program"),
        (sizes.bytecode, "bytecode of the host"),
    ]
    for name, buffers in sizes.buffers.items():
        if buffers.bytes is None:
            rows.append((0, f"buffers of {name}: some have sizes that are known at run time only"))
        else:
            where = ", all places that allocate" if buffers.branches else ""
            rows.append((buffers.bytes, f"buffers of {name}{where}"))
    return rows + _functions(sizes.kernels)


def _functions(functions: dict[str, int]) -> list[tuple[int, str]]:
    largest = sorted(functions.items(), key=lambda item: (-item[1], item[0]))
    return [(size, f"  function {name}") for name, size in largest]


COMMANDS: dict[str, Any] = {"size": _size}
