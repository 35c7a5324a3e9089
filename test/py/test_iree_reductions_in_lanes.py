"""Tests the rewrite of reductions on CPUs as vector ops ("in lanes"): which are rewritten, and their values."""

import numpy as np
import pytest
from harness.one_module import Joined, compiled_as_one
from harness.sources import source_of
from harness.variants import named

import tiduc
import tiduc.runtime

RNG = np.random.default_rng(0)


@pytest.fixture(scope="module")
def together() -> Joined:
    """Fixture: all programs, compiled as one function."""
    programs = {name: reduction_to_a_number(*each) for name, each in REDUCTIONS.items()}
    programs |= {name: sum_of(*each[:5]) for name, each in SUMS.items()}
    programs |= {f"negated from {init}": negated_from(init) for init in ("0.0", "-0.0")}
    return compiled_as_one({**programs, "sums of products": sums_of_products()})


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
"""For each name: the op, the sizes and the element type of a reduction of an array to a scalar."""


def reduction_to_a_number(op: str, shape: str, element: str) -> str:
    return reduction(op, shape, ", ".join(str(d) for d in range(shape.count("x") + 1)), "", element)


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_in_lanes(name: str, together: Joined) -> None:
    """A reduction by vector ops equals NumPy's, includes the initial value once, and is NaN if an element is NaN."""
    op, shape, element = REDUCTIONS[name]
    assert lanes_of(reduction_to_a_number(*REDUCTIONS[name]))
    x = RNG.uniform(0.9, 1.1, [int(n) for n in shape.split("x")]).astype(element.replace("f", "float"))
    init = np.full((), 3 if op in ("add", "multiply") else 1.05, x.dtype)
    combine = getattr(np, op)
    expected = combine(combine.reduce(x.astype(np.float64), None), init)
    ours = together[name](x, init)[0]
    np.testing.assert_allclose(ours, expected, rtol=1e-5 if element == "f32" else 1e-13)
    x.flat[5] = np.nan
    assert np.isnan(together[name](x, init)[0])


@pytest.mark.parametrize(
    ("op", "shape", "dimensions", "result", "element"),
    [
        ("add", "16x400", "1", "16x", "f32"),  # IREE's own code uses vectors
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
def test_sums_of_products_in_lanes(target: str, together: Joined) -> None:
    """Sums of products become fused multiply-adds without separate multiplications; values are right, also for NaN."""
    program = tiduc.load(sums_of_products())
    source = source_of(program, named(target)).stablehlo
    assert isinstance(source, str) and "math.fma" in source and "stablehlo.multiply" not in source
    a, b = RNG.standard_normal((2, 64, 400)).astype(np.float32)
    a[0], b[1, 2], b[2, 3] = -0.0, np.nan, np.inf
    b[0] = np.abs(b[0])
    compiled = together["sums of products"] if target == "cpu" else program.compile(target)
    (y,) = compiled(a, b, np.float32(-0.0))
    assert y[0] == 0 and list(np.nonzero(np.isnan(y))[0]) == [1]
    expected = np.sum(a.astype(np.float64) * b, 1)
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-4)


def sum_of(elements: str, shape: str, dimensions: str, result: str, element: str, init: str = "3.0") -> str:
    """The text of a sum of %x with an initial value. The ops `elements` compute %x from the arrays %a and %b."""
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
"""For each name: the terms of a sum, the operand's sizes, the summed dimensions, the sizes and type of the result.

The last entry is the op to which the products are rewritten.
"""


@pytest.mark.parametrize("name", SUMS)
def test_sums_of_products_and_negated_values(name: str, together: Joined) -> None:
    """Sums of products or of negated values become the expected op, without negations, and equal NumPy's.

    The initial value 3 is added once.
    """
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
    (y,) = together[name](a, b)
    expected = 3 + np.sum(exact[elements], over)
    np.testing.assert_allclose(
        y, expected, rtol=1e-4 if element == "f32" else 1e-12, atol=1e-4 if element == "f32" else 1e-12
    )


def negated_from(init: str) -> str:
    return sum_of(NEGATED, "64x64", "1", "64x", "f32", init)


@pytest.mark.parametrize("init", ["0.0", "-0.0"])
def test_signs_of_sums_of_negated_values(init: str, together: Joined) -> None:
    """A sum of negated values that cancel is 0, not -0, for both signs of the initial zero."""
    x = np.tile(np.float32([1, -1]), (64, 32))
    (y,) = together[f"negated from {init}"](x, x)
    assert not y.any() and not np.signbit(y).any()
    source = source_of(tiduc.load(negated_from(init))).stablehlo
    assert isinstance(source, str) and ("stablehlo.negate" in source) is (init == "-0.0")
