"""Computes convolutions with groups, or with a single window, as products of slices, on targets other than CPUs.

    y[n, p, g, o] = sum_k sum_i x[n, p s + k d, g, i] w[k, i, g, o]

A place p is an index of the result y along its spatial dimensions, and k is such an index of the window. The window has
strides s and dilation d. The dimensions of x are (batch, places..., group, in), and those of the kernel w are
(window..., in, group, out).

For each k, a slice of x with strides s is multiplied by w[k], and the products are added. If the result has fewer
places than the window has elements, there is one product for each place p instead: a slice of x with strides d is
multiplied by w. The gradient of a depthwise convolution with respect to its kernel is such a case.
"""

import math
from collections.abc import Sequence

import numpy as np
from torch_mlir import ir

from tiduc.backends.iree.emit.arrays import part
from tiduc.backends.iree.emit.emitter import Emitter
from tiduc.backends.iree.emit.patches import zero
from tiduc.backends.iree.emit.refused import refused
from tiduc.dialect.facts.windows import Layout, Window, group_counts, window_of_convolution
from tiduc.dialect.ops.ir_types import Attributes, IrOp, IrValue
from tiduc.dialect.shapes.types import element, shape

_MOST = 256
"""The most products that replace a convolution: one for each element of the window, or for each place of the result."""


def has_one_place(op: IrOp) -> bool:
    """Whether the result of a convolution has spatial size 1, so that the kernel is applied to a single window."""
    return all(shape(op.results[0])[d] == 1 for d in Layout.of(op).output[2:])


def as_products(b: Emitter, op: IrOp) -> IrValue:
    """Computes a convolution as a sum or a concatenation of products. Returns the convolution's result.

    The convolution must have static shapes and no reversed window.
    Raises `Unsupported` if the convolution needs more than `_MOST` products.
    """
    layout, w = Layout.of(op), window_of_convolution(op)
    x, kernel = _image(b, op, layout, w), _kernel(b, op, layout)
    places = [shape(op.results[0])[d] for d in layout.output[2:]]
    if min(math.prod(w.sizes), math.prod(places)) > _MOST:
        groups, elements = max(group_counts(op)), math.prod(w.sizes)
        raise refused(
            op, f"code for GPUs does not support {groups} groups with windows of {elements} elements"
        )
    by_place = math.prod(places) < math.prod(w.sizes)
    y = (_place_by_place if by_place else _summed_over_window)(b, x, kernel, w, places, precision(op))
    batch, features, *spatial = layout.output
    y = b.reshape(y, [shape(x)[0], *places, shape(op.results[0])[features]])
    return b.transpose(y, np.argsort([batch, *spatial, features]))


