"""hosting: places intermediate arrays of an execution region in the memory of results that are written later.

    %1 = subview %result[%p#1]                          %1 = subview %result[%c0]
    execute with(%1 as %r, %transient as %t) {    ->    execute with(%result as %h, %1 as %r, %transient as %t) {
      dispatch @f { wo %t[%q#1 for %n] }                  dispatch @f { wo %h[%c0 for %n] }
      dispatch @g { ro %t[%q#1 for %n], ... }             dispatch @g { ro %h[%c0 for %n], ... }
      dispatch @h { wo %r[%c0 for %n] }                   dispatch @h { wo %r[%c0 for %n] }

In the example, %p is the pack of the results, and %q that of the other arrays. IREE makes two allocations before an
execution region runs: one for its results, and one for arrays that only the region needs. In the gradient of a network,
most results, the derivatives of weights, are written after most other arrays have been read.

The edit places the results in the order in which they are written, so that results that are not written yet are
adjacent. In the memory of the results, it then places each array in the smallest gap that is free while the array is
live: the array is hosted. Without such a gap, the array stays in the allocation for other arrays, where `placement.py`
places it.

An array is hosted only if a single region uses it, and uses it only in dispatches and fills. The arrays of a region in
a loop or branch of the host are not hosted, because the region may run again when results already have their values.
Functions with several blocks are not changed.

The edit relies on the invariants of packs in `placement.py`, and on the following invariants. It checks all of them:

- each op of an execution region is a step (`stream.cmd.*`), or the final `stream.yield`; steps run in order, and ops of
  one step may run at once;
- no use of an array, and no result, is longer than its slice of the pack;
- results and hosted arrays that are live at the same time do not overlap. An array is live from the first to the last
  step that uses it. A result is live from the first step that uses it to the end of the region.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from iree.compiler import ir

from tiduc.backends.iree.fault import slow
from tiduc.backends.iree.modules.invariants import require
from tiduc.backends.iree.modules.ops import (
    IrValue,
    ancestor,
    blocks,
    constant,
    create,
    definition,
    erase,
    number,
    operations,
    segments,
)
from tiduc.backends.iree.modules.order import (
    MOST,
    Allocation,
    Fixed,
    LiveArray,
    aligned,
    check_places,
    live_bytes,
    lowest,
)
from tiduc.backends.iree.modules.placement import PACK, check_alignment, sized, slices

_GAIN = 64
"""The fewest bytes by which hosting must reduce the peak memory of a region's allocation for arrays other than results.

