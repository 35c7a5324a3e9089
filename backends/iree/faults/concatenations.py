"""distinguish_starts: gives concatenations that begin with the same array distinct first operands.

    %x = concatenate %p, %q;  %y = concatenate %p, %r
        ->  %x = concatenate %p, %q;  %b = optimization_barrier %p;  %y = concatenate %b, %r

IREE lowers a concatenation to updates of an empty array, one for each operand. Two concatenations that begin with the
same array have the same first update, so IREE merges these updates into one value. It must then copy that value for the
second concatenation. But IREE may compute another operand right into its place in the result, before the copy. It then
finds the copy needless, and both concatenations write to one array: silently wrong values. A barrier makes the first
operand a distinct value with the same elements, so that nothing is merged.

IREE may find two values equal only after it has simplified the program. This pass therefore treats two values as equal
if equal ops compute them, and ignores the order of their elements. If IREE finds the values different, the barrier is
superfluous.
"""

import functools
import math
from collections import Counter
from collections.abc import Hashable, Iterable
from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.emitter import Emitter, within
from tiduc.backends.iree.fault import wrong
from tiduc.dialect.dependences import reached
from tiduc.dialect.functions import functions_in, symbol
from tiduc.dialect.traits import COMPLEX_PARTS, VIEWS
from tiduc.dialect.types import is_dynamic

_ORDERS = VIEWS | {"stablehlo.convert"}
"""Ops that may do no more than reorder the elements of an array, if the result has the size of the operand."""


@wrong(
    "Takes equal beginnings of two concatenations for one array, and may not copy it; a barrier makes two.",
    "concatenations",
)
def distinguish_starts(module: Any) -> None:
    """Puts a barrier before each concatenation, in place, that begins as an earlier one of equal sizes does.

    In functions that other functions call, all concatenations get a barrier: an argument may equal any value.
    """
    bodies = {symbol(op): within(op) for op in functions_in(module)}
    ops = [op for body in bodies.values() for op in body]
    called = {str(op.attributes["callee"])[1:] for op in ops if op.name == "func.call"}
    counts = Counter(_sizes(op) for op in ops if _has_start(op))
    alike = [op for op in ops if _has_start(op) and counts[_sizes(op)] > 1]
    if not alike and not called:
        return
    compared = _computing(op.operands[0] for op in alike)
    numbers, starts = Numbers(), set[Hashable]()
    for name, body in bodies.items():
        for op in body:
            if op in compared:
                numbers.note(op)
            if _has_start(op):
                start = *_sizes(op), numbers.of(op.operands[0])
                if start in starts or name in called:
                    b = Emitter(ir.InsertionPoint(op), op.location)
                    op.operands[0] = b.distinct(op.operands[0])
                starts.add(start)


def _computing(values: Iterable[Any]) -> set[Any]:
    """The ops on which values depend by way of operands: a value's number depends on no others."""
    each = reached(values, lambda x: () if isinstance(x.owner, ir.Block) else x.owner.operands)
    return {x.owner.operation for x in each if not isinstance(x.owner, ir.Block)}


def _has_start(op: Any) -> bool:
    """Whether an op concatenates several arrays into one of static shape."""
    return op.name == "stablehlo.concatenate" and len(op.operands) > 1 and not is_dynamic(op.results[0].type)


def _sizes(concatenation: Any) -> tuple[Hashable, Hashable]:
    return _size(concatenation.results[0]), _size(concatenation.operands[0])


class Numbers:
    """Value numbering: values that the same ops compute from equal operands share a number.

    An array, its views and its real and imaginary parts share a number, too. With `through_barriers`, the operand and
    the result of a barrier share one.
    """

    def __init__(self, through_barriers: bool = False) -> None:
        self._through_barriers = through_barriers
        self._of: dict[Any, int] = {}
        self._known: dict[Hashable, int] = {}

    def of(self, x: Any) -> int:
        """The number of a value; a new number if `note` has not seen the op that defines it."""
        return self._of.setdefault(x, len(self._of))

    def note(self, op: Any) -> None:
        """Numbers the results of an op, from the numbers of its operands."""
        before = [self.of(x) for x in op.operands]
        if op.name == "stablehlo.optimization_barrier":
            if self._through_barriers:
                self._of.update(zip(op.results, before, strict=True))
            return
        settings = _settings(op)
        for i, y in enumerate(op.results):
            if op.name in COMPLEX_PARTS or (op.name in _ORDERS and _size(y) == _size(op.operands[0])):
                self._of[y] = before[0]
            else:
                key = op.name, i, settings, _size(y), tuple(before)
                self._of[y] = self._known.setdefault(key, len(self._of))


def _size(x: Any) -> Hashable:
    """The element type and the number of elements of an array; the type of any other value."""
    return _size_of(x.type)


@functools.cache
def _size_of(type_: Any) -> tuple[Hashable, ...]:
    if not isinstance(type_, ir.RankedTensorType) or is_dynamic(type_):
        return (type_,)
    return type_.element_type, math.prod(type_.shape)


def _settings(op: Any) -> Hashable:
    """The attributes of an op and of the ops in its regions; the operands of the latter do not count."""
    nested = [(inner.name, inner.attributes) for inner in (within(op) if len(op.regions) else [op])]
    return tuple([(kind, *[(name, given[name]) for name in given]) for kind, given in nested])
