"""Resources: constants whose bytes are stored apart from the ops. Some tools that read modules do not support them.

    %w = stablehlo.constant dense_resource<w> : tensor<2xf32>
    {-# dialect_resources: { builtin: { w: "0x040000000000803F00000040" } } #-}

MLIR does not compare the size of a resource with the type of the constant, and accepts a resource without bytes. A tool
that uses such a constant would read invalid memory. `check_resources` therefore checks the sizes. Each element takes
whole bytes; a boolean takes one.
"""

import functools
import io
import math
import re
from contextlib import suppress
from typing import Any

from torch_mlir import ir

from tiduc.dialect.errors import ParseError
from tiduc.dialect.mlir.artifacts import BYTECODE
from tiduc.dialect.ops.attributes import named_attributes, readable, readable_entries
from tiduc.dialect.ops.ir_types import IrOp

_NAME = r'("(?:[^"\\]|\\.)*"|[^\s:<>"]+)'
_USE = re.compile(rf"dense_resource<{_NAME}>")
_BYTES = re.compile(rf'^\s*{_NAME}: "0x([0-9A-Fa-f]*)"', re.MULTILINE)
_SECTION = "\n{-#"
_ALIGNMENT = 8  # the alignment takes this many hex digits in front of the elements
_KEYWORD = "dense_resource"
_DATA, _TABLE = 5, 6  # numbers of the sections with resources' bytes, and with their names and sizes
_NO_ENTRY = b"\1"  # the section `_TABLE` of a module without resources
_ALIGNED = 0x80  # if a section's number has this bit, an alignment follows the section's length
_HEAD = 2**20  # to find the size of a resource, this many bytes of bytecode suffice


def inlined(text: str) -> str:
    """Replaces the resources in the text of a module by `dense` elements.

    StableHLO's interpreter reads wrong numbers from resources, and XLA rejects them, but both support `dense` elements.
    """
    body, separator, section = text.partition(_SECTION)
    if not separator or _USE.search(body) is None:
        return text
    digits = {name: elements[_ALIGNMENT:] for name, elements in _BYTES.findall(section)}

    def elements_of(use: re.Match[str]) -> str:
        return f'dense<"0x{digits[use[1]]}">' if use[1] in digits else use[0]

    return _USE.sub(elements_of, body) + "\n"


def contents_by_name(text: str) -> dict[str, bytes]:
    """Maps the names of resources in the text of a module to their bytes."""
    section = text.partition(_SECTION)[2]
    return {name: bytes.fromhex(digits[_ALIGNMENT:]) for name, digits in _BYTES.findall(section)}


# ---- the sizes of resources are checked --------------------------------------------------------------------


def check_resources(module: ir.Module, source: str | bytes, file: str | None = None) -> None:
    """Raises `ParseError` if a resource in a module has no bytes, or another number of bytes than its type needs.

    `source` is the text or bytecode of the module. If it contains no resources, the module is not searched. `file` is
    the file name in the location of the error.
    """
    if not _may_hold(source):
        return
    sizes: dict[Any, int | None] = {}
    wrong: list[ParseError] = []

    def look(op: IrOp) -> ir.WalkResult:
        for name in op.attributes:
            for resource in _resources_in(readable(op.attributes, name)):
                if resource not in sizes:
                    sizes[resource] = _bytes_of(resource)
                if sizes[resource] != (needed := _needed(resource.type)):
                    has = "none" if sizes[resource] is None else sizes[resource]
                    message = (
                        f"a resource of type {resource.type} needs {needed} bytes, and the file has {has}"
                    )
                    wrong.append(ParseError(message, op.location))
                    return ir.WalkResult.INTERRUPT
        return ir.WalkResult.ADVANCE

    module.operation.walk(look, ir.WalkOrder.PRE_ORDER)
    if wrong:
        place = wrong[0].location
        raise ParseError(
            wrong[0].message, file + place[1:] if file and place.startswith("-:") else place or file
        )


def _may_hold(source: str | bytes) -> bool:
    if isinstance(source, str):
        return _KEYWORD in source
    if not source.startswith(BYTECODE):
        return _KEYWORD.encode() in source
    return len(_sections(source).get(_TABLE, ())) > len(_NO_ENTRY)


