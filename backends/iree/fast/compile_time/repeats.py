"""repeats: outlines repeated ops, such as those of equal layers, to functions, so that IREE compiles them once.

    %1 = dot_general %x, %v       %2 = tanh %1        %2 = call @repeated_0(%x, %v)
    %3 = dot_general %2, %w       %4 = tanh %3   ->   %4 = call @repeated_0(%2, %w)
                                                      func @repeated_0(%a, %b) { dot_general; tanh } {noinline}

IREE forms dispatches once for each function, and this takes half of its compile time for host code. After dispatches
are formed, `modules/repeats.py` inlines the functions, so that IREE plans the order of dispatches and the memory for
the whole program.

IREE does not fuse an op in a function with an op outside of it. Therefore the inputs and results of such a function are
only values that IREE would store in memory in any case, such as operands of kernels.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch_mlir import ir

from tiduc.backends.iree.emit.arrays import has_dynamic_shape
from tiduc.backends.iree.emit.emitter import NEVER_INLINED
from tiduc.backends.iree.emit.workgroups import DISPATCH
from tiduc.backends.iree.fast.compile_time.origins import Origin, may_be_equal, origins
from tiduc.backends.iree.fast.compile_time.runs import Runs, runs
from tiduc.backends.iree.fault import slow
from tiduc.dialect.graph.functions import functions_in, new_function
from tiduc.dialect.graph.graph import operations
from tiduc.dialect.graph.matching import defined_by, definition
from tiduc.dialect.mlir.constants import has_resources
from tiduc.dialect.mlir.context import stage
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.ops.traits import COLLECTIVES, CONTROL, ELEMENTWISE, STATEFUL, VIEWS

LEAST = 16
"""The fewest ops of a function. Smaller functions do not pay, since calls take compile time until they are inlined."""

SAVED, LEAST_SAVED = 80, 200
"""The fewest ops that one function, and that all together, must save, since a compiler run of 0.1 s inlines them."""

_Index = Mapping[ir.Operation, int]
"""Maps each op to its index in the list of all ops of a program except constants."""

_CONSTANTS = "stablehlo.constant", "arith.constant"
_APART = CONTROL | COLLECTIVES | STATEFUL
_FUSED = ELEMENTWISE | VIEWS | {"stablehlo.map", "stablehlo.reduce"}
"""`_APART`: ops that a function may not contain. `_FUSED`: ops that IREE fuses with the readers of their results."""


class Repeat(NamedTuple):
    """`copies` equal sequences of `period` ops in succession, called copies. `start` is the index of the first op."""

    start: int
    period: int
    copies: int

    @property
    def saved(self) -> int:
        """The number of ops that IREE need not compile: those of all copies but one."""
        return self.period * (self.copies - 1)

    @property
    def end(self) -> int:
        """The index of the first op after the last copy."""
        return self.start + self.period * self.copies


class RepeatFunction(NamedTuple):
    """The function whose calls replace the copies of a repeat. A pair (i, n) is operand or result n of a copy's op i.

    - `inner` maps an operand that an op of the copy computes to this op's result.
    - `constants` maps an operand that is a constant to the constant op.
    - `inputs` has, for each input of the function, the operands that read it.
    - `outputs` has the results that ops outside of the copy read.
    """

    inner: dict[tuple[int, int], tuple[int, int]]
    constants: dict[tuple[int, int], ir.Operation]
    inputs: list[list[tuple[int, int]]]
    outputs: list[tuple[int, int]]


@slow(
    "IREE forms the dispatches of each of several equal layers; tiduc emits one function for equal layers.",
    "compile_time.py: bert",
)
@stage
def repeats(module: ir.Module | IrOp) -> int:
    """Outlines the repeats in the first function that has a body, in place. Returns the number of new functions."""
    body = module.operation.regions[0].blocks[0]
    block = next(op.regions[0].blocks[0] for op in functions_in(module) if len(op.regions[0].blocks))
    ops = _ops(block)
    if has_resources(module) or not _seem_to_repeat(ops):
        return 0
    for op in ops:
        _broadcast_where_read(op)
    ops = _ops(block)
    index = {op: i for i, op in enumerate(ops)}
    of = origins(block.arguments, operations(block))
    planned = [
        found for each in _repeats(ops, index) if (found := _planned(ops, index, each, of)) is not None
    ]
    if sum(repeat.saved for repeat, _ in planned) < LEAST_SAVED:
        return 0
    for number, (repeat, part) in enumerate(planned):
        _outline(ops, repeat, part, f"repeated_{number}", body)
    return len(planned)


def _ops(block: ir.Block) -> list[ir.Operation]:
    return [op for op in operations(block) if op.name not in _CONSTANTS]


def _seem_to_repeat(ops: Sequence[IrOp]) -> bool:
    """Whether ops repeat, judged by their names and result types only. This quick test excludes most programs."""
    numbers: dict[Hashable, int] = {}
    alike = [numbers.setdefault((op.name, *(y.type for y in op.results)), len(numbers)) for op in ops]
    return _longest(runs(alike, SAVED), 0, len(ops)) is not None


def _broadcast_where_read(op: ir.Operation) -> None:
    """Emits a broadcast for each op that reads it, so that no function takes or returns a broadcast array."""
    y = op.results[0] if op.name == "stablehlo.broadcast_in_dim" else None
    readers = dict.fromkeys(use.owner.operation for use in y.uses) if y is not None else {}
    if y is None or len(readers) < 2 or any(reader.block != op.block for reader in readers):
        return
    for reader in readers:
        copy = op.clone(ip=ir.InsertionPoint(reader)).operation.results[0]
        for n, x in enumerate(reader.operands):
            if x == y:
                reader.operands[n] = copy
    op.erase()


# ---- the next functions find the repeats -------------------------------------------------------------------------


def _repeats(ops: Sequence[IrOp], index: _Index) -> Iterator[Repeat]:
    """Yields disjoint repeats: the one that saves the most ops, then those found among the ops before and after it."""
    found, borders = runs(_kinds(ops), SAVED), _borders(ops, index)
    waiting = [(0, len(ops))]
    while waiting:
        low, high = waiting.pop()
        longest = _longest(found, low, high)
        if longest is None:
            continue
        repeat = _at_border(borders, *longest)
        if repeat is not None:
            yield repeat
        start, end = (repeat.start, repeat.end) if repeat is not None else longest[:2]
        waiting += [(low, start), (end, high)]


def _kinds(ops: Sequence[IrOp]) -> list[int]:
    """A number for each op: equal for ops that differ only in their operands; negative if `_may_repeat` is false."""
    numbers: dict[Hashable, int] = {}
    return [
        numbers.setdefault(_kind(op), len(numbers)) if _may_repeat(op) else -1 - i for i, op in enumerate(ops)
    ]


def _may_repeat(op: IrOp) -> bool:
    """Whether an op may be in a function: no call, control flow, collective or side effect; results of static shape."""
    if op.name in _APART or op.name.startswith("func.") or not len(op.results):
        return False
    return not has_dynamic_shape(op)


def _kind(op: IrOp, numbers: dict[IrValue, int] | None = None) -> tuple[Hashable, ...]:
    """A key that is equal for ops that differ only in the values that they read: name, attributes, types and regions.

    For an op in a region, `numbers` numbers the region's values, and the key has the numbers of the operands. An op
    whose region reads a value from outside has a unique key, because only operands become arguments of a function.
    """
    given = op.attributes
    attributes = [(name, given[name]) for name in given]
    types = [x.type for x in (*op.results, *op.operands)]
    read = [] if numbers is None else [numbers.get(x, object()) for x in op.operands]
    numbers = {} if numbers is None else numbers
    inside = list[Hashable]()
    for block in (block for region in op.regions for block in region):
        _number(block.arguments, numbers)
        inside.append(len(block.arguments))
        for each in operations(block):
            inside.append(_kind(each, numbers))
            _number(each.results, numbers)
    return op.name, len(op.results), *attributes, *types, *read, *inside


def _number(values: Iterable[IrValue], numbers: dict[IrValue, int]) -> None:
    for x in values:
        numbers[x] = len(numbers)


def _longest(found: Runs, low: int, high: int) -> tuple[int, int, int] | None:
    """The start, end and period of the repeat, among ops `low` to `high` - 1, that saves the most ops.

    Returns None if all repeats save too few ops.
    """
    starts, ends = np.maximum(found.starts, low), np.minimum(found.ends, high)
    periods = -(-LEAST // found.periods) * found.periods
    saved = (ends - starts) // periods * periods - periods
    if saved.max(initial=0) < SAVED:
        return None
    best = np.flatnonzero(saved == saved.max())
    first = best[np.lexsort((starts[best], ends[best] - starts[best], -periods[best]))[-1]]
    return int(starts[first]), int(ends[first]), int(periods[first])


class Borders(NamedTuple):
    """The values that a function should neither return nor take, because IREE would fuse their ops with their readers.

    Each array has a column for each value: the number of its op, of its first reader, and of its last reader. `leaving`
    has the values that a function should not return, in the order of their ops. `entering` has those that it should not
    take, in the order of their first readers. Results of kernels and values that IREE always stores are in neither.
    """

    leaving: NDArray[np.int64]
    entering: NDArray[np.int64]


def _borders(ops: Sequence[IrOp], index: _Index) -> Borders:
    """Finds the values that a function must not separate from all of their readers."""
    leaving, entering = list[tuple[int, int, int]](), list[tuple[int, int, int]]()
    for i, op in enumerate(ops):
        for y in op.results if op.name != DISPATCH else ():
            readers = [index.get(use.owner.operation, len(ops)) for use in y.uses]
            if readers and not _is_stored(y):
                leaving.append((i, min(readers), max(readers)))
                if op.name in _FUSED and op.name != "stablehlo.reshape":
                    entering.append(leaving[-1])
    entering.sort(key=lambda row: row[1])
    return Borders(*(np.array(rows, np.int64).reshape(-1, 3).T for rows in (leaving, entering)))


def _at_border(borders: Borders, start: int, end: int, period: int) -> Repeat | None:
    """The repeat in ops `start` to `end` - 1 with most copies that cuts no value (`_cuts`). None if there is none."""
    most = (end - start) // period
    for copies in (most, most - 1):
        if period * (copies - 1) < SAVED:
            return None
        places = np.flatnonzero(_cuts(borders, start, end - period * copies + 1, period) == 0)
        if len(places):
            return Repeat(start + int(places[0]), period, copies)
    return None


def _cuts(borders: Borders, low: int, high: int, period: int) -> NDArray[np.int64]:
    """For each start from `low` to `high` - 1, the number of values that a repeat would cut from their readers.

    A value of the first copy is cut if all its readers come after this copy. A value computed before the second copy is
    cut if all its readers are in the second copy. IREE must store a cut value instead of fusing its op.
    """
    at, first, _ = borders.leaving[:, slice(*np.searchsorted(borders.leaving[0], (low, high + period)))]
    span = np.searchsorted(borders.entering[1], (low + period, high + 2 * period))
    source, taken, last = borders.entering[:, slice(*span)]
    begins = np.concatenate([at - period + 1, np.maximum(source + 1, last - period + 1) - period])
    ends = np.concatenate([np.minimum(at, first - period), taken - period]) + 1
    begins, ends = (np.clip(x - low, 0, high - low) for x in (begins, ends))
    changes = [np.bincount(x[begins < ends], minlength=high - low + 1) for x in (begins, ends)]
    return np.cumsum(changes[0] - changes[1])[:-1]


def _is_stored(x: IrValue) -> bool:
    """Whether IREE stores a value in any case, because a kernel reads it or the program returns it."""
    for use in x.uses:
        reader = use.owner.operation
        if reader.name in (DISPATCH, "flow.tensor.reshape", "func.return"):
            return True
        if reader.name == "stablehlo.reshape" and _is_stored(reader.results[0]):
            return True
    return False


# ---- the next functions replace the copies of repeats by calls ---------------------------------------------------


def _planned(
    ops: Sequence[ir.Operation], index: _Index, repeat: Repeat, of: Mapping[IrValue, Origin]
) -> tuple[Repeat, RepeatFunction] | None:
    """A repeat and its function. If none fits all copies, the first or last one is omitted. None if still none fits."""
    start, period, copies = repeat
    for each in (repeat, Repeat(start + period, period, copies - 1), Repeat(start, period, copies - 1)):
        if each.saved >= SAVED and (part := _part(ops, index, each, of)) is not None:
            return each, part
    return None


def _part(
    ops: Sequence[ir.Operation], index: _Index, repeat: Repeat, of: Mapping[IrValue, Origin]
) -> RepeatFunction | None:
    """The function whose calls can replace all copies of a repeat. Returns None if the copies differ too much.

    Also returns None if IREE might prove in one of the calls that two inputs are equal, because IREE would then mix up
    these inputs (see the pass `allow_inlining`). `of` maps values to their origins (`origins.py`).
    """
    starts = range(repeat.start, repeat.end, repeat.period)
    inner, constants = {}, {}
    inputs: dict[tuple[Hashable, ...], list[tuple[int, int]]] = {}
    for i in range(repeat.period):
        for n in range(len(ops[repeat.start + i].operands)):
            values = [ops[start + i].operands[n] for start in starts]
            places = {_place(x, index, start, repeat.period) for x, start in zip(values, starts, strict=True)}
            if len(places) > 1:
                return None
            (place,) = places
            if place is not None:
                inner[i, n] = place
            elif (constant := _constant(values)) is not None:
                constants[i, n] = constant
            else:
                inputs.setdefault(tuple(map(_identity, values)), []).append((i, n))
    given = ([ops[start + i].operands[n] for (i, n), *_ in inputs.values()] for start in starts)
    if not inputs or any(may_be_equal(values, of) for values in given):
        return None
    outputs: dict[tuple[int, int], None] = {}
    for start in starts:
        for i in range(repeat.period):
            for n, y in enumerate(ops[start + i].results):
                readers = (index.get(use.owner.operation, -1) for use in y.uses)
                if any(not start <= j < start + repeat.period for j in readers):
                    outputs[i, n] = None
    return RepeatFunction(inner, constants, list(inputs.values()), sorted(outputs))


def _place(x: IrValue, index: _Index, start: int, period: int) -> tuple[int, int] | None:
    """The pair (i, n) if x is result n of op i of the copy at `start`. None if x is from outside of the copy."""
    if (op := definition(x)) is None:
        return None
    i = index.get(op.operation, -1) - start
    return (i, ir.OpResult(x).result_number) if 0 <= i < period else None


def _identity(x: IrValue) -> Hashable:
    """A key for x. Values that IREE merges have equal keys: equal constants, and equal views of one value."""
    if (constant := defined_by(x, *_CONSTANTS)) is not None:
        value: ir.Attribute = constant.attributes["value"]
        return value
    view = defined_by(x, *VIEWS)
    return x if view is None else (*_kind(view), *map(_identity, view.operands))


def _constant(values: Sequence[IrValue]) -> ir.Operation | None:
    """The op of the first value if all values are equal constants, else None."""
    constants = [defined_by(x, *_CONSTANTS) for x in values]
    known = [each for each in constants if each is not None]
    if len(known) < len(constants):
        return None
    attributes = [each.attributes["value"] for each in known]
    return known[0].operation if all(a == b for a, b in pairwise(attributes)) else None


def _outline(
    ops: Sequence[ir.Operation], repeat: Repeat, part: RepeatFunction, name: str, body: ir.Block
) -> None:
    """Emits the function of a repeat at the end of the module, and replaces the copies by calls."""
    first = ops[repeat.start : repeat.start + repeat.period]
    types = (
        [first[i].operands[n].type for (i, n), *_ in part.inputs],
        [first[i].results[n].type for i, n in part.outputs],
    )
    never = dict.fromkeys((NEVER_INLINED, "noinline"), ir.UnitAttr.get())
    _, block = new_function(name, types, ir.InsertionPoint(body), first[0].location, never)
    _fill(block, first, part)
    for start in range(repeat.start, repeat.end, repeat.period):
        copy = ops[start : start + repeat.period]
        inputs = [copy[i].operands[n] for (i, n), *_ in part.inputs]
        callee = {"callee": ir.FlatSymbolRefAttr.get(name)}
        ip = ir.InsertionPoint(copy[-1])
        call = ir.Operation.create("func.call", types[1], inputs, callee, loc=copy[0].location, ip=ip)
        for (i, n), y in zip(part.outputs, call.results, strict=True):
            copy[i].results[n].replace_all_uses_with(y)
        for op in reversed(copy):
            op.erase()


def _fill(block: ir.Block, ops: Sequence[ir.Operation], part: RepeatFunction) -> None:
    """Clones `ops`, and the constants that they read, into a function's block."""
    ip = ir.InsertionPoint(block)
    constants: dict[ir.Operation, IrValue] = {}
    for constant in part.constants.values():
        if constant not in constants:
            constants[constant] = constant.clone(ip=ip).operation.results[0]
    given = {at: x for x, places in zip(block.arguments, part.inputs, strict=True) for at in places}
    made: list[ir.Operation] = []
    for i, op in enumerate(ops):
        copy = op.clone(ip=ip).operation
        made.append(copy)
        for n in range(len(copy.operands)):
            if (i, n) in part.inner:
                j, result = part.inner[i, n]
                copy.operands[n] = made[j].results[result]
            elif (i, n) in part.constants:
                copy.operands[n] = constants[part.constants[i, n]]
            else:
                copy.operands[n] = given[i, n]
    results = [made[i].results[n] for i, n in part.outputs]
    ir.Operation.create("func.return", operands=results, loc=ops[0].location, ip=ip)