If hosting saves fewer bytes, the region hosts no arrays.
"""

_FUNCTIONS = "util.func", "util.initializer"
_EXECUTE, _YIELD, _STEP = "stream.cmd.execute", "stream.yield", "stream.cmd."
_DISPATCH, _FILL = "stream.cmd.dispatch", "stream.cmd.fill"
_ALLOCATION, _SUBVIEW = "stream.resource.alloca", "stream.resource.subview"
_EXTERNAL, _TRANSIENT = "!stream.resource<external>", "!stream.resource<transient>"


class _Result(NamedTuple):
    """A result of an execution region: its allocation, the allocation's pack, and its index in the pack's results."""

    allocation: ir.Operation
    pack: ir.Operation
    number: int


class _Use(NamedTuple):
    """A use of an array by `op`, a dispatch or a fill, and the indices of the operands of `op` that locate the array.

    The operands are the allocation (`resource`), the allocation's size, and the offset and length of the array in the
    allocation.
    """

    op: ir.Operation
    resource: int
    size: int
    offset: int
    length: int


class _Region(NamedTuple):
    """An execution region whose results are in one allocation, and whose other arrays are in another one.

    `results` is the allocation of the results, `of_results` the pack of the results, and `of_arrays` the pack of the
    other arrays. `written` has, for each result, the index of the first step that uses it, or 0 if this step is not
    known. `argument` is the region's block argument for the allocation of the other arrays. `steps` maps each step to
    its index.
    """

    execute: ir.Operation
    results: ir.Operation
    of_results: ir.Operation
    written: list[int]
    argument: IrValue
    of_arrays: ir.Operation
    steps: Mapping[ir.Operation | None, int]


@slow(
    "IREE places no array in the memory of results that are written later; tiduc hosts arrays there.",
    "suite.py: convnet",
)
def host_arrays(module: ir.Operation) -> bool:
    """Places arrays of execution regions in the memory of results. Changes a module that still has packs, in place.

    Returns whether the module has changed: False if this saves too little memory in every region. The time grows with
    the square of the number of a region's arrays and results.
    """
    check_alignment(module)
    hosted = [
        _in_function(blocks(op)[0])
        for op in operations(module.regions[0].blocks[0])
        if op.name in _FUNCTIONS and len(blocks(op)) == 1
    ]
    return any(hosted)


def _in_function(block: ir.Block) -> bool:
    """Hosts arrays of the execution regions in `block`, the body of a function. Returns whether an array is hosted."""
    ops = operations(block)
    packs = {op.results[0]: op for op in ops if op.name == PACK}
    results = _results(ops, packs)
    changed: set[IrValue] = set()
    moves = []
    for execute in ops:
        region = _region(execute, packs, results, changed) if execute.name == _EXECUTE else None
        move = _plan(region) if region is not None else None
        if region is not None and move is not None:
            changed |= {region.of_results.results[0], region.of_arrays.results[0]}
            moves.append((region, *move))
    first = ops[0]
    values = [
        (
            [constant(n, first) for n in (places.bytes, *places.starts)],
            {i: constant(start, first) for i, start in moved.items()},
            constant(0, first),
        )
        for _, places, moved in moves
    ]
    for (region, *_), value in zip(moves, values, strict=True):
        _move(region, *value)
    return bool(moves)


def _results(ops: Sequence[ir.Operation], packs: Mapping[IrValue, ir.Operation]) -> dict[IrValue, _Result]:
    """Maps each subview that is a result to its allocation and pack.

    A pack must give the size of the allocation and the offset of the subview. Other subviews are left out.
    """
    results: dict[IrValue, _Result] = {}
    allocations = {
        op.results[0]: op
        for op in ops
        if op.name == _ALLOCATION and str(op.results[0].type) == _EXTERNAL and op.operands[0] in packs
    }
    for op in ops:
        if op.name != _SUBVIEW:
            continue
        base, _, offset, size = op.operands
        pack = packs[allocations[base].operands[0]] if base in allocations else None
        if pack is None or definition(offset) != pack:
            continue
        i = list[IrValue](pack.results).index(offset)
        given = segments(pack)[1][i - 1]
        length, known = number(size), number(given)
        is_within = size == given or (length or 1) <= (known or 0)
        require(is_within, "a result is no longer than its slice of the pack")
        results[op.results[0]] = _Result(allocations[base], pack, i)
    return results


def _region(
    execute: ir.Operation,
    packs: Mapping[IrValue, ir.Operation],
    results: Mapping[IrValue, _Result],
    changed: set[IrValue],
) -> _Region | None:
    """Describes the region of an op `execute`. Returns None unless it has a pack of results and one of other arrays.

    There must be exactly one pack of other arrays. If edits of earlier regions change a pack, it does not count:
    `changed` has the first results of these packs.
    """
    given, sizes, _ = segments(execute)
    body = blocks(execute)[0]
    transient = [
        (argument, packs[size])
        for argument, size in zip(body.arguments, sizes, strict=True)
        if str(argument.type) == _TRANSIENT and size in packs
    ]
    found = [results[value] for value in given if value in results]
    found = [result for result in found if result.pack.results[0] not in changed]
    if len(transient) != 1 or not found or transient[0][1].results[0] in changed:
        return None
    *steps, last = operations(body)
    is_known = last.name == _YIELD and all(step.name.startswith(_STEP) for step in steps)
    require(is_known, f"steps of an execution region begin with '{_STEP}'")
    numbers: dict[ir.Operation | None, int] = {step: i for i, step in enumerate(steps)}
    top = execute.block
    order = {op.results[0]: i for i, op in enumerate(operations(top)) if op.name == _ALLOCATION}
    first = min(found, key=lambda result: order[result.allocation.results[0]])
    pack = first.pack
    written = [0] * len(slices(pack))
    for value, result in results.items():
        if result.pack != pack or list(given).count(value) != 1:
            continue
        is_only_name = len(list(pack.results[result.number].uses)) == 1
        if is_only_name and not _is_used_before(value, execute):
            argument = body.arguments[list(given).index(value)]
            written[result.number - 1] = min(_steps_of(argument, numbers, body), default=0)
    return _Region(execute, first.allocation, pack, written, *transient[0], numbers)


def _is_used_before(value: IrValue, execute: ir.Operation) -> bool:
    """Whether a value is used by an op that comes before the op `execute` or is outside of the block of `execute`."""
    users = [ancestor(use.owner.operation, execute.block) for use in value.uses]
    return any(op is None or (op != execute and op.is_before_in_block(execute)) for op in users)


def _steps_of(value: IrValue, steps: Mapping[ir.Operation | None, int], body: ir.Block) -> set[int]:
    """The indices of the steps of a region that use a value."""
    users = [ancestor(use.owner.operation, body) for use in value.uses]
    return {steps[op] for op in users if op in steps}


def _plan(region: _Region) -> tuple[Allocation, dict[int, int]] | None:
    """Returns the allocation of the results, and a map from each hosted array to its offset in that allocation.

    The keys of the map are the indices of the arrays in `region.of_arrays`. Returns None if hosting saves too little.
    """
    results, arrays = sized(slices(region.of_results)), sized(slices(region.of_arrays))
    if results is None or arrays is None or len(results) + len(arrays) > MOST:
        return None
    places = _places_of_results([result.bytes for result in results], region.written)
    end = aligned(places.bytes + 1) - aligned(1)  # rounded down: hosted arrays end at multiples of 64
    steps, both = len(region.steps), list[LiveArray]()
    for i, array in enumerate(arrays, 1):
        offset = region.of_arrays.results[i]
        uses = _uses(region, offset)
        for use in uses:
            length = number(use.op.operands[use.length])
            is_within = length is not None and length <= array.bytes
            require(is_within, "a use is no longer than its array")
        if uses and len(uses) == len(list(offset.uses)):
            used = _steps_of(offset, region.steps, blocks(region.execute)[0])
            both.append(array._replace(first=min(used), last=max(used)))
        else:  # an array that cannot be hosted is placed after the results
            both.append(LiveArray(0, steps, array.bytes, end))
    fixed = [
        Fixed(start, start + aligned(result.bytes), first, steps)
        for start, first, result in zip(places.starts, region.written, results, strict=True)
    ]
    placed = lowest(both, [*fixed, Fixed(end, end, 0, steps)])
    check_places(both, placed, fixed)
    moved = {i: start for i, start in enumerate(placed.starts, 1) if start < end}
    left = [array for i, array in enumerate(arrays, 1) if i not in moved]
    return (places, moved) if live_bytes(arrays) - live_bytes(left) >= _GAIN else None


def _places_of_results(sizes: list[int], written: list[int]) -> Allocation:
    """The offsets of the results, which ascend in the order in which the results are written.

    The result with the most padding comes last, because the last result is not padded to the alignment.
    """
    numbers = sorted(range(len(sizes)), key=lambda i: written[i])
    last = max(numbers, key=lambda i: aligned(sizes[i]) - sizes[i])
    starts, total = [0] * len(sizes), 0
    for i in [*(i for i in numbers if i != last), last]:
        starts[i], total = total, total + aligned(sizes[i])
    return Allocation(total - aligned(sizes[last]) + -(-sizes[last] // 4) * 4, starts)


def _uses(region: _Region, offset: IrValue) -> list[_Use]:
    """The uses of the array that begins at `offset` by dispatches and fills of the region. Omits all other uses."""
    known = []
    for use in offset.uses:
        op, at = use.owner.operation, use.operand_number
        if op.name == _DISPATCH:
            *_, resources, sizes, offsets, lengths = segments(op)
            begin = len(op.operands) - 4 * len(resources)
            number_ = at - begin - 2 * len(resources)
            if not 0 <= number_ < len(resources) or not len(resources) == len(sizes) == len(offsets) == len(
                lengths
            ):
                continue
            places = [begin + k * len(resources) + number_ for k in range(4)]
            found = _Use(op, *places)
        elif op.name == _FILL and len(op.operands) == 5 and at == 2:
            found = _Use(op, 0, 1, 2, 3)
        else:
            continue
        is_known = op.operands[found.resource] == region.argument
        if is_known and op.operands[found.size] == region.of_arrays.results[0]:
            known.append(found)
    return known


def _move(region: _Region, places: Sequence[IrValue], moved: Mapping[int, IrValue], none: IrValue) -> None:
    """Hosts arrays: moves them to the memory of results, and sets the sizes of their slices of the pack to 0.

    `places` has the size of the memory of the results, then the offsets of the results. `moved` maps the index of each
    hosted array to its new offset. `none` is the constant 0.
    """
    for result, value in zip(region.of_results.results, places, strict=True):
        result.replace_all_uses_with(value)
    erase(region.of_results)
    old = blocks(region.execute)[0]
    given, sizes, awaited = segments(region.execute)
    operands = [region.results.results[0], *given, places[0], *sizes, *awaited]
    counts = ir.DenseI32ArrayAttr.get([1 + len(given), 1 + len(sizes), len(awaited)])
    names = {name: region.execute.attributes[name] for name in region.execute.attributes}
    types = [result.type for result in region.execute.results]
    execute = create(_EXECUTE, types, operands, region.execute, {**names, "operandSegmentSizes": counts}, 1)
    body = _body(execute, old)
    for i, at in moved.items():
        offset = region.of_arrays.results[i]
        for use in _uses(
            region._replace(argument=body.arguments[1 + _position(old, region.argument)]), offset
        ):
            use.op.operands[use.resource] = body.arguments[0]
            use.op.operands[use.size] = places[0]
            use.op.operands[use.offset] = at
        # A pack has no operand for a base offset, so operand i - 1 is the size of slice i.
        region.of_arrays.operands[i - 1] = none
    for result, value in zip(region.execute.results, execute.results, strict=True):
        result.replace_all_uses_with(value)
    erase(region.execute)


def _body(execute: ir.Operation, old: ir.Block) -> ir.Block:
    """Moves the ops of the block `old` to a new block of the op `execute`, and returns the new block.

    The new block has an additional first argument, for the memory of the results.
    """
    result = ir.Type.parse(_EXTERNAL, execute.context)
    types = [result, *(argument.type for argument in old.arguments)]
    body = ir.Block.create_at_start(execute.regions[0], types, [execute.location] * len(types))
    for op in operations(old):
        body.append(op)
    for before, after in zip(old.arguments, list(body.arguments)[1:], strict=True):
        before.replace_all_uses_with(after)
    return body


def _position(block: ir.Block, argument: IrValue) -> int:
    return list[IrValue](block.arguments).index(argument)
