"""Reads the bytes of constants. In IREE's IR, they are attributes `#util.composite<8xi8, [dense<...> : ...]>`."""

import re
from collections.abc import Callable, Iterator, Mapping

import numpy as np
from iree.compiler import ir

from tiduc.runtime.signature import TensorType

_COMPOSITE = re.compile(r"#util\.composite<\d+xi8, \[(.*)\]>", re.DOTALL)
_RESOURCE = re.compile(r'dense_resource<("(?:[^"\\]|\\.)*"|[^\s:<>"]+)> : .*', re.DOTALL)
_DENSE = re.compile(r'dense<(?:"0x([0-9A-F]*)")?.*> : (?:tensor|vector)<(.*)>', re.DOTALL)


def data_of(
    attribute: ir.Attribute, resources: Mapping[str, bytes] | None, refuse: Callable[[str], Exception]
) -> bytes:
    """Returns the bytes of a constant buffer. `resources` maps the names of the module's resources to their bytes.

    If `resources` is None, resources are left out of the bytes. If the attribute cannot be read, `refuse` is called
    with a description of it, and the error that `refuse` returns is raised.
    """
    text = str(attribute)
    match = _COMPOSITE.fullmatch(text)
    return b"".join(
        _bytes(part, attribute.context, resources, refuse) for part in (_parts(match[1]) if match else [text])
    )


def _parts(text: str) -> Iterator[str]:
    """Yields the items of a comma-separated list. Commas in brackets and strings do not separate items."""
    depth, start, quoted = 0, 0, False
    for match in re.finditer(r'[<>\[\](),"]', text):
        sign = match[0]
        if sign == '"':
            quoted = not quoted
        elif not quoted and sign in "<[(":
            depth += 1
        elif not quoted and sign in ">])":
            depth -= 1
        elif not quoted and not depth:
            yield text[start : match.start()].strip()
            start = match.end()
    if text[start:].strip():  # a list may end with a comma
        yield text[start:].strip()


def _bytes(
    text: str, context: ir.Context, resources: Mapping[str, bytes] | None, refuse: Callable[[str], Exception]
) -> bytes:
    resource = _RESOURCE.fullmatch(text)
    if resource and (resources is None or resource[1] in resources):
        return b"" if resources is None else resources[resource[1]]
    match = _DENSE.fullmatch(text)
    if not match:
        raise refuse(f"a constant {text[:40]}")
    kind = TensorType.parse(match[2])
    if kind.dtype is None:
        raise refuse(f"a constant of {kind.element}")
    size = int(np.prod(kind.shape, dtype=np.int64)) * kind.dtype.itemsize  # type: ignore[arg-type]
    if match[1]:
        data = bytes.fromhex(match[1])
        return data * (size // len(data))
    elements = ir.DenseElementsAttr(ir.Attribute.parse(text, context))
    if elements.is_splat:
        value = np.asarray(elements.get_splat_value().value, kind.dtype)
        return value.tobytes() * (size // kind.dtype.itemsize)
    return np.array(elements).astype(kind.dtype).tobytes()
