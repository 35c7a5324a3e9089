"""Jacobi's rotations of two rows of a matrix in a kernel, by the formulas of jacobi.py."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tiduc.backends.iree.fast.kernels import Kernel
from tiduc.backends.iree.linear_algebra.lines import (
    Layout,
    Number,
    conjugate,
    each,
    less_product,
    negated,
    times,
)

_CACHED = 16  # f32 numbers in a cache line


def width_of(columns: int) -> int:
    """The width of padded rows: an odd number of cache lines, so that no column is in a few cache sets."""
    return -(-columns // _CACHED) // 2 * 2 * _CACHED + _CACHED


@dataclass(frozen=True)
class Rotation:
    """Rows p and q become x_p + (sine x_q - less x_p) and x_q - (conj(sine) x_p + less x_q)."""

    less: Any
    sine: Number
    change: Any  # what the diagonal's entry p gains, and entry q loses


def rotation(k: Kernel, entries: Sequence[Any], coupling: Number, size: Any) -> Rotation:
    """The rotation by the smaller angle that makes a coupling zero, whose size is given and not zero."""
    one, zero = k.one(size.type), k.zero(size.type)
    ratio = k.arith("divf", k.arith("subf", entries[1], entries[0]), k.arith("addf", size, size))
    length = root(k, k.arith("addf", one, k.arith("mulf", ratio, ratio)))
    length = k.arith("addf", k.emit("math.absf", (ratio,), ratio.type), length)
    sign = k.either(k.not_below(ratio, zero), one, k.emit("arith.negf", (one,), one.type))
    tangent = k.arith("divf", sign, length)
    cosine = k.arith("divf", one, root(k, k.arith("addf", one, k.arith("mulf", tangent, tangent))))
    sine = k.arith("mulf", tangent, cosine)
    less = k.arith("divf", k.arith("mulf", sine, sine), k.arith("addf", one, cosine))
    phase = [k.arith("divf", part, size) for part in coupling]
    change = k.emit("arith.negf", (k.arith("mulf", tangent, size),), size.type)
    return Rotation(less, negated(k, tuple(k.arith("mulf", sine, part) for part in phase)), change)


def turned(
    k: Kernel, x: Any, of: Layout, place: Sequence[Any], columns: int, turn: Rotation, fused: bool
) -> Any:
    """The line with two rows of a matrix rotated, in `columns` columns; `place` is a batch and both rows."""
    batch, p, q = place
    back = negated(k, conjugate(k, turn.sine))

    def entry(k: Kernel, c: Any, x: Any) -> Sequence[Any]:
        x_p, x_q = (of.read(k, x, (batch, i, c)) for i in (p, q))
        x = of.write(k, _sum(k, x_p, times(k, turn.sine, x_q), turn.less, fused), x, (batch, p, c))
        return [of.write(k, _sum(k, x_q, times(k, back, x_p), turn.less, fused), x, (batch, q, c))]

    return each(k, 0, columns, [x], entry)[0]


def _sum(k: Kernel, x: Number, more: Number, less: Any, fused: bool) -> Number:
    """x + (more - less x), for a real `less`; in this order small angles, the most frequent ones, round less."""
    changes = [
        less_product(k, (change,), (less,), (part,), fused)[0] for change, part in zip(more, x, strict=True)
    ]
    return tuple(k.arith("addf", part, change) for part, change in zip(x, changes, strict=True))


def root(k: Kernel, x: Any) -> Any:
    """The square root of a real number."""
    return k.emit("math.sqrt", (x,), x.type)
