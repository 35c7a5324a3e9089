"""Value keys: a value's identity across graphs.

    key(input)  = its input key
    key(result) = (op name, attributes, keys of the operands, role, result types, regions), result number

Keys are hash-consed to integers as they are made, operands first, so making one costs what its op costs, however deep
or shared the graph is. The role is the active mask: a linear op and a primal one are not the same. An op that
`stateful` names is like no other.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tiduc.dialect.graph import Definition, captured, operations
from tiduc.dialect.verify import ACTIVE


class KeyTable:
    """Gives equal integers to equal values, and distinct ones to distinct values."""

    def __init__(self, stateful: frozenset[str] = frozenset()) -> None:
        self._stateful = stateful
        self._keys: dict[Any, int] = {}
        self._held: dict[int, int] = {}
        self._bodies: dict[Any, int] = {}
        self._next = 0

    def input(self, key: str) -> int:
        """The key of a graph input."""
        return self._key(("input", key), 1)

    def results(self, op: Definition, operands: Sequence[int], captures: Sequence[int] = ()) -> int:
        """The key of an op's first result, given those of what it reads; the others follow it."""
        results = op.results
        if op.name in self._stateful:
            return self._key(("once", id(op)), len(results))
        types = results[0].type if len(results) == 1 else tuple([y.type for y in results])
        given = _attributes(op) if op.source is not None or op.given else None
        described: tuple[Any, ...] = (op.name, types, op.active, given, *operands)
        if op.source is not None and len(op.source.regions):
            described += (self._regions_of(op, captures),)
        return self._key(described, len(results))

    def _key(self, described: Any, count: int) -> int:
        found = self._keys.get(described)
        if found is None:
            found = self._keys[described] = self._next
            self._next += count
        return found

    def _regions_of(self, op: Definition, captures: Sequence[int]) -> Any:
        if captures:
            return self._regions(op.source, dict(zip(captured(op.source), captures, strict=True)))
        held = id(op.source)  # ops that rules emitted share the op that holds their regions
        if held not in self._held:
            described = self._regions(op.source, {})
            self._held[held] = self._bodies.setdefault(described, len(self._bodies))
        return self._held[held]

    def _regions(self, op: Any, outside: Mapping[Any, int]) -> tuple[Any, ...]:
        """The structure of an op's regions: values inside are numbered in order, those outside have keys."""
        number: dict[Any, Any] = {x: ("outside", key) for x, key in outside.items()}

        def describe(nested: Any) -> tuple[Any, ...]:  # recurs on the nesting of regions, not on their length
            return tuple(tuple(describe_block(block) for block in region.blocks) for region in nested.regions)

        def describe_block(block: Any) -> tuple[Any, ...]:
            described: list[Any] = [tuple(x.type for x in block.arguments)]
            for x in block.arguments:
                number[x] = len(number)
            for inner in operations(block):
                if inner.name in self._stateful:
                    described.append(("once", id(op)))
                operands = tuple(number[x] for x in inner.operands)
                types = tuple(x.type for x in inner.results)
                described.append((inner.name, operands, _of_operation(inner), types, describe(inner)))
                for x in inner.results:
                    number[x] = len(number)
            return tuple(described)

        return describe(op)


def _attributes(op: Definition) -> tuple[Any, ...]:
    given = tuple(sorted(op.given.items(), key=_name)) if op.given else ()
    return given if op.source is None else _of_operation(op.source, op.given or ()) + given


def _name(item: tuple[str, Any]) -> str:
    return item[0]


def _of_operation(op: Any, but: Any = ()) -> tuple[Any, ...]:
    attributes = op.attributes
    return tuple([(n, attributes[n]) for n in attributes if n != ACTIVE and n not in but])
