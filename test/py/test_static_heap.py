"""The memory that calls of static libraries use: the bytes of heap that the header states, blocks that are kept between
calls, and calls that use a buffer of the caller.
"""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cases.static_programs import LAYER, LOOP
from harness.static_libraries import results, run_library

from tiduc.backends.backend import Options
from tiduc.backends.iree.objects import ObjectFile
from tiduc.backends.iree.static.library import compile_library
from tiduc.loading import load
from tiduc.runtime.process import Ended


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler")
def test_constants_in_the_file_leave_the_heap_known(tmp_path: Path) -> None:
    """If constants are stored in the object file, the header still states the bytes of heap.

    The function that finds the constants has branches; the header counts the bytes of all branches.
    """
    numbers = ", ".join(f"{i % 7}.5" for i in range(400))
    program = load(f"""func.func @main(%x: tensor<400xf32>) -> tensor<400xf32> {{
      %c = stablehlo.constant dense<[{numbers}]> : tensor<400xf32>
      %0 = stablehlo.add %x, %c : tensor<400xf32>
      %1 = stablehlo.tanh %0 : tensor<400xf32>
      return %1 : tensor<400xf32>
    }}""")
    x = np.linspace(-9, 0, 400, dtype=np.float32)
    (found,) = run_library(program, (x,), tmp_path)
    np.testing.assert_allclose(found, np.tanh(x + np.arange(400) % 7 + 0.5), atol=1e-5)
    assert "goto b1" in (tmp_path / "net.c").read_text()
    assert "NET_HEAP_BYTES" in (tmp_path / "net.h").read_text()


