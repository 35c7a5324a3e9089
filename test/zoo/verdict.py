"""The conditions under which a gradient counts as right."""

import math
from collections.abc import Mapping
from typing import Any

TOLERANCE, TIMES = 1e-4, 10
"""A gradient in f32 is close if its error is at most the tolerance, or this many times PyTorch's own error in f32."""

WIDE_TOLERANCE = 1e-9
"""If the gradient in f32 is not close, the gradient in f64 must be: rounding has moved a kink.

The error in f64 may also be that of PyTorch's gradient in f32, since some modules, such as T5's normalization, compute
in f32 in any case.
"""


def is_close(figures: Mapping[str, Any]) -> bool:
    """Whether the gradient in f32 has PyTorch's numbers."""
    return "error" in figures and figures["error"] <= max(TOLERANCE, TIMES * figures["torch_error"])


def is_right(figures: Mapping[str, Any]) -> bool:
    """Whether the gradient has PyTorch's numbers, in f32 or else in f64."""
    allowed = max(WIDE_TOLERANCE, figures.get("torch_error", 0))
    return is_close(figures) or figures.get("wide_error", math.inf) <= allowed
