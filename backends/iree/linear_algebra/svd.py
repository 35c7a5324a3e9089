"""Singular values and vectors, a = u diag(s) v^H, for the calls of LAPACK and cuSOLVER.

On CPUs, all but very small matrices are reduced to bidiagonal form, then to a diagonal by the QR algorithm.
Very small ones, and all on other targets, take Hestenes' one-sided Jacobi method: rotations from the right
make the columns of a orthogonal. The product of the rotations is v, and the lengths of the columns are s, in
descending order. A QR factorization of these columns is Q times a diagonal matrix. So Q has u, orthogonal
even where s is zero, and the columns of u beyond those of a.

Source: Golub and Van Loan, "Matrix Computations" (2013), section 8.6.3.
"""

import math
from collections.abc import Sequence
from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.calls import legalize_call
from tiduc.backends.iree.emitter import Emitter
from tiduc.backends.iree.lapack import info_type, on_host
from tiduc.backends.iree.linear_algebra.golub_kahan import decomposed
from tiduc.backends.iree.linear_algebra.hestenes import made_orthogonal
from tiduc.backends.iree.linear_algebra.jacobi import Pairs, Rotation, sweeps
from tiduc.backends.iree.linear_algebra.matrices import (
    adjoint,
    as_element,
    batched,
    checked,
    diagonal,
    epsilon,
    everywhere,
    in_order,
    largest,
    on_diagonal,
    product,
    quotient,
    real_type,
    resized,
    restored,
    scale,
    settings,
    sizes,
    sorted_by,
    spread,
    squares,
    summed,
    unsettled,
)
from tiduc.backends.iree.linear_algebra.qr import columns_of_q, factors
from tiduc.backends.iree.refused import refused
from tiduc.dialect.lapack import targets
from tiduc.dialect.types import is_empty, shape, with_element, with_shape
from tiduc.passes.rules.svd import OF_V

FEW = 3
"""The most rows and columns for which rotations are faster."""

TOLERANCE = 4
"""The cosine of two rows that may be left, in units of epsilon times the root of their number of elements."""


@legalize_call(*targets("gesdd", "gesvd", "gesvdj"))
def svd(b: Emitter, op: Any) -> Sequence[Any]:
    """Values, vectors if asked for, and `info` as in `syevd`; the first result is of no use."""
    (a,) = checked(op).operands
    _, s, third, fourth, info = op.results
    vectors, turned, of_v = _wanted(op)
    if is_empty(a):
        if vectors and not (is_empty(third) and is_empty(fourth)):
            raise refused(op, "its matrix is empty, and its vectors are not")
        return [a, *[b.zero(y.type) for y in list(op.results)[1:]]]
    x = batched(b, a)
    if not vectors:
        values, failed = _values(b, x)
        none = b.zero(third.type), b.zero(fourth.type)
        return [a, restored(b, values, s.type), *none, restored(b, failed, info.type)]
    u, values, v, failed = _vectors(b, x, _is_full(op, turned, of_v))
    second = v if of_v else adjoint(b, v)
    first, second = (second, u) if turned else (u, second)
    made = (a, values, first, second, failed)
    return [restored(b, y, result.type) for y, result in zip(made, op.results, strict=True)]


def _wanted(op: Any) -> tuple[bool, bool, bool]:
    """Whether vectors are wanted, whether those of v come first, and whether v is wanted, not its adjoint."""
    given = settings(op)
    if "mode" not in given:
        of_v = ir.StringAttr(op.attributes["call_target_name"]).value in OF_V
        return bool(given["compute_uv"]), bool(given.get("transposed", False)), of_v
    if given["mode"] == ord("O"):
        raise refused(op, "singular vectors that overwrite the matrix (mode O) are not supported")
    return given["mode"] != ord("N"), False, False


def _is_full(op: Any, turned: bool, of_v: bool) -> bool:
    """Whether both matrices of vectors are square; otherwise they have as many vectors as there are values."""
    m, n = shape(op.operands[0])[-2:]
    u, v = list(op.results)[2:4][:: -1 if turned else 1]
    counts = shape(u)[-1], shape(v)[-1 if of_v else -2]
    if counts not in ((m, n), (min(m, n),) * 2):
        raise refused(op, f"of {m} by {n} matrices there are no {counts[0]} and {counts[1]} vectors")
    return counts == (m, n)


def _values(b: Emitter, x: Any) -> tuple[Any, Any]:
    """The singular values, and `info`."""
    batch, m, n = shape(x)
    if b.lapack:
        values = with_element(with_shape(x.type, [batch, min(m, n)]), real_type(x))
        s, failed = on_host(b, "svdvals", [x], [values, info_type(x)])
        return s, failed
    if b.cpu and max(m, n) > FEW:
        return _by_shifts(b, x, 0)[:2]
    return _orthogonal(b, x if m < n else adjoint(b, x), False)[1::2]


def _vectors(b: Emitter, x: Any, full: bool) -> tuple[Any, Any, Any, Any]:
    """u, s, v and `info`; by rotations of the adjoint if that has more rows."""
    _, m, n = shape(x)
    if b.lapack:
        return _of_lapack(b, x, full)
    if b.cpu and max(m, n) > FEW:
        s, failed, u, vh = _by_shifts(b, x, max(m, n) if full else min(m, n))
        return u, s, adjoint(b, vh), failed
    if m < n:
        v, s, u, failed = _vectors(b, adjoint(b, x), full)
        return u, s, v, failed
    rows, s, vh, failed = _orthogonal(b, adjoint(b, x), True)
    qr, taus = factors(b, adjoint(b, rows))
    u = columns_of_q(b, qr, taus, m if full else n)
    entries = b.real(diagonal(b, resized(b, qr, n, n)))
    one = b.constant(1, entries)
    signs = b.select(b.compare(entries, b.zeros_like(entries), "LT"), b.negate(one), one)
    wide = b.pad(signs, b.constant(1, with_shape(one.type, [])), [0, 0], [0, shape(u)[2] - n], [0, 0])
    return b.multiply(u, as_element(b, spread(b, wide, [0, 2], b.real(u)), u)), s, adjoint(b, vh), failed


