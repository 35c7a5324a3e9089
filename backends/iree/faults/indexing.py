"""Patterns for gather, reverse, dynamic_slice and dynamic_update_slice.

They clamp and convert indices, and copy operands.
"""

from collections.abc import Sequence

import numpy as np
from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.backends.iree.emit.emitter import ON_CPUS, Emitter, legalize, signless
from tiduc.backends.iree.emit.indices import clamped
from tiduc.backends.iree.emit.updates import copied
from tiduc.backends.iree.fault import crash, wrong
from tiduc.dialect.graph.dependences import RESHAPES, is_constant
from tiduc.dialect.graph.matching import defined_by, definition, traced
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.shapes.types import element, is_dynamic, shape


@legalize("stablehlo.dynamic_slice")
@wrong(
    "IREE misreads starts that are unsigned or narrower than 32 bits; tiduc emits starts of i32 or i64.",
    "dynamic_slice_i8",
)
def dynamic_slice(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Converts the start indices to i32 or i64, in place. Returns None."""
    _with_signed_starts(b, op, 1)
    return None


@legalize("stablehlo.dynamic_update_slice")
@wrong(
    "IREE misreads starts that are unsigned or narrower than 32 bits; tiduc emits starts of i32 or i64.",
    "dynamic_update_slice_ui64",
)
@wrong(
    "IREE copies between overlapping parts of an array if the update is a part of it; tiduc copies the update first.",
    "update_by_part",
)
def dynamic_update_slice(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Copies the update, in place, if it is a slice of the updated array. Converts the start indices to i32 or i64.

    Returns None.
    """
    if _is_part(op):
        op.operands[1] = b.barrier(copied(b, op.operands[1]))[0]
    _with_signed_starts(b, op, 2)
    return None


def _with_signed_starts(b: Emitter, op: IrOp, first: int) -> None:
    """Converts the start indices, which are the operands from `first` on, to i32 or i64."""
    for i in range(first, len(op.operands)):
        start = op.operands[i]
        type_ = element(start)
        if type_.width >= 32 and not type_.is_unsigned:
            continue
        if type_.width == 64:
            start = b.minimum(start, 2**62)
        start = b.convert(start, signless(64 if type_.width >= 32 else 32))
        # Signed starts get a barrier. Without it, the host would read the narrow integer itself, as an unsigned one.
        op.operands[i] = start if type_.is_unsigned else b.barrier(start)[0]


_SLICES = "stablehlo.dynamic_slice", "stablehlo.slice"
_UPDATES = "stablehlo.dynamic_update_slice", "stablehlo.scatter"


def _is_part(op: IrOp) -> bool:
    """Whether the update is a slice of the array that `op` updates, or of that array before earlier updates."""
    *_, update = traced(op.operands[1], RESHAPES)
    part = defined_by(update, *_SLICES)
    if part is None or is_dynamic(update.type):
        return False
    (*_, x), (*_, sliced) = (traced(y, RESHAPES + _UPDATES) for y in (op.operands[0], part.operands[0]))
    return bool(x == sliced)


@legalize("stablehlo.gather")
@wrong(
    "Gathers of full rows do not clamp indices, and misread unsigned ones; tiduc clamps the indices first.",
    "gather",
    upstream="https://github.com/iree-org/iree/issues/24881",
)
@wrong(
    "IREE numbers batch dimensions as if the index vectors were the last dimension; tiduc makes them the last one.",
    "gather_vectors_first",
)
@crash(
    "On CPUs, a gather from a strided slice does not compile; tiduc puts the slice behind a barrier.",
    "gather_of_steps",
)
@crash(
    "On CPUs, a gather from a column at a computed index does not compile; tiduc puts the column behind a barrier.",
    "gather_of_computed_column",
)
@wrong(
    "IREE computes only the elements that a gather reads at constant indices, even if other ops read the array; "
    "a barrier stores it.",
    "gather_at_constant_places",
)
def gather(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Clamps the indices of a gather. Reads strided slices, and arrays at constant indices, through a barrier.

    For constant indices, IREE would fuse the gather with the op that computes the array. The fused code would compute
    only the gathered elements of the array, even if other ops read the array.
    """
    _vectors_last(b, op)
    if _has_steps(op.operands[0]) or _has_constant_places(op):
        op.operands[0] = b.barrier(op.operands[0])[0]
    x, indices = op.operands
    d = hlo.GatherDimensionNumbers(op.attributes["dimension_numbers"])
    sizes = list(op.attributes["slice_sizes"])
    limits = [shape(x)[i] - sizes[i] for i in d.start_index_map]
    if not limits or min(limits) < 0 or not np.prod(shape(indices)):
        return None
    dimension = d.index_vector_dim if d.index_vector_dim < len(shape(indices)) else None
    return b.clone(op, {1: clamped(b, indices, limits, dimension)})


def _has_constant_places(op: IrOp) -> bool:
    """Whether a gather reads only one of several elements along some dimension, at an index that IREE knows.

    Returns False if the array is an argument or a constant.
    """
    x, indices = op.operands
    if (made := definition(x)) is None or made.name == "stablehlo.constant":
        return False
    d = hlo.GatherDimensionNumbers(op.attributes["dimension_numbers"])
    known = is_constant(indices, ("stablehlo.constant", "stablehlo.iota"))
    given = {*d.operand_batching_dims, *(() if known else d.start_index_map)}
    taken = zip(shape(x), op.attributes["slice_sizes"], strict=True)
    return any(size > 1 == count and i not in given for i, (size, count) in enumerate(taken))


@legalize("stablehlo.reverse", where=ON_CPUS)
@crash(
    "On CPUs, the reverse of a strided slice does not compile; tiduc puts the slice behind a barrier.",
    "reverse_of_steps",
)
@crash(
    "On CPUs, the reverse of a column at a computed index does not compile; tiduc puts the column behind a barrier.",
    "reverse_of_computed_column",
)
def reverse_of_steps(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Reads a strided slice through a barrier, in place. Returns None."""
    if _has_steps(op.operands[0]):
        op.operands[0] = b.stored(op.operands[0])
    return None


def _has_steps(x: IrValue) -> bool:
    """Whether an array is a strided slice, or a slice or reshape of one. A gather from it does not compile on CPUs.

    A slice such as a column of a matrix counts as strided, because its neighbouring elements are not neighbours in
    memory, and a reshape may drop its dimensions of size 1.
    """
    owners = [y.owner for y in traced(x, ("stablehlo.reshape", *_SLICES))]
    slices = [op for op in owners if not isinstance(op, ir.Block) and op.name in _SLICES]
    return any(
        (op.name == "stablehlo.slice" and set(op.attributes["strides"]) != {1}) or _is_column(op)
        for op in slices
    )


def _is_column(op: IrOp) -> bool:
    """Whether the last dimension along which a slice has several elements is not the array's last such dimension."""
    several = [d for d, n in enumerate(shape(op.results[0])) if n != 1]
    return bool(several) and any(n != 1 for n in shape(op.operands[0])[several[-1] + 1 :])


def _vectors_last(b: Emitter, op: IrOp) -> None:
    """Transposes the indices of a gather with batching dimensions so that index vectors run along the last dimension.

    Changes the op in place. IREE numbers the batching dimensions as if index vectors always ran along the last
    dimension, and would gather from the wrong batch.
    """
    d, indices = hlo.GatherDimensionNumbers(op.attributes["dimension_numbers"]), op.operands[1]
    vector, rank = d.index_vector_dim, len(shape(indices))
    if not d.operand_batching_dims or vector >= rank - 1:
        return
    op.operands[1] = b.transpose(indices, [*(i for i in range(rank) if i != vector), vector])
    batches = [i - (i > vector) for i in d.start_indices_batching_dims]
    op.attributes["dimension_numbers"] = hlo.GatherDimensionNumbers.get(
        d.offset_dims, d.collapsed_slice_dims, d.operand_batching_dims, batches, d.start_index_map, rank - 1
    )
