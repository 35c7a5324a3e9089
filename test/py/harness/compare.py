"""Compares arrays. All numeric tests use this function."""

from collections.abc import Iterable
from typing import Any

import numpy as np


def compare(actual: Iterable[Any], expected: Iterable[Any], tolerance: float = 1e-10, what: str = "") -> None:
    """Asserts that two lists of arrays have the same length and shapes, and that their entries are nearly equal.

    The tolerance is relative to the largest absolute value of a finite entry of the expected array, or to 1 if this is
    larger. Infinities and NaN must be at the same indices. The message of a failure begins with `what`.
    """
    arrays, wanted = [np.asarray(x) for x in actual], [np.asarray(y) for y in expected]
    assert len(arrays) == len(wanted), f"{what}: {len(arrays)} arrays, expected {len(wanted)}"
    for i, (x, y) in enumerate(zip(arrays, wanted, strict=True)):
        assert x.shape == y.shape, f"{what}, array {i}: shape {x.shape}, expected {y.shape}"
        largest = float(np.max(np.abs(y[np.isfinite(y)]), initial=1.0))
        np.testing.assert_allclose(x, y, rtol=0, atol=tolerance * largest, err_msg=f"{what}, array {i}")
