"""A table that keeps what was used last: a program whose shapes change all the time does not fill the memory."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

from tiduc.dialect.errors import RequestError

Key = TypeVar("Key", bound=Hashable)
Entry = TypeVar("Entry")

LIMIT = 2048
"""How many structures a session and its executor keep where nobody says: 40 to 80 KiB each."""


class Recent(Generic[Key, Entry]):
    """Entries by key, at most `limit`; one more takes the place of that which was not asked for the longest.

    `RequestError` for a limit below 1.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        if limit < 1:
            raise RequestError(f"at least 1 structure is to be kept, not {limit}")
        self.limit = limit
        self._entries: OrderedDict[Key, Entry] = OrderedDict()

    def get(self, key: Key) -> Entry | None:
        """The entry of a key, which is the last used then; None where there is none, or no more."""
        try:
            self._entries.move_to_end(
                key
            )  # in one step, so that another thread takes nothing away between two
            return self._entries.get(key)
        except KeyError:
            return None

    def __setitem__(self, key: Key, entry: Entry) -> None:
        self._entries[key] = entry
        self._entries.move_to_end(key)
        while len(self._entries) > self.limit:
            self._entries.popitem(last=False)

    def __contains__(self, key: Key) -> bool:
        return key in self._entries

    def __len__(self) -> int:
        return len(self._entries)
