"""Tests that IREE's compiler gets tiduc's functions of workgroups only after it has scheduled dispatches."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from harness.sources import source_of
from harness.variants import AVX512, HERE
from torch_mlir import ir

import tiduc
from tiduc.backends.iree import compile as compilation
from tiduc.backends.iree import compiler_progress
from tiduc.backends.iree.compile import compile_first, compile_source, compile_until
from tiduc.backends.iree.emit.workgroups import _relocate
from tiduc.backends.iree.fast import convolutions
from tiduc.backends.iree.source import Source
from tiduc.dialect import progress
from tiduc.dialect.graph.functions import functions_in
from tiduc.dialect.mlir.context import parse

KIND = "tensor<131x131xf32>"
PRODUCT = f"""func.func @main(%x: {KIND}) -> {KIND} {{
  %y = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : ({KIND}, {KIND}) -> {KIND}
  return %y : {KIND}
}}"""
LOOP = PRODUCT.replace("%x: tensor", "%n: tensor<i32>, %x: tensor").replace(
    "  return %y",
    f"""  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %r:2 = stablehlo.while(%i = %zero, %z = %y) : tensor<i32>, {KIND}
  cond {{
    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }} do {{
    %j = stablehlo.add %i, %one : tensor<i32>
    %w = stablehlo.dot_general %z, %x, contracting_dims = [1] x [0] : ({KIND}, {KIND}) -> {KIND}
    stablehlo.return %j, %w : tensor<i32>, {KIND}
  }}
  return %r#1""",
)
"""A product in a loop that runs on the host. The loop's trip count is an argument."""

X = np.random.default_rng(0).standard_normal((131, 131)).astype(np.float32) / 12


def source(text: str, cpu: str = AVX512) -> Source:
    """The source that tiduc compiles first for a program."""
    return source_of(tiduc.load(text), cpu)


def result(source: Source, *arguments: Any) -> Any:
    return tiduc.Executable(compile_source(source, cached=False))(*arguments)[0]


@pytest.mark.more
@pytest.mark.parametrize("text", [PRODUCT, LOOP])
def test_the_compiler_gets_functions_last(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """No run of the compiler before the phase `stream` reads the code of workgroups, and the values are right."""
    runs: list[tuple[list[str], bytes]] = []
    within = compilation.run_within

    def recorded(command: list[str], program: bytes, *more: Any) -> Any:
        runs.append((command, program))
        return within(command, program, *more)

    monkeypatch.setattr(compilation, "run_within", recorded)
    apart, arguments = source(text), (X,) if text == PRODUCT else (np.int32(2), X)
    assert len(apart.workgroups) == 1
    compile_source(apart, cached=False)
    (lower,) = [i for i, (command, _) in enumerate(runs) if "--compile-from=stream" in command]
    for command, program in runs[:lower]:
        read = program.partition(b"\n")[2] if "-c" in command else program  # line 1 contains the functions
        assert b"vector.fma" not in read and b"\0fma\0" not in read
    assert b"\0fma\0" in runs[lower][1]
    assert len(runs) == (6 if text == PRODUCT else 5)
    expected, here = X @ X if text == PRODUCT else X @ X @ X @ X, source(text, HERE)
    ours = result(here, *arguments)
    np.testing.assert_allclose(ours, expected, rtol=0, atol=2e-5 * abs(expected).max())
    np.testing.assert_array_equal(result(here.in_one_run(), *arguments), ours)


def test_a_verified_run_follows_an_unverified_one_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    within, expected = compilation.run_within, compile_source(source(PRODUCT), cached=False)
    log: list[str] = []

    def failing(command: list[str], program: bytes, *more: Any) -> Any:
        ended = within(command, program, *more)
        return replace(ended, code=1) if "--compile-from=executable-targets" in command else ended

    monkeypatch.setattr(compilation, "run_within", failing)
    assert compile_first([source(PRODUCT)], cached=False, log=log) == expected
    (said,) = log
    assert said.startswith(
        "compiled; lower executables, lower the code of the host ran again: one verified run"
    )


def test_functions_of_modules_with_resources() -> None:
    """A module with a resource (a large constant) is passed as bytecode that contains all functions of workgroups."""
    weights = np.arange(131 * 131, dtype=np.float32).reshape(131, 131) / 131**2
    resource = (b"\4\0\0\0" + weights.tobytes()).hex()
    text = PRODUCT.replace("%x, %x", "%w, %x").replace(
        "  %y", f'  %w = stablehlo.constant dense_resource<"w"> : {KIND}\n  %y'
    )
    text = f'{text} {{-# dialect_resources: {{ builtin: {{ "w": "0x{resource}" }} }} #-}}'
    whole = source(text)
    assert isinstance(whole.stablehlo, bytes) and not whole.workgroups
    assert any("inline" in flag for flag in whole.flags)
    np.testing.assert_allclose(result(source(text, HERE), X), weights @ X, rtol=0, atol=2e-5)


def test_text_after_a_phase_has_the_functions() -> None:
    assert b"vector.fma" in compile_until(source(PRODUCT), "flow")
    assert b"vector.fma" not in source(PRODUCT).text


def test_functions_have_the_locations_of_ops(tmp_path: Path) -> None:
    """The code of a workgroup has the location of the user's op, so that errors of IREE name the user's line."""
    path = tmp_path / "product.mlir"
    path.write_text(PRODUCT)
    (text,) = source_of(tiduc.load(path)).workgroups.values()
    assert 'product.mlir":2:8)' in text and "#loc" not in text and "#map" not in text


def test_a_location_is_replaced_in_ops_and_in_arguments_of_blocks() -> None:
    """MLIR then prints the chain of calls of a kernel's location once, not for each op of the kernel."""
    called = 'loc(callsite("a.py":1:0 at "b.py":2:0))'
    text = f"""func.func @f(%x: tensor<4xf32> {called}, %y: tensor<4xf32> loc("z")) -> tensor<4xf32> {{
      %0 = stablehlo.add %x, %y : tensor<4xf32> {called}
      %1 = "stablehlo.map"(%0) <{{dimensions = array<i64: 0>}}> ({{
      ^bb0(%z: tensor<f32> {called}):
        stablehlo.return %z : tensor<f32> {called}
      }}) : (tensor<4xf32>) -> tensor<4xf32> loc("z")
      return %1 : tensor<4xf32> {called}
    }} {called}"""
    module = parse(text)
    (function,) = functions_in(module)
    with module.context:
        _relocate(function, function.location, ir.Location.name("one"))
        written = str(function.get_asm(enable_debug_info=True, use_local_scope=True))
    assert "a.py" not in written and written.count('loc("one")') == 6 and written.count('loc("z")') == 2


def test_progress_goes_on_in_the_second_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler_progress, "_EVERY", 0.002)
    said: list[str] = []
    with progress.listening(said.append):
        compile_source(source(PRODUCT), cached=False)
    order = ["forms", "schedules", "lowers", "compiled", "links"]
    seen = [next(i for i, word in enumerate(order) if word in each) for each in said]
    assert seen == sorted(seen) and said[-1] == "IREE links the module"


def test_each_kernel_of_convolutions_is_a_record() -> None:
    """The files that emit convolutions create dispatches only by `Code`."""
    texts = [path.read_text() for path in Path(convolutions.__file__).parent.glob("*.py")]
    assert sum(text.count(" Code(") for text in texts) == 5
    assert not any(name in text for text in texts for name in ("in_workgroups", "Shared"))
