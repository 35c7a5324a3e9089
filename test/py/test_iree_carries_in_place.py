"""Loops that IREE runs on the host are correct if they update carried values in place."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from cases.random_loops import RandomLoops
from harness.one_module import compiled_together
from harness.sources import source_of, sources_of
from harness.variants import THREADS, THREADS_HERE
from test_iree_loops_by_count import LOOPS, Array, results

import tiduc
from tiduc.backends.iree.compile import compile_source, compile_until
from tiduc.backends.iree.fast.loops.carries_in_place import TOPOLOGY
from tiduc.backends.reference import in_process
from tiduc.dialect.mlir.context import parse, stage


@stage
def expected(text: str, arguments: Sequence[Array]) -> tuple[Array, ...]:
    """Runs a program by the reference interpreter, and returns its results."""
    return in_process.run(str(parse(text)), arguments)


def source(text: str) -> Any:
    """The source that IREE compiles for a program, with options by which loops run on the host."""
    return source_of(tiduc.from_module(tiduc.parse(text)), THREADS)


def compiled(text: str) -> tiduc.Executable:
    return tiduc.Executable(compile_source(source_of(tiduc.from_module(tiduc.parse(text)), THREADS_HERE)))


def check_on_iree(call: tiduc.Executable, text: str, *arguments: Array) -> None:
    """Calls a program twice. Each call must give the interpreter's results and leave the arguments unchanged."""
    before = [x.copy() for x in arguments]
    for _ in range(2):
        for x, y in zip(call(*arguments), expected(text, arguments), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-14)
        for x, y in zip(arguments, before, strict=True):
            np.testing.assert_array_equal(x, y)


ON_IREE = "rising", "falling", "stopped by data", "columns, falling"


RANDOM = 33, 159


@pytest.fixture(scope="module")
def together() -> dict[str, tiduc.Executable]:
    """Fixture: all test programs with updates in place, compiled as functions of one module.

    Their sources must have the attribute that allows updates in place.
    """
    texts = {name: LOOPS[name].text for name in ON_IREE}
    texts |= {name: shared(name) for name in SHARED}
    texts |= {f"random {seed}": RandomLoops(seed).text for seed in RANDOM}
    assert all(TOPOLOGY in str(source(text).stablehlo) for text in texts.values())
    return compiled_together({**texts, "captured": captured()}, "cpu-threads", kernels=True)


@pytest.mark.parametrize("name", ON_IREE)
def test_on_iree(name: str, together: dict[str, tiduc.Executable]) -> None:
    check_on_iree(together[name], LOOPS[name].text, *LOOPS[name].arguments)


def test_one_iteration_on_iree() -> None:
    loop = LOOPS["one iteration"]
    check_on_iree(compiled(loop.text), loop.text, *loop.arguments)


def test_no_copies() -> None:
    # The loop carries two arrays of 480 bytes. Without tiduc's rewrite, IREE copies both in each iteration.
    text = LOOPS["rising"].text
    assert TOPOLOGY in str(source(text).stablehlo)
    rows = re.findall(
        r"stream.cmd.copy .*, %c(\d+)(?:_\d+)? :", compile_until(source(text), "stream").decode()
    )
    assert "480" not in rows


def test_alternative() -> None:
    """The second source, which is used if IREE rejects the first, copies carried values and gives correct results."""
    loop = LOOPS["rising"]
    _, copying, *_ = sources_of(tiduc.load(loop.text), THREADS)
    assert TOPOLOGY not in str(copying.stablehlo)
    _, second, *_ = sources_of(tiduc.load(loop.text), THREADS_HERE)
    call = tiduc.Executable(compile_source(second))
    for x, y in zip(call(*loop.arguments), results(loop)[1], strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-14)


T = "tensor<4x2xi32>"


