"""Tests powers, angles, remainders, cube roots and comparisons on IREE at values such as 0, -0, infinity and NaN."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from harness.one_module import Given, Programs, Results
from numpy.typing import NDArray

Array = NDArray[Any]

CORNERS = (0, 1, 2, 0.5, 3, 2.5, 1e30, 3e-30, np.inf)
EXACT: dict[str, Callable[..., Any]] = {"power": np.power, "atan2": np.arctan2}
TOLERANCE = {("power", "f32"): 2e-5, ("power", "f64"): 1e-12, ("atan2", "f32"): 5e-6, ("atan2", "f64"): 1e-14}


def program(op: str, n: int, element: str, operands: str = "%x, %y") -> str:
    t = f"tensor<{n}x{element}>"
    return f"""func.func @main(%x: {t}, %y: {t}) -> {t} {{
      %0 = stablehlo.{op} {operands} : {t}
      return %0 : {t}
    }}"""


PROGRAMS = Programs()


@pytest.fixture(scope="module")
def all_results(request: pytest.FixtureRequest) -> dict[str, dict[str, Results]]:
    return PROGRAMS.results(request)


@pytest.fixture
def results(request: pytest.FixtureRequest, all_results: dict[str, Any]) -> dict[str, Results]:
    """Fixture: the arguments and results of the programs of the requesting test, by name of the program."""
    return all_results[request.node.name]  # type: ignore[no-any-return]


def same(actual: Array, expected: Array, tolerance: float) -> Array:
    """Whether each element agrees with the expected one: within the relative tolerance, and with equal signs.

    Subnormal numbers count as 0.
    """
    tiny, most = np.finfo(actual.dtype).tiny, np.finfo(actual.dtype).max
    actual = np.where(np.abs(actual) < tiny, np.copysign(0, actual), actual)
    flushed = np.where(np.abs(expected) < tiny, np.copysign(0, expected), expected)
    flushed = np.where(np.abs(flushed) > most, np.copysign(np.inf, flushed), flushed)
    with np.errstate(invalid="ignore"):
        near = np.abs(actual - flushed) <= tolerance * np.abs(flushed)
    alike = (actual == flushed) | (np.isnan(actual) & np.isnan(flushed)) | near
    return alike & (np.isnan(flushed) | (np.signbit(actual) == np.signbit(flushed)))


@PROGRAMS.of_test
def pairs(target: str, kinds: Sequence[tuple[str, str]]) -> dict[str, Given]:
    signed = [s * v for v in CORNERS for s in (1.0, -1.0)] + [np.nan]
    pairs = np.array(list(itertools.product(signed, signed))).T
    return {
        f"{op} {element}": (
            program(op, pairs.shape[1], element),
            [*pairs.astype(element.replace("f", "float"))],
        )
        for op, element in kinds
    }


@pytest.mark.parametrize(
    ("target", "kinds"),
    [
        ("cpu", tuple(itertools.product(EXACT, ("f32", "f64")))),
        ("cpu:generic", (("power", "f32"),)),
        ("vmvx", (("power", "f32"), ("atan2", "f32"))),
    ],
)
def test_pairs(results: dict[str, Results], target: str, kinds: Sequence[tuple[str, str]]) -> None:
    for op, element in kinds:
        (x, y), (actual,) = results[f"{op} {element}"]
        with np.errstate(all="ignore"):
            expected = EXACT[op](x.astype(np.longdouble), y.astype(np.longdouble))
        alike = same(actual, expected, TOLERANCE[op, element])
        wrong = list(zip(x[~alike], y[~alike], actual[~alike], expected[~alike], strict=True))
        assert not wrong, (op, element)


EXPONENTS = (0, 1, 2, 3, -1, -2, -3, 0.5, -0.5, 0.75, 2.5, -2.5, 1e30)


@PROGRAMS.of_test
def powers_of_known_exponents(element: str, target: str) -> dict[str, Given]:
    x = np.array([s * v for v in CORNERS for s in (1.0, -1.0)] + [np.nan], element.replace("f", "float"))
    t, lines = f"tensor<{len(x)}x{element}>", list[str]()
    for i, y in enumerate(EXPONENTS):
        lines += [
            f"%c{i} = stablehlo.constant dense<{y:e}> : {t}",
            f"%d{i} = stablehlo.add %c{i}, %c{i} : {t}",
            f"%q{i} = stablehlo.divide %d{i}, %d{i} : {t}",  # 1, or NaN for the exponent 0
            f"%n{i} = stablehlo.negate %c{i} : {t}",
            f"%m{i} = stablehlo.multiply %n{i}, %q{i} : {t}",
            f"%e{i} = stablehlo.subtract %d{i}, %m{i} : {t}",
            f"%r{i} = stablehlo.remainder %e{i}, %d{i} : {t}",
            f"%p{i} = stablehlo.power %x, %{'c' if y == 0 else 'r'}{i} : {t}",
        ]
    values, types = ", ".join(f"%p{i}" for i, _ in enumerate(EXPONENTS)), ", ".join([t] * len(EXPONENTS))
    body = "\n".join([*lines, f"return {values} : {types}"])
    return {"powers": (f"func.func @main(%x: {t}) -> ({types}) {{\n{body}\n}}", [x])}


@pytest.mark.parametrize(
    ("element", "target"),
    [("f32", "cpu"), ("f64", "cpu"), pytest.param("f32", "vmvx", marks=pytest.mark.slow)],
)
def test_powers_of_known_exponents(results: dict[str, Results], element: str, target: str) -> None:
    """Powers with constant exponents equal NumPy's at all special values.

    The exponent is the constant 0, or y, computed as the remainder of y + 2 y by 2 y.
    """
    (x,), actual = results["powers"]
    for y, power in zip(EXPONENTS, actual, strict=True):
        with np.errstate(all="ignore"):
            expected = np.power(x.astype(np.longdouble), np.longdouble(y))
        wrong = ~same(power, expected, TOLERANCE["power", element])
        assert not wrong.any(), (y, x[wrong], power[wrong], expected[wrong])


ORDERS = {
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
    "EQ": np.equal,
    "NE": np.not_equal,
}


@PROGRAMS.of_test
def comparisons(element: str, target: str) -> dict[str, Given]:
    signed = [s * v for v in CORNERS for s in (1.0, -1.0)] + [np.nan]
    x, y = np.array(list(itertools.product(signed, signed))).T.astype(element.replace("f", "float"))
    t, p = f"tensor<{len(x)}x{element}>", f"tensor<{len(x)}xi1>"
    lines = [f"%{d} = stablehlo.compare {d}, %x, %y : ({t}, {t}) -> {p}" for d in ORDERS]
    values = ", ".join(f"%{d}" for d in (*ORDERS, "finite"))
    types = ", ".join([p] * (len(ORDERS) + 1))
    body = "\n".join([*lines, f"%finite = stablehlo.is_finite %x : ({t}) -> {p}"])
    text = f"func.func @main(%x: {t}, %y: {t}) -> ({types}) {{\n{body}\nreturn {values} : {types}\n}}"
    return {"orders": (text, [x, y])}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("target", ["cpu", "vmvx"])
@pytest.mark.parametrize("element", ["f32", "f64"])
def test_comparisons(results: dict[str, Results], element: str, target: str) -> None:
    """Comparisons and `is_finite` equal NumPy's, also for NaN, which is unordered and not finite."""
    (x, y), (*actual, finite) = results["orders"]
    for by_iree, compare in zip(actual, ORDERS.values(), strict=True):
        np.testing.assert_array_equal(by_iree, compare(x, y))
    np.testing.assert_array_equal(finite, np.isfinite(x))


