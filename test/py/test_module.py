"""Compiled modules in other programs: functions by name, arrays on the device, several devices, and threads."""

import gc
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from harness.example_files import EXAMPLES, script

import tiduc.runtime
from tiduc.backends.iree.compile import compile_module
from tiduc.cli import run
from tiduc.loading import load
from tiduc.runtime import DeviceArray, InputError, RequestError, TiducError
from tiduc.runtime.run import Module

PROGRAM = """
func.func @add(%x: tensor<3xf32>, %y: tensor<3xf32>) -> tensor<3xf32> {
  %z = stablehlo.add %x, %y : tensor<3xf32>
  return %z : tensor<3xf32>
}
func.func @same(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  return %x, %x : tensor<3xf32>, tensor<3xf32>
}
func.func @shift(%w: tensor<4xf32> {iree.abi.output = 0 : index}, %x: tensor<4xf32>) -> tensor<4xf32> {
  %r = stablehlo.reverse %w, dims = [0] : tensor<4xf32>
  %y = stablehlo.subtract %r, %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func @of_open(%x: tensor<?xi32>) -> tensor<?xi32> {
  %y = stablehlo.add %x, %x : tensor<?xi32>
  return %y : tensor<?xi32>
}
"""
ONES = np.ones(3, np.float32)


@pytest.fixture(scope="module")
def vmfb() -> bytes:
    return compile_module(PROGRAM)


@pytest.fixture
def module(vmfb: bytes) -> Module:
    return tiduc.runtime.load(vmfb)


ALONE = """
import sys
import tiduc.runtime
from tiduc.runtime import DeviceArray, Executable, InputError, Module, Signature, available_devices
import numpy as np
module = tiduc.runtime.load(sys.argv[1])
print(module["add"](np.ones(3, np.float32), np.ones(3, np.float32))[0].tolist(), "local-sync" in available_devices())
roots = {name.split(".")[0] for name in sys.modules} | {name for name in sys.modules if name.startswith("iree.c")}
print(roots & {"torch_mlir", "jax", "jaxlib", "torch", "click", "rich", "iree.compiler"})
"""


def test_it_needs_numpy_and_the_runtime_only(vmfb: bytes, tmp_path: Path) -> None:
    (tmp_path / "f.vmfb").write_bytes(vmfb)
    done = subprocess.run([sys.executable, "-c", ALONE, tmp_path / "f.vmfb"], capture_output=True, text=True)
    assert done.stdout == "[2.0, 2.0, 2.0] True\nset()\n", done.stderr


def test_every_name_is_there() -> None:
    assert all(getattr(tiduc.runtime, name) for name in tiduc.runtime.__all__)
    assert set(tiduc.runtime.__all__) <= set(dir(tiduc.runtime))
    with pytest.raises(AttributeError):
        tiduc.runtime.no_such_name  # noqa: B018


def test_functions_by_name(module: Module) -> None:
    assert list(module) == ["add", "same", "shift", "of_open"] and len(module) == 4
    assert {name: str(f.signature) for name, f in module.items()}["add"] == (
        "(input0: 3xf32, input1: 3xf32) -> (output0: 3xf32)"
    )
    assert module["add"](ONES, ONES)[0].tolist() == [2, 2, 2]
    with pytest.raises(
        RequestError, match="no function 'sub' in the module; it has: add, same, shift, of_open"
    ):
        module["sub"]


def test_names_of_arguments_are_those_of_the_program(tmp_path: Path) -> None:
    compiled = load(EXAMPLES / "mlp_f32.mlir").grad(wrt=["params['w3']"]).compile()
    loaded = tiduc.runtime.load(compiled.save(tmp_path / "f.vmfb"))["main"]
    assert [value.name for value in loaded.signature.inputs][-3:] == ["params['w3']", "x", "y"]
    assert str(loaded.signature.outputs[0]) == "params['w3'].cotangent: 64x4xf32"


