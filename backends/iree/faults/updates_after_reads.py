"""updates_after_reads: copies an array before an update in place, if the old array is still needed.

    %r = reverse %x                                     %r = reverse %x
    %y = dynamic_update_slice %x, %u, %i    ->          %c = select %always, %x, 0
                                                        %y = dynamic_update_slice %c, %u, %i

IREE updates and sorts arrays in place. It copies an array first if a reader comes after the update in program order.
But it does not copy the following arrays:

- An array from outside of a loop that the loop's body updates. The next iteration then begins with the updated array.
  This includes arrays that the body computes from outer values alone, because IREE hoists them out of the loop.
- An argument of the program, although the caller may pass it to another call, or the program may return it, too.
- An array whose readers come before the update. IREE may run such a reader after the update, because dispatches run
  concurrently, and because IREE moves dispatches to other command buffers if the host needs a value that depends on
  the update. The reader then sees the updated array: silently wrong values, on CPUs, vmvx and Vulkan.
- A result of a conditional, if the branch that ran returned one array as two results. An update of one result then
  changes the other.
- A result of a loop whose body returns an array from outside, if IREE finds that the array is constant. The next call
  of the program then reads the updated constant.

A reader is harmless if the update depends on the reader's results, so that it runs first. But if another op reads these
results, too, IREE may recompute them for that op, after the update. Arrays that IREE finds equal count as one array.
Loop-carried values need no copy: a loop on the host copies them before each update (or `carries_in_place` handles
them), and a loop inside a dispatch keeps the order of its ops.
"""

import functools
import math
from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.emit.emitter import HIDDEN, Emitter
from tiduc.backends.iree.emit.marks import BARRIER
from tiduc.backends.iree.emit.updates import (
    MAY_VIEW,
    alternatives,
    copied,
    is_carry,
    is_within,
    may_be,
    traced_in,
    updated,
)
from tiduc.backends.iree.fault import wrong
from tiduc.dialect.errors import ParseError
from tiduc.dialect.graph.dependences import awaited_by, behind, in_block, reached, read_by
from tiduc.dialect.graph.functions import functions_in, outer_first
from tiduc.dialect.graph.graph import terminator
from tiduc.dialect.graph.matching import defined_by, traced
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.ops.traits import COMPLEX_PARTS, CONTROL
from tiduc.dialect.shapes.types import is_dynamic

DONATED = "iree.abi.output"
"""The name of an argument's attribute. Its value is the index of the result that reuses the argument's memory."""


@wrong(
    "IREE updates an argument, or an array from outside a loop, in place; tiduc copies the array.",
    "update_of_argument",
    upstream="https://github.com/iree-org/iree/issues/16168",
)
@wrong(
    "IREE updates an array in place before another op has read it; tiduc updates a copy.",
    "reads_before_updates",
)
@wrong(
    "If a branch returns one array as two results, an update of one result changes both; tiduc updates a copy.",
    "update_of_a_result_of_two",
)
def updates_after_reads(module: ir.Module) -> None:
    """Inserts a copy before each update that may overwrite an array too early. Changes the module in place."""
    for function in functions_in(module):
        ops = outer_first(function)
        if not any(updated(op) for op in ops):
            continue
        arrays = _Arrays(ops)
        for op in ops:
            for i in updated(op):
                x = op.operands[i]
                if _is_kept(op, x) or (not is_carry(x) and _is_read_later(arrays.readers(x, op), op)):
                    op.operands[i] = copied(Emitter(ir.InsertionPoint(op), op.location), x)


