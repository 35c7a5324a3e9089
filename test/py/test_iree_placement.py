"""Tests the edit `place_arrays`, which chooses the offsets of the arrays of an IREE execution region in memory."""

import itertools
import re
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from harness.allocations import allocated
from harness.edits import after, compiles_with
from harness.sources import source_of, sources_of
from harness.variants import HERE

import tiduc
from tiduc.backends.iree.compile import compile_source
from tiduc.backends.iree.modules import placement
from tiduc.backends.iree.modules.hosting import host_arrays
from tiduc.backends.iree.modules.order import LiveArray, in_order, lowest
from tiduc.backends.iree.modules.placement import place_arrays
from tiduc.backends.iree.source import Source
from tiduc.dialect.errors import TiducRemark

MODULE = """module {
  util.func public @first(%arg0: index) {
    %c64 = arith.constant 64 : index
    %c128 = arith.constant 128 : index
    %0:4 = stream.resource.pack slices({
      [0, 1] = %c128,
      [1, 3] = %c64,
      [3, 4] = %c128
    }) : index
    "test.use"(%0#0, %0#1, %0#2, %0#3) : (index, index, index, index) -> ()
    util.return
  }
  util.func public @second(%arg0: index) {
    %c64 = arith.constant 64 : index
    %0:2 = stream.resource.pack slices({
      [0, 1] = %arg0
    }) : index
    "test.use"(%0#0, %0#1) : (index, index) -> ()
    util.return
  }
}
"""
"""Two functions: in the first, the last array fits into the memory of the first; in the second, a size is unknown."""


def test_arrays_that_are_live_at_once_do_not_overlap() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        begins = np.sort(rng.integers(0, 40, 30))
        arrays = [LiveArray(int(t), int(t + rng.integers(0, 12)), int(rng.integers(1, 3000))) for t in begins]
        live = [sum(a.bytes for a in arrays if a.first <= t <= a.last) for t in range(60)]
        own, places = in_order(arrays, range(30)), lowest(arrays)
        assert max(live) <= places.bytes <= own.bytes
        for (x, u), (y, v) in itertools.combinations(zip(arrays, places.starts, strict=True), 2):
            apart = u + x.bytes <= v or v + y.bytes <= u
            assert apart or x.last < y.first or y.last < x.first
        assert all(start % 64 == 0 for start in places.starts)


def values(text: str) -> dict[str, int]:
    """The value of each constant of type index in a text, by name."""
    return {name: int(n) for name, n in re.findall(r"(%\w+) = arith.constant (\d+) : index", text)}


def uses(text: str) -> list[list[int | str]]:
    """For each op `test.use`, its operands: the value of a constant, or the name of another SSA value."""
    known = values(text)
    return [
        [known.get(name, name) for name in names.split(", ")]
        for names in re.findall(r'"test.use"\((.*?)\)', text)
    ]


def test_packs_become_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    assert after(place_arrays, MODULE) is None  # IREE's own offsets waste no memory
    monkeypatch.setattr(placement, "_GAIN", 0)
    text = after(place_arrays, MODULE)
    assert text is not None
    assert uses(text) == [[192, 0, 128, 0], ["%0#0", "%0#1"]]
    assert text.count("stream.resource.pack") == 1


LOOPS = """module {
  util.func public @main(%arg0: index, %p: i1) {
    %c0 = arith.constant 0 : index
    %c64 = arith.constant 64 : index
    %c128 = arith.constant 128 : index
    scf.for %i = %c0 to %c128 step %c64 {
      %4:3 = stream.resource.pack slices({
        [0, 1] = %c128,
        [1, 3] = %c64
      }) : index
      "test.use"(%4#0, %4#1, %4#2) : (index, index, index) -> ()
    }
    scf.for %i = %c0 to %c128 step %c64 {
      %4:2 = stream.resource.pack slices({
        [0, 1] = %c64
      }) : index
      scf.if %p {
        "test.use"(%4#0, %4#1) : (index, index) -> ()
      }
    }
    util.return
  }
}
"""
"""A module with `stream.resource.pack` ops in neighbouring blocks."""


def test_packs_in_loops_beside_one_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement, "_GAIN", 0)
    assert after(host_arrays, LOOPS) is None
    text = after(place_arrays, LOOPS)
    assert text is not None and "pack" not in text
    assert uses(text) == [[192, 0, 128], [64, 0]]


def source() -> tuple[Source, list[np.ndarray]]:
    """The source and the arguments of a gradient in which a small array is live when a large array is allocated."""
    rng = np.random.default_rng(0)
    program = tiduc.load("examples/mlp_f32.mlir").grad(value=True)
    arguments = [rng.standard_normal(x.type.shape).astype(np.float32) for x in program.signature.inputs]
    return source_of(program, HERE), arguments


def test_a_gradient_takes_less_memory() -> None:
    given, arguments = source()
    assert given.places
    by_iree = replace(given, places=False)
    modules = [compile_source(each) for each in (given, by_iree)]
    memory = [allocated(module, arguments) for module in modules]
    assert memory[0] < memory[1] - 7
    for x, y in zip(*(tiduc.Executable(module)(*arguments) for module in modules), strict=True):
        np.testing.assert_array_equal(x, y)


