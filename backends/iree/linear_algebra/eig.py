"""Eigenvalues and eigenvectors of square matrices, for LAPACK's geev, by the QR algorithm.

a = z t z^H: reflections reduce a to Hessenberg form, with one diagonal below the main one. Steps of the QR
algorithm, each with a shift, make that triangular; substitution gives the vectors of t. Real matrices are
converted to complex ones. Vectors have length one, and a real largest component.

Source: Golub and Van Loan, "Matrix Computations" (2013), chapter 7; exceptional shifts: LAPACK's zlahqr.
"""

from collections.abc import Sequence
from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.calls import legalize_call
from tiduc.backends.iree.emitter import Emitter
from tiduc.backends.iree.lapack import info_type, on_host
from tiduc.backends.iree.linear_algebra.hessenberg import hessenberg, triangular
from tiduc.backends.iree.linear_algebra.matrices import (
    adjoint,
    as_element,
    as_scalar,
    batched,
    checked,
    compared,
    diagonal,
    epsilon,
    everywhere,
    largest,
    loop,
    masked,
    places,
    product,
    quotient,
    real_type,
    restored,
    scale,
    settings,
    sizes,
    spread,
    squares,
    summed,
)
from tiduc.dialect.lapack import targets
from tiduc.dialect.types import is_complex, is_empty, shape, with_element, with_shape


@legalize_call(*targets("geev", "geev of reals"))
def geev(b: Emitter, op: Any) -> Sequence[Any]:
    """Values in no order, the vectors asked for, and `info` as in `syevd`."""
    (a,) = checked(op).operands
    *of_w, vl, vr, info = op.results
    if is_empty(a):
        return [b.zero(y.type) for y in op.results]
    given = settings(op)
    left, right = (
        given.get(f"compute_{side}", given.get(side)) in (True, ord("V")) for side in ("left", "right")
    )
    x = batched(b, a)
    if b.lapack and not left:  # NumPy has no left vectors
        w, of_right, failed = _of_lapack(b, x, right)
        vectors = [None, of_right]
    else:
        z = x if is_complex(x) else b.complex(x, b.zeros_like(x))
        w, t, z, failed = _schur(b, z, not is_complex(x))
        vectors = [_left_vectors(b, t, z) if left else None, _vectors(b, t, z) if right else None]
    results = [w] if len(of_w) == 1 else [b.real(w), b.imag(w)]
    results += [b.zero(y.type) if v is None else v for v, y in zip(vectors, (vl, vr), strict=True)]
    return [restored(b, y, result.type) for y, result in zip((*results, failed), op.results, strict=True)]


def _of_lapack(b: Emitter, x: Any, vectors: bool) -> tuple[Any, Any, Any]:
    """Values, vectors and `info`, by LAPACK on the host."""
    complex_ = with_element(x.type, ir.ComplexType.get(real_type(x)))
    values = with_shape(complex_, shape(x)[:2])
    if vectors:
        w, v, failed = on_host(b, "eig", [x], [values, complex_, info_type(x)])
        return w, v, failed
    w, failed = on_host(b, "eigvals", [x], [values, info_type(x)])
    return w, None, failed


def _schur(b: Emitter, x: Any, real: bool) -> tuple[Any, Any, Any, Any]:
    """Eigenvalues, t of the scaled matrix, z, and `info`; matrices that are not finite are replaced by zero."""
    unit = scale(b, largest(b, sizes(b, x), [1, 2]))
    x = quotient(b, x, everywhere(b, unit, x))
    total = b.reduce_sum(squares(b, x), [1, 2])
    finite = b.compare(total, b.constant(float("inf"), total), "LT")
    x = masked(b, everywhere(b, finite, x), x)
    t, z, left = triangular(b, *hessenberg(b, x))
    w = diagonal(b, t)
    if real:
        w = _real_if_close(b, w, b.sqrt(total))
    w = b.multiply(w, as_element(b, everywhere(b, unit, w), w))
    failed = b.or_(b.compare(left, b.zeros_like(left), "GT"), b.not_(finite))
    return w, t, z, b.convert(failed, ir.IntegerType.get_signless(32))


