"""Tests which files read IREE's text by regular expressions, and how often each expression matches.

tiduc changes IREE's modules only through IR (`backends/iree/modules/`); these expressions only read text. If one of
them stops matching, for example with another version of IREE, a test fails.
"""

import ast
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from harness.edits import after
from harness.variants import AVX512

import tiduc
from tiduc.backends.backend import Options
from tiduc.backends.iree import compile as of_compile
from tiduc.backends.iree import compiler_progress, sizes
from tiduc.backends.iree.build import build
from tiduc.backends.iree.compile import compile_module
from tiduc.backends.iree.modules import placement
from tiduc.backends.iree.static import constants
from tiduc.backends.iree.static.library import compile_library
from tiduc.dialect.errors import CompileError
from tiduc.dialect.progress import listening

ROOT = Path(__file__).parents[2] / "backends" / "iree"
X, Y = "tensor<64x64xf32>", "tensor<64xf32>"
PROGRAM = f"""func.func @f(%x: {X}) -> {Y} {{
  %v = stablehlo.constant dense<[{", ".join(f"{i}.5" for i in range(64))}]> : {Y}
  %w = stablehlo.constant dense<[{", ".join(f"{i}.25" for i in range(64))}]> : {Y}
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %b = stablehlo.broadcast_in_dim %w, dims = [1] : ({Y}) -> {X}
  %p = stablehlo.dot_general %x, %b, contracting_dims = [1] x [0] : ({X}, {X}) -> {X}
  %s = stablehlo.reduce(%p init: %zero) applies stablehlo.add across dimensions = [1] : ({X}, tensor<f32>) -> {Y}
  %t = stablehlo.add %s, %v : {Y}
  return %t : {Y}
}}"""
RESOURCE = """module {
  func.func @f(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
    %w = stablehlo.constant dense_resource<w> : tensor<2xf32>
    %y = stablehlo.add %x, %w : tensor<2xf32>
    return %y, %w : tensor<2xf32>, tensor<2xf32>
  }
}
{-# dialect_resources: {builtin: {w: "0x040000000000003F0000803F"}} #-}"""
REFUSED = """func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {{
  %y = stablehlo.custom_call @unknown(%x) : (tensor<?xf32>) -> tensor<?xf32> {location}
  return %y : tensor<?xf32>
}}"""
LOCATIONS = "", "loc(unknown)"


class Counted:
    """Wraps a regular expression, and counts its matches in `counts[name]`."""

    def __init__(self, pattern: re.Pattern[str], name: str, counts: Counter[str]) -> None:
        self._pattern, self._name, self._counts = pattern, name, counts

    def __getattr__(self, method: str) -> Any:
        def call(*given: Any) -> Any:
            text = given[-1]
            if method == "sub":
                self._counts[self._name] += self._pattern.subn(*given)[1]
            elif method in ("findall", "finditer"):
                self._counts[self._name] += len(self._pattern.findall(text))
            else:
                self._counts[self._name] += getattr(self._pattern, method)(text) is not None
            return getattr(self._pattern, method)(*given)

        return call


MATCHES = {
    "sizes._FUNCTION": 2,
    "sizes._RODATA": 10,
    "sizes._ROW": 3,
    "sizes._CONSTANT": 10,
    "sizes._DEFINED": 14,
    "sizes._ALLOCATED": 4,
    "sizes._FREED": 2,
    "constants._COMPOSITE": 2,
    "constants._RESOURCE": 2,
    "constants._DENSE": 2,
    "compile._DIAGNOSTIC": 2,
    "compile._NO_LOCATION": 1,
    "compile._FILE_LINE_COL": 1,
    "compiler_progress._DONE": 16,
    "compiler_progress._REMARK": 16,
    "placement._ALIGNED": 2,
}
"""The number of matches of each regular expression in `test_each_pattern_matches`."""

READERS = {
    "compile.py": 4,
    "compiler_progress.py": 2,
    "modules/job.py": 1,
    "modules/placement.py": 1,
    "sizes.py": 10,
    "static/constants.py": 4,
    "static/library.py": 1,
}
"""The number of uses of `re` in each file that reads IREE's text. `job.py` reads lines that tiduc prints."""


def test_which_files_read_text() -> None:
    """Only the files of `READERS` use regular expressions to read IREE's text, as often as the table says."""
    files = [ROOT / name for name in READERS] + sorted((ROOT / "modules").rglob("*.py"))
    uses = {
        file.relative_to(ROOT).as_posix(): sum(
            isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "re"
            for node in ast.walk(ast.parse(file.read_text()))
            if isinstance(node, ast.Attribute)
            and node.attr not in ("MULTILINE", "DOTALL", "M", "Match", "Pattern")
        )
        for file in files
    }
    assert {name: count for name, count in uses.items() if count} == READERS


def test_each_pattern_matches(monkeypatch: pytest.MonkeyPatch) -> None:
    counts, done = Counter[str](), compiler_progress._DONE
    for module in (sizes, constants, of_compile, compiler_progress, placement):
        for name, value in list(vars(module).items()):
            if isinstance(value, re.Pattern):
                counted = Counted(value, f"{module.__name__.rpartition('.')[2]}.{name}", counts)
                counts[counted._name] = 0
                monkeypatch.setattr(module, name, counted)
    said = list[str]()
    without = compiler_progress.without_remarks
    monkeypatch.setattr(of_compile, "without_remarks", lambda errors: said.append(errors) or without(errors))
    lowered = tiduc.load(PROGRAM).lower()
    with listening(lambda text: None):
        module = build(lowered, Options(AVX512, cached=False))
    sizes.sizes_of(module)
    for text in (PROGRAM, RESOURCE):
        compile_library(tiduc.load(text).lower(), "f", Options(AVX512))
    for location in LOCATIONS:
        with pytest.raises(CompileError):
            compile_module(REFUSED.format(location=location), cached=False)
    config = "#stream.resource_config<{min_buffer_offset_alignment = 64, min_buffer_range_alignment = 64}>"
    assert after(placement.place_arrays, f"module attributes {{stream.c = {config}}} {{}}") is None
    # The progress is read several times while the compiler runs, so only distinct matches are counted.
    counts["compiler_progress._DONE"] = len(set(done.findall("".join(said))))
    del counts["compile._PLACE"]  # test_compile.py tests locations
    assert counts == MATCHES
