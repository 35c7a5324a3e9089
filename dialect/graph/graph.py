"""Graphs as Python records: values, the operations that define them, and the conversion of records to MLIR.

A `tidu.graph` is read into these records once. Passes then work on Python objects, which are much cheaper than MLIR
operations. A new graph is written as MLIR only when the module is printed or lowered. Most intermediate graphs of a
derivative, such as a JVP that is then transposed, are never written.
"""

import functools
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torch_mlir import ir

from tiduc.dialect.ops.control_ops import CUSTOM_CALL, GRAPH_CALLS, TARGET
from tiduc.dialect.ops.ir_types import Attributes, IrOp, IrValue
from tiduc.dialect.ops.verify import ACTIVE


class Value:
    """A value of a graph: an input, which has a key, or a result of an op, which has a definition.

    If several graphs of a view have inputs with equal keys, these inputs are one `Value`. `mlir` is the `ir.Value` that
    the value was read from or written to, and None before.
    """

    __slots__ = ("definition", "graph", "key", "mlir", "type")

    def __init__(
        self, type_: ir.Type, graph: "Graph", definition: "Definition | None" = None, key: str | None = None
    ):
        self.type: Any = type_
        self.graph = graph
        self.definition = definition
        self.key = key
        self.mlir: Any = None

    @property
    def location(self) -> Any:
        return self.definition.location if self.definition is not None else self.graph.location

    @property
    def is_constant(self) -> bool:
        """Whether the value is the result of an op without operands and regions, such as a constant or an iota."""
        return self.definition is not None and not self.definition.operands and self.definition.source is None

    @property
    def reference(self) -> ir.SymbolRefAttr:
        """The reference `@graph::@name`. A value without a name receives a new one."""
        name = self.key if self.key is not None else self.graph.name_of(self)
        return ir.SymbolRefAttr.get([self.graph.name, name])

    def __repr__(self) -> str:
        name = self.key if self.key is not None else self.definition.name if self.definition else "?"
        return f"<value {name} : {self.type} of @{self.graph.name}>"


class Definition:
    """One operation of a graph. Rules use it like an `ir.Operation`, so it has the most important properties of one.

    `operands` are values of any graph, never references. `captures` are the values that the op's regions read from
    outside. `active` flags the operands that depend on the inputs of a linear graph; it is None if no operand does.

    `source` is the `ir.Operation` that holds the regions. It is None for an op without regions; then `given` holds all
    attributes. If the op was read from MLIR, the source is the original op, and `given` overrides the source's
    attributes. If a rule emitted the op, the source only holds the regions; the op then has the location of the op
    that the rule differentiates.
    """

    __slots__ = ("active", "captures", "given", "graph", "location", "name", "operands", "results", "source")

    def __init__(
        self,
        name: str,
        operands: tuple[Value, ...],
        graph: "Graph",
        active: tuple[bool, ...] | None = None,
        given: Attributes | None = None,
        source: IrOp | None = None,
        captures: tuple[Value, ...] = (),
        location: ir.Location | None = None,
    ) -> None:
        self.name = name
        self.operands = operands
        self.graph = graph
        self.active = active
        self.given = given
        self.source: Any = source
        self.captures = captures
        self.location = location if location is not None else ir.Location.unknown()
        self.results: tuple[Value, ...] = ()

    @property
    def result(self) -> Value:
        """The result of an op that has exactly one result."""
        (result,) = self.results
        return result

    @property
    def reads(self) -> tuple[Value, ...]:
        """All values that the op reads: its operands, and the values that its regions capture."""
        return self.operands + self.captures

    @property
    def attributes(self) -> Mapping[str, Any]:
        """The op's attributes. If the op has a source and `given` is empty, this is the source's own attribute map."""
        if self.source is None:
            return self.given or {}
        if not self.given:
            return self.source.attributes  # type: ignore[no-any-return]
        return {**{name: self.source.attributes[name] for name in self.source.attributes}, **self.given}

    @property
    def regions(self) -> Any:
        return self.source.regions if self.source is not None else ()

    def reading(self, operands: tuple[Value, ...], captures: tuple[Value, ...] = ()) -> "Definition":
        """Returns a copy of the definition with other operands and captures, but the same `Value`s as results."""
        op = Definition(
            self.name, operands, self.graph, self.active, self.given, self.source, captures, self.location
        )
        op.results = self.results
        return op

    def instead(
        self,
        name: str,
        operands: tuple[Value, ...],
        given: Mapping[str, ir.Attribute] | None = None,
        of: Sequence[int] | None = None,
    ) -> "Definition":
        """Returns a new op to replace this op, which must have one result. The new op has one result of the same type.

        Operand i of the new op gets the active flag of operand `of[i]` of this op; by default, that of operand i.
        """
        active = self.active if operands else None
        if active is not None and of is not None:
            active = tuple([active[i] for i in of])
            active = active if True in active else None
        op = Definition(name, operands, self.graph, active, given, None, (), self.location)
        op.results = (Value(self.result.type, self.graph, op),)
        return op

    def create(
        self,
        operands: Sequence[IrValue],
        captures: Sequence[IrValue],
        ip: ir.InsertionPoint,
        masks: bool = True,
    ) -> Any:
        """Creates and returns the `ir.Operation`, with these `ir.Value`s as operands and captures.

        With `masks`, the active mask becomes an attribute of the operation.
        """
        given = self.given
        if masks and self.active:
            given = {**(given or {}), ACTIVE: mask(self.active)}
        if self.source is not None:
            return self._with_regions(operands, captures, ip, given)
        name, results = self.name, self.results
        types = [results[0].type] if len(results) == 1 else [y.type for y in results]
        if name in GRAPH_CALLS:
            name, given = CUSTOM_CALL, {TARGET: ir.StringAttr.get(name), **(given or {})}
        return ir.Operation.create(name, types, operands, given, None, 0, self.location, ip)

    def _with_regions(
        self,
        operands: Sequence[IrValue],
        captures: Sequence[IrValue],
        ip: ir.InsertionPoint,
        given: Mapping[str, ir.Attribute] | None,
    ) -> Any:
        source, types = self.source, [y.type for y in self.results]
        copy = source.clone(ip)
        if len(source.results) != len(types):  # a rule emitted the op, so the source only holds the regions
            regions = len(source.regions)
            op = ir.Operation.create(self.name, types, operands, given, None, regions, self.location, ip)
            _move_regions(copy, op)
            return op
        mine, attributes = copy.operands, copy.attributes
        for i, x in enumerate(operands):
            mine[i] = x
        if ACTIVE in attributes:
            del attributes[ACTIVE]
        for name, value in (given or {}).items():
            attributes[name] = value
        if captures:
            replace_captured(copy, captures)
        return copy


