"""Joins ("packs") loop-carried arrays of equal types into one array with one more dimension, if they are stacks.

A stack is a loop-carried array of which each iteration updates a slice, and which no other op of the loop reads:

    %y:2 = while(%a = %0, %b = %1) { %p = dynamic_update_slice %a, %u, %i; %q = dynamic_update_slice %b, %v, %i }
    ->  %z = while(%c = [%0, %1]) { ... dynamic_update_slice %c, [%u], 0, %i ... }, %y#0 = %z[0], %y#1 = %z[1]

The derivative of a scan may have dozens of stacks of residuals, but a loop in one dispatch can have at most 32 arrays.
Besides, only one array of each type can be in the memory of a result; all others take space on the call stack of the
thread. The packed array is in the memory of a result.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch_mlir import ir

from tiduc.backends.iree.emit.emitter import Emitter, is_boolean
from tiduc.backends.iree.emit.known import constant_splat
from tiduc.backends.iree.emit.updates import updates_between
from tiduc.dialect.graph.functions import outer_first, replace
from tiduc.dialect.graph.graph import captured, operations
from tiduc.dialect.graph.matching import defined_by
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.shapes.types import element, is_dynamic, shape, with_shape

_SLICE = "stablehlo.dynamic_slice"


@dataclass(frozen=True)
class Packing:
    """A new loop with packed stacks. `pairs` has (result of the old loop, value that replaces it).

    `ops` has all ops that were emitted for the new loop.
    """

    loop: ir.Operation
    pairs: list[tuple[IrValue, IrValue]]
    ops: list[IrOp]

    def undo(self) -> None:
        """Undoes `pack`: makes readers read the results of the old loop again, and erases the new ops."""
        for old, new in self.pairs:
            new.replace_all_uses_with(old)
        for op in self.ops[::-1]:
            op.erase()


def pack(loop: IrOp) -> Packing | None:
    """Emits a loop with packed stacks, and makes all readers of the results of `loop` read those of the new loop.

    `loop` itself remains. Returns None, and changes nothing, if no stacks can be packed.
    """
    groups = _groups(loop)
    if not groups:
        return None
    together = {i for group in groups for i in group}
    others = [i for i in range(len(loop.operands)) if i not in together]
    b = Emitter(ir.InsertionPoint(loop), loop.location)
    initial = [loop.operands[i] for i in others]
    initial += [_side_by_side(b, [loop.operands[i] for i in group]) for group in groups]
    regions = [
        b.region([x.type for x in initial], _filling(loop, region.blocks[0], others, groups))
        for region in loop.regions
    ]
    results = b.emit_all("stablehlo.while", initial, [x.type for x in initial], None, regions)
    pairs = [(loop.results[i], y) for i, y in zip(others, results, strict=False)]
    for group, y in zip(groups, results[len(others) :], strict=True):
        pairs += [
            (loop.results[i], _part(b, y, n)) for n, i in enumerate(group) if list(loop.results[i].uses)
        ]
    for old, new in pairs:
        old.replace_all_uses_with(new)
    block = loop.operation.block
    emitted = [op for op in b.emitted if op is not None and op.operation.block == block]
    return Packing(ir.OpResult(results[0]).owner.operation, pairs, emitted)


def read_packed(loop: IrOp) -> None:
    """Makes a loop read slices directly from a packed array, not from a stack that an op outside the loop cuts from it.

    Changes nothing for a stack that the loop reads otherwise than by slices.
    """
    for x in captured(loop):
        part = _packed(x)
        if part is None:
            continue
        uses = [op for op in outer_first(loop)[1:] if x in list(op.operands)]
        if any(op.name != _SLICE for op in uses):
            continue
        array, n = part
        for op in uses:
            b = Emitter(ir.InsertionPoint(op), op.location)
            start = [b.constant(n, op.operands[1].type), *list(op.operands)[1:]]
            sizes = shape(op.results[0])
            replace(op, [b.reshape(b.dynamic_slice(array, start, [1, *sizes]), sizes)])


def _groups(loop: IrOp) -> list[list[int]]:
    """Returns lists of stacks that can be packed together, as carry indices: two or more stacks of one type in each.

    Stacks of predicates and complex numbers are not packed.
    """
    groups = defaultdict(list)
    for i, x in enumerate(loop.operands):
        if (
            x.type.shape
            and not is_dynamic(x.type)
            and isinstance(element(x), (ir.FloatType, ir.IntegerType))
            and not is_boolean(x)
            and _updates(loop, i)
        ):
            groups[x.type].append(i)
    return [group for group in groups.values() if len(group) > 1]


def _updates(loop: IrOp, i: int) -> list[IrOp]:
    """Returns the updates that compute the next value of carry i from its old value, or [] if the carry is no stack.

    It is a stack if nothing but these updates computes the next value, or reads the carry or the result of an update.
    """
    condition, body = (region.blocks[0] for region in loop.regions)
    chain = updates_between(list(operations(body))[-1].operands[i], body.arguments[i])
    steps = [body.arguments[i], *(op.results[0] for op in chain)]
    alone = all(len(list(x.uses)) == 1 for x in steps) and not list(condition.arguments[i].uses)
    return chain if alone else []


def _filling(
    loop: IrOp, block: ir.Block, others: Sequence[int], groups: Sequence[Sequence[int]]
) -> Callable[..., list[IrValue]]:
    """Returns a function that fills a region of the packed loop with the ops of `block`, a block of the old loop.

    Updates of stacks become updates of packed arrays. `groups` has, for each packed array, the indices of its stacks
    among the old carries. `others` has the indices of the carries that are not packed.
    """
    places = {
        op.results[0]: (g, n)
        for g, group in enumerate(groups)
        for n, i in enumerate(group)
        for op in _updates(loop, i)
    }

    def fill(b: Emitter, *carries: IrValue) -> list[IrValue]:
        arrays = list(carries[len(others) :])
        values = dict(zip((block.arguments[i] for i in others), carries, strict=False))
        for op in operations(block):
            place = places.get(op.results[0]) if len(op.results) else None
            if op.name == "stablehlo.return":
                returned = [values.get(x, x) for x in op.operands]
                return [returned[i] for i in others] + arrays if block == body else returned
            if place is None:
                b.copied(op, values)
                continue
            _, update, *start = (values.get(x, x) for x in op.operands)
            start = [b.constant(place[1], start[0].type), *start]
            update = b.reshape(update, [1, *shape(update)])
            arrays[place[0]] = b.dynamic_update_slice(arrays[place[0]], update, start)
        raise AssertionError("a region without a return")

    body = loop.regions[1].blocks[0]
    return fill


def _side_by_side(b: Emitter, xs: Sequence[IrValue]) -> IrValue:
    """Concatenates arrays of one type along a new first dimension."""
    type_ = with_shape(xs[0].type, [len(xs), *shape(xs[0])])
    numbers = [constant_splat(x) for x in xs]
    same = numbers[0]
    if same is not None and all(number is not None and number == same for number in numbers):
        return b.emit("stablehlo.constant", (), type_, {"value": ir.DenseElementsAttr.get_splat(type_, same)})
    return b.concatenate([b.reshape(x, [1, *shape(x)]) for x in xs], 0)


def _part(b: Emitter, x: IrValue, n: int) -> IrValue:
    """Cuts stack number `n` from the packed array x."""
    return b.reshape(b.cut(x, 0, n, n + 1), shape(x)[1:])


def _packed(x: IrValue) -> tuple[IrValue, int] | None:
    """Returns the packed array from which `_part` cut x, and the number `n` of the stack. None for other values."""
    reshape = defined_by(x, "stablehlo.reshape")
    part = defined_by(reshape.operands[0], "stablehlo.slice") if reshape else None
    if part is None:
        return None
    array = part.operands[0]
    starts, strides = (list(part.attributes[name]) for name in ("start_indices", "strides"))
    whole = shape(array)[1:] == shape(x) and shape(part.results[0]) == [1, *shape(x)] and strides[0] == 1
    return (array, starts[0]) if whole else None
