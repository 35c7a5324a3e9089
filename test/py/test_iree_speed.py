"""Rewrites for speed: that they apply, and that the values stay right."""

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
from tiduc.dialect.context import parse

RNG = np.random.default_rng(0)


@pytest.fixture(scope="module")
def others() -> Joined:
    """All programs but convolutions and products, as one function."""
    programs = {name: reduction_to_a_number(*each) for name, each in REDUCTIONS.items()}
    programs |= {name: sum_of(*each[:5]) for name, each in SUMS.items()}
    programs |= {name: reversals(*each[:3]) for name, each in REVERSED.items()}
    programs |= {f"negated from {init}": negated_from(init) for init in ("0.0", "-0.0")}
    products = {"sums of products": sums_of_products(), "reversed factor": reversed_factor()}
    return compiled_as_one({**programs, **products, "iotas": IOTAS})


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
    """Kernels of vectors compute them, on CPUs with vectors of any size."""
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


# ---- sums --------------------------------------------------------------------------------------------------


def reduction(op: str, shape: str, dimensions: str, result: str, element: str = "f32") -> str:
    x, y = f"tensor<{shape}x{element}>", f"tensor<{result}{element}>"
    return f"""func.func @main(%x: {x}, %init: tensor<{element}>) -> {y} {{
      %0 = stablehlo.reduce(%x init: %init) applies stablehlo.{op} across dimensions = [{dimensions}]
        : ({x}, tensor<{element}>) -> {y}
      return %0 : {y}
    }}"""


def lanes_of(text: str) -> bool:
    source = source_of(tiduc.load(text)).stablehlo
    assert isinstance(source, str)
    return source.count("stablehlo.reduce(") == 2


REDUCTIONS = {
    "a matrix": ("add", "70x64", "f32"),
    "maxima": ("maximum", "10x512", "f32"),
    "minima": ("minimum", "10x512", "f32"),
    "padded": ("add", "4099", "f32"),
    "a product": ("multiply", "1399x3", "f64"),
    "by rows": ("add", "71x61", "f64"),
}
"""The op, sizes and element type of a reduction to one number."""


def reduction_to_a_number(op: str, shape: str, element: str) -> str:
    return reduction(op, shape, ", ".join(str(d) for d in range(shape.count("x") + 1)), "", element)


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_in_lanes(name: str, others: Joined) -> None:
    """The initial value counts once; a NaN affects the result."""
    op, shape, element = REDUCTIONS[name]
    assert lanes_of(reduction_to_a_number(*REDUCTIONS[name]))
    x = RNG.uniform(0.9, 1.1, [int(n) for n in shape.split("x")]).astype(element.replace("f", "float"))
    init = np.full((), 3 if op in ("add", "multiply") else 1.05, x.dtype)
    combine = getattr(np, op)
    expected = combine(combine.reduce(x.astype(np.float64), None), init)
    ours = others[name](x, init)[0]
    np.testing.assert_allclose(ours, expected, rtol=1e-5 if element == "f32" else 1e-13)
    x.flat[5] = np.nan
    assert np.isnan(others[name](x, init)[0])


@pytest.mark.parametrize(
    ("op", "shape", "dimensions", "result", "element"),
    [
        ("add", "16x400", "1", "16x", "f32"),  # IREE's own code is a loop over vectors
        ("add", "200x16", "0", "16x", "f32"),
        ("add", "400", "0", "", "f32"),
        ("add", "16x400", "0, 1", "", "i32"),
    ],
)
def test_reductions_that_stay(op: str, shape: str, dimensions: str, result: str, element: str) -> None:
    assert not lanes_of(reduction(op, shape, dimensions, result, element))


def sums_of_products() -> str:
    t = "tensor<64x400xf32>"
    text = reduction("add", "64x400", "1", "64x").replace("%x:", f"%a: {t}, %b:")
    return text.replace("%0 =", f"%x = stablehlo.multiply %a, %b : {t}\n%0 =")


@pytest.mark.parametrize("target", ["cpu", "cpu:generic"])
def test_sums_of_products_in_lanes(target: str, others: Joined) -> None:
    """Products and sums are rounded separately, even without fused multiply-add."""
    program = tiduc.load(sums_of_products())
    source = source_of(program, named(target)).stablehlo
    assert isinstance(source, str) and "math.fma" in source and "stablehlo.multiply" not in source
    a, b = RNG.standard_normal((2, 64, 400)).astype(np.float32)
    a[0], b[1, 2], b[2, 3] = -0.0, np.nan, np.inf
    b[0] = np.abs(b[0])
    compiled = others["sums of products"] if target == "cpu" else program.compile(target)
    (y,) = compiled(a, b, np.float32(-0.0))
    assert y[0] == 0 and list(np.nonzero(np.isnan(y))[0]) == [1]
    expected = np.sum(a.astype(np.float64) * b, 1)
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-4)


