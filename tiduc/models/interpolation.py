"""Interpolation weights of ONNX's Resize along one dimension. Scales are numbers, or tensors of the graph.

Source: ONNX's operators, Resize; Keys, "Cubic convolution interpolation" (1981) for the cubic weights.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tiduc.dialect.errors import Unsupported
from tiduc.models.onnx.tensors import Tensor, absolute, ceil, clip, floor, matmul, maximum, minimum, where
from tiduc.runtime.arrays import Array

_ROUNDED: dict[str, Callable[[Any], Any]] = {
    "ceil": ceil,
    "floor": floor,
    "round_prefer_ceil": lambda x: floor(x + 0.5),
    "round_prefer_floor": lambda x: ceil(x - 0.5),
}


def table(
    n: int,
    m: int,
    scale: float | Tensor,
    region: "tuple[Array | Tensor, Array | Tensor] | None",
    given: Mapping[str, Any],
) -> tuple[Any, Any]:
    """Returns the weights of n elements in each of m results, and a mask of results that lie outside the array.

    The weights are an m x n matrix. For mode `nearest`, they are the source index of each result instead. `given` has
    the attributes of Resize. For the coordinate mode tf_crop_and_resize, `region` is the start and the end of the
    cropped part, as fractions of the dimension. For other coordinate modes, the mask is None. Raises `Unsupported` if
    the interpolation mode is not nearest, linear or cubic.
    """
    x, mode = _places(n, m, scale, region, given), given["mode"]
    outside = (
        (x < 0) | (x > n - 1) if given["coordinate_transformation_mode"] == "tf_crop_and_resize" else None
    )
    if mode == "nearest":
        rounding = _ROUNDED[given.get("nearest_mode", "round_prefer_floor")]
        return clip(rounding(x), 0, n - 1).astype(np.int64), outside
    if mode not in ("linear", "cubic"):
        raise Unsupported(f"the interpolation mode {mode} is not known")
    is_antialiased = bool(given.get("antialias"))
    least = min(m / n, 1.0) if isinstance(scale, Tensor) else min(scale, 1.0)
    reach = int(np.ceil((1 if mode == "linear" else 2) / (least if is_antialiased else 1.0))) + 1
    taps = np.arange(-reach, n + reach)
    away = absolute(_column(x) - taps) * (minimum(scale, 1.0) if is_antialiased else 1.0)
    weights = maximum(1 - away, 0) if mode == "linear" else cubic(away, given.get("cubic_coeff_a", -0.75))
    if given.get("exclude_outside"):
        weights = weights * ((taps >= 0) & (taps < n))
    if is_antialiased or given.get("exclude_outside"):
        weights = weights / weights.sum(1, keepdims=True)
    # A tap outside the array reads the nearest element of the array.
    to_edges = np.equal.outer(np.clip(taps, 0, n - 1), np.arange(n))
    kind = weights.dtype
    return matmul(weights, to_edges.astype(kind)), outside


def _column(x: Tensor) -> Tensor:
    return x.reshape(x.shape[0], 1)


def cubic(x: "Array | Tensor", a: float) -> Any:
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((x - 5) * x + 8) * x * a - 4 * a
    return where(x <= 1, near, where(x < 2, far, 0))


def _places(
    n: int,
    m: int,
    scale: "float | Tensor",
    region: "tuple[Array | Tensor, Array | Tensor] | None",
    given: Mapping[str, str],
) -> Any:
    """For each of m results: its coordinate in the array of n elements."""
    kind = given["coordinate_transformation_mode"]
    i = np.arange(m).astype(scale.dtype if isinstance(scale, Tensor) else np.float64)
    if kind == "align_corners":
        return np.zeros(m) if m <= 1 else i * (n - 1) / (scale * n - 1)  # `scale * n` need not be an integer
    if kind == "asymmetric":
        return i / scale
    if kind == "half_pixel_symmetric":
        return n / 2 * (1 - m / (scale * n)) + (i + 0.5) / scale - 0.5
    if kind == "pytorch_half_pixel" and m <= 1:
        return np.zeros(m)
    if kind in ("half_pixel", "pytorch_half_pixel"):
        return (i + 0.5) / scale - 0.5
    if kind == "tf_crop_and_resize":
        assert region is not None
        first, last = region
        if m == 1:
            return (first + last) * (0.5 * (n - 1)) + np.zeros(1)
        return first * (n - 1) + i * ((last - first) * ((n - 1) / (m - 1)))
    raise Unsupported(f"the coordinate transformation {kind} is not known")