@pytest.mark.more
@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler")
def test_the_local_memory_of_kernels_is_heap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes of heap in the header include the local memory of kernels, which IREE allocates in whole pages.

    The test program measures the memory of the first call.
    """
    reached = ObjectFile.reached

    def with_local_memory(self: ObjectFile, *given: Any) -> Ended:
        *others, text = given
        stated = re.sub(rb"(<workgroup_size = [^>]*)>", rb"\1, workgroup_local_memory = 5000>", text)
        return reached(self, *others, stated)

    monkeypatch.setattr(ObjectFile, "reached", with_local_memory)
    program = load("""func.func @main(%x: tensor<40xf32>) -> tensor<40xf32> {
      %0 = stablehlo.tanh %x : tensor<40xf32>
      return %0 : tensor<40xf32>
    }""")
    x = np.linspace(-2, 2, 40, dtype=np.float32)
    (found,) = run_library(program, (x,), tmp_path)
    np.testing.assert_allclose(found, np.tanh(x), atol=1e-5)
    stated = re.search(r"NET_HEAP_BYTES (\d+)", (tmp_path / "net.h").read_text())
    assert stated is not None and 8192 <= int(stated[1]) < 9000


KEEPING = """#include "net.h"
#include <stdio.h>
#include <stdlib.h>
int blocks;
int main(void) {
  static _Alignas(64) float x[512], y[512];
  for (int i = 0; i < 512; i++) x[i] = (float)i / 512;
  for (int i = 0; i < 3; i++) {
    int status = net(x, y);
    printf("%d %d %.3f ", status, blocks, y[511]);
  }
  return 0;
}
"""
ALLOCATING = """#include <stdlib.h>
extern int blocks;
static inline void *counted(size_t size) { blocks++; return malloc(size); }
"""


@pytest.mark.more
@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler")
def test_large_blocks_are_kept_for_the_next_call(tmp_path: Path) -> None:
    """If a library keeps its memory for the next call, only the first call allocates memory.

    Otherwise, each call does.
    """
    program = load("""func.func @main(%x: tensor<512xf32>) -> tensor<512xf32> {
      %0 = stablehlo.reverse %x, dims = [0] : tensor<512xf32>
      %1 = stablehlo.optimization_barrier %0 : tensor<512xf32>
      %2 = stablehlo.tanh %1 : tensor<512xf32>
      %3 = stablehlo.reverse %2, dims = [0] : tensor<512xf32>
      return %3 : tensor<512xf32>
    }""")
    library = compile_library(program.lower(), "net", Options("x86_64"))
    files = {"net.o": library.kernels, "net.c": library.host, "net.h": library.header}
    for name, text in {**files, "main.c": KEEPING, "counted.h": ALLOCATING}.items():
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    flags = "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsanitize=address,undefined"
    counting = "-include", "counted.h", "-DTIDUC_MALLOC=counted", "-DTIDUC_FREE=free"
    counts = {}
    for kept in ("64", "INT64_MAX"):
        files_ = "main.c", "net.c", "net.o", "-o", "main", "-lm"
        command = ["gcc", *flags, *counting, f"-DTIDUC_KEPT={kept}", *files_]
        subprocess.run(command, cwd=tmp_path, check=True)
        told = subprocess.run(
            ["./main"], cwd=tmp_path, check=True, stdout=subprocess.PIPE, text=True
        ).stdout.split()
        assert told[::3] == ["0"] * 3 and told[2::3] == ["0.761"] * 3
        counts[kept] = [int(n) for n in told[1::3]]
    first, second, third = counts["64"]
    assert 0 < first == second == third
    assert counts["INT64_MAX"] == [first, 2 * first, 3 * first]


IN_BUFFER = """#include "net.h"
#include <stdio.h>
#include <stdlib.h>
#ifdef NET_HEAP_BYTES
enum { SIZE = NET_HEAP_BYTES };
#else
enum { SIZE = 1 << 16 };
#endif
void *__wrap_malloc(size_t size) { (void)size; abort(); }
void __wrap_free(void *block) { (void)block; abort(); }
int main(void) {
  static _Alignas(64) unsigned char memory[SIZE + 9];
  static DECLARED;
  READ
  for (int i = 0; i < 3; i++) {
    for (int j = SIZE; j < SIZE + 9; j++) memory[j] = 7;
    if (net_call_in(memory + 1, SIZE, ARGUMENTS)) return 1;
    if (memory[SIZE + 1] != 7) return 2;
  }
  if (net_call_in(memory, SIZE > 1000 ? 200 : 0, ARGUMENTS) != 1) return 3;
  if (net_call_in(NULL, SIZE, ARGUMENTS) != 1) return 4;
  if (net_call_in(memory, SIZE, ARGUMENTS)) return 5;
  WRITE
  return 0;
}
"""


@pytest.mark.more
@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler")
@pytest.mark.parametrize(
    "text, wrt, arguments",
    [
        (LAYER, "w", "float x0[48], x1[24], y0[1], y1[48]"),
        (LOOP, "x", "double x0[5]; static int32_t x1[1]; static double y0[1], y1[5]"),
    ],
    ids=["layer", "loop"],
)
def test_a_call_in_a_buffer_takes_no_memory(tmp_path: Path, text: str, wrt: str, arguments: str) -> None:
    """A call with a buffer of the size that the header states allocates no memory, even if the buffer's address is odd.

    A call with a smaller buffer returns 1.
    """
    gradient = load(text).grad(wrt, value=True)
    library = compile_library(gradient.lower(), "net", Options("x86_64"))
    main = IN_BUFFER.replace("DECLARED", arguments).replace("ARGUMENTS", "x0, x1, y0, y1")
    for word, call, file, names in (
        ("READ", "fread", "stdin", "x0 x1"),
        ("WRITE", "fwrite", "stdout", "y0 y1"),
    ):
        lines = (f"if ({call}({x}, sizeof {x}, 1, {file}) != 1) return 9;" for x in names.split())
        main = main.replace(word, "\n  ".join(lines))
    files = {"net.o": library.kernels, "net.c": library.host, "net.h": library.header, "main.c": main}
    for name, data in files.items():
        (tmp_path / name).write_bytes(data if isinstance(data, bytes) else data.encode())
    warnings = "-std=c11", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror"
    wrapped = "-Wl,--wrap=malloc,--wrap=free"
    subprocess.run(
        ["gcc", *warnings, wrapped, "main.c", "net.c", "net.o", "-lm", "-o", "main"], cwd=tmp_path, check=True
    )
    rng = np.random.default_rng(0)
    arrays = [np.asarray(rng.standard_normal(x.type.shape), x.type.dtype) for x in gradient.signature.inputs]
    if text == LOOP:
        arrays[1] = np.array(17, np.int32)
    given = b"".join(x.tobytes() for x in arrays)
    told = subprocess.run(["./main"], cwd=tmp_path, input=given, check=True, stdout=subprocess.PIPE).stdout
    wanted = gradient.compile(engine="reference")(*arrays)
    for found, y in zip(results(gradient.signature, told), wanted, strict=True):
        np.testing.assert_allclose(found, y, rtol=1e-4, atol=1e-5)
