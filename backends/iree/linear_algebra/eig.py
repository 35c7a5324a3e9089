"""Eigenvalues and eigenvectors of square matrices by the QR algorithm.

    a = z h z^H:  reflections reduce a to Hessenberg form, with one diagonal below the main one
    h = q t q^H:  sweeps of rotations, each with a shift, make h triangular; they rotate rows of z^H as well
    substitution gives the vectors of t

Real matrices are converted to complex ones. Vectors have length one, and a real largest component.

Source: Golub and Van Loan, "Matrix Computations" (2013), chapter 7; exceptional shifts: LAPACK's zlahqr.
"""

from dataclasses import dataclass
from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.emitter import Emitter
from tiduc.backends.iree.linear_algebra.matrices import adjoint, integers, real_type
from tiduc.backends.iree.linear_algebra.program import Matrix, Program, Variable
from tiduc.backends.iree.linear_algebra.reflectors import Reflectors
from tiduc.backends.iree.linear_algebra.run import Work, run
from tiduc.backends.iree.linear_algebra.scalars import Int, Number
from tiduc.backends.iree.linear_algebra.shifts import (
    Turns,
    last_block,
    plane,
    rotate,
    scale,
    until_done,
    write_info,
)
from tiduc.dialect.types import is_complex, shape, with_element, with_shape


def decompose(b: Emitter, x: Any, left: bool, right: bool) -> list[Any]:
    """Values [batch, n] in no order; `info`; and the left and right vectors [batch, n, n] that are asked for.

    `info` [batch, 1] is 1 without convergence, or if a matrix is not finite.
    """
    w, t, zh, info = _schur(b, x)
    results = [w, info]
    if left:  # the vectors of the adjoint, which is upper triangular with its rows and columns reversed
        results.append(b.reverse(_vectors(b, b.reverse(adjoint(b, t), [1, 2]), b.reverse(zh, [1])), [2]))
    if right:
        results.append(_vectors(b, t, zh))
    return results


def _schur(b: Emitter, x: Any) -> list[Any]:
    """Eigenvalues; t, divided by a power of two; z^H; and `info`."""
    batch, n, _ = shape(x)
    type_ = with_element(x.type, ir.ComplexType.get(real_type(x)))

    def body(
        p: Program, given: Matrix, w: Matrix, t: Matrix, zh: Matrix, info: Matrix, *work: Matrix
    ) -> None:
        v, taus, along, cosines, sines = work
        t.copy(given)
        unit, total = scale(t)
        with p.when(p.no(p.number(float("inf")) > total)), p.each(0, n) as i, p.each(0, n) as j:
            t[i, j] = 0.0
        _reduce(t, zh, Reflectors(v, taus), along)
        step = _Sweeps(t, Turns(cosines, sines, [zh]), p.counter(0))
        write_info(info, until_done(p, n, step.step), total)
        rounding = total.sqrt * p.epsilon * float(n)
        with p.each(0, n) as i:
            own = t[i, i]
            if not is_complex(x):  # small imaginary parts are rounding errors
                own = p.either(rounding >= abs(own.im), own.re, own)
            w[i] = unit * own

    types = [with_shape(type_, [batch, n]), type_, type_, integers(batch, 1)]
    row = Work(1, n, True)
    return run(b, [x], types, [Work(n, n, True, padded=True), row, row, row, row], body)


def _reduce(h: Matrix, zh: Matrix, reflectors: Reflectors, along: Matrix) -> None:
    """Makes h a Hessenberg matrix, column by column; each is reflected onto the entry below the diagonal."""
    p, n = h.p, h.rows
    zh.set_identity()
    with p.each(0, max(n - 2, 0)) as j:
        below = j + 1
        with p.each(below, n) as r:
            reflectors.vh[j, r] = h[r, j].conj
        beta = reflectors.make(j, below, n, below)
        reflectors.reflect_columns(h, along, j, (below, n), (below, n))
        reflectors.reflect_columns(zh, along, j, (below, n), (0, n))
        with p.each(0, n) as r:
            reflectors.reflect_row(h, r, j, below, n)
        h[below, j] = beta
        with p.each(j + 2, n) as r:
            h[r, j] = 0.0


