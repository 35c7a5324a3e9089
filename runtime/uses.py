"""uses: prevents a call from overwriting an array on a device while other calls read the array.

    thread 1: f.keep(x)      reads x       ------------>
    thread 2: g.keep(x)      x is donated       waits   ------------>      later calls with x: InputError

A call acquires all its arrays at once. It waits while other calls read an array that it will overwrite. A waiting call
holds no array, so there are no deadlocks. If several calls take an array as a donated argument, only one of them gets
the array. The others raise an error.
"""

from collections.abc import Collection, Sequence
from threading import Condition, Lock
from typing import Protocol

import iree.runtime as rt


class SharedArray(Protocol):
    """An array that calls in several threads may use. `readers` is the number of calls that are reading it."""

    readers: int

    def view(self) -> rt.HalBufferView: ...

    def give_away(self) -> None: ...


class Uses:
    """The arrays that one call reads or overwrites, as a context that lasts until the call no longer uses them.

    `views` are the buffer views of the arrays. Raises `InputError` if an array has been donated to an earlier call.
    """

    __slots__ = ("_read", "views")

    def __init__(self, arrays: Sequence[SharedArray], taken: Collection[int] = ()) -> None:
        """Acquires the arrays. `taken` holds the positions of the arrays that the call overwrites.

        An array that the call overwrites must occur only once in `arrays`.
        """
        self._read = [x for i, x in enumerate(arrays) if i not in taken] if taken else arrays
        with _LOCK:
            while any([arrays[i].readers for i in taken]):
                _wait()
            self.views = [x.view() for x in arrays]
            for i in taken:
                arrays[i].give_away()
            for x in self._read:
                x.readers += 1

    def __enter__(self) -> "Uses":
        return self

    def __exit__(self, *_: object) -> None:
        with _LOCK:
            for x in self._read:
                x.readers -= 1
            if _waiting:
                _CHANGE.notify_all()


_LOCK = Lock()
_CHANGE = Condition(_LOCK)
_waiting = 0  # the number of calls that wait for `_CHANGE`


def _wait() -> None:
    global _waiting
    _waiting += 1
    try:
        _CHANGE.wait()
    finally:
        _waiting -= 1


def renew() -> None:
    """In a forked process, replaces the lock, because a thread of the parent may hold the old one."""
    global _LOCK, _CHANGE, _waiting
    _LOCK = Lock()
    _CHANGE = Condition(_LOCK)
    _waiting = 0
