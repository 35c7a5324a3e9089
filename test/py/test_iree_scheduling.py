"""Tests the passes and edits that avoid faults of IREE's schedule: arrays in branches, and timepoints of globals."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from harness.edits import after
from harness.variants import HERE, SSE4

import tiduc
from tiduc.backends.backend import Options
from tiduc.backends.iree.build import text_after
from tiduc.backends.iree.modules.invariants import Broken
from tiduc.backends.iree.modules.job import MODULE, Job, Span, command
from tiduc.backends.iree.modules.scheduling import drop_reached_timepoints, keep_splats
from tiduc.backends.iree.source import Source
from tiduc.backends.iree.steps import _SCHEDULING_FAULTS, DISPATCHED, Changes
from tiduc.backends.iree.targets import Target, find_target
from tiduc.runtime.run import Executable

EXAMPLES = Path(__file__).parents[2] / "examples"
V = "tensor<8xi64>"
BRANCHES = f"""func.func @main(%x: {V}, %ones: {V}) -> {V} {{
  %zero = stablehlo.constant dense<0> : tensor<i64>
  %a = stablehlo.add %x, %ones : {V}
  %s = stablehlo.slice %a [6:7] : ({V}) -> tensor<1xi64>
  %r = stablehlo.reshape %s : (tensor<1xi64>) -> tensor<i64>
  %p = stablehlo.compare LT, %r, %zero : (tensor<i64>, tensor<i64>) -> tensor<i1>
  %c = "stablehlo.if"(%p) ({{
    %u = stablehlo.power %a, %ones : {V}
    stablehlo.return %u : {V}
  }}, {{
    stablehlo.return %a : {V}
  }}) : (tensor<i1>) -> {V}
  %d = stablehlo.subtract %c, %ones : {V}
  return %d : {V}
}}"""
"""Ops before, in and after a branch read the array `%ones`."""

TABLE = np.arange(1, 1201, dtype=np.float32).reshape(40, 30)
LOOP = """func.func @main(%x: tensor<40x30xf32>, %n: tensor<i32>) -> tensor<40x30xf32> {
  %one = stablehlo.constant dense<1> : tensor<i32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %t = stablehlo.iota dim = 1 : tensor<40x30xf32>
  %w = stablehlo.sine %t : tensor<40x30xf32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %r = stablehlo.reduce(%w init: %z) applies stablehlo.add across dimensions = [0]
    : (tensor<40x30xf32>, tensor<f32>) -> tensor<30xf32>
  %k = stablehlo.broadcast_in_dim %r, dims = [1] : (tensor<30xf32>) -> tensor<40x30xf32>
  %i, %y = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<40x30xf32> cond {
    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %j = stablehlo.add %i, %one : tensor<i32>
    %p = stablehlo.dot_general %v, %k, contracting_dims = [1] x [1] : (tensor<40x30xf32>, tensor<40x30xf32>)
      -> tensor<40x40xf32>
    %q = stablehlo.dot_general %p, %k, contracting_dims = [1] x [0] : (tensor<40x40xf32>, tensor<40x30xf32>)
      -> tensor<40x30xf32>
    %s = stablehlo.tanh %q : tensor<40x30xf32>
    stablehlo.return %j, %s : tensor<i32>, tensor<40x30xf32>
  }
  return %y : tensor<40x30xf32>
}"""
"""A loop whose body reads an array of a global, which the module's initializer computes."""


def finished(text: str, spans: Sequence[Span]) -> subprocess.CompletedProcess[bytes]:
    """Compiles a program from the phase `DISPATCHED` in a process that runs the spans."""
    job = Job(DISPATCHED, spans)
    return subprocess.run(
        command(find_target(SSE4).flags), input=job.header() + text.encode(), capture_output=True
    )


def branches_of_equal_elements() -> str:
    """IREE's text of `BRANCHES` after `DISPATCHED`, in which the second argument is replaced by an array of ones."""
    lines = text_after(tiduc.load(BRANCHES).lower(), Options(SSE4), DISPATCHED).decode().splitlines()
    (at,) = (i for i, line in enumerate(lines) if "hal.tensor.import" in line and "%arg1 " in line)
    name = lines[at].split(" = ")[0].strip()
    lines[at] = f"%elements = arith.constant 1 : i64 {name} = flow.tensor.splat %elements : {V}"
    return "\n".join(lines)


