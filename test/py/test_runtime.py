"""Compiled modules on IREE: values of every dtype, and an error message for each possible failure."""

import io
import os
import re
import sys
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import iree.runtime as rt
import ml_dtypes
import numpy as np
import pytest
from harness.vulkan import skip_without_device
from iree.runtime.dtypes import map_dtype_to_hal_element_type

from tiduc.backends.iree.compile import compile_module
from tiduc.backends.iree.targets import TARGETS
from tiduc.dialect.errors import InputError, RequestError, TiducError
from tiduc.runtime import devices
from tiduc.runtime.devices import open_device
from tiduc.runtime.run import Executable, run_module
from tiduc.runtime.signature import (
    ELEMENTS,
    Signature,
    SignatureValue,
    TensorType,
    from_declaration,
    from_reflection,
    reflection,
)

SIGNATURE = Signature(
    (SignatureValue("x", TensorType((2, 3), "f64")), SignatureValue("é \"'", TensorType((2,), "i1"))),
    (SignatureValue("y", TensorType((2, 3), "f64")), SignatureValue("not", TensorType((2,), "i1"))),
)
MAIN = """
func.func @main(%x: tensor<2x3xf64>, %p: tensor<2xi1>) -> (tensor<2x3xf64>, tensor<2xi1>)
    attributes {iree.reflection = {"tiduc.signature" = "JSON"}} {
  %y = stablehlo.sine %x : tensor<2x3xf64>
  %q = stablehlo.not %p : tensor<2xi1>
  return %y, %q : tensor<2x3xf64>, tensor<2xi1>
}
func.func @same(%x: tensor<2xf32>) -> tensor<2xf32> {
  return %x : tensor<2xf32>
}
func.func @nothing(%x: tensor<?x0xcomplex<f32>>) {
  return
}
func.func @double(%x: tensor<?xui8>) -> tensor<?xui8> {
  %y = stablehlo.add %x, %x : tensor<?xui8>
  return %y : tensor<?xui8>
}
""".replace("JSON", reflection(SIGNATURE).replace("\\", "\\5C").replace('"', "\\22"))


@pytest.fixture(scope="module")
def vmfb() -> bytes:
    return compile_module(MAIN)


def unary(op: str, element: str) -> str:
    """The text of a function `f` that applies the op to a vector of three elements."""
    t = f"tensor<3x{element}>"
    arrow = f" -> {t}" if op.startswith("chlo") else ""
    return f"func.func @f(%x: {t}) -> {t} {{\n %y = {op} %x : {t}{arrow}\n return %y : {t}\n}}"


def test_values_and_names(vmfb: bytes) -> None:
    main = Executable.from_vmfb(vmfb)
    assert (main.entry, main.signature) == ("main", SIGNATURE)
    x, p = np.arange(6.0).reshape(3, 2).T, np.array([True, False])  # x is not contiguous
    y, q = main(x, p)
    np.testing.assert_allclose(y, np.sin(x), rtol=1e-15)
    assert y.dtype == np.float64 and q.dtype == np.bool_ and q.tolist() == [False, True]
    assert run_module(vmfb, [x, p])[1].tolist() == [False, True]


def test_results_share_no_memory(vmfb: bytes) -> None:
    same = Executable.from_vmfb(vmfb, entry="same")
    x = np.array([1, 2], np.float32)
    (first,), (second,) = same(x), same(x)
    first[0] = 5
    assert first.flags.owndata and second[0] == 1 == x[0]


def test_no_result_and_dynamic_sizes(vmfb: bytes) -> None:
    assert Executable.from_vmfb(vmfb, entry="nothing")(np.zeros((3, 0), np.complex64)) == ()
    double = Executable.from_vmfb(vmfb, entry="double")
    for size in (0, 1, 7):
        (y,) = double(np.full(size, 200, np.uint8))
        assert y.dtype == np.uint8 and y.tolist() == [144] * size
    assert str(double.signature) == "(input0: ?xui8) -> (output0: ?xui8)"


def test_every_dtype_passes() -> None:
    types = [f"tensor<2x{ELEMENTS[d]}>" for d in ELEMENTS]
    names = [f"%a{i}" for i in range(len(types))]
    taken = ", ".join(f"{name}: {t}" for name, t in zip(names, types, strict=True))
    body = f"return {', '.join(names)} : {', '.join(types)}"
    same = Executable.from_vmfb(compile_module(f"func.func @f({taken}) -> ({', '.join(types)}) {{ {body} }}"))
    arguments = [np.array([0, 1]).astype(d) for d in ELEMENTS]
    for given, got in zip(arguments, same(*arguments), strict=True):
        assert got.dtype == given.dtype and got.tobytes() == given.tobytes()


