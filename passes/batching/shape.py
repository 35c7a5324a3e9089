"""Batching rules of ops that move elements. Dimension numbers grow by one, because the batch dimension comes first."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch_mlir import ir

from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.shapes.types import dims, element, rank, shape, with_element, with_shape
from tiduc.passes.batching.registry import Unbatched, along, emit_batched, results_of, spread, spread_all
from tiduc.passes.batching.table import batch, leading

leading("stablehlo.reshape")


def later(attribute: ir.DenseI64ArrayAttr) -> ir.DenseI64ArrayAttr:
    """Adds one to each dimension number, because the batch dimension is inserted in front."""
    return dims([d + 1 for d in attribute])


def longer(attribute: ir.DenseI64ArrayAttr, first: int) -> ir.DenseI64ArrayAttr:
    """Prepends `first`, the entry for the batch dimension, to an attribute with one entry per dimension."""
    return dims([first, *attribute])


def next_(attribute: ir.IntegerAttr) -> ir.IntegerAttr:
    """Adds one to a dimension number, because the batch dimension is inserted in front."""
    return ir.IntegerAttr.get(attribute.type, attribute.value + 1)


@batch("stablehlo.broadcast_in_dim")
def broadcast_in_dim(
    b: StablehloBuilder, op: Definition, x: Sequence[Value], at: Sequence[bool]
) -> Sequence[Value]:
    places = longer(later(op.attributes["broadcast_dimensions"]), 0)
    return emit_batched(b, op, x, broadcast_dimensions=places)


@batch("stablehlo.broadcast")
def broadcast(b: StablehloBuilder, op: Definition, x: Sequence[Value], at: Sequence[bool]) -> Sequence[Value]:
    """Emits broadcast_in_dim, because broadcast would insert its new dimensions in front of the batch dimension."""
    count = len(op.attributes["broadcast_sizes"])
    places = [0, *(1 + count + d for d in range(rank(op.operands[0])))]
    return [b.broadcast_in_dim(x[0], places, results_of(b, op)[0])]


@batch("stablehlo.concatenate")
def concatenate(
    b: StablehloBuilder, op: Definition, x: Sequence[Value], at: Sequence[bool]
) -> Sequence[Value]:
    return emit_batched(b, op, spread_all(b, x, at), dimension=next_(op.attributes["dimension"]))


@batch("stablehlo.get_dimension_size")
def get_dimension_size(
    b: StablehloBuilder, op: Definition, x: Sequence[Value], at: Sequence[bool]
) -> Sequence[Any]:
    changed = next_(op.attributes["dimension"])
    return [Unbatched(emit_batched(b, op, x, [op.result.type], dimension=changed)[0])]


@batch("stablehlo.pad")
def pad(b: StablehloBuilder, op: Definition, x: Sequence[Value], at: Sequence[bool]) -> Sequence[Value]:
    """Pads each example. A batched padding value is selected where a mask, which is padded likewise, is false."""
    names = "edge_padding_low", "edge_padding_high", "interior_padding"
    changed = {name: longer(op.attributes[name], 0) for name in names}
    operand, value = x if at[0] else (spread(b, x[0]), x[1])
    if not at[1]:
        return emit_batched(b, op, [operand, value], None, **changed)
    inner = op.operands[0].type
    boolean = with_element(inner, ir.IntegerType.get_signless(1))
    numbers = [list(op.attributes[name]) for name in names]
    inside = b.pad(b.constant(1, boolean), b.constant(0, with_shape(boolean, [])), *numbers)
    (padded,) = emit_batched(b, op, [operand, b.constant(0, with_shape(inner, []))], None, **changed)
    return [b.select(spread(b, inside), padded, along(b, value, padded))]


@batch("stablehlo.reverse")
def reverse(b: StablehloBuilder, op: Definition, x: Sequence[Value], at: Sequence[bool]) -> Sequence[Value]:
    return emit_batched(b, op, x, dimensions=later(op.attributes["dimensions"]))


@batch("stablehlo.slice")
def slice_(b: StablehloBuilder, op: Definition, x: Sequence[Value], at: Sequence[bool]) -> Sequence[Value]:
    start, limit, strides = (op.attributes[name] for name in ("start_indices", "limit_indices", "strides"))
    changed = {
        "start_indices": longer(start, 0),
        "limit_indices": longer(limit, b.engine.size),
        "strides": longer(strides, 1),
    }
    return emit_batched(b, op, x, None, **changed)


@batch("stablehlo.transpose")
def transpose(b: StablehloBuilder, op: Definition, x: Sequence[Value], at: Sequence[bool]) -> Sequence[Value]:
    return emit_batched(b, op, x, permutation=longer(later(op.attributes["permutation"]), 0))


# ---- these functions merge the batch dimension into another dimension, and split them again ----------------


def merged(b: StablehloBuilder, x: Value, d: int, groups: int = 1) -> Value:
    """Merges the batch dimension into dimension d: [k, ..., g m, ...] becomes [..., g k m, ...].

    Dimension d consists of g = `groups` groups of m elements. In the result, each group has the m elements of the first
    example, then those of the second, and so on.
    """
    k, *sizes = shape(x)
    return _regrouped(b, x, [k, *sizes[:d], groups, sizes[d] // groups, *sizes[d + 1 :]], 0, d + 1, d)


def split_dimension(b: StablehloBuilder, y: Value, d: int, groups: int) -> Value:
    """The inverse of `merged`: [..., g k m, ...] becomes [k, ..., g m, ...]."""
    k, sizes = b.engine.size, shape(y)
    split = [*sizes[:d], groups, k, sizes[d] // (groups * k), *sizes[d + 1 :]]
    return _regrouped(b, y, split, d + 1, 0, d + 1)


def _regrouped(b: StablehloBuilder, x: Value, sizes: list[int], source: int, target: int, d: int) -> Value:
    """Reshapes x to `sizes`, moves dimension `source` to `target`, and then merges dimensions d, d + 1 and d + 2.

    If `target` is 0, merges only dimensions d and d + 1.
    """
    x = b.transpose(b.reshape(x, sizes), np.insert(np.delete(np.arange(len(sizes)), source), target, source))
    parts = 3 if target else 2
    sizes = shape(x)
    return b.reshape(x, [*sizes[:d], int(np.prod(sizes[d : d + parts])), *sizes[d + parts :]])


def moved_first(b: StablehloBuilder, y: Value, d: int) -> Value:
    """Transposes y such that dimension d comes first."""
    return b.transpose(y, [d, *(i for i in range(rank(y)) if i != d)])


def type_of(like: Value, sizes: Sequence[int]) -> ir.RankedTensorType:
    """A tensor type of these sizes, with the element type of `like`."""
    return ir.RankedTensorType.get(list(sizes), element(like))
