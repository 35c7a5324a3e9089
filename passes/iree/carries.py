"""What a loop in a kernel carries are numbers with a sign: predicates as 0 and 1 of 8 bits, unsigned ones by bits.

    while(%go = %true) cond { return %go } do { ... return %next }
    ->  while(%go = 1 : i8) cond { return %go != 0 } do { ... return convert %next }

Kernels move carries element by element. IREE's arrays have a byte for a predicate, and no unsigned integers, and its
compiler does not say so of such elements: it gave up on these loops, whose iterations the host then ran. Converted
there and back predicates are what they were, and so are integers whose bits are read with a sign and without.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from torch_mlir import ir

from tiduc.dialect.types import element
from tiduc.passes.iree.emitter import Emitter, is_boolean, is_unsigned, signless, within


def signed_carries(loop: Any) -> Any:
    """The loop that takes a loop's place, itself where it, and those in it, carry nothing else."""
    for inner in within(loop)[:0:-1]:
        if inner.name == "stablehlo.while":
            _signed(inner)
    return _signed(loop)


def _signed(loop: Any) -> Any:
    """The same of one loop; what reads its results reads the other's."""
    kinds = [element(x) if is_boolean(x) or is_unsigned(x) else None for x in loop.operands]
    if not any(kinds):
        return loop
    b = Emitter(ir.InsertionPoint(loop), loop.location)
    condition, body = loop.regions

    def held(b: Emitter, *carries: Any) -> Sequence[Any]:
        return b.inlined(condition, _back(b, carries, kinds))

    def made(b: Emitter, *carries: Any) -> Sequence[Any]:
        return _numbers(b, b.inlined(body, _back(b, carries, kinds)))

    initial = _numbers(b, loop.operands)
    types = [x.type for x in initial]
    results = b.emit_all(
        "stablehlo.while", initial, types, None, [b.region(types, held), b.region(types, made)]
    )
    read = [y for y in loop.results if list(y.uses)]
    numbers = dict(zip(loop.results, results, strict=True))
    for old, new in zip(read, _back(b, [numbers[y] for y in read], map(element, read)), strict=True):
        old.replace_all_uses_with(new)
    loop.erase()
    return results[0].owner


def _numbers(b: Emitter, xs: Sequence[Any]) -> list[Any]:
    """Values as a kernel can move their elements."""
    return [
        b.convert(x, signless(8))
        if is_boolean(x)
        else b.bitcast(x, signless(element(x).width))
        if is_unsigned(x)
        else x
        for x in xs
    ]


def _back(b: Emitter, xs: Sequence[Any], kinds: Iterable[Any]) -> list[Any]:
    """What such numbers stand for, whose elements are of these types."""
    return [
        x
        if kind is None or kind == element(x)
        else b.compare(x, b.constant(0, x.type), "NE")
        if kind == signless(1)
        else b.bitcast(x, kind)
        for x, kind in zip(xs, kinds, strict=True)
    ]
