"""Reads attributes by name. Handles names that are not UTF-8 and attributes that the bindings cannot read."""

import re
from collections.abc import Mapping
from typing import Any

from torch_mlir import ir

from tiduc.dialect.errors import ParseError

_BYTE = re.compile(r"\\[89A-F][0-9A-F]")  # MLIR prints the byte 0xF3 as \F3
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_NO_TEXT = re.compile(r'"[^"]*\\[89A-F][0-9A-F][^"]*" = ')


def named_attributes(attribute: ir.Attribute) -> dict[str, Any]:
    """The entries of a `DictAttr` by name.

    Raises `ParseError` for a name that is not UTF-8, because the bindings would abort the process. Also raises it for
    an array whose elements the bindings do not support, such as f128.
    """
    attribute = ir.DictAttr(attribute)
    if _NO_TEXT.search(str(attribute)):
        raise ParseError("a name is not UTF-8 text")
    names = [entry.name for entry in attribute]
    try:
        return {name: attribute[name] for name in names}
    except TypeError as error:
        raise ParseError(f"an attribute cannot be read: {error}") from None


def present(
    attributes: ir.OpAttributeMap | Mapping[str, ir.Attribute], *names: str
) -> dict[str, ir.Attribute]:
    """Returns the attributes whose names are in `names`. Ignores names that no attribute has."""
    return {name: attributes[name] for name in names if name in attributes}


def without(
    attributes: ir.OpAttributeMap | Mapping[str, ir.Attribute], dropped: str
) -> dict[str, ir.Attribute]:
    """All attributes except the one named `dropped`."""
    return {name: attributes[name] for name in attributes if name != dropped}


def readable(attributes: ir.OpAttributeMap | ir.DictAttr | Mapping[str, ir.Attribute], name: str) -> Any:
    """The attribute of this name; None if it is missing, or if the bindings cannot read it, such as a location."""
    try:
        return attributes[name] if name in attributes else None
    except TypeError:
        return None


def readable_entries(attribute: ir.Attribute | None) -> list[ir.Attribute] | None:
    """The entries of an `ArrayAttr`; None for another attribute, or if the bindings cannot read an entry."""
    try:
        return list(attribute) if isinstance(attribute, ir.ArrayAttr) else None
    except TypeError:
        return None


def location_name(location: ir.NameLoc) -> str:
    """The name in a `NameLoc`.

    Raises `ParseError` for a name that is not UTF-8, because the bindings would abort the process on it.
    """
    name = _QUOTED.search(str(location))  # the name comes first; a file name may follow
    if name is not None and _BYTE.search(name[0]):
        raise ParseError("the name of a location is not UTF-8 text")
    return str(location.name_str)
