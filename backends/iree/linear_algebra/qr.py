"""QR factors a = Q R by Householder reflections, with column pivoting if asked for, and products with Q.

R is in the upper triangle, and below it the vectors v of the reflections, whose entry on the diagonal is one. Signs and
phases are those of LAPACK's geqrf: the diagonal of R is real, with the sign opposite to the entry that was there.

Source: Golub and Van Loan, "Matrix Computations" (2013), sections 5.2.2 and 5.4.2.
"""

import math
from typing import Any

from tiduc.backends.iree.emitter import Emitter
from tiduc.backends.iree.linear_algebra.matrices import integers
from tiduc.backends.iree.linear_algebra.program import Matrix, Program
from tiduc.backends.iree.linear_algebra.reflectors import Reflectors
from tiduc.backends.iree.linear_algebra.run import Work, run
from tiduc.backends.iree.linear_algebra.scalars import Int, Number
from tiduc.dialect.types import is_complex, shape, with_shape


def factors(b: Emitter, x: Any) -> list[Any]:
    """The packed factors of matrices [batch, m, n], and tau [batch, min(m, n)]."""
    batch, m, n = shape(x)
    count = min(m, n)

    def body(p: Program, a: Matrix, qr: Matrix, taus: Matrix, w: Matrix) -> None:
        qr.copy(a)
        with p.each(0, count) as j:
            _reflect_column(qr, taus, w, j)

    return run(b, [x], [x.type, with_shape(x.type, [batch, count])], [Work(1, n, is_complex(x))], body)


def pivoted(b: Emitter, x: Any, wanted: Any) -> list[Any]:
    """The packed factors, the order of columns [batch, n], counted from zero, and tau.

    Columns with a nonzero number in `wanted` [batch, n] come first, then the longest column that is left.
    """
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
            with p.when(p.no(at.equals(j))):
                for rows in (qr, order, wanted):
                    rows.transpose.swap_rows(at, j)
            _reflect_column(qr, taus, w, j)

    numbers = integers(batch, n)
    types = [x.type, numbers, with_shape(x.type, [batch, count]), numbers]
    return run(b, [x, wanted], types, [Work(1, n, is_complex(x))], body)[:3]


def multiply_by_q(b: Emitter, qr: Any, taus: Any, c: Any, adjoint: bool) -> list[Any]:
    """Q c, or Q^H c if `adjoint`, for c [batch, m, n], from the packed factors and tau."""
    (_, m, n), (_, count) = shape(c), shape(taus)
    of_complex = is_complex(c)

    def body(p: Program, qr: Matrix, taus: Matrix, c: Matrix, x: Matrix, v: Matrix, w: Matrix) -> None:
        x.copy(c)
        v.copy(qr)
        reflectors = Reflectors(v.adjoint, taus)
        with p.each(0, count) as s:
            j = s if adjoint else count - 1 - s
            v[j, j] = 1.0
            reflectors.reflect_columns(x, w, j, (j, m), (0, n), adjoint)

    return run(b, [qr, taus, c], [c.type], [Work(m, count, of_complex), Work(1, n, of_complex)], body)


def _reflect_column(x: Matrix, taus: Matrix, w: Matrix, j: Int) -> None:
    """Reflects column j onto its diagonal entry, and the columns after it."""
    reflectors = Reflectors(x.adjoint, taus)
    beta = reflectors.make(j, j, x.rows, j)
    reflectors.reflect_columns(x, w, j, (j, x.rows), (j + 1, x.columns))
    x[j, j] = beta


def _next_column(x: Matrix, wanted: Matrix, j: Int) -> Int:
    """The first wanted column from j on, else the longest one below row j; j itself if its length is NaN."""
    p = x.p
    top = p.variable(0.0)
    with p.each(j, x.rows) as i, p.each(j, x.columns) as c:
        top.set(top.value.max(x[i, c]))
    unit = p.either(top.value > 0.0, top.value, 1.0)

    def length(c: Int) -> Number:
        total = p.variable(0.0)
        with p.each(j, x.rows) as i:
            total.add((x[i, c] / unit).square)
        return p.either(p.k.differs_from_zero(wanted[c].parts[0]), math.inf, total.value)

    at, most = p.counter(j), p.variable(length(j))
    with p.each(j + 1, x.columns) as c:
        own = length(c)
        longer = own > most.value
        at.set_if(longer, c)
        most.set_if(longer, own)
    return at.value
