"""Reads files of `jax.export` without JAX. Such a file is a table in the format of FlatBuffers.

The numbers of fields are those of `jax/_src/export/serialization.fbs`, which never change. A table begins with an
offset to a list that has the offset of each field. `FlatTable` checks each offset, so a damaged file raises an error.
"""

import json
import struct
from dataclasses import dataclass
from typing import Any

from tiduc.dialect.errors import ParseError

_IN_TREE, _IN_TYPES, _OUT_TREE, _ORDERED_EFFECTS = 2, 3, 4, 10
_MODULE, _KEPT, _IN_TYPE_NUMBERS = 13, 15, 22
"""The numbers of the fields of an export. Newer versions of JAX list the argument types as integers (field 22)."""

_KIND, _CHILDREN, _NAMES, _CUSTOM_NAME, _CUSTOM_DATA = range(5)
"""The numbers of the fields of a table that describes a pytree."""

_LEAF, _NONE, _TUPLE, _LIST, _DICT, _CUSTOM = range(6)
"""The kinds of pytrees."""

_DEEPEST = 200
"""The maximum depth of a pytree."""


@dataclass(frozen=True)
class Export:
    """The parts of an export that a program needs.

    `module` is a portable artifact, bytecode or text. The arguments of the function are pytrees. `kept` has the indices
    of the leaves that the module takes, or is None if the export does not list these indices. `arguments` and `results`
    are the paths of all leaves, such as `arg0['w']` and `result[1]`.
    """

    module: bytes
    arguments: list[str]
    results: list[str]
    kept: list[int] | None
    has_effects: bool


def read_export(contents: bytes, file: str | None = None) -> Export:
    """Parses the contents of a file of `jax.export`. The parameter `file` is the name of the file for error messages.

    Raises `ParseError` if the contents are damaged or of another kind.
    """
    try:
        root = FlatTable(contents, 0).at(0)
        module = root.contents(_MODULE)
        count = max(root.length(_IN_TYPES), root.length(_IN_TYPE_NUMBERS))
        arguments = _argument_names(_leaves(root.table(_IN_TREE), [len(contents)]))
        results = _leaves(root.table(_OUT_TREE), [len(contents)])
        kept = root.numbers(_KEPT)
        has_effects = root.length(_ORDERED_EFFECTS) > 0
        if not module:
            raise _Damaged("it has no module")
        if len(arguments) != count or kept != sorted(set(kept)) or any(i >= count for i in kept):
            raise _Damaged("its list of arguments contradicts itself")
    except (_Damaged, UnicodeDecodeError) as error:
        raise ParseError(f"not a serialized export of JAX: {error}", file) from None
    names = [f"result{path}" for path in results]
    return Export(module, arguments, names, kept, has_effects)


class _Damaged(Exception):
    """Raised if the contents are not a valid export. The message gives the reason."""


