"""Tests the accuracy of exponentials and logarithms of f64 on CPUs, and their values at the ends of the range.

tiduc emits polynomials for them.
"""

from typing import Any

import numpy as np
import pytest

import tiduc

INF, NAN = np.inf, np.nan
WIDE = np.longdouble
NAMES = ("exponential", "exponential_minus_one", "logistic", "tanh", "log", "log_plus_one")
ULPS = dict(zip(NAMES, (1.0, 2.0, 2.0, 3.0, 1.0, 2.0), strict=True))
EXACT = dict(
    zip(NAMES, (np.exp, np.expm1, lambda x: 1 / (1 + np.exp(-x)), np.tanh, np.log, np.log1p), strict=True)
)
CORNERS = np.array([0.0, -0.0, INF, -INF, NAN, -1, 1e3, -1e3, 709.78, 709.79, -745, 1e308, -1e-300])


def arguments() -> Any:
    """Arguments of all magnitudes. Many are close to 0 or 1, where some of the tested functions are 0."""
    rng = np.random.default_rng(0)
    sizes = 10.0 ** rng.uniform(-300, 300, 2000)
    near = rng.normal(size=2000) * 10.0 ** rng.uniform(-9, 0, 2000)
    return np.concatenate([CORNERS, sizes, -sizes, near, 1 + near, rng.uniform(-700, 700, 2000)])


def of_all(x: Any) -> dict[str, Any]:
    """IREE's values of each function at x, by name of the function."""
    t = f"tensor<{len(x)}xf64>"
    lines = "\n".join(f"%{i} = stablehlo.{name} %x : {t}" for i, name in enumerate(NAMES))
    values, types = ", ".join(f"%{i}" for i in range(len(NAMES))), ", ".join([t] * len(NAMES))
    text = f"func.func @main(%x: {t}) -> ({types}) {{\n{lines}\nreturn {values} : {types}\n}}"
    return dict(zip(NAMES, map(np.asarray, tiduc.load(text).compile()(x)), strict=True))


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    return of_all(arguments())


@pytest.mark.skipif(np.finfo(WIDE).nmant < 63, reason="this machine has no floats wider than f64")
@pytest.mark.parametrize("name", NAMES)
def test_within_units_in_the_last_place(results: dict[str, Any], name: str) -> None:
    y = results[name]
    with np.errstate(all="ignore"):
        exact = EXACT[name](arguments().astype(WIDE))
        rounded = exact.astype(np.float64)
        normal = np.isfinite(rounded) & (np.abs(rounded) >= np.finfo(np.float64).tiny)
        error = np.abs(y - exact)[normal] / np.spacing(np.abs(rounded[normal]))
    assert normal.sum() > 2000
    assert error.max() < ULPS[name]
    # Where the exact value is subnormal, the result may be 0. The remaining elements are infinite or NaN in both.
    rounded[np.abs(rounded) < np.finfo(np.float64).tiny] = 0
    assert np.all(np.abs(y[~normal & (rounded == 0)]) < np.finfo(np.float64).tiny)
    rest = ~normal & (rounded != 0)
    np.testing.assert_array_equal(y[rest], rounded[rest])


@pytest.mark.parametrize("name", ["exponential_minus_one", "tanh", "log_plus_one"])
def test_zeros_keep_their_sign(results: dict[str, Any], name: str) -> None:
    assert list(np.signbit(results[name][:2])) == [False, True]
    assert not results[name][:2].any()
