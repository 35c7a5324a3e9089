"""Copies of what IREE would update in place, though others keep it.

    %y = dynamic_update_slice %x, %u, %i   ->   %c = select %always, %x, 0;  %y = dynamic_update_slice %c, %u, %i

IREE updates and sorts arrays where they lie. It copies what it knows to be read afterwards, but not

- what a loop captures, or what is made of that and nothing else, which it does before the loop: the next iteration
  begins with the update;
- an argument of the program, though it may be a result, too, and is the caller's, who may pass it again.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from torch_mlir import ir

from tiduc.dialect.graph import captured
from tiduc.dialect.types import bits, element, is_open, shape, with_element
from tiduc.passes.iree.emitter import Emitter, signless
from tiduc.passes.iree.packing import splat

_ALONE = ("convert", "transpose", "broadcast_in_dim", "slice", "pad", "reverse", "concatenate")
_VIEWS = frozenset(
    f"stablehlo.{name}" for name in ("reshape", "optimization_barrier", "bitcast_convert", *_ALONE)
)
"""Ops whose result may be an operand, seen in another way."""


def own(b: Emitter, op: Any, x: Any) -> Any:
    """What an op updates: where others keep that, a copy that is made before the op."""
    if is_open(x.type) or not (_is_argument(x) or _is_kept(op, x)):
        return x
    zero, value = b.constant(0, x), splat(x)
    if value is not None and value == splat(zero):
        return x  # which IREE fills anew
    # A choice that only the run shows to be none is a copy each time.
    (number,) = b.barrier(b.constant(0, ir.RankedTensorType.get([], signless(32))))
    always = b.compare(number, b.constant(0, number), "EQ")
    # By one number alone, without a dimension, the choice would be one of two arrays, and copy none.
    return b.select(b.broadcast_in_dim(always, [], with_element(x.type, element(always))), x, zero)


def behind(x: Any, block: Any) -> Iterator[Any]:
    """A value, and what the ops of a block make it of, back to what they do not make."""
    waiting, found = [x], set[Any]()
    while waiting:
        y = waiting.pop()
        yield y
        owner = y.owner
        if (
            not isinstance(owner, ir.Block)
            and owner.operation.block == block
            and owner.operation not in found
        ):
            found.add(owner.operation)
            waiting += [*owner.operation.operands, *captured(owner.operation)]


def _is_argument(x: Any) -> bool:
    """It is an argument of the program, perhaps seen as another array; not one that is the caller's no more."""
    while not isinstance(x.owner, ir.Block):
        op = x.owner.operation
        number = x.result_number if op.name == "stablehlo.optimization_barrier" else 0
        if op.name not in _VIEWS or _size(op.operands[number]) != _size(x):
            return False
        x = op.operands[number]
    function = x.owner.owner.operation
    return function.name == "func.func" and not _is_private(function) and not _is_given_away(function, x)


def _size(x: Any) -> int | None:
    """The bits of an array; None where sizes are open."""
    return None if is_open(x.type) else bits(x) * int(np.prod(shape(x), dtype=np.int64))


def _is_private(function: Any) -> bool:
    return "private" in str(function.attributes.get("sym_visibility"))


def _is_given_away(function: Any, x: Any) -> bool:
    """An argument that a result is to lie in, and that one op reads."""
    attributes = function.attributes.get("arg_attrs")
    return attributes is not None and "iree.abi.output" in attributes[x.arg_number] and len(list(x.uses)) == 1


def _is_kept(op: Any, x: Any) -> bool:
    """A value that an op in a region, or in a function that is called, reads is the same each time."""
    block = op.operation.block
    parent = block.owner.operation
    if parent.name == "func.func" and not _is_private(parent):
        return False
    return not any(
        y.owner == block and parent.name == "stablehlo.while" and not _is_carried_on(y)
        for y in behind(x, block)
    )


def _is_carried_on(x: Any) -> bool:
    """An argument of a loop's body that the next iteration gets as it is."""
    return any(
        use.owner.operation.name == "stablehlo.return" and use.operand_number == x.arg_number
        for use in x.uses
    )
