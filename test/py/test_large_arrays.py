"""Tests calls with arrays larger than 64 MiB on several threads: in VM modules, and in the runtime."""

import re
import resource

import numpy as np
from harness.edits import after

import tiduc
from tiduc.backends.iree.modules.vm.large_arrays import keep_large_arrays

DEVICE, FENCE, BUFFER = "!vm.ref<!hal.device>", "!vm.ref<!hal.fence>", "!vm.ref<!hal.buffer>"
NAME = "hal.device.queue.alloca"
ALLOCA = (
    f"vm.call @{NAME}(%d, %q, %x, %x, %q, %t, %t, {{size}}, %q) : "
    f"({DEVICE}, i64, {FENCE}, {FENCE}, i64, i32, i32, i64, i64) -> {BUFFER}"
)
INPUTS = f"%d: {DEVICE}, %q: i64, %x: {FENCE}, %t: i32"
VM = f"""module {{
  vm.module public @m {{
    vm.import private @{NAME}(%device : {DEVICE}, %queue_affinity : i64, %wait_fence : {FENCE}, %signal_fence : {FENCE},
      %pool : i64, %memory_types : i32, %buffer_usage : i32, %allocation_size : i64, %flags : i64) -> {BUFFER}
    vm.func private @f({INPUTS}) -> ({BUFFER}, {BUFFER}) {{
      %large = vm.const.i64 67108865
      %small = vm.const.i64 67108864
      %ref = {ALLOCA.format(size="%large")}
      %ref_0 = {ALLOCA.format(size="%small")}
      vm.return %ref, %ref_0 : {BUFFER}, {BUFFER}
    }}
    vm.func private @g({INPUTS}, %large: i64) -> {BUFFER} {{
      %ref = {ALLOCA.format(size="%large")}
      vm.return %ref : {BUFFER}
    }}
  }}
}}
"""
PROGRAM = """func.func @main(%x: tensor<f32>) -> tensor<18000000xf32> {
  %0 = stablehlo.iota dim = 0 : tensor<18000000xf32>
  %1 = stablehlo.broadcast_in_dim %x, dims = [] : (tensor<f32>) -> tensor<18000000xf32>
  %2 = stablehlo.add %0, %1 : tensor<18000000xf32>
  return %2 : tensor<18000000xf32>
}"""


def test_only_large_arrays_of_known_size_come_from_the_allocator() -> None:
    text = after(keep_large_arrays, VM)
    assert text is not None
    (allocated,) = re.findall(
        r"(%\w+) = vm.call @hal.allocator.allocate\(%\w+, %arg1, %arg3, %arg3, %c67108865\)", text
    )
    (none,) = re.findall(r"vm.call @hal.device.queue.barrier\(%arg0, %arg1, %arg2, %arg2, (%\w+)\)", text)
    assert f"{none} = vm.const.i64.zero" in text and f"vm.return {allocated}, " in text
    assert text.count(f"vm.call @{NAME}(") == 2 and text.count("vm.import private @") == 4
    assert "vm.call @hal.device.allocator(%arg0) {nosideeffects}" in text


def test_other_modules_stay() -> None:
    assert after(keep_large_arrays, VM.replace("67108865", "4096")) is None


def test_calls_keep_the_memory_of_large_arrays() -> None:
    call = tiduc.load(PROGRAM).compile(target="cpu-threads")
    for x in (1.0, 2.0, 3.0):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        (y,) = call(np.float32(x))
        faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
        assert y[0] == np.float32(x) and y[17] == np.float32(17 + x)
        del y
    assert faults < 1000  # newly allocated pages would cause 17,579 faults
