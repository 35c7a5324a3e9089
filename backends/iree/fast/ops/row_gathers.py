"""row_gathers: on CPUs, gathers rows by a kernel that copies vectors.

    %0 = gather %table, %i, slices of 1x768      :  5319x768, 512        (an embedding)
    ->
    %0 = flow.dispatch @row_gather_...(%table, clamp %i)

IREE computes the address of each element of the result from its number, with divisions, and copies elements one by one.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.backends.iree.emit.emitter import DEFAULT, Emitter, is_in_loop, is_static, rewrite
from tiduc.backends.iree.emit.indices import clamped
from tiduc.backends.iree.emit.sizes import RunTimeSize, SizeLike, read
from tiduc.backends.iree.emit.vectors import Vectors
from tiduc.backends.iree.emit.workgroups import ArrayPart, Code
from tiduc.backends.iree.fast.products.parts import Parts, parts
from tiduc.backends.iree.fault import slow
from tiduc.backends.iree.settings import Settings
from tiduc.dialect.graph.matching import definition
from tiduc.dialect.mlir.context import stage
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.ops.traits import ELEMENTWISE
from tiduc.dialect.shapes.types import element, shape, with_shape

_LEAST = 2**11
"""The fewest elements of a result that is gathered by a kernel."""
_VECTOR = 4
"""The fewest elements of a row that is copied by vectors."""
_WORKGROUPS = 8
"""The fewest workgroups, so that several threads share the work."""
_BLOCK = 2**14
"""The most elements of a workgroup, unless one row has more."""


@slow(
    "IREE gathers rows element by element, and computes each address by divisions; tiduc copies vectors.",
    "flags.py: rows by index",
)
@stage
def row_gathers(module: ir.Module | IrOp, settings: Settings = DEFAULT) -> int:
    """Rewrites, in place, gathers of rows. Returns the number of rewritten gathers."""
    if not settings.vectors:
        return 0
    return rewrite(module, {"stablehlo.gather": _gathered}, settings)


def _gathered(b: Emitter, op: IrOp) -> list[IrValue] | None:
    """Gathers rows by a kernel. Returns None for other gathers."""
    (x, indices), y = op.operands, op.results[0]
    d = hlo.GatherDimensionNumbers(op.attributes["dimension_numbers"])
    arrays = x, indices, y
    if is_in_loop(op) or not all(is_static(v.type) and math.prod(shape(v)) for v in arrays):
        return None
    kind = element(x)
    is_number = isinstance(kind, ir.F32Type | ir.F64Type) or (
        isinstance(kind, ir.IntegerType) and kind.is_signless and kind.width in (32, 64)
    )
    if not is_number or len(d.start_index_map) != 1 or d.operand_batching_dims:
        return None
    (indexed,), sizes = d.start_index_map, shape(x)
    taken = [1 if i == indexed else n for i, n in enumerate(sizes)]
    if list(d.collapsed_slice_dims) != [indexed] or list(op.attributes["slice_sizes"]) != taken:
        return None
    # The dimensions of the indices must lie, in the result, between those before and after the indexed dimension.
    batch = [i for i in range(len(shape(y))) if i not in d.offset_dims]
    if batch != [*range(indexed, indexed + len(batch))]:
        return None
    outer, width = math.prod(sizes[:indexed]), math.prod(sizes[indexed + 1 :])
    count = math.prod(shape(y)) // (outer * width)
    if math.prod(shape(y)) < _LEAST or _is_fused(op):
        return None
    at = clamped(b, b.reshape(indices, [count]), [sizes[indexed] - 1], None)
    table = b.reshape(x, [outer, sizes[indexed], width])
    return [b.reshape(_by_kernel(b, table, at), shape(y))]


def _is_fused(gather: IrOp) -> bool:
    """Whether IREE can compute only the gathered elements of an array, which is larger than the result."""
    x, made = gather.operands[0], definition(gather.operands[0])
    computed = made is not None and (made.name in ELEMENTWISE or made.name == "stablehlo.broadcast_in_dim")
    return computed and math.prod(shape(x)) > math.prod(shape(gather.results[0]))


class _Numbers(NamedTuple):
    """The numbers that the code of a gather reads at run time."""

    outer: SizeLike
    rows: SizeLike
    width: SizeLike
    taken: SizeLike
    outer_blocks: SizeLike
    outer_low: SizeLike
    outer_more: SizeLike
    blocks: SizeLike
    low: SizeLike
    more: SizeLike


def _by_kernel(b: Emitter, table: IrValue, at: IrValue) -> IrValue:
    """Emits a dispatch that gathers, from each matrix of `table`, the rows at the indices `at`."""
    outer, rows, width = shape(table)
    (taken,) = shape(at)
    of_rows = parts(taken, max(1, _BLOCK // width), -(-_WORKGROUPS // outer))
    of_outer = parts(outer, max(1, _BLOCK // (taken * width)), min(outer, _WORKGROUPS))
    numbers = _Numbers(outer, rows, width, taken, *of_outer.numbers, *of_rows.numbers)
    axes = ("outer", "rows", "width"), ("taken",), ("outer", "taken", "width")
    code = Code("row_gather", width < _VECTOR, _Gather, numbers, ones=("outer", "width"), axes=axes)
    type_ = with_shape(table.type, [outer, taken, width])
    return code.run(b, [table, at], type_, (of_outer.count, of_rows.count))


@dataclass(frozen=True)
class _Gather:
    """Emits the code of a workgroup, which copies a block of rows of each matrix in a block of matrices."""

    is_narrow: bool
    """Whether rows are copied element by element."""
    numbers: _Numbers
    table: IrValue
    at: IrValue

    def one(self, k: Vectors, place: Sequence[RunTimeSize]) -> ArrayPart:
        outer, block = place
        matrices, rows, width = Parts(*self.numbers[4:7]), Parts(*self.numbers[7:]), self.numbers.width
        starts = [k.held(matrices.start(outer)), k.held(rows.start(block))]
        sizes = [k.held(matrices.size(outer)), k.held(rows.size(block))]
        copied = self.narrow_row if self.is_narrow else self.row

        def one(k: Vectors, place: Sequence[SizeLike], z: IrValue) -> Sequence[IrValue]:
            matrix, i = (k.held(start + at) for start, at in zip(starts, place, strict=True))
            source = k.held(read(k.index_at(self.at, i)))
            return [copied(k, [matrix, source], place, z)]

        (z,) = k.nest(sizes, [k.array([*sizes, width])], one)
        return ArrayPart(z, [*starts, 0], [*sizes, width])

    def row(self, k: Vectors, source: Sequence[SizeLike], place: Sequence[SizeLike], z: IrValue) -> IrValue:
        """Copies a row of the table to z by vectors, the last of which is masked. Returns z."""
        whole = k.held(self.numbers.width // k.width * k.width)

        def copied(k: Vectors, column: SizeLike, z: IrValue, mask: IrValue | None = None) -> list[IrValue]:
            return [k.store(k.load(self.table, [*source, column], mask), z, [*place, column], mask)]

        (z,) = k.loop(0, whole, k.width, [z], copied)
        return copied(k, whole, z, k.first(self.numbers.width - whole))[0]

    def narrow_row(
        self, k: Vectors, source: Sequence[SizeLike], place: Sequence[SizeLike], z: IrValue
    ) -> IrValue:
        """Copies a row of the table to z element by element. Returns z."""

        def copied(k: Vectors, column: Sequence[SizeLike], z: IrValue) -> list[IrValue]:
            return [k.put(k.element(self.table, *source, *column), z, *place, *column)]

        return k.nest([self.numbers.width], [z], copied)[0]
