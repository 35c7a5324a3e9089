"""Predicates that a loop in a kernel carries are numbers of 8 bits: 0 and 1.

    while(%go = %true) cond { return %go } do { ... return %next }
    ->  while(%go = 1 : i8) cond { return %go != 0 } do { ... return convert %next }

IREE's arrays have a byte for a predicate, and its compiler does not say so of what a kernel reads from one array and
writes into another: it gave up on such loops, whose iterations the host then ran.
"""

from collections.abc import Sequence
from typing import Any

from torch_mlir import ir

from tiduc.passes.iree.emitter import Emitter, is_boolean, signless, within


def predicates_as_numbers(loop: Any) -> Any:
    """The loop that takes a loop's place, itself where it, and those in it, carry no predicates."""
    for inner in within(loop)[:0:-1]:
        if inner.name == "stablehlo.while":
            _numbered(inner)
    return _numbered(loop)


def _numbered(loop: Any) -> Any:
    """The same of one loop; what reads its results reads the other's."""
    which = [is_boolean(x) for x in loop.operands]
    if not any(which):
        return loop
    b = Emitter(ir.InsertionPoint(loop), loop.location)
    condition, body = loop.regions

    def held(b: Emitter, *carries: Any) -> Sequence[Any]:
        return b.inlined(condition, _truths(b, carries, which))

    def made(b: Emitter, *carries: Any) -> Sequence[Any]:
        return _numbers(b, b.inlined(body, _truths(b, carries, which)), which)

    initial = _numbers(b, loop.operands, which)
    types = [x.type for x in initial]
    results = b.emit_all(
        "stablehlo.while", initial, types, None, [b.region(types, held), b.region(types, made)]
    )
    read = [bool(list(y.uses)) for y in loop.results]
    truths = _truths(b, results, [is_one and wanted for is_one, wanted in zip(which, read, strict=True)])
    for old, new, wanted in zip(loop.results, truths, read, strict=True):
        if wanted:
            old.replace_all_uses_with(new)
    loop.erase()
    return results[0].owner


def _numbers(b: Emitter, xs: Sequence[Any], which: Sequence[bool]) -> list[Any]:
    """Values of which some are predicates, these as 0 and 1."""
    return [b.convert(x, signless(8)) if is_one else x for x, is_one in zip(xs, which, strict=True)]


def _truths(b: Emitter, xs: Sequence[Any], which: Sequence[bool]) -> list[Any]:
    """The predicates that such numbers stand for."""
    return [
        b.compare(x, b.constant(0, x.type), "NE") if is_one else x
        for x, is_one in zip(xs, which, strict=True)
    ]