def test_results_are_kept_and_passed_on(module: Module) -> None:
    x = module.put(ONES)
    for _ in range(4):
        (x,) = module["add"].keep(x, x)
    assert isinstance(x, DeviceArray) and (x.shape, x.dtype, x.ndim) == ((3,), np.float32, 1)
    assert x.numpy().tolist() == [16, 16, 16]
    (mixed,) = module["add"](x, ONES)
    assert mixed.tolist() == [17, 17, 17]
    assert np.asarray(x, np.float64).dtype == np.float64 and np.from_dlpack(x).tolist() == [16, 16, 16]
    assert "3 float32 (local-sync)" in repr(x)
    (y,) = module["of_open"].keep(np.arange(5, dtype=np.int32))
    assert y.numpy().tolist() == [0, 2, 4, 6, 8]
    assert module["of_open"].keep(np.zeros(0, np.int32))[0].numpy().shape == (0,)


def test_results_have_separate_memory(module: Module) -> None:
    x = module.put(ONES)
    first, second = module["same"].keep(x)
    buffers = [array.view().get_buffer() for array in (x, first, second)]
    assert all(a != b for i, a in enumerate(buffers) for b in buffers[:i])
    assert first.numpy().tolist() == second.numpy().tolist() == [1, 1, 1]


def test_a_donated_array_is_overwritten_and_gone(module: Module) -> None:
    shift, x = module["shift"], np.array([10, 20, 30, 40], np.float32)
    w = np.array([1, 2, 3, 4], np.float32)
    assert shift.donated == (0,) and module["add"].donated == ()
    given = module.put(w)
    memory = given.view().get_buffer()
    (kept,) = shift.keep(given, x)
    assert kept.view().get_buffer() == memory
    assert kept.numpy().tolist() == [-6, -17, -28, -39]
    for use in (given.numpy, lambda: shift(given, x), lambda: shift.keep(x, given)):
        with pytest.raises(InputError, match="donated.* was overwritten by a call that it was donated to"):
            use()
    assert shift(w, x)[0].tolist() == [-6, -17, -28, -39] and w.tolist() == [1, 2, 3, 4]


def test_a_donated_array_cannot_be_another_argument(module: Module) -> None:
    w = module.put(np.ones(4, np.float32))
    with pytest.raises(
        InputError,
        match=r"argument 0 \(input0\) is donated and overwritten, but argument 1 is the same array",
    ):
        module["shift"].keep(w, w)
    assert w.numpy().tolist() == [1, 1, 1, 1]


class Counted:
    """Stands for both a buffer view and its buffer, and counts how often buffers are compared."""

    shape = ()
    compared = 0

    def __init__(self, byte_length: int) -> None:
        self.byte_length = byte_length

    def get_buffer(self) -> "Counted":
        return self

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return self is other

    __hash__ = object.__hash__


def test_the_check_of_donated_arrays_compares_arrays_of_one_size(module: Module) -> None:
    """The check of donated arrays compares only arrays of equal size.

    With the hundreds of arrays of a training step, comparing all pairs took as long as the step of a small network.
    """
    shift = module["shift"]
    views = [Counted(size) for size in (4, 8, 8, 12, 12, 12)]
    arrays = [DeviceArray(module.put(ONES).device, view, np.dtype(np.float32)) for view in views]
    shift._check_donated(arrays)
    assert Counted.compared == 1 + 3
    with pytest.raises(InputError, match=r"argument 0 \(input0\) is donated .* argument 6 is the same array"):
        shift._check_donated([*arrays, arrays[0]])


