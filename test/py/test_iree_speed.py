"""Tests that rewrites for speed apply to the programs of this file, and keep the values."""

from typing import NamedTuple

import numpy as np
import pytest
from harness.one_module import Joined, compiled_as_one, selected
from harness.sources import source_of
from harness.variants import named
from harness.xla import by_xla

import tiduc
import tiduc.runtime
from tiduc.backends.iree.targets import TILED
from tiduc.backends.iree.work import work
from tiduc.dialect.mlir.context import parse

RNG = np.random.default_rng(0)


@pytest.fixture(scope="module")
def others() -> Joined:
    """Fixture: all programs except convolutions and products, compiled as one function."""
    programs = {name: reversals(*each[:3]) for name, each in REVERSED.items()}
    return compiled_as_one({**programs, "reversed factor": reversed_factor(), "iotas": IOTAS})


# ---- convolutions ------------------------------------------------------------------------------------------


class Convolved(NamedTuple):
    """A convolution: shapes of image, kernel and result, dimension numbers, and the window's attributes."""

    image: str
    kernel: str
    result: str
    numbers: str
    window: str

    @property
    def text(self) -> str:
        return f"""func.func @main(%x: tensor<{self.image}xf32>, %w: tensor<{self.kernel}xf32>)
            -> tensor<{self.result}xf32> {{
          %y = stablehlo.convolution(%x, %w) dim_numbers = {self.numbers}, window = {{{self.window}}}
            {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}}
            : (tensor<{self.image}xf32>, tensor<{self.kernel}xf32>) -> tensor<{self.result}xf32>
          return %y : tensor<{self.result}xf32>
        }}"""


FIRST, LAST = "[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]", "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]"
CONVOLUTIONS = {
    "channels_first": Convolved("2x8x33x17", "24x8x3x2", "2x24x33x18", FIRST, "pad = [[1, 1], [1, 1]]"),
    "strided": Convolved(
        "4x3x40x24",
        "3x3x3x48",
        "4x19x12x48",
        "[b, f, 0, 1]x[0, 1, i, o]->[b, 0, 1, f]",
        "stride = [2, 2], pad = [[0, -1], [0, 1]]",
    ),
    "holes": Convolved(
        "3x16x12x9",
        "16x8x3x3",
        "3x8x24x18",
        "[b, f, 0, 1]x[i, o, 0, 1]->[b, f, 0, 1]",
        "pad = [[2, 1], [2, 1]], lhs_dilate = [2, 2], reverse = [true, true]",
    ),
    "few_taps": Convolved(
        "3x10x9x32",
        "2x3x32x32",
        "3x26x24x32",
        LAST,
        "pad = [[-2, 1], [1, 0]], lhs_dilate = [3, 3]",
    ),
    "of_kernel": Convolved(
        "4x8x32x32",
        "4x16x16x16",
        "16x8x3x3",
        "[f, b, 0, 1]x[i, o, 0, 1]->[f, b, 0, 1]",
        "pad = [[0, 1], [0, 1]], rhs_dilate = [2, 2]",
    ),
    "line": Convolved(
        "3x8x1800", "5x8x16", "3x600x16", "[b, f, 0]x[0, i, o]->[b, 0, f]", "stride = [3], pad = [[1, 1]]"
    ),
}


@pytest.fixture(scope="module")
def convolutions(request: pytest.FixtureRequest) -> Joined:
    names = selected(request, "test_convolutions")
    return compiled_as_one({name: each.text for name, each in CONVOLUTIONS.items() if name in names})


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name: str, convolutions: Joined) -> None:
    """For several CPUs, the convolution becomes a vector kernel. On this CPU, its values equal XLA's."""
    convolved = CONVOLUTIONS[name]
    rng = np.random.default_rng(0)
    image, kernel = ([int(n) for n in sizes.split("x")] for sizes in (convolved.image, convolved.kernel))
    x, w = (rng.integers(-4, 5, sizes).astype(np.float32) for sizes in (image, kernel))
    program = tiduc.load(convolved.text)
    for target in ("cpu:skylake-avx512", "cpu:haswell", "cpu:x86-64", "aarch64"):
        source = str(source_of(program, named(target)).stablehlo)
        assert '"flow.dispatch"(' in source and "stablehlo.convolution" not in source
    np.testing.assert_array_equal(convolutions[name](x, w)[0], by_xla(program.text, [x, w])[0])


