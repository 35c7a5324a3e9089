"""Where the arrays of an execution region lie in memory on IREE."""

import itertools
import re
import warnings
from dataclasses import replace

import numpy as np
import pytest
from harness.allocations import allocated
from harness.sources import source_of, sources_of
from harness.variants import HERE

import tiduc
from tiduc.backends.iree import steps
from tiduc.backends.iree.compile import compile_source
from tiduc.backends.iree.modules import hosting, placement
from tiduc.backends.iree.modules.hosting import hosted
from tiduc.backends.iree.modules.placement import Array, in_order, lowest, placed
from tiduc.backends.iree.source import Source
from tiduc.dialect.errors import TiducRemark

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


LOOPS = """module {
  util.func public @main(%arg0: index) {
    %c0 = arith.constant 0 : index
    %c64 = arith.constant 64 : index
    %c128 = arith.constant 128 : index
    %1 = scf.for %i = %c0 to %c128 step %c64 {
      %4:3 = stream.resource.pack on(#d) slices({
        [0, 1] = %c128,
        [1, 3] = %c64
      }) : index
      use(%4#0, %4#1, %4#2)
    }
    %2 = scf.for %i = %c0 to %c128 step %c64 {
      %4:2 = stream.resource.pack on(#d) slices({
        [0, 1] = %c64
      }) : index
      scf.if {
        use(%4#0, %4#1)
      }
    }
    %3 = scf.for %i = %c0 to %c128 step %c64 {
      %4:2 = scf.if -> (index, index) {
      }
      use(%4#0, %4#1)
    }
    util.return
  }
}
"""
"""Blocks beside one another have the same names, of packs and of other values."""


def test_packs_of_one_name_in_loops_beside_one_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement, "_GAIN", 0)
    assert hosted(LOOPS) is None
    text = placed(LOOPS)
    assert text is not None and "pack" not in text
    assert (
        text.count("%placed0_0 = arith.constant 192 :") == text.count("%placed1_0 = arith.constant 64 :") == 1
    )
    uses = re.findall(r"use\((.*)\)", text)
    assert uses == ["%placed0_0, %placed0_1, %placed0_2", "%placed1_0, %placed1_1", "%4#0, %4#1"]


def source() -> tuple[Source, list[np.ndarray]]:
    """A gradient in which a small array is live while a large one is allocated, and its arguments."""
    rng = np.random.default_rng(0)
    program = tiduc.load("examples/mlp_f32.mlir").grad(value=True)
    arguments = [rng.standard_normal(x.type.shape).astype(np.float32) for x in program.signature.inputs]
    return source_of(program, HERE), arguments


def test_a_gradient_takes_less_memory() -> None:
    given, arguments = source()
    assert given.places_arrays
    by_iree = replace(given, places_arrays=False)
    modules = [compile_source(each) for each in (given, by_iree)]
    memory = [allocated(module, arguments) for module in modules]
    assert memory[0] < memory[1] - 7
    for x, y in zip(*(tiduc.Executable(module)(*arguments) for module in modules), strict=True):
        np.testing.assert_array_equal(x, y)


def test_iree_places_the_arrays_if_its_pipeline_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    given, arguments = source()
    wanted = tiduc.Executable(compile_source(given))(*arguments)
    monkeypatch.setattr("tiduc.backends.iree.steps.FINISH", "builtin.module(no-such-pass)")
    values = tiduc.Executable(compile_source(given, cached=False))(*arguments)
    for x, y in zip(values, wanted, strict=True):
        np.testing.assert_array_equal(x, y)


def test_small_programs_are_compiled_in_one_step() -> None:
    program = tiduc.load(
        "func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {\n  return %x : tensor<8xf32>\n}"
    )
    assert not source_of(program).places_arrays


REGION = """module {
  util.func public @main(%arg0: !hal.buffer_view) {
    %c0 = arith.constant 0 : index
    %c64 = arith.constant 64 : index
    %c128 = arith.constant 128 : index
    %c4 = arith.constant 4 : index
    %0:3 = stream.resource.pack on(#d) slices({
      [0, 0] = %c4,
      [0, 0] = %c128
    }) : index
    %r, %t0 = stream.resource.alloca uninitialized on(#d) : !stream.resource<external>{%0#0} => !stream.timepoint
    %1 = stream.resource.subview %r[%0#1] : !stream.resource<external>{%0#0} -> !stream.resource<external>{%c4}
    %2 = stream.resource.subview %r[%0#2] : !stream.resource<external>{%0#0} -> !stream.resource<external>{%c128}
    %3:4 = stream.resource.pack on(#d) slices({
      [0, 2] = %c128,
      [0, 1] = %c64,
      [1, 2] = %c64
    }) : index
    %s, %t1 = stream.resource.alloca uninitialized on(#d) : !stream.resource<transient>{%3#0} => !stream.timepoint
    %4 = stream.cmd.execute on(#d) with(%1 as %arg1: !stream.resource<external>{%c4}, %2 as %arg2: !stream.resource<external>{%c128}, %s as %arg3: !stream.resource<transient>{%3#0}) {
      stream.cmd.dispatch @a {
        wo %arg3[%3#1 for %c128] : !stream.resource<transient>{%3#0},
        wo %arg3[%3#2 for %c64] : !stream.resource<transient>{%3#0}
      }
      stream.cmd.dispatch @b {
        ro %arg3[%3#2 for %c64] : !stream.resource<transient>{%3#0},
        wo %arg3[%3#3 for %c64] : !stream.resource<transient>{%3#0},
        wo %arg1[%c0 for %c4] : !stream.resource<external>{%c4}
      }
      stream.cmd.dispatch @c {
        ro %arg3[%3#1 for %c128] : !stream.resource<transient>{%3#0},
        ro %arg3[%3#3 for %c64] : !stream.resource<transient>{%3#0},
        wo %arg2[%c0 for %c128] : !stream.resource<external>{%c128}
      }
    } => !stream.timepoint
    util.return
  }
}
"""  # noqa: E501
"""The second array is read before the large result is written; the others are read when it is."""


