"""Carries of loops in kernels as signed integers: predicates become 0 and 1 of 8 bits, unsigned integers are bitcast.

    while(%go = %true) cond { return %go } do { ... return %next }
    ->  while(%go = 1 : i8) cond { return %go != 0 } do { ... return convert %next }

Kernels copy carries (loop-carried values) element by element. IREE stores predicates as bytes and has no unsigned
integers, but its compiler does not convert single elements accordingly: it failed on these loops, and the host ran
their iterations. Both conversions are exact in both directions.
"""

from collections.abc import Sequence
from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.emitter import Emitter, is_boolean, is_unsigned, signless, within
from tiduc.backends.iree.fast.slices import UPDATE
from tiduc.dialect.graph import operations
from tiduc.dialect.types import element, with_element


def signed_carries(loop: Any) -> Any:
    """Converts the carries of a loop and of the loops in it; gives the loop, or the new loop that replaces it."""
    for inner in within(loop)[:0:-1]:
        if inner.name == "stablehlo.while":
            _signed(inner)
    return _signed(loop)


def _signed(loop: Any) -> Any:
    """Converts the carries of one loop, without the loops in it, and replaces the uses of its results."""
    condition, body = loop.regions
    pairs = zip(list(operations(body.blocks[0]))[-1].operands, body.blocks[0].arguments, strict=True)
    kinds = [element(old) if _is_moved(new, old) else None for new, old in pairs]
    if not any(kinds):
        return loop
    b = Emitter(ir.InsertionPoint(loop), loop.location)

    def goes_on(b: Emitter, *carries: Any) -> Sequence[Any]:
        return b.inlined(condition, _back(b, carries, kinds))

    def next_carries(b: Emitter, *carries: Any) -> Sequence[Any]:
        return _numbers(b, b.inlined(body, _back(b, carries, kinds)), kinds)

    initial = _numbers(b, loop.operands, kinds)
    types = [x.type for x in initial]
    results = b.emit_all(
        "stablehlo.while", initial, types, None, [b.region(types, goes_on), b.region(types, next_carries)]
    )
    read = [i for i, y in enumerate(loop.results) if list(y.uses)]
    values = _back(b, [results[i] for i in read], [kinds[i] for i in read])
    for i, new in zip(read, values, strict=True):
        loop.results[i].replace_all_uses_with(new)
    loop.erase()
    return results[0].owner


def _is_moved(new: Any, old: Any) -> bool:
    """Whether a carry needs conversion: unsigned integers, and predicates that are replaced, not updated in place."""
    return is_unsigned(old) or (is_boolean(old) and new != old and not updates_between(new, old))


def _numbers(b: Emitter, xs: Sequence[Any], kinds: Sequence[Any]) -> list[Any]:
    """The values, converted to signed integers where `kinds` has an element type and not None."""
    return [x if kind is None else _number(b, x, kind) for x, kind in zip(xs, kinds, strict=True)]


def _number(b: Emitter, x: Any, kind: Any) -> Any:
    """One value; a splat constant stays a constant, since a kernel can read only a limited number of arrays."""
    signed = signless(max(8, kind.width))
    value = None if isinstance(x.owner, ir.Block) else x.owner.attributes.get("value")
    if isinstance(value, ir.DenseElementsAttr) and value.is_splat:
        number, end = int(value.get_splat_value().value), 1 << signed.width
        return b.constant(number - end if 2 * number >= end else number, with_element(x.type, signed))
    return b.convert(x, signed) if is_boolean(x) else b.bitcast(x, signed)


def _back(b: Emitter, xs: Sequence[Any], kinds: Sequence[Any]) -> list[Any]:
    """The inverse of `_numbers`: values of the element types in `kinds`."""
    return [
        x
        if kind is None
        else b.compare(x, b.constant(0, x.type), "NE")
        if kind == signless(1)
        else b.bitcast(x, kind)
        for x, kind in zip(xs, kinds, strict=True)
    ]


def updates_between(x: Any, old: Any) -> list[Any]:
    """The chain of in-place updates from the array `old` to x; empty if x does not come from `old` in this way."""
    chain = []
    while not isinstance(x.owner, ir.Block) and x.owner.name in (UPDATE, "tensor.insert"):
        chain.append(x.owner)
        x = x.owner.operands[x.owner.name == "tensor.insert"]
    return chain[::-1] if x == old else []