@pytest.mark.parametrize(
    "convolved",
    [
        Convolved("2x8x5x5", "8x8x3x3", "2x8x3x3", FIRST, ""),
        Convolved("2x32x32x8", "3x3x8x64", "2x30x30x64", LAST, ""),
        Convolved("2x40x24x8", "3x3x8x48", "2x19x11x48", LAST, "stride = [2, 2]"),
    ],
)
def test_convolutions_that_iree_computes_fast_stay(convolved: Convolved) -> None:
    source = source_of(tiduc.load(convolved.text), "cpu:skylake-avx512")
    assert isinstance(source.stablehlo, str) and "stablehlo.convolution" in source.stablehlo


# ---- reversed arrays ----------------------------------------------------------------------------------------


REVERSED = {
    "two dimensions": ("70x61", "0, 1", "f32", True),
    "between others": ("8x1x16x33", "1, 3", "ui8", True),
    "ones": ("1x4097x1", "0, 1, 2", "f64", True),
    "narrow": ("8x4097", "0", "bf16", True),
    "small": ("63x65", "0", "f32", False),
    "predicates": ("70x61", "0", "i1", False),
}
"""For each name: the shape, the reversed dimensions, the element type, and whether the reversal becomes a loop."""


def reversals(shape: str, dimensions: str, element: str) -> str:
    x, op = f"tensor<{shape}x{element}>", "negate" if "f" in element else "not"
    return f"""func.func @main(%x: {x}) -> ({x}, {x}) {{
      %0 = stablehlo.{op} %x : {x}
      %1 = stablehlo.reverse %0, dims = [{dimensions}] : {x}
      %2 = stablehlo.reverse %1, dims = [{dimensions}] : {x}
      return %1, %2 : {x}, {x}
    }}"""


@pytest.mark.parametrize("name", REVERSED)
def test_large_arrays_are_reversed_by_loops(name: str, others: Joined) -> None:
    shape, dimensions, element, loops = REVERSED[name]
    program = tiduc.load(reversals(shape, dimensions, element))
    assert ("flow.dispatch" in str(source_of(program).stablehlo)) is loops
    dtype = program.signature.inputs[0].type.dtype
    given = RNG.integers(0, 2, [int(n) for n in shape.split("x")]).astype(dtype)
    expected = -given if "f" in element else ~given
    y, z = others[name](given)
    np.testing.assert_array_equal(y, np.flip(expected, [int(d) for d in dimensions.split(",")]))
    np.testing.assert_array_equal(z, expected)


def reversed_factor() -> str:
    x, y = "tensor<70x11xf32>", "tensor<11x70xf32>"
    return f"""func.func @main(%x: {x}, %y: {x}) -> tensor<70x70xf32> {{
      %0 = stablehlo.reverse %x, dims = [0, 1] : {x}
      %1 = stablehlo.transpose %0, dims = [1, 0] : ({x}) -> {y}
      %2, %3 = stablehlo.optimization_barrier %y, %1 : {x}, {y}
      %4 = stablehlo.dot_general %2, %3, contracting_dims = [1] x [0] : ({x}, {y}) -> tensor<70x70xf32>
      return %4 : tensor<70x70xf32>
    }}"""


def test_reversed_factors_stay(others: Joined) -> None:
    """A reversed operand of a product needs no separate dispatch, because the product reverses it while copying it."""
    assert "flow.dispatch" not in str(source_of(tiduc.load(reversed_factor())).stablehlo)
    a, b = RNG.standard_normal((2, 70, 11)).astype(np.float32)
    np.testing.assert_allclose(others["reversed factor"](a, b)[0], b @ a[::-1, ::-1].T, rtol=0, atol=1e-4)


# ---- iotas -------------------------------------------------------------------------------------------------


