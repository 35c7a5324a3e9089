"""Loops, and calls of what is no function."""

import itertools
from collections.abc import Sequence
from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.calls import CALLS
from tiduc.backends.iree.emitter import Emitter, is_in_loop, legalize
from tiduc.backends.iree.faults.updates_in_place import copied, is_carry, is_table
from tiduc.backends.iree.refused import refused
from tiduc.dialect.graph import captured, operations
from tiduc.dialect.lapack import check_call
from tiduc.dialect.types import is_complex, is_open

TRANSPARENT = {"Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "LayoutConstraint"}
"""Calls that are hints to other compilers: their result is their operand."""

_JOINS = ("stablehlo.while", "stablehlo.if", "stablehlo.case", "func.call", "stablehlo.composite")
"""Ops whose results come together from elsewhere."""

_UNKNOWN = ("stablehlo.optimization_barrier", "func.call")
"""Ops whose results are no constants, or not known to be."""


@legalize("stablehlo.while")
def while_(b: Emitter, op: Any) -> Sequence[Any] | None:
    """A carry that the body does not read makes the compiler crash, or take all memory: the body seems to read it.

    In place: the body returns what a barrier of the new and the old carry gives. So it does for a new carry in which
    the old ones have no part, which the compiler takes out of the loop, and then does not find; and for one that is
    another carry, too, of which the compiler drops one. A loop that gives a number and depends on constants alone
    starts behind a barrier: it would run when the module is loaded, and where the host reads the number then, the
    compiler gives up.
    """
    body = op.regions[1].blocks[0]
    last, varying = list(operations(body))[-1], _varying(body)
    _without_tables(b, op)
    _without_tables(b, last)
    for i, old in enumerate(body.arguments):
        new = last.operands[i]
        if not list(old.uses) or new not in varying or new in list(last.operands)[:i]:
            at_end = Emitter(ir.InsertionPoint(last), op.location, b.cpu)
            last.operands[i] = at_end.barrier(awaited(at_end, new), old)[0]
            b.emitted += at_end.emitted
    _separated(b, op)
    if any(not y.type.shape and list(y.uses) for y in op.results) and _is_known(op):
        op.operands[0] = b.barrier(op.operands[0])[0]
    return None


@legalize("stablehlo.optimization_barrier")
def optimization_barrier(b: Emitter, op: Any) -> Sequence[Any] | None:
    """Of a loop's carry the compiler does not wait for what makes it, and may even leave that out: a copy is made."""
    for i, x in enumerate(list(op.operands)):
        if list(op.results[i].uses):
            op.operands[i] = awaited(b, x)
    return None


def awaited(b: Emitter, x: Any) -> Any:
    """A value that may be behind a barrier: of a loop's carry a copy."""
    return copied(b, x) if is_carry(x) and not is_open(x.type) else x


def _is_known(op: Any) -> bool:
    """What an op gives follows from constants: no argument has a part in it, and no barrier."""
    waiting, seen = [op], {op}
    while waiting:
        maker = waiting.pop()
        for x in (*maker.operands, *captured(maker)):
            if isinstance(x.owner, ir.Block) or x.owner.name in _UNKNOWN:
                return False
            if x.owner not in seen:
                seen.add(x.owner)
                waiting.append(x.owner)
    return True


def _varying(body: Any) -> set[Any]:
    """The values in a loop's body in which its carries have a part."""
    found = set(body.arguments)
    for op in operations(body):
        if any(x in found for x in (*op.operands, *captured(op))):
            found.update(op.results)
    return found


def _separated(b: Emitter, op: Any) -> None:
    """Where a loop follows another one, what it starts with and others read too is a copy; a number, behind a barrier.

    Else the compiler schedules what is made before the loop together with what reads it after, and finds that this
    depends on itself. Of an array with which two loops start, barriers alone would leave one: what says where it lies
    is made after the first of them.
    """
    before = list(itertools.takewhile(lambda other: other != op, operations(op.operation.block)))
    if not any(other.name in _JOINS for other in before):
        return
    here = {y for other in before if other.name not in (*_JOINS, "stablehlo.constant") for y in other.results}
    for i, x in enumerate(op.operands):
        if x in here and len(list(x.uses)) > 1:
            op.operands[i] = copied(b, x) if x.type.shape and not is_open(x.type) else b.barrier(x)[0]


@legalize("stablehlo.if", "stablehlo.case")
def if_(b: Emitter, op: Any) -> Sequence[Any] | None:
    """In loops, arrays of constants that branches return are copies, as what a loop begins with is."""
    if is_in_loop(op):
        for region in op.regions:
            _without_tables(b, list(operations(region.blocks[0]))[-1])
    return None


def _without_tables(b: Emitter, op: Any) -> None:
    """A loop begins, and goes on, with no array of constants, but with a copy.

    The compiler wants all that a carry may be in one kind of memory, and does not find that of constants to be that
    of arguments and results.
    """
    before = Emitter(ir.InsertionPoint(op), op.location, b.cpu)
    for i, x in enumerate(list(op.operands)):
        if is_table(x):
            op.operands[i] = copied(before, x)
    b.emitted += before.emitted


@legalize("stablehlo.custom_call")
def custom_call(b: Emitter, op: Any) -> Sequence[Any] | None:
    """None compiles: those of linear algebra are written out, and hints to other compilers left out."""
    target = ir.StringAttr(op.attributes["call_target_name"]).value
    if target in TRANSPARENT and [x.type for x in op.operands] == [y.type for y in op.results]:
        return list(op.operands)
    if target in CALLS:
        check_call(op)
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
