"""scatter: all bodies and dimension numbers, windows partly or fully out of range, and several updates of one
element.
"""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from cases.index_cases import CASES, RNG, ROWS, Indexing, body, indexings, random
from harness.check_rule import check_rule, run
from harness.tensors import tensor
from harness.xla import by_xla
from hypothesis import given, settings
from hypothesis import strategies as st

from tiduc.dialect.errors import Unsupported
from tiduc.loading import load

INDEX = {"i8": np.int8, "ui8": np.uint8, "i32": np.int32, "i64": np.int64, "ui64": np.uint64}
EVERY = CASES | {"an empty operand": Indexing([0, 3], [5, 1], [1, 3], [1], [0], [0], 1)}
OPS = ["add", "swapped", "set", "minimum", "maximum"]


def check(case: Indexing, indices: Any, op: str = "add", element: str = "f64", **options: Any) -> None:
    text = case.scatter(op, element, options.pop("index", "i32"), options.pop("unique", False))
    check_rule(text, random(case.operand, element), indices, random(case.windows, element), **options)


@pytest.mark.sampled(16)
@pytest.mark.parametrize("op", ["add", "set", "subtract"])
@pytest.mark.parametrize("element", ["f64", "complex<f64>"])
@pytest.mark.parametrize("case", EVERY.values(), ids=EVERY)
def test_cases(case: Indexing, op: str, element: str) -> None:
    """Derivatives are right for indices from -2 to beyond the end.

    Some updates are dropped partly or fully, and some overlap.
    """
    check(case, RNG.integers(-2, 7, case.indices).astype(np.int32), op, element)


@pytest.mark.sampled(18)
@pytest.mark.parametrize("op", ["swapped", "minimum", "maximum"])
@pytest.mark.parametrize("case", EVERY.values(), ids=EVERY)
def test_other_bodies(case: Indexing, op: str) -> None:
    check(case, RNG.integers(-2, 7, case.indices).astype(np.int32), op)


@pytest.mark.parametrize("op", ["add", "set", "multiply", "minimum"])
def test_unique_indices(op: str) -> None:
    """Derivatives are right for unique indices, some of which are out of range at each end."""
    check(ROWS, np.array([[2], [-1], [0], [9], [3]], np.int32), op, unique=True)
    check(CASES["windows"], np.array([[0, 0], [2, 4], [4, -1]], np.int32), op, unique=True)


@pytest.mark.parametrize("op", ["add", "set", "multiply"])
def test_unique_complex(op: str) -> None:
    check(ROWS, np.array([[2], [-1], [0], [9], [3]], np.int32), op, "complex<f64>", unique=True)


@pytest.mark.parametrize("element", ["f64", "complex<f64>"])
def test_multiply_with_one_window(element: str) -> None:
    check(CASES["one window"], np.array([4, 1], np.int32), "multiply", element)


@pytest.mark.parametrize("element", ["f64", "complex<f64>"])
def test_multiply_by_inactive_updates_that_meet(element: str) -> None:
    text = ROWS.scatter("multiply", element)
    t = tensor(ROWS.windows, element)
    text = text.replace(f", %u: {t}", "").replace(
        "%0 =", f"%u = stablehlo.constant dense<{'2.5' if element == 'f64' else '(2.5, -1.0)'}> : {t}\n%0 ="
    )
    check_rule(text, random(ROWS.operand, element), np.array([[2], [2], [0], [9], [2]], np.int32))


@pytest.mark.sampled(5)
@pytest.mark.parametrize("op", ["add", "set"])
@pytest.mark.parametrize("index", INDEX)
def test_index_types(index: str, op: str) -> None:
    """Derivatives are right for all index types, also if a dimension is longer than the largest index, so that the
    bound for clamping could overflow.
    """
    least = np.iinfo(INDEX[index]).min
    for case in (
        Indexing([300, 2], [5, 1], [1, 2], [1], [0], [0], 1),
        Indexing([300, 2], [5, 1], [200, 1], [1], [1], [0], 1),
        Indexing([3, 2], [5, 1], [1, 2], [1], [0], [0], 1),
    ):
        indices = np.array([0, 3, 100, least, 100], INDEX[index]).reshape(5, 1)
        check(case, indices, op, index=index, order=1)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("op", ["add", "set", "maximum"])
