"""Links static libraries into C programs that read the arguments from standard input, and runs the programs."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tiduc.backends.backend import Options
from tiduc.backends.iree.static.header import donations
from tiduc.backends.iree.static.library import compile_library
from tiduc.program import Program
from tiduc.runtime.signature import Signature, SignatureValue

COUNTED = """#include <stdlib.h>
extern size_t taken;
static inline void *counted(size_t size) { taken += size; return malloc(size); }
"""


def run_library(
    program: Program,
    arrays: Sequence[Any],
    folder: Path,
    target: str = "x86_64",
    compiler: Sequence[str] = ("gcc",),
    emulator: Sequence[str] = (),
    offset: int = 0,
) -> list[Any]:
    """Compiles a program to a static library, calls it twice, and returns the results of the second call.

    If the first call allocates more memory than the header states, the C program fails. In the second call, donated
    arguments have the values that the first call wrote. The address of each argument is a multiple of 64 plus `offset`.
    """
    library, donated = compile_library(program.lower(), "net", Options(target)), donations(program.lower())
    (folder / "net.o").write_bytes(library.kernels)
    (folder / "net.c").write_text(library.host)
    (folder / "net.h").write_text(library.header)
    (folder / "counted.h").write_text(COUNTED)
    (folder / "main.c").write_text(_main(program.signature, donated, offset))
    warnings = "-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-fsanitize=address,undefined"
    flags = warnings if target == "x86_64" else warnings[:-1]
    files = (str(folder / name) for name in ("main.c", "net.c", "net.o"))
    counting = "-include", str(folder / "counted.h"), "-DTIDUC_MALLOC=counted", "-DTIDUC_FREE=free"
    subprocess.run([*compiler, *flags, *counting, *files, "-o", str(folder / "a.out"), "-lm"], check=True)
    given = b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)
    ended = subprocess.run(
        [*emulator, str(folder / "a.out")], input=given, stdout=subprocess.PIPE, check=True
    )
    return results(program.signature, ended.stdout)


def run_thread_sanitizer(program: Path) -> None:
    """Runs a program with the thread sanitizer, which reports races.

    If the sanitizer cannot run in this address space, the test is skipped.
    """
    ended = subprocess.run([program], cwd=program.parent, capture_output=True, text=True)
    if "unexpected memory mapping" in ended.stderr:
        pytest.skip("the thread sanitizer does not run in this address space")
    assert ended.returncode == 0, ended.stderr


def results(signature: Signature, data: bytes) -> list[Any]:
    """Reads the arrays in the C program's output. The signature contains the types and shapes."""
    arrays, at = [], 0
    for value in signature.outputs:
        count = _bytes(value)
        arrays.append(np.frombuffer(data[at : at + count], value.type.dtype).reshape(value.type.shape))
        at += count
    return arrays


def _bytes(value: SignatureValue) -> int:
    assert value.type.dtype is not None
    return int(np.prod([size or 0 for size in value.type.shape], dtype=int)) * value.type.dtype.itemsize


def _main(signature: Signature, donated: Mapping[int, int], offset: int) -> str:
    inputs, outputs = ([_bytes(value) for value in side] for side in (signature.inputs, signature.outputs))
    own = {output: f"x{i}" for i, output in donated.items()}
    declared = [
        f"static _Alignas(64) unsigned char {side}{i}[{size + offset + 1}];"
        for side, sizes in (("x", inputs), ("y", outputs))
        for i, size in enumerate(sizes)
        if side == "x" or i not in own
    ]
    arguments = [f"(void *)(x{i} + {offset})" for i in range(len(inputs))]
    arguments += [f"(void *)(y{i} + {offset})" for i in range(len(outputs)) if i not in own]
    call = f"net({', '.join(arguments)})"
    reads = [f"if (fread(x{i} + {offset}, 1, {n}, stdin) != {n}) return 9;" for i, n in enumerate(inputs)]
    places = [own.get(i, f"y{i}") for i in range(len(outputs))]
    writes = [f"fwrite({y} + {offset}, 1, {n}, stdout);" for y, n in zip(places, outputs, strict=True)]
    heap = ["\n#ifdef NET_HEAP_BYTES\n  if (taken > NET_HEAP_BYTES) return 8;\n#endif\n"]
    lines = [
        *reads,
        f"int status = {call};",
        *heap,
        f"if (!status) status = {call};",
        *writes,
        "return status;",
    ]
    body = "\n  ".join(lines)
    return (
        '#include "net.h"\n#include <stdio.h>\nsize_t taken;\n'
        + "\n".join(declared)
        + f"\nint main(void) {{\n  {body}\n}}\n"
    )
