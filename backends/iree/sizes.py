"""Reads the sizes of a compiled module: its code and constants, and the bytecode and buffers of each function.

IREE's tool `iree-dump-module` lists the functions of the virtual machine. The kernels are ELF files in the module, if
the module is a zip archive.
"""

import io
import re
import subprocess
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from tiduc.backends.iree.elf import is_elf, read_elf
from tiduc.dialect.errors import TiducError
from tiduc.runtime.process import scratch_folder

_FUNCTION = re.compile(r"^vm\.func @([^(\n]*)\(([^}]*)^\}", re.M)
_RODATA = re.compile(r"^  \.rodata\[ *\d+\] (embedded|external) +(\d+) bytes(?: `(.*?)`)?", re.M)
_ROW = re.compile(r"^ *(\d+) \| [0-9A-F]{8} \| +(\d+) \|.*\| ?(.*)$", re.M)
_CONSTANT = re.compile(r"%i(\d+)(?::\d+)? = vm\.const\.i(?:32|64) (-?\d+)")
_DEFINED = re.compile(r"%([ir])(\d+)(?::\d+)? = ")
_ALLOCATED = re.compile(r"%r(\d+) = vm\.call @hal\.device\.queue\.alloca\((.*)\)")
_FREED = re.compile(r"vm\.call @hal\.device\.queue\.dealloca\((.*)\)")


@dataclass(frozen=True)
class Buffers:
    """The buffers that one call of a function allocates, without arguments and constants.

    `bytes` is the largest number of bytes in use at the same time, or None if a size is known only at run time.
    `branches` says whether the function has loops or branches. For such a function, `bytes` is instead the sum over all
    ops that allocate, each counted once, although an op in a loop may run many times.
    """

    bytes: int | None
    branches: bool


@dataclass(frozen=True)
class SizeReport:
    """The sizes in bytes of a module's file, code, constants, bytecode and kernels, and the buffers of each function.

    `functions` maps each function of the virtual machine to the size of its bytecode.
    """

    file: int
    format: str  # the format of the kernels, such as system-elf-arm_64
    code: int
    kernels: dict[str, int]
    constants: int
    bytecode: int
    functions: dict[str, int]
    buffers: dict[str, Buffers]


def sizes_of(contents: bytes, name: str = "") -> SizeReport:
    """Returns the sizes of a module. Raises `TiducError`, which names `name`, if the bytes are not a module."""
    listing = _listing(contents, name)
    formats = [text for _, _, text in _RODATA.findall(listing) if _is_format(text)]
    kernels: dict[str, int] = {}
    code = constants = 0
    for part, data in _parts(contents):
        if is_elf(data):
            elf = read_elf(data)
            code += elf.code + elf.constants + elf.variables
            kernels |= elf.functions
        elif part.startswith("_const"):
            constants += len(data)
        elif part != "module.fb":
            code += len(data)
    functions = {name or f"#{number}": int(size) for number, size, name in _ROW.findall(listing)}
    exported = functions.keys() - {"__init"}
    buffers = {called: _buffers(body) for called, body in _FUNCTION.findall(listing) if called in exported}
    bytecode = sum(functions.values())
    kind = formats[0] if formats else "none"
    return SizeReport(len(contents), kind, code, kernels, constants, bytecode, functions, buffers)


def _is_format(text: str) -> bool:
    return text.startswith(("system-", "embedded-", "vmvx-", "cuda-", "rocm-", "vulkan-", "metal-", "static"))


def _parts(contents: bytes) -> Sequence[tuple[str, bytes]]:
    """Returns the name and contents of each file in a module that is an archive. Empty for any other module."""
    if not contents.startswith(b"PK\x03\x04"):
        return ()
    with zipfile.ZipFile(io.BytesIO(contents)) as archive:
        return [(part.filename, archive.read(part)) for part in archive.infolist()]


def _listing(contents: bytes, name: str) -> str:
    libraries = find_spec("iree._runtime_libs")
    assert libraries is not None and libraries.submodule_search_locations is not None
    tool = Path(libraries.submodule_search_locations[0]) / "iree-dump-module"
    with scratch_folder() as folder:
        path = Path(folder) / "module.vmfb"
        path.write_bytes(contents)
        ended = subprocess.run([tool, path], capture_output=True, text=True, errors="replace", timeout=600)
    if ended.returncode:
        raise TiducError("not a compiled module, or a damaged one", name)
    return ended.stdout


def _buffers(body: str) -> Buffers:
    """Returns the buffers of a function. `body` is the function's code in the listing.

    The sizes are those that the function passes to `hal.device.queue.alloca`. `bytes` is None if a size is not a
    constant, or if a call that allocates or frees does not match the patterns.
    """
    branches = _branches(body)
    calls = body.count("@hal.device.queue.alloca("), body.count("@hal.device.queue.dealloca(")
    if calls != (len(_ALLOCATED.findall(body)), len(_FREED.findall(body))):
        return Buffers(None, branches)
    constants: dict[str, int] = {}
    held: dict[str, int] = {}
    total = now = peak = 0
    for line in body.splitlines():
        if match := _ALLOCATED.search(line):
            size = constants.get(_registers(match[2])[7])
            if size is None:
                return Buffers(None, branches)
            held[match[1]] = size
            total, now = total + size, now + size
            peak = max(peak, now)
        elif match := _FREED.search(line):
            now -= held.pop(_registers(match[1])[4], 0)
        elif match := _CONSTANT.search(line):
            constants[match[1]] = int(match[2])
        elif ".zero" in line and (match := _DEFINED.search(line)):
            constants[match[2]] = 0
        elif match := _DEFINED.search(line):
            constants.pop(match[2], None) if match[1] == "i" else None
    return Buffers(total if branches else peak, branches)


def _branches(body: str) -> bool:
    """Whether a function has loops or branches. Branches to a block that ends in `vm.fail` do not count."""
    blocks = re.split(r"^\^bb\d+.*:$", body, flags=re.M)[1:]
    failing = {i for i, block in enumerate(blocks) if "vm.fail" in block}
    for i, block in enumerate(blocks):
        targets = {int(number) for number in re.findall(r"\^bb(\d+)", block)} - failing
        if len(targets) > 1 or any(target <= i for target in targets):
            return True
    return False


def _registers(operands: str) -> list[str]:
    """The numbers of the registers in an instruction's list of operands, as strings of digits."""
    return [re.sub(r"\D", "", operand) for operand in operands.split(",")]
