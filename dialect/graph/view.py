"""`View` gives access to the graphs of any number of modules, and resolves the references between the graphs.

Modules are not copied. A graph is read when a reference first leads to it, so a view over many files reads only the
graphs that are used. Several threads may use one view, because each method that changes the view or reads a graph holds
a lock (`turns.py`).
"""

from collections.abc import Callable, Iterable
from typing import Any

from torch_mlir import ir

from tiduc.dialect.errors import ResolveError
from tiduc.dialect.graph.check_control import check_calls, check_control
from tiduc.dialect.graph.graph import Definition, Graph, Value, captured, definition_of, operations
from tiduc.dialect.graph.write import write_graph
from tiduc.dialect.mlir.context import stage
from tiduc.dialect.ops.control_ops import GRAPH_CALLS
from tiduc.dialect.ops.ir_types import AnyModule, IrOp
from tiduc.dialect.ops.verify import ACTIVE_OUTPUTS, INPUT_OF, OUTPUT_OF, TERMINATOR
from tiduc.dialect.turns import in_turn

Reference = ir.SymbolRefAttr | tuple[str, str]
"""A reference to a value: the attribute `@graph::@name`, or a pair of the graph's name and the value's name."""

BINDING = "tidu.bind"
"""The op name in the `Definition` that a bound input has. The operand of this `Definition` replaces the input."""


