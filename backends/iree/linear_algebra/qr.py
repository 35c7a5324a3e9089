"""a = Q R by reflections H_j = 1 - tau_j v_j v_j^H, and their products, for LAPACK, cuSOLVER and TPU calls.

R is in the upper triangle, and v_j below it; v_j is one on the diagonal. Signs and phases are LAPACK's: the
diagonal of R is real, with the sign opposite to the entry that was there. tau is 0 where a column has only
zeros below the diagonal.
"""

import math
from collections.abc import Sequence
from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.calls import legalize_call
from tiduc.backends.iree.emitter import Emitter, signless
from tiduc.backends.iree.lapack import on_host
from tiduc.backends.iree.linear_algebra.matrices import (
    adjoint,
    as_element,
    as_scalar,
    batched,
    checked,
    compared,
    everywhere,
    largest,
    loop,
    masked,
    ones,
    places,
    product,
    quotient,
    restored,
    settings,
    sizes,
    smallest,
    spread,
    squares,
    summed,
    swapped_places,
    vectors,
)
from tiduc.backends.iree.linear_algebra.reflections import product_of_reflections, reflected_to_triangles
from tiduc.dialect.lapack import targets
from tiduc.dialect.types import is_complex, is_empty, shape, with_element, with_shape


@legalize_call(*targets("geqrf"))
def geqrf(b: Emitter, op: Any) -> Sequence[Any]:
    """The factors and tau, column by column; each column is reflected onto its diagonal entry."""
    (a,) = checked(op).operands
    if is_empty(a):
        return [a, b.zero(op.results[1].type)]
    qr, taus = factors(b, batched(b, a))
    return [restored(b, qr, a.type), restored(b, taus, op.results[1].type)]


@legalize_call(*targets("geqp3"))
def geqp3(b: Emitter, op: Any) -> Sequence[Any]:
    """QR factors with pivoting: the longest column that is left is next, after those with nonzero numbers.

    The numbers of columns count from one.
    """
    a, wanted = checked(op).operands
    if is_empty(a):
        type_ = op.results[1].type
        order = b.iota(len(type_.shape) - 1, type_)
        return [a, b.add(order, b.constant(1, order)), b.zero(op.results[2].type)]
    qr, taus, order = _pivoted(b, batched(b, a), vectors(b, wanted))
    order = b.add(order, b.constant(1, order))
    return [restored(b, y, result.type) for y, result in zip((qr, order, taus), op.results, strict=True)]


@legalize_call(*targets("orgqr"))
def orgqr(b: Emitter, op: Any) -> Sequence[Any]:
    """The first columns of Q: those of the unit matrix, reflected by the last reflection first."""
    a, tau = checked(op).operands
    if is_empty(a):
        return [a]
    x = batched(b, a)
    return [restored(b, columns_of_q(b, x, vectors(b, tau), shape(x)[2]), a.type)]


@legalize_call(*targets("ormqr"))
def ormqr(b: Emitter, op: Any) -> Sequence[Any]:
    """Q c, Q^H c, c Q or c Q^H, one reflection after the other."""
    a, tau, c = checked(op).operands
    given = settings(op)
    if any(is_empty(x) for x in (a, tau, c)):
        return [c]
    turned, x = bool(given["transpose"]), batched(b, c)
    if given["left"]:
        y = reflected(b, batched(b, a), vectors(b, tau), x, turned)
    else:
        y = adjoint(b, reflected(b, batched(b, a), vectors(b, tau), adjoint(b, x), not turned))
    return [restored(b, y, c.type)]


def factors(b: Emitter, x: Any) -> tuple[Any, Any]:
    """The packed factors, and tau."""
    batch, m, n = shape(x)
    k = min(m, n)
    if b.lapack:
        qr, taus = on_host(b, "qr", [x], [x.type, with_shape(x.type, [batch, k])])
        return qr, taus
    if b.cpu:
        return reflected_to_triangles(b, x)

    def body(b: Emitter, j: Any, qr: Any, taus: Any) -> Sequence[Any]:
        qr, tau = _step(b, qr, j)
        return [qr, b.dynamic_update_slice(taus, tau, (b.zeros_like(j), j))]

    taus = b.zero(with_shape(x.type, [batch, k]))
    qr, taus = loop(b, k, [x, taus], body)
    return qr, taus


