"""Sine, cosine and tangent of f32 on CPUs: within 0.501 units in the last place, of huge arguments too."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import tiduc

Array = NDArray[Any]
RNG = np.random.default_rng(0)

NEAR = (0x6F79BE45, 0x50A3E87F, 0x437CE5F1, 0x6A1976F1, 0x53B146A6, 0x65898498, 0x77584625, 0x7079BE45)
"""Bits of the floats that are nearest to a multiple of pi/2: the first is 1.6e-9 from one."""


def arguments() -> Array:
    """Floats of all exponents, those where an argument takes another part of 1 / 2 pi, and those next to zeros."""
    normal = RNG.integers(0x00800000, 0x7F800000, 40_000, dtype=np.uint32).view(np.float32)
    zeros = (np.pi / 2 * np.arange(10_000)).astype(np.float32)
    powers = np.float32(2) ** np.arange(-126, 128, dtype=np.float32)
    x = np.concatenate([normal, zeros, powers, np.nextafter(powers[1:], np.float32(0))])
    x = np.concatenate([x, np.array(NEAR, np.uint32).view(np.float32)])
    return np.where(RNG.random(len(x)) < 0.5, -x, x)


@pytest.fixture(scope="module", params=["cpu:host", "cpu:generic"])
def computed(request: pytest.FixtureRequest) -> tuple[Array, list[Array]]:
    """The arguments, and their sines, cosines and tangents, with and without instructions that multiply and add."""
    x = arguments()
    t = f"tensor<{len(x)}xf32>"
    text = f"""func.func @main(%x: {t}) -> ({t}, {t}, {t}) {{
      %0 = stablehlo.sine %x : {t}
      %1 = stablehlo.cosine %x : {t}
      %2 = stablehlo.tan %x : {t}
      return %0, %1, %2 : {t}, {t}, {t}
    }}"""
    return x, list(tiduc.load(text).compile(request.param)(x))


@pytest.mark.parametrize(("i", "exact"), list(enumerate((np.sin, np.cos, np.tan))))
def test_units_in_the_last_place(computed: tuple[Array, list[Array]], i: int, exact: Any) -> None:
    x, found = computed
    expected = exact(x.astype(np.float64))  # whose C library reduces arguments exactly
    units = np.abs(found[i] - expected) / np.spacing(np.abs(expected).astype(np.float32))
    normal = np.abs(expected) >= np.finfo(np.float32).tiny  # others are flushed to 0
    assert np.max(units[normal]) < (0.502 if exact is np.tan else 0.501)


def test_zeros_keep_their_sign_and_infinities_have_no_sine() -> None:
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan], np.float32)
    text = "func.func @main(%x: tensor<5xf32>) -> tensor<5xf32> {\n%0 = stablehlo.sine %x : tensor<5xf32>\n"
    (y,) = tiduc.load(text + "return %0 : tensor<5xf32>\n}").compile()(x)
    np.testing.assert_array_equal(y, [0, 0, np.nan, np.nan, np.nan])
    assert list(np.signbit(y[:2])) == [False, True]
