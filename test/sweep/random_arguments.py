"""Draws three sets of arguments for a random program: whole numbers, floats in [-1, 1], or any integers."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tiduc.runtime.signature import DTYPES, Signature

COUNTS = 3, 0, 5
"""The trip count of loops in each of the three sets. The last argument of a loop program is its trip count."""

Array = NDArray[Any]


def arguments_of(signature: Signature, numbers: str) -> list[list[Array]]:
    """Three sets of arguments for a program with this signature. `numbers` selects the elements.

    For "whole", elements are integers from -5 to 5, and for "smooth", floats from -1 to 1; scalars of type i32 are then
    trip counts from `COUNTS`. For "any", elements are small integers in the first set and 0 or 1 in the third. In the
    second set, integers are arbitrary, and other elements are small integers.
    """
    sets = []
    for i, count in enumerate(COUNTS):
        arguments = []
        for place, value in enumerate(signature.inputs):
            rng = np.random.default_rng((7, i, place))  # an argument does not depend on the other arguments
            shape, dtype = tuple(n or 0 for n in value.type.shape), DTYPES[value.type.element]
            if numbers == "any":
                arguments.append(_any(rng, shape, dtype, i))
            elif not shape and dtype == np.int32:
                arguments.append(np.array(count, dtype))
            else:
                x: Array = rng.uniform(-1, 1, shape) if numbers == "smooth" else rng.integers(-5, 6, shape)
                arguments.append(_converted(rng, x, dtype))
        sets.append(arguments)
    return sets


def _any(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any], i: int) -> Array:
    if i == 1 and dtype.kind in "iu":
        ends = np.iinfo(dtype)
        x = rng.integers(ends.min, ends.max, shape, dtype, endpoint=True)
        corners = np.array(
            [ends.min, ends.min + 1, ends.max, ends.max - 1, 0, 1, 2, 8 * dtype.itemsize], dtype
        )
        return np.asarray(np.where(rng.random(shape) < 0.5, rng.choice(corners, shape), x))
    return _converted(rng, rng.integers(0, 2, shape) if i == 2 else rng.integers(-9, 10, shape), dtype)


def _converted(rng: np.random.Generator, x: Array, dtype: np.dtype[Any]) -> Array:
    if dtype.kind == "c":
        x = x + 1j * rng.integers(-5, 6, x.shape)
    return np.asarray(abs(x) if dtype.kind == "u" else x).astype(dtype)
