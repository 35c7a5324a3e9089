"""Static libraries run without IREE's runtime, and the object file of each target is for that target's machine."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cases.random_numbers import DROPOUTS, seed
from cases.static_programs import LAYER, LOOP
from harness.example_files import EXAMPLES
from harness.sources import source_of
from harness.static_libraries import run_library
from harness.variants import AVX512

from tiduc.backends.backend import CALLBACK, Options
from tiduc.backends.iree.compile import compile_first
from tiduc.backends.iree.elf import read_elf
from tiduc.backends.iree.objects import ObjectFile
from tiduc.backends.iree.static.header import HEAP_BYTES, donations
from tiduc.backends.iree.static.library import compile_library
from tiduc.cli import run
from tiduc.dialect.errors import RequestError
from tiduc.dialect.mlir.context import parse
from tiduc.loading import load
from tiduc.program import Program, from_module

RUN_WEBASSEMBLY = """
import sys, wasmtime
store = wasmtime.Store(engine := wasmtime.Engine())
system = wasmtime.WasiConfig()
system.inherit_stdin(), system.inherit_stdout()
store.set_wasi(system)
linker = wasmtime.Linker(engine)
linker.define_wasi()
try:
    linker.instantiate(store, wasmtime.Module.from_file(engine, sys.argv[1])).exports(store)["_start"](store)
except wasmtime.ExitTrap as ended:
    sys.exit(ended.code)
