"""Ops that move or select elements of eager values, with NumPy's shapes and types."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.graph.graph import Value
from tiduc.dialect.shapes.types import is_complex, is_float
from tiduc.eager.elementwise import broadcast, converted
from tiduc.eager.record import EagerInput
from tiduc.eager.session import apply


def reshape(x: EagerInput, sizes: tuple[int, ...]) -> EagerInput:
    """x in the shape `sizes`. The elements keep their row-major order."""
    if x.data.shape == sizes:
        return x
    return apply(("reshape", sizes), lambda b, x: [b.reshape(x, sizes)], x)


def transpose(x: EagerInput, order: tuple[int, ...]) -> EagerInput:
    """x with its dimensions permuted: dimension i of the result is dimension `order[i]` of x."""
    if order == tuple(range(x.data.ndim)):
        return x
    return apply(("transpose", order), lambda b, x: [b.transpose(x, order)], x)


def broadcast_to(x: EagerInput, sizes: tuple[int, ...]) -> EagerInput:
    """`np.broadcast_to`. Raises `ValueError` if the shape of x does not broadcast to `sizes`."""
    if x.data.shape == sizes:
        return x
    if np.broadcast_shapes(x.data.shape, sizes) != sizes:
        raise ValueError(f"the shape {x.data.shape} does not broadcast to {sizes}")
    return apply(("broadcast", sizes), lambda b, x: [broadcast(b, x, sizes)], x)


def flip(x: EagerInput, axes: tuple[int, ...]) -> EagerInput:
    """`np.flip` along these axes."""
    return apply(("flip", axes), lambda b, x: [b.reverse(x, axes)], x)


def concatenate(parts: Sequence[EagerInput], axis: int) -> EagerInput:
    """`np.concatenate`. Raises `ValueError` if there are no parts, or if sizes differ along another axis."""
    if not parts:
        raise ValueError("concatenate needs at least one array")
    axis = normalize_axis_index(axis, parts[0].data.ndim)
    rest = {(*x.data.shape[:axis], *x.data.shape[axis + 1 :]) for x in parts}
    if len(rest) > 1 or len({x.data.ndim for x in parts}) > 1:
        raise ValueError(f"shapes {[x.data.shape for x in parts]} do not fit along axis {axis}")
    dtype = np.result_type(*[x.data.dtype for x in parts])

    def emit(b: StablehloBuilder, *parts: Value) -> list[Value]:
        return [b.concatenate([converted(b, x, dtype) for x in parts], axis)]

    return apply(("concatenate", axis, dtype), emit, *parts)


def select(condition: EagerInput, x: EagerInput, y: EagerInput, dtype: "np.dtype[Any]") -> EagerInput:
    """`np.where` with the result type `dtype`. Elements that are not selected have derivative zero, even NaN."""
    sizes = np.broadcast_shapes(condition.data.shape, x.data.shape, y.data.shape)

    def emit(b: StablehloBuilder, condition: Value, x: Value, y: Value) -> list[Value]:
        chosen = broadcast(b, converted(b, condition, np.dtype(bool)), sizes)
        return [b.select(chosen, *[broadcast(b, converted(b, v, dtype), sizes) for v in (x, y)])]

    return apply(("select", dtype), emit, condition, x, y)


def clip(x: EagerInput, low: EagerInput, high: EagerInput, dtype: "np.dtype[Any]") -> EagerInput:
    """`np.clip` with the result type `dtype`. Where x equals a bound, the derivative toward x is 1/2."""
    sizes = np.broadcast_shapes(x.data.shape, low.data.shape, high.data.shape)

    def emit(b: StablehloBuilder, *values: Value) -> list[Value]:
        x, low, high = (broadcast(b, converted(b, v, dtype), sizes) for v in values)
        return [b.clamp(low, x, high)]

    return apply(("clip", dtype), emit, x, low, high)


def part(x: EagerInput, name: str) -> EagerInput:
    """The real part of x if `name` is "real", or the imaginary part if it is "imag". For a real x: x, or zeros."""

    def emit(b: StablehloBuilder, x: Value) -> list[Value]:
        if is_complex(x) or is_float(x):
            return [getattr(b, name)(x)]
        return [x if name == "real" else b.zeros_like(x)]

    return apply((name,), emit, x)


def pad(x: EagerInput, widths: tuple[tuple[int, int], ...], value: EagerInput) -> EagerInput:
    """x padded with `value`. For each dimension, `widths` has the numbers of elements to add before and after x."""
    dtype = x.data.dtype
    low, high = zip(*widths, strict=True)

    def emit(b: StablehloBuilder, x: Value, value: Value) -> list[Value]:
        return [b.pad(x, converted(b, value, dtype), low, high, [0] * len(low))]

    return apply(("pad", widths), emit, x, value)


def joined(re: EagerInput, im: EagerInput) -> EagerInput:
    """The complex value with these real and imaginary parts."""
    return apply(("complex",), lambda b, re, im: [b.complex(re, im)], re, im)
