"""starts_apart: concatenations that begin with the same array do not begin with the same value.

    %x = concatenate %p, %q;  %y = concatenate %p, %r
        ->  %x = concatenate %p, %q;  %b = optimization_barrier %p;  %y = concatenate %b, %r

IREE makes a concatenation of updates of an empty array, one for each part, and takes the first ones, where they are the
same, for one value. It copies that for the second concatenation; but what it can compute right into its place it does,
before that copy, and then finds no reason for it: both results lie in one array, with all parts in common.
Behind a barrier nothing is the same as what is before it; the numbers are.

What IREE finds to be the same shows only when it has simplified the program. So what is made alike counts as the same
here, in whatever order its elements are, which may be too often: then a barrier is in vain.
"""

import math
from collections import Counter
from collections.abc import Hashable
from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.emitter import Emitter, within
from tiduc.dialect.graph import operations
from tiduc.dialect.types import is_open

_ORDERS = frozenset(
    f"stablehlo.{name}" for name in ("broadcast_in_dim convert reshape reverse slice transpose".split())
)
"""Ops that may do no more than order the elements of an array."""
_PARTS = "real", "imag"


def starts_apart(module: Any) -> None:
    """Puts barriers before the concatenations of a module, in place, that begin as others of their size do.

    In functions that others call before all of them: what a call is given may be the same as anything.
    """
    functions = [op for op in operations(module.operation.regions[0].blocks[0]) if op.name == "func.func"]
    ops = {ir.StringAttr(function.attributes["sym_name"]).value: within(function) for function in functions}
    called = {
        str(op.attributes["callee"])[1:] for found in ops.values() for op in found if op.name == "func.call"
    }
    several = Counter(_sizes(op) for found in ops.values() for op in found if _has_start(op))
    if max(several.values(), default=0) < 2 and not called:
        return
    numbers, begun = _Numbers(), set[Hashable]()
    for name, found in ops.items():
        for op in found:
            numbers.note(op)
            if not _has_start(op):
                continue
            start = *_sizes(op), numbers.of(op.operands[0])
            if start in begun or name in called:
                b = Emitter(ir.InsertionPoint(op), op.location)
                op.operands[0] = b.barrier(op.operands[0])[0]
            begun.add(start)


def _has_start(op: Any) -> bool:
    """A concatenation of several arrays, whose sizes are known."""
    return op.name == "stablehlo.concatenate" and len(op.operands) > 1 and not is_open(op.results[0].type)


def _sizes(concatenation: Any) -> tuple[Hashable, Hashable]:
    return _size(concatenation.results[0]), _size(concatenation.operands[0])


class _Numbers:
    """A number for each value, the same one for those that are made alike."""

    def __init__(self) -> None:
        self._of: dict[Any, int] = {}
        self._known: dict[Hashable, int] = {}
        self._makers: list[
            tuple[str, list[int]]
        ] = []  # of each number: an op's name, and of what it makes that

    def of(self, x: Any) -> int:
        """The number of a value; a new one where no op was noted that makes it."""
        if x not in self._of:
            self._of[x] = self._new("", [])
        return self._of[x]

    def note(self, op: Any) -> None:
        """Gives the results of an op their numbers; those of its operands are known, if they have any."""
        if op.name == "stablehlo.optimization_barrier":
            return
        before, settings = [self.of(x) for x in op.operands], _settings(op)
        for i, y in enumerate(op.results):
            same = self._same(op, y, before)
            key = op.name, i, settings, _size(y), tuple(before)
            if same is None:
                same = self._known.get(key)
            if same is None:
                same = self._known[key] = self._new(op.name, before)
            self._of[y] = same

    def _same(self, op: Any, y: Any, before: list[int]) -> int | None:
        """The number of what an op's result is, seen in another way; or None."""
        if op.name in _ORDERS and _size(y) == _size(op.operands[0]):
            return before[0]
        name = op.name.removeprefix("stablehlo.")
        makers = [self._makers[n] for n in before]
        if name in _PARTS and makers[0][0] == "stablehlo.complex":
            return makers[0][1][_PARTS.index(name)]
        if name == "complex" and [made for made, _ in makers] == [f"stablehlo.{part}" for part in _PARTS]:
            (whole,), (other,) = (of for _, of in makers)
            return whole if whole == other else None
        return None

    def _new(self, name: str, before: list[int]) -> int:
        self._makers.append((name, before))
        return len(self._makers) - 1


def _size(x: Any) -> Hashable:
    """The type of an array's elements, and how many they are; of other values the type."""
    if not isinstance(x.type, ir.RankedTensorType) or is_open(x.type):
        return str(x.type)
    return str(x.type.element_type), math.prod(x.type.shape)


def _settings(op: Any) -> Hashable:
    """An op's attributes, and those of the ops in its regions, whatever these read."""
    return tuple(
        (inner.name, *((name, inner.attributes[name]) for name in inner.attributes)) for inner in within(op)
    )
