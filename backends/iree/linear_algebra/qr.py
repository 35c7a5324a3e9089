"""a = Q R by reflections H_j = 1 - tau_j v_j v_j^H, and their products.

    w = v^H x, row of x by row;  w = tau w;  x = x - v w, row by row

R is in the upper triangle, and v_j below it; v_j is one on the diagonal. Signs and phases are LAPACK's: the
diagonal of R is real, with the sign opposite to the entry that was there. A reflection with tau = 0, where a
column has only zeros below the diagonal, is skipped.
"""

import math
from collections.abc import Callable
from typing import Any

from tiduc.backends.iree.emitter import Emitter
from tiduc.backends.iree.linear_algebra.matrices import integers
from tiduc.backends.iree.linear_algebra.program import Matrix, Program
from tiduc.backends.iree.linear_algebra.run import Work, run, tensors
from tiduc.backends.iree.linear_algebra.scalars import Int, Number
from tiduc.dialect.types import is_complex, shape, with_shape


def factors(b: Emitter, x: Any) -> list[Any]:
    """The packed factors of matrices, and tau for each column."""
    batch, m, n = shape(x)
    count = min(m, n)

    def body(p: Program, a: Matrix, qr: Matrix, taus: Matrix, w: Matrix) -> None:
        qr.copy(a)
        with p.each(0, count) as j:
            _reflect_column(qr, taus, w, j)

    types = [x.type, with_shape(x.type, [batch, count])]
    return tensors(b, *run(b, [x], types, [Work(1, n, is_complex(x))], body))


def pivoted(b: Emitter, x: Any, wanted: Any) -> list[Any]:
    """The packed factors, the order of columns, and tau; the columns `wanted` come first, then the longest one left."""
    batch, m, n = shape(x)
    count = min(m, n)

    def body(p: Program, *matrices: Matrix) -> None:
        a, flags, qr, order, taus, wanted, w = matrices
        qr.copy(a)
        wanted.copy(flags)
        with p.each(0, n) as j:
            order.set_integer(j, j)
        with p.each(0, count) as j:
            at = _next_column(qr, wanted, j)
            with p.when(at.differs(j)):
                for rows in (qr, order, wanted):
                    columns = rows.transpose
                    columns.swap_rows(at, j, rows.rows)
            _reflect_column(qr, taus, w, j)

    numbers = integers(batch, n)
    types = [x.type, numbers, with_shape(x.type, [batch, count]), numbers]
    return tensors(b, *run(b, [x, wanted], types, [Work(1, n, is_complex(x))], body))[:3]


def multiply_by_q(b: Emitter, qr: Any, taus: Any, c: Any, adjoint: bool) -> Any:
    """Q c, or Q^H c if `adjoint`, one reflection after the other."""
    batch, count = shape(taus)

    def body(p: Program, v: Matrix, taus: Matrix, c: Matrix, x: Matrix, w: Matrix) -> None:
        x.copy(c)
        with p.each(0, count) as s:
            j = s if adjoint else count - 1 - s
            tau = taus[j].conj if adjoint else taus[j]
            _reflect(x, w, j, 0, lambda i: v[i, j], tau)

    return tensors(b, *run(b, [qr, taus, c], [c.type], [Work(1, shape(c)[2], is_complex(c))], body))[0]


def _next_column(x: Matrix, wanted: Matrix, j: Int) -> Int:
    """The first wanted column from j on, else the longest one below row j; j itself if its length is NaN."""
    p = x.p
    top = p.number(0.0)
    with p.each(j, x.rows) as i, p.each(j, x.columns) as c:
        top.set(top.value.max(x[i, c]))
    unit = p.either(top.value > 0.0, top.value, 1.0)

    def length(c: Int) -> Number:
        total = p.number(0.0)
        with p.each(j, x.rows) as i:
            total.add((x[i, c] / unit).square)
        return p.either(p.k.differs_from_zero(wanted[c].parts[0]), math.inf, total.value)

    at, most = p.place(j), p.number(length(j))
    with p.each(j + 1, x.columns) as c:
        own = length(c)
        longer = own > most.value
        at.set_if(longer, c)
        most.set_if(longer, own)
    return at.value


def _reflect_column(x: Matrix, taus: Matrix, w: Matrix, j: Int) -> None:
    """Reflects column j onto its diagonal entry, and the columns after it."""
    tau = _reflector(x, j)
    taus[j] = tau
    _reflect(x, w, j, j + 1, lambda i: x[i, j], tau.conj)


def _reflector(x: Matrix, j: Int) -> Number:
    """Writes v and beta to column j, and gives tau; computed from entries scaled to about one."""
    p, alpha = x.p, x[j, j]
    top = p.number(p.constant(0.0).max(alpha))
    with p.each(j + 1, x.rows) as i:
        top.set(top.value.max(x[i, j]))
    unit = p.either(top.value > 0.0, top.value, 1.0)
    rest = p.number(0.0)
    with p.each(j + 1, x.rows) as i:
        rest.set(rest.value + (x[i, j] / unit).square)
    first = alpha / unit
    length = (rest.value + first.square).sqrt
    beta = p.either(first.re >= 0.0, -length, length)
    flat = rest.value.is_zero
    if x.apart:
        flat = p.both(flat, first.im.is_zero)
    safe = p.either(flat, 1.0, beta)
    tau = (beta - first.re) / safe
    if x.apart:
        tau = Number(p, tau.parts + (-first.im / safe).parts)
    divisor = Number(p, (first.re - beta).parts + first.im.parts)
    divisor = p.either(flat, x.one, divisor)
    with p.each(j + 1, x.rows) as i:
        x[i, j] = p.either(flat, x.zero, (x[i, j] / unit) / divisor)
    x[j, j] = p.either(flat, alpha, Number(p, (beta * unit).parts + x.zero.im.parts))
    return p.either(flat, x.zero, tau)


def _reflect(x: Matrix, w: Matrix, j: Int, start: Any, v: Callable[[Int], Number], tau: Number) -> None:
    """Subtracts tau v v^H times x, from column `start` on; v is one in row j, and zero above it."""
    p, n = x.p, x.columns
    with p.when(p.no(tau.is_zero)):
        with p.each(start, n) as c:
            w[c] = x[j, c]
        with p.each(j + 1, x.rows) as i:
            w.less_row(0, -v(i).conj, x, i, start, n)
        with p.each(start, n) as c:
            w[c] = tau * w[c]
            x[j, c] = x[j, c] - w[c]
        with p.each(j + 1, x.rows) as i:
            x.less_row(i, v(i), w, 0, start, n)