def test_arrays_lie_in_results_that_are_written_later() -> None:
    text = hosted(REGION)
    assert text is not None
    values = dict(re.findall(r"%hosted0_(\w+) = arith.constant (\d+)", text))
    assert values == {"0": "132", "1": "128", "2": "0", "at2": "0", "none": "0"}
    uses = re.findall(
        r"%hosted0_results\[%hosted0_at2 for %c64\] : !stream.resource<external>{%hosted0_0}", text
    )
    assert len(uses) == 2 and "#2 for" not in text
    assert "[0, 1] = %hosted0_none" in text and "%r as %hosted0_results" in text
    assert text.count("%arg3[%3#1 for") == text.count("%arg3[%3#3 for") == 2


@pytest.mark.parametrize("other", ["use(%3#2)", "stream.cmd.copy %arg3[%3#2], %arg1[%c0], %c4"])
def test_arrays_with_other_uses_keep_their_memory(other: str) -> None:
    assert hosted(REGION.replace("    util.return", f"    {other}\n    util.return")) is None


def test_results_that_are_used_before_host_nothing() -> None:
    assert hosted(REGION.replace("    %3:4 =", "    use(%2)\n    %3:4 =")) is None


@pytest.mark.parametrize("name", ["%2", "%5"])
def test_results_with_two_names_in_a_region_host_nothing(name: str) -> None:
    result = next(line for line in REGION.splitlines() if "%2 = " in line).replace("%2 =", "%5 =")
    text = REGION.replace("    %3:4 =", f"{result}\n    %3:4 =")
    given = f"{name} as %arg4: !stream.resource<external>{{%c128}}"
    assert hosted(text) is None
    assert hosted(text.replace("with(", f"with({given}, ")) is None


def test_each_region_hosts_arrays_in_its_own_results() -> None:
    begin, end = REGION.index("    %0:3"), REGION.index("    util.return")
    body = REGION[begin:end]
    other = re.sub(r"%(\d|[rs]|t\d)\b", r"%\1x", body)
    text = hosted(REGION[:end] + other + REGION[end:])
    assert text is not None
    assert "%r as %hosted0_results" in text and "%rx as %hosted1_results" in text
    assert text.count("%hosted0_at2 for") == text.count("%hosted1_at2 for") == 2
    assert text.count("arith.constant 132 : index") == 2 and "%0#" not in text and "%0x#" not in text


def indented(text: str) -> str:
    return "".join(f"  {line}\n" for line in text.splitlines())


def test_regions_in_loops_of_the_host_host_nothing() -> None:
    """They may run again, when the results have their values. This is no fault of the text."""
    begin, execute, end = (REGION.index(s) for s in ("    %0:3", "    %4 = ", "    util.return"))
    loop = "    scf.for %i = %c0 to %c4 step %c64 {\n"
    for start in (begin, execute):
        inside = REGION[:start] + loop + indented(REGION[start:end]) + "    }\n" + REGION[end:]
        assert hosted(inside) is None
    # Beside the loop, the region outside of loops still hosts arrays.
    other = re.sub(r"%(\d|[rs]|t\d|arg\d)\b", r"%\1x", REGION[begin:end])
    text = hosted(REGION[:end] + loop + indented(other) + "    }\n" + REGION[end:])
    assert text is not None
    assert text.count("%hosted0_at2 for") == 2 and "%hosted1" not in text and indented(other) in text


def test_functions_of_several_blocks_host_nothing() -> None:
    text = REGION.replace("    %4 = ", "    cf.br ^bb1\n  ^bb1:\n    %4 = ")
    assert text != REGION and hosted(text) is None


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


