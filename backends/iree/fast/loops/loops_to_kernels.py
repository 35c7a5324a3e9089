"""loops_to_kernels: makes each loop over small arrays one dispatch, a kernel.

    %r = stablehlo.while(%x = %0) ...  ->  %r = flow.dispatch.region { stablehlo.while(%x = %0) ... }

IREE runs a loop on the host, with one or more dispatches for each iteration. For small arrays, launching dispatches
takes ten times as long as the arithmetic. Inside a dispatch, the loop is machine code. At the end of each iteration,
the new carries (loop-carried values) are copied over the old ones. The pass emits these copies, because IREE cannot
allocate memory for new arrays while a dispatch runs.

`loop_forms.py` decides which loops fit into a kernel: for example, intermediate arrays must fit on the stack. A loop
that writes too many arrays may fit after `packing.py` has joined arrays. If IREE fails to compile a kernel, `plan.py`
has the program compiled again without this pass.
"""

from collections.abc import Sequence

from torch_mlir import ir

from tiduc.backends.iree.emit.emitter import Emitter, Pattern, is_unsigned, replace_uses, rewrite, signless
from tiduc.backends.iree.emit.kernels import KERNEL, Kernel, dispatch
from tiduc.backends.iree.emit.sizes import RunTimeSize
from tiduc.backends.iree.emit.updates import copied, may_fold_to_carry, updates_between
from tiduc.backends.iree.fast.loops import kernel_forms
from tiduc.backends.iree.fast.loops.loop_forms import IN_KERNEL, carries_on_stack, read_from_outside, wanted
from tiduc.backends.iree.fast.loops.packing import pack, read_packed
from tiduc.backends.iree.fast.loops.signed_carries import signed_carries
from tiduc.backends.iree.fault import slow, wrong
from tiduc.dialect.graph.functions import functions_in, outer_first
from tiduc.dialect.graph.graph import operations
from tiduc.dialect.graph.matching import defined_by, definition
from tiduc.dialect.mlir.context import stage
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.ops.traits import PRODUCTS
from tiduc.dialect.shapes.types import element, shape


@slow(
    "IREE runs loops over small arrays on the host, with dispatches in each iteration; tiduc emits one dispatch.",
    "flags.py: ode",
)
@stage
def loops_to_kernels(module: ir.Module | IrOp) -> int:
    """Replaces, in place, each loop that fits into a kernel by a kernel. Returns the number of these loops.

    The patterns for CPUs (`apply_patterns`) must have been applied to the module.
    """
    return sum(map(_within, functions_in(module)))


def _within(op: IrOp) -> int:
    """Replaces the loops in an op by kernels. If a loop does not fit into a kernel, replaces the loops inside it.

    Returns the number of replaced loops.
    """
    count = 0
    for region in op.regions:
        for block in region.blocks:
            for inner in list(operations(block)):
                small = _small(inner) if inner.name == "stablehlo.while" else None
                if small is not None:
                    to_kernel(small)
                    count += 1
                elif inner.name != KERNEL:
                    count += _within(inner)
    return count


# ---- choose the loops -------------------------------------------------------------------------------------------


def _small(loop: ir.Operation) -> ir.Operation | None:
    """Returns a loop that fits into a kernel: the loop itself, or the loop that `pack` emits, which then replaces it.

    Returns None if neither fits, or if no op reads a result of the loop.
    """
    if not wanted(loop):
        return None
    read_packed(loop)
    if not IN_KERNEL.against(loop):
        return loop
    packing = pack(loop)
    if packing is None:
        return None
    if IN_KERNEL.against(packing.loop):
        packing.undo()
        return None
    loop.erase()
    return packing.loop


# ---- make a loop a kernel ---------------------------------------------------------------------------------------


