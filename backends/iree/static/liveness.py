"""Finds which buffers of the host code are live, and the order in which blocks of the host code are translated."""

from collections.abc import Iterator, Sequence

from iree.compiler import ir

from tiduc.backends.iree.modules.ops import IrValue

_BUFFERS = ("!stream.resource", "!hal.buffer_view", "!util.buffer", "!stream.file")
FREE = "stream.resource.dealloca"


def is_time(type_: ir.Type) -> bool:
    """Whether a type is IREE's type of timepoints, for which host code waits."""
    return str(type_) == "!stream.timepoint"


def is_buffer(type_: ir.Type) -> bool:
    """Whether a type is one of IREE's types of buffers in memory."""
    return str(type_).startswith(_BUFFERS)


def _reads(op: ir.Operation) -> Iterator[IrValue]:
    """The buffers that an op reads: these are operands, because regions read only buffers that their op takes."""
    return (value for value in op.operands if is_buffer(value.type))


def reachable(blocks: Sequence[ir.Block]) -> list[ir.Block]:
    """Returns the blocks that may run, in reverse postorder: a block comes after the blocks whose values it reads.

    Blocks that run only if `stream.resource.try_map` fails are left out, because in C this op always succeeds.
    """
    finished: list[ir.Block] = []
    seen, path = {blocks[0]}, [(blocks[0], iter(successors_of(blocks[0])))]
    while path:
        block, rest = path[-1]
        following = next((successor for successor in rest if successor not in seen), None)
        if following is None:
            finished.append(block)
            path.pop()
        else:
            seen.add(following)
            path.append((following, iter(successors_of(following))))
    return finished[::-1]


def successors_of(block: ir.Block) -> list[ir.Block]:
    """The blocks to which the last op of a block may branch."""
    last = list(block.operations)[-1].operation
    return list(last.successors)[:1] if is_mapped(last) else list(last.successors)


def is_mapped(branch: ir.Operation) -> bool:
    """Whether a branch tests the result of `stream.resource.try_map`. The C code always takes the first successor."""
    return branch.name == "cf.cond_br" and _owner(branch.operands[0]) == "stream.resource.try_map"


def _owner(value: IrValue) -> str:
    """Returns the name of the op that defines a value, or "" for an argument of a block."""
    return getattr(value.owner, "name", "")


def live_after(
    operations: Sequence[ir.Operation], entries: dict[ir.Block, set[IrValue]]
) -> list[set[IrValue]]:
    """Returns the buffers that are live after each op of a block. `entries` has those live at the start of blocks.

    An op that frees a buffer does not count as a use of the buffer.
    """
    live: set[IrValue] = set()
    for successor in operations[-1].successors:
        live |= entries.get(successor, set())  # empty for a block that never runs
    after: list[set[IrValue]] = []
    for op in reversed(operations):
        after.append(set(live))
        live -= set(op.results)
        live |= set() if op.name == FREE else set(_reads(op))
    return after[::-1]


def live_at_entry(blocks: Sequence[ir.Block]) -> dict[ir.Block, set[IrValue]]:
    """Maps each block to the buffers from other blocks that are live at the block's beginning."""
    entries: dict[ir.Block, set[IrValue]] = {block: set() for block in blocks}
    lists = {block: [o.operation for o in block.operations] for block in blocks}
    changed = True
    while changed:
        changed = False
        for block in reversed(blocks):
            first = lists[block][0]
            live = live_after(lists[block], entries)[0] - set(first.results)
            live |= set() if first.name == FREE else set(_reads(first))
            live -= set(block.arguments)
            if live - entries[block]:
                entries[block] |= live
                changed = True
    return entries


def has_loop(blocks: Sequence[ir.Block]) -> bool:
    """Whether a block may branch to itself or to an earlier block in the list, so that blocks may run again."""
    place = {block: i for i, block in enumerate(blocks)}
    return any(place[after] <= i for block, i in place.items() for after in successors_of(block))
