"""Patterns for loops, conditionals, barriers, custom calls, process ids and random numbers."""

import itertools
from collections.abc import Sequence

from torch_mlir import ir

from tiduc.backends.iree.emit.arrays import behind_barrier, has_dynamic_shape
from tiduc.backends.iree.emit.emitter import CALLS, Emitter, legalize
from tiduc.backends.iree.emit.known import known_number
from tiduc.backends.iree.emit.refused import refused
from tiduc.backends.iree.emit.updates import copied, is_table, may_fold_to_carry
from tiduc.backends.iree.fault import crash, missing, wrong
from tiduc.dialect.facts.lapack import check_call
from tiduc.dialect.graph.dependences import behind, reached, read_by
from tiduc.dialect.graph.graph import operations, terminator
from tiduc.dialect.graph.matching import traced
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.ops.shardy import CONSTRAINTS, PLACEMENT
from tiduc.dialect.ops.traits import CONTROL, VIEWS
from tiduc.dialect.shapes.types import is_dynamic

TRANSPARENT = {
    *(*CONSTRAINTS, "xla.sdy.FuncResultSharding", PLACEMENT),
    *("SPMDFullToShardShape", "SPMDShardToFullShape", "LayoutConstraint"),
}
"""Targets of custom calls that are hints to other compilers. The results of such a call equal its operands."""

_PYTHON = "ffi_python"
"""A substring of the targets of JAX's callbacks, such as `xla_ffi_python_cpu_callback`."""

_JOINS = CONTROL | {"func.call", "stablehlo.composite"}
"""Ops whose results come from regions or callees."""

_DYNAMIC = ir.ShapedType.get_dynamic_size()
_ABSORBING = {"stablehlo.and": False, "stablehlo.or": True}
"""For each boolean op, the value of one operand that determines the result, whatever the other operand is."""

_UNKNOWN = ("stablehlo.optimization_barrier", "func.call")
"""Ops whose results are not constant for IREE, even if all their operands are."""


