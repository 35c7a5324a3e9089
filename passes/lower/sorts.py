"""sorts: arrays that are put in the same order are sorted together.

    %0:2 = sort(%x, %y)                     %0:3 = sort(%x, %y, %numbers)
    ...                             ->      ...
    %1:2 = sort(%x, %numbers)

The tangent of a sort follows the order of its elements: the sort again, with one more operand (`rules/sort.py`). By
the specification an operand that the comparator does not read changes nothing about the order. So sorts of the same
attributes, whose comparators do the same with the same operands, are one: at the place of the first, of all operands
that are there by then.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from torch_mlir import ir

from tiduc.dialect.graph import operations

SORT = "stablehlo.sort"


def join_sorts(function: Any) -> None:
    """Joins the sorts of each block in a function, in place."""
    for block in _blocks(function):
        groups: dict[Any, list[Any]] = {}
        for op in operations(block):
            if op.name == SORT:
                groups.setdefault(_order(op), []).append(op)
        for first, *rest in groups.values():
            together = [first, *(op for op in rest if _is_movable(op, first))]
            if len(together) > 1:
                _join(together)


def _blocks(function: Any) -> Iterator[Any]:
    """All blocks, but for comparators."""
    stack = [block for region in function.regions for block in region.blocks]
    while stack:
        yield (block := stack.pop())
        for op in operations(block):
            if op.name != SORT:
                stack += [inner for region in op.regions for inner in region.blocks]


def _order(sort: Any) -> Any:
    """What is equal for sorts that order alike: shape, attributes, and what the comparator does with which operands."""
    (block,) = sort.regions[0].blocks
    values: dict[Any, Any] = {x: (sort.operands[i // 2], i % 2) for i, x in enumerate(block.arguments)}
    does: list[tuple[Any, ...]] = []
    for op in operations(block):
        if len(op.regions):
            return sort  # like no other
        values |= {y: (len(does), i) for i, y in enumerate(op.results)}
        operands = tuple(values.get(x, x) for x in op.operands)
        does.append((op.name, _attributes(op), operands, tuple(y.type for y in op.results)))
    return tuple(sort.operands[0].type.shape), _attributes(sort), *does


def _attributes(op: Any) -> frozenset[Any]:
    return frozenset((name, op.attributes[name]) for name in op.attributes)


def _is_movable(op: Any, first: Any) -> bool:
    """Whether what an op reads is there before another one, or could be, as it reads nothing: iotas, say."""
    return all(not len(x.operands) and not len(x.regions) for x in _later(op, first))


def _later(op: Any, first: Any) -> list[Any]:
    """The ops in the block that make an op's operands, but not before another one."""
    makers = dict.fromkeys(x.owner.operation for x in op.operands if not isinstance(x.owner, ir.Block))
    return [x for x in makers if x.block == first.block and not x.is_before_in_block(first)]


def _join(sorts: Sequence[Any]) -> None:
    """One sort in place of several, the first of which is where it will be."""
    first, ip = sorts[0], ir.InsertionPoint(sorts[0])
    for op in sorts:
        for maker in _later(op, first):
            maker.move_before(first)
    operands = list(dict.fromkeys(x for op in sorts for x in op.operands))
    place = {x: i for i, x in enumerate(operands)}
    attributes = {name: first.attributes[name] for name in first.attributes}
    types = [x.type for x in operands]
    made = ir.Operation.create(SORT, types, operands, attributes, regions=1, loc=first.location, ip=ip)
    (comparator,) = first.regions[0].blocks
    elements = [ir.RankedTensorType.get([], t.element_type) for t in types for _ in range(2)]
    block = made.regions[0].blocks.append(*elements, arg_locs=[first.location] * len(elements))
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
            y.replace_all_uses_with(made.results[place[x]])
        op.erase()