class OnlyDlpack:
    """An array that supports only DLPack."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def test_arguments_of_other_kinds(module: Module) -> None:
    add = module["add"]
    strided = np.arange(6, dtype=np.float32)[::2]
    memory = np.zeros(13, np.uint8)
    unaligned = memory[1:].view(np.float32)
    assert not unaligned.flags.aligned
    for given in (OnlyDlpack(ONES), strided, unaligned, memoryview(ONES)):
        expected = np.asarray(getattr(given, "array", given)) + ONES
        assert add(given, ONES)[0].tolist() == expected.tolist()


@pytest.mark.parametrize(
    "wrong, words",
    [
        (np.zeros(4, np.float32), r"argument 1 \(input1\): expected 3xf32, got 4xf32"),
        (np.zeros(3), r"argument 1 \(input1\): expected 3xf32 \(dtype float32\), got dtype float64"),
    ],
)
def test_arrays_on_the_device_are_checked(module: Module, wrong: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        module["add"](ONES, module.put(wrong))
    with pytest.raises(InputError, match="not an array of numbers"):
        module.put(object())


def test_arrays_of_another_device_are_refused(module: Module, vmfb: bytes) -> None:
    with tiduc.runtime.load(vmfb, devices=["local-task"]) as other:
        x = other.put(ONES)
        assert other["add"](x, x)[0].tolist() == [2, 2, 2]
        with pytest.raises(InputError, match="is on the device local-task, but the module is on local-sync"):
            module["add"](x, ONES)
        assert module["add"](x.numpy(), ONES)[0].tolist() == [2, 2, 2]


def test_several_devices(vmfb: bytes) -> None:
    """A module that was compiled for one device uses the first of the given devices."""
    with tiduc.runtime.load(vmfb, devices=["local-task", "local-sync"]) as module:
        assert module["add"](ONES, ONES)[0].tolist() == [2, 2, 2]
    with pytest.raises(TiducError, match="no device for target 'cpu'"):
        tiduc.runtime.load(vmfb, devices=["no-such-driver"])


def test_a_closed_module(vmfb: bytes) -> None:
    with tiduc.runtime.load(vmfb) as module:
        add = module["add"]
        (kept,) = add.keep(ONES, ONES)
    with pytest.raises(RequestError, match="the module is closed"):
        add(ONES, ONES)
    del module, add
    gc.collect()
    assert kept.numpy().tolist() == [2, 2, 2]


def test_threads_share_functions(module: Module) -> None:
    one = module.put(ONES)

    def differs(i: int) -> bool:
        x = np.full(3, i, np.float32)
        (y,) = module["add"].keep(x, one)
        return module["add"](y, one)[0].tolist() != [i + 2] * 3

    with ThreadPoolExecutor(8) as pool:
        assert not any(pool.map(differs, range(400)))


def test_memory_is_given_back(module: Module) -> None:
    resource = pytest.importorskip("resource")
    x = np.ones(2**20, np.int32)
    module["of_open"](x)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(60):
        module["of_open"].keep(module.put(x))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 60_000  # KiB; each call has 8 MiB


def test_training_on_the_device(tmp_path: Path) -> None:
    trainer = script("train_on_device")
    wrt = ",".join(map(str, range(trainer.PARAMETERS)))
    gradient = str(tmp_path / "gradient.mlir")
    assert run(["grad", str(EXAMPLES / "mlp_f32.mlir"), "--value", "--wrt", wrt, "-o", gradient]) == 0
    assert run(["compile", gradient, str(EXAMPLES / "sgd_mlp.mlir"), "-o", str(tmp_path)]) == 0
    with np.load(EXAMPLES / "mlp_f32.npz") as stored:
        inputs = [stored[f"input.{i}"] for i in range(8)]
    losses = trainer.train(tmp_path, inputs, 30, 0.1)
    # Repeats the steps with arrays that are copied to the host and back to the device.
    function = tiduc.runtime.load(tmp_path / "gradient.vmfb")["main"]
    expected, parameters = [], inputs[:6]
    for _ in range(30):
        loss, *direction = function(*parameters, *inputs[6:])
        parameters = [p - np.float32(0.1) * g for p, g in zip(parameters, direction, strict=True)]
        expected.append(float(loss))
    np.testing.assert_allclose(losses, expected, rtol=1e-4)
    assert losses[-1] < 0.8 * losses[0]
