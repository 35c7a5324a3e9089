"""Tests calls with arrays larger than 64 MiB on several threads: in VM modules, and in the runtime."""

import re
import resource

import jax
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


LOOP = f"""module {{
  vm.module public @m {{
    vm.import private @{NAME}(%device : {DEVICE}, %queue_affinity : i64, %wait_fence : {FENCE}, %signal_fence : {FENCE},
      %pool : i64, %memory_types : i32, %buffer_usage : i32, %allocation_size : i64, %flags : i64) -> {BUFFER}
    vm.func private @f({INPUTS}) {{
      %large = vm.const.i64 8388609
      %first = {ALLOCA.format(size="%large")}
      vm.br ^bb1
    ^bb1:
      %ref = {ALLOCA.format(size="%large")}
      vm.br ^bb1
    }}
  }}
}}
"""


def test_a_loop_waits_before_it_allocates() -> None:
    text = after(keep_large_arrays, LOOP)
    assert text is not None
    (wait,) = re.findall(r"vm.call.variadic.yieldable @hal.fence.await\(.*%arg2\)", text)
    (allocate,) = re.findall(r"vm.call @hal.allocator.allocate\(.*", text)
    assert text.index(f"vm.call @{NAME}(") < text.index(wait) < text.index(allocate)
    assert text.count("vm.import private @hal.fence.await(") == 1


def test_calls_of_nested_loops_do_not_take_more_and_more_memory() -> None:
    """The gradient of attention in a loop over heads, and in each over chunks of 256 queries."""

    def of_queries(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        return jax.nn.softmax(q @ k.T / 8) @ v

    def of_head(of: tuple[jax.Array, jax.Array, jax.Array]) -> jax.Array:
        q, k, v = of
        chunks = q.reshape(4, 256, 64)
        return jax.lax.map(jax.checkpoint(lambda chunk: of_queries(chunk, k, v)), chunks).reshape(1024, 64)

    def loss(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        return (jax.lax.map(jax.checkpoint(of_head), (q, k, v)) ** 2).sum()

    draw = np.random.default_rng(0).standard_normal
    given = [draw((3, 1024, 64)).astype(np.float32) for _ in range(3)]
    call = tiduc.from_jax(loss, *given).grad().compile()
    sizes = []
    for _ in range(12):
        results = call(*given)
        sizes.append(resident())
    for ours, theirs in zip(results, jax.grad(loss, (0, 1, 2))(*given), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)
    assert max(sizes[6:]) < sizes[5] + 200  # without the edits, six calls take 500 MiB


def resident() -> int:
    """The memory of this process in MiB."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() // 2**20


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
