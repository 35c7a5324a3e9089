"""NumPy's views of eager arrays. Each function returns a `PlaceStep`, which reads and writes a part of an array."""

import numpy as np

from tiduc.eager.indexing import Index, IndexKey, get, put
from tiduc.eager.movement import flip, joined, part, reshape, transpose
from tiduc.eager.places import PlaceStep
from tiduc.eager.record import EagerInput


def at(key: IndexKey, index: Index) -> PlaceStep:
    """Selects the elements at an index of integers and slices. `index` is `key`, resolved for the array's shape."""
    return PlaceStep(lambda x: get(x, index), lambda x, new: put(x, index, new), lambda a: a[key])


def transposed(order: tuple[int, ...]) -> PlaceStep:
    """Selects the transposed array, whose dimension i is dimension `order[i]` of the array."""
    back = tuple(int(d) for d in np.argsort(order))
    return PlaceStep(
        lambda x: transpose(x, order), lambda x, new: transpose(new, back), lambda a: a.transpose(order)
    )


def reshaped(sizes: tuple[int, ...]) -> PlaceStep:
    """Selects the array in the shape `sizes`. The elements keep their row-major order."""
    return PlaceStep(
        lambda x: reshape(x, sizes), lambda x, new: reshape(new, x.data.shape), lambda a: a.reshape(sizes)
    )


def flipped(axes: tuple[int, ...], rank: int) -> PlaceStep:
    """Selects the array with its elements in reverse order along these axes."""
    key = tuple(slice(None, None, -1 if d in axes else None) for d in range(rank))
    return PlaceStep(lambda x: flip(x, axes), lambda x, new: flip(new, axes), lambda a: a[key])


def _write_real(x: EagerInput, new: EagerInput) -> EagerInput:
    return joined(new, part(x, "imag")) if x.data.dtype.kind == "c" else new


def _write_imaginary(x: EagerInput, new: EagerInput) -> EagerInput:
    if x.data.dtype.kind != "c":
        raise TypeError("real values have no imaginary part to write to")
    return joined(part(x, "real"), new)


REAL = PlaceStep(lambda x: part(x, "real") if x.data.dtype.kind == "c" else x, _write_real, lambda a: a.real)
"""Selects the real parts of a complex array. If the array is real, selects the whole array."""
IMAGINARY = PlaceStep(lambda x: part(x, "imag"), _write_imaginary, lambda a: a.imag)
"""Selects the imaginary parts of a complex array. If the array is real, these are zeros that cannot be written to."""
