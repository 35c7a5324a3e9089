"""Passes on the text of IREE's compiler check what they rely on, and are left out where it does not hold."""

from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from harness.sources import source_of
from test_iree_placement import MODULE, REGION
from test_iree_repeats import network

import tiduc
from tiduc.backends.iree import steps
from tiduc.backends.iree.compile import compile_source
from tiduc.backends.iree.fast.compile_time import repeats as of_repeats
from tiduc.backends.iree.modules import hosting, placement
from tiduc.backends.iree.modules.invariants import Broken, or_refuse, require, unless_broken
from tiduc.backends.iree.modules.joined import inlined, with_workgroups
from tiduc.backends.iree.modules.placement import Array, Fixed, Places, check_places
from tiduc.backends.iree.modules.vm import rewritten
from tiduc.backends.iree.modules.vm.recordings import copies_bound_arrays
from tiduc.backends.iree.sizes import Buffers, _buffers
from tiduc.cli import run
from tiduc.dialect.errors import CompileError, TiducRemark

TEXTS: dict[str, tuple[Callable[[str], object], str, str, str]] = {
    "an offset": (placement.placed, MODULE, "pack on(#d) slices", "pack on(#d) offset(%c64) slices"),
    "fewer results": (placement.placed, MODULE, "%0:4 =", "%0:3 ="),
    "a slice of another form": (placement.placed, MODULE, "[1, 3] = %c64", "[1 to 3] = %c64"),
    "a name of two constants": (
        placement.placed,
        MODULE,
        "    %c128 = arith.constant 128",
        "    %c64 = arith.constant 65 : index\n    %c128 = arith.constant 128",
    ),
    "a name of two packs in a block": (
        placement.placed,
        MODULE,
        "    util.return",
        "    scf.for {\n      %0:2 = stream.resource.pack slices({\n        [0, 1] = %c64\n      }) : index\n"
        "      use(%0#1)\n    }\n    util.return",
    ),
    "a use after the block of the pack": (
        placement.placed,
        MODULE.replace("%0", "%1", 5).replace(
            "    util.return",
            "    scf.for {\n      %0:2 = stream.resource.pack slices({\n        [0, 1] = %c64\n      }) : index\n"
            "      use(%0#1)\n    }\n    util.return",
            1,
        ),
        "    util.return",
        "    use(%0#1)\n    util.return",
    ),
    "a constant that is also another number": (
        placement.placed,
        MODULE,
        "    util.return",
        "    scf.for {\n      %c64 = arith.addi %arg0, %arg0 : index\n    }\n    util.return",
    ),
    "a name outside of loops and in a loop": (
        hosting.hosted,
        REGION,
        "    util.return",
        "    scf.for {\n      %4 = arith.addi %c0, %c4 : index\n    }\n    util.return",
    ),
    "a use before the pack": (placement.placed, MODULE, "    %0:4 =", "    use(%0#1)\n    %0:4 ="),
    "a pack outside of functions": (
        placement.placed,
        MODULE,
        "module {",
        "module { stream.resource.pack slices",
    ),
    "another alignment": (
        placement.placed,
        MODULE,
        "module {",
        "module attributes {c = #stream.resource_config<{min_buffer_offset_alignment = 256}>} {",
    ),
    "a region of another form": (hosting.hosted, REGION, "    } => !stream", "    } -> !stream"),
    "a step of another form": (hosting.hosted, REGION, "      stream.cmd.", "      new.cmd."),
    "a use beyond its array": (hosting.hosted, REGION, "for %c64]", "for %c128]"),
    "a result beyond its slice": (
        hosting.hosted,
        REGION,
        "!stream.resource<external>{%c4}",
        "!stream.resource<external>{%c128}",
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_that_breaks_an_invariant(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function, text, old, new = TEXTS[name]
    for module in (placement, hosting):
        monkeypatch.setattr(module, "_GAIN", 0)
    assert old in text and function(text) is not None
    with pytest.raises((Broken, LookupError, ValueError)):
        function(text.replace(old, new, 1))


def test_regions_beside_one_another_have_the_same_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """IREE prints one name for equal constants of two loops."""
    monkeypatch.setattr(placement, "_GAIN", 0)
    again = MODULE.replace("    use(", "    %c64 = arith.constant 64 : index\n    use(")
    assert again.count("%c64 = arith.constant 64 :") == 4
    assert (placement.placed(again) or "").count("%placed0_0 = arith.constant 192") == 1


def test_places_that_overlap() -> None:
    x, y = Array(0, 3, 64), Array(2, 5, 64)
    check_places([x, y], Places(128, [0, 64]))
    check_places([x, Array(4, 5, 64)], Places(64, [0, 0]))
    for arrays, places, fixed in (
        ([x, y], Places(64, [0, 0]), ()),
        ([x, y], Places(100, [0, 64]), ()),
        ([x, y], Places(128, [0, 32]), ()),
        ([x], Places(64, [0]), [Fixed(0, 64, 3, 9)]),
        ([Array(0, 1, 64, least=64)], Places(64, [0]), ()),
    ):
        with pytest.raises(Broken):
            check_places(arrays, places, fixed)


NEVER = "attributes {inlining_policy = #util.inline.never}"
CALLS = f"""module {{
  util.func public @main(%arg0: tensor<2xf32>) -> tensor<2xf32> {{
    %0 = util.call @repeated_0(%arg0) : (tensor<2xf32>) -> tensor<2xf32>
    %1 = util.call @repeated_0(%0) : (tensor<2xf32>) -> tensor<2xf32>
    util.return %1 : tensor<2xf32>
  }}
  util.func private @repeated_0(%arg0: tensor<2xf32>) -> tensor<2xf32> {NEVER} {{
    %0 = op %arg0 : tensor<2xf32>
    util.return %0 : tensor<2xf32>
  }}
}}
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    util.return %1", "    %2 = other @repeated_0(%1)\n    util.return %1"),
        ("    %0 = op", "    br ^bb1\n  ^bb1:\n    %0 = op"),
        ("@repeated_0(%0)", "@repeated_0(%0, %0)"),
        ("    %1 = util.call", "    %1:2 = util.call"),
    ],
)
def test_functions_that_cannot_be_inlined(old: str, new: str) -> None:
    assert b"repeated_0" not in inlined(CALLS.encode())
    with pytest.raises((Broken, ValueError)):
        inlined(CALLS.replace(old, new).encode())


def test_workgroups_that_are_not_declared_on_a_line() -> None:
    text = b"module {\n  func.func private @f(memref<?xf32>)\n}\n"
    assert with_workgroups(text, {"f": "  func.func @f() {}"}) == b"module {\n  func.func @f() {}\n}\n"
    with pytest.raises(CompileError, match="declared on a line of its own"):
        with_workgroups(b"module { func.func private @f(memref<?xf32>)\n}\n", {"f": "  func.func @f() {}"})


@pytest.mark.parametrize(
    "line",
    [
        "vm.call @hal.device.queue.dealloca(%d, %q, %w, %s, %b) : () -> ()",
        "vm.call @hal.device.queue.dealloca(%d, (%q), %w, %s, %b, %f) : () -> ()",
        "vm.br ^bb1(%x, %y : i32)",
        "vm.br ^bb1(%x, %y : tuple<(i32, i32)>)",
    ],
)
def test_vm_code_of_another_form_is_refused(line: str) -> None:
    """Without these rewrites, programs would be wrong."""
    with pytest.raises(CompileError, match="breaks an invariant"):
        rewritten(
            f"vm.module public @m {{\n  vm.func @f() {{\n    {line}\n  ^bb1(%z: i32):\n  }}\n}}\n".encode()
        )


def test_a_copy_of_another_form_is_refused() -> None:
    with pytest.raises(CompileError, match="breaks an invariant"):
        copies_bound_arrays(b"vm.call @hal.command_buffer.copy_buffer((%a), %b)")


def test_large_arrays_of_another_form_stay() -> None:
    """This rewrite is for speed alone."""
    text = b"vm.module public @m {\n  %0 = vm.call @hal.device.queue.alloca(%d, %q) : () -> ()\n}\n"
    with pytest.warns(TiducRemark, match="'keep_large_arrays'"):
        assert rewritten(text, threaded=True) == text


def test_buffers_of_another_form_have_no_known_size() -> None:
    lines = "%i0 = vm.const.i64 64\n%r1 = vm.call @hal.device.queue.alloca(%r0, %i1, %r2, %r3, %i4, %i5, %i6, %i0, %i8)"
    assert _buffers(lines) == Buffers(64, False)
    assert _buffers(lines.replace("%r1 = ", "%b1 = ")) == Buffers(None, False)


def test_what_follows() -> None:
    def half(n: int) -> int:
        require(n % 2 == 0, "numbers are even")
        return n // 2

    assert unless_broken(half, 4) == or_refuse(half, 4) == 2
    with pytest.warns(TiducRemark, match=r"without 'half'.*numbers are even"):
        assert unless_broken(half, 3) is None
    with pytest.raises(CompileError, match=r"'half'.*numbers are even"):
        or_refuse(half, 3)


@pytest.mark.parametrize("name", ["placed", "hosted", "inlined"])
def test_a_program_compiles_without_the_pass(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values stay as they are."""

    def broken(text: object) -> None:
        raise Broken("texts are short")

    broken.__name__ = name
    monkeypatch.setattr(steps, name, broken)
    with patch.multiple(of_repeats, LEAST=4, SAVED=4, LEAST_SAVED=8):
        source = source_of(tiduc.load(network(6)))
    assert source.repeats and source.places_arrays
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
    def placed(text: str) -> None:
        raise Broken("texts are short")

    monkeypatch.setattr(steps, "placed", placed)
    output = str(tmp_path / "mlp.vmfb")
    assert run(["compile", "examples/mlp_f32.mlir", "--no-cache", "-o", output]) == 0
    assert "remark: compiled without 'placed': " in capfd.readouterr().err
