"""ops: reads and changes ops of IREE's dialects. Uses IREE's Python bindings, but not their classes for dialects."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from iree.compiler import ir

from tiduc.backends.iree.modules.invariants import require

IrValue = ir.Value[Any]
"""A value of IREE's IR: the result of an op, or the argument of a block."""

EXECUTABLES = "flow.executable", "stream.executable", "hal.executable"
"""Ops that hold the code of kernels."""


def operations(block: ir.Block) -> list[ir.Operation]:
    """The ops of a block, as a list, so that a loop over the list may move or erase ops."""
    return [op.operation for op in block.operations]


def blocks(op: ir.Operation) -> list[ir.Block]:
    """The blocks of an op."""
    return [block for region in op.regions for block in region.blocks]


def of_host(op: ir.Operation) -> Iterator[ir.Operation]:
    """The ops inside an op, at any depth and in order, except the ops inside executables, which run on the device."""
    for block in blocks(op):
        for inner in operations(block):
            yield inner
            if inner.name not in EXECUTABLES:
                yield from of_host(inner)


def ancestor(op: ir.Operation, block: ir.Block) -> ir.Operation | None:
    """The op directly in `block` that is `op` or contains `op`. None if `op` is not inside `block`."""
    at: ir.Operation | None = op
    while at is not None and at.block != block:
        at = at.parent.operation if at.parent is not None else None
    return at


def definition(value: IrValue, name: str = "") -> ir.Operation | None:
    """The op that defines a value. None for a block argument, or if `name` is given and the op has another name."""
    owner = value.owner
    return None if isinstance(owner, ir.Block) or name not in ("", owner.name) else owner.operation


def number(value: IrValue, name: str = "arith.constant") -> int | None:
    """The integer that a value has if a constant op of this name defines it. None for other values."""
    op = definition(value, name)
    return None if op is None else int(ir.IntegerAttr(op.attributes["value"]).value)


def segments(op: ir.Operation) -> list[Sequence[IrValue]]:
    """The operands of an op, grouped by the attribute `operandSegmentSizes`. Raises `Broken` if the numbers differ."""
    sizes = list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))
    operands, start = list(op.operands), 0
    parts: list[Sequence[IrValue]] = []
    for size in sizes:
        parts.append(operands[start : start + size])
        start += size
    require(start == len(operands), "an op has the operands that it counts")
    return parts


def create(
    name: str,
    results: Sequence[ir.Type],
    operands: Sequence[IrValue],
    before: ir.Operation,
    attributes: Mapping[str, ir.Attribute] | None = None,
    regions: int = 0,
) -> ir.Operation:
    """Creates an op, inserts it before the op `before`, and returns it."""
    return ir.Operation.create(
        name,
        results=list(results),
        operands=list(operands),
        attributes=dict(attributes or {}),
        regions=regions,
        loc=before.location,
        ip=ir.InsertionPoint(before),
    )


def constant(value: int, before: ir.Operation) -> IrValue:
    """Inserts a constant of type index before the op `before`, and returns its value."""
    type_ = ir.IndexType.get(before.context)
    return create("arith.constant", [type_], [], before, {"value": ir.IntegerAttr.get(type_, value)}).result


def erase(op: ir.Operation) -> None:
    """Erases an op. Raises `Broken` if a result of the op is used."""
    require(all(not list(result.uses) for result in op.results), "nothing uses an op that is erased")
    op.erase()


def symbol(op: ir.Operation) -> str:
    """The name of an op that defines a symbol; empty for other ops."""
    return str(ir.StringAttr(op.attributes["sym_name"]).value) if "sym_name" in op.attributes else ""


def callee(op: ir.Operation) -> str:
    """The name of the function that an op calls; empty for other ops."""
    return str(ir.FlatSymbolRefAttr(op.attributes["callee"]).value) if "callee" in op.attributes else ""


def parsed(text: str, context: ir.Context) -> ir.Operation:
    """Parses the text of a module that contains one op, and returns this op, detached from the module."""
    module = ir.Module.parse(text, context)
    (op,) = module.body.operations
    return op.operation.detach_from_parent().operation
