"""Loops that the host runs: counted from zero, with stacks updated in place. Results are those of the program."""

import random
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
from cases.random_loops import RandomLoops
from harness.one_module import compiled_together
from harness.sources import source_of, sources_of
from harness.variants import THREADS, THREADS_HERE
from numpy.typing import NDArray

import tiduc
from tiduc.backends.iree.compile import compile_source, compile_until
from tiduc.backends.iree.fast.loops.carries_in_place import TOPOLOGY
from tiduc.backends.iree.fast.loops.loops_by_count import loops_by_count
from tiduc.backends.reference import in_process
from tiduc.dialect.context import parse, stage

Array = NDArray[Any]


class Loop(NamedTuple):
    """A loop over an index %i and a value %x, which writes rows of two stacks; all results are returned."""

    rows: int = 20
    start: int = 0
    step: int = 1
    until: str = "LT"
    limit: int = 20
    row: str = "%i"  # index of the first stack's row
    kind: str = "i32"
    along: int = 0  # dimension of the second stack's rows
    below: float | None = None  # what the first element of %x must be below, too, for another iteration

    @property
    def text(self) -> str:
        index, vector = f"tensor<{self.kind}>", "tensor<3xf64>"
        a, b = (
            f"tensor<{self.rows}x3xf64>",
            f"tensor<{self.rows}x3xf64>" if not self.along else f"tensor<3x{self.rows}xf64>",
        )
        part, at = ("tensor<1x3xf64>", "%i, %zero") if not self.along else ("tensor<3x1xf64>", "%zero, %i")
        data = f"""%first = stablehlo.slice %x [0:1] : ({vector}) -> tensor<1xf64>
            %d = stablehlo.reshape %first : (tensor<1xf64>) -> tensor<f64>
            %e = stablehlo.constant dense<{self.below}> : tensor<f64>
            %small = stablehlo.compare LT, %d, %e : (tensor<f64>, tensor<f64>) -> tensor<i1>
            %both = stablehlo.and %c, %small : tensor<i1>"""
        return f"""func.func @main(%v: {vector}, %s: {a}, %t: {b}) -> ({index}, {vector}, {a}, {b}) {{
          %zero = stablehlo.constant dense<0> : {index}
          %start = stablehlo.constant dense<{self.start}> : {index}
          %step = stablehlo.constant dense<{self.step}> : {index}
          %limit = stablehlo.constant dense<{self.limit}> : {index}
          %last = stablehlo.constant dense<{self.rows - 1}> : {index}
          %half = stablehlo.constant dense<0.5> : {vector}
          %r:5 = stablehlo.while(%i = %start, %k = %zero, %x = %v, %a = %s, %b = %t)
            : {index}, {index}, {vector}, {a}, {b}
          cond {{
            %c = stablehlo.compare {self.until}, %i, %limit : ({index}, {index}) -> tensor<i1>
            {data if self.below else ""}
            stablehlo.return {"%both" if self.below else "%c"} : tensor<i1>
          }} do {{
            %y = stablehlo.sine %x : {vector}
            %z = stablehlo.add %y, %half : {vector}
            %u = stablehlo.reshape %z : ({vector}) -> tensor<1x3xf64>
            %w = stablehlo.reshape %y : ({vector}) -> {part}
            %turned = stablehlo.subtract %last, %i : {index}
            %shifted = stablehlo.add %k, %step : {index}
            %a1 = stablehlo.dynamic_update_slice %a, %u, {self.row}, %zero
              : ({a}, tensor<1x3xf64>, {index}, {index}) -> {a}
            %b1 = stablehlo.dynamic_update_slice %b, %w, {at} : ({b}, {part}, {index}, {index}) -> {b}
            %i1 = stablehlo.add %i, %step : {index}
            %one = stablehlo.constant dense<1> : {index}
            %k1 = stablehlo.add %k, %one : {index}
            stablehlo.return %i1, %k1, %z, %a1, %b1 : {index}, {index}, {vector}, {a}, {b}
          }}
          return %r#0, %r#2, %r#3, %r#4 : {index}, {vector}, {a}, {b}
        }}"""

    @property
    def arguments(self) -> list[Array]:
        draw = np.random.default_rng(0).standard_normal
        other = (3, self.rows) if self.along else (self.rows, 3)
        return [draw(3), draw((self.rows, 3)), draw(other)]