class View:
    """Finds graphs by symbol name, and values by reference or by input key.

    If the view does not have a graph, it calls `search` with the graph's name. `search` returns the `tidu.graph` op and
    its module, or None if there is no such graph.
    """

    def __init__(
        self, module: AnyModule, search: Callable[[str], tuple[IrOp, AnyModule] | None] | None = None
    ) -> None:
        self.graphs: dict[str, Graph] = {}
        self.inputs: dict[str, Value] = {}
        self.caches: dict[Any, dict[Any, Any]] = {}  # for `dialect/graph/cache.py`
        self._scratch = ir.Module.create()  # holds the regions of ops that rules emit
        self._holders: dict[Any, Any] = {}
        self._module = module
        self._search = search
        self._unread: list[tuple[Graph, list[tuple[Definition, Any]], dict[Any, Any]]] = []
        self._unchecked: list[tuple[Graph, Definition]] = []  # calls that `_check_read` must check
        self._is_checking = False
        self._acyclic: set[str] = set()
        self._outputs: dict[str, list[Any]] = {}  # for each graph whose ops `_index` has read: its outputs
        self._unwritten: dict[Graph, None] = {}
        self._unwritten_bindings: list[tuple[str, Value]] = []
        self._fresh: dict[str, int] = {}
        # The prefix G of each input key G.x. `fresh` does not return such a prefix as the name of a graph.
        self._key_owners: set[str] = set()

    # ---- these methods find, add and write graphs -------------------------------------------------------------

    @property
    def module(self) -> Any:
        """The `ir.Module` to which the view writes. Reading this property calls `write`."""
        return self.write()

    @stage
    def write(self) -> AnyModule:
        """Writes new graphs, names and bindings to the module, and returns the module."""
        for graph in self._unwritten:
            write_graph(graph, self._module)
        self._unwritten.clear()
        for key, value in self._unwritten_bindings:
            attributes = {"input": ir.FlatSymbolRefAttr.get(key), "value": self.reference(value)}
            ir.Operation.create(BINDING, attributes=attributes, ip=ir.InsertionPoint(self._module.body))
        self._unwritten_bindings.clear()
        for graph in self.graphs.values():
            graph.write_names()
        return self._module

    @property
    def module_attributes(self) -> dict[str, Any]:
        """The attributes of the module."""
        attributes = self._module.operation.attributes
        return {name: attributes[name] for name in attributes}

    @in_turn
    def add(self, op: IrOp, module: AnyModule) -> Graph:
        """Adds a `tidu.graph` of a module, and returns its `Graph`. The body of the graph is read when it is needed.

        Raises `ResolveError` if another graph has the same name, or if an input with an equal key has another type.
        """
        graph = Graph(ir.StringAttr(op.attributes["sym_name"]).value, op.location)
        graph.op, graph.module = op, module
        keys = [key.value for key in op.attributes["inputs"]]
        for key, argument in zip(keys, op.regions[0].blocks[0].arguments, strict=True):
            graph.inputs[key] = Value(argument.type, graph, key=key)
        graph.linear = INPUT_OF in op.attributes
        own = ("sym_name", "inputs", INPUT_OF, OUTPUT_OF, ACTIVE_OUTPUTS)
        graph.attributes = {name: op.attributes[name] for name in op.attributes if name not in own}
        return self._add(graph)

    @in_turn
    def built(self, graph: Graph) -> Graph:
        """Adds a graph that a builder has built, and returns it. `write` later writes it to the view's module."""
        graph.module = self._module
        self._outputs[graph.name] = []
        self._unwritten[graph] = None
        return self._add(graph)

    @in_turn
    def discard(self, graph: Graph) -> None:
        """Removes a graph that a builder created and that is not written yet. Its values stay valid in other graphs."""
        del self.graphs[graph.name], self._outputs[graph.name]
        del self._unwritten[graph]
        for key, x in graph.inputs.items():
            if x.graph is graph:
                del self.inputs[key]

    @in_turn
    def graph(self, name: str, location: ir.Location | None = None) -> Graph:
        """The graph of this name, whose body is read if necessary. Raises `ResolveError` for an unknown name."""
        graph = self._find(name, location)
        self._index(graph)
        self._read_indexed()
        return graph

    @in_turn
    def fresh(self, prefix: str) -> str:
        """Returns a new name for a graph: the prefix and a number, such as `L0` or `L1` for the prefix `L`.

        No graph in the view and no graph that `search` finds has this name. It is not the prefix of an input key.
        """
        number = self._fresh.get(prefix, 0)
        while (
            (name := f"{prefix}{number}") in self.graphs or name in self._key_owners or self._is_found(name)
        ):
            number += 1
        self._fresh[prefix] = number + 1
        return name

    @in_turn
    def holder(
        self, name: str, fills: tuple[Callable[[ir.Region], None], ...], location: ir.Location
    ) -> ir.Operation:
        """Creates the regions of an op that a rule emits. Returns an op, in a scratch module, that contains them.

        Each function in `fills` fills one region. Calls with equal `name` and `fills` return the same op.
        """
        held = self._holders.get((name, fills))
        if held is None:
            ip = ir.InsertionPoint(self._scratch.body)
            held = ir.Operation.create(name, regions=len(fills), loc=location, ip=ip)
            for fill, region in zip(fills, held.regions, strict=True):
                fill(region)
            self._holders[name, fills] = held
        return held

    # ---- these methods find, bind and order values ------------------------------------------------------------

    @in_turn
    def value(self, ref: Reference, location: ir.Location | None = None) -> Value:
        """The value to which a reference leads. Raises `ResolveError` if there is no such value."""
        graph_name, name = _names(ref)
        value = self._follow(self._value_of_name(graph_name, name, location))
        self._read_indexed()
        return value

    def values(self, wanted: Iterable[Value | Reference]) -> list[Value]:
        """Returns the list `wanted`, in which each reference is replaced by the value to which it leads."""
        return [x if isinstance(x, Value) else self.value(x) for x in wanted]

    def input(self, key: str) -> Value:
        """The input with this key. Raises `ResolveError` if no graph has such an input."""
        if key not in self.inputs:
            there = ", ".join(f"@{other}" for other in self.inputs) or "none"
            raise ResolveError(f"unknown input @{key}; the inputs are {there}")
        return self.inputs[key]

    @stage
    def reference(self, value: Value) -> ir.SymbolRefAttr:
        """The reference `@graph::@name` of a value. A value without a name receives a new one."""
        return value.reference

    @in_turn
    def bind(self, key: str, value: Value, location: ir.Location | None = None) -> None:
        """Binds an input to a value: from now on, ops that read the input read the value.

        Raises `ResolveError` if no graph has an input with this key, if the input is already bound, or if the types
        differ.
        """
        self.set_binding(key, value, location)
        self._unwritten_bindings.append((key, value))

    @in_turn
    def set_binding(self, key: str, value: Value, location: ir.Location | None = None) -> None:
        """Binds an input as `bind` does, but `write` emits no `tidu.bind`, because the module contains one already."""
        bound = self.input(key)
        if bound.definition is not None:
            raise ResolveError(f"input @{key} is bound a second time", location)
        if bound.type != value.type:
            raise ResolveError(f"binds {value.type} to input @{key} of type {bound.type}", location)
        definition = Definition(BINDING, (value,), bound.graph)
        definition.results = (bound,)
        bound.definition = definition

    def schedule(
        self, wanted: Iterable[Value], given: Iterable[Value] = (), inputs: set[Value] | None = None
    ) -> list[Definition]:
        """The definitions that compute the wanted values, in topological order. Takes linear time, without recursion.

        The values in `given` are assumed to be known, so definitions that only they need are omitted. Adds the inputs
        that these definitions read to the set `inputs`. Raises `ResolveError` if a value depends on itself.
        """
        order: list[Definition] = []
        given, free = set(given), inputs if inputs is not None else set()
        state: dict[Definition, bool] = {}  # False while the operands are visited, True afterwards
        stack = [x.definition for x in wanted if x.definition is not None and x not in given]
        stack.reverse()
        while stack:
            definition = stack[-1]
            done = state.get(definition)
            if done is None:
                state[definition] = False
                waiting = len(stack)
                for x in (
                    definition.operands + definition.captures if definition.captures else definition.operands
                ):
                    before = x.definition
                    if before is None:
                        free.add(x)
                    elif (placed := state.get(before)) is not True and x not in given:
                        if placed is False:
                            raise ResolveError(
                                "a value depends on itself through its references", definition.location
                            )
                        stack.append(before)
                if len(stack) == waiting:
                    stack.pop()
                    state[definition] = True
                    order.append(definition)
            else:
                stack.pop()
                if not done:
                    state[definition] = True
                    order.append(definition)
        return order

    # ---- graphs are read from MLIR ----------------------------------------------------------------------------

    def _add(self, graph: Graph) -> Graph:
        if graph.name in self.graphs:
            other = self.graphs[graph.name].location
            raise ResolveError(f"symbol @{graph.name} is ambiguous: also defined at {other}", graph.location)
        self.graphs[graph.name] = graph
        for key, value in graph.inputs.items():
            self._key_owners.add(key.partition(".")[0])
            first = self.inputs.setdefault(key, value)
            if first is not value and first.type != value.type:
                message = (
                    f"input @{key} is {value.type} in @{graph.name}, but {first.type} in @{first.graph.name}"
                )
                raise ResolveError(message, graph.location)
            graph.inputs[key] = first
        return graph

    def _is_found(self, name: str) -> bool:
        return self._search is not None and self._search(name) is not None

    def _find(self, name: str, location: ir.Location | None) -> Graph:
        graph = self.graphs.get(name)
        if graph is None and self._search is not None and (held := self._search(name)) is not None:
            graph = self.add(*held)
        if graph is None:
            raise ResolveError(f"unknown graph @{name}", location)
        return graph

    def _index(self, graph: Graph) -> None:
        """Creates the definitions of a graph's ops and records the names of its values. Follows no references."""
        if graph.name in self._outputs:
            return
        block = graph.op.regions[0].blocks[0]
        values: dict[Any, Any] = dict(zip(block.arguments, graph.inputs.values(), strict=True))
        read: list[tuple[Definition, Any]] = []
        outputs: list[Any] = []
        for op in operations(block):
            name = op.name
            if name == "tidu.name":
                graph.add_name(ir.StringAttr(op.attributes["sym_name"]).value, values[op.operands[0]])
            elif name == "tidu.external":
                values[op.result] = _Pending(op.attributes["ref"], op)
            elif name == TERMINATOR:
                outputs = list(op.operands)
            else:
                definition = definition_of(op, graph)
                values.update([(y.mlir, y) for y in definition.results])
                graph.definitions.append(definition)
                read.append((definition, op))
        self._outputs[graph.name] = outputs
        self._unread.append((graph, read, values))

    def _read_indexed(self) -> None:
        # This is a loop and not a recursion, because graphs may refer to one another in a chain of any length. All
        # references are followed here, so that stages see only definitions.
        follow = self._follow
        while self._unread:
            graph, read, values = self._unread.pop()
            active = set(graph.inputs.values()) if graph.linear else set()
            for definition, op in read:
                definition.operands = tuple([follow(values[x]) for x in op.operands])
                if definition.source is not None:
                    definition.captures = tuple([follow(values[x]) for x in captured(op)])
                if not active.isdisjoint(definition.operands):
                    definition.active = tuple([x in active for x in definition.operands])
                    active.update(definition.results)
            outputs = [follow(values[x]) for x in self._outputs[graph.name]]
            graph.outputs = list(outputs)
            if graph.linear:
                attributes = graph.op.attributes
                given = iter(outputs)
                graph.outputs = [next(given) if flag else None for flag in attributes[ACTIVE_OUTPUTS]]
                graph.input_of, graph.output_of = (
                    self._followed(attributes[name], graph) for name in (INPUT_OF, OUTPUT_OF)
                )
            for name, x in graph.names.items():
                if not isinstance(x, Value):
                    graph.names[name] = follow(x)
            self._unchecked += [(graph, op) for op in graph.definitions if op.name in GRAPH_CALLS]
        self._check_read()

    def _check_read(self) -> None:
        """Checks the ops that call graphs, in all graphs that have been read.

        Uses a work list, because a check may read further graphs, and the ops of these must be checked, too.
        """
        if self._is_checking or not self._unchecked:
            return
        self._is_checking = True
        try:
            callers: dict[Graph, None] = {}
            while self._unchecked:
                graph, op = self._unchecked.pop()
                callers[graph] = None
                check_control(self, op)
            for graph in callers:
                if graph.name not in self._acyclic:
                    check_calls(self, graph, self._acyclic)
        finally:
            self._is_checking = False

    def _followed(self, references: Iterable[Reference], graph: Graph) -> tuple[Value, ...]:
        return tuple(self._follow(self._value_of_name(*_names(ref), graph.location)) for ref in references)

    def _follow(self, x: Value) -> Value:
        """Returns the value to which a `_Pending` x leads, directly or through other references.

        Returns x if it is a `Value`.
        """
        passed: list[_Pending] = []
        while not isinstance(x, Value):
            if x in passed:
                raise ResolveError(f"reference {x.ref} leads back to itself", x.op.location)
            passed.append(x)
            x = x.target if x.target is not None else self._value_of_name(*_names(x.ref), x.op.location)
        for pending in passed:
            if pending.target is None and x.type != pending.op.result.type:
                message = (
                    f"reference {pending.ref} has type {pending.op.result.type}, but the value is {x.type}"
                )
                raise ResolveError(message, pending.op.location)
            pending.target = x
        return x

    def _value_of_name(self, graph_name: str, name: str, location: ir.Location | None) -> Value:
        graph = self._find(graph_name, location)
        self._index(graph)
        value = graph.inputs.get(name) or graph.names.get(name)
        if value is None:
            raise ResolveError(f"unknown value @{name} in graph @{graph_name}", location)
        return value


def _names(ref: Reference) -> tuple[str, str]:
    """The pair of the graph's name and the value's name in a reference."""
    graph_name, name = ref.value if isinstance(ref, ir.SymbolRefAttr) else ref
    return graph_name, name


class _Pending:
    """The reference of a `tidu.external` op. `target` is the value that it leads to, or None before it is followed."""

    __slots__ = ("op", "ref", "target")

    def __init__(self, ref: ir.SymbolRefAttr, op: IrOp) -> None:
        self.ref = ref
        self.op = op
        self.target: Value | None = None