@dataclass(frozen=True)
class FlatTable:
    """A table of FlatBuffers. `data` are the bytes of the file, and `place` is the table's position in these bytes."""

    data: bytes
    place: int

    def table(self, field: int) -> "FlatTable":
        """The table in a field. Raises `_Damaged` if the field is absent."""
        place = self._field(field)
        if place is None:
            raise _Damaged(f"field {field} is missing")
        return self.at(place)

    def at(self, place: int) -> "FlatTable":
        """The table to which the offset at position `place` points."""
        return FlatTable(self.data, place + self._number("I", place))

    def byte(self, field: int) -> int:
        """The number in a field of one byte. Returns 0 if the field is absent."""
        place = self._field(field)
        return 0 if place is None else self._number("B", place)

    def length(self, field: int) -> int:
        """The number of elements of the vector in a field. Returns 0 if the field is absent."""
        return self._vector(field)[1]

    def tables(self, field: int) -> list["FlatTable"]:
        """The elements of the vector of tables in a field."""
        return [self.at(place) for place in self._places(field, 4)]

    def texts(self, field: int) -> list[str]:
        """The elements of the vector of strings in a field."""
        return [FlatTable(self.data, 0)._text(place) for place in self._places(field, 4)]

    def numbers(self, field: int) -> list[int]:
        """The elements of the vector of 16-bit numbers in a field."""
        return [self._number("H", place) for place in self._places(field, 2)]

    def contents(self, field: int) -> bytes:
        """The bytes of the vector of bytes, or of the string, in a field."""
        first, count = self._vector(field)
        self._check(first, count)
        return self.data[first : first + count]

    def _field(self, field: int) -> int | None:
        """The position of a field. Returns None if the field is absent."""
        offsets = self.place - self._number("i", self.place)
        entry = 4 + 2 * field
        if entry + 2 > self._number("H", offsets):
            return None
        offset = self._number("H", offsets + entry)
        return self.place + offset if offset else None

    def _vector(self, field: int) -> tuple[int, int]:
        """The position of the first element of the vector in a field, and the number of elements."""
        place = self._field(field)
        if place is None:
            return 0, 0
        vector = place + self._number("I", place)
        return vector + 4, self._number("I", vector)

    def _places(self, field: int, size: int) -> range:
        first, count = self._vector(field)
        self._check(first, count * size)
        return range(first, first + count * size, size)

    def _text(self, place: int) -> str:
        start = place + self._number("I", place)
        count = self._number("I", start)
        self._check(start + 4, count)
        return self.data[start + 4 : start + 4 + count].decode()

    def _number(self, kind: str, place: int) -> int:
        self._check(place, struct.calcsize(f"<{kind}"))
        (number,) = struct.unpack_from(f"<{kind}", self.data, place)
        return int(number)

    def _check(self, place: int, size: int) -> None:
        if place < 0 or place + size > len(self.data):
            raise _Damaged("an offset leads out of the file")


def _leaves(tree: FlatTable, left: list[int], depth: int = 0) -> list[str]:
    """The path of each leaf of a pytree, as `jax.tree_util.keystr` writes paths.

    A damaged tree may contain itself. The number of nodes is therefore limited, and `left` holds the number that may
    still follow.
    """
    left[0] -= 1
    if depth > _DEEPEST or left[0] < 0:
        raise _Damaged("its arguments are nested too deeply")
    kind = tree.byte(_KIND)
    if kind == _LEAF:
        return [""]
    if kind > _CUSTOM:
        raise _Damaged(f"{kind} is not a kind of tree")
    children = tree.tables(_CHILDREN)
    keys = _keys(tree, kind, len(children))
    return [
        key + path
        for key, child in zip(keys, children, strict=True)
        for path in _leaves(child, left, depth + 1)
    ]


def _keys(tree: FlatTable, kind: int, count: int) -> list[str]:
    """The path from a pytree to each of its children, such as `['w']`, `[0]` or `.weight`."""
    if kind == _DICT:
        names = tree.texts(_NAMES)
        if len(names) != count:
            raise _Damaged("the numbers of keys and values of a dictionary differ")
        return [f"[{name!r}]" for name in names]
    fields = _field_names(tree.contents(_CUSTOM_DATA)) if kind == _CUSTOM else None
    if fields is None or len(fields) != count:
        return [f"[{i}]" for i in range(count)]
    is_dict = tree.contents(_CUSTOM_NAME) == b"collections.OrderedDict"
    return [f"[{name!r}]" if is_dict else f".{name}" for name in fields]


def _field_names(data: bytes) -> list[str] | None:
    """The names that JAX stores with a named tuple or an ordered dictionary. Returns None for other types."""
    try:
        names: Any = json.loads(data)
    except (ValueError, RecursionError):
        return None
    is_list = isinstance(names, list) and all(isinstance(name, str) for name in names)
    return names if is_list else None


def _argument_names(paths: list[str]) -> list[str]:
    """Converts the paths of the leaves of all arguments to names, such as `arg0['w']` and `scale`.

    The path of a positional argument is `[0][i]...`, and the path of a keyword argument is `[1]['name']...`.
    """
    names = []
    for path in paths:
        part, _, rest = path[1:].partition("]")
        first, _, inner = rest.removeprefix("[").partition("]")
        names.append((f"arg{first}" if part == "0" else first.strip("'\"")) + inner)
    return names