IOTAS = """func.func @main() -> (tensor<3x5xi32>, tensor<3x5xi32>, tensor<5x3xi32>) {
      %a = stablehlo.iota dim = 0 : tensor<5xi32>
      %0 = stablehlo.broadcast_in_dim %a, dims = [1] : (tensor<5xi32>) -> tensor<3x5xi32>
      %b = stablehlo.iota dim = 0 : tensor<1x5xi32>
      %1 = stablehlo.broadcast_in_dim %b, dims = [0, 1] : (tensor<1x5xi32>) -> tensor<3x5xi32>
      %c = stablehlo.reshape %a : (tensor<5xi32>) -> tensor<5x1xi32>
      %2 = stablehlo.broadcast_in_dim %c, dims = [0, 1] : (tensor<5x1xi32>) -> tensor<5x3xi32>
      return %0, %1, %2 : tensor<3x5xi32>, tensor<3x5xi32>, tensor<5x3xi32>
    }"""


def test_iotas_have_their_final_shape(others: Joined) -> None:
    """A broadcast of an iota becomes an iota of the result's shape, and a broadcast iota of one element becomes 0."""
    source = source_of(tiduc.load(IOTAS)).stablehlo
    assert isinstance(source, str) and "iota dim = 1 : tensor<3x5xi32>" in source
    assert "iota dim = 0 : tensor<5x3xi32>" in source
    rows, zeros, columns = others["iotas"]()
    np.testing.assert_array_equal(rows, np.tile(np.arange(5), (3, 1)))
    np.testing.assert_array_equal(columns, rows.T)
    np.testing.assert_array_equal(zeros, np.zeros((3, 5)))


# ---- estimates of work -------------------------------------------------------------------------------------


def product(rows: int, summed: int, columns: int) -> str:
    x, y, z = (f"tensor<{n}x{m}xf32>" for n, m in ((rows, summed), (summed, columns), (rows, columns)))
    return f"""func.func @main(%x: {x}, %y: {y}) -> {z} {{
      %z = stablehlo.dot %x, %y : ({x}, {y}) -> {z}
      return %z : {z}
    }}"""


@pytest.mark.parametrize(
    ("sizes", "tiled", "device"),
    [
        ((32, 64, 64), False, "local-sync"),
        ((4096, 8, 256), False, "local-sync"),
        ((256, 192, 192), False, "local-sync"),
        ((512, 512, 512), False, "local-task"),
        ((1024, 1024, 1024), True, "local-task"),
    ],
)
def test_work(sizes: tuple[int, int, int], tiled: bool, device: str) -> None:
    program = tiduc.load(product(*sizes))
    assert (TILED[0] in source_of(program).flags) is tiled
    executable = program.compile()
    x, y = (np.ones(shape, np.float32) for shape in (sizes[:2], sizes[1:]))
    np.testing.assert_array_equal(executable(x, y)[0], x @ y)
    assert tiduc.runtime.load(executable.vmfb).put(x).device.name == device


@pytest.mark.parametrize(("iterations", "threaded"), [(6, True), (32, False)])
def test_work_beside_a_loop(iterations: int, threaded: bool) -> None:
    """A large product runs on several threads, unless the program also has a loop of many short iterations.

    Threads would slow down such a loop.
    """
    loop = f"""-> tensor<512x512xf32> {{
      %i = stablehlo.constant dense<0> : tensor<i32>
      %n = stablehlo.constant dense<{iterations}> : tensor<i32>
      %one = stablehlo.constant dense<1> : tensor<i32>
      %w:2 = stablehlo.while(%k = %i, %c = %x) : tensor<i32>, tensor<512x512xf32> cond {{
        %t = stablehlo.compare LT, %k, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %t : tensor<i1>
      }} do {{
        %next = stablehlo.add %k, %one : tensor<i32>
        %s = stablehlo.sine %c : tensor<512x512xf32>
        stablehlo.return %next, %s : tensor<i32>, tensor<512x512xf32>
      }}"""
    text = product(512, 512, 512).replace("-> tensor<512x512xf32> {", loop, 1).replace("dot %x", "dot %w#1")
    assert work(parse(text)).threaded is threaded
