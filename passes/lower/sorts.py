"""sorts: fuses sorts that have the same keys and comparator.

    %0:2 = sort(%x, %y)                     %0:3 = sort(%x, %y, %numbers)
    ...                             ->      ...
    %1:2 = sort(%x, %numbers)

The tangent of a sort (`rules/sort.py`) repeats the sort with the elements' numbers as one more operand. An operand that
the comparator does not read does not affect the order. Therefore sorts with equal attributes, comparators and compared
operands are fused. The fused sort replaces the first sort. A sort is fused only if its operands are available before
the first sort, or can be moved there.
"""

from collections.abc import Sequence
from typing import Any

from torch_mlir import ir

from tiduc.dialect.graph.functions import within
from tiduc.dialect.graph.graph import operations
from tiduc.dialect.ops.ir_types import IrOp

SORT = "stablehlo.sort"


def join_sorts(function: IrOp) -> None:
    """Fuses sorts with equal keys (`_order`) within each block of a function, in place. Skips comparators."""
    holders = [op for op in within(function) if op.name != SORT]
    for block in [block for op in holders for region in op.regions for block in region.blocks]:
        groups: dict[Any, list[Any]] = {}
        for op in operations(block):
            if op.name == SORT:
                groups.setdefault(_order(op), []).append(op)
        for first, *rest in groups.values():
            together = [first, *(op for op in rest if _is_movable(op, first))]
            if len(together) > 1:
                _join(together)


def _order(sort: IrOp) -> Any:
    """Returns a hashable key of a sort. Sorts with equal keys order their operands equally.

    The key consists of the shape, the attributes, and the comparator's ops with the operands that they read.
    """
    (block,) = sort.regions[0].blocks
    values: dict[Any, Any] = {x: (sort.operands[i // 2], i % 2) for i, x in enumerate(block.arguments)}
    does: list[tuple[Any, ...]] = []
    for op in operations(block):
        if len(op.regions):
            return sort  # the sort itself is its key, so that no other sort matches
        values |= {y: (len(does), i) for i, y in enumerate(op.results)}
        operands = tuple(values.get(x, x) for x in op.operands)
        does.append((op.name, _attributes(op), operands, tuple(y.type for y in op.results)))
    return tuple(sort.operands[0].type.shape), _attributes(sort), *does


def _attributes(op: IrOp) -> frozenset[tuple[str, ir.Attribute]]:
    return frozenset((name, op.attributes[name]) for name in op.attributes)


def _is_movable(op: IrOp, first: IrOp) -> bool:
    """Whether `op` can be fused into `first`.

    Each operand must be available before `first`, or be the result of an op without operands and regions, because such
    an op can be moved before `first`.
    """
    return all(not len(x.operands) and not len(x.regions) for x in _later(op, first))


def _later(op: IrOp, first: IrOp) -> list[ir.Operation]:
    """The ops after `first` in its block that define operands of `op`."""
    makers = dict.fromkeys(x.owner.operation for x in op.operands if not isinstance(x.owner, ir.Block))
    return [
        x for x in makers if x.block == first.operation.block and not x.is_before_in_block(first.operation)
    ]


def _join(sorts: Sequence[IrOp]) -> None:
    """Replaces several sorts by one sort of all their operands, which is emitted in place of the first sort."""
    first, ip = sorts[0], ir.InsertionPoint(sorts[0])
    for op in sorts:
        for maker in _later(op, first):
            maker.move_before(first)
    operands = list(dict.fromkeys(x for op in sorts for x in op.operands))
    place = {x: i for i, x in enumerate(operands)}
    attributes = {name: first.attributes[name] for name in first.attributes}
    types = [x.type for x in operands]
    joined = ir.Operation.create(SORT, types, operands, attributes, regions=1, loc=first.location, ip=ip)
    (comparator,) = first.regions[0].blocks
    elements = [ir.RankedTensorType.get([], t.element_type) for t in types for _ in range(2)]
    block = joined.regions[0].blocks.append(*elements, arg_locs=[first.location] * len(elements))
    values = {
        x: block.arguments[2 * place[first.operands[i // 2]] + i % 2]
        for i, x in enumerate(comparator.arguments)
    }
    for op in operations(comparator):
        copy = op.clone(ir.InsertionPoint(block))
        for i, x in enumerate(op.operands):
            copy.operands[i] = values.get(x, x)
        values |= dict(zip(op.results, copy.results, strict=True))
    for op in sorts:
        for x, y in zip(op.operands, op.results, strict=True):
            y.replace_all_uses_with(joined.results[place[x]])
        op.erase()
