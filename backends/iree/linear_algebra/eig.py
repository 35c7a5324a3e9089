"""Eigenvalues and eigenvectors of square matrices by the QR algorithm.

    a = z h z^H:  reflections reduce a to Hessenberg form, with one diagonal below the main one
    h = q t q^H:  sweeps of rotations, each with a shift, make h triangular; they rotate rows of z^H as well
    substitution gives the vectors of t

Real matrices are converted to complex ones. Vectors have length one, and a real largest component.

Source: Golub and Van Loan, "Matrix Computations" (2013), chapter 7; exceptional shifts: LAPACK's zlahqr.
"""

from dataclasses import dataclass
from typing import Any

from tiduc.backends.iree.emitter import Emitter
from tiduc.backends.iree.linear_algebra.matrices import (
    adjoint,
    as_element,
    epsilon,
    everywhere,
    masked,
    real_type,
    scaled,
    unsettled,
)
from tiduc.backends.iree.linear_algebra.program import Matrix, Place, Program
from tiduc.backends.iree.linear_algebra.reflectors import Reflectors
from tiduc.backends.iree.linear_algebra.run import Work, run, tensors
from tiduc.backends.iree.linear_algebra.scalars import Int, Number
from tiduc.backends.iree.linear_algebra.shifts import until_done
from tiduc.dialect.types import is_complex, shape, with_element, with_shape


def decompose(b: Emitter, x: Any, left: bool, right: bool) -> tuple[Any, Any, Any, Any]:
    """Values in no order, the vectors asked for or None, and `info`: 1 without convergence, or if x is not finite."""
    real = not is_complex(x)
    if real:
        x = b.complex(x, b.zeros_like(x))
    unit, x, total = scaled(b, x)
    finite = b.compare(total, b.constant(float("inf"), total), "LT")
    w, t, zh, not_done = _schur(b, masked(b, everywhere(b, finite, x), x))
    if real:
        w = _real_if_close(b, w, b.sqrt(total))
    w = b.multiply(w, as_element(b, everywhere(b, unit, w), w))
    of_left = of_right = None
    if left:  # the vectors of the adjoint, which is upper triangular with its rows and columns reversed
        of_left = b.reverse(_vectors(b, b.reverse(adjoint(b, t), [1, 2]), b.reverse(zh, [1])), [2])
    if right:
        of_right = _vectors(b, t, zh)
    return w, of_left, of_right, unsettled(b, not_done, 0, total)


def _real_if_close(b: Emitter, w: Any, norm: Any) -> Any:
    """Values, with imaginary parts of at most n epsilon times the norm set to zero."""
    re, im = b.real(w), b.imag(w)
    rounding = b.multiply(norm, b.constant(shape(w)[1] * epsilon(w), norm))
    close = b.compare(b.abs(im), everywhere(b, rounding, im), "LE")
    return b.complex(re, b.select(close, b.zeros_like(im), im))


def _schur(b: Emitter, x: Any) -> tuple[Any, Any, Any, Any]:
    """Eigenvalues, t, z^H, and 0 or 1 without convergence, of matrices of entries of about one."""
    batch, n, _ = shape(x)

    def body(p: Program, *matrices: Matrix) -> None:
        x, w, t, zh, left, z, v, taus, phases, along = matrices
        t.copy(x)
        _reduce(t, z, Reflectors(v, taus, phases), along)
        zh.copy(z, adjoint=True)
        step = _Sweeps(t, zh, p.place(0))
        left[0] = until_done(p, n, step.step)
        with p.each(0, n) as i:
            w[i] = t[i, i]

    real = with_element(x.type, real_type(x))
    types = [with_shape(x.type, [batch, n]), x.type, x.type, with_shape(real, [batch, 1])]
    square, row = Work(n, n, True, padded=True), Work(1, n, True)
    w, t, zh, left = tensors(b, *run(b, [x], types, [square, square, Work(1, n), row, row], body))
    return w, t, zh, b.reshape(left, [batch])


def _reduce(h: Matrix, z: Matrix, reflectors: Reflectors, along: Matrix) -> None:
    """Makes h a Hessenberg matrix, column by column; each is reflected onto the entry below the diagonal."""
    p, n = h.p, h.rows
    z.unit()
    with p.each(0, max(n - 2, 0)) as j:
        below = j + 1
        with p.each(below, n) as r:
            reflectors.v[j, r] = h[r, j].conj
        reflectors.make(j, below, n, below)
        reflectors.reflect_columns(h, along, j, (below, n), (j, n))
        with p.each(0, n) as r:
            reflectors.reflect_row(h, r, j, below, n)
            reflectors.reflect_row(z, r, j, below, n)
        with p.each(j + 2, n) as r:
            h[r, j] = h.zero


