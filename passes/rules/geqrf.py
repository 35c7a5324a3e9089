"""QR factorization by LAPACK, cuSOLVER and TPU (XLA) calls. They return R, reflectors below R, and tau (`orgqr.py`).

Let c = Q^H da R1^-1, where 1 denotes the first columns, as many as there are reflectors. Then dR = Q^H da - w R with
the skew-Hermitian w = tril(c, -1) - tril(c, -1)^H + i im(diag(c)), which keeps the diagonal of R real. The first rows
of Q^H dQ1 are w; the others are those of c. The reflectors V and U = T V1^H are the LU factors, without pivots, of 1 -
Q1 = V U, so their tangents are those of LU factors.

If a column depends linearly on the columns before it, up to rounding, no derivative is finite; R1 is replaced by NaN.

If a column has only zeros below the diagonal, its reflector is the identity and its tau is zero. This always holds in
the last row of a real matrix. In other rows, the reflector is discontinuous at such a matrix, and dtau is NaN.

Source: Walter and Lehmann, "Algorithmic differentiation of linear algebra functions with application in
optimum experimental design" (2010); Roberts and Roberts, "QR and LQ decomposition matrix backpropagation
algorithms for square, wide, and deep matrices" (2020); for V, Ballard et al., "Reconstructing Householder
vectors from TSQR" (2014).
"""

from torch_mlir import ir

from tiduc.dialect.emitters.matrices import (
    adjoint,
    compare_places,
    corner,
    diagonal,
    epsilon,
    matrix_product,
    packed,
    rows,
    rows_taken,
    solve,
    some,
    swapped,
    triangle,
    unless,
)
from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.facts.lapack import targets
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.shapes.types import is_complex, predicate, rank, shape, with_element
from tiduc.passes.rules.custom_call import custom_call
from tiduc.passes.rules.decomposition import ROUNDING
from tiduc.passes.rules.elementwise import times
from tiduc.passes.rules.getrf import packed_tangent
from tiduc.passes.rules.orgqr import middle, multiplied, reflectors
from tiduc.passes.rules.registry import Tangents


@custom_call(*targets("geqrf"))
def geqrf(b: StablehloBuilder, op: Definition, dx: Tangents) -> list[Value | None]:
    qr, tau = op.results
    return _tangents(b, qr, tau, dx[0])


@custom_call(*targets("geqp3"))
def geqp3(b: StablehloBuilder, op: Definition, dx: Tangents) -> list[Value | None]:
    """Like `geqrf`, for the matrix with its columns in the order of the second result, which counts from one."""
    qr, order, tau = op.results
    at = b.subtract(order, b.constant(1, order))
    columns = b.transpose(rows_taken(b, b.transpose(dx[0], swapped(qr)), at), swapped(qr))
    dqr, dtau = _tangents(b, qr, tau, columns)
    return [dqr, None, dtau]


def _tangents(b: StablehloBuilder, qr: Value, tau: Value, da: Value) -> list[Value | None]:
    """The tangents of the packed factors and of tau.

    Records the factors that `orgqr` needs in `b.notes.factors`: dQ1 = Q1 (w - c) + da R1^-1.
    """
    (m, n), k = shape(qr)[-2:], shape(tau)[-1]
    v, square = reflectors(b, qr, k), _independent(b, corner(b, qr, k, k))
    y = solve(b, square, corner(b, da, m, k), left=False, lower=False, adjoint=False)
    x = multiplied(b, v, tau, y, turned=True)
    c = corner(b, x, k, k)
    w = _skew(b, c)
    turn = b.subtract(w, c)
    b.notes.factors[tau] = qr, y, turn
    if m < n:
        moved = matrix_product(b, w, triangle(b, qr, lower=False))
        dr = b.subtract(multiplied(b, v, tau, da, turned=True), moved)
    else:
        dr = b.negate(matrix_product(b, turn, triangle(b, square, lower=False)))
    dv, dtau = _reflector_tangents(b, v, tau, b.add(x, corner(b, turn, m, k)))
    return [packed(b, dv, dr, m, n), dtau]


def _independent(b: StablehloBuilder, r: Value) -> Value:
    """Returns r, with NaN in place of each matrix that has a column that depends linearly on the columns before it.

    The diagonal entry of such a column is at most `ROUNDING` units in the last place of the column. The derivative
    divides by the entry, and would have fewer than three correct digits.
    """
    sizes = triangle(b, b.abs(r), lower=False)
    within = b.reduce_sum(sizes, [rank(r) - 2])
    small = b.compare(diagonal(b, sizes), times(b, ROUNDING * epsilon(r), within), "LE")
    return unless(b, some(b, small, [rank(small) - 1]), r)


def _skew(b: StablehloBuilder, c: Value) -> Value:
    """tril(c, -1) - tril(c, -1)^H + i im(diag(c))."""
    below = triangle(b, c, lower=True, strict=True)
    w = b.subtract(below, adjoint(b, below))
    if not is_complex(c):
        return w
    turned = b.complex(b.zero(b.imag(c).type), b.imag(c))
    return b.select(compare_places(b, c, "EQ"), turned, w)


def _reflector_tangents(b: StablehloBuilder, v: Value, tau: Value, x: Value) -> tuple[Value, Value]:
    """Returns dV, whose entries on and above the diagonal have no meaning, and dtau, given x with dQ1 = Q x."""
    m, k = shape(v)[-2:]
    vh, one = adjoint(b, v), b.constant(1, tau)
    u = middle(b, v, tau, corner(b, vh, k, k))
    none = b.compare(tau, b.zeros_like(tau), "EQ")
    at = b.and_(compare_places(b, u, "EQ"), rows(b, none, predicate(u.type)))
    regular = b.select(at, b.constant(1, u), u)  # the 1 cancels in the last row; dtau is NaN in other rows
    d1 = b.subtract(matrix_product(b, v, middle(b, v, tau, matrix_product(b, vh, x))), x)
    d = packed_tangent(b, packed(b, v, regular, m, k), d1)
    place = with_element(tau.type, ir.IntegerType.get_signless(32))
    jumps = b.and_(none, b.compare(b.iota(rank(tau) - 1, place), b.constant(m - 1, place), "LT"))
    dtau = b.multiply(b.select(jumps, b.constant(float("nan"), tau), one), diagonal(b, corner(b, d, k, k)))
    return d, dtau
