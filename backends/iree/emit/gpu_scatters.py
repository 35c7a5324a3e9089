"""gpu_scatters: on NVIDIA's GPUs, replaces scatters that add rows by a matrix product and parallel writes.

    E[k, j] = 1 if i[k] = i[j], else 0      i has the index of the row of t that each row of u updates
    s = E u                                 row k of s is the sum of all updates of row i[k]
    t[i] = t[i] + s

IREE applies updates one after the other, because several updates may change one row. Here, all updates of a row write
equal numbers, so all rows can be written at once. On an H200, a scatter of 128 rows of 768 elements takes 0.1 ms
instead of 4 ms.

An infinity or NaN in one row would make the product NaN in all rows. Therefore u gets 0 in place of infinities and NaN.
Additional columns of u mark these elements, and the marked infinities and NaN are added to s afterwards.
"""

import numpy as np
from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.backends.iree.emit.emitter import Emitter
from tiduc.backends.iree.emit.sizes import SizeLike
from tiduc.dialect.emitters.bodies import reducer
from tiduc.dialect.emitters.stablehlo_ops import combiner
from tiduc.dialect.graph.matching import defined_by
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.shapes.types import element, shape

_FEWEST = 8
"""The fewest updates of a scatter that is rewritten. IREE needs 30 microseconds for an update, and 10 for a kernel."""
_MOST = 2**13
"""The most updates of a scatter that is rewritten. The matrix for n updates has n² elements: 256 MiB of f32."""


def adds_rows(b: Emitter, op: IrOp, table: IrValue, updates: SizeLike) -> bool:
    """Whether `with_rows_added` should replace a scatter: one on CUDA that adds floats to a table of static shape.

    `table` is the operand of the scatter. `updates` is the number of updates, which must be from `_FEWEST` to `_MOST`.
    """
    kinds = ir.F32Type | ir.F64Type | ir.F16Type | ir.BF16Type
    if not (b.settings.cuda and b.settings.fast) or reducer(op) != "stablehlo.add":
        return False
    if not isinstance(updates, int) or not table.type.has_static_shape:
        return False
    return isinstance(element(table), kinds) and _FEWEST <= updates <= _MOST


def with_rows_added(b: Emitter, table: IrValue, where: IrValue, new: IrValue) -> IrValue:
    """Adds row k of `new` to row `where[k, 0]` of the table, for all k. Returns the new table."""
    kind, constant = element(table), defined_by(table, "stablehlo.constant")
    sums = b.convert(_sums_of_rows(b, where, new), kind)
    if constant is None:
        numbers = hlo.GatherDimensionNumbers.get([1], [0], [], [], [0], 1)
        old = b.gather(table, where, numbers, [1, shape(table)[1]], sums.type)
    else:
        equal = ir.DenseElementsAttr.get_splat(sums.type, constant.attributes["value"].get_splat_value())
        old = b.emit("stablehlo.constant", (), sums.type, {"value": equal})
    attributes = {
        "scatter_dimension_numbers": hlo.ScatterDimensionNumbers.get([1], [0], [], [], [0], 1),
        "indices_are_sorted": ir.BoolAttr.get(False),
        "unique_indices": ir.BoolAttr.get(True),  # an index may repeat, but its updates are then equal
    }
    operands, write = (table, where, b.add(old, sums)), combiner(None, kind)
    return b.emit_all("stablehlo.scatter", operands, [table.type], attributes, [write])[0]


def _sums_of_rows(b: Emitter, where: IrValue, new: IrValue) -> IrValue:
    """For each k, the sum of the rows j of `new` with where[j] = where[k]. The sums are f64 for f64, else f32."""
    wide = ir.F64Type.get() if isinstance(element(new), ir.F64Type) else ir.F32Type.get()
    count, width = shape(new)
    new, column = b.convert(new, wide), b.reshape(where, [count])
    rows, columns = (b.broadcast_in_dim(column, [d], [count, count]) for d in (0, 1))
    equal = b.convert(b.compare(rows, columns, "EQ"), wide)
    infinities = [b.compare(new, limit, "EQ") for limit in (np.inf, -np.inf)]
    is_nan = b.compare(new, new, "NE")
    special = [b.or_(is_nan, x) for x in infinities]
    finite = b.select(b.or_(*special), b.constant(0, new), new)
    terms = b.concatenate([finite, *(b.convert(x, wide) for x in special)], 1)
    sums = b.dot_general(equal, terms, ((), ()), ((1,), (0,)), {})
    total, *counts = (b.slice(sums, [0, i * width], [count, (i + 1) * width], [1, 1]) for i in range(3))
    positive, negative = (b.compare(x, 0, "GT") for x in counts)
    total = b.select(positive, b.add(total, np.inf), total)
    return b.select(negative, b.add(total, -np.inf), total)