"""


def program(text: str) -> Program:
    return from_module(parse(text))


RNG = np.random.default_rng(0)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler")
@pytest.mark.parametrize(
    "text, wrt, arrays",
    [
        (LAYER, "w", (RNG.standard_normal((16, 3), np.float32), RNG.standard_normal((8, 3), np.float32))),
        pytest.param(
            LOOP, "x", (RNG.standard_normal(5), np.array(37, np.int32)), marks=pytest.mark.slow
        ),  # fmt: skip
    ],
)
def test_a_library_runs_as_the_reference(tmp_path: Path, text: str, wrt: str, arrays: tuple) -> None:
    """A library computes the gradients of the reference engine.

    Sanitizers report no reads outside of arrays, no leaks and no misaligned accesses.
    """
    gradient = program(text).grad(wrt, value=True)
    expected = gradient.compile(engine="reference")(*arrays)
    for found, wanted in zip(run_library(gradient, arrays, tmp_path, offset=8), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    # The header states the heap, because the loops of LOOP are in kernels.
    assert "NET_HEAP_BYTES" in (tmp_path / "net.h").read_text()


SWAPPED = """func.func @main(%a: tensor<300xf32> {tidu.name = "a", iree.abi.output = 1 : index},
    %b: tensor<300xf32> {tidu.name = "b", iree.abi.output = 3 : index}, %c: tensor<300xf32>)
    -> (tensor<300xf32>, tensor<300xf32>, tensor<300xf32>, tensor<300xf32>) {
  %0 = stablehlo.add %a, %c : tensor<300xf32>
  return %a, %b, %0, %a : tensor<300xf32>, tensor<300xf32>, tensor<300xf32>, tensor<300xf32>
}"""
DONATED = """func.func @main(%i: tensor<i32> {iree.abi.output = 0 : index},
    %x: tensor<500xf32> {iree.abi.output = 1 : index}, %n: tensor<i32>)
    -> (tensor<i32>, tensor<500xf32>, tensor<500xf32>) {
  %one = stablehlo.constant dense<1> : tensor<i32>
  %table = stablehlo.constant dense_resource<table> : tensor<500xf32>
  %r:2 = stablehlo.while(%j = %i, %a = %x) : tensor<i32>, tensor<500xf32>
  cond {
    %c = stablehlo.compare LT, %j, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %s = stablehlo.sine %a : tensor<500xf32>
    %t = stablehlo.add %s, %table : tensor<500xf32>
    %k = stablehlo.add %j, %one : tensor<i32>
    stablehlo.return %k, %t : tensor<i32>, tensor<500xf32>
  }
  %d = stablehlo.subtract %r#1, %x : tensor<500xf32>
  return %r#0, %r#1, %d : tensor<i32>, tensor<500xf32>, tensor<500xf32>
}
{-#
  dialect_resources: { builtin: { table: "0x04000000TABLE" } }
#-}"""
TABLE = RNG.standard_normal(500, np.float32)
BUFFERED = """func.func @main(%w: tensor<40x30xf32> {iree.abi.output = 1 : index}, %x: tensor<8x40xf32>)
    -> (tensor<8x30xf32>, tensor<40x30xf32>) {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<8x40xf32>, tensor<40x30xf32>) -> tensor<8x30xf32>
  %1 = stablehlo.dot_general %x, %0, contracting_dims = [0] x [0]
    : (tensor<8x40xf32>, tensor<8x30xf32>) -> tensor<40x30xf32>
  %2 = stablehlo.constant dense<1.0e-3> : tensor<40x30xf32>
  %3 = stablehlo.multiply %1, %2 : tensor<40x30xf32>
  %4 = stablehlo.subtract %w, %3 : tensor<40x30xf32>
  return %0, %4 : tensor<8x30xf32>, tensor<40x30xf32>
}"""


@pytest.mark.more
@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler")
@pytest.mark.parametrize("offset", [0, 8])
@pytest.mark.parametrize(
    "text, arrays",
    [
        pytest.param(SWAPPED, [RNG.standard_normal(300, np.float32) for _ in range(3)], id="swapped"),
        pytest.param(
            DONATED.replace("TABLE", TABLE.tobytes().hex()),
            [np.array(0, np.int32), RNG.standard_normal(500, np.float32), np.array(5, np.int32)],
            id="a loop and a resource",
        ),
        pytest.param(
            BUFFERED, [RNG.standard_normal(sizes, np.float32) for sizes in ((40, 30), (8, 40))], id="a step"
        ),
    ],
)
def test_donated_arguments_are_updated(tmp_path: Path, text: str, arrays: list, offset: int) -> None:
    """Donated arguments are updated in place: the second call reads the values that the first call has written."""
    step = load(text)
    wanted = step.compile(engine="reference")
    given = list(arrays)
    for _ in range(2):
        results = wanted(*given)
        for i, output in donations(step.lower()).items():
            given[i] = results[output]
    found = run_library(step, arrays, tmp_path, offset=offset)
    for x, y in zip(found, results, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-5)
    header = (tmp_path / "net.h").read_text()
    assert header.count("which the call updates") == len(donations(step.lower()))


@pytest.mark.more
def test_arrays_of_a_library_are_placed_by_size() -> None:
    """tiduc places the arrays of a library so that a call needs little heap:

    75,264 bytes instead of 82,944 with IREE's placement.
    """
    gradient = load(EXAMPLES / "mlp_f32.mlir").grad(value=True)
    heap = HEAP_BYTES.search(compile_library(gradient.lower(), "net", Options()).header)
    assert heap is not None and int(heap[1]) < 80_000


@pytest.mark.more
def test_a_library_with_placed_arrays_has_kernels() -> None:
    """A library with both placed arrays and tiduc's kernels of matrix products compiles at the first attempt, without a
    fallback.
    """
    text = """func.func @main(%x: tensor<128x128xf32>) -> tensor<128x128xf32> {
      %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0]
        : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32>
      %1 = stablehlo.tanh %0 : tensor<128x128xf32>
      %2 = stablehlo.dot_general %1, %x, contracting_dims = [1] x [0]
        : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32>
      return %2 : tensor<128x128xf32>
    }"""
    program = load(text)
    source = source_of(program, AVX512)
    assert source.places and source.workgroups
    file = ObjectFile("net", check=lambda _: None)
    compile_first([source], file=file)
    assert file.objects is not None
    for name in source.workgroups:
        assert name.removesuffix("_workgroup").encode() in file.objects.kernels


def test_random_numbers(tmp_path: Path) -> None:
    """The random numbers of a library equal those of the compiled module bit for bit."""
    drawing = load(DROPOUTS)
    arrays = np.ones(4, np.float32), seed()
    for x, y in zip(run_library(drawing, arrays, tmp_path), drawing(*arrays), strict=True):
        np.testing.assert_array_equal(x, y)


EMULATED = {
    "aarch64": ("aarch64-linux-gnu-gcc", ("qemu-aarch64",)),
    "riscv64": ("riscv64-linux-gnu-gcc", ("qemu-riscv64",)),
    "riscv64:v": ("riscv64-linux-gnu-gcc", ("qemu-riscv64", "-cpu", "rv64,v=true,vext_spec=v1.0")),
    "x86_64:x86-64-v2": ("gcc", ("qemu-x86_64", "-cpu", "Nehalem")),
    "x86_64:x86-64-v3": ("gcc", ("qemu-x86_64", "-cpu", "max")),
}
"""For each target, the C compiler and the emulator of Linux programs. In QEMU 7.2, only the CPU `max` has AVX2."""


@pytest.mark.slow
@pytest.mark.more
@pytest.mark.parametrize("target", EMULATED)
def test_a_library_runs_on_another_cpu(tmp_path: Path, target: str) -> None:
    """A library for another CPU computes the reference's values on an emulator of that CPU.

    QEMU would end the program at an instruction that the CPU lacks.
    """
    compiler, emulator = EMULATED[target]
    for tool in (compiler, emulator[0]):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    gradient = program(LAYER).grad("w", value=True)
    arrays = RNG.standard_normal((16, 3), np.float32), RNG.standard_normal((8, 3), np.float32)
    found = run_library(gradient, arrays, tmp_path, target, (compiler, "-static"), emulator)
    for x, wanted in zip(found, gradient.compile(engine="reference")(*arrays), strict=True):
        np.testing.assert_allclose(x, wanted, rtol=1e-4, atol=1e-5)
    drawing, arrays = load(DROPOUTS), (np.ones(4, np.float32), seed())
    found = run_library(drawing, arrays, tmp_path, target, (compiler, "-static"), emulator)
    for x, wanted in zip(found, drawing(*arrays), strict=True):
        np.testing.assert_array_equal(x, wanted)


@pytest.mark.slow
def test_a_library_runs_as_webassembly(tmp_path: Path) -> None:
    """The gradient of a loop, linked by clang for WebAssembly and run outside a browser, has the reference's values."""
    pytest.importorskip("wasmtime"), pytest.importorskip("ziglang")
    gradient, arrays = program(LOOP).grad("x", value=True), (RNG.standard_normal(5), np.array(37, np.int32))
    compiler = (sys.executable, "-m", "ziglang", "cc", "--target=wasm32-wasi")
    found = run_library(
        gradient, arrays, tmp_path, "wasm32", compiler, (sys.executable, "-c", RUN_WEBASSEMBLY)
    )
    for x, y in zip(found, gradient.compile(engine="reference")(*arrays), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12)


@pytest.mark.slow
def test_a_page_runs_in_chromium(tmp_path: Path) -> None:
    pytest.importorskip("PyQt6.QtWebEngineCore", exc_type=ImportError), pytest.importorskip("ziglang")
    command = [sys.executable, str(EXAMPLES / "in_a_browser.py"), str(tmp_path / "net.html"), "--run"]
    by_iree, by_chromium = subprocess.run(
        command, check=True, capture_output=True, text=True
    ).stdout.splitlines()
    assert by_chromium.startswith("Chromium: status 0,") and by_iree.startswith(
        "IREE's runtime: sums: 1.39350 "
    )
    assert by_chromium.rpartition("sums: ")[2] == by_iree.rpartition("sums: ")[2]


@pytest.mark.parametrize(
    "target, machine, bits",
    [
        pytest.param("riscv32", "riscv", 32, marks=pytest.mark.slow),
        ("wasm32", None, 32),
        pytest.param("aarch64", "aarch64", 64, marks=pytest.mark.slow),
        pytest.param("armv7", "arm", 32, marks=pytest.mark.slow),
        pytest.param("riscv64", "riscv", 64, marks=pytest.mark.slow),
    ],
)
def test_the_kernels_are_for_the_target(target: str, machine: str | None, bits: int) -> None:
    library = compile_library(program(LAYER).lower(), "net", Options(target))
    assert "int net(const float *w, const float *x, float *result0);" in library.header
    if machine is None:
        assert library.kernels.startswith(b"\0asm")
        return
    elf = read_elf(library.kernels)
    assert (elf.machine, elf.bits) == (machine, bits)
    assert any("matmul" in name for name in elf.functions) and sum(elf.functions.values()) <= elf.code


@pytest.mark.parametrize(
    "text, name, options, words",
    [
        (LAYER, "net", Options("cuda"), "IREE writes them for CPUs only"),
        (LAYER, "main", Options("x86_64"), "'main' cannot name a function in C"),
        (LAYER, "net", Options("x86_64", CALLBACK), "cannot call LAPACK on the host"),
        ("func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> { return %x : tensor<?xf32> }", "net",
         Options("x86_64"), "x: .xf32 has a dynamic shape"),
    ],
)  # fmt: skip
def test_refusals(text: str, name: str, options: Options, words: str) -> None:
    with pytest.raises(RequestError, match=words):
        compile_library(program(text).lower(), name, options)


def test_files_and_sizes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "f.mlir").write_text(LAYER)
    file, net, module = (str(tmp_path / name) for name in ("f.mlir", "net.o", "f.vmfb"))
    static = ["compile", file, "--target", "cortex-m4", "--emit", "static-library"]
    assert run(static) == 1 and "-o NAME.o" in capsys.readouterr().err
    assert run([*static, "-o", net]) == 0
    names = ["f.mlir", "net.c", "net.h", "net.o", "netConfig.cmake"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    assert run(["size", net]) == 0
    shown = capsys.readouterr().out
    assert "file, for arm of 32 bits" in shown and "heap of a call, at most" in shown
    assert run(["compile", file, "--target", "wasm32", "--emit", "static-library", "-o", net]) == 0
    assert run(["size", net]) == 0 and "file, for wasm of 32 bits" in capsys.readouterr().out
    assert run(["compile", file, "--target", "aarch64", "-o", module]) == 0
    assert run(["size", module, "--json"]) == 0
    sizes = json.loads(capsys.readouterr().out)
    assert sizes["format"] == "system-elf-arm_64" and sizes["file"] == (tmp_path / "f.vmfb").stat().st_size
    # The buffers contain the product of 8x16 floats and the result. Each takes a multiple of 64 bytes.
    assert 512 + 4 <= sizes["buffers"]["main"]["bytes"] <= 4096
    assert run(["size", file]) == 1 and "not a compiled module" in capsys.readouterr().err
    assert run(["run", module, "--input", "zeros"]) == 1
    assert "was compiled for aarch64 (system-elf-arm_64)" in capsys.readouterr().err
    assert run(["compile", file, "--target", "cortex-m4", "-o", module]) == 1
    assert "--emit static-library" in capsys.readouterr().err


def test_c_code_for_the_runtime(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--emit c` writes IREE's virtual machine code as C.

    The tests cannot compile it, because IREE's wheels contain no headers.
    """
    (tmp_path / "f.mlir").write_text(LOOP)
    file, code = str(tmp_path / "f.mlir"), tmp_path / "f.c"
    assert run(["compile", file, "--emit", "c", "-o", str(code)]) == 0
    text = code.read_text()
    assert '#include "iree/vm/api.h"' in text and "iree_status_t module_create(" in text
    assert run(["compile", file, "--emit", "c", "--target", "cortex-m4"]) == 1
    assert "--emit static-library" in capsys.readouterr().err
    assert run(["compile", file, file, "--emit", "c", "-o", str(tmp_path)]) == 1
    assert "--emit c needs a single FILE" in capsys.readouterr().err
    (tmp_path / "g.mlir").write_text(LOOP.replace("@main", '@"f\\22g"'))
    assert run(["compile", str(tmp_path / "g.mlir"), "--emit", "c", "-o", str(code)]) == 1
    assert "the function 'f\"g' has a name that IREE cannot write in C" in capsys.readouterr().err
