"""row_reductions: on CPUs, reduces rows by kernels of vectors if the length of a row is not a multiple of the vector.

    %0 = reduce add ((%x - broadcast %mean) * (%x - broadcast %mean)), dimensions = [1]  :  54x5607xf32
    ->
    %0 = flow.dispatch @row_reduction_...(%x, %mean)

IREE adds the elements of such a row one after the other, or in vectors of few elements. A kernel adds vectors, of which
the last one is masked, to several sums. It computes the elements from the arrays that elementwise ops read
(row_formula.py). In f32, a sum has at most `_BLOCK` terms; the sums of these blocks are added in f64.

If there are few rows, each is divided into parts, so that several threads share the work.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from torch_mlir import ir

from tiduc.backends.iree.emit.emitter import DEFAULT, Emitter, are_floats, is_in_loop, rewrite
from tiduc.backends.iree.emit.sizes import RunTimeSize, SizeLike, smaller
from tiduc.backends.iree.emit.vectors import Vectors, lanes
from tiduc.backends.iree.emit.workgroups import ArrayPart, Code
from tiduc.backends.iree.fast.products.parts import Parts, parts
from tiduc.backends.iree.fast.sums.row_formula import ARITHMETIC, Gathered, RowFormula
from tiduc.backends.iree.fault import slow
from tiduc.backends.iree.settings import Settings
from tiduc.dialect.emitters.bodies import reducer
from tiduc.dialect.graph.matching import definition
from tiduc.dialect.mlir.constants import is_splat, splat_number
from tiduc.dialect.mlir.context import stage
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.ops.traits import NEUTRAL
from tiduc.dialect.shapes.types import element, shape

_LEAST, _ROW = 2**12, 48
"""The fewest elements of an array, and of a row, that is reduced by a kernel."""
_IN_LOOPS = 2**16
"""The fewest elements of an array in a loop. A loop with smaller arrays may become one kernel."""
_SUMS = 4
"""The number of vectors of sums. An addition to one of them does not wait for the additions to the others."""
_BLOCK = 2**12
"""The most elements of a block of a row, whose sums are f32."""
_WORKGROUPS = 8
"""The number of workgroups, unless there is too little work for several threads."""


@slow(
    "IREE adds elements one by one if the length of a row is not a multiple of the vector size; tiduc adds vectors.",
    "flags.py: uneven rows",
)
@stage
def row_reductions(module: ir.Module | IrOp, settings: Settings = DEFAULT) -> int:
    """Rewrites, in place, reductions of rows of uneven length. Returns the number of rewritten reductions."""
    if not settings.vectors:
        return 0
    return rewrite(module, {"stablehlo.reduce": _reduced}, settings)


def _reduced(b: Emitter, op: IrOp) -> list[IrValue] | None:
    """Reduces rows by a kernel. Returns None for other reductions, and for rows that IREE reduces as fast."""
    if len(op.results) != 1 or not are_floats([op.operands[0]], ir.F32Type, ir.F64Type):
        return None
    x, combine = op.operands[0], str(reducer(op))
    sizes, start = shape(x), definition(op.operands[1])
    if combine not in ARITHMETIC or combine not in NEUTRAL or start is None:
        return None
    if not _is_splat_of(start, _start(combine)):
        return None
    dimensions = {d for d, n in enumerate(sizes) if n == 1 or d in op.attributes["dimensions"]}
    leading = next((d + 1 for d in reversed(range(len(sizes))) if d not in dimensions), 0)
    rows, columns = math.prod(sizes[:leading]), math.prod(sizes[leading:])
    least = _IN_LOOPS if is_in_loop(op) else _LEAST
    if columns < _ROW or rows * columns < least or columns % lanes(x, b.settings.registers) == 0:
        return None
    gathered = Gathered(b, leading)
    formula = gathered.formula(x)
    if formula is None or "rows" not in gathered.kinds:
        return None
    count = min(-(-_WORKGROUPS // rows), -(-columns // _BLOCK))
    y = _by_kernel(b, formula, gathered, combine, (rows, columns), count)
    y = b.reshape(y, [*sizes[:leading], shape(y)[1]])
    rest = [d for d, n in enumerate(shape(y)) if n > 1 and (d == leading or d in dimensions)]
    if rest:
        wide = ir.F64Type.get() if combine == "stablehlo.add" else element(y)
        init = b.constant(_start(combine), ir.RankedTensorType.get([], wide))
        y = b.convert(b.reduce(b.convert(y, wide), init, rest, combine), element(x))
    return [b.reshape(y, shape(op.results[0]))]


def _start(combine: str) -> float:
    """The number from which a reduction starts. For a sum, it is +0, because a sum of 0 and -0 is +0."""
    return NEUTRAL[combine] + 0.0


def _is_splat_of(op: IrOp, number: float) -> bool:
    """Whether an op is a constant whose elements are all equal to `number`, or to -`number` if it is 0."""
    value = op.attributes["value"] if op.name == "stablehlo.constant" else None
    return value is not None and is_splat(value) and splat_number(value) == number


class _Numbers(NamedTuple):
    """The numbers that the code of a reduction reads at run time."""

    rows: SizeLike
    columns: SizeLike
    blocks: SizeLike
    low_rows: SizeLike
    more_rows: SizeLike
    parts: SizeLike
    low: SizeLike
    more: SizeLike


@dataclass(frozen=True)
class _Form:
    """The properties of a reduction that determine its code, except the types of the arrays."""

    formula: RowFormula
    kinds: tuple[str, ...]
    combine: str


def _by_kernel(
    b: Emitter, formula: RowFormula, gathered: Gathered, combine: str, sizes: tuple[int, int], count: int
) -> IrValue:
    """Emits a dispatch that reduces `count` parts of each row. Returns an array of shape (rows, parts)."""
    rows, columns = sizes
    blocks = parts(rows, max(1, rows // _WORKGROUPS))
    of_row = parts(columns, -(-columns // count))
    numbers = _Numbers(rows, columns, *blocks.numbers, *of_row.numbers)
    axes = {"rows": ("rows", "columns"), "scalars": ("rows",), "row": ("columns",)}
    form = _Form(formula, gathered.kinds, combine)
    code = Code(
        "row_reduction",
        form,
        _Reduction,
        numbers,
        ones=("rows",),
        axes=[*(axes[kind] for kind in gathered.kinds), ("rows", "parts")],
    )
    type_ = ir.RankedTensorType.get([rows, of_row.count], element(gathered.arrays[0]))
    return code.run(b, gathered.arrays, type_, (blocks.count, of_row.count))


class _Reduction:
    """Emits the code of a workgroup, which reduces one part of each row of a block of rows."""

    def __init__(self, form: _Form, numbers: _Numbers, *arrays: IrValue) -> None:
        self.form, self.numbers, self.arrays = form, numbers, arrays
        self.blocks = Parts(*numbers[2:5])
        self.parts = Parts(*numbers[5:8])

    def one(self, k: Vectors, place: Sequence[RunTimeSize]) -> ArrayPart:
        block, part = place
        first, size = k.held(self.blocks.start(block)), k.held(self.blocks.size(block))
        start = k.held(self.parts.start(part))
        end = k.held(start + self.parts.size(part))

        def row(k: Vectors, at: RunTimeSize, z: IrValue) -> Sequence[IrValue]:
            return [k.put(self.reduced(k, k.held(first + at), start, end), z, at, 0)]

        (z,) = k.loop(0, size, 1, [k.array([size, 1])], row)
        return ArrayPart(z, [first, part], [size, 1])

    def reduced(self, k: Vectors, row: SizeLike, start: SizeLike, end: SizeLike) -> IrValue:
        """Returns the reduction of the elements of a row from `start` to before `end`, as a scalar."""
        of, sums = k.element_type, self.form.combine == "stablehlo.add"
        wide = ir.F64Type.get() if sums else of

        def block(k: Vectors, at: RunTimeSize, total: IrValue) -> Sequence[IrValue]:
            value = self.of_block(k, row, at, smaller(at + _BLOCK, end))
            value = value if of == wide else k.emit("arith.extf", (value,), wide)
            return [k.emit(ARITHMETIC[self.form.combine], (total, value), wide)]

        (total,) = k.loop(start, end, _BLOCK, [k.number(_start(self.form.combine), wide)], block)
        return total if of == wide else k.emit("arith.truncf", (total,), of)

    def of_block(self, k: Vectors, row: SizeLike, start: SizeLike, end: SizeLike) -> IrValue:
        """Returns the reduction of a block of a row, as a scalar."""
        neutral = k.splat(k.number(_start(self.form.combine), k.element_type))
        size, step = k.held(end - start), _SUMS * k.width
        many = k.held(start + size // step * step)
        whole = k.held(start + size // k.width * k.width)

        def several(k: Vectors, at: RunTimeSize, *sums: IrValue) -> Sequence[IrValue]:
            return [self.plus(k, x, row, k.held(at + i * k.width)) for i, x in enumerate(sums)]

        sums = list(k.loop(start, many, step, [neutral] * _SUMS, several))
        (first,) = k.loop(many, whole, k.width, sums[:1], lambda k, at, x: [self.plus(k, x, row, at)])
        mask = k.first(end - whole)
        last = self.form.formula.at(k, self.arrays, row, whole, mask)
        sums = [self.combined(k, first, k.select_scalar(mask, last, neutral)), *sums[1:]]
        while len(sums) > 1:
            sums = [self.combined(k, *pair) for pair in zip(sums[::2], sums[1::2], strict=True)]
        return self.folded(k, sums[0])

    def plus(self, k: Vectors, x: IrValue, row: SizeLike, column: SizeLike) -> IrValue:
        """Combines a vector of partial results with the vector of a row that begins at `column`."""
        formula = self.form.formula
        if self.form.combine == "stablehlo.add" and formula.name == "stablehlo.multiply":
            left, right = (each.at(k, self.arrays, row, column, None) for each in formula.operands)
            return k.plus_products([left], [right], [x])[0]
        return self.combined(k, x, formula.at(k, self.arrays, row, column, None))

    def combined(self, k: Vectors, x: IrValue, y: IrValue) -> IrValue:
        return k.emit(ARITHMETIC[self.form.combine], (x, y), x.type)

    def folded(self, k: Vectors, x: IrValue) -> IrValue:
        """Reduces the elements of a vector to a scalar. Each step combines the two halves of the remaining elements."""
        size = k.width
        while size > 1:
            size //= 2
            x = self.combined(k, x, k.shuffled(x, x, [(i + size) % k.width for i in range(k.width)]))
        first = {"static_position": ir.DenseI64ArrayAttr.get([0])}
        return k.emit("vector.extract", (x,), k.element_type, first)
