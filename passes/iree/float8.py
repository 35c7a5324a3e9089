"""Conversions of floats of 8 bits, which IREE's code for CPUs has not for all types, or has wrong.

From f8E4M3FN the second NaN, 0xFF, became -480. To them, what lies between the greatest subnormal number and the least
normal one, and rounds to this, became 0. To and from f16 and f64 nothing compiles.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch_mlir import ir

from tiduc.dialect.types import element
from tiduc.passes.iree.emitter import Emitter, signless

_LEAST = {"f8E4M3FN": (-6, 3), "f8E4M3FNUZ": (-7, 3), "f8E5M2": (-14, 2), "f8E5M2FNUZ": (-15, 2)}
"""The exponent of the least normal number, and the bits of the mantissa."""


def is_float8(x: Any) -> bool:
    """Its elements are of one of these types."""
    return str(element(x)) in _LEAST


def from_float8(b: Emitter, x: Any) -> Any:
    """The same numbers as f32, which has all of them; NaN is one in any case."""
    wide = b.convert(x, ir.F32Type.get())
    if str(element(x)) != "f8E4M3FN":
        return wide
    code = b.bitcast(x, signless(8))
    return b.select(b.compare(code, b.like(-1, code), "EQ"), b.like(np.nan, wide), wide)


def to_float8(b: Emitter, x: Any, to: Any) -> Sequence[Any] | None:
    """From f32, in which what rounds to the least normal number is that already; None from f64, which rounds twice."""
    if element(x) == ir.F64Type.get():
        return None
    wide = b.convert(x, ir.F32Type.get())
    exponent, mantissa = _LEAST[str(to)]
    normal = 2.0**exponent
    size = b.abs(wide)
    below = b.compare(size, b.like(normal, wide), "LT")
    rounded = b.and_(below, b.compare(size, b.like(normal * (1 - 2.0 ** -(mantissa + 1)), wide), "GE"))
    least = b.select(b.compare(wide, b.like(0, wide), "LT"), b.like(-normal, wide), b.like(normal, wide))
    return [b.convert(b.select(rounded, least, wide), to)]
