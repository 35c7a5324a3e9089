"""loop_forms: the table `FORMS` decides which form a loop gets on IREE.

    for form in FORMS: form.against(loop)    ->    the reason why the loop does not get the form; "" if it gets the form

IREE runs a loop on the host: each iteration launches dispatches, computes counters on the device, and copies
loop-carried values. If the whole loop is one dispatch, a kernel, it has none of these costs. If a loop does not fit
into a kernel, the host may count its iterations, and the loop may update its loop-carried values in place. A loop can
have both of these forms.

`plan.py` chooses the forms for a whole program, and chooses again if IREE rejects the program. It first turns the loops
that fit into kernels, and does not change other loops. If no loop fits, or if IREE rejects the kernels, it makes the
host count iterations instead, and loops update loop-carried values in place. If IREE rejects this too, loops copy these
values.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from torch_mlir import ir

from tiduc.backends.iree.emit.emitter import is_boolean, is_unsigned
from tiduc.backends.iree.emit.kernels import KERNEL
from tiduc.backends.iree.emit.known import constant_splat
from tiduc.backends.iree.emit.marks import hidden_of
from tiduc.backends.iree.emit.updates import CALL_OPS, COMPUTED, may_be, size_in_bits, updated
from tiduc.backends.iree.emit.workgroups import DISPATCH
from tiduc.backends.iree.fast.loops import kernel_forms
from tiduc.backends.iree.fast.loops.counters import counter_of, loop_counter, trip_count
from tiduc.dialect.control.small_loops import IN_KERNELS, STACK, array_bytes, is_plain
from tiduc.dialect.graph.dependences import reached
from tiduc.dialect.graph.functions import functions_in, outer_first
from tiduc.dialect.graph.graph import captured, operations
from tiduc.dialect.graph.matching import defined_by, definition
from tiduc.dialect.mlir.constants import has_resources
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.ops.traits import CONTROL
from tiduc.dialect.shapes.types import element, shape

_SMALL = 1024
"""The most bytes of a small carry (loop-carried value). All small carries are on the stack of a kernel's thread."""
_BINDINGS = 32
"""The most arrays that IREE's runtime can pass to a dispatch."""
_INLINED = 256
"""The most bytes of a constant that IREE puts into the code."""

_WHILE = "stablehlo.while"
_NEW = COMPUTED | {KERNEL, DISPATCH, "stablehlo.constant"}
"""Ops whose results are always new arrays, which share memory with no operand."""
_WRITERS = "insert", "transfer_write"
"""An op in a dispatch may write to an operand if the op's name contains one of these, or if the op has regions."""


# ---- one dispatch runs all iterations ------------------------------------------------------------------------------


def _against_kernel(loop: ir.Operation) -> str:
    """Returns the reason why a loop cannot be a kernel, or "". Checks its ops, its use of the stack, and its arrays."""
    if not wanted(loop):
        return "no op reads its results"
    stack, ops = 0.0, outer_first(loop)
    kernels = {op for kernel in ops if kernel.name == KERNEL for op in outer_first(kernel)[1:]}
    for inner in ops:
        if inner in kernels:
            continue
        if reason := _against_in_kernel(inner):
            return reason
        stack += _bytes_on_stack(inner, loop)
        if math.isinf(stack):
            return (
                f"an array of {inner.name} is too large for the stack, or has a type that kernels do not have"
            )
    # Large constants are also arrays of the dispatch; 1 is added for the `zero` that `to_kernel` passes.
    constants = [
        x for x in (*loop.operands, *captured(loop)) if defined_by(x, "stablehlo.constant") and _is_table(x)
    ]
    if len(read_from_outside(loop)) + len(set(constants)) + len(wanted(loop)) + 1 > _BINDINGS:
        return f"it has more than {_BINDINGS} arrays from outside and results"
    stack += sum(_size(loop.operands[i]) for i in carries_on_stack(loop))
    return f"its arrays take more than {STACK} bytes of the stack" if stack > STACK else ""


def _against_in_kernel(op: ir.Operation) -> str:
    """Returns the reason why an op of a loop cannot be in a kernel, or "". Does not check the sizes of its arrays."""
    if op.name == KERNEL:
        divided = not list(op.regions[1].blocks)
        return "it contains a dispatch that several threads run" if divided else ""
    known = op.name in IN_KERNELS
    chosen = op.name in kernel_forms.BRANCHES and kernel_forms.is_cheap(op)
    if not known and not chosen and not kernel_forms.is_one_slice(op):
        return f"{op.name} does not compile in a kernel"
    if op.name == "stablehlo.pad" and _crops_or_dilates(op):
        return "stablehlo.pad removes elements, or pads between elements"
    return ""


def _bytes_on_stack(op: ir.Operation, loop: ir.Operation) -> float:
    """The bytes that an op's results take on the stack of a loop's kernel. Infinite if they cannot be on the stack."""
    if op.name == KERNEL:
        plain = all(is_plain(y.type) for y in op.results)
        return sum(_size(y) for y in op.results) if plain else math.inf
    products = kernel_forms.work_of(op) if op.name == "stablehlo.dot_general" else 0
    stack = array_bytes(op, products)
    if op.name == _WHILE and op != loop.operation:
        stack += sum(_size(x) for x in op.operands if defined_by(x, "stablehlo.constant"))
    return stack