def _real_if_close(b: Emitter, w: Any, norm: Any) -> Any:
    """Values, with imaginary parts of at most n epsilon times the norm set to zero."""
    re, im = b.real(w), b.imag(w)
    rounding = b.multiply(norm, b.constant(shape(w)[1] * epsilon(w), norm))
    close = b.compare(b.abs(im), everywhere(b, rounding, im), "LE")
    return b.complex(re, b.select(close, b.zeros_like(im), im))


def _left_vectors(b: Emitter, t: Any, z: Any) -> Any:
    """The vectors of the adjoint, which is upper triangular with its rows and columns reversed."""
    turned = b.reverse(adjoint(b, t), [1, 2])
    return b.reverse(_vectors(b, turned, b.reverse(z, [2])), [2])


def _vectors(b: Emitter, t: Any, z: Any) -> Any:
    """z times the vectors of t, scaled to length one and a real largest component."""
    v = product(b, z, _substituted(b, t))
    top = largest(b, sizes(b, v), [1])
    v = quotient(b, v, spread(b, top, [0, 2], v))
    size = squares(b, v)
    count, n, _ = shape(v)
    most = spread(b, largest(b, size, [1]), [0, 2], size)
    place = places(b, v, 1)
    at = b.select(b.compare(size, most, "EQ"), place, b.constant(n, place))
    first = b.reduce(at, as_scalar(b, n), [1], "stablehlo.minimum")
    chosen = b.compare(place, spread(b, first, [0, 2], place), "EQ")
    pivot = summed(b, masked(b, chosen, v), [1])
    phase = quotient(b, b.conj(pivot), b.sqrt(squares(b, pivot)))
    v = b.multiply(v, spread(b, phase, [0, 2], v))
    v = b.select(chosen, as_element(b, b.real(v), v), v)
    return quotient(b, v, spread(b, b.sqrt(b.reduce_sum(squares(b, v), [1])), [0, 2], v))


def _substituted(b: Emitter, t: Any) -> Any:
    """The vectors of triangular matrices, triangular as well, for all columns at once, from the last row on.

    Gaps between values are at least epsilon times the largest entry of t; columns that grow are scaled.
    """
    count, n, _ = shape(t)
    w = diagonal(b, t)
    least = largest(b, sizes(b, t), [1, 2])
    least = b.multiply(least, b.constant(epsilon(t), least))
    # x is zero below its diagonal, and so is the product of these entries with it.
    row, column = places(b, t, 1), places(b, t, 2)
    above = masked(b, b.compare(row, column, "LT"), t)

    def body(b: Emitter, k: Any, x: Any) -> Sequence[Any]:
        zero, i = b.zeros_like(k), b.subtract(as_scalar(b, n - 1), k)
        rest = b.negate(product(b, b.dynamic_slice(above, (zero, i, zero), [count, 1, n]), x))
        own = everywhere(b, b.dynamic_slice(w, (zero, i), [count, 1]), w)
        gaps = b.reshape(b.subtract(own, w), [count, 1, n])
        close = b.compare(sizes(b, gaps), spread(b, least, [0], b.real(gaps)), "LT")
        gaps = b.select(close, as_element(b, spread(b, least, [0], b.real(gaps)), gaps), gaps)
        safe = b.select(b.compare(gaps, b.zeros_like(gaps), "EQ"), b.constant(1, gaps), gaps)
        place = places(b, rest, 2)
        new = masked(b, compared(b, place, i, "GT"), quotient(b, rest, safe))
        new = b.select(compared(b, place, i, "EQ"), b.constant(1, new), new)
        size = b.maximum(sizes(b, new), b.constant(1, sizes(b, new)))
        x = b.select(compared(b, row, i, "EQ"), everywhere(b, new, x), x)
        return [quotient(b, x, everywhere(b, size, x))]

    return loop(b, n, [b.zeros_like(t)], body)[0]
