"""carries_in_place: loops on the host update the rows of a carry (loop-carried value) in place, without a copy of it.

    %r = while(%s = %0) { %t = dynamic_update_slice %s, %row, %i; return %t }
    ->  module attributes {stream.topology = ...}
        %1 = a mark of %0 (`marks.py`)                              an array of the loop's own
        %r = while(%s = %1) { %t = dynamic_update_slice %s, %row, %i; return %t }

IREE loses track of the device that holds a loop's carries, and copies a carry before each read or update: n iterations
that each write one row of a stack copy n rows each. IREE assumes two devices there. The topology says that both share
memory, so that IREE leaves these copies out.

With the topology, IREE updates a carry in place even if other values share its memory. Hence this pass rewrites all
loops of a module:

- A carry that only a chain of updates reads, whose last result becomes the carry's next value, is updated in place. Its
  initial value is copied first, to an array that IREE merges with no other.
- Any other op that updates a carry, or a value that may be a view of a carry, updates a copy.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.emit.emitter import Emitter, is_static, within
from tiduc.backends.iree.emit.kernels import KERNEL
from tiduc.backends.iree.emit.marks import marked
from tiduc.backends.iree.emit.updates import COMPUTED, copied, may_be, size, updated
from tiduc.backends.iree.emit.workgroups import DISPATCH
from tiduc.backends.iree.fast.loops.carries import updates_between
from tiduc.backends.iree.fault import slow
from tiduc.dialect.graph.dependences import reached
from tiduc.dialect.graph.functions import functions_in
from tiduc.dialect.graph.graph import captured, operations, terminator
from tiduc.dialect.mlir.constants import has_resources
from tiduc.dialect.mlir.context import context, stage
from tiduc.dialect.ops.traits import CONTROL

TOPOLOGY = "stream.topology"
_ONE_DEVICE = (
    "#hal.device.topology<links = [(@__device_0 -> @__device_0 = "
    "{transparent_access = true, unified_memory = true})]>"
)
"""The program has one device, which IREE names `__device_0`; the link says that it shares memory with itself."""

_WHILE = "stablehlo.while"
_CALLS = {"func.call", "stablehlo.composite"}
_NEW = COMPUTED | {KERNEL, DISPATCH, "stablehlo.constant"}
"""Ops whose result is a new array."""
_WRITERS = "insert", "transfer_write"
"""Parts of the names of ops in dispatches, besides those with regions, that may write to an operand."""


@slow("Copies a carry before each read or update of it; loops on the host update carries in place.")
@stage
def carries_in_place(module: Any) -> int:
    """Rewrites the loops that the host runs, in place; gives their number."""
    ops = [op for function in functions_in(module) for op in _on_host(function)]
    loops = [op for op in ops if op.name == _WHILE]
    if not loops or has_resources(module) or any(op.name in _CALLS or _writes_to_captured(op) for op in ops):
        return 0
    chains = {(loop, i): _chain(loop, i) for loop in loops for i in range(len(loop.operands))}
    carries = {key: chain for key, chain in chains.items() if _is_updated_alone(*key, chain)}
    in_place = set(itertools.chain.from_iterable(carries.values()))
    for op in ops:
        for i in updated(op):
            x = op.operands[i]
            if x not in in_place and _may_be_carry(x):
                op.operands[i] = copied(Emitter(ir.InsertionPoint(op), op.location), x)
    for loop, i in carries:
        b = Emitter(ir.InsertionPoint(loop), loop.location)
        loop.operands[i] = marked(b, loop.operands[i])
    context().allow_unregistered_dialects = True  # stays set, as in kernels.py
    module.operation.attributes[TOPOLOGY] = ir.Attribute.parse(_ONE_DEVICE)
    return len(loops)


def _on_host(op: Any) -> Iterator[Any]:
    """The ops in an op that are not inside of a dispatch."""
    for region in op.regions:
        for block in region.blocks:
            for inner in list(operations(block)):
                yield inner
                if inner.name != KERNEL:
                    yield from _on_host(inner)


# ---- carries that a loop updates in place ------------------------------------------------------------------------


def _is_updated_alone(loop: Any, i: int, chain: Sequence[Any]) -> bool:
    """Whether carry i and each array of its chain have one reader: the next update, or the terminator for the last."""
    condition, body = (region.blocks[0] for region in loop.regions)
    if len(chain) < 2 or not is_static(chain[0].type) or list(condition.arguments[i].uses):
        return False
    return all(len(list(x.uses)) == 1 for x in chain) and all(
        x.owner.operation.block == body for x in chain[1:]
    )


def _chain(loop: Any, i: int) -> list[Any]:
    """Carry i at the start of an iteration, and the results of the updates between it and its next value."""
    body = loop.regions[1].blocks[0]
    carry = body.arguments[i]
    return [carry, *(op.results[0] for op in updates_between(terminator(body).operands[i], carry))]


# ---- values that may be carries ----------------------------------------------------------------------------------


def _may_be_carry(x: Any) -> bool:
    """Whether IREE may find an array to be a carry of a loop on the host, or a view of one."""
    return any(
        isinstance(y.owner, ir.Block) and y.owner.owner.operation.name == _WHILE
        for y in reached([x], _sources)
    )


def _sources(y: Any) -> list[Any]:
    """The values that y may be, or be a view of: the operands of its size, unless the op computes a new array."""
    if isinstance(y.owner, ir.Block) or y.owner.name in _NEW:
        return []
    return may_be(y) if y.owner.name in CONTROL else [x for x in y.owner.operands if size(x) == size(y)]


def _writes_to_captured(op: Any) -> bool:
    """Whether an op in a dispatch may write to an array from outside that may be a carry."""
    if op.name != KERNEL:
        return False
    outside = set(captured(op))
    return any(
        x in outside and x.type in [y.type for y in inner.results] and _may_be_carry(x)
        for inner in within(op)[1:]
        if list(inner.regions) or any(name in inner.name for name in _WRITERS) or len(updated(inner))
        for x in inner.operands
    )
