"""Reads bytecode with ops of the Shardy dialect. jaxlib, which has this dialect, converts the bytecode to text.

The Python package torch-mlir lacks the Shardy dialect, and MLIR cannot read attributes of an unknown dialect in
bytecode. jaxlib runs in another process, because its copy of MLIR may conflict with that of the caller's process.
"""

import subprocess
import sys

from tiduc.dialect.errors import ParseError

_PROGRAM = """
import sys
sys.path[:] = {path!r}
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import chlo, sdy, stablehlo
contents = sys.stdin.buffer.read()
context = ir.Context()
for dialect in (chlo, sdy, stablehlo):
    dialect.register_dialect(context)
with context:
    read = stablehlo.deserialize_portable_artifact if {portable} else lambda _, contents: ir.Module.parse(contents)
    text = read(context, contents).operation.get_asm(enable_debug_info=True)
with open(1, "wb", closefd=False) as out:  # a standard output without a buffer may write only a part
    out.write(text.encode("utf-8", "surrogateescape"))
"""
_SECONDS = 120
BYTECODE = b"ML\xefR"
_VHLO, _SHARDY = b"\0vhlo\0", b"\0sdy\0"  # the names of two dialects, as bytecode stores them


def is_portable(contents: bytes) -> bool:
    """Whether the bytes are a portable artifact of StableHLO: bytecode of its versioned dialect, VHLO."""
    return contents.startswith(BYTECODE) and _VHLO in contents


def holds_shardy(contents: bytes) -> bool:
    """Whether the bytes are bytecode with ops or attributes of Shardy."""
    return contents.startswith(BYTECODE) and _SHARDY in contents


def text_by_jaxlib(contents: bytes, file: str | None) -> str:
    """Calls jaxlib to read bytecode, and returns the text of the module.

    Raises `ParseError` if jaxlib is missing, cannot read the bytecode, or needs more than two minutes.
    """
    program = _PROGRAM.format(path=sys.path, portable=is_portable(contents))
    try:
        done = subprocess.run(
            [sys.executable, "-c", program],
            input=contents,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ParseError(f"jaxlib did not read the bytecode within {_SECONDS} s", file) from None
    if done.returncode == 0:
        return done.stdout.decode("utf-8", "surrogateescape")
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["jaxlib died"]
    if any("ModuleNotFoundError" in line for line in lines):
        raise ParseError(
            "contains Shardy ops in bytecode, which jaxlib reads: pip install 'tiduc[jax]'", file
        )
    raise ParseError(f"jaxlib cannot read the bytecode: {lines[-1]}", file)
