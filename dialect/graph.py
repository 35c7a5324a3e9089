"""Graphs as the stages read them: each op once, with its references followed."""

from collections.abc import Iterator
from typing import Any

from torch_mlir import ir

from tiduc.dialect.verify import ACTIVE_OUTPUTS, INPUT_OF, OUTPUT_OF


class Definition:
    """One operation of a graph, its operands followed to the graphs that define them.

    `operands` are values of any graph, never results of a `tidu.external`; `captures` are the values that the op's
    regions read from outside; `active` flags the operands that depend on the inputs of a linear graph, and is None
    where none does. This is the `op` that rules see, so it reads like an `ir.Operation`; what the builder knows
    already is not asked of MLIR again.
    """

    __slots__ = ("_location", "_types", "active", "captures", "graph", "name", "op", "operands", "results")

    def __init__(
        self,
        op: Any,
        name: str,
        operands: tuple[Any, ...],
        results: tuple[Any, ...],
        graph: "Graph",
        captures: tuple[Any, ...] = (),
        active: tuple[bool, ...] | None = None,
        types: tuple[Any, ...] | None = None,
        location: Any = None,
    ) -> None:
        self.op = op
        self.name = name
        self.operands = operands
        self.results = results
        self.graph = graph
        self.captures = captures
        self.active = active
        self._types = types
        self._location = location

    @property
    def result(self) -> Any:
        """The only result."""
        (result,) = self.results
        return result

    @property
    def types(self) -> tuple[Any, ...]:
        """The types of the results."""
        if self._types is None:
            self._types = tuple([x.type for x in self.results])
        return self._types

    @property
    def location(self) -> Any:
        if self._location is None:
            self._location = self.op.location
        return self._location

    @property
    def attributes(self) -> Any:
        return self.op.attributes

    @property
    def regions(self) -> Any:
        return self.op.regions


class Graph:
    """A `tidu.graph`, with its names at hand. It is immutable but for names, which are added as they are needed."""

    def __init__(self, op: Any, module: Any) -> None:
        self.op = op
        self.module = module  # held here, since an op does not keep its module alive
        self.name: str = ir.StringAttr(op.attributes["sym_name"]).value
        self.block = op.regions[0].blocks[0]
        self.keys: tuple[str, ...] = tuple(key.value for key in op.attributes["inputs"])
        self.inputs: dict[str, Any] = dict(zip(self.keys, self.block.arguments, strict=True))
        self.definitions: list[Definition] = []
        self.names: dict[str, Any] = {}
        self._name_of: dict[Any, str] = {}
        self._fresh = 0

    @property
    def terminator(self) -> Any:
        return ir.InsertionPoint.at_block_terminator(self.block).ref_operation.operation  # indexing would be linear

    @property
    def outputs(self) -> tuple[Any, ...]:
        """The operands of its `tidu.return`: of a linear graph, the active outputs."""
        return tuple(self.terminator.operands)

    @property
    def linear(self) -> bool:
        """It has tangent inputs."""
        return INPUT_OF in self.op.attributes

    @property
    def input_of(self) -> tuple[Any, ...]:
        """Of a linear graph: the references of the values that its inputs are tangents of."""
        return tuple(self.op.attributes[INPUT_OF])

    @property
    def output_of(self) -> tuple[Any, ...]:
        """Of a linear graph: the references of the values that its outputs, inactive ones too, are tangents of."""
        return tuple(self.op.attributes[OUTPUT_OF])

    @property
    def aligned_outputs(self) -> tuple[Any | None, ...]:
        """Of a linear graph: one entry an `output_of`, None where the output is inactive."""
        values = iter(self.outputs)
        return tuple(next(values) if active else None for active in self.op.attributes[ACTIVE_OUTPUTS])

    def add_name(self, value: Any, name: str) -> None:
        self.names[name] = value
        self._name_of.setdefault(value, name)

    def name_of(self, value: Any) -> str:
        """The symbol name of a value defined here; the value gets one, where it has none yet.

        A name is its own op, so that no native pass can lose it: a folded value takes its uses along.
        """
        name = self._name_of.get(value)
        if name is None:
            name = self._fresh_name()
            ir.Operation.create(
                "tidu.name",
                operands=[value],
                attributes={"sym_name": ir.StringAttr.get(name)},
                ip=ir.InsertionPoint.at_block_terminator(self.block),
            )
            self.add_name(value, name)
        return name

    def _fresh_name(self) -> str:
        while True:
            name = f"v{self._fresh}"
            self._fresh += 1
            if name not in self.names and name not in self.inputs:
                return name


def operations(block: Any) -> Iterator[Any]:
    """The operations of a block, as `ir.Operation`s."""
    for view in block.operations:
        yield view.operation


def captured(op: Any) -> tuple[Any, ...]:
    """The values that an op's regions read from outside, each once, in order of first use."""
    inside: set[Any] = set()
    found: dict[Any, None] = {}
    stack = [block for region in op.regions for block in region.blocks]
    while stack:
        block = stack.pop()
        inside.update(block.arguments)
        for inner in operations(block):
            for x in inner.operands:
                if x not in inside:
                    found.setdefault(x)
            inside.update(inner.results)
            stack.extend(nested for region in inner.regions for nested in region.blocks)
    return tuple(x for x in found if x not in inside)