def _of_lapack(b: Emitter, x: Any, full: bool) -> tuple[Any, Any, Any, Any]:
    """The results of `_vectors`, by LAPACK on the host."""
    batch, m, n = shape(x)
    k = min(m, n)
    of_u, of_v = (with_shape(x.type, [batch, size, size if full else k]) for size in (m, n))
    values = with_element(with_shape(x.type, [batch, k]), real_type(x))
    types = [of_u, values, of_v, info_type(x)]
    u, s, v, failed = on_host(b, "svd_full" if full else "svd", [x], types)
    return u, s, v, failed


def _by_shifts(b: Emitter, x: Any, vectors: int) -> tuple[Any, ...]:
    """s, `info`, u and v^H, with `vectors` of the longer vectors; 0 leaves out u and v^H."""
    unit, x, total = _scaled(b, x)
    s, last, *both = decomposed(b, x, vectors)
    return b.multiply(s, everywhere(b, unit, s)), unsettled(b, last, 0, total), *both


def _scaled(b: Emitter, x: Any) -> tuple[Any, Any, Any]:
    """The powers of two that scale matrices to entries of about one, the scaled matrices, and their |x|^2."""
    unit = scale(b, largest(b, sizes(b, x), [1, 2]))
    x = quotient(b, x, everywhere(b, unit, x))
    return unit, x, b.reduce_sum(squares(b, x), [1, 2])


def _orthogonal(b: Emitter, rows: Any, vectors: bool) -> tuple[Any, Any, Any, Any]:
    """The rows rotated until they are orthogonal, the longest first; their lengths; the rotations; and `info`.

    The lengths are of the rows as given, but the resulting rows are scaled.
    """
    m = shape(rows)[2]
    unit, rows, total = _scaled(b, rows)
    most = TOLERANCE * math.sqrt(m) * epsilon(rows)

    by = made_orthogonal if b.cpu else _by_rounds
    rows, vh, last = by(b, rows, most, vectors)
    lengths = _lengths(b, rows)
    order = in_order(b, lengths, descending=True)
    s = sorted_by(b, order, b.multiply(lengths, everywhere(b, unit, lengths)))
    vh = sorted_by(b, order, vh) if vectors else None
    return sorted_by(b, order, rows), s, vh, unsettled(b, last, most, total)


def _by_rounds(b: Emitter, rows: Any, most: float, vectors: bool) -> tuple[Any, Any, Any]:
    """The rotated rows, the rotations, and the largest cosine left; a round rotates half of the rows."""

    def turn(b: Emitter, pairs: Pairs, carries: Sequence[Any]) -> Sequence[Any]:
        rotation = _rotation(b, pairs, carries[0])
        return [rotation.of(b, x) for x in carries]

    initial = [rows, *([_unit(b, rows)] if vectors else [])]
    rows, *of_v, last = sweeps(b, shape(rows)[1], most, initial, _largest_cosine, turn)
    return rows, of_v[0] if vectors else None, last


def _largest_cosine(b: Emitter, carries: Sequence[Any]) -> Any:
    """The largest cosine between two rows.

    Rows shorter than epsilon times the longest one count as that long: they need not be orthogonal.
    """
    rows = carries[0]
    gram = product(b, rows, adjoint(b, rows))
    size = b.sqrt(squares(b, gram))
    lengths = b.sqrt(diagonal(b, b.real(gram)))
    least = b.reshape(largest(b, lengths, [1]), [shape(rows)[0], 1])
    least = b.multiply(least, b.constant(epsilon(rows), least))
    lengths = b.maximum(lengths, everywhere(b, least, lengths))
    both = b.multiply(spread(b, lengths, [0, 1], size), spread(b, lengths, [0, 2], size))
    none = b.or_(on_diagonal(b, both), b.compare(both, b.zeros_like(both), "EQ"))
    cosines = b.divide(size, b.select(none, b.constant(1, both), both))
    return largest(b, b.select(none, b.zeros_like(cosines), cosines), [1, 2])


def _rotation(b: Emitter, pairs: Pairs, rows: Any) -> Rotation:
    """The rotations that make pairs of rows orthogonal."""
    entries = b.reduce_sum(squares(b, rows), [2])
    coupling = summed(b, b.multiply(rows, b.conj(pairs.of(b, rows))), [2])
    return Rotation(b, pairs, entries, pairs.agreed(b, coupling))


def _lengths(b: Emitter, rows: Any) -> Any:
    """The lengths of rows, each scaled first, so that small lengths are found as well."""
    top = largest(b, sizes(b, rows), [2])
    top = b.select(b.compare(top, b.zeros_like(top), "GT"), top, b.constant(1, top))
    scaled = quotient(b, rows, spread(b, top, [0, 1], rows))
    return b.multiply(top, b.sqrt(b.reduce_sum(squares(b, scaled), [2])))


def _unit(b: Emitter, rows: Any) -> Any:
    """A unit matrix for each batch, with as many rows."""
    count, n, _ = shape(rows)
    zero = b.zero(with_shape(rows.type, [count, n, n]))
    return b.select(on_diagonal(b, zero), b.constant(1, zero), zero)
