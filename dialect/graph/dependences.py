"""Searches backwards through MLIR operations: finds the values and ops on which a value or an op depends."""

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, TypeVar

from torch_mlir import ir

from tiduc.dialect.graph.graph import captured
from tiduc.dialect.ops.ir_types import IrOp, IrValue

_T = TypeVar("_T")

RESHAPES = "stablehlo.reshape", "stablehlo.optimization_barrier"
"""Ops whose result has the same elements as the operand, in the same order."""


def reached(starts: Iterable[_T], following: Callable[[_T], Iterable[_T]]) -> Iterator[_T]:
    """Yields the items in `starts`, and the items `following(x)` for each item x that it yields.

    Yields each item once, in no particular order.
    """
    waiting, seen = list(starts), set[_T]()
    while waiting:
        x = waiting.pop()
        if x not in seen:
            seen.add(x)
            yield x
            waiting += following(x)


def read_by(op: IrOp) -> tuple[Any, ...]:
    """The values that an op reads: its operands, and those that its regions capture."""
    return *op.operands, *captured(op)


def behind(x: IrValue) -> tuple[IrValue, ...]:
    """The values that are read by the op that computes x. () if x is a block argument."""
    return () if isinstance(x.owner, ir.Block) else read_by(x.owner)


def computed_from(x: IrValue, wanted: Callable[[IrOp], bool], through: Callable[[IrOp], bool]) -> bool:
    """Whether x is the result of an op for which `wanted` is true, or is computed from such a result.

    The search goes from an op to its operands only if `through` is true for the op.
    """

    def followed(y: IrValue) -> Iterable[IrValue]:
        op = y.owner
        return op.operands if not isinstance(op, ir.Block) and through(op) else ()

    owners = (y.owner for y in reached([x], followed))
    return any(not isinstance(op, ir.Block) and wanted(op) for op in owners)


def is_constant(x: IrValue, sources: Collection[str] = ("stablehlo.constant",)) -> bool:
    """Whether x is computed only from results of ops whose names are in `sources`, by default constants.

    `sources` must be names of ops without operands.
    """
    owners = ((y.owner, y) for y in reached([x], behind))
    return all(not isinstance(op, ir.Block) and (op.name in sources or behind(y)) for op, y in owners)


def awaited_by(op: IrOp) -> set[ir.Operation]:
    """The ops in the block of `op` whose results `op` needs, directly or indirectly."""
    block = op.operation.block

    def before(op: IrOp) -> list[Any]:
        owners = [x.owner.operation for x in read_by(op) if _is_result(x)]
        return [owner for owner in owners if owner.block == block]

    return set(reached(before(op), before))


def in_block(op: IrOp, block: ir.Block) -> ir.Operation | None:
    """Returns `op`, or the op that contains it, whichever is directly in the block. None if `op` is elsewhere."""
    while op.operation.block != block:
        op = op.operation.block.owner
        if op.operation.name in ("func.func", "builtin.module"):
            return None
    return op.operation


def _is_result(x: IrValue) -> bool:
    return not isinstance(x.owner, ir.Block)
