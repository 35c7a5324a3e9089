"""The conditions for a correct gradient."""

import math
from collections.abc import Mapping
from typing import Any

TOLERANCE, TIMES = 1e-4, 10
"""A gradient in f32 is close if its error is at most `TOLERANCE`, or `TIMES` PyTorch's own error in f32."""

WIDE_TOLERANCE = 1e-9
"""If the gradient in f32 is not close, rounding may have moved a kink, and the gradient in f64 must be close.

The error in f64 may be as large as that of PyTorch's gradient in f32, because some modules, such as T5's normalization,
always compute in f32.
"""


def is_close(figures: Mapping[str, Any]) -> bool:
    """Whether the gradient in f32 is close to PyTorch's."""
    return "error" in figures and figures["error"] <= max(TOLERANCE, TIMES * figures["torch_error"])


def is_right(figures: Mapping[str, Any]) -> bool:
    """Whether the gradient is close to PyTorch's in f32, or else in f64."""
    allowed = max(WIDE_TOLERANCE, figures.get("torch_error", 0))
    return is_close(figures) or figures.get("wide_error", math.inf) <= allowed