@legalize("stablehlo.while")
@crash(
    "IREE crashes, or exhausts memory, if a loop's body ignores a carry; a barrier makes the body read the carry.",
    "while",
)
@crash(
    "IREE hoists a new loop-invariant value, and then does not find it; tiduc puts the value behind a barrier.",
    "while_unread",
    untested="takes all memory on some machines",
)
@crash(
    "IREE drops half of a carry whose new value folds to a constant; tiduc puts the new value behind a barrier.",
    "while_folded",
)
@crash(
    "A loop that depends on constants alone and returns a scalar does not compile; a barrier hides a constant.",
    "while_constant",
)
@crash(
    "If one loop follows another, IREE finds a cycle of dependences; tiduc copies shared initial values.",
    "while_after_another",
)
@crash(
    "In a loop, a constant array that is an initial or returned value does not compile; tiduc copies the array.",
    "while_table",
)
@crash(
    "IREE does not find the size of a dynamic array if it becomes another carry; a barrier copies the array.",
    "dynamic/while_of_swapped",
    upstream="https://github.com/iree-org/iree/issues/19474",
)
@wrong(
    "IREE mixes up two carries of several dynamic dimensions; tiduc copies their initial values.",
    "dynamic/while_of_matrices",
)
def while_(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Changes a loop in place so that IREE compiles it correctly. The decorators list the cases. Returns None.

    The new value of a carry (loop-carried value) is passed, with the old value, through a barrier in four cases:

    - The body ignores the old value.
    - The new value depends on no carry, perhaps after constant folding. The compiler would hoist it and then lose it.
    - An earlier carry has an equal new value. The compiler would drop one of the two carries.
    - The new value is the old value of another carry, an array of dynamic shape.

    If a loop returns a scalar and depends on constants alone, its first initial value is passed through a barrier.
    Otherwise the compiler would run the loop when the module is loaded, and would fail when the host reads the scalar.
    """
    body = op.regions[1].blocks[0]
    last, varying = terminator(body), _varying(body)
    _without_tables(b, op)
    _without_tables(b, last)
    for i, old in enumerate(body.arguments):
        new = last.operands[i]
        moves = new != old and new in list(body.arguments) and is_dynamic(new.type)
        if moves or not list(old.uses) or new not in varying or new in list(last.operands)[:i]:
            at_end = b.at(ir.InsertionPoint(last))
            last.operands[i] = at_end.barrier(new, old)[0]
    _separated(b, op)
    _with_computed_sizes(b, op)
    if any(not y.type.shape and list(y.uses) for y in op.results) and _is_known(op):
        op.operands[0] = b.barrier(op.operands[0])[0]
    return None


@legalize("stablehlo.optimization_barrier")
@wrong(
    "If an operand is a carry, IREE may drop the op that computes it, or not wait for it; tiduc copies the operand.",
    untested="a race of threads: random_loops.py --target cpu-threads, program:5, is wrong in most runs without it",
)
@crash(
    "IREE loses dynamic sizes, and rejects the program; tiduc tells it the sizes of the results.",
    "dynamic/barrier",
)
def optimization_barrier(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Copies, in place, operands that are loop-carried values, or that IREE may fold to loop-carried values.

    For dynamic shapes, replaces the barrier by one that tells IREE the sizes of its results. Returns None otherwise.
    """
    for i, x in enumerate(list(op.operands)):
        if list(op.results[i].uses) and may_fold_to_carry(x):
            op.operands[i] = copied(b, x)
    return behind_barrier(b, *op.operands) if has_dynamic_shape(op) else None


@legalize("stablehlo.if", "stablehlo.case")
@crash(
    "A constant array that a branch returns does not compile if a branch returns an array twice or a view of it; "
    "tiduc copies the constant.",
    "table_of_a_branch",
)
def branches(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Copies the constant arrays that branches return, in place, if a branch returns one array twice. Returns None.

    A view of an array counts as that array.
    """
    last = [terminator(region.blocks[0]) for region in op.regions]
    if any(len({_viewed(x) for x in end.operands}) < len(end.operands) for end in last):
        for end in last:
            _without_tables(b, end)
    return None


def _viewed(x: IrValue) -> IrValue:
    """Returns the array of which a value is a view, or the value itself if it is not a view."""
    array: IrValue
    *_, array = traced(x, VIEWS)
    return array


def _is_known(op: IrOp) -> bool:
    """Whether an op depends on constants alone. IREE may then compute the op when the module is loaded."""
    values = reached(read_by(op), behind)
    return all(not isinstance(x.owner, ir.Block) and x.owner.name not in _UNKNOWN for x in values)


def _varying(body: ir.Block) -> set[IrValue]:
    """The values in a loop's body that still depend on carries after constant folding."""
    varying = set[IrValue](body.arguments)
    for op in operations(body):
        if not varying.isdisjoint(_read_when_folded(op)):
            varying.update(op.results)
    return varying


def _read_when_folded(op: IrOp) -> Sequence[IrValue]:
    """The values that an op reads, except those that a constant operand makes irrelevant, as x in `and x, false`."""
    numbers = [known_number(x) for x in op.operands]
    if op.name == "stablehlo.select" and numbers[0] is not None:
        return [op.operands[1 if numbers[0] else 2]]
    fixing = _ABSORBING.get(op.name)
    if fixing is not None and any(x is not None and x.dtype == bool and x == fixing for x in numbers):
        return []
    return read_by(op)


def _separated(b: Emitter, op: IrOp) -> None:
    """If a loop follows another loop, copies its initial values that have other readers, in place.

    Without the copy, the compiler would schedule ops before the loop together with ops after the loop that read their
    results, and would find a cycle of dependences. For a scalar, a barrier suffices. For an array it does not: two
    loops that start with one array would share it, at an offset that is computed after the first loop.
    """
    before = list(itertools.takewhile(lambda other: other != op, operations(op.operation.block)))
    if not any(other.name in _JOINS for other in before):
        return
    here = {y for other in before if other.name not in (*_JOINS, "stablehlo.constant") for y in other.results}
    for i, x in enumerate(op.operands):
        if x in here and len(list(x.uses)) > 1:
            (stored,) = b.barrier(
                x
            )  # the barrier is after the earlier loop, so that the copy is not scheduled with the op of x
            op.operands[i] = copied(b, stored) if x.type.shape else stored


def _with_computed_sizes(b: Emitter, op: IrOp) -> None:
    """If two or more carries have several dynamic dimensions each, copies their initial values, in place.

    Without the copies, the compiler puts the new values of these carries into one buffer. It cannot prove that a carry
    and its new value have equal sizes, and therefore reads one array in place of the other.
    """
    arrays = [i for i, x in enumerate(op.operands) if list(x.type.shape).count(_DYNAMIC) > 1]
    if len(arrays) > 1:
        for i in arrays:
            op.operands[i] = copied(b, op.operands[i])


def _without_tables(b: Emitter, op: IrOp) -> None:
    """Copies the constant arrays among the operands of a loop or a terminator, in place.

    A carry, or the result of a conditional, may be one of several arrays. The compiler requires these arrays to be in
    one kind of memory, but constants are in another kind of memory than arguments and results.
    """
    before = b.at(ir.InsertionPoint(op))
    for i, x in enumerate(list(op.operands)):
        if is_table(x):
            op.operands[i] = copied(before, x)


@legalize("stablehlo.custom_call")
@missing(
    "IREE rejects the call; tiduc expands calls of linear algebra, and drops hints to other compilers.",
    "custom_call",
)
def custom_call(b: Emitter, op: ir.Operation) -> Sequence[IrValue] | None:
    """Expands a custom call by its pattern in `CALLS`, or replaces a hint to another compiler by its operands.

    Raises `Unsupported` for other calls.
    """
    target = ir.StringAttr(op.attributes["call_target_name"]).value
    if target in TRANSPARENT and [x.type for x in op.operands] == [y.type for y in op.results]:
        return list(op.operands)
    if target in CALLS:
        check_call(op)
        return CALLS[target](b, op)
    if _PYTHON in target:
        way = (
            "tiduc.from_jax imports the function without the callbacks that check values, and without prints"
        )
        raise refused(op, f"@{target} calls a Python function, which a module does not contain; {way}")
    raise refused(op, f"IREE has no @{target}; --rules names a module with its lowering")


@legalize("stablehlo.replica_id")
@missing("The op needs several processes; tiduc emits 0, since a module runs in one process.", "replica_id")
def process_id(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Replaces the op by 0."""
    return [b.constant(0, op.results[0].type)]


@legalize("stablehlo.rng")
@missing("On CPUs, each call gives the same numbers; tiduc refuses the op.", untested="refused")
def rng(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Raises `Unsupported`. Imported programs do not have this op, because the import replaces it."""
    raise refused(
        op, "it gives the same numbers in each call; use rng_bit_generator, with the state as an argument"
    )