@pytest.mark.more
def test_branches_that_read_equal_elements() -> None:
    """IREE rejects a program if a branch and two execution regions read equal elements and `keep_splats` does not run.

    The error is one of those after which tiduc runs the edit.
    """
    text = branches_of_equal_elements()
    failed = finished(text, [Span(MODULE)])
    assert failed.returncode == 1 and _SCHEDULING_FAULTS[0] in failed.stderr.decode()
    done = finished(text, [Span(DISPATCHED, ("keep_splats",), True, "canonicalize"), Span(MODULE)])
    assert done.returncode == 0, done.stderr.decode()
    run = Executable(done.stdout, SSE4)
    for first in (-9, 5):
        x = np.full(8, first, np.int64)
        (found,) = run(x, np.ones(8, np.int64))
        assert found.tolist() == x.tolist()


def test_a_barrier_before_a_branch_reads_the_array() -> None:
    text = """
  util.func public @f(%x: tensor<8xi64>, %p: i1) -> (tensor<8xi64>, tensor<8xi64>) {
    %c1 = arith.constant 1 : i64
    %s = flow.tensor.splat %c1 : tensor<8xi64>
    %t = flow.tensor.splat %c1 : tensor<8xi64>
    %r = scf.if %p -> (tensor<8xi64>) {
      %0 = flow.tensor.clone %s : tensor<8xi64>
      %q = scf.if %p -> (tensor<8xi64>) {
        %1 = flow.tensor.clone %t : tensor<8xi64>
        scf.yield %1 : tensor<8xi64>
      } else {
        scf.yield %s : tensor<8xi64>
      }
      scf.yield %q : tensor<8xi64>
    } else {
      scf.yield %x : tensor<8xi64>
    }
    util.return %s, %r : tensor<8xi64>, tensor<8xi64>
  }"""
    edited = after(keep_splats, f"module {{{text}}}")
    assert edited is not None
    assert edited.count("flow.tensor.splat") == 1
    barrier, branch = edited.index("optimization_barrier"), edited.index("scf.if")
    assert edited.index("flow.tensor.splat") < barrier < branch
    assert edited.count("optimization_barrier") == 1


def test_arrays_that_only_their_block_reads_have_no_barrier() -> None:
    text = """module { util.func public @f() -> tensor<8xi64> {
    %c1 = arith.constant 1 : i64
    %s = flow.tensor.splat %c1 : tensor<8xi64>
    util.return %s : tensor<8xi64>
  } }"""
    assert after(keep_splats, text) is None


GLOBALS = """module {
  util.global private @t = #stream.timepoint<immediate> : !stream.timepoint
  util.initializer {
    %0 = STORED => !stream.timepoint
    util.global.store %0, @t : !stream.timepoint
    util.return
  }
  util.func public @f(%x: !stream.timepoint) -> !stream.timepoint {
    %1 = util.global.load immutable @t : !stream.timepoint
    %2 = stream.timepoint.join max(%1, %x) => !stream.timepoint
    util.return %2 : !stream.timepoint
  }
}"""


def test_timepoints_of_globals() -> None:
    edited = after(drop_reached_timepoints, GLOBALS.replace("STORED", "stream.timepoint.immediate"))
    assert edited is not None and "util.global" not in edited
    assert "join max(%0, %arg0)" in edited
    other = GLOBALS.replace("STORED", "stream.timepoint.join max(%9, %9)")
    other = other.replace("%0 = ", '%9 = "test.timepoint"() : () -> !stream.timepoint\n    %0 = ')
    with pytest.raises(Broken, match="waits for the arrays"):
        after(drop_reached_timepoints, other)


@pytest.mark.more
@pytest.mark.parametrize("name", ["mlp_f32", "convnet_f32", "newton", "loop"])
def test_other_programs_have_equal_results(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that IREE schedules without a fault have equal results if tiduc avoids the faults of the schedule."""
    if name == "loop":
        program = tiduc.load(LOOP)
        arguments: list[np.ndarray[Any, Any]] = [np.cos(TABLE), np.array(3, np.int32)]
    else:
        program = tiduc.load(EXAMPLES / f"{name}.mlir")
        program = program if name == "newton" else program.grad()
        rng, types = np.random.default_rng(0), [port.type for port in program.signature.inputs]
        arguments = [rng.uniform(0.5, 1.5, each.shape).astype(each.dtype) for each in types]
    expected = program.compile(target=HERE, cached=False)(*arguments)
    plain, tried = Changes.of, list[Source]()

    def changes(source: Source, target: Target, objects: bool = False) -> Changes:
        tried.append(source)
        return plain(source, target, objects)._replace(reschedules=True)

    monkeypatch.setattr(Changes, "of", changes)
    found = program.compile(target=HERE, cached=False)(*arguments)
    assert tried
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_array_equal(x, y)
