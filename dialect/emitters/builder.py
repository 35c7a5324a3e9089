"""The builder: emits ops into a new graph. Also sets the ops' active masks, which flag operands computed from tangents.

The class `Builder` contains no op names. A subclass for an op set implements the arithmetic of tangents (`add`, `zero`,
`multiply`) and the methods that derivative rules use (`dialect/emitters/stablehlo.py`).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Never

from torch_mlir import ir

from tiduc.dialect.emitters.protocol import Emits, Fill
from tiduc.dialect.errors import RequestError
from tiduc.dialect.graph.graph import Definition, Graph, Value
from tiduc.dialect.graph.view import View
from tiduc.dialect.ops.ir_types import Attributes
from tiduc.dialect.shapes.sizes import Extent
from tiduc.dialect.shapes.types import is_dynamic

_OF_TWO = ((None, (False, True)), ((True, False), (True, True)))
"""The active masks of ops with two operands: `_OF_TWO[flag of the first][flag of the second]`.

Ops share these four objects, which saves time and memory.
"""


@dataclass
class Notes:
    """Facts that derivative rules share while one graph is built.

    - `moving` holds masked cotangents. Linear ops on them may be computed first, and masked afterwards (`masks.py`).
    - `steep` holds the inputs whose cotangents an op outside the graph may multiply by an infinite slope.
    - `infinite` caches whether a value may be infinite (`masks.py`).
    - `readers` maps a graph to a map from each of its values to the names of the ops that read the value.
    - `factors` maps the second result of a `geqrf` to the factors that the rule of `orgqr` needs.
    - `terms` maps results of ops that are not linearized yet to terms to add to the tangents of these results.
    """

    moving: set[Value] = field(default_factory=set)
    steep: set[Value] = field(default_factory=set)
    infinite: dict[Value, bool] = field(default_factory=dict)
    readers: dict[Graph, Mapping[Value, set[str]]] = field(default_factory=dict)
    factors: dict[Value, tuple[Value, Value, Value]] = field(default_factory=dict)
    terms: dict[Value, list[Value]] = field(default_factory=dict)


class Builder(Emits[Value, Never]):
    """Builds one graph. `finish` adds the graph to the view.

    Operands may be values of any graph. Emitted ops get the location `location`: while a rule of an op runs, it is the
    location of this op.
    """

    def __init__(self, view: View, name: str) -> None:
        self.view = view
        self.graph = Graph(name)
        self.graph.held = (view,)
        self.location: ir.Location = ir.Location.unknown()
        self.constants: dict[Any, Value] = {}  # each constant is emitted once per graph
        self.engine: Any = None  # has functions that rules may call (passes/rules/lent.py)
        self.notes = Notes()
        self.tangents: Collection[Value] = ()  # inputs of a transposed graph that rules must not read
        self._linear: set[Value] = set()

    # ---- inputs and outputs are added to the graph ------------------------------------------------------------

    def input(self, key: str, type_: ir.Type, linear: bool = False) -> Value:
        """Adds the input with this key to the graph, and returns it. If the view has the input already, reuses it.

        With `linear`, the input is a tangent or cotangent, so it and all values computed from it are linear. Raises
        `RequestError` if the view already has an input with this key, and `linear` is set or the types differ.
        """
        value = self.view.inputs.get(key)
        if value is not None and (linear or value.type != type_):
            raise RequestError(f"there is an input @{key} of type {value.type} already")
        value = self.graph.inputs[key] = value or Value(type_, self.graph, key=key)
        if linear:
            self._linear.add(value)
        return value

    def finish(self, outputs: Sequence[Value | None]) -> Graph:
        """Sets the graph's outputs, and adds the graph to the view."""
        self.graph.outputs = list(outputs)
        return self.view.built(self.graph)

    def finish_linear(
        self, outputs: Sequence[Value | None], input_of: Sequence[Value], output_of: Sequence[Value]
    ) -> Graph:
        """Finishes a linear graph. `input_of` and `output_of` are the primal values of its inputs and outputs.

        `outputs` has one entry for each value in `output_of`. The entry is None if the output is inactive.
        """
        graph = self.graph
        graph.linear, graph.input_of, graph.output_of = True, tuple(input_of), tuple(output_of)
        return self.finish(outputs)

    # ---- ops are emitted at the end of the graph --------------------------------------------------------------

    def emit_all(
        self,
        name: str,
        operands: Sequence[Value],
        types: Sequence[ir.Type],
        attributes: Attributes | None = None,
        regions: Sequence[Fill] = (),
    ) -> tuple[Value, ...]:
        """Emits an op and returns its results. Each function in `regions` fills one region, which captures nothing.

        Regions are cached by the tuple of functions, so the functions of each tuple are called only once.
        """
        source = self.view.holder(name, tuple(regions), self.location) if regions else None
        op = Definition(name, tuple(operands), self.graph, None, attributes, source, (), self.location)
        return self._emit(op, types)

    def emit(
        self, name: str, operands: Sequence[Value], type_: ir.Type, attributes: Attributes | None = None
    ) -> Value:
        """Emits an op of one result and no regions, and returns the result."""
        graph, operands = self.graph, tuple(operands)
        active = self._mask(operands)
        definition = Definition(name, operands, graph, active, attributes, None, (), self.location)
        result = Value(type_, graph, definition)
        definition.results = (result,)
        graph.definitions.append(definition)
        if active is not None:
            self._linear.add(result)
        return result

    def reapply(
        self, op: Definition, replaced: Mapping[int, Value], attributes: Attributes | None = None
    ) -> tuple[Value, ...]:
        """Emits a copy of an op, including regions and attributes, with some operands replaced. Returns its results."""
        operands = list(op.operands)
        for i, x in replaced.items():
            operands[i] = x
        given = {**(op.given or {}), **attributes} if attributes else op.given
        if op.source is None and len(op.results) == 1:
            return (self.emit(op.name, operands, op.results[0].type, given),)
        copy = Definition(
            op.name, tuple(operands), self.graph, None, given, op.source, op.captures, self.location
        )
        return self._emit(copy, [y.type for y in op.results])

    def hides_sizes(self, graph: Graph) -> bool:
        """Whether a call of the graph would hide dynamic sizes of its results that `inline` shows.

        Derivatives of the reader of a result need its sizes. Ops whose regions capture values are not inlined.
        """
        is_open = any(op.captures for op in graph.definitions)
        return not is_open and any(y is not None and is_dynamic(y.type) for y in graph.outputs)

    def inline(self, graph: Graph, operands: Sequence[Value]) -> list[Value]:
        """Emits the ops of a graph that reads no values of other graphs, and returns its outputs."""
        local = dict(zip(graph.inputs.values(), operands, strict=True))
        outputs = [y for y in graph.outputs if y is not None]
        for op in self.view.schedule(outputs, local):
            replaced = {i: local[x] for i, x in enumerate(op.operands)}
            local.update(zip(op.results, self.reapply(op, replaced), strict=True))
        return [local[y] for y in outputs]

    def copy(
        self, op: Definition, operands: tuple[Value, ...], captures: tuple[Value, ...] = ()
    ) -> tuple[Value, ...]:
        """Copies an op of another graph, including its active mask, and returns the results of the copy.

        `operands` and `captures` are values of this graph.
        """
        graph = self.graph
        copy = Definition(op.name, operands, graph, op.active, op.given, op.source, captures, op.location)
        copy.results = tuple([Value(y.type, graph, copy) for y in op.results])
        graph.definitions.append(copy)
        return copy.results

    def sum(self, terms: Iterable[Value]) -> Value:
        """The sum of one or more values of one type. A single value is returned unchanged."""
        return reduce(self.add, terms)

    def _emit(self, definition: Definition, types: Sequence[ir.Type]) -> tuple[Value, ...]:
        graph = self.graph
        definition.active = self._mask(definition.operands)
        results = definition.results = tuple([Value(type_, graph, definition) for type_ in types])
        graph.definitions.append(definition)
        if definition.active is not None:
            self._linear.update(results)
        return results

    def size(self, n: Extent) -> Value:
        """A size as an i32 scalar. A subclass for an op set with dynamic shapes implements this method."""
        raise NotImplementedError

    def is_linear(self, x: Value) -> bool:
        """Whether x is a tangent or cotangent, or is computed from one."""
        return x in self._linear

    def _mask(self, operands: tuple[Value, ...]) -> tuple[bool, ...] | None:
        """The active mask of an op: for each operand, whether it is linear. None if no operand is linear."""
        linear = self._linear
        if len(operands) == 1:
            return (True,) if operands[0] in linear else None
        if len(operands) == 2:
            x, y = operands
            return _OF_TWO[x in linear][y in linear]
        mask = tuple(map(linear.__contains__, operands))
        return mask if True in mask else None

    # ---- a subclass implements the arithmetic of tangents -----------------------------------------------------

    @staticmethod
    def tangent_type(type_: ir.Type) -> ir.Type | None:
        """The tangent type of a type. None for a type without tangents, such as an integer type."""
        raise NotImplementedError

    def add(self, x: Value, y: Value) -> Value:
        """x + y."""
        raise NotImplementedError

    def zero(self, type_: ir.Type) -> Value:
        """The zero of a type."""
        raise NotImplementedError

    def zeros_like(self, x: Value) -> Value:
        """A zero of a value's type, with the value's dynamic sizes."""
        return self.zero(x.type)

    def multiply(self, x: Value, y: Value) -> Value:
        """x * y, elementwise."""
        raise NotImplementedError

    def conj(self, x: Value) -> Value:
        """The complex conjugate; the identity on real types."""
        raise NotImplementedError
