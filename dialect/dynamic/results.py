"""Formulas for the sizes of results: those of `shapes/origins.py`, and further ones that only checks of sizes need.

The further formulas are those of windowed ops, broadcasting ops and a few others. `origins.py` omits them on purpose,
because derivative rules use `origins.py`, and should read the sizes of such results from the results themselves.
"""

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.ops.traits import BROADCASTING, TRAITS
from tiduc.dialect.shapes.origins import DYNAMIC, RULES, Origin, Rule, sizes_in
from tiduc.dialect.shapes.sizes import Size, atom, known_equal, positive

Dimension = tuple[Value, int]
"""A dimension: a value and the index of one of its dimensions."""


def rank_of(x: Value) -> int:
    """The number of dimensions of a ranked tensor."""
    return len(sizes_in(x.type))


def _bitcast(op: Definition, number: int, d: int) -> Origin | None:
    x, y = op.operands[0], op.result
    return Origin(((x, d),), lambda n: n) if d < min(rank_of(x), rank_of(y)) else None


def _top_k(op: Definition, number: int, d: int) -> Origin | None:
    return Origin(((op.operands[0], d),), lambda n: n) if d < rank_of(op.operands[0]) - 1 else None


def _fft(op: Definition, number: int, d: int) -> Origin | None:
    transformed = len(op.attributes["fft_length"])
    return Origin(((op.operands[0], d),), lambda n: n) if d < rank_of(op.result) - transformed else None


def _batch_norm(op: Definition, number: int, d: int) -> Origin:
    feature = op.attributes["feature_index"].value
    return Origin(((op.operands[0], feature if number else d),), lambda n: n)


def _broadcast(op: Definition, number: int, d: int) -> Origin:
    front = list(op.attributes["broadcast_sizes"])
    if d < len(front):
        return Origin((), lambda: front[d])
    return Origin(((op.operands[0], d - len(front)),), lambda n: n)


def windows(n: int | Size, size: int, stride: int, dilation: int, base: int, low: int, high: int) -> Any:
    """The number of windows along a dimension of n elements.

    `size`, `stride` and `dilation` describe the window; `base`, `low` and `high` are the base dilation and the paddings
    of the array.
    """
    padded = n + positive(n - 1) * (base - 1) + low + high
    return positive((padded - ((size - 1) * dilation + 1)) // stride + 1)


def _reduce_window(op: Definition, number: int, d: int) -> Origin:
    return Origin(((op.operands[number], d),), lambda n: windows(n, *window(op, d)))


def window(op: Definition, d: int) -> tuple[int, ...]:
    """An op's window along dimension d: its size, stride, dilation, base dilation, low padding and high padding."""
    names = "window_dimensions", "window_strides", "window_dilations", "base_dilations"
    numbers = [op.attributes[name][d] if name in op.attributes else 1 for name in names]
    return (*numbers, *_padding(op, d))


def _padding(op: Definition, d: int) -> tuple[int, int]:
    given = op.attributes["padding"] if "padding" in op.attributes else None
    if op.name == "stablehlo.dynamic_conv":
        maker = op.operands[2].definition
        given = maker.attributes["value"] if maker is not None else None
    if given is None:
        return 0, 0
    low, high = np.array(ir.DenseIntElementsAttr(given)).reshape(-1, 2)[d]
    return int(low), int(high)


def _convolution(op: Definition, number: int, d: int) -> Origin | None:
    x, kernel = op.operands[:2]
    n = hlo.ConvDimensionNumbers(op.attributes["dimension_numbers"])
    if d == n.output_feature_dimension:
        return Origin(((kernel, n.kernel_output_feature_dimension),), lambda n: n)
    if d == n.output_batch_dimension:
        groups = int(op.attributes["batch_group_count"].value)
        return Origin(((x, n.input_batch_dimension),), lambda n: n // groups)
    i = list(n.output_spatial_dimensions).index(d)
    names = "window_strides", "rhs_dilation", "lhs_dilation"
    stride, dilation, base = (op.attributes[m][i] if m in op.attributes else 1 for m in names)
    size = sizes_in(kernel.type)[n.kernel_spatial_dimensions[i]]
    padded_by = op.operands[2:]  # only `dynamic_conv` has a third operand: the paddings
    if size == DYNAMIC or any(
        p.definition is None or "value" not in p.definition.attributes for p in padded_by
    ):
        return None
    low, high = _padding(op, i)
    place = (x, n.input_spatial_dimensions[i])
    return Origin((place,), lambda n: windows(n, size, stride, dilation, base, low, high))


def _chlo_broadcast(op: Definition, number: int, d: int) -> Origin:
    places = tuple(place for to, place in aligned(op) if to == d)
    return Origin(places, lambda *sizes: functools.reduce(wider, sizes))


def aligned(op: Definition) -> Iterator[tuple[int, Dimension]]:
    """Yields pairs: a dimension of the result, and an operand's dimension that is broadcast to it."""
    rank = rank_of(op.result)
    for x in op.operands:
        along = list(range(rank - rank_of(x), rank))
        if "broadcast_dimensions" in op.attributes and rank_of(x) < rank:
            along = list(op.attributes["broadcast_dimensions"])
        yield from ((to, (x, i)) for i, to in enumerate(along))


def wider(a: int | Size, b: int | Size) -> int | Size:
    """The size of a dimension of the result if operand dimensions of sizes a and b are broadcast to each other."""
    if not isinstance(a, Size):
        return b if a == 1 else a
    if not isinstance(b, Size):
        return a if b == 1 else b
    return a if known_equal(a, b) else atom("broadcast", a.key, b.key)


ORIGINS: dict[str, Rule] = {
    **RULES,
    "stablehlo.batch_norm_grad": _batch_norm,
    "stablehlo.batch_norm_training": _batch_norm,
    "stablehlo.bitcast_convert": _bitcast,
    "stablehlo.broadcast": _broadcast,
    "stablehlo.convolution": _convolution,
    "stablehlo.dynamic_conv": _convolution,
    "stablehlo.fft": _fft,
    "stablehlo.reduce_window": _reduce_window,
    "chlo.top_k": _top_k,
    **dict.fromkeys(BROADCASTING, _chlo_broadcast),
}
"""Maps an op name to its formula for the sizes of results: a rule of `dialect/shapes/origins.py`, or one above."""

SIZES_IN = {name: row.sizes_in for name, row in TRAITS.items() if row.sizes_in}
"""Maps an op name to the indices of those operands that are vectors of sizes."""

PLACES_IN = frozenset(name for name in SIZES_IN if TRAITS[name].sizes == "formula")
"""Ops that slice, gather or pad an array, and whose operands give the sizes of the slices or of the paddings.

The values of these operands must be checked even if all shapes are static.
"""