def test_a_gradient_of_loops_that_the_host_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """IREE prints one name for values of two loops."""
    seen = list[str]()

    def recorded(text: str) -> str | None:
        seen.append(text)
        return hosted(text)

    recorded.__name__ = "hosted"
    monkeypatch.setattr(steps, "hosted", recorded)
    monkeypatch.setattr(placement, "_GAIN", 0)
    monkeypatch.setattr(hosting, "_GAIN", 0)
    loops = [
        LOOP.replace("NAME", name).replace("FIRST", first).replace("ROWS", rows)
        for name, first, rows in (("a", "%ones", "%x"), ("b", "%a#1", "%a#2"))
    ]
    program = tiduc.load(SCANS.replace("LOOPS", "".join(loops))).grad(wrt=["x", "w"], value=True)
    given = next(each for i, each in enumerate(sources_of(program, HERE)) if i == 1)
    given = replace(given, places_arrays=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error", TiducRemark)
        modules = [
            compile_source(each, cached=False) for each in (given, replace(given, places_arrays=False))
        ]
    (text,) = seen
    assert text.count("= scf.for ") > 3 and len(re.findall(r"^      .*stream\.cmd\.execute ", text, re.M)) > 3
    rng = np.random.default_rng(0)
    arguments = [(rng.standard_normal(shape) / 8).astype(np.float32) for shape in ((40, 64), (64, 64))]
    for x, y in zip(*(tiduc.Executable(module)(*arguments) for module in modules), strict=True):
        np.testing.assert_array_equal(x, y)


def region(sizes: list[int], written: list[int], arrays: list[Array]) -> str:
    """A region whose dispatches write results of these sizes at these steps, and use arrays while they are live."""
    begin, last = REGION.index("    %c0"), max(array.last for array in arrays) + 1
    numbers = {*sizes, *(array.bytes for array in arrays), 0}
    constants = "".join(f"    %c{n} = arith.constant {n} : index\n" for n in sorted(numbers))
    result, transient = "!stream.resource<external>", "!stream.resource<transient>{%2#0}"
    slices = [
        ",\n".join(f"      [{first}, {end}] = %c{n}" for first, end, n in each)
        for each in ([(0, 0, n) for n in sizes], [(array.first, array.last, array.bytes) for array in arrays])
    ]
    text = f"""    %1:{len(sizes) + 1} = stream.resource.pack on(#d) slices({{\n{slices[0]}\n    }}) : index
    %r, %t0 = stream.resource.alloca uninitialized on(#d) : {result}{{%1#0}} => !stream.timepoint\n"""
    for i, n in enumerate(sizes, 1):
        text += f"    %v{i} = stream.resource.subview %r[%1#{i}] : {result}{{%1#0}} -> {result}{{%c{n}}}\n"
    operands = [f"%v{i} as %a{i}: {result}{{%c{n}}}" for i, n in enumerate(sizes, 1)]
    text += f"""    %2:{len(arrays) + 1} = stream.resource.pack on(#d) slices({{\n{slices[1]}\n    }}) : index
    %s, %t1 = stream.resource.alloca uninitialized on(#d) : {transient} => !stream.timepoint
    %3 = stream.cmd.execute on(#d) with({", ".join([*operands, f"%s as %b: {transient}"])}) {{\n"""
    for step in range(last + 1):
        text += "      stream.cmd.dispatch @d {\n"
        for i, array in enumerate(arrays, 1):
            if step in (array.first, array.last):
                text += f"        rw %b[%2#{i} for %c{array.bytes}] : {transient},\n"
        for i, n in enumerate(sizes, 1):
            if step == written[i - 1]:
                text += f"        wo %a{i}[%c0 for %c{n}] : {result}{{%c{n}}},\n"
        text += "      }\n"
    return (
        REGION[:begin]
        + constants
        + text
        + "    } => !stream.timepoint\n"
        + REGION[REGION.index("    util.return") :]
    )


def test_hosted_arrays_lie_in_the_allocation_of_results_and_overlap_nothing() -> None:
    """Arrays end within the bytes that are allocated, whatever the size of the last result, and while both are live."""
    rng, moved = np.random.default_rng(0), 0
    for _ in range(60):
        begins = rng.integers(0, 12, 8)
        arrays = [Array(int(t), int(t + rng.integers(0, 5)), int(rng.integers(1, 900))) for t in begins]
        count = int(rng.integers(1, 5))
        sizes, written = rng.integers(1, 1500, count).tolist(), rng.integers(0, 17, count).tolist()
        last = max(array.last for array in arrays) + 1
        written = [min(step, last) for step in written]
        text = hosted(region(sizes, written, arrays))
        if text is None:
            continue
        values = {name: int(n) for name, n in re.findall(r"%hosted0_(\w+) = arith.constant (\d+)", text)}
        places = [
            (values[f"{i}"], n, step, last + 1)
            for i, (n, step) in enumerate(zip(sizes, written, strict=True), 1)
        ]
        for i, array in enumerate(arrays, 1):
            if f"at{i}" in values:
                places.append((values[f"at{i}"], array.bytes, array.first, array.last))
                moved += 1
        for start, size, *_ in places:
            assert start % 64 == 0 and start + size <= values["0"]
        for (u, m, first, end), (v, n, other, until) in itertools.combinations(places, 2):
            assert u + m <= v or v + n <= u or end < other or until < first
    assert moved > 60