@dataclass(frozen=True)
class _Sweeps:
    """The QR algorithm for t; rows of z^H rotate with it."""

    t: Matrix
    turns: Turns  # of z^H
    since: Variable[Int]  # the number of sweeps since the last row that was done

    def step(self, high: Int) -> Int:
        """One sweep up to row `high`; gives the last row that is not done."""
        p, t = self.t.p, self.t

        def couples(i: Int) -> Any:
            beside = t[i - 1, i - 1].size + t[i, i].size
            limit = p.floor.max(p.epsilon * p.either(beside.is_zero, 1.0, beside))
            large = t[i, i - 1].size > limit
            t[i, i - 1] = p.either(large, t[i, i - 1], 0.0)
            return large

        low, end = last_block(p, high, couples)
        self.since.set(self.since.value + 1)
        self.since.set_if(p.no(end.equals(high)), 0)
        self._sweep(low, end, self._shift(end))
        return end

    def _shift(self, high: Int) -> Number:
        """The eigenvalue of the last two rows nearer to the last entry; each tenth time, an exceptional shift."""
        p, t, before = self.t.p, self.t, high.max(1) - 1
        last, beside = t[high, high], t[high, before]
        half, both = (t[before, before] - last) * 0.5, t[before, high] * beside
        root = _root(half * half + both)
        more, less = half + root, half - root
        divisor = p.either(more.square >= less.square, more, less)
        shift = last - both / p.either(divisor.is_zero, 1.0, divisor)
        return p.either((self.since.value % 10).equals(9), last + _length(beside) * 0.75, shift)

    def _sweep(self, low: Int, high: Int, shift: Number) -> None:
        """One QR step: rotates adjacent rows and columns, from row `low` to row `high`."""
        p, t, n = self.t.p, self.t, self.t.rows
        with p.each(low, high) as k:
            first, before = k.equals(low), k.max(1) - 1
            x = p.either(first, t[k, k] - shift, t[k, before])
            y = p.either(first, t[k + 1, k], t[k + 1, before])
            c, s, _ = plane(x, y)
            self.turns.note(k, c.conj, s.conj)
            rotate(t, [k, k + 1], [(c.conj, s.conj)], before, n)
            t[k + 1, before] = p.either(first, t[k + 1, before], 0.0)
            rotate(t.transpose, [k, k + 1], [(c, s)], 0, (k + 2).min(high) + 1)
        self.turns.apply(low, high)


def _root(x: Number) -> Number:
    """A square root of a complex number of moderate size."""
    p = x.p
    long = ((_length(x) + abs(x.re)) * 0.5).sqrt
    short = x.im * 0.5 / p.either(long.is_zero, 1.0, long)
    other = abs(short).with_im(p.either(x.im >= 0.0, long, -long))
    return p.either(x.re >= 0.0, long.with_im(short), other)


def _length(x: Number) -> Number:
    """|x|, computed from x over its larger part."""
    p = x.p
    top = p.number(0.0).max(x)
    return top * (x / p.either(top.is_zero, 1.0, top)).square.sqrt


# ---- vectors ----------------------------------------------------------------------------------------------------


def _vectors(b: Emitter, t: Any, zh: Any) -> Any:
    """z times the vectors of triangular matrices t, one a column."""
    n = shape(t)[1]

    def body(p: Program, t: Matrix, zh: Matrix, v: Matrix, x: Matrix, rows: Matrix) -> None:
        most = p.variable(0.0)
        with p.each(0, n) as i, p.each(i, n) as j:
            most.set(most.value.max(t[i, j]))
        with p.each(0, n) as c:
            _substitute(t, x, c, p.epsilon * most.value)
            with p.each(0, n) as j:
                rows[c, j] = 0.0
            with p.each(0, c + 1) as i, p.each(0, n) as j:
                rows[c, j] = rows[c, j] + x[i] * zh[i, j].conj
            _normalize(rows, c)
        v.transpose.copy(rows)

    return run(b, [t, zh], [t.type], [Work(1, n, True), Work(n, n, True, padded=True)], body)[0]


def _substitute(t: Matrix, x: Matrix, c: Int, gap: Number) -> None:
    """Writes the vector of the value in column c of t to x.

    Gaps between values are at least `gap` wide; a vector that grows is scaled.
    """
    p = t.p
    x[c] = 1.0
    with p.each(0, c) as s:
        i = c - 1 - s
        total = p.variable(t.zero)
        with p.each(i + 1, c + 1) as j:
            total.add(t[i, j] * x[j])
        difference = t[c, c] - t[i, i]
        difference = p.either(gap > p.number(0.0).max(difference), gap, difference)
        x[i] = total.value / p.either(difference.is_zero, 1.0, difference)
        size = p.number(1.0).max(x[i])
        with p.when(size > 1.0), p.each(i, c + 1) as j:
            x[j] = x[j] / size


def _normalize(rows: Matrix, c: Int) -> None:
    """Scales a row to length one and a real largest component."""
    p, n = rows.p, rows.columns
    top = p.variable(0.0)
    with p.each(0, n) as j:
        top.set(top.value.max(rows[c, j]))
    at, most, total = p.counter(0), p.variable(0.0), p.variable(0.0)
    with p.each(0, n) as j:
        rows[c, j] = rows[c, j] / top.value
        size = rows[c, j].square
        more = size > most.value
        at.set_if(more, j)
        most.set_if(more, size)
        total.add(size)
    phase = rows[c, at.value].conj / most.value.sqrt / total.value.sqrt
    with p.each(0, n) as j:
        y = rows[c, j] * phase
        rows[c, j] = p.either(j.equals(at.value), y.re, y)
