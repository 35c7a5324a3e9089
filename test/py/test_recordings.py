"""Copies that are recorded once, and run for other arrays: of the text of a VM module, and of what Vulkan makes."""

import iree.runtime as rt
import numpy as np
import pytest

from tiduc.runtime import compile
from tiduc.runtime.compile import compile_module
from tiduc.runtime.recordings import copies_once
from tiduc.runtime.run import Executable

TARGET = "vulkan:llvmpipe"

COPY = (
    b"vm.call @hal.command_buffer.copy_buffer(%ref, %zero, %c1, SOURCE, %zero_0, TARGET, %c64, %c4, %zero_0) : "
    b"(!vm.ref<!hal.command_buffer>, i32, i32, !vm.ref<!hal.buffer>, i64, !vm.ref<!hal.buffer>, i64, i64, i64) -> ()"
)

CONSTANT = """func.func @main(%x: tensor<1xf32>) -> (tensor<1xf32>, tensor<1xf32>) {
  %c = stablehlo.constant dense<(VALUE, 1.0)> : tensor<1xcomplex<f32>>
  %0 = stablehlo.real %c : (tensor<1xcomplex<f32>>) -> tensor<1xf32>
  %1:2 = stablehlo.optimization_barrier %x, %0 : tensor<1xf32>, tensor<1xf32>
  return %1#1, %0 : tensor<1xf32>, tensor<1xf32>
}
"""
"""What is computed when the module is loaded is copied to each run's results."""


@pytest.mark.parametrize(
    ("source", "target", "once"),
    [
        (b"%null", b"%null", False),
        (b"%null_3", b"%null", False),
        (b"%ref_2", b"%ref_3", False),
        (b"%__hoisted", b"%null_0", True),
        (b"%null", b"%ref_4", True),
    ],
)
def test_copies_between_what_is_known_and_a_slot(source: bytes, target: bytes, once: bool) -> None:
    assert copies_once(COPY.replace(b"SOURCE", source).replace(b"TARGET", target)) == once


def runs(value: float) -> list[list[float]]:
    """What the runs of the program give, kept all together, so that each has memory of its own.

    A value that no test had before: memory may be that of a run before.
    """
    try:
        rt.get_device("vulkan")
    except (ValueError, RuntimeError):
        pytest.skip("no such device")
    run = Executable(compile_module(CONSTANT.replace("VALUE", str(value)), TARGET, cached=False), TARGET)
    kept = [run.keep(np.float32([2])) for _ in range(3)]
    return [[float(x.numpy()[0]) for x in results] for results in kept]


def test_each_run_has_its_copy() -> None:
    assert runs(-3.0) == [[-3.0, -3.0]] * 3


def test_vulkan_copies_once_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where this fails, IREE has learnt to record such copies, and `runtime/recordings.py` can go."""
    monkeypatch.setattr(compile, "copies_once", lambda module: False)
    assert runs(-5.0) != [[-5.0, -5.0]] * 3