def _size(x: IrValue) -> int:
    """The size of a value in bytes."""
    return int(math.prod(shape(x))) * max(int(element(x).width) // 8, 1)


def _crops_or_dilates(pad: ir.Operation) -> bool:
    """Whether a pad removes elements, or pads between elements."""
    sides = [n for name in ("edge_padding_low", "edge_padding_high") for n in pad.attributes[name]]
    return min(sides, default=0) < 0 or any(pad.attributes["interior_padding"])


def carries_on_stack(loop: IrOp) -> list[int]:
    """The indices of the carries that are on the kernel's stack. The other carries are in the memory of the results.

    The stack has small carries and predicates. It also has all large carries of a type except one, because MLIR merges
    two `tensor.empty` of equal type, so that only one carry of each type can be in the memory of a result.
    """
    kept, seen = [], set()
    for i, x in enumerate(loop.operands):
        if _size(x) <= _SMALL or x.type in seen or element(x).width == 1:
            kept.append(i)
        else:
            seen.add(x.type)
    return kept


def read_from_outside(loop: IrOp) -> list[IrValue]:
    """Returns the initial values of a loop, and the values from outside that its regions read, without constants.

    Also omits the numbers that needless marks read, because `kernel_forms.without_mark` removes these marks.
    """
    selects = outer_first(loop, ("stablehlo.select",))
    needless = {hidden_of(op.results[0]) for op in selects if kernel_forms.is_needless_mark(op)}
    values = dict.fromkeys((*loop.operands, *captured(loop)))
    return [x for x in values if x not in needless and not defined_by(x, "stablehlo.constant")]


def wanted(loop: IrOp) -> list[IrValue]:
    """The results of a loop that some op reads."""
    return [y for y in loop.results if list(y.uses)]


def _is_table(x: IrValue) -> bool:
    """Whether the dispatch reads a constant from memory as an array, not as a part of the code.

    It does if the constant is no splat, and is large or of a type that `signed_carries` converts (predicates and
    unsigned integers).
    """
    converted = is_boolean(x) or is_unsigned(x)
    return (converted or _size(x) > _INLINED) and constant_splat(x) is None


# ---- the host counts iterations ------------------------------------------------------------------------------------


def _against_counting(loop: ir.Operation) -> str:
    """Returns the reason why `loops_by_count` should not rewrite a loop, or ""."""
    count = trip_count(loop)
    if count is None:
        return "its trip count is unknown"
    if count < 2:
        return "it runs less than twice"
    counters = [i for i in range(len(loop.operands)) if counter_of(loop, i) is not None]
    return "it counts from zero already" if len(counters) == 1 and loop_counter(loop)[0] is not None else ""


# ---- the host updates carries in place -----------------------------------------------------------------------------


def _against_updates_in_place(loop: ir.Operation) -> str:
    """Returns the reason why the loops of the module that contains `loop` must not update carries in place, or "".

    The answer is the same for all loops of a module, because IREE omits either all copies in a module or none.
    """
    module = loop.operation
    while module.parent is not None:
        module = module.parent
    if has_resources(module):
        return "the module has constants that its text does not hold"
    for op in (op for function in functions_in(module) for op in on_host(function)):
        if op.name in CALL_OPS:
            return f"the module has {op.name}, whose function may update a carry"
        if _writes_to_captured(op):
            return "a dispatch in the module may write to a carry"
    return ""


def on_host(op: IrOp) -> Iterator[ir.Operation]:
    """Yields the ops nested in an op, in order, except ops inside dispatches."""
    for region in op.regions:
        for block in region.blocks:
            for inner in list(operations(block)):
                yield inner
                if inner.name != KERNEL:
                    yield from on_host(inner)


def may_be_carry(x: IrValue) -> bool:
    """Whether an array may share memory with a loop-carried value, after IREE's simplifications."""
    return any(
        isinstance(y.owner, ir.Block) and y.owner.owner.operation.name == _WHILE
        for y in reached([x], _sources)
    )


def _sources(y: IrValue) -> list[IrValue]:
    """The values with which y may share memory: `may_be` for control flow, else the operands of its op of equal size.

    The list is empty if y is always a new array.
    """
    if (op := definition(y)) is None or op.name in _NEW:
        return []
    return may_be(y) if op.name in CONTROL else [x for x in op.operands if size_in_bits(x) == size_in_bits(y)]


def _writes_to_captured(op: IrOp) -> bool:
    """Whether an op is a dispatch that may write to a loop-carried value that it reads from outside."""
    if op.name != KERNEL:
        return False
    outside = set(captured(op))
    return any(
        x in outside and x.type in [y.type for y in inner.results] and may_be_carry(x)
        for inner in outer_first(op)[1:]
        if list(inner.regions) or any(name in inner.name for name in _WRITERS) or len(updated(inner))
        for x in inner.operands
    )


# ---- `FORMS` lists the forms ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LoopForm:
    """A form of loops: its name, the pass that creates it, and a sentence with its benefit.

    `against(loop)` returns the reason why a loop does not get the form, or "" if the loop gets it.
    """

    name: str
    made_by: str
    gain: str
    against: Callable[[ir.Operation], str]


IN_KERNEL = LoopForm(
    "kernel",
    "loops_to_kernels",
    "One dispatch runs all iterations as machine code; its carries are updated in place.",
    _against_kernel,
)
COUNTED = LoopForm(
    "counted",
    "loops_by_count",
    "The host holds the counter, so no condition is computed on the device and awaited.",
    _against_counting,
)
IN_PLACE = LoopForm(
    "in place",
    "carries_in_place",
    "An iteration writes only the rows that it updates, and copies no loop-carried array.",
    _against_updates_in_place,
)
FORMS = IN_KERNEL, COUNTED, IN_PLACE
"""The forms, the best one first. A loop in a kernel has no other form. A loop on the host may have both other forms."""