LOOP = f"""func.func @main(%p: {T}, %n: tensor<i32>) -> ({T}, {T}, {T}, {T}) {{{{
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %zeros = stablehlo.constant dense<0> : {T}
  %r:4 = stablehlo.while(%i = %zero, %x = {{x}}, %y = {{y}}, %s = %p) : tensor<i32>, {T}, {T}, {T} cond {{{{
    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }}}} do {{{{
    %j = stablehlo.add %i, %one : tensor<i32>
    %row = stablehlo.broadcast_in_dim %j, dims = [] : (tensor<i32>) -> tensor<1x2xi32>
    %w = stablehlo.dynamic_update_slice %s, %row, %i, %zero :
      ({T}, tensor<1x2xi32>, tensor<i32>, tensor<i32>) -> {T}
    {{body}}
    stablehlo.return %j, {{results}}, %w : tensor<i32>, {T}, {T}, {T}
  }}}}
  return %r#1, %r#2, %r#3, %p : {T}, {T}, {T}, {T}
}}}}"""
"""A loop with two carried values to test, and a third one, %s, which IREE always updates in place."""


def written(new: str, old: str, at: str = "%i") -> str:
    """The text of an op that overwrites the row `at` of `old` by %row, and defines `new`."""
    types = f"({T}, tensor<1x2xi32>, tensor<i32>, tensor<i32>) -> {T}"
    return f"{new} = stablehlo.dynamic_update_slice {old}, %row, {at}, %zero : {types}\n"


SHARED = {
    "one constant": ("%zeros", "%zeros", written("%u", "%x") + written("%v", "%y", "%j"), "%u, %v"),
    "an argument": ("%p", "%p", written("%u", "%x") + written("%v", "%y", "%j"), "%u, %v"),
    "exchanged": ("%p", "%zeros", written("%u", "%x") + written("%v", "%y", "%j"), "%v, %u"),
    "returned twice": ("%p", "%zeros", written("%u", "%x"), "%u, %u"),
    "kept beside": ("%p", "%zeros", written("%u", "%x"), "%x, %u"),
    "read after": (
        "%p",
        "%zeros",
        written("%u", "%x") + "%v = stablehlo.add %x, %y : tensor<4x2xi32>\n",
        "%u, %v",
    ),
    "a view": (
        "%p",
        "%zeros",
        "%f = stablehlo.reshape %x : (tensor<4x2xi32>) -> tensor<8xi32>\n"
        "%g = stablehlo.reshape %f : (tensor<8xi32>) -> tensor<4x2xi32>\n"
        + written("%u", "%g")
        + written("%v", "%y"),
        "%u, %v",
    ),
    "two updates": (
        "%p",
        "%zeros",
        written("%t", "%x") + written("%u", "%t", "%j") + written("%v", "%y"),
        "%u, %v",
    ),
}


def shared(name: str) -> str:
    x, y, body, results = SHARED[name]
    return LOOP.format(x=x, y=y, body=body, results=results)


def captured() -> str:
    """The text of a program that updates an array before a loop, as the loop does.

    IREE once merged the copies for both updates, and each iteration then used the copy from before the loop.
    """
    before = "%before = stablehlo.dynamic_update_slice %p, %first, %n, %zero : " + f"({T}, tensor<1x2xi32>, "
    before += f"tensor<i32>, tensor<i32>) -> {T}\n  "
    first = f"%first = stablehlo.slice %p [1:2, 0:2] : ({T}) -> tensor<1x2xi32>\n  "
    text = LOOP.format(x="%p", y="%zeros", body=written("%u", "%p"), results="%u, %y")
    return text.replace("%r:4", f"{first}{before}%r:4").replace("%r#2", "%before")


@pytest.mark.parametrize("name", SHARED)
def test_shared_carries(name: str, together: dict[str, tiduc.Executable]) -> None:
    for n in (0, 1, 3):
        array = np.arange(8, dtype=np.int32).reshape(4, 2)
        check_on_iree(together[name], shared(name), array, np.array(n, np.int32))


def test_captured_array(together: dict[str, tiduc.Executable]) -> None:
    for n in (1, 3):
        array = np.arange(8, dtype=np.int32).reshape(4, 2)
        check_on_iree(together["captured"], captured(), array, np.array(n, np.int32))


@pytest.mark.parametrize("seed", [*RANDOM, *(pytest.param(n, marks=pytest.mark.slow) for n in range(10, 60))])
def test_random_loops(seed: int, together: dict[str, tiduc.Executable]) -> None:
    draw, text = np.random.default_rng(seed), RandomLoops(seed).text
    call = together[f"random {seed}"] if seed in RANDOM else compiled(text)
    for n in (0, 1, 3):
        p, q = draw.integers(0, 100, (2, 6, 3)).astype(np.int32)
        check_on_iree(call, text, p, q, np.array(n, np.int32))
