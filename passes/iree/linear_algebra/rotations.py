"""Jacobi's method in a kernel: eigenvalues and eigenvectors of Hermitian matrices; and its rotations, of any rows.

    each row with each one after it:  the rotation that makes their entry zero, of both rows, and of both columns

Rows are long: those of what becomes v^H are behind those of the matrix, and turn with them. Columns are not turned, but
are the conjugates of the rows. The diagonal is on its own, behind the rows, as in jacobi.py, which says how rotations
are found; the order, row by row, is that of Forsythe and Henrici, "The cyclic Jacobi method for computing the principal
values of a complex matrix" (1960). Each matrix of a batch has as many sweeps as it takes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch_mlir import ir

from tiduc.dialect.types import is_complex, shape, with_shape
from tiduc.passes.iree.emitter import Emitter
from tiduc.passes.iree.kernels import Kernel, dispatch
from tiduc.passes.iree.linear_algebra.jacobi import SWEEPS
from tiduc.passes.iree.linear_algebra.lines import (
    Layout,
    Number,
    conjugate,
    each,
    layout,
    less_product,
    lines,
    negated,
    of_line,
    square,
    times,
)
from tiduc.passes.iree.linear_algebra.matrices import real_type

_CACHED = 16  # numbers of f32 in a line of a cache


def diagonalized(b: Emitter, x: Any, most: float) -> tuple[Any, Any, Any]:
    """The diagonal w, v^H, and what is left beside the diagonal, of Hermitian matrices of entries of about one.

    That is the sum of its squares, relative to the matrix's: sweeps end where it is at most `most`.
    """
    batch, n, _ = shape(x)
    given, parts = lines(b, x), 2 if is_complex(x) else 1
    width = width_of(2 * n)
    end = batch * n * width * parts
    of = Layout((batch, n, width), is_complex(x))
    of_w = Layout((batch, 1, n + 1), False, start=end)
    line = ir.RankedTensorType.get([end + batch * (n + 1)], real_type(x))
    step = _Sweeps(of, of_w, layout(x), given, most, b.fused)
    (made,) = dispatch(b, [line], lambda k: each(k, 0, batch, [k.empty(line)], step.of_matrix))
    rows = of_line(b, b.slice(made, [0], [end], [1]), with_shape(x.type, [batch, n, width]))
    vh = b.slice(rows, [0, 0, n], [batch, n, 2 * n], [1, 1, 1])
    w = b.reshape(b.slice(made, [end], [end + batch * (n + 1)], [1]), [batch, n + 1])
    last = b.reshape(b.slice(w, [0, n], [batch, n + 1], [1, 1]), [batch])
    return b.slice(w, [0, 0], [batch, n], [1, 1]), vh, last


def width_of(columns: int) -> int:
    """What rows take so that a column's entries are not all in a few sets of a cache: an odd number of its lines."""
    return -(-columns // _CACHED) // 2 * 2 * _CACHED + _CACHED


@dataclass(frozen=True)
class Rotation:
    """Of rows p and q: x_p + (sine x_q - less x_p), and x_q - (conj(sine) x_p + less x_q)."""

    less: Any
    sine: Number
    change: Any  # what the diagonal's entry p gains, and q loses


def rotation(k: Kernel, entries: Sequence[Any], coupling: Number, size: Any) -> Rotation:
    """The one that makes a coupling, of some size that is not zero, zero: by the smaller angle."""
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
    """The line with two rows of a matrix turned, in so many columns; `place` is a batch, and both rows."""
    batch, p, q = place
    back = negated(k, conjugate(k, turn.sine))

    def entry(k: Kernel, c: Any, x: Any) -> Sequence[Any]:
        x_p, x_q = (of.read(k, x, (batch, i, c)) for i in (p, q))
        x = of.write(k, _sum(k, x_p, times(k, turn.sine, x_q), turn.less, fused), x, (batch, p, c))
        return [of.write(k, _sum(k, x_q, times(k, back, x_p), turn.less, fused), x, (batch, q, c))]

    return each(k, 0, columns, [x], entry)[0]


def _sum(k: Kernel, x: Number, more: Number, less: Any, fused: bool) -> Number:
    """x + (more - less x), for a real `less`: in this order small angles, of which there are many, round less."""
    changes = [
        less_product(k, (change,), (less,), (part,), fused)[0] for change, part in zip(more, x, strict=True)
    ]
    return tuple(k.arith("addf", part, change) for part, change in zip(x, changes, strict=True))


def root(k: Kernel, x: Any) -> Any:
    """The square root of a real number."""
    return k.emit("math.sqrt", (x,), x.type)


@dataclass(frozen=True)
class _Sweeps:
    """Hermitian matrices in a line, with the rows of v^H behind their rows, and their diagonals and measures."""

    of: Layout
    of_w: Layout
    of_a: Layout
    a: Number
    most: float
    fused: bool

    def of_matrix(self, k: Kernel, batch: Any, x: Any) -> Sequence[Any]:
        """One matrix of a batch."""
        x, total = self._begun(k, x, batch)
        total = k.either(k.is_zero(total), k.one(total.type), total)
        most = k.emit("arith.constant", (), total.type, {"value": ir.FloatAttr.get(total.type, self.most)})

        def sweep(k: Kernel, _: Any, x: Any) -> Sequence[Any]:
            goes_on = k.above(self._w(k, x, batch, self.of.rows), most)  # not where it is a NaN
            swept = k.choice(
                goes_on,
                x.type,
                lambda k: [self._measured(k, self._swept(k, x, batch), batch, total)],
                lambda k: [x],
            )
            return [swept]

        return each(k, 0, SWEEPS, [self._measured(k, x, batch, total)], sweep)

    def _begun(self, k: Kernel, x: Any, batch: Any) -> tuple[Any, Any]:
        """The matrix without its diagonal, a unit matrix, and the diagonal; and the sum of all squares."""
        n = self.of.rows
        none = (k.zero(self.a[0].type.element_type),) * len(self.a)

        def row(k: Kernel, i: Any, x: Any, total: Any) -> Sequence[Any]:
            def entry(k: Kernel, j: Any, x: Any, total: Any) -> Sequence[Any]:
                v = self.of_a.given(k, self.a, (batch, i, j))
                x = self.of.write(k, v, x, (batch, i, j))
                x = self.of.write(k, none, x, (batch, i, k.arith("addi", j, k.index(n))))
                return [x, k.arith("addf", total, square(k, v))]

            x, total = each(k, 0, n, [x, total], entry)
            own = self.of_a.given(k, self.a, (batch, i, i))
            x = self.of_w.write(k, own[:1], x, (batch, k.index(0), i))
            x = self.of.write(k, none, x, (batch, i, i))
            unit = (k.one(own[0].type), *none[1:])
            return [self.of.write(k, unit, x, (batch, i, k.arith("addi", i, k.index(n)))), total]

        x, total = each(k, 0, n, [x, none[0]], row)
        return x, total

    def _measured(self, k: Kernel, x: Any, batch: Any, total: Any) -> Any:
        """The line with the sum of squares, relative to a total, behind the diagonal."""

        def row(k: Kernel, i: Any, left: Any) -> Sequence[Any]:
            return each(
                k,
                0,
                self.of.rows,
                [left],
                lambda k, j, left: [k.arith("addf", left, square(k, self.of.read(k, x, (batch, i, j))))],
            )

        (left,) = each(k, 0, self.of.rows, [k.zero(total.type)], row)
        last = k.arith("divf", left, total)
        return self.of_w.write(k, (last,), x, (batch, k.index(0), k.index(self.of.rows)))

    def _swept(self, k: Kernel, x: Any, batch: Any) -> Any:
        """The line after all rows met one another."""

        def first(k: Kernel, p: Any, x: Any) -> Sequence[Any]:
            def second(k: Kernel, q: Any, x: Any) -> Sequence[Any]:
                coupling = self.of.read(k, x, (batch, p, q))
                size = root(k, square(k, coupling))
                return [
                    k.choice(
                        k.is_zero(size),
                        x.type,
                        lambda k: [x],
                        lambda k: [self._met(k, x, (batch, p, q), coupling, size)],
                    )
                ]

            return each(k, k.arith("addi", p, k.index(1)), self.of.rows, [x], second)

        return each(k, 0, self.of.rows, [x], first)[0]

    def _met(self, k: Kernel, x: Any, place: tuple[Any, Any, Any], coupling: Number, size: Any) -> Any:
        """The line after rows and columns p and q turned."""
        batch, p, q = place
        entries = [self._w(k, x, batch, i) for i in (p, q)]
        turn = rotation(k, entries, coupling, size)
        x = turned(k, x, self.of, place, 2 * self.of.rows, turn, self.fused)

        def column(k: Kernel, c: Any, x: Any) -> Sequence[Any]:
            for i in (p, q):
                x = self.of.write(k, conjugate(k, self.of.read(k, x, (batch, i, c))), x, (batch, c, i))
            return [x]

        (x,) = each(k, 0, self.of.rows, [x], column)
        none = (k.zero(size.type),) * len(coupling)
        for i in (p, q):
            for j in (p, q):
                x = self.of.write(k, none, x, (batch, i, j))
        gained = k.arith("addf", entries[0], turn.change), k.arith("subf", entries[1], turn.change)
        for i, entry in zip((p, q), gained, strict=True):
            x = self.of_w.write(k, (entry,), x, (batch, k.index(0), i))
        return x

    def _w(self, k: Kernel, x: Any, batch: Any, i: Any) -> Any:
        """An entry of the diagonal, or the measure behind it."""
        return self.of_w.read(k, x, (batch, k.index(0), k.index(i)))[0]
