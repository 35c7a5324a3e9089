"""Value keys: a value's identity across graphs.

    key(input)  = its input key
    key(result) = (op name, role, result types, operands, attributes, regions), result number

Keys are built bottom-up, as in hash-consing: operands are first replaced by the representatives of their keys. Building
a key therefore takes as long as reading its op, and needs no recursion.

The role is the active mask: a linear op never equals a primal op. The two operands of a `commutative` op are
unordered. A `stateful` op equals no other op.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from torch_mlir import ir

from tiduc.dialect.graph.graph import Definition, Value, captured, operations
from tiduc.dialect.ops.attributes import without
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.ops.verify import ACTIVE


class KeyTable:
    """Maps a value to its representative: the first value with an equal key."""

    def __init__(self, stateful: frozenset[str], commutative: frozenset[str]) -> None:
        self._stateful = stateful
        self._commutative = commutative
        self._inputs: dict[str, Value] = {}
        self._results: dict[Hashable, tuple[Value, ...]] = {}
        self._numbers: dict[Hashable, int] = {}
        # The key is the id of a dictionary of attributes; the entry holds the dictionary, so that no other
        # object gets the id.
        self._given: dict[int, tuple[int, Any]] = {}
        self._sources: dict[Any, tuple[dict[str, Any], Any]] = {}
        self._bodies: dict[Any, int] = {}

    def input(self, key: str, x: Value) -> Value:
        """The first input with this key."""
        return self._inputs.setdefault(key, x)

    def results(
        self, op: Definition, operands: tuple[Value, ...], captures: Sequence[Value] = ()
    ) -> tuple[Value, ...]:
        """The results of the first op that equals this op on these operands and captures.

        `operands` and `captures` replace those of the op. Each must be a representative.
        """
        key, results = self._key(op, operands, captures), op.results
        existing = self._results.setdefault(key, results)
        if existing is results:
            return existing
        types = [y.type for y in results]  # implied by the rest of the key, except for a few ops
        if types == [y.type for y in existing]:
            return existing
        return self._results.setdefault((key, *types), results)

    def _key(self, op: Definition, operands: tuple[Value, ...], captures: Sequence[Value]) -> Hashable:
        """The key of an op without the types of its results."""
        name, active, given = op.name, op.active, op.given
        if name in self._stateful:
            return op
        if name in self._commutative and id(operands[0]) > id(operands[1]):
            operands = operands[::-1]
            active = active and active[::-1]
        if op.source is not None:
            attributes, body = self._of_source(op.source, captures)
            return name, active, self._number({**attributes, **(given or {})}), body, *operands
        if given:
            known = self._given.get(id(given))
            if known is None:
                known = self._given[id(given)] = self._number(given), given
            return name, active, known[0], *operands
        return name, active, *operands

    def _number(self, attributes: Mapping[str, ir.Attribute]) -> int:
        """A number for the attributes; equal attributes have equal numbers."""
        items = attributes.items()
        key: Hashable = frozenset(items) if len(items) > 1 else next(iter(items), None)
        return self._numbers.setdefault(key, len(self._numbers))

    def _of_source(self, source: IrOp, captures: Sequence[Value]) -> tuple[dict[str, Any], Any]:
        """The attributes of an op's source, and a key of its regions.

        Cached, because emitted ops share their sources.
        """
        if captures:
            outside = dict(zip(captured(source), captures, strict=True))
            return without(source.attributes, ACTIVE), self._regions(source, outside)
        number = self._sources.get(source)
        if number is None:
            body = self._bodies.setdefault(self._regions(source, {}), len(self._bodies))
            number = self._sources[source] = without(source.attributes, ACTIVE), body
        return number

    def _regions(self, op: IrOp, outside: Mapping[IrValue, Value]) -> tuple[Any, ...]:
        """A structural key of an op's regions, in which inner values are numbered in order."""
        described: list[Any] = []
        self._describe(op, op.regions, dict(outside), described)
        return tuple(described)

    def _describe(
        self, op: IrOp, regions: ir.RegionSequence, number: dict[IrValue, int | Value], described: list[Any]
    ) -> None:
        """Appends the key of the regions to `described`; recurs on the nesting of regions, not on their length."""
        for block in (block for region in regions for block in region.blocks):
            described.append("block")
            _define(block.arguments, number, described)
            for inner in operations(block):
                described.append(inner.name if inner.name not in self._stateful else id(op))
                described.extend([number[x] for x in inner.operands])
                described.append(frozenset(without(inner.attributes, ACTIVE).items()))
                _define(inner.results, number, described)
                self._describe(op, inner.regions, number, described)
        described.append("end")


def _define(values: Iterable[IrValue], number: dict[IrValue, int | Value], described: list[Any]) -> None:
    for x in values:
        number[x] = len(number)
        described.append(x.type)
