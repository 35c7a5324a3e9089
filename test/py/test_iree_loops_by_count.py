"""Rewriting loops on the host to count from zero does not change their results."""

import random
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from tiduc.backends.iree.fast.loops.loops_by_count import loops_by_count
from tiduc.backends.reference import in_process
from tiduc.dialect.mlir.context import parse, stage

Array = NDArray[Any]


class Loop(NamedTuple):
    """A loop that carries an index %i and a value %x, and writes rows of two arrays ("stacks"). It returns all four."""

    rows: int = 20
    start: int = 0
    step: int = 1
    until: str = "LT"
    limit: int = 20
    row: str = "%i"  # the index of the row of the first stack that is written
    kind: str = "i32"
    along: int = 0  # the dimension of the second stack that the index counts
    below: float | None = None  # if given, the loop ends when the first element of %x reaches this bound

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
    """Runs the passes on a loop. Returns the number of rewrites by each pass, and the results of the rewritten loop."""
    module = parse(loop.text)
    counts = [function(module) for function in passes]
    module.operation.verify()
    return counts, in_process.run(str(module), loop.arguments)


def check(loop: Loop, *passes: Any) -> list[int]:
    """Asserts that the results with and without the passes are equal; returns the number of rewrites by each pass."""
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
