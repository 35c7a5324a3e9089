"""Refuses attributes, types and locations whose text would take exponential space.

    #a1 = [#a0, #a0]   #a2 = [#a1, #a1]   ...   #a40 = [#a39, #a39]

MLIR stores equal attributes once, so these attributes take little memory. The text of `#a40`, however, has 2^40 copies
of `#a0`.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torch_mlir import ir

from tiduc.dialect.errors import ParseError
from tiduc.dialect.ops.ir_types import IrOp

MOST = 2**16
"""The largest number of attributes, types and locations that may be nested in one attribute, type or location."""

_DEFINED = re.compile(rb"[#!][\w$.]+\s*=")
# Matches strings, comments, the beginnings of some ops, and aliases. Where an alias is defined, group 3 matches "=".
_TOKENS = re.compile(rb'"(?:[^"\\]|\\.)*"|//[^\n]*|(module |func\.func )|([#!][\w$.]+)(\s*=)?', re.DOTALL)


class _Place:
    """A location as a dictionary key. The bindings make attributes and types hashable, but not locations."""

    __match_args__ = ("location",)

    def __init__(self, location: ir.Location) -> None:
        self.location, self._attribute = location, location.attr

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Place) and self._attribute == other._attribute

    def __hash__(self) -> int:
        return hash(self._attribute)


_Part = bytes | _Place | ir.Type | ir.Attribute
"""Something that may consist of parts: an alias in a text, a location, a type or an attribute."""


def may_share(source: str | bytes) -> bool:
    """Whether an alias in a text consists of more than `MOST` parts after the aliases in its definition are expanded.

    Returns True for all bytecode. Bytecode stores equal attributes only once, so its text may be large, too.
    """
    text = source.encode("utf-8", "surrogateescape") if isinstance(source, str) else source
    if text.startswith(b"ML\xefR"):
        return True
    if not _DEFINED.search(text):
        return False
    named: dict[bytes, list[bytes]] = defaultdict(list)
    defined = None
    for match in _TOKENS.finditer(text):
        if match[3]:
            defined = match[2]
        elif match[1]:
            defined = None
        elif match[2] and defined is not None:
            named[defined].append(match[2])
    sizes: dict[_Part, int] = {}
    return any(_size(alias, sizes, named.get) > MOST for alias in list(named))


def check_sizes(module: ir.Module, file: str | None) -> None:
    """Raises `ParseError` if an attribute, a type or a location in a module has more than `MOST` parts."""
    sizes: dict[_Part, int] = {}
    large: list[str] = []

    def look(op: IrOp) -> ir.WalkResult:
        if any(_size(x, sizes, _parts) > MOST for x in _of_op(op) if x not in sizes):
            large.append(op.name)
            return ir.WalkResult.INTERRUPT
        return ir.WalkResult.ADVANCE

    module.operation.walk(look)
    if large:
        message = f"an attribute, type or location of {large[0]} consists of more than {MOST} others"
        raise ParseError(message, file)


def _of_op(op: IrOp) -> Iterator[_Part]:
    yield _Place(op.location)
    for name in op.attributes:
        yield op.attributes[name]
    for y in op.results:
        yield y.type
    for region in op.regions:
        for block in region.blocks:
            for x in block.arguments:
                yield x.type
                yield _Place(x.location)


def _parts(x: _Part) -> Sequence[_Part]:
    """The direct parts of an attribute, a type or a location; an empty sequence if it does not consist of parts."""
    match x:
        case ir.ArrayAttr():
            return list(x)
        case ir.DictAttr():
            return [named.attr for named in x]
        case ir.TypeAttr():
            return [x.value]
        case ir.TupleType():
            return [x.get_type(i) for i in range(x.num_types)]
        case ir.FunctionType():
            return [*x.inputs, *x.results]
        case ir.RankedTensorType():
            return [x.element_type] if x.encoding is None else [x.element_type, x.encoding]
        case _Place(ir.FusedLoc() as location):
            return [_Place(part) for part in location.locations if isinstance(part, ir.Location)]
        case _Place(ir.CallSiteLoc() as location):
            return [_Place(location.callee), _Place(location.caller)]
        case _Place(ir.NameLoc() as location):
            return [_Place(location.child_loc)]
    return ()


def _size(
    first: _Part,
    sizes: dict[_Part, int],
    parts_of: Callable[[Any], Sequence[_Part] | None],
) -> int:
    """Returns the number of direct and nested parts of `first`, itself included, but at most `MOST` + 1.

    Caches the numbers for `first` and for its parts in `sizes`.
    """
    stack = [first]
    while stack:
        x = stack[-1]
        parts = parts_of(x) or ()
        if x in sizes and sizes[x] or not parts:
            sizes.setdefault(x, 1)
            stack.pop()
        elif x in sizes:  # a second visit: all parts of x are counted
            sizes[x] = min(MOST + 1, 1 + sum(sizes[part] for part in parts))
            stack.pop()
        else:
            sizes[x] = 0  # this also ends cycles, which MLIR refuses
            stack += [part for part in parts if part not in sizes]
    return sizes[first]