def _pivoted(b: Emitter, x: Any, wanted: Any) -> tuple[Any, Any, Any]:
    """The packed factors, tau, and the order of columns: those wanted first, then the longest that is left."""
    batch, m, n = shape(x)
    row, column = places(b, x, 1), places(b, x, 2)

    def body(b: Emitter, j: Any, qr: Any, taus: Any, order: Any, wanted: Any) -> Sequence[Any]:
        zero = b.zeros_like(j)
        left = b.and_(compared(b, row, j, "GE"), compared(b, column, j, "GE"))
        p = _next_column(b, masked(b, left, qr), wanted, j)
        chosen = compared(b, column, b.reshape(p, [batch, 1, 1]), "EQ")
        of_p = summed(b, masked(b, chosen, qr), [2])
        of_j = b.dynamic_slice(qr, (zero, zero, j), [batch, m, 1])
        there = b.select(compared(b, column, j, "EQ"), spread(b, of_p, [0, 1], qr), qr)
        qr, tau = _step(b, b.select(chosen, everywhere(b, of_j, qr), there), j)
        taus = b.dynamic_update_slice(taus, tau, (zero, j))
        return [qr, taus, *[swapped_places(b, numbers, p, j) for numbers in (order, wanted)]]

    k = min(m, n)
    taus = b.zero(with_shape(x.type, [batch, k]))
    qr, taus, order, _ = loop(b, k, [x, taus, places(b, wanted, 1), wanted], body)
    return qr, taus, order


def _next_column(b: Emitter, x: Any, wanted: Any, j: Any) -> Any:
    """The first wanted column from j on, else the longest one; j itself if there is a NaN."""
    batch, _, n = shape(x)
    place = places(b, wanted, 1)
    top = largest(b, sizes(b, x), [1, 2])
    unit = b.select(b.compare(top, b.zeros_like(top), "GT"), top, b.constant(1, top))
    length = b.reduce_sum(squares(b, quotient(b, x, everywhere(b, unit, x))), [1])
    none = b.compare(wanted, b.zeros_like(wanted), "EQ")
    length = b.select(none, length, b.constant(math.inf, length))
    length = b.select(compared(b, place, j, "GE"), length, b.constant(-1, length))
    low = b.constant(-1, with_shape(length.type, []))
    most = b.reshape(b.reduce(length, low, [1], "stablehlo.maximum"), [batch, 1])
    at = b.select(b.compare(length, everywhere(b, most, length), "EQ"), place, b.constant(n, place))
    p = smallest(b, at, [1], n)
    return b.reshape(b.select(b.compare(p, b.constant(n, p), "EQ"), everywhere(b, j, p), p), [batch, 1])


def _step(b: Emitter, qr: Any, j: Any) -> tuple[Any, Any]:
    """The matrix with column j, and those after it, reflected; and tau."""
    batch, m, _ = shape(qr)
    zero = b.zeros_like(j)
    column = b.dynamic_slice(qr, (zero, zero, j), [batch, m, 1])
    place = places(b, column, 1)
    here, below = compared(b, place, j, "EQ"), compared(b, place, j, "GT")
    alpha = b.dynamic_slice(column, (zero, j, zero), [batch, 1, 1])
    v, tau, beta = reflector(b, masked(b, below, column), alpha)
    v = b.select(here, b.constant(1, v), v)
    turned = product(b, adjoint(b, v), qr)
    turned = b.multiply(everywhere(b, b.conj(tau), turned), turned)
    rest = b.subtract(qr, b.multiply(everywhere(b, v, qr), everywhere(b, turned, qr)))
    of_j = b.select(below, v, b.select(here, everywhere(b, beta, column), column))
    at = places(b, qr, 2)
    done = b.select(compared(b, at, j, "EQ"), everywhere(b, of_j, qr), qr)
    # Rows above j stay: v is zero there, but an infinite factor would make a NaN of it.
    after = b.and_(compared(b, at, j, "GT"), compared(b, places(b, qr, 1), j, "GE"))
    return b.select(after, rest, done), b.reshape(tau, [batch, 1])


