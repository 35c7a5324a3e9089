"""Attributes that the bindings cannot read: names that are no UTF-8, and arrays of unknown element types."""

import re
from typing import Any

from torch_mlir import ir

from tiduc.dialect.errors import ParseError

_NO_TEXT = re.compile(r'"[^"]*\\[89A-F][0-9A-F][^"]*" = ')  # MLIR prints the byte 0xF3 as \F3


def named_attributes(attribute: Any) -> dict[str, Any]:
    """The entries of a `DictAttr` by name. `ParseError` for a name that is no UTF-8, on which the bindings abort."""
    attribute = ir.DictAttr(attribute)
    if _NO_TEXT.search(str(attribute)):
        raise ParseError("a name is no UTF-8 text")
    return {entry.name: entry.attr for entry in attribute}


def is_bools(attributes: Any, name: str) -> bool:
    """Whether the attribute of this name is an `array<i1>`. The bindings know few other arrays."""
    try:
        return isinstance(attributes[name], ir.DenseBoolArrayAttr)
    except TypeError:
        return False
