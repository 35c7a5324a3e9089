"""Interpolation weights of ONNX's Resize along one dimension.

Source: ONNX's operators, Resize; Keys, "Cubic convolution interpolation" (1981) for the cubic weights.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tiduc.dialect.errors import Unsupported
from tiduc.runtime.arrays import Array

_ROUNDED: dict[str, Callable[[Array], Array]] = {
    "ceil": np.ceil,
    "floor": np.floor,
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
}


def table(n: int, m: int, scale: float, given: Mapping[str, Any]) -> Array:
    """The m x n matrix that maps n elements to m results; for mode `nearest`, the source index of each result.

    `given` are the attributes of Resize. `Unsupported` for other modes.
    """
    x, mode = _places(n, m, scale, given), given["mode"]
    if mode == "nearest":
        rounding = _ROUNDED[given.get("nearest_mode", "round_prefer_floor")]
        return np.clip(rounding(x), 0, n - 1).astype(np.int64)
    if mode not in ("linear", "cubic"):
        raise Unsupported(f"Resize of mode {mode} is not known")
    stretch = min(scale, 1.0) if given.get("antialias") else 1.0
    reach = (1 if mode == "linear" else 2) / stretch
    first = np.floor(x - reach).astype(np.int64)
    taps = first[:, None] + np.arange(int(np.ceil(2 * reach)) + 2)
    away = np.abs(taps - x[:, None]) * stretch
    a = given.get("cubic_coeff_a", -0.75)
    weights = np.maximum(1 - away, 0) if mode == "linear" else _cubic(away, a)
    if given.get("exclude_outside"):
        weights = np.where((taps >= 0) & (taps < n), weights, 0)
    if given.get("antialias") or given.get("exclude_outside"):
        weights = weights / weights.sum(1, keepdims=True)
    matrix = np.zeros((m, n))
    np.add.at(matrix, (np.arange(m)[:, None], np.clip(taps, 0, n - 1)), weights)
    return matrix


def _cubic(x: Array, a: float) -> Array:
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((x - 5) * x + 8) * x * a - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0))


def _places(n: int, m: int, scale: float, given: Mapping[str, Any]) -> Array:
    """The coordinate of each of the m results among the n elements."""
    i, kind = np.arange(m, dtype=np.float64), given["coordinate_transformation_mode"]
    if kind == "align_corners":
        length = scale * n
        return np.zeros(m) if length == 1 else i * (n - 1) / (length - 1)
    if kind == "asymmetric":
        return i / scale
    if kind == "half_pixel_symmetric":
        return n / 2 * (1 - m / (scale * n)) + (i + 0.5) / scale - 0.5
    if kind == "pytorch_half_pixel" and scale * n <= 1:
        return np.zeros(m)
    if kind in ("half_pixel", "pytorch_half_pixel"):
        return (i + 0.5) / scale - 0.5
    raise Unsupported(f"Resize by {kind} is not known")
