"""`Results`: the results of a call as arrays. Large arrays use IREE's own memory, without a copy.

A result that shares memory with an argument or with another result is copied. IREE copies constants and parameters that
are results, so a caller may write to all arrays. Several results may be parts of one allocation, which is freed with
the last of their arrays.
"""

from bisect import bisect_right
from collections.abc import Iterable
from typing import Any

import iree.runtime as rt
import numpy as np

from tiduc.runtime.devices import LARGE, Array, Device, DeviceArray


class Results:
    """Converts the results of one call to arrays. `given` are the arguments of the call."""

    def __init__(self, device: Device, given: Iterable[Array | DeviceArray]) -> None:
        self._device, self._given = device, given
        self._bounds: list[int] | None = None  # the ascending bounds of all memory in use

    def array(self, view: rt.HalBufferView, dtype: "np.dtype[Any]") -> Array:
        """Converts IREE's buffer view of a result to an array that shares no memory with other arrays."""
        if view.byte_length < LARGE or not self._device.on_host:
            return self._device.download(view, dtype)
        array = self._device.taken(view, dtype)
        return array if self._takes(_bounds(array)) else array.copy()

    def _takes(self, piece: tuple[int, int]) -> bool:
        """Marks a piece of memory as used. Returns False if a part of it is already used."""
        if self._bounds is None:
            self._bounds = _merged(map(_bounds, self._arguments()))
        at = bisect_right(self._bounds, piece[0])
        if at % 2 or (at < len(self._bounds) and self._bounds[at] < piece[1]):
            return False
        self._bounds[at:at] = piece
        return True

    def _arguments(self) -> Iterable[Array]:
        """The arguments whose memory a large result may share."""
        for x in self._given:
            if isinstance(x, DeviceArray):
                if not x.is_donated:
                    yield self._device.taken(x.view(), x.dtype)
            elif x.nbytes >= LARGE:
                yield x


def _bounds(array: Array) -> tuple[int, int]:
    """The addresses of the beginning and the end of a C-contiguous array."""
    begin = array.ctypes.data
    return begin, begin + array.nbytes


def _merged(pieces: Iterable[tuple[int, int]]) -> list[int]:
    """The union of pieces of memory, as the ascending bounds of its parts."""
    bounds: list[int] = []
    for begin, end in sorted(pieces):
        if bounds and begin < bounds[-1]:
            bounds[-1] = max(bounds[-1], end)
        elif begin < end:
            bounds += begin, end
    return bounds
