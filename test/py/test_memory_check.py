"""Tests the check of memory placement: results with chosen offsets and NaN-filled memory must equal plain results."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from harness.edits import after, compiles_with

import tiduc
from tiduc.backends.backend import Options
from tiduc.backends.iree.compile import compile_module
from tiduc.backends.iree.memory_check import check_memory
from tiduc.backends.iree.modules.vm.poison import poison_arrays
from tiduc.backends.iree.prepare import Prepared
from tiduc.cli import run
from tiduc.dialect.errors import TiducError
from tiduc.runtime.devices import _MEMORY, _USAGE, POISONED
from tiduc.runtime.run import Module

TRAINING = """func.func @main(%w: tensor<96x96xf32> {tf.aliasing_output = 0 : i32}, %x: tensor<96x96xf32>)
    -> (tensor<96x96xf32>, tensor<96x96xf32>) {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
      : (tensor<96x96xf32>, tensor<96x96xf32>) -> tensor<96x96xf32>
  %1 = stablehlo.tanh %0 : tensor<96x96xf32>
  %2 = stablehlo.dot_general %1, %w, contracting_dims = [1] x [1]
      : (tensor<96x96xf32>, tensor<96x96xf32>) -> tensor<96x96xf32>
  %3 = stablehlo.subtract %w, %2 : tensor<96x96xf32>
  return %3, %1 : tensor<96x96xf32>, tensor<96x96xf32>
}"""
"""A training step that donates its weights."""

CARRIED = """func.func @main(%x: tensor<128x128xf32>, %n: tensor<i32>) -> tensor<128x128xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %r:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, tensor<128x128xf32>
  cond {
    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %j = stablehlo.add %i, %one : tensor<i32>
    %p = stablehlo.dot_general %y, %y, contracting_dims = [1] x [0]
        : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32>
    %t = stablehlo.tanh %p : tensor<128x128xf32>
    %row = stablehlo.dynamic_slice %t, %i, %zero, sizes = [1, 128]
        : (tensor<128x128xf32>, tensor<i32>, tensor<i32>) -> tensor<1x128xf32>
    %new = stablehlo.sine %row : tensor<1x128xf32>
    %z = stablehlo.dynamic_update_slice %y, %new, %j, %zero
        : (tensor<128x128xf32>, tensor<1x128xf32>, tensor<i32>, tensor<i32>) -> tensor<128x128xf32>
    stablehlo.return %j, %z : tensor<i32>, tensor<128x128xf32>
  }
  return %r#1 : tensor<128x128xf32>
}"""
"""A loop that updates a loop-carried value in place. The host runs it, because its products are too large."""


def mlp() -> tiduc.Program:
    return tiduc.load("examples/mlp_f32.mlir").grad(value=True)


def arguments(program: tiduc.Program) -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    shapes = [(x.type.shape, x.type.dtype) for x in program.signature.inputs]
    return [
        np.array(5, dtype) if dtype == np.int32 else rng.standard_normal(shape).astype(dtype)
        for shape, dtype in shapes
    ]


def checked(program: tiduc.Program) -> tuple[Any, ...]:
    return check_memory(program.lower(), Options(cached=False), arguments(program))


COUNTED = """from tiduc.backends.iree.modules import edits, hosting, placement
hosting._GAIN = placement._GAIN = 0
def counting(name, edit):
    def counted(module):
        changed = edit(module)
        with open({file!r}, "a") as file:
            file.write(name * changed + "\\n")
        return changed
    edits.SPEED[name] = counted
counting("host_arrays", hosting.host_arrays)
counting("place_arrays", placement.place_arrays)"""
"""Code for the compiler's process that writes the names of the edits that change a module to a file."""


