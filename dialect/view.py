"""The resolved view: graphs of any number of modules, with every reference followed to its definition.

Nothing is copied. Graphs are read when a reference first leads to them, so a view over many files costs what is used.
"""

from collections.abc import Callable, Iterable
from typing import Any

from torch_mlir import ir

from tiduc.dialect.errors import ResolveError
from tiduc.dialect.graph import Definition, Graph, captured, operations


class View:
    """Graphs by symbol name; values, by reference and by key, with their definitions.

    `module` is where stages put new graphs. `search` finds a graph's op and
    module by name when no module at hand holds it.
    """

    def __init__(self, module: Any, search: Callable[[str], Any | None] | None = None) -> None:
        self.module = module
        self.graphs: dict[str, Graph] = {}
        self.definitions: dict[Any, Definition] = {}
        self.inputs: dict[str, Any] = {}
        self._search = search
        self._input: dict[Any, tuple[Graph, str]] = {}
        self._following: dict[Any, Any] = {}
        self._indexed: set[str] = set()
        self._unread: list[tuple[Graph, list[tuple[Any, str]]]] = []
        self._fresh: dict[str, int] = {}

    # ---- what leads where -------------------------------------------------------------------------------------

    def add(self, graph: Graph) -> Graph:
        """Takes in a graph; `ResolveError` where another one has its name."""
        if graph.name in self.graphs:
            other = self.graphs[graph.name].op
            raise ResolveError(
                f"symbol @{graph.name} is ambiguous: also defined at {other.location}", graph.op.location
            )
        self.graphs[graph.name] = graph
        for key, value in graph.inputs.items():
            first = self.inputs.setdefault(key, value)
            if first.type != value.type:
                raise ResolveError(
                    f"input @{key} is {value.type} in @{graph.name}, but {first.type} elsewhere", graph.op.location
                )
            self._input[value] = graph, key
            self._following[value] = first
        return graph

    def graph(self, name: str, location: Any = None) -> Graph:
        """The graph of that name; `ResolveError` where there is none."""
        found = self.graphs.get(name)
        if found is None and self._search is not None and (held := self._search(name)) is not None:
            found = self.add(Graph(*held))
        if found is None:
            raise ResolveError(f"unknown graph @{name}", location)
        return found

    def value(self, ref: Any, location: Any = None) -> Any:
        """The value that `@graph::@name` means, followed to its definition."""
        graph_name, name = ref.value if isinstance(ref, ir.SymbolRefAttr) else ref
        value = self.follow(self._named(graph_name, name, location))
        self._read_indexed()
        return value

    def values(self, wanted: Iterable[Any]) -> list[Any]:
        """Values, or references to values, each followed to its definition."""
        return [self.follow(x) if isinstance(x, ir.Value) else self.value(x) for x in wanted]

    def input(self, key: str) -> Any:
        """The input of that key; `ResolveError` where no graph has one."""
        if key not in self.inputs:
            raise ResolveError(f"unknown input @{key}")
        return self.follow(self.inputs[key])

    def input_key(self, value: Any) -> str | None:
        """The key of an input; None for any other value."""
        entry = self._input.get(value)
        return entry[1] if entry else None

    def follow(self, value: Any) -> Any:
        """The definition's own value: past externals, and past inputs of the same key."""
        following = self._following
        chain: list[Any] = []
        while (target := following.get(value, value)) != value:
            if isinstance(target, _Pending):
                if value in chain:
                    raise ResolveError(f"reference {target.ref} leads back to itself", target.location)
                chain.append(value)
                target = self._target(target, value)
            value = target
        for passed in chain:
            following[passed] = value
        return value

    def reference(self, value: Any) -> Any:
        """The reference `@graph::@name` of a value, which gets a name where it has none."""
        entry = self._input.get(value)
        if entry is not None:
            return ir.SymbolRefAttr.get([entry[0].name, entry[1]])
        graph = self.definitions[value].graph
        return ir.SymbolRefAttr.get([graph.name, graph.name_of(value)])

    def bind(self, key: str, value: Any) -> None:
        """Gives an input a value, which stands in its place from now on.

        `ResolveError` where there is no such input, it has a value already, or the types differ.
        """
        bound = self.input(key)
        if bound in self.definitions:
            raise ResolveError(f"input @{key} is bound a second time")
        if bound.type != value.type:
            raise ResolveError(f"binds {value.type} to input @{key} of type {bound.type}")
        self.defined(Definition(None, "tidu.bind", (value,), (bound,), self._input[bound][0]))

    def fresh(self, prefix: str) -> str:
        """A graph name no graph of the view or of its module has: `L0`, `L1`, ..."""
        number = self._fresh.get(prefix, 0)
        while f"{prefix}{number}" in self.graphs or self._found(f"{prefix}{number}"):
            number += 1
        self._fresh[prefix] = number + 1
        return f"{prefix}{number}"

    # ---- reading graphs ---------------------------------------------------------------------------------------

    def read(self, graph: Graph) -> None:
        """Makes the definitions of a graph's ops, and of the graphs they refer to, once."""
        self._index(graph)
        self._read_indexed()

    def defined(self, definition: Definition) -> None:
        """Takes in the definition of an op just made by a builder."""
        for result in definition.results:
            self.definitions[result] = definition

    def built(self, graph: Graph) -> Graph:
        """Takes in a graph whose definitions a builder has already given."""
        self._indexed.add(graph.name)
        return self.add(graph)

    def definition(self, value: Any) -> Definition | None:
        """The op that defines a followed value; None for an input."""
        return self.definitions.get(value)

    def schedule(self, wanted: Iterable[Any]) -> list[Definition]:
        """The definitions that the wanted (followed) values need, each after what it reads. Linear, iterative."""
        definitions = self.definitions
        order: list[Definition] = []
        state: dict[Definition, bool] = {}  # False: its operands are under way; True: it is in the order
        stack = [d for x in wanted if (d := definitions.get(x)) is not None]
        stack.reverse()
        while stack:
            definition = stack[-1]
            done = state.get(definition)
            if done is None:
                state[definition] = False
                for x in definition.operands + definition.captures:
                    before = definitions.get(x)
                    if before is not None and (placed := state.get(before)) is not True:
                        if placed is False:
                            raise ResolveError("a value depends on itself through its references", definition.location)
                        stack.append(before)
            else:
                stack.pop()
                if not done:
                    state[definition] = True
                    order.append(definition)
        return order

    def _index(self, graph: Graph) -> None:
        """Notes a graph's names and references, without following any."""
        if graph.name in self._indexed:
            return
        self._indexed.add(graph.name)
        own = []
        for op in operations(graph.block):
            name = op.name
            if name == "tidu.name":
                graph.add_name(op.operands[0], ir.StringAttr(op.attributes["sym_name"]).value)
            elif name == "tidu.external":
                self._following[op.results[0]] = _Pending(op.attributes["ref"], op.location)
            elif name != "tidu.return":
                own.append((op, name))
        self._unread.append((graph, own))

    def _read_indexed(self) -> None:
        # A loop and not a recursion: graphs may refer to one another in a chain of any length. References are
        # followed here rather than on use, so that the stages see only definitions.
        following, follow = self._following, self.follow
        while self._unread:
            graph, own = self._unread.pop()
            linear = set(graph.inputs.values()) if graph.linear else set()
            for op, name in own:
                operands = tuple([follow(x) if x in following else x for x in op.operands])
                captures = tuple(map(follow, captured(op))) if len(op.regions) else ()
                results = tuple(op.results)
                active = None
                if not linear.isdisjoint(operands):
                    active = tuple([x in linear for x in operands])
                    linear.update(results)
                definition = Definition(op, name, operands, results, graph, captures, active)
                graph.definitions.append(definition)
                self.defined(definition)

    def _found(self, name: str) -> bool:
        return self._search is not None and self._search(name) is not None

    def _target(self, pending: "_Pending", value: Any) -> Any:
        target = self._named(*pending.ref.value, pending.location)
        if target.type != value.type:
            raise ResolveError(
                f"reference {pending.ref} has type {value.type}, but the value is {target.type}", pending.location
            )
        return target

    def _named(self, graph_name: str, name: str, location: Any) -> Any:
        graph = self.graph(graph_name, location)
        self._index(graph)
        value = graph.inputs.get(name)
        if value is None:
            value = graph.names.get(name)
        if value is None:
            raise ResolveError(f"unknown value @{name} in graph @{graph_name}", location)
        return value


class _Pending:
    """A reference not yet followed."""

    __slots__ = ("location", "ref")

    def __init__(self, ref: Any, location: Any) -> None:
        self.ref = ref
        self.location = location