@pytest.mark.parametrize(
    ("index", "masked"), [((2, 3), False), ((0, 0), False), ((4, 3), True), ((2, 5), True), ((-1, 2), True)]
)
def test_constant_indices(index: tuple[int, int], masked: bool, op: str) -> None:
    """If a constant index shows that the window is in range, the VJP has neither mask nor padding."""
    case = CASES["one window"]
    constant = f"%i = stablehlo.constant dense<{list(index)}> : tensor<2xi32>\n%0 ="
    text = case.scatter(op).replace(", %i: tensor<2xi32>", "", 1).replace("%0 =", constant, 1)
    assert ("stablehlo.pad" in str(load(text).vjp())) == masked
    check_rule(text, random(case.operand), random(case.windows))


@pytest.mark.parametrize("op", ["minimum", "maximum"])
def test_ties_are_shared(op: str) -> None:
    """If k elements are tied with the result of a maximum or minimum, each gets 1 / k of the cotangent."""
    case = Indexing([3], [4, 1], [1], [], [0], [0], 1)
    text = case.scatter(op).replace("%0, %0", "%0, %one").replace("%1 =", f"{ONE} %1 =")
    x, u = np.array([1.0, 5.0, 2.0]), np.array([1.0, 1.0, 5.0, 7.0])
    *_, cx, cu = run(
        load(text).vjp(), [x, np.array([[0], [0], [1], [9]], np.int32), u, np.array([3.0, 4.0, 5.0])]
    )
    np.testing.assert_allclose(cx, [1, 2, 5])
    np.testing.assert_allclose(cu, [1, 1, 2, 0])


ONE = "%one = stablehlo.constant dense<1.0> : tensor<3xf64>"


def test_the_winner_takes_all() -> None:
    """If several updates write one element, only the update whose value is in the result gets a cotangent."""
    text = ROWS.scatter("set")
    x, u, ct = random(ROWS.operand), random(ROWS.windows), random(ROWS.operand)
    indices = np.array([[1], [1], [3], [9], [1]], np.int32)
    y, cx, cu = run(load(text).vjp(), [x, indices, u, ct])
    np.testing.assert_array_equal(y[1], u[4] ** 2)
    expected = np.zeros_like(u)
    expected[4], expected[2] = 2 * u[4] * ct[1], 2 * u[2] * ct[3]
    np.testing.assert_allclose(cu, expected)
    np.testing.assert_allclose(cx, 2 * x * ct * [[1], [0], [1], [0]])


def test_infinite_values_do_not_spread() -> None:
    """Infinite updates that do not reach a result give no NaN cotangents.

    The VJP removes them by a select instead of a product with zero.
    """
    text = ROWS.scatter("set")
    u = random(ROWS.windows)
    u[0] = np.inf
    ct = random(ROWS.operand)
    *_, cu = run(
        load(text).vjp([2]), [random(ROWS.operand), np.array([[1], [1], [3], [9], [1]], np.int32), u, ct]
    )
    assert np.isfinite(cu).all()


@pytest.mark.parametrize("op", ["add", "set", "maximum"])
def test_operand_as_updates(op: str) -> None:
    case = Indexing([4, 3], [4, 1], [1, 3], [1], [0], [0], 1)
    text = case.scatter(op, operands="%x, %i, %x")
    indices = np.array([[2], [0], [0], [5]], np.int32)
    check_rule(text, random([4, 3]), indices, random([4, 3]))


@pytest.mark.parametrize("op", ["add", "set", "min", "max", "multiply"])
def test_against_jax(op: str) -> None:
    indices = np.array([[2], [0], [1], [9], [3]] if op == "multiply" else [[2], [0], [2], [9], [2]], np.int32)
    name = {"min": "minimum", "max": "maximum"}.get(op, op)
    text = ROWS.scatter(name, unique=op == "multiply")

    def function(x: Any, i: Any, u: Any) -> Any:
        at = x.at[i[:, 0]]
        return getattr(at, op)(u, mode="drop", unique_indices=op == "multiply") ** 2

    x, u = random(ROWS.operand), random(ROWS.windows)
    check_rule(text, x, indices, u, order=1, jax_function=function)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(indexings(), st.sampled_from(OPS))
