"""Edits of IREE's IR check their assumptions about the IR. If one does not hold, an edit for speed is skipped."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from cases.iree_programs import NESTED
from harness.edits import after, broken, compiles_with
from harness.sources import source_of
from harness.variants import HERE
from iree.compiler import ir
from test_iree_hosting import REGION
from test_iree_placement import LOOPS, MODULE
from test_iree_repeats import network

import tiduc
from tiduc.backends.iree.compile import compile_module, compile_source
from tiduc.backends.iree.fast.compile_time import repeats as of_repeats
from tiduc.backends.iree.modules import edits, hosting, placement
from tiduc.backends.iree.modules.hosting import host_arrays
from tiduc.backends.iree.modules.invariants import Broken
from tiduc.backends.iree.modules.job import REMARK, said
from tiduc.backends.iree.modules.ops import blocks, constant, operations
from tiduc.backends.iree.modules.order import Allocation, Fixed, LiveArray, check_places
from tiduc.backends.iree.modules.placement import place_arrays
from tiduc.backends.iree.modules.vm.large_arrays import keep_large_arrays
from tiduc.backends.iree.modules.vm.poison import poison_arrays
from tiduc.backends.iree.modules.vm.recordings import copies_bound_arrays
from tiduc.backends.iree.modules.vm.references import copy_passed_references
from tiduc.backends.iree.modules.vm.registers import widen_block_arguments
from tiduc.backends.iree.modules.vm.releases import replace_early_releases
from tiduc.backends.iree.modules.workgroups import put_in_workgroups
from tiduc.backends.iree.sizes import Buffers, _buffers
from tiduc.cli import run
from tiduc.dialect.errors import CompileError, TiducRemark

TEXTS: dict[str, tuple[Callable[[Any], bool], str, str, str]] = {
    "an offset": (place_arrays, MODULE, "pack slices", "pack offset(%c64) slices"),
    "another alignment": (
        place_arrays,
        MODULE,
        "module {",
        "module attributes {stream.c = #stream.resource_config<{min_buffer_offset_alignment = 256}>} {",
    ),
    "a use beyond its array": (host_arrays, REGION, "for %c64]", "for %c128]"),
    "a result beyond its slice": (
        host_arrays,
        REGION,
        "!stream.resource<external>{%c4}",
        "!stream.resource<external>{%c128}",
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_module_that_breaks_an_invariant(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    edit, text, old, new = TEXTS[name]
    for module in (placement, hosting):
        monkeypatch.setattr(module, "_GAIN", 0)
    assert old in text and after(edit, text) is not None
    with pytest.raises(Broken):
        after(edit, text.replace(old, new, 1))


def test_alignments_that_the_pattern_does_not_find(monkeypatch: pytest.MonkeyPatch) -> None:
    """`place_arrays` raises `Broken` if its regular expression does not find the alignments in IREE's text."""
    config = "#stream.resource_config<{min_buffer_offset_alignment = 64, min_buffer_range_alignment = 64}>"
    given = MODULE.replace("module {", f"module attributes {{stream.c = {config}}} {{", 1)
    after(place_arrays, given)
    monkeypatch.setattr(placement, "_ALIGNED", re.compile(r"alignment = (\d+) bits"))
    with pytest.raises(Broken, match="has two alignments"):
        after(place_arrays, given)


def test_places_that_overlap() -> None:
    x, y = LiveArray(0, 3, 64), LiveArray(2, 5, 64)
    check_places([x, y], Allocation(128, [0, 64]))
    check_places([x, LiveArray(4, 5, 64)], Allocation(64, [0, 0]))
    for arrays, places, fixed in (
        ([x, y], Allocation(64, [0, 0]), ()),
        ([x, y], Allocation(100, [0, 64]), ()),
        ([x, y], Allocation(128, [0, 32]), ()),
        ([x], Allocation(64, [0]), [Fixed(0, 64, 3, 9)]),
        ([LiveArray(0, 1, 64, least=64)], Allocation(64, [0]), ()),
    ):
        with pytest.raises(Broken):
            check_places(arrays, places, fixed)


DECLARED = """module {
  stream.executable private @e {
    builtin.module {
      func.func private @f(memref<?xf32>)
    }
  }
}
"""
F = "func.func private @f(%x: memref<?xf32>) { return }"


def put_in(workgroups: dict[str, str]) -> Callable[[Any], bool]:
    return lambda module: put_in_workgroups(module, workgroups)


def test_workgroups() -> None:
    text = after(put_in({"f": F}), DECLARED)
    assert text is not None and "return" in text and text.count("@f") == 1
    assert after(put_in({}), DECLARED) is None
    for text, workgroups in (
        (DECLARED.replace("(memref<?xf32>)", "(%x: memref<?xf32>) { return }"), {"f": F}),
        (DECLARED, {"g": F.replace("@f", "@g")}),
        (DECLARED, {"f": F.replace("@f", "@g")}),
    ):
        with pytest.raises(Broken):
            after(put_in(workgroups), text)