def to_kernel(loop: IrOp) -> None:
    """Rewrites a loop by the patterns `_REWRITES`, and moves it into a dispatch, in place."""
    for rewrites in _REWRITES:
        rewrite(loop, rewrites)
    _erase_unread(loop)
    b = Emitter(ir.InsertionPoint(loop), loop.location)
    kept = carries_on_stack(loop)
    numberings = {i: x for i, x in enumerate(loop.operands) if i not in kept and _is_numbering(x)}
    for i, x in numberings.items():
        loop.operands[i] = b.constant(0, x)  # not read, because the kernel fills the array itself
    _read_through_barriers(b, loop)
    (zero,) = b.barrier(b.constant(0, ir.RankedTensorType.get([], signless(32))))
    old = wanted(loop)  # a result that no op reads would otherwise become an array of the dispatch
    uses = [list(y.uses) for y in old]

    def moved(k: Kernel) -> Sequence[IrValue]:
        never = k.compared("ne", k.element(zero), k.number(0, signless(32)))
        for inner in outer_first(loop):
            if inner.name == "stablehlo.while":
                _in_place(inner, never)
        for i, x in enumerate(list(loop.operands)):
            if i not in kept:
                array = k.empty(x.type)
                loop.operands[i] = (
                    _numbered(k, array, numberings[i]) if i in numberings else k.filled(array, x)
                )
        k.place.block.append(loop)
        return old

    results = dispatch(b, [y.type for y in old], moved)
    for y, of_one in zip(results, uses, strict=True):
        replace_uses(of_one, y)


_OF_MARKS = (
    *("stablehlo.compare", "stablehlo.complex", "stablehlo.bitcast_convert", "stablehlo.convert"),
    "stablehlo.broadcast_in_dim",
)
"""The ops that compute the first and the third operand of a mark's select (`emit/marks.py`)."""


def _erase_unread(loop: IrOp) -> None:
    """Erases unread ops of removed marks, so that the dispatch does not read the hidden numbers of these marks."""
    for op in reversed(outer_first(loop, _OF_MARKS)):
        if not list(op.results[0].uses):
            op.erase()


def _is_numbering(x: IrValue) -> bool:
    """Whether x is an iota of signless integers, which a kernel computes instead of reading it from memory."""
    integers = isinstance(element(x), ir.IntegerType) and not is_unsigned(x)
    return integers and defined_by(x, "stablehlo.iota") is not None


def _numbered(k: Kernel, array: IrValue, iota: IrValue) -> IrValue:
    """Fills `array` with the elements of an iota that passed `_is_numbering`. Returns the array."""
    d = ir.IntegerAttr(ir.OpResult(iota).owner.attributes["iota_dimension"]).value

    def put(k: Kernel, place: Sequence[int | RunTimeSize], out: IrValue) -> Sequence[IrValue]:
        return [k.put(k.cast(place[d], element(iota)), out, *place)]

    return k.nest(shape(iota), [array], put)[0]


def _read_through_barriers(b: Emitter, loop: IrOp) -> None:
    """Makes the loop read values from outside through barriers, so that IREE computes them outside of the dispatch."""
    outside = read_from_outside(loop)
    if not outside:
        return
    # IREE may not wait for a loop-carried value that a barrier reads (`optimization_barrier` in faults/control.py).
    awaited = [copied(b, x) if may_fold_to_carry(x) else x for x in outside]
    behind = dict(zip(outside, map(b.stored, awaited), strict=True))
    for inner in outer_first(loop):
        for i, x in enumerate(inner.operands):
            if x in behind:
                inner.operands[i] = behind[x]


def _in_line(b: Emitter, kernel: IrOp) -> Sequence[IrValue]:
    """Replaces a nested dispatch by the ops of its body. Returns the results of the body."""
    *body, end = operations(kernel.regions[0].blocks[0])
    for op in body:
        op.move_before(kernel)
    return list(end.operands)


_REWRITES: tuple[dict[str, Pattern], ...] = (
    dict.fromkeys(kernel_forms.BRANCHES, kernel_forms.as_selects),
    {"stablehlo.while": signed_carries, KERNEL: _in_line, kernel_forms.GATHER: kernel_forms.as_slice},
    {
        "stablehlo.pad": kernel_forms.as_concatenation,
        "stablehlo.optimization_barrier": lambda b, op: op.operands,
        "stablehlo.select": kernel_forms.without_mark,
    },
)
"""The patterns that prepare a loop for a kernel, by op name. The whole loop is rewritten by the first dict, then by the
second, then by the third, which may also rewrite ops that earlier patterns emit."""


