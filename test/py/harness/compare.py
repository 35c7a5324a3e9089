"""The comparison of arrays that all numeric tests share."""

from collections.abc import Iterable
from typing import Any

import numpy as np


def compare(actual: Iterable[Any], expected: Iterable[Any], tolerance: float = 1e-10, what: str = "") -> None:
    """Asserts that arrays are equal in number and shape, and nearly equal in their entries.

    The tolerance is relative to the largest finite entry of the expected array, or to 1 if that is larger. Infinities
    and NaN must be at equal places. The message of a failure begins with `what`.
    """
    arrays, wanted = [np.asarray(x) for x in actual], [np.asarray(y) for y in expected]
    assert len(arrays) == len(wanted), f"{what}: {len(arrays)} arrays, expected {len(wanted)}"
    for i, (x, y) in enumerate(zip(arrays, wanted, strict=True)):
        assert x.shape == y.shape, f"{what}, array {i}: shape {x.shape}, expected {y.shape}"
        largest = float(np.max(np.abs(y[np.isfinite(y)]), initial=1.0))
        np.testing.assert_allclose(x, y, rtol=0, atol=tolerance * largest, err_msg=f"{what}, array {i}")