def _image(b: Emitter, op: IrOp, layout: Layout, w: Window) -> IrValue:
    """Returns x as (batch, places..., group, in), padded, with the zeros of the base dilation between its elements."""
    batch, features, *spatial = layout.input
    of_features, of_batches = group_counts(op)
    x = b.transpose(_converted(b, op, 0), [batch, *spatial, features])
    pads = [[0, *ends, 0] for ends in (w.low, w.high, [base - 1 for base in w.base])]
    x = b.pad(x, zero(b, x), *pads) if any(map(any, pads)) else x
    n, *sizes, count = shape(x)
    if of_batches == 1:
        return b.reshape(x, [n, *sizes, of_features, count // of_features])
    x = b.reshape(x, [of_batches, n // of_batches, *sizes, count])
    return b.transpose(x, [*range(1, len(sizes) + 2), 0, len(sizes) + 2])


def _kernel(b: Emitter, op: IrOp, layout: Layout) -> IrValue:
    """Returns the kernel as (window..., in, group, out)."""
    each, results, *spatial = layout.kernel
    *sizes, features, count = shape(w := b.transpose(_converted(b, op, 1), [*spatial, each, results]))
    groups = max(group_counts(op))
    return b.reshape(w, [*sizes, features, groups, count // groups])


def _converted(b: Emitter, op: IrOp, number: int) -> IrValue:
    """Converts operand `number` to the result's element type, such as i8 to i32, because sums have this type."""
    return b.convert(op.operands[number], element(op.results[0]))


def precision(op: IrOp) -> dict[str, ir.Attribute]:
    """The precision of a convolution, as an attribute of the products that replace it."""
    return {name: op.attributes[name] for name in ("precision_config",) if name in op.attributes}


def _summed_over_window(
    b: Emitter, x: IrValue, kernel: IrValue, w: Window, places: Sequence[int], given: Attributes
) -> IrValue:
    """The result of a convolution, computed as the sum of one product for each element of the window.

    `places` has the spatial sizes of the result, whose shape is (batch, places..., group, out).
    """
    total = None
    for k in np.ndindex(*w.sizes):
        first = [i * d for i, d in zip(k, w.dilation, strict=True)]
        term = _product(b, _part(b, x, first, places, w.strides), at_offset(b, kernel, k), given)
        total = term if total is None else b.add(total, term)
    assert total is not None, "a window has an element"
    return total


def _product(b: Emitter, x: IrValue, kernel: IrValue, given: Attributes) -> IrValue:
    """Computes y[n, p, g, o] = sum_i x[n, p, g, i] kernel[i, g, o], where p stands for all places."""
    *outer, groups, features = shape(x)
    count, rank = shape(kernel)[-1], len(shape(x))
    if features == 1:
        x = b.broadcast_in_dim(b.reshape(x, [*outer, groups]), list(range(rank - 1)), [*outer, groups, count])
        factor = b.broadcast_in_dim(b.reshape(kernel, [groups, count]), [rank - 2, rank - 1], shape(x))
        return b.multiply(x, factor)
    y = b.dot_general(x, kernel, ((rank - 2,), (1,)), ((rank - 1,), (0,)), given)  # (g, n, p..., o)
    return b.transpose(y, [*range(1, rank - 1), 0, rank - 1])


def _place_by_place(
    b: Emitter, x: IrValue, kernel: IrValue, w: Window, places: Sequence[int], given: Attributes
) -> IrValue:
    """Computes y as (batch, place, group, out), with all places along one dimension.

    The products for the places, each over the whole window, are concatenated.
    """
    n, *_, groups, features = shape(x)
    rank, count = len(w.sizes), shape(kernel)[-1]
    parts = []
    for place in np.ndindex(*places):
        window = _part(b, x, [i * s for i, s in zip(place, w.strides, strict=True)], w.sizes, w.dilation)
        if n * count == 1:
            factor = b.transpose(
                b.reshape(kernel, [*w.sizes, features, groups]), [*range(rank), rank + 1, rank]
            )
            terms = b.multiply(b.reshape(window, shape(factor)), factor)
            y = b.reduce(terms, zero(b, terms), [*range(rank), rank + 1])
        else:
            summed = (*range(1, rank + 1), rank + 2), tuple(range(rank + 1))
            y = b.dot_general(window, kernel, ((rank + 1,), (rank + 1,)), summed, given)  # (g, n, o)
            y = b.transpose(y, [1, 0, 2])
        parts.append(b.reshape(y, [n, 1, groups, count]))
    return b.concatenate(parts, 1)


def _part(
    b: Emitter, x: IrValue, first: Sequence[int], sizes: Sequence[int], strides: Sequence[int]
) -> IrValue:
    """Slices x. The starts `first`, the sizes and the strides are given for the spatial dimensions only."""
    n, *_, groups, features = shape(x)
    return part(b, x, [0, *first, 0, 0], [n, *sizes, groups, features], [1, *strides, 1, 1])


def at_offset(b: Emitter, kernel: IrValue, k: Sequence[int]) -> IrValue:
    """Returns kernel[k], for an index k of the window, whose dimensions are the kernel's first ones."""
    rest = shape(kernel)[len(k) :]
    ends = [*(i + 1 for i in k), *rest]
    return b.reshape(b.slice(kernel, [*k, *[0] * len(rest)], ends, [1] * len(ends)), rest)
