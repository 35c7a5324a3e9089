"""Command buffers with copies that are recorded once and replayed with other arrays: in VM modules, and in results on
Vulkan.
"""

import numpy as np
import pytest
from cases.iree_host_programs import TWICE
from harness.edits import after
from harness.vulkan import skip_without_device

from tiduc.backends.iree.compile import compile_module
from tiduc.backends.iree.modules.vm.recordings import copies_bound_arrays
from tiduc.runtime.run import Executable

TARGET = "vulkan:llvmpipe"

LIST, BUFFER = "!vm.ref<!hal.command_buffer>", "!vm.ref<!hal.buffer>"
COPY = f"""vm.module public @m {{
  vm.import private @hal.command_buffer.copy_buffer(%command_buffer : {LIST}, %source_slot : i32, %target_slot : i32,
    %source_buffer : {BUFFER}, %source_offset : i64, %target_buffer : {BUFFER}, %target_offset : i64, %length : i64,
    %flags : i64)
  vm.func @f(%l: {LIST}, %s: i32, %n: i64, %ref: {BUFFER}, %hoisted: {BUFFER}) {{
    %null = vm.const.ref.zero : {BUFFER}
    %null_0 = vm.const.ref.zero : {BUFFER}
    vm.call @hal.command_buffer.copy_buffer(%l, %s, %s, SOURCE, %n, TARGET, %n, %n, %n)
      : ({LIST}, i32, i32, {BUFFER}, i64, {BUFFER}, i64, i64, i64) -> ()
    vm.return
  }}
}}
"""

CONSTANT = """func.func @main(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %c = stablehlo.constant dense<(-3.0, 1.0)> : tensor<3xcomplex<f32>>
  %0 = stablehlo.real %c : (tensor<3xcomplex<f32>>) -> tensor<3xf32>
  %1:2 = stablehlo.optimization_barrier %x, %0 : tensor<3xf32>, tensor<3xf32>
  return %1#1, %0 : tensor<3xf32>, tensor<3xf32>
}
"""
"""A program in which a value that is computed when the module is loaded is copied to the results of each run."""


@pytest.mark.parametrize(
    ("source", "target", "once"),
    [
        ("%null", "%null", True),
        ("%null_0", "%ref", True),
        ("%ref", "%ref", False),
        ("%hoisted", "%null_0", True),
        ("%hoisted", "%ref", False),
    ],
)
def test_copies_from_slots_and_to_slots(source: str, target: str, once: bool) -> None:
    text = after(copies_bound_arrays, COPY.replace("SOURCE", source).replace("TARGET", target))
    assert (text is not None) == once


def runs(text: str, first: int) -> list[list[float]]:
    """The results of three runs of a program.

    Run k reads the numbers from `first` + k on. The results are copied to the host only after all runs.
    """
    skip_without_device("vulkan:llvmpipe")
    run = Executable(compile_module(text, TARGET, cached=False), TARGET)
    kept = [run.keep(np.arange(first + k, first + k + 3, dtype=np.float32)) for k in range(3)]
    return [[float(x) for y in results for x in y.numpy()] for results in kept]


@pytest.mark.more
def test_each_run_has_its_copies() -> None:
    assert runs(TWICE, 10) == [[10 + k, 11 + k, 12 + k] * 2 for k in range(3)]
    assert runs(CONSTANT, 20) == [[-3.0] * 6] * 3
