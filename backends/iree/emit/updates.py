"""Which operands ops update in place, and which arrays a value may be."""

import numpy as np
from torch_mlir import ir

from tiduc.backends.iree.emit.emitter import Emitter
from tiduc.backends.iree.emit.known import constant_splat
from tiduc.backends.iree.emit.marks import BARRIER, marked
from tiduc.dialect.graph.dependences import in_block, reached
from tiduc.dialect.graph.graph import terminator
from tiduc.dialect.graph.matching import defined_by, traced
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.ops.traits import FUNCTIONS, PRODUCTS, VIEWS
from tiduc.dialect.shapes.types import bits, element, is_dynamic, shape

MAY_VIEW = VIEWS | {"stablehlo.bitcast_convert", "stablehlo.convert"}
"""Ops whose result may be a view of an operand."""

COMPUTED = FUNCTIONS | PRODUCTS
"""Ops whose result IREE never folds to an operand."""

CALL_OPS = ("func.call", "stablehlo.composite")
"""Ops whose results come from a callee."""


def updated(op: IrOp) -> range:
    """The indices of the operands that an op updates in place."""
    operands = len(op.operands)
    counts = {
        "stablehlo.dynamic_update_slice": 1,
        "stablehlo.scatter": (operands - 1) // 2,
        "stablehlo.sort": operands,
    }
    return range(counts.get(op.name, 0))


def updates_between(x: IrValue, old: IrValue) -> list[IrOp]:
    """The chain of dynamic_update_slices from the array `old` to x. Empty if no such chain computes x."""
    chain = []
    while update := defined_by(x, "stablehlo.dynamic_update_slice"):
        chain.append(update)
        x = update.operands[0]
    return chain[::-1] if x == old else []


def copied(b: Emitter, x: IrValue) -> IrValue:
    """A copy of x that an op can update. Returns zeros uncopied, because IREE fills a new array for each update."""
    zero, value = b.constant(0, ir.RankedTensorType.get([], element(x))), constant_splat(x)
    return x if value is not None and value == constant_splat(zero) else marked(b, x)


def is_carry(x: IrValue) -> bool:
    """Whether a value is a carry of a loop at the start of an iteration, or a view of a carry."""
    values = list(traced(x, MAY_VIEW | {BARRIER}))
    block = values[-1].owner
    is_carried = isinstance(block, ir.Block) and block.owner.operation.name == "stablehlo.while"
    return is_carried and all(size_in_bits(y) == size_in_bits(x) for y in values)


def is_table(x: IrValue) -> bool:
    """Whether a value is a constant array of more than one number."""
    return defined_by(x, "stablehlo.constant") is not None and constant_splat(x) is None


def alternatives(x: IrValue, block: ir.Block) -> list[IrValue]:
    """The values that x may be or may be a view of, traced back to arguments of `block` and ops inside it."""
    return [y for y in reached([x], lambda y: traced_in(y, block)) if not traced_in(y, block)]


def traced_in(y: IrValue, block: ir.Block) -> list[IrValue]:
    """The values that y may be, or be a view of. Empty for arguments of `block`, and for values from outside it."""
    return may_be(y) if y.owner != block and is_within(y, block) else []


def is_within(x: IrValue, block: ir.Block) -> bool:
    """Whether a value belongs to a block or to a block inside it."""
    owner = x.owner.owner if isinstance(x.owner, ir.Block) else x.owner
    return x.owner == block or in_block(owner, block) is not None


def may_be(y: IrValue) -> list[IrValue]:
    """The values that y may be, or be a view of. Empty if y is a new array, or an argument of a function."""
    if isinstance(y, ir.BlockArgument):
        loop = y.owner.owner.operation
        return [] if loop.name != "stablehlo.while" else _carried(loop, y.arg_number)
    assert isinstance(y, ir.OpResult)
    op, i = y.owner.operation, y.result_number
    if op.name == BARRIER:
        return [op.operands[i]]
    if op.name in MAY_VIEW:
        return [x for x in op.operands if size_in_bits(x) == size_in_bits(y)]
    if op.name == "stablehlo.select" and not op.operands[0].type.rank:
        return list(op.operands)[1:]
    if op.name in ("stablehlo.if", "stablehlo.case"):
        return [terminator(region.blocks[0]).operands[i] for region in op.regions]
    if op.name == "stablehlo.while":
        return _carried(op, i)
    return [x for x in op.operands if x.type == y.type] if op.name in CALL_OPS else []


def _carried(loop: IrOp, i: int) -> list[IrValue]:
    """The initial value of a loop-carried value, and the value that the body returns for it."""
    return [loop.operands[i], terminator(loop.regions[1].blocks[0]).operands[i]]


def size_in_bits(x: IrValue) -> int | None:
    """The size of an array in bits. None for a dynamic shape."""
    return None if is_dynamic(x.type) else bits(x) * int(np.prod(shape(x), dtype=np.int64))
