"""The builder: emits ops into a new graph, writes active masks, turns foreign values into externals.

It names no op but those of tidu. An op set derives from it and adds its vector space, `add`, `zero` and `multiply`,
and whatever emitters its rules want (`dialect/stablehlo.py`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from typing import Any

from torch_mlir import ir

from tiduc.dialect.graph import Definition, Graph, captured, operations
from tiduc.dialect.verify import ACTIVE, ACTIVE_OUTPUTS, INPUT_OF, OUTPUT_OF
from tiduc.dialect.view import View


class Builder:
    """Builds one graph of a view.

    Operands may be values of this graph or of any other one; the latter become externals. `location` is given to
    what is emitted.
    """

    def __init__(self, view: View, name: str, location: Any = None) -> None:
        self.view = view
        self.location = location or ir.Location.unknown()
        op = ir.Operation.create(
            "tidu.graph",
            attributes={"sym_name": ir.StringAttr.get(name), "inputs": ir.ArrayAttr.get([])},
            regions=1,
            ip=ir.InsertionPoint(view.module.body),
            loc=self.location,
        )
        self._op = op
        self._block = op.regions[0].blocks.append()
        self._ip = ir.InsertionPoint(self._block)
        self._keys: list[str] = []
        # Any value an op may name, to what stands for it here: that value, and whether it is active.
        self._local: dict[Any, tuple[Any, bool]] = {}
        self.constants: dict[Any, Any] = {}  # for an op set: one op a constant and graph
        self._masks: dict[tuple[bool, ...], Any] = {}
        # Definitions need their graph; it takes its inputs in when the builder finishes.
        self.graph = Graph(op, view.module)

    # ---- the graph's ends -------------------------------------------------------------------------------------

    def input(self, key: str, type_: Any, linear: bool = False, location: Any = None) -> Any:
        """A new input of that key; a linear one is active, and so is what is made of it."""
        argument = self._block.add_argument(type_, location or ir.Location.unknown())
        self._keys.append(key)
        self._local[argument] = argument, linear
        return argument

    def finish(self, outputs: Sequence[Any], attributes: Mapping[str, Any] | None = None) -> Graph:
        """Ends the graph with its outputs, and gives it to the view."""
        local = [self.local(x) for x in outputs]
        ir.Operation.create("tidu.return", operands=local, ip=self._ip)
        self._op.attributes["inputs"] = ir.ArrayAttr.get([ir.FlatSymbolRefAttr.get(key) for key in self._keys])
        for key, value in (attributes or {}).items():
            self._op.attributes[key] = value
        graph = self.graph
        graph.keys = tuple(self._keys)
        graph.inputs = dict(zip(self._keys, self._block.arguments, strict=True))
        return self.view.built(graph)

    def finish_linear(self, outputs: Sequence[Any | None], input_of: Sequence[Any], output_of: Sequence[Any]) -> Graph:
        """Ends a linear graph; `outputs` are aligned with `output_of`, None where the output is inactive."""
        attributes = {
            INPUT_OF: ir.ArrayAttr.get(list(input_of)),
            OUTPUT_OF: ir.ArrayAttr.get(list(output_of)),
            ACTIVE_OUTPUTS: ir.DenseBoolArrayAttr.get([x is not None for x in outputs]),
        }
        return self.finish([x for x in outputs if x is not None], attributes)

    def abandon(self) -> None:
        """Removes the unfinished graph, after a refusal."""
        for definition in self.graph.definitions:
            for result in definition.results:
                self.view.definitions.pop(result, None)
        self._op.erase()

    # ---- emitting ---------------------------------------------------------------------------------------------

    def is_linear(self, x: Any) -> bool:
        """The value is a tangent or cotangent of this graph."""
        return x in self._local and self._local[x][1]

    def local(self, x: Any) -> Any:
        """The value of this graph that stands for `x`: itself, or an external."""
        return (self._local.get(x) or self._external(x))[0]

    def _external(self, x: Any) -> tuple[Any, bool]:
        external = ir.Operation.create(
            "tidu.external", [x.type], (), {"ref": self.view.reference(x)}, loc=self.location, ip=self._ip
        ).result
        entry = self._local[x] = external, False
        return entry

    def emit_all(
        self,
        name: str,
        operands: Sequence[Any],
        types: Sequence[Any],
        attributes: Mapping[str, Any] | None = None,
        regions: Sequence[Callable[[Any], None]] = (),
    ) -> tuple[Any, ...]:
        """Emits an op, each region filled by a function of its own, which reads nothing outside; its results."""
        get = self._local.get
        entries = [get(x) or self._external(x) for x in operands]
        local = [entry[0] for entry in entries]
        active = tuple([entry[1] for entry in entries])
        if True in active:
            mask = self._masks.get(active) or self._mask(active)
            attributes = {**attributes, ACTIVE: mask} if attributes else {ACTIVE: mask}
        else:
            active = None
        op = ir.Operation.create(
            name, types, local, attributes, regions=len(regions), loc=self.location, ip=self._ip
        )
        for fill, region in zip(regions, op.regions, strict=True) if regions else ():
            fill(region)
        return self._emitted(op, name, tuple(operands), active, (), tuple(types))

    def emit(self, name: str, operands: Sequence[Any], type_: Any, attributes: Mapping[str, Any] | None = None) -> Any:
        """Emits an op of one result and no regions; its result."""
        return self.emit_all(name, operands, (type_,), attributes)[0]

    def reapply(
        self, op: Definition, replaced: Mapping[int, Any], attributes: Mapping[str, Any] | None = None
    ) -> tuple[Any, ...]:
        """Emits an op again, regions and attributes included, with some operands replaced; its results."""
        operands = tuple([replaced.get(i, x) for i, x in enumerate(op.operands)])
        entries = [self._local.get(x) or self._external(x) for x in operands]
        captures = [self.local(x) for x in op.captures]
        copy = op.op.clone(self._ip)
        if ACTIVE in copy.attributes:
            del copy.attributes[ACTIVE]
        for key, value in (attributes or {}).items():
            copy.attributes[key] = value
        active = tuple([x[1] for x in entries])
        if True in active:
            copy.attributes[ACTIVE] = self._masks.get(active) or self._mask(active)
        else:
            active = None
        for i, x in enumerate(entries):
            copy.operands[i] = x[0]
        replace_captured(copy, captures)
        # Two externals may stand for one value in the op, but only one does here.
        captured_once = tuple(dict.fromkeys(op.captures))
        return self._emitted(copy, op.name, operands, active, captured_once, op.types)

    def copy(self, op: Any) -> Any:
        """A clone of an op at the end of the graph, its operands not yet replaced; the builder knows nothing of it."""
        return op.clone(self._ip)

    def own(self, x: Any) -> Any:
        """Tells the builder that a value, made by `copy`, is of this graph; the value."""
        self._local[x] = x, False
        return x

    def sum(self, terms: Iterable[Any]) -> Any:
        """The sum of values of one type, at least one; a single one is itself."""
        return reduce(self.add, terms)

    def _mask(self, active: tuple[bool, ...]) -> Any:
        mask = self._masks[active] = ir.DenseBoolArrayAttr.get(list(active))
        return mask

    def _emitted(
        self,
        op: Any,
        name: str,
        operands: tuple[Any, ...],
        active: tuple[bool, ...] | None,
        captures: tuple[Any, ...],
        types: tuple[Any, ...],
    ) -> tuple[Any, ...]:
        results = (op.result,) if len(types) == 1 else tuple(op.results)
        definition = Definition(op, name, operands, results, self.graph, captures, active, types, self.location)
        self.graph.definitions.append(definition)
        definitions, local = self.view.definitions, self._local
        for result in results:
            definitions[result] = definition
            local[result] = result, active is not None
        return results

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

    def multiply(self, x: Any, y: Any) -> Any:
        """x * y, each entry by each."""
        raise NotImplementedError

    def conj(self, x: Any) -> Any:
        """The complex conjugate; the identity on real types."""
        raise NotImplementedError


def bind(view: View, key: str, value: Any) -> None:
    """Gives an input a value, in the view and, as a `tidu.bind`, in its module."""
    view.bind(key, value)
    ir.Operation.create(
        "tidu.bind",
        attributes={"input": ir.FlatSymbolRefAttr.get(key), "value": view.reference(value)},
        ip=ir.InsertionPoint(view.module.body),
    )


def replace_captured(op: Any, captures: Sequence[Any]) -> None:
    """Gives an op's regions other values to read from outside, in the order of `graph.captured`."""
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
