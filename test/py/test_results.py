"""Large results of a call use IREE's memory without a copy.

No argument, constant or other result shares this memory.
"""

import gc
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiduc
from tiduc.dialect.mlir.context import parse
from tiduc.models.model import model_of
from tiduc.runtime.devices import LARGE
from tiduc.runtime.run import Executable

SIZE = LARGE // 4
ROWS, T = SIZE // 256, f"tensor<{SIZE}xf32>"
M = f"tensor<{ROWS}x256xf32>"
VALUES = np.random.default_rng(0).standard_normal(SIZE).astype(np.float32)
CONSTANT = f'%c = stablehlo.constant dense<"0x{VALUES.tobytes().hex().upper()}"> : {T}'
BODIES = {
    "computed": (f"%y = stablehlo.add %x, %x : {T}\n%z = stablehlo.multiply %x, %x : {T}", "%y, %z", (T, T)),
    "an argument": ("", "%x, %x", (T, T)),
    "an argument, reshaped": (f"%y = stablehlo.reshape %x : ({T}) -> {M}", "%y, %x", (M, T)),
    "one value twice": (
        f"%y = stablehlo.add %x, %x : {T}\n%z = stablehlo.reshape %y : ({T}) -> {M}",
        "%y, %y, %z",
        (T, T, M),
    ),
    "a constant": (f"{CONSTANT}\n%y = stablehlo.add %x, %c : {T}", "%c, %y, %c", (T, T, T)),
    "equal numbers": (f"%c = stablehlo.constant dense<1.5> : {T}", "%c, %c", (T, T)),
    "computed from a constant": (
        f"{CONSTANT}\n%d = stablehlo.exponential %c : {T}\n%y = stablehlo.add %x, %d : {T}",
        "%d, %y",
        (T, T),
    ),
    "the initial value of a loop that never runs": (
        f"""{CONSTANT}
        %i = stablehlo.constant dense<0> : tensor<i32>
        %first = stablehlo.slice %x [0:1] : ({T}) -> tensor<1xf32>
        %s = stablehlo.reshape %first : (tensor<1xf32>) -> tensor<f32>
        %n = stablehlo.convert %s : (tensor<f32>) -> tensor<i32>
        %r:2 = stablehlo.while(%k = %i, %v = %c) : tensor<i32>, {T} cond {{
          %p = stablehlo.compare LT, %k, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %p : tensor<i1>
        }} do {{
          %one = stablehlo.constant dense<1> : tensor<i32>
          %j = stablehlo.add %k, %one : tensor<i32>
          %w = stablehlo.reverse %v, dims = [0] : {T}
          stablehlo.return %j, %w : tensor<i32>, {T}
        }}""",
        "%r#1",
        (T,),
    ),
}


def program(body: str, results: str, types: Sequence[str]) -> str:
    kinds = ", ".join(types)
    return f"func.func @main(%x: {T}) -> ({kinds}) {{\n{body}\nreturn {results} : {kinds}\n}}"


def aligned(values: Any) -> Any:
    """A copy that is aligned to 64 bytes, so that IREE can use it as an argument without another copy."""
    memory = np.zeros(values.nbytes + 64, np.uint8)
    start = -memory.ctypes.data % 64
    array = memory[start : start + values.nbytes].view(values.dtype)
    array[...] = values
    return array


def check_alone(compiled: Any, x: Any) -> None:
    """Asserts that all results of two calls are writable, and that writing to one array changes no other array."""
    expected = [y.copy() for y in compiled(x)]
    arrays = [*compiled(x), *compiled(x)]
    before = [x.copy(), *(y.copy() for y in arrays)]
    for y, right in zip(arrays, [*expected, *expected], strict=True):
        np.testing.assert_array_equal(y, right)
    for i, y in enumerate(arrays):
        y[...] = -7 - i
        before[i + 1][...] = -7 - i
        for each, right in zip([x, *arrays], before, strict=True):
            np.testing.assert_array_equal(each, right)
    for y, right in zip(compiled(x), expected, strict=True):
        np.testing.assert_array_equal(y, right)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("target", ["cpu", "cpu-threads"])
@pytest.mark.parametrize("name", BODIES)
def test_results_share_no_memory(name: str, target: str) -> None:
    compiled = tiduc.load(program(*BODIES[name])).compile(target)
    for x in (aligned(np.zeros(SIZE, np.float32)), np.zeros(SIZE, np.float32)):
        check_alone(compiled, x)


def test_a_result_that_is_a_parameter(tmp_path: Path) -> None:
    text = f"""func.func @main(%w: {T} {{tidu.name = "w"}}, %x: {T} {{tidu.name = "x"}}) -> ({T}, {T}) {{
      %y = stablehlo.add %w, %x : {T}
      return %w, %y : {T}, {T}
    }}"""
    model = model_of(parse(text), {"w": VALUES})
    check_alone(model.compile_with_parameters(tmp_path / "w.irpa"), aligned(np.ones(SIZE, np.float32)))


def test_a_result_that_is_an_array_on_the_device() -> None:
    compiled = tiduc.load(program(*BODIES["an argument, reshaped"])).compile()
    (kept, _) = compiled.keep(VALUES)
    kept = tiduc.load(program(*BODIES["computed"])).compile().keep(VALUES)[0]
    for y in compiled(kept):
        y[...] = -7
    np.testing.assert_array_equal(kept.numpy(), 2 * VALUES)


def test_large_results_are_not_copied() -> None:
    """During a call, NumPy does not allocate memory for a large result."""
    compiled = tiduc.load(program(*BODIES["computed"])).compile()
    x = aligned(VALUES)
    compiled(x)
    tracemalloc.start()
    results = compiled(x)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < results[0].nbytes
    np.testing.assert_array_equal(results[0], 2 * VALUES)


def test_results_outlive_their_module() -> None:
    compiled: Executable | None = tiduc.load(program(*BODIES["computed"])).compile()
    assert compiled is not None
    y, z = compiled(VALUES)
    part = y[1:]
    del compiled, y, z
    gc.collect()
    others = [np.full(SIZE, i, np.float32) for i in range(8)]  # would reuse memory that has been freed
    np.testing.assert_array_equal(part, 2 * VALUES[1:])
    assert len(others) == 8