def definition_of(op: IrOp, graph: "Graph") -> Definition:
    """Returns a `Definition` for an `ir.Operation`. The caller must set its operands, captures and active mask."""
    name, attributes, source = sys.intern(op.name), op.attributes, op if len(op.regions) else None
    given = None
    if source is None and len(attributes):
        given = {key: attributes[key] for key in attributes if key != ACTIVE}
        if name == CUSTOM_CALL and (target := str(given[TARGET].value)) in GRAPH_CALLS:
            name = target
            del given[TARGET]
    definition = Definition(name, (), graph, None, given, source, (), op.location)
    results = []
    for y in op.results:
        value = Value(_shared(y.type), graph, definition)
        value.mlir = y
        results.append(value)
    definition.results = tuple(results)
    return definition


@functools.cache
def _shared(type_: ir.Type) -> ir.Type:
    """Returns the same Python object for all equal types, so that dictionary look-ups need not compare types."""
    return type_


def _move_regions(holder: IrOp, op: IrOp) -> None:
    """Moves the regions of `holder` to `op`, and erases `holder`."""
    for own, region in zip(op.regions, holder.regions, strict=True):
        for block in list(region.blocks):
            block.append_to(own)
    holder.operation.erase()


class Graph:
    """A graph as Python records. `op` is the `tidu.graph` operation. It is None while the graph exists only as records.

    A `linear` graph has tangents or cotangents as inputs. `input_of` and `output_of` are the primal values that belong
    to its inputs and outputs. `outputs` has one entry for each value in `output_of`; it is None if the output is
    inactive. If `linearize` created the graph in this process, `tangent_of` maps primal values to their tangents.
    """

    def __init__(self, name: str, location: ir.Location | None = None) -> None:
        self.name = name
        self.location = location or ir.Location.unknown()
        self.inputs: dict[str, Value] = {}
        self.outputs: list[Value | None] = []
        self.definitions: list[Definition] = []
        self.attributes: dict[str, Any] = {}
        self.linear = False
        self.input_of: tuple[Any, ...] = ()
        self.output_of: tuple[Any, ...] = ()
        self.tangent_of: dict[Value, Value] = {}
        self.names: dict[str, Any] = {}
        self.op: Any = None
        self.module: Any = None  # stored because an op does not keep its module alive
        self.extends: Graph | None = None  # the graph of which this is a copy with further outputs
        self.held: tuple[Any, ...] = ()  # what must live as long as the graph, such as views
        self.sizes: dict[
            tuple[Value, int], Any
        ] = {}  # caches sizes of dimensions for `dialect/shapes/origins.py`
        self.asserted: dict[tuple[Value, int], Any] | None = (
            None  # sizes from JAX's shape assertions; None before these are read
        )
        self._primal_of: dict[Value, Value] = {}
        self._name_of: dict[Value, str] = {}
        self._unwritten_names: list[tuple[str, Value]] = []
        self._fresh = 0

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of the inputs, in the order of the inputs."""
        return tuple(self.inputs)

    def primal_of(self, value: Value) -> Value | None:
        """The primal value whose tangent or cotangent is `value`.

        None if `value` is not an input of a linear graph, or if the graph records no primal value for the input.
        """
        if value.key is None or not self.input_of:
            return None
        if len(self._primal_of) != len(self.input_of):
            self._primal_of = dict(zip(self.inputs.values(), self.input_of, strict=False))
        return self._primal_of.get(value)

    @property
    def private(self) -> bool:
        """Whether the graph exists only to be called by other graphs."""
        return "sym_visibility" in self.attributes

    def name_of(self, value: Value, preferred: str = "") -> str:
        """The symbol name of a value that an op of this graph computes.

        A value without a name receives the preferred name, or a fresh one.
        """
        name = self._name_of.get(value)
        if name is None:
            name = preferred
            while not name or name in self.names or name in self.inputs:
                name = f"v{self._fresh}"
                self._fresh += 1
            self.add_name(name, value)
            self._unwritten_names.append((name, value))
        return name

    def add_name(self, name: str, value: Value) -> None:
        """Records a symbol name for a value. `value` may also be a reference that is not resolved yet."""
        self.names[name] = value
        if isinstance(value, Value):
            self._name_of.setdefault(value, name)

    def write_names(self) -> None:
        """Writes `tidu.name` ops for the names that values received since the last call of this method.

        A `tidu.name` op has the named value as its operand. When an MLIR pass replaces the value, it also replaces this
        operand, so that the name then belongs to the new value.
        """
        if not self._unwritten_names:
            return
        ip = ir.InsertionPoint.at_block_terminator(self.op.regions[0].blocks[0])
        for name, value in self._unwritten_names:
            attributes = {"sym_name": ir.StringAttr.get(name)}
            ir.Operation.create("tidu.name", operands=[value.mlir], attributes=attributes, ip=ip)
        self._unwritten_names.clear()


@functools.cache
def mask(active: tuple[bool, ...]) -> ir.DenseBoolArrayAttr:
    """The active mask `active` as an attribute `array<i1: ...>`."""
    return ir.DenseBoolArrayAttr.get(list(active))


def stem(graph: Graph) -> str:
    """A graph's name without its numeric suffix."""
    return graph.name.rstrip("0123456789")


