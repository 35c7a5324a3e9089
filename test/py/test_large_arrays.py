"""Arrays of more than 64 MiB with several threads: in the text of VM modules, and in the runtime."""

import resource

import numpy as np

import tiduc
from tiduc.backends.iree.modules.vm.large_arrays import keep_large_arrays

ALLOCA = "vm.call @hal.device.queue.alloca(%d, %q, %w, %s, %zero, %c48, %c3075, {size}, %zero) : (i64) -> i64"
VM = f"""module {{
  vm.module public @m {{
    vm.func private @f(%d: !vm.ref<!hal.device>, %q: i64, %w: !vm.ref<!hal.fence>, %s: !vm.ref<!hal.fence>) {{
      %large = vm.const.i64 67108865
      %small = vm.const.i64 67108864
      %ref = {ALLOCA.format(size="%large")}
      %ref_0 = {ALLOCA.format(size="%small")}
      vm.return
    }}
    vm.func private @g(%large: i64, %d: !vm.ref<!hal.device>, %w: !vm.ref<!hal.fence>, %s: !vm.ref<!hal.fence>) {{
      %ref = {ALLOCA.format(size="%large")}
      vm.return
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
    text = keep_large_arrays(VM)
    assert "%ref = vm.call @hal.allocator.allocate(%allocator_0, %q, %c48, %c3075, %large)" in text
    assert "vm.call @hal.device.queue.barrier(%d, %q, %w, %s, %unflagged_0)" in text
    assert text.count("vm.call @hal.allocator.allocate(") == 1
    assert text.count("vm.call @hal.device.queue.alloca(") == 2
    assert text.count("vm.import private @") == 3


def test_other_modules_stay() -> None:
    small = VM.replace("67108865", "4096")
    assert keep_large_arrays(small) == small


def test_calls_keep_the_memory_of_large_arrays() -> None:
    call = tiduc.load(PROGRAM).compile(target="cpu-threads")
    for x in (1.0, 2.0, 3.0):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        (y,) = call(np.float32(x))
        faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
        assert y[0] == np.float32(x) and y[17] == np.float32(17 + x)
        del y
    assert faults < 1000  # an array of new pages has 17,579
