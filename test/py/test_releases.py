"""Buffers that are released too early: in the text of VM modules, and in IREE's results."""

import numpy as np
import pytest
from cases.iree_host_programs import LOOPS_FROM_ONE_ARRAY
from harness.vulkan import skip_without_device

from tiduc.backends.iree.compile import compile_module
from tiduc.backends.iree.modules.vm.releases import replace_early_releases
from tiduc.runtime.run import Executable

VM = """module {
  vm.module public @m {
    vm.func private @f(%d: !vm.ref<!hal.device>, %q: i64, %x: !vm.ref<!hal.fence>, %b: !vm.ref<!hal.buffer>) {
      %c1_0 = vm.const.i64 1
      %zero_2 = vm.const.i64.zero
      vm.call @hal.device.queue.dealloca(%d, %q, %x, %x, %b, %zero_2) : (!vm.ref<!hal.device>, i64) -> ()
      vm.call @hal.device.queue.dealloca(%d, %q, %x, %x, %b, %c1_0) : (!vm.ref<!hal.device>, i64) -> ()
      vm.return
    }
    vm.func private @g(%zero_2: i64, %d: !vm.ref<!hal.device>, %x: !vm.ref<!hal.fence>, %b: !vm.ref<!hal.buffer>) {
      vm.call @hal.device.queue.dealloca(%d, %zero_2, %x, %x, %b, %zero_2) : (!vm.ref<!hal.device>, i64) -> ()
      vm.return
    }
  }
}
"""


def test_releases_by_origin_are_barriers() -> None:
    text = replace_early_releases(VM)
    assert text.count("vm.call @hal.device.queue.dealloca(%d, %q, %x, %x, %b, %zero_2)") == 1
    assert "vm.call @hal.device.queue.barrier(%d, %q, %x, %x, %none_0)" in text
    assert (
        "vm.call @hal.device.queue.barrier(%d, %zero_2, %x, %x, %none_1)" in text
    )  # a name of another function's
    assert text.count("vm.import private @hal.device.queue.barrier(") == 1


def test_other_releases_stay() -> None:
    others = "\n".join(line for line in VM.split("\n") if "%c1_0)" not in line and "%zero_2, %x" not in line)
    assert "dealloca" in others and replace_early_releases(others) == others


@pytest.mark.parametrize("target", ["cpu-threads", "vulkan:llvmpipe"])
def test_loops_with_a_shared_initial_value(target: str) -> None:
    skip_without_device(target)
    run = Executable(compile_module(LOOPS_FROM_ONE_ARRAY, target, cached=False), target)
    x = np.array([0.1, 0.2, -0.3, 0.5], np.float32)
    for n in (0, 1, 3):
        y = -np.sin(x) * x**n
        np.testing.assert_allclose(run(x, np.int32(n)), (y, (np.sin(x) + n * y) * y), rtol=1e-5)