def operations(block: ir.Block) -> Iterator[Any]:
    """The operations of a block, as `ir.Operation`s."""
    for view in block.operations:
        yield view.operation


def terminator(block: ir.Block) -> Any:
    """The last operation of a block, for example a `stablehlo.return`."""
    *_, last = operations(block)
    return last


def captured(op: IrOp) -> tuple[IrValue, ...]:
    """The `ir.Value`s that an op's regions read from outside of the op. Each occurs once, in order of first use."""
    if not len(op.regions):
        return ()
    inside: set[Any] = set()
    values: dict[Any, None] = {}
    stack = [block for region in op.regions for block in region.blocks]
    while stack:
        block = stack.pop()
        inside.update(block.arguments)
        for inner in operations(block):
            for x in inner.operands:
                if x not in inside:
                    values.setdefault(x)
            inside.update(inner.results)
            stack.extend(nested for region in inner.regions for nested in region.blocks)
    return tuple(x for x in values if x not in inside)


def replace_captured(op: IrOp, captures: Sequence[IrValue]) -> None:
    """Replaces the `ir.Value`s that an op's regions read from outside of the op.

    `captures` are the new values, in the order of `captured(op)`.
    """
    if not len(op.regions):
        return
    replacement = dict(zip(captured(op), captures, strict=True))
    stack = [block for region in op.regions for block in region.blocks]
    while stack:
        for inner in operations(stack.pop()):
            for i, x in enumerate(inner.operands):
                if x in replacement:
                    inner.operands[i] = replacement[x]
            stack.extend(nested for region in inner.regions for nested in region.blocks)