@pytest.mark.more
def test_a_gradient_whose_arrays_are_placed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "changed.txt"
    compiles_with(monkeypatch, COUNTED.format(file=str(file)))
    program = mlp()
    values = checked(program)
    assert {"host_arrays", "place_arrays"} <= set(file.read_text().split())
    for x, y in zip(values, program.compile(engine="xla")(*arguments(program)), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("text", [TRAINING, CARRIED], ids=["donated", "carried"])
def test_arrays_that_are_overwritten(text: str) -> None:
    program = tiduc.load(text)
    if text == CARRIED:
        prepared = Prepared(program.lower(), Options())
        attempt = next(attempt for attempt, source in prepared.sources() if source is not None)
        assert "carries" in attempt.groups
    values = checked(program)
    for x, y in zip(values, program.compile(engine="xla")(*arguments(program)), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-3, atol=1e-4)


TOO_EARLY = """from tiduc.backends.iree.modules import hosting
plan = hosting._plan
def planned(region):
    given = plan(region)
    if given is None:
        return None
    places, moved = given
    return places, {i: max(0, start - 60 * (i % 2)) for i, start in moved.items()}
hosting._plan = planned"""
"""Code that subtracts 60 bytes from the offset of every second array, after tiduc has checked the offsets."""


@pytest.mark.more
def test_an_array_in_the_place_of_another_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    compiles_with(monkeypatch, TOO_EARLY)
    with pytest.raises(TiducError, match="differs from that in plain memory in [0-9]+ of"):
        checked(mlp())


RELEASED = """
def edited(module):
    (release,) = calls(module, "hal.device.queue.dealloca", 6)
    carry = next(op for op in calls(module, "hal.device.queue.alloca", 9) if op.block == release.block)
    release.operands[4] = carry.result
    return True
"""
"""Code that, instead of a temporary array, releases the result of an iteration, which the next iteration reads."""

UNWRITTEN = """
def edited(module):
    for op in calls(module, "hal.device.queue.execute", 6):
        device, queue, wait, signal, *_ = op.operands
        call("hal.device.queue.barrier", [], [device, queue, wait, signal, zero(op)], op)
        erase(op)
    declare(module, releases._BARRIER)
    return True
"""
"""Code that removes all dispatches, so that no op writes the arrays."""

EDITED = """from tiduc.backends.iree.modules import edits
from tiduc.backends.iree.modules.ops import erase
from tiduc.backends.iree.modules.vm import releases
from tiduc.backends.iree.modules.vm.functions import call, calls, declare, zero
{}
edits.CORRECTIONS["replace_early_releases"] = edited"""


@pytest.mark.more
@pytest.mark.parametrize("code", [RELEASED, UNWRITTEN], ids=["released", "unwritten"])
def test_reads_of_other_memory_are_found(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check finds edits that make a program read memory that is released or not written.

    Both programs that it compares have the fault, but only in one of them is such memory filled with NaN.
    """
    compiles_with(monkeypatch, EDITED.format(code))
    with pytest.raises(TiducError, match="differs from that in plain memory in [0-9]+ of"):
        checked(tiduc.load(CARRIED))


DEVICE, FENCE, BUFFER = "!vm.ref<!hal.device>", "!vm.ref<!hal.fence>", "!vm.ref<!hal.buffer>"
VM = f"""module {{ vm.module public @m {{
  vm.import private @hal.device.queue.alloca(%device : {DEVICE}, %queue_affinity : i64, %wait_fence : {FENCE},
    %signal_fence : {FENCE}, %pool : i64, %memory_types : i32, %buffer_usage : i32, %allocation_size : i64,
    %flags : i64) -> {BUFFER}
  vm.import private @hal.device.queue.dealloca(%device : {DEVICE}, %queue_affinity : i64, %wait_fence : {FENCE},
    %signal_fence : {FENCE}, %buffer : {BUFFER}, %flags : i64)
  vm.func private @f(%d: {DEVICE}, %q: i64, %x: {FENCE}, %y: {FENCE}, %t: i32, %size: i64) {{
    %ref = vm.call @hal.device.queue.alloca(%d, %q, %x, %y, %q, %t, %t, %size, %q)
      : ({DEVICE}, i64, {FENCE}, {FENCE}, i64, i32, i32, i64, i64) -> {BUFFER}
    vm.call @hal.device.queue.dealloca(%d, %q, %x, %y, %ref, %q)
      : ({DEVICE}, i64, {FENCE}, {FENCE}, {BUFFER}, i64) -> ()
    vm.return
  }}
}} }}"""


def test_arrays_are_filled_before_and_after_their_use() -> None:
    """`poison_arrays` adds two fills of an array with NaN: after its allocation, and before its release.

    Fences order the fills.
    """
    text = after(poison_arrays, VM)
    assert text is not None
    order = re.findall(
        r"vm.call @hal.device.queue.(\w+)\(%arg0, %arg1, (%\w+), (%\w+), (?:(%ref\w*), )?", text
    )
    (allocates, *first), (fills, *second), (fills_again, *third), (releases, *last) = order
    assert (allocates, fills, fills_again, releases) == ("alloca", "fill", "fill", "dealloca")
    assert first[0] == third[0] == "%arg2" and second[1] == last[1] == "%arg3"
    assert first[1] == second[0] and third[1] == last[0] and first[1] != third[1]
    assert second[2] == third[2] == last[2]
    assert len(re.findall(r"vm.const.i64 255", text)) == 2
    assert after(poison_arrays, "module { vm.module public @m { } }") is None


def test_memory_that_is_allocated_holds_a_pattern() -> None:
    with Module(compile_module(CARRIED), "cpu", devices=[f"local-sync{POISONED}"]) as module:
        device = module.put(np.zeros(1)).device
        buffer = device.hal.allocator.allocate_buffer(
            memory_type=_MEMORY, allowed_usage=_USAGE, allocation_size=256
        )
        assert set(np.frombuffer(buffer.map(), np.uint8)) == {0xCD}


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, module = tmp_path / "f.mlir", tmp_path / "f.vmfb"
    file.write_text(TRAINING)
    command = ["run", str(file), "--check-memory", "--input", "random"]
    assert run(command) == 0
    assert "result0: 96x96xf32" in capsys.readouterr().out
    assert run([*command, "--engine", "reference"]) == 1
    assert "--check-memory is for programs that IREE runs" in capsys.readouterr().err
    tiduc.load(TRAINING).compile().save(module)
    assert run(["run", str(module), "--check-memory", "--input", "random"]) == 1
    assert "--check-memory is for programs" in capsys.readouterr().err
