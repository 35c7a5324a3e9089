"""Tests sine, cosine and tangent on CPUs: f32 errors are below 0.502 units in the last place, even if x is huge."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from harness.one_module import Joined, compiled_as_one
from numpy.typing import NDArray

import tiduc

Array = NDArray[Any]
RNG = np.random.default_rng(0)

NEAR = (0x6F79BE45, 0x50A3E87F, 0x437CE5F1, 0x6A1976F1, 0x53B146A6, 0x65898498, 0x77584625, 0x7079BE45)
"""The bits of the f32 numbers that are closest to multiples of pi/2. The first has a distance of only 1.6e-9."""

EXACT = {"sine": np.sin, "cosine": np.cos, "tan": np.tan}
"""The functions with which results are compared. In f64, the C library reduces arguments exactly."""


def arguments() -> Array:
    """Floats of all exponents, and floats close to zeros of the functions.

    For each exponent, the argument reduction uses other bits of 1 / (2 pi).
    """
    normal = RNG.integers(0x00800000, 0x7F800000, 40_000, dtype=np.uint32).view(np.float32)
    zeros = (np.pi / 2 * np.arange(10_000)).astype(np.float32)
    powers = np.float32(2) ** np.arange(-126, 128, dtype=np.float32)
    x = np.concatenate([normal, zeros, powers, np.nextafter(powers[1:], np.float32(0))])
    x = np.concatenate([x, np.array(NEAR, np.uint32).view(np.float32)])
    return np.where(RNG.random(len(x)) < 0.5, -x, x)


def program(n: int, names: list[str], element: str = "f32") -> str:
    """The text of a program that applies the named functions to an array of n elements."""
    t = f"tensor<{n}x{element}>"
    lines = [f"%{i} = stablehlo.{name} %x : {t}" for i, name in enumerate(names)]
    types, values = ", ".join([t] * len(names)), ", ".join(f"%{i}" for i in range(len(names)))
    body = "\n".join([*lines, f"return {values} : {types}"])
    return f"func.func @main(%x: {t}) -> ({types}) {{\n{body}\n}}"


def units(actual: Array, expected: Array) -> Any:
    """The largest error in units in the last place. Elements whose expected value is subnormal are ignored."""
    normal = np.abs(expected) >= np.finfo(np.float32).tiny
    return np.max((np.abs(actual - expected) / np.spacing(np.abs(expected).astype(np.float32)))[normal])


@pytest.fixture(scope="module", params=["cpu:host", "cpu-threads:host", "cpu:generic"])
def computed(request: pytest.FixtureRequest) -> tuple[Array, list[Array]]:
    """Fixture: arguments, and their sines, cosines and tangents on each of several targets."""
    x = arguments()
    return x, list(tiduc.load(program(len(x), list(EXACT))).compile(request.param)(x))


@pytest.mark.parametrize(("i", "exact"), list(enumerate(EXACT.values())))
def test_units_in_the_last_place(computed: tuple[Array, list[Array]], i: int, exact: Any) -> None:
    x, actual = computed
    assert units(actual[i], exact(x.astype(np.float64))) < (0.502 if exact is np.tan else 0.501)


HALVES = np.arange(2**16, dtype=np.uint16).view(np.float16)
HALVES = HALVES[np.isfinite(HALVES)]
"""All finite f16 numbers."""


@pytest.fixture(scope="module")
def others() -> Joined:
    """Fixture: programs in half precision, and sines of 5 and of 2^14 elements, compiled as one function."""
    return compiled_as_one(
        {
            "bf16": program(2**14, ["sine", "cosine"], "bf16"),
            "f16": program(len(HALVES), ["sine", "cosine"], "f16"),
            **{n: program(n, ["sine"]) for n in (5, 2**14)},
        }
    )


@pytest.mark.parametrize("largest", [100, 3e38])
def test_bf16(largest: float, others: Joined) -> None:
    """Sines and cosines in bf16 have errors below 0.501 units in the last place; nearly all are correctly rounded."""
    n = 2**14
    x = (RNG.uniform(-1, 1, n) ** 5 * largest).astype(ml_dtypes.bfloat16)
    for y, exact in zip(others["bf16"](x), (np.sin, np.cos), strict=True):
        expected = exact(x.astype(np.float64))
        spacing = 2.0 ** (np.floor(np.log2(np.maximum(np.abs(expected), 1e-30))) - 7)
        assert np.max(np.abs(np.asarray(y).astype(np.float64) - expected) / spacing) < 0.501


def test_f16(others: Joined) -> None:
    x = HALVES
    for y, exact in zip(others["f16"](x), (np.sin, np.cos), strict=True):
        expected = exact(x.astype(np.float64))
        normal = np.abs(expected) >= np.finfo(np.float16).tiny
        units = np.abs(np.asarray(y) - expected) / np.spacing(np.abs(expected).astype(np.float16))
        assert np.max(units[normal]) < 0.501


@pytest.mark.parametrize("n", [5, 2**14])
def test_zeros_keep_their_sign_and_infinities_have_no_sine(n: int, others: Joined) -> None:
    x = np.resize(np.array([0.0, -0.0, np.inf, -np.inf, np.nan], np.float32), n)
    (y,) = others[n](x)
    np.testing.assert_array_equal(y[:5], [0, 0, np.nan, np.nan, np.nan])
    assert list(np.signbit(y[:2])) == [False, True]
    if n > 5:  # also tests an array of zeros without NaN
        x = np.where(np.arange(n) % 2, np.float32(-0.0), np.float32(0))
        np.testing.assert_array_equal(np.signbit(others[n](x)[0]), np.signbit(x))