def _in_place(loop: IrOp, never: IrValue) -> None:
    """Makes each iteration of a loop copy its new carries over the old ones, except those that it updates in place."""
    body = loop.regions[1].blocks[0]
    carries = _carries_behind_writes(loop, never)
    store_terms(loop)
    end = list(operations(body))[-1]
    pairs = list(zip(list(end.operands), carries, strict=True))
    chains = [updates_between(new, old) for new, old in pairs]
    for (_, old), updates in zip(pairs, chains, strict=True):
        once = all(len(list(update.results[0].uses)) == 1 for update in updates)
        if updates and once and _is_read_after(old, updates[0]):
            for update in updates:  # moves it behind the last op that reads the old carry
                update.move_before(end)
    k = Kernel(ir.InsertionPoint(end), loop.location)
    for i, ((new, old), updates) in enumerate(zip(pairs, chains, strict=True)):
        if new == old or updates or _is_carry_of_inner_loop(new, old):
            continue
        # The copy must be at the end of the body, because ops before it still read the old carry.
        end.operands[i] = k.filled(old, new)


@wrong(
    "IREE computes both products of a sum in the array that the sum updates; tiduc stores each product.",
    "products_in_a_dispatch",
)
def store_terms(loop: IrOp) -> None:
    """If the update of a slice is computed from several products and sums, stores each of these in a separate array.

    IREE 3.13 would compute each of them in the slice that is updated, so that one overwrites the other. With the
    stores, a GRU of 64 steps takes 0.84 of the time, and its gradient 1.07 to 1.15 of the time. LSTMs have no such
    updates.
    """
    block = loop.regions[1].blocks[0]
    for op in list(operations(block)):
        if op.name != "stablehlo.dynamic_update_slice":
            continue
        terms = _accumulations(op.operands[1], block)
        for x, term in terms.items() if len(terms) > 1 else ():
            uses = list(x.uses)
            k = Kernel(ir.InsertionPoint.after(term), loop.location)
            replace_uses(uses, k.filled(k.empty(x.type), x))


def _accumulations(x: IrValue, block: ir.Block) -> dict[IrValue, IrOp]:
    """Returns the products and sums of a block from which x is computed, directly or through other ops.

    The dict maps each to its op. It omits products and sums from which only other products or sums are computed.
    """
    found, seen, left = dict[IrValue, IrOp](), set[IrValue](), [x]
    while left:
        y = left.pop()
        op = definition(y)
        if op is None or y in seen or op.operation.block != block:
            continue
        seen.add(y)
        if op.name in _ACCUMULATIONS:
            found[y] = op
        else:
            left += op.operands
    return found


_ACCUMULATIONS = PRODUCTS | {"stablehlo.reduce"}


def _is_carry_of_inner_loop(new: IrValue, old: IrValue) -> bool:
    """Whether a nested loop updates the carry in place: `old` is its initial value, and `new` is its result.

    Such a carry needs no copy, and IREE would reject a copy, because it would read and write one array. Returns False
    if an op reads `old` after the nested loop, because the nested loop then updates a separate array.
    """
    inner = defined_by(new, "stablehlo.while")
    if inner is None or inner.operands[list(inner.results).index(new)] != old:
        return False
    return not _is_read_after(old, inner)


def _carries_behind_writes(loop: IrOp, never: IrValue) -> list[IrValue]:
    """Makes the body read each carry through a conditional write, whose condition `never` is always false.

    Predicates, and carries that no op reads, get no write. Returns all carries as the body reads them now. Without the
    writes, IREE 3.13 would move a reshape of a block argument out of the dispatch, where the argument does not exist.
    """
    body = loop.regions[1].blocks[0]
    k = Kernel(ir.InsertionPoint.at_block_begin(body), loop.location)
    carries = []
    for x in body.arguments:
        uses = list(x.uses)
        carries.append(_written_if(k, never, x) if element(x).width > 1 and uses else x)
        replace_uses(uses, carries[-1])
    return carries


def _written_if(k: Kernel, condition: IrValue, x: IrValue) -> IrValue:
    """Emits a write of 0 to the first element of the array x, if the condition holds. Returns the array."""
    first = [0] * len(shape(x))
    return k.if_(condition, [x.type], lambda k: [k.put(k.number(0, element(x)), x, *first)], lambda k: [x])[0]


def _is_read_after(x: IrValue, update: IrOp) -> bool:
    """Whether an op after `update` reads the array x or a reshape of x."""
    for use in x.uses:
        reader = use.owner.operation
        while reader.block != update.operation.block:
            assert reader.parent is not None, "update is in the same function"
            reader = reader.parent
        if reader != update.operation and update.operation.is_before_in_block(reader):
            return True
        if reader.name == "stablehlo.reshape" and _is_read_after(reader.results[0], update):
            return True
    return False
