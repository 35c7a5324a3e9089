"""carries_in_place: makes loops on the host update rows of a carry (loop-carried value) without copying the carry.

    %r = while(%s = %0) { %t = dynamic_update_slice %s, %row, %i; return %t }
    ->  module attributes {stream.topology = ...}
        %1 = a copy of %0 (a mark, see `marks.py`)                  a new array, which only the loop uses
        %r = while(%s = %1) { %t = dynamic_update_slice %s, %row, %i; return %t }

IREE does not know which device holds a loop's carries, and copies a whole carry before each read or update, as if it
were on another device. The topology says that the device shares memory with itself, so IREE omits these copies.

With the topology, IREE updates a carry in place even if other values share its memory, so that their readers would get
wrong values. This pass therefore rewrites all loops of a module that the host runs:

- A carry is updated in place if a chain of updates leads from it to its next value, and only the next update of the
  chain reads it. The carry's initial value is first copied to an array that IREE never merges with others.
- All other ops that update a carry, or a value that may be a view of a carry, are made to update a copy.
"""

import itertools
from collections.abc import Sequence

from torch_mlir import ir

from tiduc.backends.iree.emit.emitter import Emitter, is_static
from tiduc.backends.iree.emit.marks import marked
from tiduc.backends.iree.emit.updates import copied, updated, updates_between
from tiduc.backends.iree.fast.loops.loop_forms import IN_PLACE, may_be_carry, on_host
from tiduc.backends.iree.fault import slow
from tiduc.dialect.graph.functions import functions_in
from tiduc.dialect.graph.graph import terminator
from tiduc.dialect.mlir.context import context, stage
from tiduc.dialect.ops.ir_types import IrOp, IrValue

TOPOLOGY = "stream.topology"
_ONE_DEVICE = (
    "#hal.device.topology<links = [(@__device_0 -> @__device_0 = "
    "{transparent_access = true, unified_memory = true})]>"
)
"""The topology. The program has one device, which IREE names `__device_0`. The link says that the device shares memory
with itself."""


@slow(
    "IREE copies a loop-carried array before each read or update; tiduc makes the host's loops update it in place.",
    "suite.py: lstm",
)
@stage
def carries_in_place(module: ir.Module) -> int:
    """Lets the loops that the host runs update their carries without copies. Changes the module.

    Returns the number of these loops, or 0 if the module was not changed because `IN_PLACE` has a reason against it.
    """
    ops = [op for function in functions_in(module) for op in on_host(function)]
    loops = [op for op in ops if op.name == "stablehlo.while"]
    if not loops or IN_PLACE.against(loops[0]):  # the answer is the same for all loops of a module
        return 0
    chains = {(loop, i): _chain(loop, i) for loop in loops for i in range(len(loop.operands))}
    carries = {key: chain for key, chain in chains.items() if _is_updated_alone(*key, chain)}
    in_place = set(itertools.chain.from_iterable(carries.values()))
    for op in ops:
        for i in updated(op):
            x = op.operands[i]
            if x not in in_place and may_be_carry(x):
                op.operands[i] = copied(Emitter(ir.InsertionPoint(op), op.location), x)
    for loop, i in carries:
        b = Emitter(ir.InsertionPoint(loop), loop.location)
        loop.operands[i] = marked(b, loop.operands[i])
    context().allow_unregistered_dialects = True  # never reset (`kernels.py` has the reason)
    module.operation.attributes[TOPOLOGY] = ir.Attribute.parse(_ONE_DEVICE)
    return len(loops)


# ---- find the carries that a loop updates in place ---------------------------------------------------------------


def _is_updated_alone(loop: IrOp, i: int, chain: Sequence[IrValue]) -> bool:
    """Whether each array in the chain of carry i has one reader: the next update or, for the last one, the terminator.

    False for a chain without updates, for a dynamic shape, and if the loop's condition reads the carry.
    """
    condition, body = (region.blocks[0] for region in loop.regions)
    if len(chain) < 2 or not is_static(chain[0].type) or list(condition.arguments[i].uses):
        return False
    return all(len(list(x.uses)) == 1 for x in chain) and all(
        ir.OpResult(x).owner.operation.block == body for x in chain[1:]
    )


def _chain(loop: IrOp, i: int) -> list[IrValue]:
    """Returns carry i as an argument of the body, then the results of the updates that lead to its next value."""
    body = loop.regions[1].blocks[0]
    carry = body.arguments[i]
    return [carry, *(op.results[0] for op in updates_between(terminator(body).operands[i], carry))]