@PROGRAMS.of_test
def remainders(target: str) -> dict[str, Given]:
    rng, n = np.random.default_rng(0), 20_000
    x, y = rng.integers(0x00800000, 0x7F800000, (2, 4, n), dtype=np.uint32).view(np.float32)
    y[1] = rng.uniform(0.1, 100, n)
    x[1] = y[1] * rng.integers(1, 2**23, n)  # these x are rounded multiples of y
    x[2], y[2] = 1000 * rng.standard_normal(n), 0.7
    x[3], y[3] = 3.4e38 * rng.uniform(0.1, 1, n), 1.2e-38 * rng.uniform(1, 3, n)
    corners = [s * v for v in CORNERS for s in (1.0, -1.0)] + [np.nan]
    pairs = np.array(list(itertools.product(corners, corners)), np.float32).T
    x = np.concatenate([np.where(rng.random(4 * n) < 0.5, -x.ravel(), x.ravel()), pairs[0]])
    y = np.concatenate([np.where(rng.random(4 * n) < 0.5, -y.ravel(), y.ravel()), pairs[1]])
    if target == "vmvx":  # it flushes subnormal intermediate results
        kept = ~(np.abs(y) < 1e-35)
        x, y = x[kept], y[kept]
    return {"remainders": (program("remainder", len(x), "f32"), [x, y])}


