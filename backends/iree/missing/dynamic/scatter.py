"""scatter of dynamic shapes, as a scatter of rows that drops updates out of range."""

from collections.abc import Sequence
from typing import Any

from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.backends.iree.emitter import DYNAMIC, Emitter, legalize, signless
from tiduc.backends.iree.fast.kernels import Kernel
from tiduc.backends.iree.fault import crash, wrong
from tiduc.backends.iree.faults.scatters import Places, in_parts
from tiduc.backends.iree.missing.dynamic.arrays import (
    computed,
    in_shape,
    inside,
    part,
    repeated,
    sizes_of,
    type_of,
    wide,
)
from tiduc.backends.iree.missing.dynamic.elements import starts
from tiduc.backends.iree.refused import refused
from tiduc.dialect.types import element


@legalize("stablehlo.scatter", where=DYNAMIC)
@crash(
    "Two scatters by the same reshaped 64-bit indices do not compile; computes 32-bit indices.",
    "dynamic/scatters_by_equal_indices",
)
@wrong(
    "Out-of-range updates write out of bounds, and windows do not compile; emits a scatter of rows.",
    "dynamic/scatter_rows",
    untested="writes out of bounds",
)
def scatter(b: Emitter, op: Any) -> Sequence[Any] | None:
    """A scatter of rows.

    The operand becomes an array of rows, as with static shapes; a row spans the trailing dimensions that
    windows are known to cover whole.
    """
    if len(op.results) > 1:
        raise refused(op, "its sizes are open, and its operands several")
    x, indices, updates = op.operands
    d = hlo.ScatterDimensionNumbers(op.attributes["scatter_dimension_numbers"])
    sizes, of_updates = sizes_of(b, x), sizes_of(b, updates)
    places = Places(d, sizes, of_updates)
    rows, width = places.count, places.width
    where = _rows(b, places, indices)
    news = in_shape(b, b.transpose(updates, places.order), [places.updates, width])
    table = in_shape(b, x, [rows, width])
    spare = repeated(b, b.constant(0, ir.RankedTensorType.get([], element(x))), [1, width])
    attributes = {"dimension": ir.IntegerAttr.get(signless(64), 0)}
    table = b.emit(
        "stablehlo.concatenate", (table, spare), type_of([rows + 1, width], element(x)), attributes
    )
    column = in_shape(b, where, [places.updates, 1])
    table = in_parts(b, op, table, column, news, places.updates, width)
    return [in_shape(b, part(b, table, [0, 0], [rows, width], [1, 1]), sizes)]


def _rows(b: Emitter, places: Places, indices: Any) -> Any:
    """The row of each update; one past the last row for updates out of range."""
    d, sizes, windowed = places.d, places.sizes[: places.split], places.windowed
    position = {j: n for n, j in enumerate(places.order[: len(places.leading)])}
    batching = dict(zip(d.input_batching_dims, d.scatter_indices_batching_dims, strict=True))

    def fill(k: Kernel, place: Sequence[Any], indices: Any) -> Any:
        batch = [place[n] for j, n in position.items() if j not in d.update_window_dims]
        entries = d.scattered_dims_to_operand_dims
        at = starts(k, indices, d.index_vector_dim, entries, batching, batch, len(sizes))
        row: Any = 0
        for i, n in enumerate(sizes):
            if i in windowed:
                at[i] += place[position[windowed[i]]]
            row = row * n + at[i]
        row, beyond = k.index(row), k.index(places.count)
        return k.cast(k.either(inside(k, at, sizes), row, beyond) if at else row, signless(32))

    return computed(b, places.leading, signless(32), [wide(b, indices)], fill)
