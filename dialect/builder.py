"""The builder: emits ops into a new graph, and derives their active masks.

It names no op. An op set derives from it and adds its vector space, `add`, `zero` and `multiply`, and whatever
emitters its rules want (`dialect/stablehlo.py`).
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import reduce
from typing import Any

from torch_mlir import ir

from tiduc.dialect.errors import RequestError
from tiduc.dialect.graph import Definition, Graph, Value
from tiduc.dialect.view import View

_OF_TWO = ((None, (False, True)), ((True, False), (True, True)))
"""The masks of two operands: most ops have one or two, and to share these saves time and memory."""


class Builder:
    """Builds one graph of a view; it is the view's when the builder finishes.

    Operands may be values of this graph or of any other one. What is emitted gets `location`, that of the op which
    a rule is called for.
    """

    def __init__(self, view: View, name: str) -> None:
        self.view = view
        self.graph = Graph(name)
        self.graph.held = (view,)
        self.location: Any = ir.Location.unknown()
        self.constants: dict[Any, Any] = {}  # for an op set: one op a constant and graph
        self.engine: Any = None  # what a stage lends to rules of ops over whole graphs
        self.notes: dict[Any, Any] = {}  # what rules leave for others, by a primal value or its graph
        self.tangents: Collection[Value] = ()  # inputs of a graph that is turned around, not to be read
        self._linear: set[Value] = set()

    # ---- the graph's ends -------------------------------------------------------------------------------------

    def input(self, key: str, type_: Any, linear: bool = False) -> Value:
        """The input of that key; a linear one is new, is active, and so is what is made of it.

        `RequestError` where the view has an input of that key which is linear or of another type.
        """
        value = self.view.inputs.get(key)
        if value is not None and (linear or value.type != type_):
            raise RequestError(f"there is an input @{key} of type {value.type} already")
        value = self.graph.inputs[key] = value or Value(type_, self.graph, key=key)
        if linear:
            self._linear.add(value)
        return value

    def finish(self, outputs: Sequence[Value | None]) -> Graph:
        """Ends the graph with its outputs, and gives it to the view."""
        self.graph.outputs = list(outputs)
        return self.view.built(self.graph)

    def finish_linear(
        self, outputs: Sequence[Value | None], input_of: Sequence[Value], output_of: Sequence[Value]
    ) -> Graph:
        """Ends a linear graph; `outputs` are aligned with `output_of`, None where the output is inactive."""
        graph = self.graph
        graph.linear, graph.input_of, graph.output_of = True, tuple(input_of), tuple(output_of)
        return self.finish(outputs)

    # ---- emitting ---------------------------------------------------------------------------------------------

    def emit_all(
        self,
        name: str,
        operands: Sequence[Any],
        types: Sequence[Any],
        attributes: Mapping[str, Any] | None = None,
        regions: Sequence[Callable[[Any], None]] = (),
    ) -> tuple[Any, ...]:
        """Emits an op, each region filled by a function of its own, which reads nothing outside; its results.

        The same functions make the same regions, and so are called once.
        """
        source = self.view.holder(name, tuple(regions), self.location) if regions else None
        op = Definition(name, tuple(operands), self.graph, None, attributes, source, (), self.location)
        return self._emit(op, types)

    def emit(
        self, name: str, operands: Sequence[Any], type_: Any, attributes: Mapping[str, Any] | None = None
    ) -> Any:
        """Emits an op of one result and no regions; its result."""
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
        self, op: Definition, replaced: Mapping[int, Any], attributes: Mapping[str, Any] | None = None
    ) -> tuple[Any, ...]:
        """Emits an op again, regions and attributes included, with some operands replaced; its results."""
        operands = list(op.operands)
        for i, x in replaced.items():
            operands[i] = x
        given = {**(op.given or {}), **attributes} if attributes else op.given
        if op.source is None and len(op.results) == 1:
            return (self.emit(op.name, operands, op.results[0].type, given),)
        again = Definition(
            op.name, tuple(operands), self.graph, None, given, op.source, op.captures, self.location
        )
        return self._emit(again, [y.type for y in op.results])

    def copy(
        self, op: Definition, operands: tuple[Any, ...], captures: tuple[Any, ...] = ()
    ) -> tuple[Any, ...]:
        """Copies an op of another graph, its active mask included, onto values of this one; its results."""
        graph = self.graph
        copy = Definition(op.name, operands, graph, op.active, op.given, op.source, captures, op.location)
        copy.results = tuple([Value(y.type, graph, copy) for y in op.results])
        graph.definitions.append(copy)
        return copy.results

    def sum(self, terms: Iterable[Any]) -> Any:
        """The sum of values of one type, at least one; a single one is itself."""
        return reduce(self.add, terms)

    def _emit(self, definition: Definition, types: Sequence[Any]) -> tuple[Any, ...]:
        graph = self.graph
        definition.active = self._mask(definition.operands)
        results = definition.results = tuple([Value(type_, graph, definition) for type_ in types])
        graph.definitions.append(definition)
        if definition.active is not None:
            self._linear.update(results)
        return results

    def _mask(self, operands: tuple[Any, ...]) -> tuple[bool, ...] | None:
        """Which operands are linear; None where none is."""
        linear = self._linear
        if len(operands) == 1:
            return (True,) if operands[0] in linear else None
        if len(operands) == 2:
            x, y = operands
            return _OF_TWO[x in linear][y in linear]
        mask = tuple(map(linear.__contains__, operands))
        return mask if True in mask else None

    # ---- the vector space, which an op set supplies -----------------------------------------------------------

    @staticmethod
    def tangent_type(type_: Any) -> Any | None:
        """The type of a tangent of a value of that type; None where there is none, as for integers."""
        raise NotImplementedError

    def add(self, x: Any, y: Any) -> Any:
        """x + y."""
        raise NotImplementedError

    def zero(self, type_: Any) -> Any:
        """The zero of a type."""
        raise NotImplementedError

    def zeros_like(self, x: Any) -> Any:
        """The zero of a value's type, and of its sizes where the type leaves them open."""
        return self.zero(x.type)

    def multiply(self, x: Any, y: Any) -> Any:
        """x * y, each entry by each."""
        raise NotImplementedError

    def conj(self, x: Any) -> Any:
        """The complex conjugate; the identity on real types."""
        raise NotImplementedError
