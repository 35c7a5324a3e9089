"""Patterns for select_and_scatter, reduce, reduce_window, reverse and pad."""

import math
from collections.abc import Sequence

import numpy as np
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.backends.iree.emit.arrays import behind_barrier, has_dynamic_shape, mapped
from tiduc.backends.iree.emit.emitter import Emitter, is_unsigned, legalize, signless
from tiduc.backends.iree.emit.refused import refused
from tiduc.backends.iree.emit.staged_reductions import in_stages
from tiduc.backends.iree.emit.windows import MOST_TERMS, spread_windows
from tiduc.backends.iree.fault import crash, wrong
from tiduc.dialect.emitters.bodies import IrEmitter, reducer
from tiduc.dialect.emitters.windows import reduce_window as windows_over
from tiduc.dialect.facts.windows import Layout, dilated, padding, window_of, window_of_convolution
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.shapes.types import element, is_complex, is_dynamic, shape, with_element, with_shape
from tiduc.passes.rules.selection import selected


@legalize("stablehlo.select_and_scatter")
@crash(
    "Only adjacent windows compile, and ties give wrong values; tiduc finds the selected indices, then scatters.",
    "select_and_scatter",
    upstream="https://github.com/iree-org/iree/issues/10841",
)
def select_and_scatter(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Finds the index of the element that each window selects, then scatters the source to these indices.

    A reduce_window finds the indices. For additions in small windows on GPUs, `spread_windows` replaces the scatter. If
    the operand or the source is empty, the result has only initial values. Raises `Unsupported` for dynamic shapes.
    """
    x, source, init = op.operands
    if is_dynamic(x.type) or is_dynamic(source.type):
        raise refused(op, "its shapes are dynamic")
    sizes, count = shape(x), int(np.prod(shape(x), dtype=np.int64))
    if not np.prod(shape(source)) or not count:
        return [b.broadcast_in_dim(init, [], x.type)]

    def prefers(body: IrEmitter, u: IrValue, v: IrValue) -> IrValue:
        return mapped(b, op.regions[0], [u, v]) if body is b else body.inlined(op.regions[0], [u, v])[0]

    window = window_of(op)
    _, chosen = selected(b, x, b.constant(0, with_shape(x.type, [])), window, prefers)
    if not b.cpu and reducer(op, region=1) == "stablehlo.add" and math.prod(window.sizes) <= MOST_TERMS:
        return [b.add(b.broadcast_in_dim(init, [], x.type), spread_windows(b, source, chosen, window, sizes))]
    flat = int(np.prod(shape(source)))
    numbers = hlo.ScatterDimensionNumbers.get([], [0], [], [], [0], 1)
    start = b.broadcast_in_dim(init, [], with_shape(x.type, [count]))
    operands = start, b.reshape(chosen, [flat, 1]), b.reshape(source, [flat])
    attributes = {"scatter_dimension_numbers": numbers}
    (y,) = b.emit_all(
        "stablehlo.scatter", operands, (start.type,), attributes, [b.copied_region(op.regions[1])]
    )
    return [b.reshape(y, sizes)]


@legalize("stablehlo.reduce")
@wrong(
    "On GPUs, IREE reduces complex numbers or several arrays in one thread, which may end early; tiduc uses stages.",
    "vulkan/greatest",
)
def reduce(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """On GPUs, reduces in stages (staged_reductions.py). Returns None on CPUs.

    On GPUs, a reduction of dynamic shape is kept, and a barrier follows it, because IREE does not compile it together
    with broadcasts of its result.
    """
    if b.cpu:
        return None
    if not has_dynamic_shape(op):
        return in_stages(b, op)
    return behind_barrier(b, *b.clone(op, {}))


@legalize("stablehlo.reduce_window")
@crash("Padded windows of unsigned and complex types do not compile; tiduc pads first.", "cumsum_unsigned")
@crash(
    "If there is one window, and it does not reach all elements, the op does not compile; tiduc slices the rest off.",
    "reduce_window_excess",
)
@crash(
    "In windows over empty arrays, results get other results' initial values; tiduc emits the initial values.",
    "windows_over_nothing",
)
def reduce_window(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Rewrites the op in the cases that the decorators above describe. Otherwise returns None.

    First removes elements that no window reads, in place (`drop_excess`). Pads with initial values, because in
    StableHLO a window may combine any number of initial values with its elements.
    """
    count = len(op.results)
    if 0 in shape(op.operands[0]) and not any(is_dynamic(y.type) for y in op.results):
        pairs = zip(list(op.operands)[count:], op.results, strict=True)
        return [b.broadcast_in_dim(init, [], y.type) for init, y in pairs]
    drop_excess(b, op)
    xs, inits = list(op.operands)[:count], list(op.operands)[count:]
    window = window_of(op)
    sizes = zip(window.sizes, shape(xs[0]), window.low, window.high, strict=True)
    # IREE treats a window of the array's size as a cumulative sum, even if there is padding after it.
    is_cut_off = xs[0].type.has_static_shape and any(
        size == n == low + 1 and high for size, n, low, high in sizes
    )
    if not is_cut_off and not any(is_unsigned(x) or is_complex(x) for x in xs):
        return None
    if window == window.unpadded():
        return None
    interior = [n - 1 for n in window.base]
    padded = [b.pad(x, init, window.low, window.high, interior) for x, init in zip(xs, inits, strict=True)]
    return windows_over(b, padded, inits, window.unpadded(), b.copied_region(op.regions[0]))


def drop_excess(b: Emitter, op: IrOp) -> None:
    """If there is a single window along a dimension, removes elements that it does not read from the operands.

    Changes the convolution or reduce_window `op` in place. Does nothing for dynamic shapes.

        10 elements, one window of 7 at a stride of 4    ->    7 elements, one window of 7
    """
    if has_dynamic_shape(op):
        return
    if op.name == "stablehlo.convolution":
        window, layout, count = window_of_convolution(op), Layout.of(op), 1
        pairs = list(zip(layout.input[2:], layout.output[2:], strict=True))
    else:
        window, count = window_of(op), len(op.results)
        pairs = [(d, d) for d in range(len(window.sizes))]
    sizes, places = shape(op.operands[0]), shape(op.results[0])
    ends, high = list(sizes), list(window.high)
    for k, (d, place) in enumerate(pairs):
        covered, base = window.extent[k] - window.low[k], window.base[k]
        if places[place] == 1 and dilated(sizes[d], base) + high[k] > covered > 0:
            ends[d] = min(sizes[d], (covered - 1) // base + 1)
            high[k] = covered - dilated(ends[d], base)
    if ends != sizes:
        for i in range(count):
            op.operands[i] = b.slice(op.operands[i], [0] * len(sizes), ends, [1] * len(sizes))
    if high != list(window.high):
        op.attributes["padding"] = padding(window.low, high)


@legalize("stablehlo.reverse")
@crash(
    "The op does not compile for unsigned integers; tiduc reverses them as signed integers.",
    "reverse_unsigned",
)
def reverse(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Reverses an array of unsigned integers as signed integers. Returns None for other element types."""
    return _as_signed(b, op)


@legalize("stablehlo.pad")
@crash(
    "The op does not compile for complex and unsigned types; tiduc pads the parts, or the bits as signed integers.",
    "pad_c128",
)
@crash(
    "The op does not compile for a single element that is part of an array; a barrier hides the element.",
    "pad_one_element",
)
@wrong(
    "IREE confuses two one-element arrays if both have padding between elements; tiduc omits this padding.",
    "pad_between_parts",
)
def pad(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Pads the parts of complex arrays separately, and unsigned integers as signed integers.

    Returns a single element unchanged if it has padding only between elements. If it has other padding, and several
    dimensions, a barrier separates the pad from the op that computes the element. Returns None if the pad stays.
    """
    x, value = op.operands
    ends = [*op.attributes["edge_padding_low"], *op.attributes["edge_padding_high"]]
    if set(x.type.shape) == {1} and not any(ends):  # the pad adds nothing, because there is only one element
        return [x]
    if len(x.type.shape) > 1 and set(x.type.shape) == {1}:
        op.operands[0] = x = b.barrier(x)[0]
    if is_complex(x):
        type_ = with_element(op.results[0].type, element(x).element_type)
        parts = [b.clone(op, {0: part(x), 1: part(value)}, [type_])[0] for part in (b.real, b.imag)]
        return [b.complex(*parts)]
    return _as_signed(b, op)


def _as_signed(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """If an op on unsigned integers only moves them, computes it on signed integers with the same bits.

    Returns None for other element types.
    """
    y = op.results[0]
    if not is_unsigned(y):
        return None
    plain = signless(element(y).width)
    signed = {i: b.bitcast(x, plain) for i, x in enumerate(op.operands)}
    return [b.bitcast(b.clone(op, signed, [with_element(y.type, plain)])[0], element(y))]
