"""Loops, and calls of what is no function."""

import itertools
from collections.abc import Sequence
from typing import Any

from torch_mlir import ir

from tiduc.dialect.graph import captured, operations
from tiduc.dialect.types import is_complex
from tiduc.passes.iree.calls import CALLS
from tiduc.passes.iree.emitter import Emitter, legalize
from tiduc.passes.iree.refused import refused

TRANSPARENT = {"Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "LayoutConstraint"}
"""Calls that are hints to other compilers: their result is their operand."""

_JOINS = ("stablehlo.while", "stablehlo.if", "stablehlo.case", "func.call", "stablehlo.composite")
"""Ops whose results come together from elsewhere."""


@legalize("stablehlo.while")
def while_(b: Emitter, op: Any) -> Sequence[Any] | None:
    """A carry that the condition reads, and the body does not, makes the compiler crash: the body seems to read it.

    In place: the body returns what a barrier of the new and the old carry gives. So it does for a new carry that is
    made outside of the body, which the compiler takes out of the loop, and then does not find.
    """
    condition, body = (region.blocks[0] for region in op.regions)
    used = [bool(list(x.uses)) for x in condition.arguments], [bool(list(x.uses)) for x in body.arguments]
    last = _end(body)
    outside = captured(op)
    for i, (of_condition, of_body) in enumerate(zip(*used, strict=True)):
        new, old = last.operands[i], body.arguments[i]
        if (of_condition and not of_body) or new in outside:
            made = Emitter(ir.InsertionPoint(last), op.location).barrier(new, old)
            last.operands[i] = made[0]
    _separated(b, op)
    return None


def _separated(b: Emitter, op: Any) -> None:
    """Where a loop follows another one, what it starts with and others read too comes from behind a barrier.

    Else the compiler schedules what is made before the loop together with what reads it after, and finds that this
    depends on itself.
    """
    before = list(itertools.takewhile(lambda other: other != op, operations(op.operation.block)))
    if not any(other.name in _JOINS for other in before):
        return
    here = {y for other in before if other.name not in (*_JOINS, "stablehlo.constant") for y in other.results}
    for i, x in enumerate(op.operands):
        if x in here and len(list(x.uses)) > 1:
            op.operands[i] = b.barrier(x)[0]


def _end(block: Any) -> Any:
    """The op that ends a block."""
    return list(operations(block))[-1]


@legalize("stablehlo.custom_call")
def custom_call(b: Emitter, op: Any) -> Sequence[Any] | None:
    """None compiles: those of linear algebra are written out, and hints to other compilers left out."""
    target = ir.StringAttr(op.attributes["call_target_name"]).value
    if target in TRANSPARENT and [x.type for x in op.operands] == [y.type for y in op.results]:
        return list(op.operands)
    if target in CALLS:
        return CALLS[target](b, op)
    raise refused(op, f"there is no @{target} in IREE")


@legalize("stablehlo.replica_id", "stablehlo.partition_id")
def process_id(b: Emitter, op: Any) -> Sequence[Any] | None:
    """A module runs alone, as process 0."""
    return [b.constant(0, op.results[0].type)]


@legalize("stablehlo.rng")
def rng(b: Emitter, op: Any) -> Sequence[Any] | None:
    """Of integers it does not compile."""
    if isinstance(op.results[0].type.element_type, ir.IntegerType) or is_complex(op.results[0]):
        raise refused(op, "only numbers of float types can be drawn; rng_bit_generator gives integers")
    return None
