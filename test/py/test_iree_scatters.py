"""Tests which scatters become one dispatch on CPUs, and their values if row indices are out of range or repeated."""

from typing import Any, NamedTuple

import numpy as np
import pytest
from harness.one_module import Joined, compiled_as_one
from harness.sources import source_of
from harness.variants import named

import tiduc
from tiduc.backends.reference import interpreter

RNG = np.random.default_rng(0)


class Scatter(NamedTuple):
    """A scatter: the types of its operands, its dimension numbers, its body, and whether it becomes one dispatch."""

    arrays: str
    indices: str
    updates: str
    numbers: str
    body: str
    loops: bool = True

    @property
    def text(self) -> str:
        """A program that updates an array by the scatter, and updates the result again in a loop."""
        arrays, updates = self.arrays.split(), self.updates.split()
        xs, us = (", ".join(f"%{name}{i}" for i in range(len(arrays))) for name in "xu")
        takes = [
            f"%{name}{i}: {t}" for name, types in (("x", arrays), ("u", updates)) for i, t in enumerate(types)
        ]
        scalars = [f"tensor<{t.rstrip('>').rsplit('x', 1)[-1]}>" for t in arrays]
        names = [f"%{name}{i}: {t}" for name in "ab" for i, t in enumerate(scalars)]
        each, all_types = ", ".join(arrays), ", ".join([*arrays, self.indices, *updates])
        n, old = len(arrays), ", ".join(f"%c{i}" for i in range(len(arrays)))

        def scatter(of: str) -> str:
            return f""""stablehlo.scatter"({of}, %i, {us})
              <{{scatter_dimension_numbers = #stablehlo.scatter<{self.numbers}>}}> ({{
              ^bb0({", ".join(names)}):
                {self.body} : {", ".join(scalars)}
            }}) : ({all_types}) -> ({each})"""

        return f"""func.func @main({", ".join(takes)}, %i: {self.indices}) -> ({each}, {each}, {each}) {{
          %zero = stablehlo.constant dense<0> : tensor<i32>
          %y:{n} = {scatter(xs)}
          %w:{n + 1} = stablehlo.while(%k = %zero, {", ".join(f"%c{i} = %y#{i}" for i in range(n))})
            : tensor<i32>, {each}
          cond {{
            %two = stablehlo.constant dense<2> : tensor<i32>
            %less = stablehlo.compare LT, %k, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
            stablehlo.return %less : tensor<i1>
          }} do {{
            %one = stablehlo.constant dense<1> : tensor<i32>
            %j = stablehlo.add %k, %one : tensor<i32>
            %v:{n} = {scatter(old)}
            stablehlo.return %j, {", ".join(f"%v#{i}" for i in range(n))} : tensor<i32>, {each}
          }}
          return {xs}, {", ".join(f"%y#{i}" for i in range(n))}, {", ".join(f"%w#{i + 1}" for i in range(n))}
            : {each}, {each}, {each}
        }}"""


ROWS = "update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1"
SET, KEEP = "stablehlo.return %b0", "stablehlo.return %a0"
HALF = "%s = stablehlo.subtract %b0, %a0 : tensor<f64>\nstablehlo.return %s"
MIXED = """%s = stablehlo.add %a0, %b0 : tensor<f32>
%t = stablehlo.maximum %a1, %b1 : tensor<i32>
stablehlo.return %s, %t"""
SCATTERS = {
    "set": Scatter("tensor<7x5xf32>", "tensor<6x1xi32>", "tensor<6x5xf32>", ROWS, SET),
    "keep": Scatter("tensor<7x5xi8>", "tensor<6x1xi64>", "tensor<6x5xi8>", ROWS, KEEP),
    "in order": Scatter("tensor<7x5xf64>", "tensor<6x1xi8>", "tensor<6x5xf64>", ROWS, HALF),
    "one row": Scatter("tensor<1x5xf64>", "tensor<6x1xi32>", "tensor<6x5xf64>", ROWS, HALF),
    "two arrays": Scatter(
        "tensor<7xf32> tensor<7xi32>",
        "tensor<6xui8>",
        "tensor<6xf32> tensor<6xi32>",
        "inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1",
        MIXED,
    ),
    "windows": Scatter(
        "tensor<7x3x4xf64>",
        "tensor<6x2xi32>",
        "tensor<6x2x2x4xf64>",
        "update_window_dims = [1, 2, 3], scatter_dims_to_operand_dims = [1, 0], index_vector_dim = 1",
        HALF,
    ),
    "unsigned": Scatter("tensor<7x5xui8>", "tensor<6x1xi32>", "tensor<6x5xui8>", ROWS, SET, False),
    "elements": Scatter("tensor<7x1xf64>", "tensor<6x1xi32>", "tensor<6x1xf64>", ROWS, HALF),
}