def _resources_in(attribute: ir.Attribute) -> list[ir.DenseResourceElementsAttr]:
    """The resources in an attribute: the attribute itself, or resources nested in arrays and dictionaries.

    Omits those that the bindings cannot read.
    """
    entries = readable_entries(attribute) or []
    if isinstance(attribute, ir.DictAttr):
        with suppress(ParseError):
            entries = list(named_attributes(attribute).values())
    if entries or attribute is None:
        return [resource for entry in entries for resource in _resources_in(entry)]
    try:
        return [ir.DenseResourceElementsAttr(attribute)]
    except ValueError:  # the bindings offer no other test
        return []


def _needed(type_: ir.Type) -> int:
    """The number of bytes that all elements of a tensor type take."""
    return int(math.prod(ir.ShapedType(type_).shape)) * element_bytes(type_)


@functools.cache
def element_bytes(type_: ir.Type) -> int:
    """The number of bytes that an element of a tensor type takes; 0 if `type_` is not a ranked tensor type.

    A boolean takes one byte.
    """
    if not isinstance(type_, ir.RankedTensorType):
        return 0
    element, parts = type_.element_type, 1
    if isinstance(element, ir.ComplexType):
        element, parts = element.element_type, 2
    width = 64 if isinstance(element, ir.IndexType) else getattr(element, "width", 8)
    return parts * max(1, (width + 7) // 8)


def _bytes_of(resource: ir.DenseResourceElementsAttr) -> int | None:
    """The number of bytes of a resource; None if it has no bytes.

    The bindings do not provide the number, so it is read from bytecode.
    """
    holder, head = ir.Module.create(ir.Location.unknown(resource.context)), _Head()
    holder.operation.attributes["resource"] = resource
    holder.operation.write_bytecode(head)
    data = _sections(head.contents)[_DATA]
    if not data:
        return None
    _, at = _number(head.contents, data.start)  # skips the alignment
    return _number(head.contents, at)[0]


def contents_of(attribute: ir.Attribute) -> bytes:
    """The bytes of a resource, which are its elements in order.

    The bindings do not provide them, so they are read from bytecode, which has them at the end of a section.
    """
    resource, size = ir.DenseResourceElementsAttr(attribute), _needed(attribute.type)
    holder, written = ir.Module.create(ir.Location.unknown(resource.context)), io.BytesIO()
    holder.operation.attributes["resource"] = resource
    holder.operation.write_bytecode(written)
    end = _sections(bytearray(written.getbuffer()))[_DATA].stop
    return bytes(written.getbuffer()[end - size : end])


class _Head:
    """A writable file that keeps only the first `_HEAD` bytes."""

    def __init__(self) -> None:
        self.contents = bytearray()

    def write(self, chunk: bytes) -> int:
        self.contents += chunk[: max(0, _HEAD - len(self.contents))]
        return len(chunk)


def _sections(contents: bytes | bytearray) -> dict[int, range]:
    """Maps each section's number in bytecode to the range of the section's bytes."""
    sections = dict[int, range]()
    _, at = _number(contents, len(BYTECODE))  # skips the version
    at = contents.index(b"\0", at) + 1  # skips the name of the producer
    while at < len(contents):
        number, (length, at) = contents[at], _number(contents, at + 1)
        if number & _ALIGNED:
            alignment, at = _number(contents, at)
            at = math.ceil(at / alignment) * alignment
        sections[number & ~_ALIGNED] = range(at, at + length)
        at += length
    return sections


def _number(contents: bytes | bytearray, at: int) -> tuple[int, int]:
    """Decodes the number at offset `at` of bytecode. Returns the number, and the offset after it.

    The number of trailing zero bits in the first byte is the number of bytes that follow.
    """
    first = contents[at]
    more = 8 if not first else (first & -first).bit_length() - 1
    end = at + 1 + more
    encoded = int.from_bytes(contents[at:end], "little")
    return (encoded >> 8 if not first else encoded >> more + 1), end
