"""A least-recently-used cache. It limits the memory of programs whose shapes keep changing."""

import itertools
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from tiduc.dialect.errors import RequestError

Key = TypeVar("Key", bound=Hashable)
Entry = TypeVar("Entry")

LIMIT = 2048
"""The default number of graphs that a session caches, and that its executor caches. A graph takes 40 to 80 KiB."""


class Recent(Generic[Key, Entry]):
    """A least-recently-used cache of at most `limit` entries.

    Raises `RequestError` for a limit below 1.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        if limit < 1:
            raise RequestError(f"the limit must be at least 1 structure, not {limit}")
        self.limit = limit
        self._entries: dict[Key, _Used[Entry]] = {}
        self._clock = itertools.count()

    def get(self, key: Key) -> Entry | None:
        """The entry of a key, or None. The entry becomes the most recently used one."""
        used = self._entries.get(key)
        if used is None:
            return None
        used.last = next(self._clock)
        return used.entry

    def __setitem__(self, key: Key, entry: Entry) -> None:
        self._entries[key] = _Used(entry, next(self._clock))
        while len(self._entries) > self.limit:
            oldest = min(self._entries.copy().items(), key=lambda pair: pair[1].last)
            self._entries.pop(oldest[0], None)  # another thread may evict the key at any time

    def items(self) -> list[tuple[Key, Entry]]:
        """The pairs of a key and its entry."""
        return [(key, used.entry) for key, used in self._entries.copy().items()]

    def __contains__(self, key: Key) -> bool:
        return key in self._entries

    def __len__(self) -> int:
        return len(self._entries)


@dataclass(slots=True)
class _Used(Generic[Entry]):
    """An entry, and the time of its last use. A lookup changes this time without hashing the key again."""

    entry: Entry
    last: int
