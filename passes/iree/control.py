"""Loops, and calls of what is no function."""

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


@legalize("stablehlo.while")
def while_(b: Emitter, op: Any) -> Sequence[Any] | None:
    """A carry that the condition reads, and the body does not, makes the compiler crash: the body seems to read it.

    In place: the body returns what a barrier of the new and the old carry gives. So it does for a new carry that is
    made outside of the body, which the compiler takes out of the loop, and then does not find.
    """
    condition, body = (region.blocks[0] for region in op.regions)
    used = [bool(list(x.uses)) for x in condition.arguments], [bool(list(x.uses)) for x in body.arguments]
    end = operations(body)
    last = list(end)[-1]
    outside = captured(op)
    for i, (of_condition, of_body) in enumerate(zip(*used, strict=True)):
        new, old = last.operands[i], body.arguments[i]
        if (of_condition and not of_body) or new in outside:
            made = Emitter(ir.InsertionPoint(last), op.location).barrier(new, old)
            last.operands[i] = made[0]
    return None


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
