"""Reads the sizes of a WebAssembly file's sections. The file has a static library's kernels, or is a linked library."""

from tiduc.backends.iree.elf import Elf

_CODE, _DATA = 10, 11


def is_wasm(data: bytes) -> bool:
    return data.startswith(b"\0asm")


def read_wasm(data: bytes) -> Elf:
    """Returns the sizes of a WebAssembly file in bytes. The data section counts as constants; `functions` is empty.

    Raises `ValueError` for a damaged file.
    """
    sizes: dict[int, int] = {}
    at = 8
    try:
        while at < len(data):
            kind = data[at]
            size, at = _number(data, at + 1)
            sizes[kind] = sizes.get(kind, 0) + size
            at += size
    except IndexError:
        at = -1
    if at != len(data):
        raise ValueError("a damaged WebAssembly file")
    return Elf("wasm", 32, sizes.get(_CODE, 0), sizes.get(_DATA, 0), 0, {})


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Returns the unsigned integer in LEB128 encoding at position `at`, and the position after the integer."""
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            return value, at