TOLERANCES = {np.complex64: 1e-6, np.complex128: 1e-14, ml_dtypes.bfloat16: 1e-2, np.float16: 1e-3}


@pytest.fixture(scope="module")
def exponentials() -> bytes:
    """A compiled module with one function for each type in `TOLERANCES`, which computes the exponential."""
    kinds = {np.dtype(dtype) for dtype in TOLERANCES}
    functions = [unary("stablehlo.exponential", ELEMENTS[x]).replace("@f", f"@{x.name}") for x in kinds]
    return compile_module("\n".join(functions))


@pytest.mark.parametrize(("dtype", "tolerance"), list(TOLERANCES.items()))
def test_values_of_other_dtypes(dtype: Any, tolerance: float, exponentials: bytes) -> None:
    exponential = Executable.from_vmfb(exponentials, entry=np.dtype(dtype).name)
    x = np.array([0, 0.5, -1.25]).astype(dtype) * (1j if np.dtype(dtype).kind == "c" else 1)
    x = x.astype(dtype)
    wide = complex if np.dtype(dtype).kind == "c" else float
    np.testing.assert_allclose(exponential(x)[0].astype(wide), np.exp(x.astype(wide)), rtol=tolerance)


def test_f64_functions_of_libm_link() -> None:
    ops = {"stablehlo.tan": np.tan, "stablehlo.tanh": np.tanh, "chlo.acos": np.arccos, "chlo.asin": np.arcsin}
    lines = [f"%{i} = {op} %x : tensor<3xf64>" for i, op in enumerate(ops)]
    lines = [line + " -> tensor<3xf64>" if "chlo" in line else line for line in lines]
    types = ", ".join(["tensor<3xf64>"] * len(ops))
    program = f"func.func @f(%x: tensor<3xf64>) -> ({types}) {{\n" + "\n".join(lines)
    program += f"\n return {', '.join(f'%{i}' for i in range(len(ops)))} : {types}\n}}"
    x = np.array([-0.3, 0.5, 0.9])
    for function, y in zip(ops.values(), Executable.from_vmfb(compile_module(program))(x), strict=True):
        np.testing.assert_allclose(y, function(x), rtol=1e-14)


@pytest.mark.parametrize(
    "arguments, words",
    [
        ((), "main takes 2 arguments (x: 2x3xf64, é \"': 2xi1), got 0"),
        ((np.zeros((2, 3)),), "got 1"),
        ((np.zeros((3, 2)), np.zeros(2, bool)), "argument 0 (x): expected 2x3xf64, got 3x2xf64"),
        ((np.zeros(6), np.zeros(2, bool)), "argument 0 (x): expected 2x3xf64, got 6xf64"),
        (
            (np.zeros((2, 3), np.float32), np.zeros(2, bool)),
            "argument 0 (x): expected 2x3xf64 (dtype float64), got dtype float32",
        ),
        ((np.zeros((2, 3), ">f8"), np.zeros(2, bool)), "got dtype >f8"),
        (
            (np.zeros((2, 3)), np.zeros(2, np.uint8)),
            "argument 1 (é \"'): expected 2xi1 (dtype bool), got dtype uint8",
        ),
        (("text", None), "argument 0 (x)"),
        (([[1, 2], [3]], None), "argument 0 (x)"),
    ],
)
def test_wrong_arguments_are_named(vmfb: bytes, arguments: tuple[Any, ...], words: str) -> None:
    with pytest.raises(InputError) as raised:
        Executable.from_vmfb(vmfb)(*arguments)
    assert words in str(raised.value)


def test_unknown_and_missing_entry(vmfb: bytes) -> None:
    with pytest.raises(RequestError, match="no function 'f' .* it has: main, same, nothing, double"):
        Executable.from_vmfb(vmfb, entry="f")


def test_save_and_load(vmfb: bytes, tmp_path: Path) -> None:
    path = Executable.from_vmfb(vmfb).save(tmp_path / "f.vmfb")
    assert os.listdir(tmp_path) == ["f.vmfb"]
    for loaded in (Executable.load(path), Executable.load(str(path)), Executable.load(path.read_bytes())):
        assert loaded.signature == SIGNATURE
    with pytest.raises(TiducError, match="no.vmfb: error: cannot read: No such file"):
        Executable.load(tmp_path / "no.vmfb")
    with pytest.raises(TiducError, match="cannot write"):
        loaded.save(tmp_path / "no" / "f.vmfb")


