"""Tests powers whose base is a constant power of two: their accuracy, and that they are exact at integers."""

from typing import Any

import numpy as np
import pytest

import tiduc

WIDE = np.longdouble
FAR = {np.float32: 160.0, np.float64: 1100.0}
"""For each type, a number x for which 2^x overflows and 2^-x is 0."""


def powers(dtype: Any, bases: tuple[float, ...], x: Any) -> list[Any]:
    """Powers of each base to x on IREE."""
    t = f"tensor<{len(x)}xf{8 * np.dtype(dtype).itemsize}>"
    lines = [
        f"%c{i} = stablehlo.constant dense<{base}> : {t}\n%{i} = stablehlo.power %c{i}, %x : {t}"
        for i, base in enumerate(bases)
    ]
    values, types = ", ".join(f"%{i}" for i in range(len(bases))), ", ".join([t] * len(bases))
    body = "\n".join([*lines, f"return {values} : {types}"])
    return list(
        map(np.asarray, tiduc.load(f"func.func @main(%x: {t}) -> ({types}) {{\n{body}\n}}").compile()(x))
    )


@pytest.mark.more
@pytest.mark.skipif(np.finfo(WIDE).nmant < 63, reason="this machine has no floats wider than f64")
@pytest.mark.parametrize("dtype", FAR)
def test_within_one_unit_in_the_last_place(dtype: Any) -> None:
    bases, tiny = (2.0, 0.5, 4.0, 0.0625), np.finfo(dtype).tiny
    x = np.random.default_rng(0).uniform(-FAR[dtype], FAR[dtype], 3000)
    x = np.concatenate([x, np.round(x), x / 1000, [np.inf, -np.inf, np.nan]]).astype(dtype)
    for base, y in zip(bases, powers(dtype, bases, x), strict=True):
        with np.errstate(all="ignore"):
            exact = WIDE(base) ** x.astype(WIDE)
            rounded = exact.astype(dtype)
        normal = np.isfinite(rounded) & (rounded >= tiny)
        error = np.abs(y[normal] - exact[normal]) / np.spacing(rounded[normal])
        assert normal.sum() > 3000
        assert error.max() < 1.1
        whole = normal & (np.round(x) == x)
        assert whole.sum() > 500
        np.testing.assert_array_equal(y[whole], rounded[whole])
        # Subnormal results may be 0.
        assert np.all(y[~normal & (rounded < tiny)] < tiny)
        rest = ~normal & ~(rounded < tiny)
        np.testing.assert_array_equal(y[rest], rounded[rest])


@pytest.mark.more
def test_of_other_bases() -> None:
    x = np.array([-3, 0, 0.5, 2], np.float32)
    for base, y in zip((3.0, 8.0, 1.0), powers(np.float32, (3.0, 8.0, 1.0), x), strict=True):
        np.testing.assert_allclose(y, base ** x.astype(np.float64), rtol=2e-6)
