"""The conditions under which the gradient of a model of the zoo counts as correct."""

import math
from collections.abc import Mapping
from typing import Any

TOLERANCE, TIMES = 1e-4, 10
"""A gradient in f32 is close if its relative error is at most `TOLERANCE`, or `TIMES` the error of PyTorch's gradient
in f32.
"""

WIDE_TOLERANCE = 1e-9
"""The largest relative error of a correct gradient in f64.

The gradient in f64 decides if the gradient in f32 is not close, because rounding may have moved a kink in f32.

The error in f64 may be as large as that of PyTorch's gradient in f32, because some modules, such as T5's normalization,
always compute in f32.
"""


def is_close(figures: Mapping[str, Any]) -> bool:
    """Returns whether the gradient in f32 is close to PyTorch's gradient in f64."""
    return "error" in figures and figures["error"] <= max(TOLERANCE, TIMES * figures["torch_error"])


def is_right(figures: Mapping[str, Any]) -> bool:
    """Returns whether the gradient in f32 is close to PyTorch's, or else the gradient in f64."""
    allowed = max(WIDE_TOLERANCE, figures.get("torch_error", 0))
    return is_close(figures) or figures.get("wide_error", math.inf) <= allowed
