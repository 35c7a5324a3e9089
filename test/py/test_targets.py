"""Each target compiles a small program, refuses the types that it does not support, and is listed by `tiduc
targets`.
"""

import re

import numpy as np
import pytest
from harness.vulkan import skip_without_device

from tiduc.backends.iree.compile import compile_module, compile_modules
from tiduc.backends.iree.source import Source
from tiduc.backends.iree.targets import TARGETS, find_target
from tiduc.cli import run
from tiduc.dialect.errors import CompileError, TiducError
from tiduc.loading import load
from tiduc.runtime.run import run_module

# One target for each code generator and file format. Other tests compile for the targets of this machine.
TRIED = "aarch64 wasm32 cuda:sm_120 hip metal vmvx vulkan".split()
# The other targets, the oldest CUDA variant, and one variant of each other device family. Developers compile the whole
# list manually for each version of IREE.
FAMILIES = (
    "cpu cpu:generic cpu-threads aarch64-android armv7 riscv64 x86_64 cuda cuda:sm_70 vulkan:llvmpipe "
    "aarch64:cortex-a72 riscv64:v cuda:sm_75 cuda:sm_86 cuda:sm_87 cuda:sm_89 cuda:sm_90 hip:gfx1100 vulkan:rdna3"
).split()


def doubled(element: str, line: str = "") -> str:
    t = f"tensor<37x{element}>"
    return f"func.func @f(%x: {t}) -> {t} {{\n  %y = stablehlo.add %x, %x : {t}\n  return %y : {t}\n}}"


@pytest.mark.parametrize(
    "names", [TRIED, pytest.param(FAMILIES, marks=pytest.mark.slow)], ids=["targets", "families"]
)
def test_every_target_compiles(names: list[str]) -> None:
    compiled = compile_modules([[Source(doubled("f32"), name)] for name in names])
    assert [vmfb for vmfb in compiled if not isinstance(vmfb, bytes)] == []


def test_every_target_is_tried() -> None:
    modules = {name for name, target in TARGETS.items() if not target.library}
    assert {name.partition(":")[0] for name in (*TRIED, *FAMILIES)} == modules


@pytest.mark.parametrize("name", ["cpu:generic", "cpu-threads", "vmvx", "vulkan:llvmpipe", "cuda", "hip"])
def test_targets_that_run_here(name: str) -> None:
    skip_without_device(name)
    x = np.arange(37, dtype=np.float32)
    np.testing.assert_array_equal(run_module(compile_module(doubled("f32"), name), [x], name)[0], x + x)


@pytest.mark.parametrize(
    "name, words",
    [
        (
            "tpu",
            "unknown target 'tpu'; known targets: aarch64, aarch64-android, armv7, cortex-m4, cpu, cpu-threads, cuda, "
            "hip, metal, riscv32, riscv64, ",
        ),
        ("cortexm4", "unknown target 'cortexm4'; did you mean 'cortex-m4'?"),
        ("", "unknown target ''"),
        ("cpu:avx", "unknown variant 'avx' of target 'cpu'; known: host, generic, "),
        ("metal:m1", "target 'metal' has no variants, got 'metal:m1'"),
        ("cuda:sm_99", "unknown variant 'sm_99' of target 'cuda'; known: sm_70, sm_75, "),
        ("cuda:", "unknown variant ''"),
    ],
)
def test_unknown_targets(name: str, words: str) -> None:
    with pytest.raises(TiducError) as raised:
        compile_module(doubled("f32"), name)
    assert words in str(raised.value)


def test_no_target_makes_f32_of_f64() -> None:
    for name in TARGETS:
        assert "--iree-input-demote-f64-to-f32=false" in find_target(name).flags


LACKING = [(name, element) for name in TARGETS for element in find_target(name).lacks]


@pytest.mark.parametrize("name, element", LACKING)
def test_unsupported_types_are_refused_at_their_ops(name: str, element: str, tmp_path, capfd) -> None:
    (tmp_path / "f.mlir").write_text(doubled(element))
    assert run(["compile", str(tmp_path / "f.mlir"), "--target", name, "-o", str(tmp_path / "f")]) == 1
    assert f"f.mlir:2:8: error: target '{name}' has no arithmetic of {element}; " in capfd.readouterr().err
    within = f"""func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{
  %y = stablehlo.convert %x : (tensor<4xf32>) -> tensor<4x{element}>
  %z = stablehlo.convert %y : (tensor<4x{element}>) -> tensor<4xf32>
  return %z : tensor<4xf32>
}}"""
    words = re.escape(f"2:8: error: target '{name}' has no arithmetic of {element}; ")
    with pytest.raises(CompileError, match=words):
        load(within).compile(name)


@pytest.mark.parametrize(
    "cases", [LACKING[::5], pytest.param(LACKING, marks=pytest.mark.slow)], ids=["few", "all"]
)
def test_iree_alone_fails_on_unsupported_types(cases: list[tuple[str, str]]) -> None:
    """IREE alone cannot compile the types that tiduc refuses for a target.

    If this test fails, a newer IREE supports a type, and targets.py need not refuse the type.
    """
    compiled = compile_modules([[Source(doubled(element), name)] for name, element in cases])
    assert [case for case, answer in zip(cases, compiled, strict=True) if isinstance(answer, bytes)] == []


def test_features_of_variants() -> None:
    assert "f64" in find_target("vulkan").lacks and not find_target("vulkan:llvmpipe").lacks
    assert (
        "f8E4M3FN" not in find_target("hip:gfx950").lacks and "f8E4M3FNUZ" in find_target("hip:gfx950").lacks
    )
    for base, target in TARGETS.items():
        assert all(variant in target.variants for having in target.lacks.values() for variant in having)
        for variant in target.variants:
            assert find_target(f"{base}:{variant}").flags


def test_targets_are_listed(capfd) -> None:
    assert run(["targets"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines if not line.startswith(" ")] == [*TARGETS]
    assert lines[0] == "cpu" and lines[2].split()[:2] == ["variants", "host"]
    assert "wasm32 (does not run here)" in lines and any("lacks     f64" in line for line in lines)
    assert run(["targets", "--markdown"]) == 0
    assert capfd.readouterr().out.startswith("| target | variants | runs here | lacks | what |")


def test_modules_for_other_machines_are_refused() -> None:
    with pytest.raises(TiducError, match="modules for target 'wasm32' do not run on this machine"):
        run_module(compile_module(doubled("f32"), "wasm32"), [np.zeros(37, np.float32)], "wasm32")
