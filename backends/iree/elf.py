"""Reads the sizes of sections and functions from an ELF file, the format of kernels in modules and static libraries."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

MACHINES = {3: "x86", 40: "arm", 62: "x86_64", 183: "aarch64", 243: "riscv"}
NO_KERNELS = b"!<arch>\n"
"""The object file of a program without kernels: an archive without members, which every linker accepts."""

_ALLOCATED, _WRITTEN, _CODE, _EMPTY = 2, 1, 4, 8
_SYMBOLS, _FUNCTION = 2, 2


@dataclass(frozen=True)
class Elf:
    """Facts about an ELF file: the machine, such as `arm`, the word size in bits, and sizes in bytes.

    `code`, `constants` and `variables` are the total sizes of the sections of these kinds. `functions` maps the name of
    each function to its size.
    """

    machine: str
    bits: int
    code: int
    constants: int
    variables: int
    functions: dict[str, int]


def is_elf(data: bytes) -> bool:
    return data.startswith(b"\x7fELF")


def read_elf(data: bytes) -> Elf:
    """Reads the machine and the sizes from an ELF file. Raises `ValueError` if the file is damaged."""
    try:
        wide = data[4] == 2
        order = "<" if data[5] == 1 else ">"
        (machine,) = struct.unpack_from(f"{order}H", data, 18)
        (table,) = struct.unpack_from(f"{order}{'Q' if wide else 'I'}", data, 40 if wide else 32)
        each, count, _ = struct.unpack_from(f"{order}HHH", data, 58 if wide else 46)
        form = f"{order}IIQQQQIIQQ" if wide else f"{order}IIIIIIIIII"
        sections = [struct.unpack_from(form, data, table + i * each) for i in range(count)]
        code = constants = variables = 0
        for _, kind, flags, _, _, size, *_ in sections:
            if flags & _ALLOCATED and flags & _CODE:
                code += size
            elif flags & _ALLOCATED and flags & _WRITTEN:
                variables += size
            elif flags & _ALLOCATED and kind != _EMPTY:
                constants += size
        functions = dict(_functions(data, order, wide, sections))
    except (struct.error, IndexError) as error:
        raise ValueError(f"a damaged ELF file: {error}") from None
    return Elf(MACHINES.get(machine, str(machine)), 64 if wide else 32, code, constants, variables, functions)


def _functions(
    data: bytes, order: str, wide: bool, sections: list[tuple[int, ...]]
) -> Iterator[tuple[str, int]]:
    """Yields the name and the size in bytes of each function in the symbol table, except functions of size 0."""
    for section in sections:
        if section[1] != _SYMBOLS:
            continue
        start, size, names = section[4], section[5], sections[section[6]][4]
        form = f"{order}IBBHQQ" if wide else f"{order}IIIBBH"
        for at in range(start, start + size, struct.calcsize(form)):
            fields = struct.unpack_from(form, data, at)
            info, length = (fields[1], fields[5]) if wide else (fields[3], fields[2])
            if info & 15 == _FUNCTION and length:
                name = data[names + fields[0] : data.index(b"\0", names + fields[0])]
                yield name.decode("utf-8", "replace"), length
