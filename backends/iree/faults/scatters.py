"""Rewrites scatters as scatters of rows, so that out-of-range updates have no effect."""

import math
from collections.abc import Sequence

from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.backends.iree.emit import arrays
from tiduc.backends.iree.emit.emitter import Emitter, legalize, signless
from tiduc.backends.iree.emit.gpu_scatters import adds_rows, with_rows_added
from tiduc.backends.iree.emit.known import constant_splat
from tiduc.backends.iree.emit.places import Places
from tiduc.backends.iree.emit.refused import refused
from tiduc.backends.iree.emit.sizes import RunTimeSize, SizeLike, are_known, known, smaller
from tiduc.backends.iree.fault import crash, missing, wrong
from tiduc.dialect.emitters.bodies import reducer
from tiduc.dialect.graph.matching import defined_by
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.ops.traits import COMMUTATIVE, NEUTRAL
from tiduc.dialect.shapes.types import element, i64, is_complex, is_empty, shape


@legalize("stablehlo.scatter")
@wrong(
    "Out-of-range updates write out of bounds; tiduc sends them to a spare row.",
    "scatter_out_of_range",
    untested="writes out of bounds",
    upstream="https://github.com/iree-org/iree/issues/13580",
)
@missing("Windows do not compile; tiduc scatters rows.", "scatter_window")
@missing("Several operands do not compile; tiduc loops over the elements.", "scatter_two_operands")
@wrong(
    "On GPUs, one thread applies all updates, and may end after 65,535; tiduc scatters many updates in parts.",
    "vulkan/counts",
)
@crash(
    "Two scatters by the same reshaped 64-bit indices do not compile; tiduc computes 32-bit indices.",
    "dynamic/scatters_by_equal_indices",
)
def scatter(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Rewrites a scatter as a scatter of rows.

    Each operand becomes an array of rows, and each update changes one row. A row consists of the trailing dimensions
    that every window covers completely. An out-of-range update writes to a spare row, which is dropped at the end. The
    spare row costs a copy of the array. On CPUs, a sum or product needs no spare row: see `_in_place`.
    """
    count = len(op.results)
    if count > 1 and arrays.has_dynamic_shape(op):
        raise refused(op, "it has several operands with dynamic shapes")
    operands, indices, updates = list(op.operands)[:count], op.operands[count], list(op.operands)[count + 1 :]
    if is_empty(updates[0]):
        return operands
    places = Places(b, op)
    where, news = places.rows(b, indices), places.updates_of(b, updates)
    rows, width = places.count, places.width
    neutral = _neutral(b, op, places)
    if neutral is not None:
        return [_in_place(b, op, places, where, news[0], neutral)]
    tables = [_with_spare_row(b, x, rows, width) for x in operands]
    if count > 1:
        tables = _one_by_one(b, op, tables, where, news)
    elif adds_rows(b, op, tables[0], places.updates):
        tables = [with_rows_added(b, tables[0], where, news[0])]
    else:
        tables = [in_parts(b, op, tables[0], where, news[0], places.updates, width)]
    kept = [arrays.part(b, t, [0, 0], [rows, width], [1, 1]) for t in tables]
    return [arrays.in_shape(b, t, places.sizes) for t in kept]


def _neutral(b: Emitter, op: IrOp, places: Places) -> float | None:
    """Returns the neutral element of the op by which a scatter combines elements.

    Returns None if `_in_place` must not be used, for example on GPUs, or if there are more updates than rows.
    """
    combines = reducer(op) if len(op.results) == 1 else None
    number = NEUTRAL.get(combines, math.inf) if combines in COMMUTATIVE else math.inf
    x, sizes = op.operands[0], (places.count, places.width, places.updates)
    if not b.cpu or math.isinf(number) or not are_known(sizes):
        return None
    rows, width, updates = sizes
    return number if not is_complex(x) and width and 0 < updates <= rows else None


def _in_place(b: Emitter, op: IrOp, places: Places, where: IrValue, new: IrValue, neutral: float) -> IrValue:
    """Scatters rows without a spare row: an out-of-range update combines the first row with the neutral element."""
    count, width = known(places.count), known(places.width)
    rows = b.reshape(op.operands[0], [count, width])
    inside = b.compare(where, b.constant(count, where), "LT")
    where = b.select(inside, where, b.constant(0, where))
    new = b.select(b.broadcast_in_dim(inside, [0, 1], shape(new)), new, b.constant(neutral, new))
    return b.reshape(scattered(b, op, rows, where, new), shape(op.operands[0]))


def _with_spare_row(b: Emitter, x: IrValue, rows: int | RunTimeSize, width: SizeLike) -> IrValue:
    """Returns x as a matrix of `rows` rows, followed by a spare row for out-of-range updates.

    If x is filled with one constant, the matrix is a splat constant, with which IREE fills an array at run time. IREE
    would compute a concatenation of constants at compile time, and store the result in the module.
    """
    repeated = defined_by(x, "stablehlo.broadcast_in_dim")
    equal = None if is_complex(x) else constant_splat(repeated.operands[0] if repeated else x)
    type_ = arrays.type_of([rows + 1, width], element(x))
    if equal is not None:
        value = ir.DenseElementsAttr.get_splat(type_, equal)
        return b.emit("stablehlo.constant", (), type_, {"value": value})
    zero = b.constant(0, ir.RankedTensorType.get([], element(x)))
    parts = arrays.in_shape(b, x, [rows, width]), arrays.repeated(b, zero, [1, width])
    return b.emit("stablehlo.concatenate", parts, type_, {"dimension": i64(0)})


STEPS = 2**15
"""The most updates that one scatter applies on a GPU, in one thread. Mesa's software device ends loops after 65,535."""


def in_parts(
    b: Emitter, op: IrOp, table: IrValue, where: IrValue, news: IrValue, count: SizeLike, width: SizeLike
) -> IrValue:
    """Scatters `count` rows, and returns the updated matrix.

    On GPUs, emits a loop over parts of at most `STEPS` rows, unless all rows are known to fit into one part.
    """
    if b.cpu or isinstance(count, int) and count <= STEPS:
        return scattered(b, op, table, where, news)
    end, step = arrays.scalar_of(b, count), arrays.scalar_of(b, STEPS)

    def body(b: Emitter, start: IrValue, table: IrValue) -> Sequence[IrValue]:
        first = arrays.number(b, start)
        size = smaller(STEPS, count - first)
        indices, rows = (
            arrays.part(b, x, [first, 0], [size, n], [1, 1]) for x, n in ((where, 1), (news, width))
        )
        return [b.add(start, step), scattered(b, op, table, indices, rows)]

    zero = arrays.scalar_of(b, 0)
    return b.while_([zero, table], lambda b, start, _: b.compare(start, end, "LT"), body)[1]


def scattered(b: Emitter, op: IrOp, table: IrValue, where: IrValue, new: IrValue) -> IrValue:
    """Emits a scatter of rows, with the body of `op`, in the form that IREE supports. Returns the updated matrix."""
    numbers = hlo.ScatterDimensionNumbers.get([1], [0], [], [], [0], 1)
    # Out-of-range updates now have one common index, so the indices may be neither sorted nor unique.
    unordered = {name: ir.BoolAttr.get(False) for name in ("indices_are_sorted", "unique_indices")}
    if list(new.type.shape) == [1, 1]:
        (new,) = b.barrier(new)  # a single element does not compile without the barrier
    given = {"scatter_dimension_numbers": numbers, **unordered}
    return b.clone(op, {0: table, 1: where, 2: new}, [table.type], given)[0]


def _one_by_one(
    b: Emitter, op: IrOp, tables: list[IrValue], where: IrValue, news: list[IrValue]
) -> list[IrValue]:
    """Scatters rows into several operands, by a loop over the elements of the updates. Returns the updated matrices."""
    count, width = shape(news[0])

    def body(b: Emitter, i: IrValue, *tables: IrValue) -> Sequence[IrValue]:
        k, j, zero = b.divide(i, width), b.remainder(i, width), b.constant(0, i)
        row = b.convert(b.reshape(b.dynamic_slice(where, (k, zero), [1, 1]), []), element(i))
        old = [b.reshape(b.dynamic_slice(t, (row, j), [1, 1]), []) for t in tables]
        new = [b.reshape(b.dynamic_slice(u, (k, j), [1, 1]), []) for u in news]
        combined = b.inlined(op.regions[0], [*old, *new])
        pairs = zip(tables, combined, strict=True)
        return [b.add(i, 1), *(b.dynamic_update_slice(t, b.reshape(v, [1, 1]), (row, j)) for t, v in pairs)]

    start = b.constant(0, ir.RankedTensorType.get([], signless(32)))
    return list(b.while_([start, *tables], lambda b, i, *_: b.compare(i, count * width, "LT"), body)[1:])