LOOPS = {
    "rising": Loop(),
    "falling": Loop(start=19, step=-1, until="GE", limit=0),
    "falling, exclusive": Loop(start=19, step=-1, until="GT", limit=-1),
    "up to and including": Loop(until="LE", limit=19),
    "a last chunk that is not full": Loop(rows=23, limit=23),
    "fewer iterations than rows": Loop(rows=30, start=5, limit=17),
    "one iteration": Loop(limit=1),
    "no iteration": Loop(limit=0),
    "rows in reverse": Loop(row="%turned"),
    "rows before the first": Loop(start=-7, limit=11),
    "rows after the last": Loop(start=9, limit=31),
    "rows in reverse out of range": Loop(start=-4, limit=26, row="%turned"),
    "falling out of range": Loop(start=25, step=-1, until="GE", limit=-5),
    "a second counter": Loop(start=3, limit=18, row="%shifted"),
    "steps of two": Loop(step=2, limit=20),
    "64 bits": Loop(kind="i64"),
    "columns": Loop(along=1),
    "columns, falling": Loop(start=19, step=-1, until="GE", limit=0, along=1),
    "stopped by data": Loop(below=0.9),
    "stopped by data at once": Loop(below=-9.0),
    "stopped by data, falling": Loop(start=19, step=-1, until="GE", limit=0, below=0.95),
    "narrow indices": Loop(kind="i16"),
}


@stage
def results(loop: Loop, *passes: Any) -> tuple[list[int], tuple[Array, ...]]:
    """The numbers of rewrites by some passes, and the results of the loop after them."""
    module = parse(loop.text)
    counts = [function(module) for function in passes]
    module.operation.verify()
    return counts, in_process.run(str(module), loop.arguments)


def check(loop: Loop, *passes: Any) -> list[int]:
    """Compares the results bit for bit; gives the numbers of rewrites."""
    counts, actual = results(loop, *passes)
    _, expected = results(loop)
    for x, y in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(x, y)
    return counts


@pytest.mark.parametrize("name", LOOPS)
def test_values(name: str) -> None:
    loop = LOOPS[name]
    (counted,) = check(loop, loops_by_count)
    assert counted == (name not in ("one iteration", "no iteration", "narrow indices") and loop.below is None)


def test_random() -> None:
    draw = random.Random(0)
    for _ in range(40):
        down = draw.random() < 0.5
        start, limit = draw.randint(-5, 30), draw.randint(-5, 30)
        loop = Loop(
            rows=draw.randint(3, 40),
            start=start,
            step=draw.choice((1, 1, 2)) * (-1 if down else 1),
            until=draw.choice(("GT", "GE") if down else ("LT", "LE")),
            limit=limit,
            row=draw.choice(("%i", "%turned", "%shifted", "%k")),
            kind=draw.choice(("i32", "i64")),
            along=draw.randint(0, 1),
            below=draw.choice((None, None, 0.9, 1.2)),
        )
        check(loop, loops_by_count)


# ---- carries that are updated in place -----------------------------------------------------------------------------


@stage
def expected(text: str, arguments: Sequence[Array]) -> tuple[Array, ...]:
    """The results of a program by the reference interpreter."""
    return in_process.run(str(parse(text)), arguments)


def source(text: str) -> Any:
    """The source of a program whose loops the host runs."""
    return source_of(tiduc.from_module(tiduc.parse(text)), THREADS)


def compiled(text: str) -> tiduc.Executable:
    return tiduc.Executable(compile_source(source_of(tiduc.from_module(tiduc.parse(text)), THREADS_HERE)))


def check_on_iree(call: tiduc.Executable, text: str, *arguments: Array) -> None:
    """Compares the results of two calls, which leave the arguments as they are."""
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
    """Loops with carries in place, as functions of one module: whether they are in place is an attribute of it."""
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
    # Two arrays of 480 bytes; IREE alone copies both in each iteration.
    text = LOOPS["rising"].text
    assert TOPOLOGY in str(source(text).stablehlo)
    rows = re.findall(
        r"stream.cmd.copy .*, %c(\d+)(?:_\d+)? :", compile_until(source(text), "stream").decode()
    )
    assert "480" not in rows


def test_alternative() -> None:
    """If IREE rejects the program, it is compiled with IREE's copies of carries."""
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
"""A loop with two carries, and one, %s, that is updated in place whatever is done with the two."""


def written(new: str, old: str, at: str = "%i") -> str:
    """An update of a row."""
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
    """IREE merges equal copies, and took the copy before the loop for that of each iteration."""
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