def sum_of(elements: str, shape: str, dimensions: str, result: str, element: str, init: str = "3.0") -> str:
    """A sum over elements that `elements` computes as %x from the arrays %a and %b, with an initial value."""
    of = f"tensor<{shape}x{element}>"
    text = reduction("add", shape, dimensions, result, element).replace(f"%x: {of}, %init:", f"%a: {of}, %b:")
    text = text.replace(f"%b: tensor<{element}>", f"%b: {of}")
    start = f"%init = stablehlo.constant dense<{init}> : tensor<{element}>"
    return text.replace("%0 =", f"{start}\n{elements.format(of=of)}\n%0 =")


PRODUCT, NEGATED = "%x = stablehlo.multiply %a, %b : {of}", "%x = stablehlo.negate %a : {of}"
NEGATED_PRODUCT = PRODUCT.replace("%x", "%y") + "\n" + NEGATED.replace("%a", "%y")
REPEATED = """%r = stablehlo.slice %a [0:1, 0:57] : ({of}) -> tensor<1x57xf32>
  %s = stablehlo.reshape %r : (tensor<1x57xf32>) -> tensor<57xf32>
  %t = stablehlo.broadcast_in_dim %s, dims = [1] : (tensor<57xf32>) -> {of}
  %x = stablehlo.multiply %t, %b : {of}"""
SUMS = {
    "columns of products": (PRODUCT, "131x57", "0", "57x", "f32", "fma"),
    "products between others": (PRODUCT, "7x65x33", "1", "7x33x", "f64", "fma"),
    "few sums of products": (PRODUCT, "1000x8", "0", "8x", "f32", "multiply"),
    "products of matrices": (REPEATED, "131x57", "0", "57x", "f32", "multiply"),
    "negated rows": (NEGATED, "131x57", "1", "131x", "f32", ""),
    "negated columns": (NEGATED, "131x57", "0", "57x", "f64", ""),
    "negated products": (NEGATED_PRODUCT, "131x57", "0", "57x", "f32", "fma"),
    "one negated number": (NEGATED_PRODUCT, "131x57", "0, 1", "", "f32", "fma"),
}
"""What a sum adds, its sizes, the dimensions, the sizes of the result, the element type, and the op for products."""


@pytest.mark.parametrize("name", SUMS)
def test_sums_of_products_and_negated_values(name: str, others: Joined) -> None:
    """The initial value counts once."""
    elements, shape, dimensions, _, element, product = SUMS[name]
    source = source_of(tiduc.load(sum_of(*SUMS[name][:5]))).stablehlo
    assert isinstance(source, str) and "stablehlo.negate" not in source
    for op in ("fma", "multiply"):
        assert (f".{op} " in source or f".{op}(" in source) is (op == product), op
    over = tuple(int(d) for d in dimensions.split(", "))
    dtype = element.replace("f", "float")
    a, b = RNG.standard_normal((2, *[int(n) for n in shape.split("x")])).astype(dtype)
    a[:, 0] = 0
    exact = {PRODUCT: a.astype(np.float64) * b, NEGATED: -a.astype(np.float64)}
    exact |= {NEGATED_PRODUCT: -exact[PRODUCT], REPEATED: a[0] * b.astype(np.float64)}
    (y,) = others[name](a, b)
    expected = 3 + np.sum(exact[elements], over)
    np.testing.assert_allclose(
        y, expected, rtol=1e-4 if element == "f32" else 1e-12, atol=1e-4 if element == "f32" else 1e-12
    )


def negated_from(init: str) -> str:
    return sum_of(NEGATED, "64x64", "1", "64x", "f32", init)


@pytest.mark.parametrize("init", ["0.0", "-0.0"])
def test_signs_of_sums_of_negated_values(init: str, others: Joined) -> None:
    """Values that cancel give 0, and not -0, whatever zero the sum starts from."""
    x = np.tile(np.float32([1, -1]), (64, 32))
    (y,) = others[f"negated from {init}"](x, x)
    assert not y.any() and not np.signbit(y).any()
    source = source_of(tiduc.load(negated_from(init))).stablehlo
    assert isinstance(source, str) and ("stablehlo.negate" in source) is (init == "-0.0")


# ---- reversed arrays ----------------------------------------------------------------------------------------


REVERSED = {
    "two dimensions": ("70x61", "0, 1", "f32", True),
    "between others": ("8x1x16x33", "1, 3", "ui8", True),
    "ones": ("1x4097x1", "0, 1, 2", "f64", True),
    "narrow": ("8x4097", "0", "bf16", True),
    "small": ("63x65", "0", "f32", False),
    "predicates": ("70x61", "0", "i1", False),
}
"""A shape, dimensions, an element type, and whether IREE gets a loop."""


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
    """The code for products packs its operands, and can reverse them then."""
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
    """A broadcast iota becomes an iota of the result's shape; a broadcast iota of one element is 0."""
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
    """Several threads share products, unless a loop of little work has many iterations, which they would slow down."""
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
