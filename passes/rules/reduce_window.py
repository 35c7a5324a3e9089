"""reduce_window: has rules for bodies that compute a sum or an extremum, or select an element. Any other body is
applied to whole tensors, which hold the results for windows of doubling size.

An initial value enters each window once, and once more for each padding element in the window.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, Never

import numpy as np

from tiduc.dialect.emitters.associative import over_windows
from tiduc.dialect.emitters.bodies import reducer
from tiduc.dialect.emitters.protocol import V
from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.emitters.stablehlo_ops import StablehloOps, combiner
from tiduc.dialect.emitters.windows import reduce_window
from tiduc.dialect.facts.windows import Window, window_of
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.shapes.types import element, is_empty, rank, shape, with_shape
from tiduc.passes.rules.opset import linearize, transpose
from tiduc.passes.rules.reduction import linearize_by_body, transpose_of_sums
from tiduc.passes.rules.registry import Tangents
from tiduc.passes.rules.selection import (
    EXTREMA,
    is_identity,
    none,
    numbers,
    repeated,
    selected,
    selected_by,
    take_elements,
)
from tiduc.passes.rules.tensor_body import of_tensors


@linearize("stablehlo.reduce_window")
def reduce_window_linearize(b: StablehloBuilder, op: Definition, dx: Tangents) -> list[Value]:
    return linearize_by_body(
        b, op, dx, total=_sum, extremum=_extremum, chosen=_selected, whole=partial(_doubling, b, op)
    )


def _doubling(b: StablehloBuilder, op: Definition, *operands: Value) -> Sequence[Value]:
    """Combines windows of doubling size by the body, applied to whole tensors.

    No division is needed, so the derivative of a product is exact even where factors are zero.
    """
    count = len(operands) // 2
    names = [reducer(op, i) for i in range(count)]
    neutral = all(
        name == "stablehlo.multiply" and is_identity(init, name)
        for name, init in zip(names, operands[count:], strict=True)
    )

    def combine(x: Sequence[Value], y: Sequence[Value]) -> Sequence[Value]:
        return of_tensors(b, op, [*x, *y])

    return over_windows(b, combine, operands[:count], operands[count:], window_of(op), neutral)


def _sum(b: StablehloBuilder, op: Definition, i: int, dx: Value | None, dinit: Value | None) -> Value:
    """Sums the tangents over the windows, because a sum is linear in its operand and its initial value together."""
    x, init = op.operands[i], op.operands[len(op.results) + i]
    tangents = [b.zeros_like(v) if dv is None else dv for v, dv in ((x, dx), (init, dinit))]
    fill = combiner("stablehlo.add", element(x))
    return reduce_window(b, tangents[:1], tangents[1:], window_of(op), fill)[0]


def _extremum(
    b: StablehloBuilder, op: Definition, i: int, name: str, dx: Value | None, dinit: Value | None
) -> Value:
    """The tangent of the element that attains the extremum: the first one in row-major order, if there are several.

    JAX does the same, because its window maximum transposes to a select_and_scatter. If an element and the initial
    value both attain the extremum, takes the tangent of the element.
    """
    x, init = op.operands[i], op.operands[len(op.results) + i]
    direction, window = EXTREMA[name], window_of(op)
    if dx is not None and window.tiles and is_identity(init, name):
        return _extremum_in_tiles(b, x, op.results[i], window, dx)

    def prefers(body: StablehloOps[V, Never], u: V, v: V) -> V:
        return body.compare(u, v, direction)

    value, at = selected(b, x, init, window, prefers)
    if is_identity(init, name):
        return _from(b, op, i, at, dx, dinit, holes=window.may_be_empty(shape(x)))
    attained = b.compare(value, repeated(b, init, value), direction)
    return _from(b, op, i, b.select(attained, at, repeated(b, none(b, x, at), at)), dx, dinit)


def _extremum_in_tiles(b: StablehloBuilder, x: Value, y: Value, window: Window, dx: Value) -> Value:
    """Like `_extremum`, for windows that tile x. Reshapes x so that windows have own dimensions, and selects by a mask.

    Compilers optimize a mask better than a gather and its transpose, a scatter.
    """
    tiles = [n for pair in zip(shape(y), window.sizes, strict=True) for n in pair]
    covered = [m * k for m, k in zip(shape(y), window.sizes, strict=True)]
    outer, inner = range(0, len(tiles), 2), range(1, len(tiles), 2)

    def tiled(v: Value) -> Value:
        bare = v if shape(v) == covered else b.slice(v, [0] * rank(v), covered, [1] * rank(v))
        return b.reshape(bare, tiles)

    tangent, number = tiled(dx), tiled(numbers(b, x))
    last = none(b, x, number)
    attains = b.compare(tiled(x), b.broadcast_in_dim(y, outer, tangent), "EQ")
    candidates = b.select(attains, number, repeated(b, last, number))
    first = b.reduce(candidates, last, inner, "stablehlo.minimum")
    mask = b.compare(number, b.broadcast_in_dim(first, outer, number), "EQ")
    return b.reduce_sum(b.select(mask, tangent, b.zeros_like(tangent)), inner)


def _selected(b: StablehloBuilder, op: Definition, i: int, dx: Value | None, dinit: Value | None) -> Value:
    return _from(b, op, i, selected_by(b, op, i), dx, dinit)


def _from(
    b: StablehloBuilder,
    op: Definition,
    i: int,
    at: Value,
    dx: Value | None,
    dinit: Value | None,
    holes: bool = True,
) -> Value:
    """The tangents of the elements with the numbers `at`, or (if `holes`) of the initial value where it is selected."""
    x, init = op.operands[i], op.operands[len(op.results) + i]
    otherwise = b.zeros_like(init) if dinit is None else dinit
    return take_elements(b, b.zeros_like(x) if dx is None else dx, at, otherwise if holes else None)


@transpose("stablehlo.reduce_window")
def reduce_window_transpose(
    b: StablehloBuilder, op: Definition, ct: Tangents, active: Sequence[bool]
) -> list[Any]:
    """Sums the cotangent over the adjoint window. Raises `Unsupported` unless the op computes sums."""
    window = window_of(op)

    def to_operand(i: int) -> Any:
        x = op.operands[i]
        if is_empty(x) or is_empty(ct[i]):
            return None
        back = window.adjoint(shape(x), shape(ct[i]))
        zero, fill = b.zero(with_shape(x.type, [])), combiner("stablehlo.add", element(x))
        if back.cumulative(shape(ct[i])) is not None:  # compilers recognize this op as a cumulative sum
            return reduce_window(b, [ct[i]], [zero], back, fill)[0]
        padded = b.pad(ct[i], zero, back.low, back.high, [s - 1 for s in back.base])
        return reduce_window(b, [padded], [zero], back.unpadded(), fill)[0]

    def to_init(i: int) -> Value:
        """Each result contains the initial value once, and once more for each padding element in its window."""
        held = window.elements(shape(op.operands[i]))
        times = b.constant(1 + np.prod(window.sizes) - held, op.results[i])
        return b.reduce_sum(b.multiply(times, ct[i]), range(rank(times)))

    return transpose_of_sums(op, ct, to_operand, to_init)