@pytest.mark.more
def test_random_numbers(case: Indexing, op: str) -> None:
    check(case, RNG.integers(-2, 4, case.indices).astype(np.int32), op, order=1)


# ---- products of several updates of one element ----------------------------------------------------------------

MEETING = np.array([[2], [2], [0], [9], [2]], np.int32)


@pytest.mark.parametrize("case", EVERY.values(), ids=EVERY)
def test_products(case: Indexing) -> None:
    element = "complex<f64>" if case is ROWS else "f64"
    check(case, RNG.integers(-2, 4, case.indices).astype(np.int32), "multiply", element, order=1)


ONES = Indexing([4], [5, 1], [1], [], [0], [0], 1)


def test_products_of_updates_that_are_reshaped() -> None:
    """Derivatives of products are right if the updates are reshaped.

    The expansion of the scatter adds another reshape of them.
    """
    scatter = Indexing([4], [2, 3, 1], [1], [], [0], [0], 2).scatter("multiply", operands="%x, %i, %v")
    text = scatter.replace("%u: tensor<2x3xf64>", "%u: tensor<6xf64>").replace(
        "%0 =", "%v = stablehlo.reshape %u : (tensor<6xf64>) -> tensor<2x3xf64>\n          %0 =", 1
    )
    check_rule(text, random([4]), RNG.integers(0, 4, [2, 3, 1]).astype(np.int32), random([6]))


@pytest.mark.parametrize("zeros", [[], [1], [0, 4], [0, 1, 4]])
def test_products_with_zeros(zeros: list[int]) -> None:
    """Derivatives of products with zero factors are right to order two.

    The mixed derivative in two zero factors is the product of the other factors.
    """
    x, u = random(ONES.operand), random(ONES.windows)
    u[zeros] = 0
    check_rule(ONES.scatter("multiply"), x, MEETING, u, order=2)
    x[2] = 0
    check_rule(ONES.scatter("multiply"), x, MEETING, u, subsets=False, order=2)


# ---- any body --------------------------------------------------------------------------------------------------

T = "tensor<f64>"
BODIES = {
    "what is added is a function": f"%d = stablehlo.sine %b : {T} %c = stablehlo.add %a, %d : {T}",
    "the operand is a function": f"%c = stablehlo.sine %a : {T}",
    "swapped subtract": f"%c = stablehlo.subtract %b, %a : {T}",
    "divide": f"%c = stablehlo.divide %a, %b : {T}",
    "power": f"%c = stablehlo.power %a, %b : {T}",
    "the update twice": f"%c = stablehlo.add %b, %b : {T}",
    "moving average": f"""%h = stablehlo.constant dense<0.25> : {T} %d = stablehlo.subtract %b, %a : {T}
        %e = stablehlo.multiply %h, %d : {T} %c = stablehlo.add %a, %e : {T}""",
    "the greater": f"""%d = stablehlo.compare GT, %b, %a : ({T}, {T}) -> tensor<i1>
        %c = stablehlo.select %d, %b, %a : tensor<i1>, {T}""",
}


@pytest.mark.sampled(8)
@pytest.mark.parametrize("unique", [True, False])
@pytest.mark.parametrize("op", BODIES.values(), ids=BODIES)
def test_any_body(op: str, unique: bool) -> None:
    """Derivatives of scatters with any body are right. The operands are positive, because the body computes a power."""
    rows = [[2], [-1], [0], [9], [3]] if unique else MEETING
    windows = [[0, 0], [2, 4], [4, -1]] if unique else [[0, 0], [1, 1], [2, 9]]
    for case, indices in ((ONES, rows), (CASES["windows"], windows)):
        x, u = (RNG.uniform(0.5, 2, sizes) for sizes in (case.operand, case.windows))
        order = 2 if case is ONES else 1
        check_rule(
            case.scatter(op, unique=unique), x, np.array(indices, np.int32), u, order=order, subsets=False
        )


