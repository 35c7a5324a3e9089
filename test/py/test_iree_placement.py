"""Where the arrays of an execution region lie in memory on IREE."""

import itertools

import numpy as np
import pytest
from harness.allocations import allocated

import tiduc
from tiduc.backends.iree import placement
from tiduc.backends.iree.compile import Source, compile_source
from tiduc.backends.iree.placement import Array, in_order, lowest, placed

MODULE = """module {
  util.func public @first(%arg0: index) {
    %c64 = arith.constant 64 : index
    %c128 = arith.constant 128 : index
    %0:4 = stream.resource.pack on(#d) slices({
      [0, 1] = %c128,
      [1, 3] = %c64,
      [3, 4] = %c128
    }) : index
    use(%0#0, %0#1, %0#2, %0#3)
    util.return
  }
  util.func public @second(%arg0: index) {
    %c64 = arith.constant 64 : index
    %0:2 = stream.resource.pack on(#d) slices({
      [0, 1] = %arg0
    }) : index
    use(%0#0, %0#1)
    util.return
  }
}
"""
"""The last array of the first function fits in the place of the first one; the size in the second is not known."""


def test_arrays_that_are_live_at_once_do_not_overlap() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        begins = np.sort(rng.integers(0, 40, 30))
        arrays = [Array(int(t), int(t + rng.integers(0, 12)), int(rng.integers(1, 3000))) for t in begins]
        live = [sum(a.bytes for a in arrays if a.first <= t <= a.last) for t in range(60)]
        own, places = in_order(arrays, range(30)), lowest(arrays)
        assert max(live) <= places.bytes <= own.bytes
        for (x, u), (y, v) in itertools.combinations(zip(arrays, places.starts, strict=True), 2):
            apart = u + x.bytes <= v or v + y.bytes <= u
            assert apart or x.last < y.first or y.last < x.first
        assert all(start % 64 == 0 for start in places.starts)


def test_packs_become_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    assert placed(MODULE) is None  # IREE's order wastes nothing
    monkeypatch.setattr(placement, "_GAIN", 0)
    text = placed(MODULE)
    assert text is not None
    names = [f"%placed0_{i}" for i in range(4)]
    values = [f"{name} = arith.constant {n} : index" for name, n in zip(names, (192, 0, 128, 0), strict=True)]
    assert all(value in text for value in values)
    assert f"use({', '.join(names)})" in text and "use(%0#0, %0#1)" in text


def source() -> tuple[Source, list[np.ndarray]]:
    """A gradient in which a small array is live while a large one is allocated, and its arguments."""
    rng = np.random.default_rng(0)
    program = tiduc.load("examples/mlp_f32.mlir").grad(value=True)
    arguments = [rng.standard_normal(x.type.shape).astype(np.float32) for x in program.signature.inputs]
    return program.source(), arguments


def test_a_gradient_takes_less_memory() -> None:
    given, arguments = source()
    assert given.places_arrays
    by_iree = Source(given.stablehlo, given.target, given.name, given.flags, workgroups=given.workgroups)
    modules = [compile_source(each, cached=False) for each in (given, by_iree)]
    memory = [allocated(module, arguments) for module in modules]
    assert memory[0] < memory[1] - 7
    for x, y in zip(*(tiduc.Executable(module)(*arguments) for module in modules), strict=True):
        np.testing.assert_array_equal(x, y)


def test_iree_places_the_arrays_if_its_pipeline_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    given, arguments = source()
    wanted = tiduc.Executable(compile_source(given, cached=False))(*arguments)
    monkeypatch.setattr("tiduc.backends.iree.compile.FINISH", "builtin.module(no-such-pass)")
    values = tiduc.Executable(compile_source(given, cached=False))(*arguments)
    for x, y in zip(values, wanted, strict=True):
        np.testing.assert_array_equal(x, y)


def test_small_programs_are_compiled_in_one_step() -> None:
    program = tiduc.load(
        "func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {\n  return %x : tensor<8xf32>\n}"
    )
    assert not program.source().places_arrays
