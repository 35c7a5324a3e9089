"""Alias analysis: which operands ops update in place, and with which arrays a value may share memory."""

import numpy as np
from torch_mlir import ir

from tiduc.backends.iree.emit.emitter import Emitter
from tiduc.backends.iree.emit.known import constant_splat, known_number
from tiduc.backends.iree.emit.marks import BARRIER, marked
from tiduc.dialect.graph.dependences import in_block, reached
from tiduc.dialect.graph.graph import terminator
from tiduc.dialect.graph.matching import defined_by, traced
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.ops.traits import ELEMENTWISE, FUNCTIONS, PRODUCTS, VIEWS
from tiduc.dialect.shapes.types import bits, element, is_dynamic, shape

MAY_VIEW = VIEWS | {"stablehlo.bitcast_convert", "stablehlo.convert"}
"""Ops whose result may be a view of an operand."""

COMPUTED = FUNCTIONS | PRODUCTS
"""Ops whose result IREE never folds to an operand."""

CALL_OPS = ("func.call", "stablehlo.composite")
"""Ops that call a function, which computes their results."""


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
    """The chain of `dynamic_update_slice` ops that computes x from `old`, in order. Empty if there is no such chain."""
    chain = []
    while update := defined_by(x, "stablehlo.dynamic_update_slice"):
        chain.append(update)
        x = update.operands[0]
    return chain[::-1] if x == old else []


def copied(b: Emitter, x: IrValue) -> IrValue:
    """Returns a copy of x that an op may update in place.

    An array of zeros is returned uncopied, because IREE fills a new array for each op that updates it.
    """
    zero, value = b.constant(0, ir.RankedTensorType.get([], element(x))), constant_splat(x)
    return x if value is not None and value == constant_splat(zero) else marked(b, x)


def is_carry(x: IrValue) -> bool:
    """Whether x is an argument of a region of a while loop, or a view of all elements of such an argument."""
    values = list(traced(x, MAY_VIEW | {BARRIER}))
    block = values[-1].owner
    is_carried = isinstance(block, ir.Block) and block.owner.operation.name == "stablehlo.while"
    return is_carried and all(size_in_bits(y) == size_in_bits(x) for y in values)


def may_fold_to_carry(x: IrValue) -> bool:
    """Whether x may become a loop-carried value, or a view of all its elements, when IREE folds ops.

    Unlike `may_be_carry` for the forms of loops, this does not follow ops that IREE computes in place of an operand.
    """
    return any(is_carry(y) for y in reached([x], _may_fold_to))


def _may_fold_to(y: IrValue) -> list[IrValue]:
    """The operands that IREE may put in place of y when it folds constants or ops with equal operands."""
    if isinstance(y, ir.BlockArgument):
        return []
    assert isinstance(y, ir.OpResult)
    op = y.owner.operation
    if op.name == "stablehlo.select":
        predicate, *choices = op.operands
        number = known_number(predicate)
        if number is not None:
            return [choices[0 if number else 1]]
        # A select with a scalar predicate chooses one of two arrays without copying it.
        unread = not predicate.type.rank and y.type.rank
        return choices if unread or choices[0] == choices[1] else []
    if op.name in ELEMENTWISE and len(op.operands) == 2:
        first, second = op.operands
        constants = [constant_splat(x) is not None for x in op.operands]
        return [x for x in op.operands if x.type == y.type] if any(constants) or first == second else []
    return may_be(y) if op.name != "stablehlo.while" else []


def is_table(x: IrValue) -> bool:
    """Whether x is the result of a constant op that is not a splat."""
    return defined_by(x, "stablehlo.constant") is not None and constant_splat(x) is None


def alternatives(x: IrValue, block: ir.Block) -> list[IrValue]:
    """The values with which x may share memory, found by tracing x back through the ops in `block`.

    They are arguments of `block`, values from outside of it, and new arrays that ops inside it create.
    """
    return [y for y in reached([x], lambda y: traced_in(y, block)) if not traced_in(y, block)]


def traced_in(y: IrValue, block: ir.Block) -> list[IrValue]:
    """`may_be(y)` if an op inside `block` computes y. Empty for arguments of `block`, and values from outside of it."""
    return may_be(y) if y.owner != block and is_within(y, block) else []


def is_within(x: IrValue, block: ir.Block) -> bool:
    """Whether a value is an argument of a block, or is defined inside the block at any depth."""
    owner = x.owner.owner if isinstance(x.owner, ir.Block) else x.owner
    return x.owner == block or in_block(owner, block) is not None


def may_be(y: IrValue) -> list[IrValue]:
    """The values that y may be equal to or a view of: operands of its op, values of loops, or results of branches.

    Only the op that computes y is considered, not those that compute its operands. Returns an empty list if y is a new
    array that its op creates, or an argument of a function.
    """
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
    """The size of an array in bits. Returns None for a dynamic shape."""
    return None if is_dynamic(x.type) else bits(x) * int(np.prod(shape(x), dtype=np.int64))
