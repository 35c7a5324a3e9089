"""Reads, builds and copies regions over scalars: the bodies of reducers and comparators."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch_mlir import ir

from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.errors import UnknownSize
from tiduc.dialect.graph.graph import Definition, captured, operations, replace_captured, terminator
from tiduc.dialect.ops.control_ops import call_target
from tiduc.dialect.ops.shardy import CONSTRAINTS

Fill = Callable[[Any], None]


class RegionBuilder(StablehloBuilder):
    """A builder that emits into a region without captures, rather than into a graph."""

    def __init__(self, region: Any, types: Sequence[Any], location: Any) -> None:
        self.block = region.blocks.append(*types, arg_locs=[location] * len(types))
        self.arguments = list(self.block.arguments)
        self.constants = {}
        self.location = location
        self._ip = ir.InsertionPoint(self.block)

    def emit_all(
        self,
        name: str,
        operands: Sequence[Any],
        types: Sequence[Any],
        attributes: Mapping[str, Any] | None = None,
        regions: Sequence[Fill] = (),
    ) -> tuple[Any, ...]:
        op = ir.Operation.create(
            name, types, operands, attributes, None, len(regions), self.location, self._ip
        )
        for fill, region in zip(regions, op.regions, strict=True):
            fill(region)
        return tuple(op.results)

    def emit(
        self, name: str, operands: Sequence[Any], type_: Any, attributes: Mapping[str, Any] | None = None
    ) -> Any:
        return self.emit_all(name, operands, (type_,), attributes)[0]

    def size(self, n: Any) -> Any:
        """Raises `UnknownSize`: the region would have to read the size from outside."""
        raise UnknownSize("its region would need the size of a dynamic dimension")

    def returns(self, *values: Any) -> None:
        """Ends the region."""
        self.emit_all("stablehlo.return", values, ())

    def copy_of(self, op: Definition, region: int, arguments: Sequence[Any]) -> dict[Any, Any]:
        """Copies the ops of a region of `op` onto other arguments; returns a map from its values to their copies.

        MLIR's folder may have moved constants out of the region; they are copied back in. Callers refuse an op
        for which `self_contained` is false.
        """
        block = op.regions[region].blocks[0]
        values = dict(zip(block.arguments, arguments, strict=True))
        for inside, outside in zip(captured(op.source), op.captures, strict=True):
            assert outside.definition is not None  # a constant, since the op is self-contained
            values[inside] = outside.definition.create((), (), self._ip).result
        for inner in operations(block):
            if inner.name != "stablehlo.return":
                self.copied(inner, values)
        return values

    def inlined(self, region: Any, arguments: Sequence[Any]) -> list[Any]:
        """Inlines a region of an `ir.Operation`: emits its ops for these arguments; the values that it returns."""
        values = dict(zip(region.blocks[0].arguments, arguments, strict=True))
        *inside, last = operations(region.blocks[0])
        for inner in inside:
            self.copied(inner, values)
        return [values.get(x, x) for x in last.operands]

    def copied(self, op: Any, values: dict[Any, Any]) -> Any:
        """Emits a copy of an op that reads other values, by the map `values`, which gains the op's results."""
        copy = op.clone(self._ip)
        for i, x in enumerate(op.operands):
            if x in values:
                copy.operands[i] = values[x]
        replace_captured(copy, [values.get(x, x) for x in captured(op)])
        values.update(zip(op.results, copy.results, strict=True))
        return copy


def self_contained(op: Definition) -> bool:
    """Whether the op's regions capture only constants."""
    definitions = [x.definition for x in op.captures]
    return all(d is not None and d.name == "stablehlo.constant" for d in definitions)


def returned(op: Definition, region: int = 0) -> tuple[Any, ...]:
    """The operands of a region's terminator."""
    block = op.regions[region].blocks[0]
    return tuple(terminator(block).operands)


def reducer(op: Definition, result: int = 0, region: int = 0) -> str | None:
    """The name of the one op that computes a body's `result` from that result's two arguments; None otherwise.

    Sharding constraints, which JAX may put on the result, are skipped: they have no effect on a scalar.
    """
    block = op.regions[region].blocks[0]
    value, arguments = returned(op, region)[result], list(block.arguments)
    while not isinstance(value.owner, ir.Block) and call_target(value.owner.operation) in CONSTRAINTS:
        value = value.owner.operation.operands[0]
    of = [arguments[result], arguments[len(arguments) // 2 + result]]
    for inner in operations(block):
        if value in inner.results and list(inner.operands) in (of, of[::-1]) and not len(inner.regions):
            return inner.name  # type: ignore[no-any-return]
    return None