@dataclass(frozen=True)
class _Sweeps:
    """The QR algorithm for t; rows of z^H rotate with it."""

    t: Matrix
    zh: Matrix
    since: Place  # the number of sweeps since the last row that was done

    def step(self, high: Int) -> Int:
        """One sweep up to row `high`; gives the last row that is not done."""
        low, end = self._block(high)
        self.since.set(self.since.value + 1)
        self.since.set_if(end.differs(high), 0)
        self._sweep(low, end, self._shift(end))
        return end

    def _block(self, high: Int) -> tuple[Int, Int]:
        """The rows of the last block; sets subdiagonal entries to zero that are small beside the diagonal."""
        p, t = self.t.p, self.t
        start, low, end = (p.place(0) for _ in range(3))
        with p.each(1, high + 1) as i:
            beside = t[i - 1, i - 1].size + t[i, i].size
            limit = p.epsilon * p.either(beside.is_zero, 1.0, beside)
            some = t[i, i - 1].size > limit
            t[i, i - 1] = p.either(some, t[i, i - 1], t.zero)
            start.set_if(p.no(some), i)
            low.set_if(some, start.value)
            end.set_if(some, i)
        return low.value, end.value

    def _shift(self, high: Int) -> Number:
        """The eigenvalue of the last two rows nearer to the last entry; each tenth time, an exceptional shift."""
        p, t, before = self.t.p, self.t, high.max(1) - 1
        last, beside = t[high, high], t[high, before]
        half, both = (t[before, before] - last) * 0.5, t[before, high] * beside
        root = _root(half * half + both)
        more, less = half + root, half - root
        divisor = p.either(more.square >= less.square, more, less)
        shift = last - both / p.either(divisor.is_zero, t.one, divisor)
        other = last + Number(p, (_length(beside) * 0.75).parts + t.zero.im.parts)
        return p.either((self.since.value % 10).equals(9), other, shift)

    def _sweep(self, low: Int, high: Int, shift: Number) -> None:
        """One QR step: rotates adjacent rows and columns, from row `low` to row `high`."""
        p, t, n = self.t.p, self.t, self.t.rows
        with p.each(low, high) as k:
            first, before = k.equals(low), k.max(1) - 1
            x = p.either(first, t[k, k] - shift, t[k, before])
            y = p.either(first, t[k + 1, k], t[k + 1, before])
            c, s = _unit(x, y)
            _turn(t, k, c.conj, s.conj, before, n)
            _turn(self.zh, k, c.conj, s.conj, 0, n)
            t[k + 1, before] = p.either(first, t[k + 1, before], t.zero)
            _turn(t.transpose, k, c, s, 0, (k + 2).min(high) + 1)


def _unit(x: Number, y: Number) -> tuple[Number, Number]:
    """x and y over the length of both; 1 and 0 if both are zero."""
    p, one = x.p, x.p.constant(1.0)
    top = p.constant(0.0).max(x).max(y)
    none = top.is_zero
    top = p.either(none, one, top)
    x, y = x / top, y / top
    length = p.either(none, one, (x.square + y.square).sqrt)
    return p.either(none, p.constant(1.0, 0.0), x / length), y / length


def _turn(x: Matrix, k: Int, c: Number, s: Number, start: Any, end: Any) -> None:
    """Replaces rows u and v, the rows k and k + 1, by c u + s v and conj(c) v - conj(s) u."""
    with x.p.each(start, end) as j:
        u, v = x[k, j], x[k + 1, j]
        x[k, j] = (c * u).less(-s, v)
        x[k + 1, j] = (c.conj * v).less(s.conj, u)


def _root(x: Number) -> Number:
    """A square root of a complex number of moderate size."""
    p = x.p
    long = ((_length(x) + abs(x.re)) * 0.5).sqrt
    short = x.im * 0.5 / p.either(long.is_zero, 1.0, long)
    other = abs(short).parts + p.either(p.constant(0.0) > x.im, -long, long).parts
    return p.either(x.re >= 0.0, Number(p, long.parts + short.parts), Number(p, other))


def _length(x: Number) -> Number:
    """|x|, computed from x over its larger part."""
    p = x.p
    top = p.constant(0.0).max(x)
    return top * (x / p.either(top.is_zero, 1.0, top)).square.sqrt


# ---- vectors ----------------------------------------------------------------------------------------------------


def _vectors(b: Emitter, t: Any, zh: Any) -> Any:
    """z times the vectors of triangular matrices t, one a column."""
    n = shape(t)[1]

    def body(p: Program, t: Matrix, zh: Matrix, v: Matrix, x: Matrix, rows: Matrix) -> None:
        least = p.number(0.0)
        with p.each(0, n) as i, p.each(i, n) as j:
            least.set(least.value.max(t[i, j]))
        gap = p.epsilon * least.value
        with p.each(0, n) as c:
            _substitute(t, x, c, gap)
            with p.each(0, n) as j:
                rows[c, j] = rows.zero
            with p.each(0, c + 1) as i:
                with p.each(0, n) as j:
                    rows[c, j] = rows[c, j].less(-x[i], zh[i, j].conj)
            _normalize(rows, c)
        v.transpose.copy(rows)

    return tensors(b, *run(b, [t, zh], [t.type], [Work(1, n, True), Work(n, n, True, padded=True)], body))[0]


def _substitute(t: Matrix, x: Matrix, c: Int, gap: Number) -> None:
    """Writes the vector of the value in column c of t to x.

    Gaps between values are at least `gap` wide; a vector that grows is scaled.
    """
    p = t.p
    x[c] = t.one
    with p.each(0, c) as s:
        i = c - 1 - s
        total = p.number(t.zero)
        with p.each(i + 1, c + 1) as j:
            total.add(t[i, j] * x[j])
        apart = t[c, c] - t[i, i]
        close = gap > p.constant(0.0).max(apart)
        apart = p.either(close, Number(p, gap.parts + t.zero.im.parts), apart)
        x[i] = total.value / p.either(apart.is_zero, t.one, apart)
        size = p.constant(1.0).max(x[i])
        with p.when(size > 1.0), p.each(i, c + 1) as j:
            x[j] = x[j] / size


def _normalize(rows: Matrix, c: Int) -> None:
    """Scales a row to length one and a real largest component."""
    p, n = rows.p, rows.columns
    top = p.number(0.0)
    with p.each(0, n) as j:
        top.set(top.value.max(rows[c, j]))
    at, most, total = p.place(0), p.number(0.0), p.number(0.0)
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
        rows[c, j] = Number(p, y.re.parts + p.either(j.equals(at.value), 0.0, y.im).parts)
