"""Buffers that IREE releases too early: in VM modules, and in results."""

import re

import numpy as np
import pytest
from cases.iree_host_programs import LOOPS_FROM_ONE_ARRAY
from harness.edits import after
from harness.vulkan import skip_without_device

from tiduc.backends.iree.compile import compile_module
from tiduc.backends.iree.modules.vm.releases import replace_early_releases
from tiduc.runtime.run import Executable

DEALLOCA = "hal.device.queue.dealloca"
IMPORT = (
    f"vm.import private @{DEALLOCA}(%device : !vm.ref<!hal.device>, %queue_affinity : i64, %wait_fence : "
    "!vm.ref<!hal.fence>, %signal_fence : !vm.ref<!hal.fence>, %buffer : !vm.ref<!hal.buffer>, %flags : i64)"
)
INPUTS = "%d: !vm.ref<!hal.device>, %q: i64, %x: !vm.ref<!hal.fence>, %b: !vm.ref<!hal.buffer>"
TYPES = (
    "(!vm.ref<!hal.device>, i64, !vm.ref<!hal.fence>, !vm.ref<!hal.fence>, !vm.ref<!hal.buffer>, i64) -> ()"
)
VM = f"""module {{
  vm.module public @m {{
    {IMPORT}
    vm.func private @f({INPUTS}) {{
      %c1 = vm.const.i64 1
      %zero = vm.const.i64.zero
      vm.call @{DEALLOCA}(%d, %q, %x, %x, %b, %zero) : {TYPES}
      vm.call @{DEALLOCA}(%d, %q, %x, %x, %b, %c1) : {TYPES}
      vm.return
    }}
    vm.func private @g({INPUTS}) {{
      vm.call @{DEALLOCA}(%d, %q, %x, %x, %b, %q) : {TYPES}
      vm.return
    }}
  }}
}}
"""


def test_releases_by_origin_are_barriers() -> None:
    text = after(replace_early_releases, VM)
    assert text is not None
    assert re.findall(rf"vm.call @{DEALLOCA}\((.*)\) :", text) == ["%arg0, %arg1, %arg2, %arg2, %arg3, %zero"]
    barriers = re.findall(r"vm.call @hal.device.queue.barrier\((.*), (%\w+)\) :", text)
    assert [operands for operands, _ in barriers] == ["%arg0, %arg1, %arg2, %arg2"] * 2
    assert all(f"{none} = vm.const.i64.zero" in text for _, none in barriers)
    assert text.count("vm.import private @hal.device.queue.barrier(") == 1


def test_the_last_use_of_a_buffer_drops_its_reference() -> None:
    """IREE's virtual machine would keep the reference, and its buffer, after the call."""
    text = after(replace_early_releases, VM)
    assert text is not None and text.count("vm.discard.refs %arg3") == 2
    again = VM.replace(
        f"%x, %b, %q) : {TYPES}",
        f"%x, %b, %q) : {TYPES}\n      vm.call @{DEALLOCA}(%d, %q, %x, %x, %b, %q) : {TYPES}",
    )
    text = after(replace_early_releases, again)
    assert text is not None and text.count("vm.discard.refs %arg3") == 2
    looped = VM.replace(
        f"      vm.call @{DEALLOCA}(%d, %q, %x, %x, %b, %q) : {TYPES}\n      vm.return",
        f"      vm.br ^bb1\n    ^bb1:\n      vm.call @{DEALLOCA}(%d, %q, %x, %x, %b, %q) : {TYPES}\n      vm.br ^bb1",
    )
    text = after(replace_early_releases, looped)
    assert text is not None and text.count("vm.discard.refs %arg3") == 1


def test_other_releases_stay() -> None:
    others = VM.replace("%b, %c1)", "%b, %zero)").replace("%b, %q)", "%b, %none)")
    text = others.replace(f"      vm.call @{DEALLOCA}(%d, %q, %x, %x, %b, %none) : {TYPES}\n", "")
    assert DEALLOCA in text and after(replace_early_releases, text) is None


@pytest.mark.parametrize("target", ["cpu-threads", "vulkan:llvmpipe"])
def test_loops_with_a_shared_initial_value(target: str) -> None:
    skip_without_device(target)
    run = Executable(compile_module(LOOPS_FROM_ONE_ARRAY, target, cached=False), target)
    x = np.array([0.1, 0.2, -0.3, 0.5], np.float32)
    for n in (0, 1, 3):
        y = -np.sin(x) * x**n
        np.testing.assert_allclose(run(x, np.int32(n)), (y, (np.sin(x) + n * y) * y), rtol=1e-5)