@pytest.mark.parametrize("target", ["cpu", "cpu:generic", "vmvx"])
def test_remainders(results: dict[str, Results], target: str) -> None:
    """Remainders in f32 equal `fmod` exactly, also for large quotients, and have the sign of x."""
    (x, y), (actual,) = results["remainders"]
    with np.errstate(invalid="ignore"):
        assert same(actual, np.fmod(x, y), 0).all()


@PROGRAMS.of_test
def remainders_of_narrow_floats() -> dict[str, Given]:
    programs = {}
    for element, dtype in {"f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}.items():
        rng = np.random.default_rng(0)
        x = (rng.standard_normal(2000) * 1000).astype(dtype)
        y = (rng.standard_normal(2000) + np.sign(rng.standard_normal(2000)) * 0.1).astype(dtype)
        programs[element] = program("remainder", 2000, element), [x, y]
    return programs


def test_remainders_of_narrow_floats(results: dict[str, Results]) -> None:
    """Remainders in narrow float types equal the remainders of the same values in f32, which are exact."""
    for element, ((x, y), (actual,)) in results.items():
        expected = np.fmod(x.astype(np.float32), y.astype(np.float32))
        np.testing.assert_array_equal(np.asarray(actual).astype(np.float32), expected, err_msg=element)


@PROGRAMS.of_test
def cube_roots() -> dict[str, Given]:
    exact = np.array([s * v for v in (*CORNERS, 1e-30, 7) for s in (1, -1)] + [np.nan])
    return {
        element: (
            program("cbrt", len(exact), element, "%x"),
            [exact.astype(element.replace("f", "float"))] * 2,
        )
        for element in ("f32", "f64")
    }


def test_cube_roots(results: dict[str, Results]) -> None:
    for element, tolerance in {"f32": 1.5e-6, "f64": 1e-15}.items():
        (x, _), (actual,) = results[element]
        assert same(actual, np.cbrt(x.astype(np.longdouble)), tolerance).all(), element


@PROGRAMS.of_test
def whole_numbers() -> dict[str, Given]:
    halves = np.arange(2**16, dtype=np.uint32) << 16
    numbers = {
        "bf16": halves.view(np.float32),
        "f32": np.concatenate([halves, halves + 1, halves + 0xFFFF]).view(np.float32),
    }
    programs = {}
    for op, (element, x) in itertools.product(("floor", "ceil"), numbers.items()):
        x = x[~np.isnan(x)].astype(ml_dtypes.bfloat16 if element == "bf16" else np.float32)
        programs[f"{op} {element}"] = program(op, len(x), element, "%x"), [x, x]
    return programs


def test_whole_numbers(results: dict[str, Results]) -> None:
    """Floors and ceilings are exact and have the right sign.

    The arguments are all bf16 numbers, and f32 numbers whose lower 16 bits are 0, 1 or all ones.
    """
    for name, ((x, _), (y,)) in results.items():
        exact = np.floor if name.startswith("floor") else np.ceil
        expected, actual = exact(x.astype(np.float64)), np.asarray(y).astype(np.float64)
        np.testing.assert_array_equal(actual, expected, err_msg=name)
        np.testing.assert_array_equal(np.signbit(actual), np.signbit(expected), err_msg=name)
