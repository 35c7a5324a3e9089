"""Computes keys of values. Values with equal keys are equal, even in different graphs, so they can be merged.

    key(input)  = its input key
    key(result) = (op name, role, result types, operands, attributes, regions), result number

Keys are built bottom-up, as in hash-consing: each operand is first replaced by its representative, the first value with
an equal key. Building a key therefore takes no longer than reading the op, and needs no recursion.

The role of an op in a linear graph is its active mask, which flags the operands that depend on the graph's inputs. The
key has the role, because a linear op must not be merged with a primal op. The order of the two operands of a
`commutative` op does not matter. A `stateful` op equals no other op.
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
        # Maps the id of a dictionary of attributes to the attributes' number. The entry also holds the dictionary,
        # so that no other object gets its id.
        self._given: dict[int, tuple[int, Any]] = {}
        self._sources: dict[Any, tuple[dict[str, Any], Any]] = {}
        self._bodies: dict[Any, int] = {}

    def input(self, key: str, x: Value) -> Value:
        """Returns the representative of input x: the first input for which this method was called with this key."""
        return self._inputs.setdefault(key, x)

    def results(
        self, op: Definition, operands: tuple[Value, ...], captures: Sequence[Value] = ()
    ) -> tuple[Value, ...]:
        """Returns the representatives of an op's results: the results of the first op with an equal key.

        If no earlier op has an equal key, this first op is `op` itself.

        `operands` and `captures` are the representatives of the op's operands and captures.
        """
        key, results = self._key(op, operands, captures), op.results
        existing = self._results.setdefault(key, results)
        if existing is results:
            return existing
        types = [y.type for y in results]  # the key lacks these types, because most ops determine them
        if types == [y.type for y in existing]:
            return existing
        return self._results.setdefault((key, *types), results)

    def _key(self, op: Definition, operands: tuple[Value, ...], captures: Sequence[Value]) -> Hashable:
        """The key of an op. It does not contain the types of the results. A stateful op is its own key."""
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
        """A number that identifies the attributes; equal attributes have equal numbers."""
        items = attributes.items()
        key: Hashable = frozenset(items) if len(items) > 1 else next(iter(items), None)
        return self._numbers.setdefault(key, len(self._numbers))

    def _of_source(self, source: IrOp, captures: Sequence[Value]) -> tuple[dict[str, Any], Any]:
        """Returns the attributes and a key of the regions of `source`, the MLIR operation that holds an op's regions.

        `captures` are the representatives of the values that the regions read from outside. If there are none, the
        results are cached, because many emitted ops have the same source.
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
        """A structural key of an op's regions. Values that the regions define are numbered in order of definition.

        `outside` maps the values that the regions capture to their representatives.
        """
        described: list[Any] = []
        self._describe(op, op.regions, dict(outside), described)
        return tuple(described)

    def _describe(
        self, op: IrOp, regions: ir.RegionSequence, number: dict[IrValue, int | Value], described: list[Any]
    ) -> None:
        """Appends the key of the regions to `described`. The recursion is as deep as the regions are nested."""
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
