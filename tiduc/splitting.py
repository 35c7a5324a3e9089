"""split: splits the VJP of a program into two programs. The first program returns the residuals of the second one.

    vjp:       (primals..., cotangents...) -> (outputs..., cotangents of wrt...)

    forward:   (primals...)                  -> (outputs..., residuals...)
    backward:  (residuals..., cotangents...) -> (cotangents of wrt...)

The backward part has the ops that depend on cotangents. Residuals are the other values that these ops read. To reduce
the number of residuals, the backward part recomputes a value if cheap ops can compute the value from constants and
other residuals, or if the value is a rearranged or converted copy of a value that is no larger.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch_mlir import ir

from tiduc.dialect.errors import TiducError, Unsupported, describe
from tiduc.dialect.facts.costs import stored_bytes
from tiduc.dialect.graph.graph import Definition, Value, captured, operations, terminator
from tiduc.dialect.mlir.context import run_passes, stage
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.ops.traits import CHEAP, VIEWS
from tiduc.dialect.ops.verify import NAME
from tiduc.models.constants import entry_of
from tiduc.ports import Wrt, described
from tiduc.program import Program, from_module
from tiduc.runtime.signature import TensorType


@dataclass(frozen=True)
class Residual:
    """A value that the forward part returns and the backward part takes as an input."""

    name: str
    type: TensorType
    kind: str  # "input NAME", "output NAME", or the name of the op that computes the value
    place: str  # the source location of the op; empty for an input
    bytes: int | None  # the size of the value in memory; None if the shape is dynamic


@dataclass(frozen=True)
class Split:
    """The two parts of a VJP, and the residuals that the first part returns to the second part."""

    forward: Program
    backward: Program
    residuals: tuple[Residual, ...]

    def table(self) -> str:
        """A table as text, with a line for each residual and a line for the total size."""
        rows = [(each.name, str(each.type), _shown(each.bytes), each.kind) for each in self.residuals]
        sizes = [each.bytes for each in self.residuals]
        known = sum(size for size in sizes if size is not None)
        rows.append(("total", "", _shown(known) + (" and dynamic sizes" if None in sizes else ""), ""))
        widths = [max(len(row[i]) for row in rows) for i in range(3)]
        return "".join(
            f"{row[0]:{widths[0]}}  {row[1]:{widths[1]}}  {row[2]:>{widths[2]}}  {row[3]}".rstrip() + "\n"
            for row in rows
        )


@stage
def split(program: Program, wrt: Wrt = None) -> Split:
    """Splits the VJP with respect to `wrt` into a forward and a backward program.

    If the program has n outputs, `backward(*forward(*primals)[n:], *cotangents)` returns the cotangents of `wrt`.
    Raises `Unsupported` if an op computes both an output and a cotangent.
    """
    memory = program.memory
    vjp = program.rematerialize("").vjp(wrt)  # the memory budget applies to the parts, not to the VJP
    cut = _Cut(vjp, len(program.inputs), len(program.outputs))
    forward, backward = (
        from_module(part, program.name, program.opset, loop_memory=program.loop_memory).rematerialize(memory)
        for part in (cut.forward(), cut.backward())
    )
    kinds = [(cut.kind_of(x), cut.place(x), stored_bytes(x.type)) for x in cut.residuals]
    ports = forward.outputs[len(program.outputs) :]
    residuals = [
        Residual(port.name, described(port).type, *kind) for port, kind in zip(ports, kinds, strict=True)
    ]
    return Split(forward, backward, tuple(residuals))


class _Cut:
    """The lowered function of a VJP, and the partition of its ops into a forward and a backward part."""

    def __init__(self, vjp: Program, inputs: int, outputs: int) -> None:
        self.vjp, self._inputs, self._outputs = vjp, inputs, outputs
        self._module = vjp.lowered(separated=vjp.inputs[inputs:])
        self._block = entry_of(self._module).regions[0].blocks[0]
        *ops, self._return = list(operations(self._block))
        # Maps a value to (-1, index of the argument) or to (index of the op, index of the result).
        self._places: dict[Any, tuple[int, int]] = {x: (-1, i) for i, x in enumerate(self._block.arguments)}
        self._places |= {y: (i, k) for i, op in enumerate(ops) for k, y in enumerate(op.results)}
        self._ops = ops
        self._backward = self._depending()
        for x in list(self._return.operands)[: self._outputs]:
            if (number := self._places[x][0]) in self._backward:
                raise _mixed(self._ops[number])
        self.residuals = self._read()

    def _depending(self) -> set[int]:
        """The indices of the ops that depend on a cotangent."""
        values = set(list(self._block.arguments)[self._inputs :])
        numbers = set()
        for i, op in enumerate(self._ops):
            if not values.isdisjoint(_reads(op)):
                numbers.add(i)
                values.update(op.results)
        return numbers

    def _read(self) -> list[IrValue]:
        """The residuals, which are the forward values that the backward part reads, in the order of definition."""
        cotangents = set(list(self._block.arguments)[self._inputs :])
        waiting = list(self._return.operands)[self._outputs :]
        waiting += [x for i in sorted(self._backward) for x in _reads(self._ops[i])]
        values: set[Any] = set()
        seen: set[Any] = set()
        while waiting:
            x = waiting.pop()
            if x in seen or x in cotangents:
                continue
            seen.add(x)
            number = self._places[x][0]
            if number in self._backward:
                continue
            op = self._ops[number] if number >= 0 else None
            if op is not None and op.name == "stablehlo.constant":
                continue
            if op is not None and _keeps_elements(op) and _is_no_larger(op.operands[0].type, x.type):
                waiting.append(op.operands[0])
            else:
                values.add(x)
        return sorted(self._without_remade(values), key=self._places.__getitem__)

    def _without_remade(self, values: set[IrValue]) -> set[IrValue]:
        """Removes the values that cheap ops can recompute from constants and the other values."""
        kept, at_hand = set(values), set(values)
        for i, op in enumerate(self._ops):
            if op.name == "stablehlo.constant":
                at_hand.update(op.results)
            elif i not in self._backward and op.name in CHEAP and at_hand.issuperset(op.operands):
                at_hand.update(op.results)
                kept.difference_update(op.results)
        return kept

    def kind_of(self, x: IrValue) -> str:
        """The kind of a residual: "input NAME", "output NAME", or the name of the op that computes the residual."""
        number, i = self._places[x]
        if number < 0:
            return f"input {self.vjp.inputs[i].name}"
        results = list(self._return.operands)[: self._outputs]
        if x in results:
            return f"output {self.vjp.outputs[results.index(x)].name}"
        return str(self._ops[number].name)

    def place(self, x: IrValue) -> str:
        """The source location of the op that computes a residual, or "" for an argument."""
        number = self._places[x][0]
        return describe(self._ops[number].location) if number >= 0 else ""

    # ---- the parts -----------------------------------------------------------------------------------------

    def names(self) -> list[str]:
        """The names of the residuals: "NAME.residual" for an input or output, and "residualN" for other values."""
        names: list[str] = []
        for x in self.residuals:
            kind, _, name = self.kind_of(x).partition(" ")
            names.append(f"{name}.residual" if kind in ("input", "output") else f"residual{len(names)}")
        return names

    def forward(self) -> ir.Module:
        """Builds the module of the forward part."""
        module, function, values, ops = self._copy()
        block, last = function.regions[0].blocks[0], ops.pop()
        _return(
            last, [*list(last.operands)[: self._outputs], *(values[self._places[x]] for x in self.residuals)]
        )
        for i in sorted(self._backward, reverse=True):
            ops[i].erase()
        for _ in range(len(self.vjp.inputs) - self._inputs):
            block.erase_argument(self._inputs)
        inputs = _attributes(function, "arg_attrs", len(self.vjp.inputs))[: self._inputs]
        outputs = _attributes(function, "res_attrs", len(self.vjp.outputs))[: self._outputs]
        _sign(function, inputs, [*outputs, *_name_attributes(self.names())])
        return _without_duplicates(module)

    def backward(self) -> Any:
        """Builds the module of the backward part."""
        module, function, values, ops = self._copy()
        block, last = function.regions[0].blocks[0], ops.pop()
        _return(last, list(last.operands)[self._outputs :])
        cotangents = list(block.arguments)[self._inputs :]
        for x in [*(values[self._places[x]] for x in self.residuals), *cotangents]:
            x.replace_all_uses_with(block.add_argument(x.type, x.location))
        for i in reversed([i for i in range(len(ops)) if i not in self._backward]):
            if all(not len(list(y.uses)) for y in ops[i].results):
                ops[i].erase()
        for _ in self.vjp.inputs:
            block.erase_argument(0)
        seeds = _attributes(function, "arg_attrs", len(self.vjp.inputs))[self._inputs :]
        results = _attributes(function, "res_attrs", len(self.vjp.outputs))[self._outputs :]
        _sign(function, [*_name_attributes(self.names()), *seeds], results)
        return _without_duplicates(module)

    def _copy(self) -> tuple[ir.Module, ir.Operation, dict[tuple[int, int], IrValue], list[ir.Operation]]:
        """Copies the module. Returns the copy, its function, a map from entries of `_places` to values, and its ops."""
        module = ir.Module.create(loc=self._module.operation.location)
        for name in self._module.operation.attributes:
            module.operation.attributes[name] = self._module.operation.attributes[name]
        for op in operations(self._module.body):
            op.clone(ir.InsertionPoint(module.body))
        function = entry_of(module)
        ops = list(operations(function.regions[0].blocks[0]))
        values = {(-1, i): x for i, x in enumerate(function.regions[0].blocks[0].arguments)}
        values |= {(i, k): y for i, op in enumerate(ops) for k, y in enumerate(op.results)}
        return module, function, values, ops


def _mixed(op: Definition) -> TiducError:
    """The error for an op that computes both an output and a cotangent. Located at the op or an inner op."""
    message = f"{op.name} computes an output and a cotangent at once, so the VJP cannot be split"
    error: TiducError = Unsupported(message, op.location)
    for region in op.regions:
        for inner in operations(region.blocks[0]):
            error = error.at(inner.location)
    return error


def _reads(op: IrOp) -> tuple[IrValue, ...]:
    return (*op.operands, *captured(op))


def _return(old: IrOp, operands: Sequence[IrValue]) -> None:
    ir.Operation.create("func.return", operands=operands, loc=old.location, ip=ir.InsertionPoint(old))
    old.erase()


def _without_duplicates(module: ir.Module) -> ir.Module:
    run_passes(module.operation, "builtin.module(cse,symbol-dce)", verify=True)
    return module


# ---- the signature -----------------------------------------------------------------------------------------


def _attributes(function: IrOp, side: str, count: int) -> list[ir.DictAttr]:
    return list(function.attributes[side]) if side in function.attributes else [ir.DictAttr.get({})] * count


def _name_attributes(names: Sequence[str]) -> list[ir.DictAttr]:
    return [ir.DictAttr.get({NAME: ir.StringAttr.get(name)}) for name in names]


def _sign(function: IrOp, inputs: Sequence[ir.DictAttr], outputs: Sequence[ir.DictAttr]) -> None:
    """Sets a function's type to the types in its block, and sets the attributes of arguments and results."""
    block = function.regions[0].blocks[0]
    results = [x.type for x in terminator(block).operands]
    type_ = ir.FunctionType.get([x.type for x in block.arguments], results)
    function.attributes["function_type"] = ir.TypeAttr.get(type_)
    function.attributes["arg_attrs"] = ir.ArrayAttr.get(list(inputs))
    function.attributes["res_attrs"] = ir.ArrayAttr.get(list(outputs))


# ---- sizes -------------------------------------------------------------------------------------------------


def _keeps_elements(op: IrOp) -> bool:
    """Whether the op has one operand, and only rearranges or converts the operand's elements."""
    return len(op.operands) == 1 and (op.name in VIEWS or op.name == "stablehlo.convert")


def _is_no_larger(x: Value, y: Value) -> bool:
    """Whether the tensor type `x` takes at most as much memory as `y`. Returns False if a shape is dynamic."""
    sizes = stored_bytes(x), stored_bytes(y)
    return None not in sizes and sizes[0] <= sizes[1]  # type: ignore[operator]


def _shown(size: int | None) -> str:
    return "open" if size is None else f"{size} B"