def test_iree_places_the_arrays_if_its_pipeline_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    given, arguments = source()
    wanted = tiduc.Executable(compile_source(given))(*arguments)
    compiles_with(
        monkeypatch,
        "from tiduc.backends.iree.modules import process\n"
        "process.Span = lambda *given: span(*given[:3], 'no-such-pass' * bool(given[3]))\n"
        "from tiduc.backends.iree.modules.job import Span as span",
    )
    values = tiduc.Executable(compile_source(given, cached=False))(*arguments)
    for x, y in zip(values, wanted, strict=True):
        np.testing.assert_array_equal(x, y)


def test_small_programs_are_compiled_in_one_step() -> None:
    program = tiduc.load(
        "func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {\n  return %x : tensor<8xf32>\n}"
    )
    assert not source_of(program).places


SCANS = """func.func @main(%x: tensor<40x64xf32>, %w: tensor<64x64xf32>) -> tensor<f32> {
  %i0 = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %ones = stablehlo.constant dense<1.0> : tensor<64xf32>
  %stack = stablehlo.constant dense<0.0> : tensor<40x64xf32>
  LOOPS
  %sum = stablehlo.reduce(%b#2 init: %zero) applies stablehlo.add across dimensions = [0, 1]
    : (tensor<40x64xf32>, tensor<f32>) -> tensor<f32>
  return %sum : tensor<f32>
}"""
LOOP = """
  %NAME:3 = stablehlo.while(%i = %i0, %c = FIRST, %s = %stack) : tensor<i32>, tensor<64xf32>, tensor<40x64xf32>
  cond {
    %n = stablehlo.constant dense<40> : tensor<i32>
    %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %r = stablehlo.dynamic_slice ROWS, %i, %i0, sizes = [1, 64]
      : (tensor<40x64xf32>, tensor<i32>, tensor<i32>) -> tensor<1x64xf32>
    %v = stablehlo.reshape %r : (tensor<1x64xf32>) -> tensor<64xf32>
    %m = stablehlo.dot_general %w, %c, contracting_dims = [1] x [0]
      : (tensor<64x64xf32>, tensor<64xf32>) -> tensor<64xf32>
    %u = stablehlo.sine %m : tensor<64xf32>
    %m2 = stablehlo.dot_general %w, %u, contracting_dims = [1] x [0]
      : (tensor<64x64xf32>, tensor<64xf32>) -> tensor<64xf32>
    %t = stablehlo.add %m2, %v : tensor<64xf32>
    %y = stablehlo.tanh %t : tensor<64xf32>
    %z = stablehlo.multiply %y, %c : tensor<64xf32>
    %row = stablehlo.reshape %z : (tensor<64xf32>) -> tensor<1x64xf32>
    %s1 = stablehlo.dynamic_update_slice %s, %row, %i, %i0
      : (tensor<40x64xf32>, tensor<1x64xf32>, tensor<i32>, tensor<i32>) -> tensor<40x64xf32>
    %i1 = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %i1, %y, %s1 : tensor<i32>, tensor<64xf32>, tensor<40x64xf32>
  }"""


RECORDED = """from tiduc.backends.iree.modules import edits, hosting, placement
hosting._GAIN = placement._GAIN = 0
def host_arrays(module):
    with open({file!r}, "w") as file:
        file.write(str(module))
    return hosting.host_arrays(module)
edits.SPEED["host_arrays"] = host_arrays"""
"""Code for the compiler's process that saves the module to a file before the edit `host_arrays` runs."""


@pytest.mark.more
def test_a_gradient_of_loops_that_the_host_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """For a gradient with loops that the host runs, results with and without `place_arrays` are equal.

    Execution regions inside and outside the loops get new offsets.
    """
    file = tmp_path / "seen.mlir"
    compiles_with(monkeypatch, RECORDED.format(file=str(file)))
    loops = [
        LOOP.replace("NAME", name).replace("FIRST", first).replace("ROWS", rows)
        for name, first, rows in (("a", "%ones", "%x"), ("b", "%a#1", "%a#2"))
    ]
    program = tiduc.load(SCANS.replace("LOOPS", "".join(loops))).grad(wrt=["x", "w"], value=True)
    given = next(each for i, each in enumerate(sources_of(program, HERE)) if i == 1)
    given = replace(given, places=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error", TiducRemark)
        modules = [compile_source(each, cached=False) for each in (given, replace(given, places=False))]
    text = file.read_text()
    assert text.count("= scf.for ") > 3 and len(re.findall(r"^      .*stream\.cmd\.execute ", text, re.M)) > 3
    rng = np.random.default_rng(0)
    arguments = [(rng.standard_normal(shape) / 8).astype(np.float32) for shape in ((40, 64), (64, 64))]
    for x, y in zip(*(tiduc.Executable(module)(*arguments) for module in modules), strict=True):
        np.testing.assert_array_equal(x, y)