class _Arrays:
    """The arrays of a function, and the ops that read each array. Equal values and views count as one array."""

    def __init__(self, ops: list[ir.Operation]) -> None:
        self._numbers = _Numbers()
        self._uses: dict[int, list[Any]] = defaultdict(list)
        for op in ops:
            self._numbers.note(op)
            results = {self._numbers.of(y) for y in op.results}
            for n in {self._numbers.of(x) for x in op.operands} - results:
                self._uses[n].append(op)

    def readers(self, x: IrValue, update: IrOp) -> list[ir.Operation]:
        """The ops in the update's block that read the array x, themselves or in their regions. Excludes the update."""
        block = update.operation.block
        numbers = [self._numbers.of(y) for y in (x, *self._twins(x))]
        readers = dict.fromkeys(in_block(op, block) for n in numbers for op in self._uses[n])
        return [op for op in readers if op is not None and op != update.operation]

    def _twins(self, x: IrValue) -> list[IrValue]:
        """If x is, or is a view of, a result y of a conditional or loop, the other results that may be the same array.

        Empty if no conditional or loop computes x.
        """
        *_, y = traced(x, MAY_VIEW | {BARRIER})
        if (op := defined_by(y, *CONTROL)) is None:
            return []
        ways = [terminator(region.blocks[0]).operands for region in op.regions]
        if op.name == "stablehlo.while":
            ways = [op.operands, ways[1]]
        sources = [[self._sources(z) for z in way] for way in ways]
        return [
            z
            for z in op.results
            if z != y and any(not way[y.result_number].isdisjoint(way[z.result_number]) for way in sources)
        ]

    def _sources(self, x: IrValue) -> set[int]:
        """The value numbers of the values that x may equal, or may be a view of."""
        return {self._numbers.of(y) for y in reached([x], may_be)}


class _Numbers:
    """Value numbering: the results of equal ops on equal operands share a number.

    An array, its views and its real and imaginary parts share a number. The operand and the result of a barrier share a
    number, unless the barrier hides a constant from IREE (`HIDDEN`).
    """

    def __init__(self) -> None:
        self._of: dict[Any, int] = {}
        self._known: dict[Hashable, int] = {}

    def of(self, x: IrValue) -> int:
        """The value number of x. If `note` has not seen the op that computes x, x gets a new number."""
        return self._of.setdefault(x, len(self._of))

    def note(self, op: IrOp) -> None:
        """Assigns value numbers to the results of an op, from the value numbers of its operands."""
        before = [self.of(x) for x in op.operands]
        if op.name == BARRIER:
            if HIDDEN not in op.attributes:
                self._of.update(zip(op.results, before, strict=True))
            return
        settings = _settings(op)
        for i, y in enumerate(op.results):
            if op.name in COMPLEX_PARTS or (op.name in MAY_VIEW and _kind(y) == _kind(op.operands[0])):
                self._of[y] = before[0]
            else:
                key = op.name, i, settings, _kind(y), tuple(before)
                self._of[y] = self._known.setdefault(key, len(self._of))


def _kind(x: IrValue) -> Hashable:
    """The element type and the number of elements of an array of static shape. For other values, their type."""
    return _kind_of(x.type)


@functools.cache
def _kind_of(type_: ir.Type) -> tuple[Hashable, ...]:
    if not isinstance(type_, ir.RankedTensorType) or is_dynamic(type_):
        return (type_,)
    return type_.element_type, math.prod(type_.shape)


def _settings(op: IrOp) -> Hashable:
    """A hashable key of the attributes of an op and of the ops in its regions. Operands of these ops do not count."""
    nested = [(inner.name, inner.attributes) for inner in (outer_first(op) if len(op.regions) else [op])]
    return tuple([(kind, *[(name, given[name]) for name in given]) for kind, given in nested])


def _is_read_later(readers: list[ir.Operation], update: IrOp) -> bool:
    """Whether IREE may compute or recompute one of `readers`, which read the updated array, after the update."""
    block, awaited = update.operation.block, awaited_by(update) if readers else ()

    def users(op: ir.Operation) -> set[ir.Operation]:
        if op not in awaited or op.name == BARRIER:
            return set()
        reading = {in_block(use.owner, block) for y in op.results for use in y.uses} - {update.operation}
        return {op for op in reading if op is not None}

    return any(op not in awaited for op in reached(readers, users))