def reflector(b: Emitter, below: Any, alpha: Any) -> tuple[Any, Any, Any]:
    """v below its leading one, tau, and beta in place of alpha; columns are scaled to about one for lengths."""
    batch = shape(below)[0]
    unit = b.maximum(b.reshape(largest(b, sizes(b, below), [1, 2]), [batch, 1, 1]), sizes(b, alpha))
    unit = b.select(b.compare(unit, b.zeros_like(unit), "GT"), unit, b.constant(1, unit))
    scaled = quotient(b, below, everywhere(b, unit, below))
    first = quotient(b, alpha, unit)
    rest = b.reshape(b.reduce_sum(squares(b, scaled), [1, 2]), [batch, 1, 1])
    length = b.sqrt(b.add(rest, squares(b, first)))
    re, none = b.real(first), b.constant(0, rest)
    beta = b.select(b.compare(re, none, "GE"), b.negate(length), length)
    flat = b.compare(rest, none, "EQ")
    if is_complex(alpha):
        flat = b.and_(flat, b.compare(b.imag(first), none, "EQ"))
    safe = b.select(flat, b.constant(1, beta), beta)
    tau = b.divide(b.subtract(beta, re), safe)
    if is_complex(alpha):
        tau = b.complex(tau, b.negate(b.divide(b.imag(first), safe)))
    tau = b.select(flat, b.zeros_like(tau), tau)
    divisor = b.subtract(first, as_element(b, beta, first))
    divisor = b.select(flat, b.constant(1, divisor), divisor)
    v = quotient(b, scaled, everywhere(b, divisor, scaled))
    v = b.select(everywhere(b, flat, v), b.zeros_like(v), v)
    beta = b.select(flat, alpha, as_element(b, b.multiply(beta, unit), alpha))
    return v, tau, beta


def columns_of_q(b: Emitter, qr: Any, taus: Any, count: int) -> Any:
    """The first `count` columns of Q."""
    batch, m, _ = shape(qr)
    unit = ir.RankedTensorType.get([batch, m, count], signless(1))
    row, column = (b.iota(i, with_element(unit, signless(32))) for i in (1, 2))
    return reflected(b, qr, taus, ones(b, b.compare(row, column, "EQ"), qr), turned=False)


def reflected(b: Emitter, qr: Any, taus: Any, c: Any, turned: bool) -> Any:
    """Q c, or Q^H c if `turned`, one reflection after the other."""
    if b.lapack:
        return on_host(b, "apply_qh" if turned else "apply_q", [qr, taus, c], [c.type])[0]
    if b.cpu:
        return product_of_reflections(b, qr, taus, c, turned)
    batch, m, _ = shape(qr)
    k = shape(taus)[1]

    def body(b: Emitter, i: Any, c: Any) -> Sequence[Any]:
        zero, j = b.zeros_like(i), i if turned else b.subtract(as_scalar(b, k - 1), i)
        v = b.dynamic_slice(qr, (zero, zero, j), [batch, m, 1])
        place = places(b, v, 1)
        v = masked(b, compared(b, place, j, "GT"), v)
        v = b.select(compared(b, place, j, "EQ"), b.constant(1, v), v)
        tau = b.reshape(b.dynamic_slice(taus, (zero, j), [batch, 1]), [batch, 1, 1])
        along = product(b, adjoint(b, v), c)
        along = b.multiply(everywhere(b, b.conj(tau) if turned else tau, along), along)
        return [b.subtract(c, b.multiply(everywhere(b, v, c), everywhere(b, along, c)))]

    return loop(b, k, [c], body)[0]
