"""`Results` converts the results of a call to arrays. A large array uses IREE's memory without a copy.

A result that shares memory with an argument or with another result is copied. IREE copies a constant or a parameter
that is a result. A caller may therefore write to all arrays. Several results may be parts of one allocation, which is
freed when the last of their arrays is freed.
"""

from bisect import bisect_right
from collections.abc import Iterable
from typing import Any

import iree.runtime as rt
import numpy as np

from tiduc.runtime.devices import LARGE, Array, Device, DeviceArray


class Results:
    """Converts the results of one call to arrays. `given` holds the arguments of the call."""

    def __init__(self, device: Device, given: Iterable[Array | DeviceArray]) -> None:
        self._device, self._given = device, given
        self._bounds: list[int] | None = None  # the ascending bounds of the memory ranges in use

    def array(self, view: rt.HalBufferView, dtype: "np.dtype[Any]") -> Array:
        """Converts IREE's buffer view of a result to an array that shares no memory with other arrays."""
        if view.byte_length < LARGE or not self._device.on_host:
            return self._device.download(view, dtype)
        array = self._device.taken(view, dtype)
        return array if self._takes(_bounds(array)) else array.copy()

    def _takes(self, piece: tuple[int, int]) -> bool:
        """Returns False if a part of a memory range is already in use. Otherwise records the range as used, and returns
        True.
        """
        if self._bounds is None:
            self._bounds = _merged(map(_bounds, self._arguments()))
        at = bisect_right(self._bounds, piece[0])
        if at % 2 or (at < len(self._bounds) and self._bounds[at] < piece[1]):
            return False
        self._bounds[at:at] = piece
        return True

    def _arguments(self) -> Iterable[Array]:
        """Yields the arguments with which a large result may share memory."""
        for x in self._given:
            if isinstance(x, DeviceArray):
                if not x.is_donated:
                    yield self._device.taken(x.view(), x.dtype)
            elif x.nbytes >= LARGE:
                yield x


def _bounds(array: Array) -> tuple[int, int]:
    """Returns the addresses of the beginning and the end of a C-contiguous array."""
    begin = array.ctypes.data
    return begin, begin + array.nbytes


def _merged(pieces: Iterable[tuple[int, int]]) -> list[int]:
    """Returns the union of memory ranges, as the ascending bounds of disjoint ranges."""
    bounds: list[int] = []
    for begin, end in sorted(pieces):
        if bounds and begin < bounds[-1]:
            bounds[-1] = max(bounds[-1], end)
        elif begin < end:
            bounds += begin, end
    return bounds
