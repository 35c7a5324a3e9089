"""Rules of ops that move elements without changing them. They are linear; transposes consist of such ops and sums."""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from torch_mlir import ir

from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.shapes.origins import sizes_in
from tiduc.dialect.shapes.sizes import Extent, Size, known_equal, positive
from tiduc.dialect.shapes.types import dimensions_in, element, is_dynamic, predicate, rank, shape, with_shape
from tiduc.passes.rules.opset import linear, linearize, transpose
from tiduc.passes.rules.registry import Tangents


@linear("stablehlo.broadcast_in_dim", [0])
def broadcast_in_dim(b: StablehloBuilder, op: Definition, ct: Value) -> list[Value]:
    """Sums over the dimensions that are new or had size 1, then permutes the others to the operand's order."""
    x, dimensions = op.operands[0], op.attributes["broadcast_dimensions"]
    if is_dynamic(x.type):
        return [unbroadcast(b, ct, x, list(dimensions))]
    summed, sizes, order = _folded(x.type, ct.type, dimensions_in(dimensions))
    folded = b.reduce_sum(ct, summed)
    if order:
        folded = b.transpose(b.reshape(folded, sizes), order)  # drops the remaining dimensions of size 1
    return [b.reshape(folded, shape(x))]


@functools.cache
def _folded(
    x_type: ir.RankedTensorType, y_type: ir.RankedTensorType, dimensions: Sequence[int]
) -> tuple[tuple[int, ...], ...]:
    """Returns dimensions to sum over, sizes to reshape to, and a permutation (or ()) that transpose a broadcast."""
    sizes = sizes_in(y_type)
    kept = [d for n, d in zip(sizes_in(x_type), dimensions, strict=True) if sizes[d] == n]
    summed = [d for d, n in enumerate(sizes) if d not in kept and n != 1]
    order = [sorted(kept).index(d) for d in kept] if kept != sorted(kept) else []
    return tuple(summed), tuple([sizes[d] for d in sorted(kept)]), tuple(order)


def unbroadcast(
    b: StablehloBuilder,
    ct: Value,
    x: Value,
    dimensions: Sequence[int],
    still: Sequence[int] = (),
    more: Sequence[int] = (),
) -> Value:
    """Transposes a broadcast with dynamic dimensions: returns the cotangent of x.

    The dimensions `still` of x are known not to expand, and the dimensions `more` are known to expand. A dynamic
    dimension of n elements may be broadcast to m (n = 1) or not (n = m). In ct, it is reshaped to n and m / n, and
    summed over m / n.
    """
    own, sizes, along = shape(x), shape(ct), {d: i for i, d in enumerate(dimensions)}
    groups: list[Any] = []
    summed: list[int] = []
    placed: dict[int, int] = {}
    for d, m in enumerate(sizes):
        i, at = along.get(d), len(groups)
        if i is None or known_equal(own[i], 1) or i in more:
            groups.append(m)
            summed.append(at)
        elif i in still or known_equal(own[i], m) or not isinstance(own[i], Size):
            groups.append(m)
            placed[i] = at
        else:
            groups += own[i], m // own[i]
            summed.append(at + 1)
            placed[i] = at
    whole = b.reduce_sum(b.reshape(ct, groups), summed)
    kept = sorted(placed)
    return b.reshape(b.transpose(whole, np.argsort(np.argsort([placed[i] for i in kept]))), own)


@linearize("stablehlo.concatenate")
def concatenate(b: StablehloBuilder, op: Definition, dx: Tangents) -> tuple[Value, ...]:
    zeros = {i: b.zeros_like(x) for i, x in enumerate(op.operands) if dx[i] is None}
    return b.reapply(op, {i: zeros.get(i, tangent) for i, tangent in enumerate(dx)})


@transpose("stablehlo.concatenate")
def concatenate_transpose(
    b: StablehloBuilder, op: Definition, ct: Tangents, active: Sequence[bool]
) -> list[Value | None]:
    dimension = op.attributes["dimension"].value
    start = [0] * rank(ct[0])
    limit, strides = shape(ct[0]), [1] * rank(ct[0])
    parts = []
    for x, is_active in zip(op.operands, active, strict=True):
        limit[dimension] = start[dimension] + shape(x)[dimension]
        parts.append(b.slice(ct[0], start, limit, strides) if is_active else None)
        start[dimension] = limit[dimension]
    return parts


@linear("stablehlo.pad", [0, 1])
def pad(b: StablehloBuilder, op: Definition, ct: Value) -> list[Value]:
    names = "edge_padding_low", "edge_padding_high", "interior_padding"
    return unpadded(b, op, ct, *(list(op.attributes[name]) for name in names))


def unpadded(
    b: StablehloBuilder,
    op: Definition,
    ct: Value,
    low: Sequence[Extent],
    high: Sequence[int],
    interior: Sequence[int],
) -> list[Any]:
    """Transposes a pad: returns functions that emit the cotangents of the operand and of the padding value.

    Element k of the operand is at low + k (interior + 1). Every other element of the result is the padding value.
    """
    x, value = op.operands[:2]

    def of_operand() -> Value:
        cropped, start, steps = ct, low, [n + 1 for n in interior]
        if any(isinstance(n, Size) or n < 0 for n in (*low, *high)):  # elements that the pad drops get 0
            none = [0] * rank(ct)
            cropped = b.pad(ct, b.zeros_like(value), [-n for n in low], [-n for n in high], none)
            start = none
        return b.slice(cropped, start, _ends(start, shape(x), steps), steps)

    def of_value() -> Value:
        boolean = element(predicate(value.type))
        true, false = b.repeated(True, boolean, x), b.repeated(False, boolean, value)
        is_element = b.pad(true, false, low, high, interior)
        return b.reduce_sum(b.select(is_element, b.zeros_like(ct), ct), range(rank(ct)))

    return [of_operand, of_value]


def _ends(start: Sequence[Extent], counts: Sequence[Extent], steps: Sequence[Extent]) -> list[Extent]:
    """Returns the ends (exclusive) of a slice with these starts, element counts and strides, by dimension."""
    return [at + positive((n - 1) * by + 1) for at, n, by in zip(start, counts, steps, strict=True)]


@linear("stablehlo.reshape", [0])
def reshape(b: StablehloBuilder, op: Definition, ct: Value) -> list[Value]:
    return [b.reshape(ct, shape(op.operands[0]))]


@linear("stablehlo.reverse", [0])
def reverse(b: StablehloBuilder, op: Definition, ct: Value) -> list[Value]:
    return [b.reverse(ct, op.attributes["dimensions"])]


@linear("stablehlo.slice", [0])
def slice_(b: StablehloBuilder, op: Definition, ct: Value) -> list[Value]:
    start, strides = (list(op.attributes[name]) for name in ("start_indices", "strides"))
    return [unsliced(b, op.operands[0], ct, start, strides)]


def unsliced(
    b: StablehloBuilder, x: Value, ct: Value, start: Sequence[Extent], strides: Sequence[Extent]
) -> Value:
    """Transposes a slice: pads the cotangent by zeros before, between and after the elements of the slice."""
    after = [n - end for n, end in zip(shape(x), _ends(start, shape(ct), strides), strict=True)]
    return b.pad(ct, b.zero(with_shape(x.type, [])), start, after, [n - 1 for n in strides])


@linear("stablehlo.transpose", [0])
def transpose_(b: StablehloBuilder, op: Definition, ct: Value) -> list[Value]:
    return [b.transpose(ct, np.argsort(list(op.attributes["permutation"])))]
