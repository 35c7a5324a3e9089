"""A least-recently-used cache, so that programs whose shapes keep changing do not fill the memory."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

from tiduc.dialect.errors import RequestError

Key = TypeVar("Key", bound=Hashable)
Entry = TypeVar("Entry")

LIMIT = 2048
"""The default number of structures that a session and its executor keep: 40 to 80 KiB each."""


class Recent(Generic[Key, Entry]):
    """A least-recently-used cache of at most `limit` entries.

    Raises `RequestError` for a limit below 1.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        if limit < 1:
            raise RequestError(f"the limit must be at least 1 structure, not {limit}")
        self.limit = limit
        self._entries: OrderedDict[Key, Entry] = OrderedDict()

    def get(self, key: Key) -> Entry | None:
        """The entry of a key, or None. The entry becomes the most recently used one."""
        try:
            self._entries.move_to_end(key)  # atomic, since another thread may evict the key
            return self._entries.get(key)
        except KeyError:
            return None

    def __setitem__(self, key: Key, entry: Entry) -> None:
        self._entries.pop(key, None)  # another thread may evict the key at any time
        self._entries[key] = entry
        while len(self._entries) > self.limit:
            self._entries.popitem(last=False)

    def __contains__(self, key: Key) -> bool:
        return key in self._entries

    def __len__(self) -> int:
        return len(self._entries)
