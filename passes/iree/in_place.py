"""stacks_in_place: what a loop on the host writes to part by part is not copied for each part.

    %y = while(%a = %0) { %p = dynamic_update_slice %a, %u, %i; return %p }
    ->  %1 = a copy of %0;  while(%a = transfer %1) { ...; return transfer %p }

IREE does not know on which device the carries of a loop are, and has each copied to where it is used: an iteration of a
scan takes longer the longer the scan is. `flow.tensor.transfer` says it, and costs nothing where it is there already.

Without that copy IREE writes into the carry's memory whether something else is there or not, such as a second carry
that began with the same value. So the loop gets memory of its own to begin with, and only carries are chosen that
nothing reads in the loop but their updates, and whose result nothing updates after it. A loop that holds others, or
branches, stays as it is: what these read IREE has overwritten.
"""

from collections.abc import Iterator
from typing import Any

from torch_mlir import ir

from tiduc.dialect.context import context, stage
from tiduc.dialect.graph import operations
from tiduc.dialect.types import bits
from tiduc.passes.calls import CONTROL
from tiduc.passes.iree.emitter import Emitter, signless, within
from tiduc.passes.iree.packing import splat, updates

_DEVICE = "#hal.device.affinity<@__device_0>"
"""IREE's name for the only device of a module."""

_READING = frozenset(
    f"stablehlo.{name}"
    for name in "add convert dot_general dynamic_slice gather multiply negate reduce subtract transpose while".split()
) | {"func.return"}
"""What may read the result: nothing that IREE does in the memory of an operand."""

_VIEWS = frozenset(("stablehlo.reshape", "stablehlo.slice"))
"""Whose result is in the memory of the operand, maybe."""


@stage
def stacks_in_place(module: Any) -> int:
    """Rewrites loops that are in no dispatch, in place; how many carries are updated where they are."""
    made = 0
    for loop in _loops(module.operation):
        made = _loop(loop, made)
    return made


def _loops(op: Any) -> Iterator[Any]:
    """Those in an op that are in no dispatch."""
    for region in op.regions:
        for block in region.blocks:
            for inner in list(operations(block)):
                if inner.name != "flow.dispatch.region":
                    yield from _loops(inner)
                    if inner.name == "stablehlo.while":
                        yield inner


def _loop(loop: Any, made: int) -> int:
    """Those of a loop; `made` is how many there are already, and then how many there are with these.

    In one that holds branches or loops there are none: what these read is not seen to be read in time.
    """
    if any(inner.name in CONTROL for inner in within(loop)[1:]):
        return made
    chosen = [
        i
        for i, y in enumerate(loop.results)
        if y.type.has_static_shape and bits(y) > 1 and updates(loop, i) and _only_read(y)
    ]
    end = list(operations(loop.regions[1].blocks[0]))[-1]
    before, inside = (Emitter(ir.InsertionPoint(op), loop.location) for op in (loop, end))
    for number, i in enumerate(chosen, made):
        loop.operands[i] = _here(before, _copied(before, loop.operands[i], number))
        end.operands[i] = _here(inside, end.operands[i])
    return made + len(chosen)


def _only_read(x: Any) -> bool:
    """Nothing is done in the memory of a value."""
    return all(
        use.owner.operation.name in _READING
        or use.owner.operation.name in _VIEWS
        and _only_read(use.owner.operation.results[0])
        for use in x.uses
    )


def _here(b: Emitter, x: Any) -> Any:
    context().allow_unregistered_dialects = True  # for good: the op is copied, and printed, by others
    return b.emit("flow.tensor.transfer", (x,), x.type, {"target": ir.Attribute.parse(_DEVICE)})


def _copied(b: Emitter, x: Any, number: int) -> Any:
    """The value x in memory that nothing else has: the number, behind a barrier, keeps it apart from others."""
    scalar = ir.RankedTensorType.get([], signless(32))
    (behind,) = b.barrier(b.constant(number, scalar))
    always = b.compare(behind, b.constant(0, scalar), "GE")
    zero = b.constant(0, x.type)
    value = splat(x)
    other = b.constant(1, x.type) if value is not None and value == splat(zero) else zero
    return b.select(always, x, other)