def test_a_body_with_a_constant_from_outside() -> None:
    text = ROWS.scatter(f"%c = stablehlo.multiply %a, %k : {T}").replace(
        "%0 =", f"%k = stablehlo.constant dense<1.5> : {T} %0 ="
    )
    check_rule(text, random(ROWS.operand), MEETING, random(ROWS.windows))


@pytest.mark.parametrize("op", ["divide", "set", "multiply"])
def test_dropped_updates_contribute_nothing(op: str) -> None:
    """An update that is out of range contributes neither its value nor its infinite slope to the cotangents."""
    text, u = ROWS.scatter(op, unique=op == "divide"), random(ROWS.windows)
    u[3] = 0 if op == "divide" else np.inf
    indices = np.array([[2], [-1], [0], [9], [3]], np.int32)
    *_, cx, cu = run(load(text).vjp(), [random(ROWS.operand), indices, u, random(ROWS.operand)])
    assert np.isfinite(cx).all() and np.isfinite(cu).all() and not cu[3].any()


def test_long_sequences_are_refused() -> None:
    case = Indexing([4, 3], [65, 1], [1, 3], [1], [0], [0], 1)
    with pytest.raises(Unsupported, match="two of its 65 windows may overlap"):
        load(case.scatter(BODIES["divide"])).jvp()
    assert load(case.scatter(BODIES["divide"], unique=True)).jvp()


def test_elements_that_the_body_promotes() -> None:
    text = f"""
    func.func @main(%x: tensor<4xf32>, %i: tensor<5x1xi32>, %u: tensor<5xf32>) -> tensor<4xf64> {{
      %0 = "stablehlo.scatter"(%x, %i, %u) ({{ {body("multiply", "f64")} }}) {{
        scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],
          scatter_dims_to_operand_dims = [0], index_vector_dim = 1>
      }} : (tensor<4xf32>, tensor<5x1xi32>, tensor<5xf32>) -> tensor<4xf64>
      return %0 : tensor<4xf64>
    }}"""
    x, u = (random(sizes).astype(np.float32) for sizes in ([4], [5]))
    same = (
        ONES.scatter("multiply")
        .replace("%0, %0", "%0, %one")
        .replace("%1 =", f"{ONE.replace('3', '4')} %1 =")
    )
    wide = [x.astype(np.float64), MEETING, u.astype(np.float64)]
    ct = random([4])
    _, cx, cu = by_xla(str(load(text).vjp()), [x, MEETING, u, ct])
    assert cx.dtype == cu.dtype == np.float32
    _, *expected = run(load(same).vjp(), [*wide, ct])
    for actual, exact in zip((cx, cu), expected, strict=True):
        np.testing.assert_allclose(actual, exact, rtol=1e-6)


@pytest.mark.parametrize("op", ["minimum", "maximum"])
def test_extrema_of_complex_values(op: str) -> None:
    """Derivatives of complex maxima and minima are right.

    The real parts are far apart, so that finite differences do not change the selected element.
    """
    real = np.random.default_rng(0).permutation(np.arange(27.0))
    values = real + 1j * random([27])
    check_rule(
        ROWS.scatter(op, "complex<f64>"), values[:12].reshape(4, 3), MEETING, values[12:].reshape(5, 3)
    )


def test_many_ties_in_low_precision() -> None:
    """300 tied updates share the cotangent equally in bf16, which cannot represent the number 300."""
    case = Indexing([1], [300, 1], [1], [], [0], [0], 1)
    text = (
        case.scatter("maximum", "bf16")
        .replace("%0, %0", "%0, %one")
        .replace("%1 =", f"{ONE.replace('3xf64', '1xbf16')} %1 =")
    )
    x, u = np.zeros(1, ml_dtypes.bfloat16), np.ones(300, ml_dtypes.bfloat16)
    *_, cu = by_xla(
        str(load(text).vjp(2)), [x, np.zeros((300, 1), np.int32), u, np.ones(1, ml_dtypes.bfloat16)]
    )
    np.testing.assert_allclose(cu.astype(float), 1 / 300, rtol=2**-8)


