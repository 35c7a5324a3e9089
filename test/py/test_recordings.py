"""Copies recorded once and replayed for other arrays: in the text of VM modules, and in Vulkan's results."""

import numpy as np
import pytest
from cases.iree_host_programs import TWICE
from harness.vulkan import skip_without_device

from tiduc.backends.iree.compile import compile_module
from tiduc.backends.iree.modules.vm.recordings import copies_bound_arrays
from tiduc.runtime.run import Executable

TARGET = "vulkan:llvmpipe"

COPY = (
    b"vm.call @hal.command_buffer.copy_buffer(%ref, %zero, %c1, SOURCE, %zero_0, TARGET, %c64, %c4, %zero_0) : "
    b"(!vm.ref<!hal.command_buffer>, i32, i32, !vm.ref<!hal.buffer>, i64, !vm.ref<!hal.buffer>, i64, i64, i64) -> ()"
)

CONSTANT = """func.func @main(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %c = stablehlo.constant dense<(-3.0, 1.0)> : tensor<3xcomplex<f32>>
  %0 = stablehlo.real %c : (tensor<3xcomplex<f32>>) -> tensor<3xf32>
  %1:2 = stablehlo.optimization_barrier %x, %0 : tensor<3xf32>, tensor<3xf32>
  return %1#1, %0 : tensor<3xf32>, tensor<3xf32>
}
"""
"""What is computed when the module is loaded is copied to each run's results."""


@pytest.mark.parametrize(
    ("source", "target", "once"),
    [
        (b"%null", b"%null", True),
        (b"%null_3", b"%ref", True),
        (b"%ref_2", b"%ref_3", False),
        (b"%__hoisted", b"%null_0", True),
        (b"%null", b"%ref_4", True),
    ],
)
def test_copies_from_slots_and_to_slots(source: bytes, target: bytes, once: bool) -> None:
    assert copies_bound_arrays(COPY.replace(b"SOURCE", source).replace(b"TARGET", target)) == once


def runs(text: str, first: int) -> list[list[float]]:
    """Copies of a program's results for numbers from `first` on."""
    skip_without_device("vulkan:llvmpipe")
    run = Executable(compile_module(text, TARGET, cached=False), TARGET)
    kept = [run.keep(np.arange(first + k, first + k + 3, dtype=np.float32)) for k in range(3)]
    return [[float(x) for y in results for x in y.numpy()] for results in kept]


def test_each_run_has_its_copies() -> None:
    assert runs(TWICE, 10) == [[10 + k, 11 + k, 12 + k] * 2 for k in range(3)]
    assert runs(CONSTANT, 20) == [[-3.0] * 6] * 3
