"""updates_after_reads: copies an array before an op updates it in place, if others keep the array or may read it later.

    %r = reverse %x                                     %r = reverse %x
    %y = dynamic_update_slice %x, %u, %i    ->          %c = select %always, %x, 0
                                                        %y = dynamic_update_slice %c, %u, %i

IREE copies an array before an update in place if a reader comes after the update in program order. Readers that come
before need no copy, but IREE then reorders: which dispatches run concurrently, and, if the host needs a value that
the update leads to, which command buffer they are in. Both may put a reader after the update, and the reader sees the
updated array: silently wrong values. The fault was seen on CPUs, vmvx and Vulkan.

A reader that the update waits for is harmless, unless another op needs the reader's values, too: IREE may compute
them again for that op. Arrays that IREE finds equal are one array to this pass. Loop-carried values need no copy: a
loop on the host copies them before each update, and a loop inside a dispatch keeps the order of its ops.
"""

from collections import defaultdict
from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.dependences import awaited_by, in_block, reached
from tiduc.backends.iree.emitter import Emitter, within
from tiduc.backends.iree.fault import wrong
from tiduc.backends.iree.faults.concatenations import Numbers
from tiduc.backends.iree.faults.updates_in_place import copied, is_carry, is_kept
from tiduc.dialect.graph import operations

_BARRIER = "stablehlo.optimization_barrier"


@wrong(
    "Updates an argument, or an array from outside a loop, in place; copies the array.", "update_of_argument"
)
@wrong(
    "Updates an array in place before another op has read it; the update gets a copy of the array.",
    "reads_before_updates",
)
def updates_after_reads(module: Any) -> None:
    """Puts the copies into a module, in place."""
    for function in operations(module.operation.regions[0].blocks[0]):
        ops = within(function)
        if not any(_updated(op) for op in ops):
            continue
        arrays = _Arrays(ops)
        for op in ops:
            for i in _updated(op):
                x = op.operands[i]
                if is_kept(op, x) or (not is_carry(x) and _is_read_later(arrays.readers(x, op), op)):
                    op.operands[i] = copied(Emitter(ir.InsertionPoint(op), op.location), x)


def _updated(op: Any) -> range:
    """The numbers of the operands that an op updates in place."""
    count = len(op.operands)
    counts = {
        "stablehlo.dynamic_update_slice": 1,
        "stablehlo.scatter": (count - 1) // 2,
        "stablehlo.sort": count,
    }
    return range(counts.get(op.name, 0))


class _Arrays:
    """The arrays of a function, and the ops that read them. Views and equal values are one array."""

    def __init__(self, ops: list[Any]) -> None:
        self._numbers = Numbers(through_barriers=True)
        self._uses: dict[int, list[Any]] = defaultdict(list)
        for op in ops:
            self._numbers.note(op)
            results = {self._numbers.of(y) for y in op.results}
            for n in {self._numbers.of(x) for x in op.operands} - results:
                self._uses[n].append(op)

    def readers(self, x: Any, update: Any) -> list[Any]:
        """The ops in the block of an update, other than the update, that read the array x, also in their regions."""
        block = update.operation.block
        readers = dict.fromkeys(in_block(op, block) for op in self._uses[self._numbers.of(x)])
        return [op for op in readers if op is not None and op != update.operation]


def _is_read_later(readers: list[Any], update: Any) -> bool:
    """Whether IREE may compute the values of a reader after an update, or again after the update."""
    block, awaited = update.operation.block, awaited_by(update) if readers else ()

    def users(op: Any) -> set[Any]:
        if op not in awaited or op.name == _BARRIER:
            return set()
        return {in_block(use.owner, block) for y in op.results for use in y.uses} - {update.operation, None}

    return any(op not in awaited for op in reached(readers, users))
