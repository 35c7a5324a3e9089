"""Powers, angles and cube roots where one argument, or both, is a corner of its type: 0, 1, infinity, NaN, -0."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import tiduc

Array = NDArray[Any]

CORNERS = (0, 1, 2, 0.5, 3, 2.5, 1e30, 3e-30, np.inf)
EXACT: dict[str, Callable[..., Any]] = {"power": np.power, "atan2": np.arctan2}
TOLERANCE = {("power", "f32"): 2e-5, ("power", "f64"): 1e-12, ("atan2", "f32"): 5e-6, ("atan2", "f64"): 1e-14}


def compiled(op: str, n: int, element: str, target: str, operands: str = "%x, %y") -> Any:
    t = f"tensor<{n}x{element}>"
    return tiduc.load(
        f"""func.func @main(%x: {t}, %y: {t}) -> {t} {{
          %0 = stablehlo.{op} {operands} : {t}
          return %0 : {t}
        }}"""
    ).compile(target)


def same(found: Array, expected: Array, tolerance: float) -> Array:
    """Where they are, with the sign of zeros; what is not normal counts as 0."""
    tiny, most = np.finfo(found.dtype).tiny, np.finfo(found.dtype).max
    flushed = np.where(np.abs(expected) < tiny, np.copysign(0, expected), expected)
    flushed = np.where(np.abs(flushed) > most, np.copysign(np.inf, flushed), flushed)
    with np.errstate(invalid="ignore"):
        near = np.abs(found - flushed) <= tolerance * np.abs(flushed)
    alike = (found == flushed) | (np.isnan(found) & np.isnan(flushed)) | near
    return alike & (np.isnan(flushed) | (np.signbit(found) == np.signbit(flushed)))


@pytest.mark.parametrize(
    ("op", "element", "target"),
    [
        *itertools.product(EXACT, ("f32", "f64"), ("cpu",)),
        ("power", "f32", "cpu:generic"),
        ("power", "f32", "vmvx"),
        ("atan2", "f32", "vmvx"),
    ],
)
def test_pairs(op: str, element: str, target: str) -> None:
    signed = [s * v for v in CORNERS for s in (1.0, -1.0)] + [np.nan]
    pairs = np.array(list(itertools.product(signed, signed)))
    x, y = pairs.T.astype(element.replace("f", "float"))
    (found,) = compiled(op, len(x), element, target)(x, y)
    with np.errstate(all="ignore"):
        expected = EXACT[op](x.astype(np.longdouble), y.astype(np.longdouble))
    alike = same(found, expected, TOLERANCE[op, element])
    wrong = list(zip(x[~alike], y[~alike], found[~alike], expected[~alike], strict=True))
    assert not wrong


@pytest.mark.parametrize("element", ["f32", "f64"])
def test_cube_roots(element: str) -> None:
    x = np.array([s * v for v in (*CORNERS, 1e-30, 7) for s in (1, -1)] + [np.nan])
    x = x.astype(element.replace("f", "float"))
    (found,) = compiled("cbrt", len(x), element, "cpu", "%x")(x, x)
    assert same(found, np.cbrt(x.astype(np.longdouble)), 1.5e-6 if element == "f32" else 1e-15).all()