FEW = """vm.module public @m {{
  vm.import private @{name}(%x : i64)
  vm.func @f(%x: i64) {{
    vm.call @{name}(%x) : (i64) -> ()
    vm.return
  }}
}}
"""
"""A VM module that calls an imported function with fewer operands than IREE's function has."""


@pytest.mark.parametrize(
    ("edit", "name"),
    [
        (replace_early_releases, "hal.device.queue.dealloca"),
        (keep_large_arrays, "hal.device.queue.alloca"),
        (poison_arrays, "hal.device.queue.dealloca"),
        (copies_bound_arrays, "hal.command_buffer.copy_buffer"),
    ],
)
def test_calls_of_another_form(edit: Callable[[Any], bool], name: str) -> None:
    with pytest.raises(Broken, match=f"calls of {name} have"):
        after(edit, FEW.format(name=name))


END = """module { vm.module public @m {
  vm.func @f(%p: i32) {
    "test.br"(%p)[^bb1] : (i32) -> ()
  ^bb1:
    vm.return
  }
} }
"""


@pytest.mark.parametrize("edit", [copy_passed_references, widen_block_arguments])
def test_a_branch_of_another_form(edit: Callable[[Any], bool]) -> None:
    with pytest.raises(Broken, match="a block ends in a branch, a return or a failure"):
        after(edit, END)


def test_buffers_of_another_form_have_no_known_size() -> None:
    lines = "%i0 = vm.const.i64 64\n%r1 = vm.call @hal.device.queue.alloca(%r0, %i1, %r2, %r3, %i4, %i5, %i6, %i0, %i8)"
    assert _buffers(lines) == Buffers(64, False)
    assert _buffers(lines.replace("%r1 = ", "%b1 = ")) == Buffers(None, False)


def edited_by(edit: Callable[[Any], bool], name: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Registers an edit for speed under this name, and returns a module's text after the edit."""
    monkeypatch.setitem(edits.SPEED, name, edit)
    with ir.Context():
        module = ir.Module.parse(
            LOOPS.replace('"test.use"', "").split("    scf.for")[0] + "    util.return\n  }\n}"
        )
        return str(edits.edited(module.operation, [name], {}))


@pytest.mark.parametrize("fault", ["an invariant", "other IR", "invalid IR"])
def test_an_edit_for_speed_that_fails_is_undone(
    fault: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """If an edit for speed fails after it has changed the module, its changes are undone, and a remark is printed."""

    def half(module: Any) -> bool:
        first = operations(blocks(operations(module.regions[0].blocks[0])[0])[0])[-1]
        constant(77, first)
        if fault == "an invariant":
            raise Broken("modules are short")
        if fault == "other IR":
            raise AttributeError("no such attribute")
        first.erase()
        return True

    plain = edited_by(lambda module: False, "half", monkeypatch)
    assert edited_by(half, "half", monkeypatch) == plain and "77" not in plain
    errors, told = said(capfd.readouterr().err)
    assert [kind for kind, _ in told] == [REMARK] and "without 'half'" in told[0][1]


@pytest.mark.parametrize("error", [Broken("modules are short"), AttributeError("none")])
def test_a_program_that_cannot_be_corrected_is_refused(error: Exception) -> None:
    def correct(module: Any) -> bool:
        raise error

    with ir.Context(), pytest.raises(edits.RefusedEdit, match=r"'correct'.*the program could be wrong"):
        edits.or_refuse(correct, ir.Module.parse("module {}").operation)


def test_a_refusal_is_an_error_of_the_compilation(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "replace_early_releases"
    compiles_with(monkeypatch, broken(name).replace("SPEED", "CORRECTIONS"))
    with pytest.raises(CompileError, match=f"breaks an invariant of the edit '{name}'"):
        compile_module(NESTED, cached=False)


@pytest.mark.parametrize("name", ["place_arrays", "host_arrays", "inline_repeats"])
def test_a_program_compiles_without_the_edit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If an edit of IREE's IR fails, the program still compiles, with a remark, and its values equal NumPy's."""
    compiles_with(monkeypatch, broken(name))
    with patch.multiple(of_repeats, LEAST=4, SAVED=4, LEAST_SAVED=8):
        source = source_of(tiduc.load(network(6)), HERE)
    assert source.repeats and source.places
    with pytest.warns(TiducRemark, match=f"'{name}'"):
        module = compile_source(source, cached=False)
    rng = np.random.default_rng(0)
    x, *given = [
        rng.standard_normal(s).astype(np.float32) / 12 for s in [(131, 131), *[(131, 131), (131,)] * 6]
    ]
    (result,) = tiduc.Executable(module)(x, *given)
    for w, b in zip(given[::2], given[1::2], strict=True):
        x = np.tanh(x @ w + b) / 4
    np.testing.assert_allclose(result, x, rtol=1e-4, atol=1e-6)


def test_the_command_prints_a_remark(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    compiles_with(monkeypatch, broken("place_arrays"))
    output = str(tmp_path / "mlp.vmfb")
    assert run(["compile", "examples/mlp_f32.mlir", "--no-cache", "-o", output]) == 0
    assert "remark: compiled without 'place_arrays': " in capfd.readouterr().err