@pytest.fixture(scope="module")
def together() -> Joined:
    """Fixture: all scatters except "keep", compiled as one function."""
    return compiled_as_one({name: scatter.text for name, scatter in SCATTERS.items() if name != "keep"})


@pytest.mark.parametrize("name", SCATTERS)
def test_rows_out_of_range_are_dropped(name: str, together: Joined) -> None:
    program = tiduc.load(SCATTERS[name].text)
    assert ("flow.dispatch" in str(source_of(program).stablehlo)) is SCATTERS[name].loops
    arguments: list[Any] = []
    for value in program.signature.inputs:
        low, high = (-2, 9) if value.name == "i" else (0, 50)
        dtype = value.type.dtype
        assert dtype is not None
        shape: Any = value.type.shape
        drawn = RNG.integers(low if dtype.kind != "u" else 0, high, shape)
        arguments.append(np.asarray(drawn).astype(dtype))
    expected = interpreter.evaluate(program.text, arguments)
    compiled = program.compile("cpu-threads") if name == "keep" else together[name]
    for y, z in zip(compiled(*arguments), expected, strict=True):
        np.testing.assert_array_equal(y, z)


ADD, MULTIPLY = (
    f"%s = stablehlo.{op} %a0, %b0 : tensor<TYPE>\nstablehlo.return %s" for op in ("add", "multiply")
)


LARGE = {"f32": ADD, "f64": MULTIPLY, "i32": ADD, "ui8": MULTIPLY, "bf16": ADD}
"""The body of the scatter into a large array, by element type."""
HEIGHT, WIDTH = 2**15 + 1, 33


def large(element: str) -> str:
    """The text of a program that scatters nine rows into a large array, and also returns the original array."""
    x, u = f"tensor<{HEIGHT}x{WIDTH}x{element}>", f"tensor<9x{WIDTH}x{element}>"
    scatter = Scatter(x, "tensor<9x1xi32>", u, ROWS, LARGE[element].replace("TYPE", element))
    text = scatter.text.replace(f"-> ({x}, {x}, {x}) {{", f"-> ({x}, {x}) {{")
    return text.split("%w:2")[0] + f"return %x0, %y#0 : {x}, {x}\n}}"


@pytest.fixture(scope="module")
def large_together() -> dict[str, Joined]:
    """Fixture: for each target, all scatters into large arrays, compiled as one function."""
    programs = {element: large(element) for element in LARGE}
    return {target: compiled_as_one(programs, target=target) for target in ("cpu", "cpu-threads")}


@pytest.mark.parametrize("target", ["cpu", "cpu-threads"])
@pytest.mark.parametrize("element", LARGE)
def test_large_sums_are_in_place(element: str, target: str, large_together: dict[str, Joined]) -> None:
    """A scatter into a large array is exact, and needs no array with an additional row for updates out of range.

    Updates out of range must not change the first row, which has negative zeros and a NaN.
    """
    program = tiduc.load(large(element))
    assert "stablehlo.concatenate" not in str(source_of(program, named(target)).stablehlo)
    dtype = program.signature.inputs[0].type.dtype
    array = RNG.integers(0, 5, (HEIGHT, WIDTH)).astype(dtype)
    if element == "f32":
        array[0] = -0.0
        array[0, 1] = np.nan
    updates = RNG.integers(0, 5, (9, WIDTH)).astype(dtype)
    indices = np.array([[3], [-1], [3], [HEIGHT], [0], [2**31 - 1], [HEIGHT - 1], [-(2**31)], [7]], np.int32)
    for where in (indices, np.where(indices == 0, -1, indices)):
        arguments = [array, updates, where]
        compiled = large_together[target][element](*arguments)
        expected = array.copy()
        combine = np.add if LARGE[element] == ADD else np.multiply
        for (i,), row in zip(where, updates, strict=True):
            if 0 <= i < HEIGHT:
                expected[i] = combine(expected[i], row)
        np.testing.assert_array_equal(np.asarray(compiled[0]).view(np.uint8), array.view(np.uint8))
        np.testing.assert_array_equal(np.asarray(compiled[1]).view(np.uint8), expected.view(np.uint8))