@pytest.mark.parametrize("kept", [0, 20, 100, 5000, -5000])
def test_damaged_modules_are_refused(vmfb: bytes, kept: int, tmp_path: Path) -> None:
    (tmp_path / "cut.vmfb").write_bytes(vmfb[:kept])
    with pytest.raises(TiducError, match="cut.vmfb: error: not a compiled module, or a damaged one"):
        Executable.load(tmp_path / "cut.vmfb")


def test_a_changed_byte_is_refused(vmfb: bytes) -> None:
    """A module is refused if one of its bytes has changed. IREE does not check machine code, and damaged code would end
    the process.
    """
    with zipfile.ZipFile(io.BytesIO(vmfb)) as archive:
        parts = archive.infolist()
    assert len(parts) == 2
    for part in parts:
        changed = bytearray(vmfb)
        changed[part.header_offset + part.file_size // 2] ^= 1
        with pytest.raises(
            TiducError, match=f"a damaged one: the checksum of {re.escape(part.filename)} differs"
        ):
            Executable(bytes(changed))


def test_a_module_for_another_target_is_refused() -> None:
    with pytest.raises(TiducError, match=r"was compiled for cuda \(cuda-nvptx-fb\)"):
        Executable.from_vmfb(compile_module(unary("stablehlo.sine", "f32"), "cuda:sm_86"), "cpu")


@pytest.mark.parametrize("target", ["cpu-threads", "vmvx"])
def test_other_targets(target: str) -> None:
    x = np.array([1, 2, 3], np.float32)
    (y,) = run_module(compile_module(unary("stablehlo.sine", "f32"), target), [x], target)
    np.testing.assert_allclose(y, np.sin(x), rtol=1e-5)


@pytest.mark.parametrize("target", ["vulkan", "cuda"])
def test_devices_where_there_are_any(target: str) -> None:
    vmfb = compile_module(unary("stablehlo.sine", "f32"), target)
    try:
        rt.get_device(TARGETS[target].device)
    except (ValueError, RuntimeError):
        with pytest.raises(TiducError, match=f"no device for target '{target}'"):
            Executable.from_vmfb(vmfb, target)
        pytest.skip("no such device")
    x = np.array([1, 2, 3], np.float32)
    np.testing.assert_allclose(run_module(vmfb, [x], target)[0], np.sin(x), rtol=1e-5)


def test_groups_of_threads_of_another_size() -> None:
    """A module for a device with groups of 32 threads is refused on a device with groups of 8 threads, Mesa's software
    device.

    Its row sums would be wrong there.
    """
    variant, other = "vulkan:llvmpipe", "vulkan:ampere"
    skip_without_device(variant)
    vmfb = compile_module(unary("stablehlo.sine", "f32"), other)
    with pytest.raises(
        TiducError, match=f"modules for target '{other}' give wrong numbers on this device: llvmpipe"
    ):
        Executable.from_vmfb(vmfb, other)


def test_threads_share_an_executable(vmfb: bytes) -> None:
    main, p = Executable.from_vmfb(vmfb), np.zeros(2, bool)

    def differs(i: int) -> bool:
        x = np.full((2, 3), float(i))
        return not np.allclose(main(x, p)[0], np.sin(x))

    with ThreadPoolExecutor(8) as pool:
        assert not any(pool.map(differs, range(400)))


def test_reflection_is_read_back() -> None:
    assert from_reflection(reflection(SIGNATURE)) == SIGNATURE
    for text in (
        "",
        "[]",
        "{}",
        '{"inputs": [["x"]], "outputs": []}',
        '{"inputs": [["x", 3]], "outputs": []}',
    ):
        with pytest.raises(ValueError):
            from_reflection(text)


def test_declarations_are_read() -> None:
    declared = (
        'sync func @f(%input0: tensor<2xi8> {a = 1, iree.abi.encoding = tensor<2xui8>, tidu.name = "x%"},'
        " %input1: tensor<complex<f32>>) -> (%output0: tensor<?x2xbf16>)"
    )
    assert str(from_declaration(declared)) == "(input0: 2xui8, input1: complex<f32>) -> (output0: ?x2xbf16)"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_workaround_loading_leaves_an_open_file(vmfb: bytes) -> None:
    """Loading a module leaves a temporary file of IREE open. If this test fails, IREE closes the file, and
    `_close_leaked_files` in loading.py can be removed.
    """

    def left() -> list[str]:
        links = (f"/proc/self/fd/{d}" for d in os.listdir("/proc/self/fd"))
        return [
            target
            for target in (os.readlink(link) for link in links if os.path.exists(link))
            if "iree_dylib" in target
        ]

    instance = rt.VmInstance()
    module = rt.VmModule.copy_buffer(instance, vmfb)
    rt.VmContext(instance, [rt.create_hal_module(instance, rt.get_device("local-sync")), module])
    assert left()
    Executable.from_vmfb(vmfb)
    assert not left()


@pytest.fixture
def new_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fixture with which a test opens new devices, because the arrays of other tests count towards the limit of an
    allocator.
    """
    monkeypatch.setattr(devices, "_OPEN", {})


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts page faults as Linux does")
@pytest.mark.usefixtures("new_devices")
def test_memory_of_large_results_is_reused() -> None:
    resource = pytest.importorskip("resource")
    body = "%y = stablehlo.negate %x : tensor<100000xf32>\n%z = stablehlo.abs %x : tensor<100000xf32>"
    types = "tensor<100000xf32>, tensor<100000xf32>"
    text = f"func.func @main(%x: tensor<100000xf32>) -> ({types}) {{\n{body}\nreturn %y, %z : {types}\n}}"
    module = Executable.from_vmfb(compile_module(text, "cpu"), "cpu")
    x = np.ones(100_000, np.float32)
    for _ in range(5):
        module(x)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        module(x)
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    assert faults < 20 * 50, "each call has 3 arrays of 98 pages"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts page faults as Linux does")
@pytest.mark.usefixtures("new_devices")
def test_memory_of_a_large_array_is_reused_beside_many_small_ones() -> None:
    """The memory of a freed large array is reused although 200 small arrays exist beside it, as after a call that
    computes a network's gradient.
    """
    resource = pytest.importorskip("resource")
    device, large = open_device("local-sync", "cpu"), np.ones(2**24, np.float32)
    small = [np.ones(n, np.float32) for n in range(1, 201)]
    faults = []
    for _ in range(2):
        arrays = [device.upload(x, int(rt.HalElementType.FLOAT_32)) for x in small]
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        copy = device.upload(large, int(rt.HalElementType.FLOAT_32))
        faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
        del arrays, copy
    assert faults[1] < 1000, "the large array has 16,384 pages"


@pytest.mark.usefixtures("new_devices")
def test_memory_of_freed_arrays_is_returned(vmfb: bytes) -> None:
    """Freed arrays keep their memory for later arrays, until a module is loaded or freed.

    Then the memory is returned.
    """
    device = open_device("local-sync", "cpu")

    def held_after(change: Callable[[], Any]) -> int:
        view = device.upload(np.ones(2**20, np.float32), int(rt.HalElementType.FLOAT_32))
        del view
        change()
        counts = device.hal.allocator.statistics
        return int(counts["device_bytes_allocated"]) - int(counts["device_bytes_freed"])

    modules: list[Executable] = []
    assert held_after(lambda: None) >= 2**22
    assert held_after(lambda: modules.append(Executable.from_vmfb(vmfb))) < 2**22
    assert held_after(modules.clear) < 2**22


def test_a_dispatch_of_too_many_arrays() -> None:
    """A program for which IREE creates a dispatch with more arrays than its runtime allows is refused.

    Here, IREE fuses forty running sums of scalars.
    """
    count, scalar = 40, "tensor<f64>"
    arguments = ", ".join(f"%a{i}: {scalar}" for i in range(count))
    sums = "\n".join(
        f"%t{i} = stablehlo.add %{'t' if i else 'a'}{max(i - 1, 0)}, %a{i} : {scalar}" for i in range(count)
    )
    results, types = ", ".join(f"%t{i}" for i in range(count)), ", ".join([scalar] * count)
    text = f"func.func @main({arguments}) -> ({types}) {{\n{sums}\nreturn {results} : {types}\n}}"
    with pytest.raises(TiducError, match=r"a dispatch of 80 arrays, but its runtime allows at most 64"):
        Executable(compile_module(text))


def test_large_aligned_arguments_are_not_copied() -> None:
    """A large aligned argument is passed to IREE without a copy. Other arrays are copied."""
    memory = np.zeros(2**18 + 64, np.uint8)
    start = -memory.ctypes.data % 64
    aligned = memory[start : start + 2**18].view(np.float32)
    device = Executable(compile_module(unary("stablehlo.sine", "f32")))._device
    f32 = int(map_dtype_to_hal_element_type(np.dtype(np.float32)))
    view = device.lend(aligned, f32)
    aligned[5] = 7
    assert device.download(view, aligned.dtype)[5] == 7
    aligned.flags.writeable = False  # NumPy does not export read-only memory
    unaligned = memory[start + 4 :][: 2**17].view(np.float32)
    for other in (aligned, unaligned, memory[start : start + 1024].view(np.float32)):
        before = float(other[1])
        copied = device.lend(other, f32)
        memory[start:] = 1
        assert device.download(copied, other.dtype)[1] == before
        memory[start:] = 0