def _is_kept(op: IrOp, x: IrValue) -> bool:
    """Whether x, which `op` updates, may still be read after the block of `op` has run, or outside of the block.

    For example, x may be a program's argument, or be used by several iterations of a loop. Returns False for an array
    of dynamic shape.
    """
    block = op.operation.block
    if is_dynamic(x.type):
        return False
    return any(_stays(y, block) for y in alternatives(x, block)) or _is_returned_by_iterations(x, block)


def _is_returned_by_iterations(x: IrValue, block: ir.Block) -> bool:
    """Whether a value may be the result of a loop whose body returns an array from outside the loop."""
    for y in reached([x], lambda y: traced_in(y, block)):
        if (loop := defined_by(y, "stablehlo.while")) is None:
            continue
        body = loop.regions[1].blocks[0]
        returned = alternatives(terminator(body).operands[ir.OpResult(y).result_number], body)
        if any(not is_within(z, body) for z in returned):
            return True
    return False


def _stays(y: IrValue, block: ir.Block) -> bool:
    """Whether an array may be read after a run of the block, or outside of the block.

    The reader may be a caller, an op outside of the block, or the next iteration of a loop. `alternatives` has returned
    y for this block.
    """
    parent = block.owner.operation
    is_program = _is_program(parent)
    if not is_within(y, block):
        return True
    if not isinstance(y, ir.BlockArgument):
        return not is_program and not _varies(y, block)
    if is_program:
        return not _is_given_away(parent, y)
    return parent.name != "stablehlo.while" or _is_carried_on(y)


def _varies(x: IrValue, block: ir.Block) -> bool:
    """Whether x, which a loop's body computes, depends on a loop-carried value that changes.

    Returns False if `block` is not a block of a loop.
    """
    if block.owner.operation.name != "stablehlo.while":
        return False

    def before(y: IrValue) -> Sequence[IrValue]:
        if y.owner == block or not is_within(y, block):
            return ()
        return read_by(y.owner.owner.operation) if isinstance(y.owner, ir.Block) else behind(y)

    return any(
        isinstance(y, ir.BlockArgument) and y.owner == block and not _is_carried_on(y)
        for y in reached([x], before)
    )


def _is_program(op: IrOp) -> bool:
    """Whether an op is a public function, which callers outside the module can call."""
    return op.name == "func.func" and "private" not in str(op.attributes.get("sym_visibility"))


def donated_arguments(function: IrOp) -> dict[int, int]:
    """Maps the index of each argument whose memory is reused to the index of the result that reuses it.

    Raises `ParseError` if the function has too few results.
    """
    attributes = ir.ArrayAttr(function.attributes["arg_attrs"]) if "arg_attrs" in function.attributes else ()
    places = {i: each[DONATED].value for i, each in enumerate(attributes) if DONATED in each}
    results = len(terminator(function.regions[0].blocks[0]).operands)
    for i, place in places.items():
        if not 0 <= place < results:
            message = f"argument {i} has {DONATED} = {place}, but the function has {results} results"
            raise ParseError(message, function.location)
    return places


def _is_given_away(function: IrOp, x: ir.BlockArgument[ir.Type]) -> bool:
    """Whether a result reuses an argument's memory, and the op that computes it is the argument's only reader."""
    place, uses = donated_arguments(function).get(x.arg_number), list(x.uses)
    if place is None or len(uses) != 1:
        return False
    return bool(terminator(x.owner).operands[place].owner == uses[0].owner)


def _is_carried_on(x: ir.BlockArgument[ir.Type]) -> bool:
    """Whether the loop's body returns its argument x unchanged, so that the next iteration gets the same value."""
    return any(
        use.owner.operation.name == "stablehlo.return" and use.operand_number == x.arg_number
        for use in x.uses
    )