# ---- several operands ------------------------------------------------------------------------------------------


def several(region: str, second: str = "f64", unique: bool = False) -> str:
    x, y, i = "tensor<4x3xf64>", f"tensor<4x3x{second}>", "tensor<5x1xi32>"
    u, v, s = "tensor<5x3xf64>", f"tensor<5x3x{second}>", f"tensor<{second}>"
    return f"""
    func.func @main(%x: {x}, %y: {y}, %i: {i}, %u: {u}, %v: {v}) -> ({x}, {y}) {{
      %0:2 = "stablehlo.scatter"(%x, %y, %i, %u, %v) ({{
        ^bb0(%a: {T}, %b: {s}, %c: {T}, %d: {s}): {region}
      }}) {{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0],
        scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = {str(unique).lower()}
      }} : ({x}, {y}, {i}, {u}, {v}) -> ({x}, {y})
      %1 = stablehlo.multiply %0#0, %0#0 : {x}
      return %1, %0#1 : {x}, {y}
    }}"""


RETURN = f"stablehlo.return %e, %f : {T}, {T}"
COMPARE = f"""%p = stablehlo.compare GE, %a, %c : ({T}, {T}) -> tensor<i1>
    %e = stablehlo.select %p, %a, %c : tensor<i1>, {T}"""
SEVERAL = {
    "both set": f"stablehlo.return %c, %d : {T}, {T}",
    "each by an op": f"%e = stablehlo.add %a, %c : {T} %f = stablehlo.maximum %d, %b : {T} {RETURN}",
    "products": f"%e = stablehlo.subtract %a, %c : {T} %f = stablehlo.multiply %d, %b : {T} {RETURN}",
    "the greater, and what is with it": f"{COMPARE} %f = stablehlo.select %p, %b, %d : tensor<i1>, {T} {RETURN}",
    "one op, one choice": f"{COMPARE} %f = stablehlo.add %b, %d : {T} {RETURN}",
    "entangled": f"%e = stablehlo.multiply %a, %d : {T} %f = stablehlo.add %b, %c : {T} {RETURN}",
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("unique", [True, False])
@pytest.mark.parametrize("region", SEVERAL.values(), ids=SEVERAL)
def test_several_operands(region: str, unique: bool) -> None:
    indices = np.array([[2], [-1], [0], [9], [3]], np.int32) if unique else MEETING
    x, y, u, v = (random(sizes) for sizes in ([4, 3], [4, 3], [5, 3], [5, 3]))
    check_rule(several(region, unique=unique), x, y, indices, u, v, subsets=False)


@pytest.mark.parametrize("unique", [True, False])
def test_positions_of_maxima(unique: bool) -> None:
    """Derivatives are right for a scatter that selects values with their integer positions, as argmax does.

    The integers have no tangents.
    """
    i = "tensor<i32>"
    region = (
        f"{COMPARE} %f = stablehlo.select %p, %b, %d : tensor<i1>, {i} stablehlo.return %e, %f : {T}, {i}"
    )
    indices = np.array([[2], [-1], [0], [9], [3]], np.int32) if unique else MEETING
    y, v = np.zeros((4, 3), np.int32), np.arange(15, dtype=np.int32).reshape(5, 3)
    check_rule(several(region, "i32", unique), random([4, 3]), y, indices, random([5, 3]), v)


def test_each_operand_alone() -> None:
    x, y, u, v = (random(sizes) for sizes in ([4, 3], [4, 3], [5, 3], [5, 3]))
    check_rule(several(SEVERAL["each by an op"]), x, y, MEETING, u, v, order=1)


def test_batched_update_slices_are_unique() -> None:
    """A batched dynamic_update_slice of JAX has unique indices.

    Therefore its VJP does not compute which update is in the result.
    """
    case = Indexing([3, 5], [3, 1], [1, 2], [1], [], [1], 1, [0], [0])
    assert "iota" not in str(load(case.scatter("set")).vjp())
    check(case, np.array([[1], [0], [4]], np.int32), "set")
