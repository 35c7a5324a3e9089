"""`numpy.linalg` on eager arrays: LAPACK's factorizations, and functions that use them.

The last two dimensions of an array form a matrix, and the dimensions before them are a batch. Results and errors are as
in NumPy. `cholesky` and `eigh` read one triangle of a matrix, and have derivatives with respect to this triangle.
"""

import math
from collections.abc import Sequence
from string import ascii_letters
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from torch_mlir import ir

from tiduc.dialect.emitters.matrices import (
    corner,
    diagonal,
    lu,
    solve_by_lu,
    some,
    triangle,
)
from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.facts.lapack import lapack_call
from tiduc.dialect.graph.graph import Value
from tiduc.dialect.ops.control_ops import CUSTOM_CALL
from tiduc.dialect.shapes.types import element, is_complex, is_empty, shape, with_element, with_shape
from tiduc.eager.array import Array, valued
from tiduc.eager.elementwise import broadcast, convert, converted
from tiduc.eager.graphs import Emit
from tiduc.eager.record import EagerInput
from tiduc.eager.registry import NumpyFunction, Result, implements
from tiduc.eager.session import session

LinAlgError = np.linalg.LinAlgError
_DEFAULT: Any = np._NoValue


def _floating(x: ArrayLike) -> EagerInput:
    """The value of an array, with integers converted to f64. Raises `TypeError` for floats that LAPACK lacks."""
    value = valued(x)
    if value.data.dtype.kind in "iub":
        value = convert(value, np.dtype("f8"))
    if value.data.dtype.char not in "fdFD":
        raise TypeError(f"array type {value.data.dtype} is unsupported in linalg")
    return value


def _matrices(x: ArrayLike, square: bool = False) -> EagerInput:
    value = _floating(x)
    sizes = value.data.shape
    if len(sizes) < 2:
        raise LinAlgError(f"{len(sizes)}-dimensional array given. Array must be at least two-dimensional")
    if square and sizes[-1] != sizes[-2]:
        raise LinAlgError("Last 2 dimensions of the array must be square")
    return value


def _factors(name: str, emit: Emit, *values: EagerInput, failure: str = "") -> list[Array]:
    """Runs a factorization, and returns its results as arrays.

    With `failure`, the last result is a status that is not returned. Raises `LinAlgError` if a status is nonzero.
    """
    results = session().apply(("linalg", name), emit, values)
    if failure and results.pop().data.any():
        raise LinAlgError(failure)
    return [Array.of(y) for y in results]


def _named(function: NumpyFunction, *fields: Array) -> Result:
    """Returns the fields in a named tuple of the type that NumPy's `function` returns."""
    return type(function(np.eye(1)))(*fields)


# ---- LU ----------------------------------------------------------------------------------------------------


@implements(np.linalg.solve)
def solve(a: ArrayLike, b: ArrayLike) -> Array:
    matrix, right = _matrices(a, square=True), _floating(b)
    is_vector = right.data.ndim == 1
    if is_vector:
        right = Array.of(right).reshape(-1, 1).value
    batch = np.broadcast_shapes(matrix.data.shape[:-2], right.data.shape[:-2])
    dtype = np.result_type(matrix.data.dtype, right.data.dtype)

    def emit(b: StablehloBuilder, x: Value, y: Value) -> list[Value]:
        x, y = (broadcast(b, converted(b, v, dtype), [*batch, *shape(v)[-2:]]) for v in (x, y))
        if is_empty(y):
            return [y, b.zero(with_element(with_shape(y.type, batch), ir.IntegerType.get_signless(32)))]
        return list(solve_by_lu(b, x, y))

    (x,) = _factors("solve", emit, matrix, right, failure="Singular matrix")
    return x[..., 0] if is_vector else x


@implements(np.linalg.inv)
def inv(a: ArrayLike) -> Array:
    matrix = _matrices(a, square=True)
    return solve(Array.of(matrix), np.eye(matrix.data.shape[-1], dtype=matrix.data.dtype))


def _determinant(a: ArrayLike) -> list[Array]:
    """Returns the sign of the determinant, the logarithm of its absolute value, and the determinant.

    For real matrices, the ops match the pattern for which `passes/rules/determinant.py` has derivatives at singular
    matrices. For complex matrices, the determinant is the product of the pivots. Its derivative is not finite if a
    pivot before the last one is 0.
    """

    def emit(b: StablehloBuilder, a: Value) -> list[Value]:
        factors, pivots, _ = lu(b, a)
        d, last = diagonal(b, factors), len(shape(a)) - 2
        own = b.add(b.iota(last, pivots.type), b.constant(1, pivots))
        swaps = b.select(b.compare(pivots, own, "NE"), b.constant(-1, d), b.constant(1, d))
        total = b.reduce_sum(b.log(b.abs(d)), [last])
        if is_complex(a):
            sign, value = (_product(b, b.multiply(swaps, x), last) for x in (b.sign(d), d))
            return [sign, total, value]
        zero, one = b.zeros_like(d), b.constant(1, d)
        negative = b.select(b.compare(d, zero, "LT"), b.constant(-1, d), one)
        sign = _product(b, b.multiply(swaps, negative), last)
        is_singular = some(b, b.compare(d, zero, "EQ"), [last])
        log = b.select(is_singular, b.constant(-math.inf, total), total)
        sign = b.select(is_singular, b.zeros_like(sign), sign)
        return [sign, log, b.multiply(sign, b.exponential(log))]

    return _factors("det", emit, _matrices(a, square=True))


def _product(b: StablehloBuilder, x: Value, dimension: int) -> Value:
    return b.reduce(x, b.constant(1, with_shape(x.type, [])), [dimension], "stablehlo.multiply")


@implements(np.linalg.slogdet)
def slogdet(a: ArrayLike) -> Result:
    return _named(np.linalg.slogdet, *_determinant(a)[:2])


@implements(np.linalg.det)
def det(a: ArrayLike) -> Array:
    return _determinant(a)[2]


# ---- other factorizations ----------------------------------------------------------------------------------


def _call(
    b: StablehloBuilder,
    routine: str,
    operands: Sequence[Value],
    ranks: Sequence[int],
    results: Sequence[tuple[Sequence[int], ir.Type]],
    settings: str = "",
) -> tuple[Value, ...]:
    """Calls a LAPACK routine. `results` has the sizes, without the batch, and the element type of each result."""
    a = operands[0]
    batch = shape(a)[:-2]
    types = [with_element(with_shape(a.type, [*batch, *sizes]), of) for sizes, of in results]
    call = lapack_call(routine, element(a), ranks, [len(sizes) for sizes, _ in results], len(batch), settings)
    return b.emit_all(CUSTOM_CALL, operands, types, call)


def _real(x: Value) -> ir.Type:
    of = element(x)
    part: ir.Type = of.element_type if isinstance(of, ir.ComplexType) else of
    return part


def _status() -> tuple[Sequence[int], ir.Type]:
    return (), ir.IntegerType.get_signless(32)


@implements(np.linalg.cholesky)
def cholesky(a: ArrayLike, upper: bool = False) -> Array:
    def emit(b: StablehloBuilder, a: Value) -> list[Value]:
        settings = {"lower": ir.BoolAttr.get(not upper)}
        factor = triangle(b, b.emit("stablehlo.cholesky", (a,), a.type, settings), lower=not upper)
        is_nan = b.compare(b.real(factor), b.real(factor), "NE")
        return [factor, is_nan]

    name = f"cholesky {upper}"
    (factor,) = _factors(name, emit, _matrices(a, square=True), failure="Matrix is not positive definite")
    return factor


@implements(np.linalg.qr)
def qr(a: ArrayLike, mode: str = "reduced") -> Result:
    if mode not in ("reduced", "complete", "r"):
        raise ValueError(f"np.linalg.qr of eager arrays has no mode {mode!r}: reduced, complete or r")

    def emit(b: StablehloBuilder, a: Value) -> list[Value]:
        m, n = shape(a)[-2:]
        k, of = min(m, n), element(a)
        packed, tau = _call(b, "geqrf", [a], [2], [((m, n), of), ((k,), of)])
        width = m if mode == "complete" else k
        r = triangle(b, corner(b, packed, width, n), lower=False)
        if mode == "r":
            return [r]
        q = _call(b, "orgqr", [corner(b, packed, m, width), tau], [2, 1], [((m, width), of)])
        return [*q, r]

    factors = _factors(f"qr {mode}", emit, _matrices(a))
    return factors[0] if mode == "r" else _named(np.linalg.qr, *factors)


def _singular(a: ArrayLike, full: bool) -> list[Array]:
    """Returns U, the singular values, and the adjoint of V. If `full`, U and V are square matrices."""

    def emit(b: StablehloBuilder, a: Value) -> list[Value]:
        m, n = shape(a)[-2:]
        k, of = min(m, n), element(a)
        results = [
            ((m, n), of),
            ((k,), _real(a)),
            ((m, m if full else k), of),
            ((n if full else k, n), of),
            _status(),
        ]
        mode = f"mode = {ord('A' if full else 'S')} : ui8"
        _, s, u, vh, status = _call(b, "gesdd", [a], [2], results, mode)
        return [u, s, vh, status]

    return _factors(f"svd {full}", emit, _matrices(a), failure="SVD did not converge")


@implements(np.linalg.svd)
def svd(a: ArrayLike, full_matrices: bool = True, compute_uv: bool = True) -> Result:
    return _named(np.linalg.svd, *_singular(a, full_matrices)) if compute_uv else svdvals(a)


@implements(np.linalg.svdvals)
def svdvals(x: ArrayLike) -> Array:
    return _singular(x, False)[1]


@implements(np.linalg.eigh)
def eigh(a: ArrayLike, UPLO: str = "L") -> Result:
    if UPLO.upper() not in ("L", "U"):
        raise ValueError("UPLO argument must be 'L' or 'U'")

    def emit(b: StablehloBuilder, a: Value) -> list[Value]:
        n = shape(a)[-1]
        settings = f"mode = {ord('V')} : ui8, uplo = {ord(UPLO.upper())} : ui8"
        results = [((n, n), element(a)), ((n,), _real(a)), _status()]
        vectors, values, status = _call(b, "syevd", [a], [2], results, settings)
        return [values, vectors, status]

    value = _matrices(a, square=True)
    found = _factors(f"eigh {UPLO.upper()}", emit, value, failure="Eigenvalues did not converge")
    return _named(np.linalg.eigh, *found)


@implements(np.linalg.eigvalsh)
def eigvalsh(a: ArrayLike, UPLO: str = "L") -> Array:
    values: Array = eigh(a, UPLO).eigenvalues
    return values


@implements(np.linalg.eig)
def eig(a: ArrayLike) -> Result:
    """The eigenvalues and right eigenvectors. As in NumPy, they are real if `a` and all eigenvalues are real."""

    def emit(b: StablehloBuilder, a: Value) -> list[Value]:
        n, of = shape(a)[-1], ir.ComplexType.get(_real(a))
        values = [((n,), element(a))] * (1 if is_complex(a) else 2)
        settings = f"compute_left = {ord('N')} : ui8, compute_right = {ord('V')} : ui8"
        results = [*values, ((n, n), of), ((n, n), of), _status()]
        routine = "geev" if is_complex(a) else "geev of reals"
        *parts, _, right, status = _call(b, routine, [a], [2], results, settings)
        return [parts[0] if is_complex(a) else b.complex(*parts), right, status]

    value = _matrices(a, square=True)
    found = _factors("eig", emit, value, failure="Eigenvalues did not converge")
    if value.data.dtype.kind != "c" and not found[0].data.imag.any():
        found = [y.real.copy() for y in found]
    return _named(np.linalg.eig, *found)


@implements(np.linalg.eigvals)
def eigvals(a: ArrayLike) -> Array:
    values: Array = eig(a).eigenvalues
    return values


# ---- functions of factorizations ---------------------------------------------------------------------------


@implements(np.linalg.pinv)
def pinv(a: ArrayLike, rcond: ArrayLike | None = None, rtol: ArrayLike | None = _DEFAULT) -> Result:
    """The pseudo-inverse. Singular values up to `rcond` (or `rtol`) times the largest one are treated as zeros."""
    u, s, vh = map(_any, _singular(a, False))
    if rcond is None and rtol is None:
        rcond = max(u.shape[-2], vh.shape[-1]) * float(np.finfo(s.dtype).eps)
    elif rcond is None:
        rcond = 1e-15 if rtol is _DEFAULT else rtol
    kept = s.data > np.asarray(rcond)[..., None] * np.max(s.data, axis=-1, keepdims=True, initial=0)
    inverse = np.where(kept, 1 / np.where(kept, s, 1), 0)
    return np.conj(np.matrix_transpose(vh)) @ (inverse[..., None] * np.conj(np.matrix_transpose(u)))


def _any(x: Array) -> Result:
    """Returns x with the type `Any`, because NumPy's type annotations do not accept eager arrays."""
    return x


@implements(np.linalg.matrix_power)
def matrix_power(a: ArrayLike, n: int) -> Result:
    power: Any = Array.of(valued(a))
    if n < 0:
        power, n = inv(power), -n
    result = None if n else power * 0 + np.eye(power.shape[-1], dtype=power.dtype)
    while n:
        if n % 2:
            result = power if result is None else result @ power
        power, n = power @ power if n > 1 else power, n // 2
    return result


@implements(np.linalg.multi_dot)
def multi_dot(arrays: Sequence[ArrayLike]) -> Result:
    """The product of the arrays. opt_einsum chooses an order of the multiplications that takes few operations."""
    values = [_any(Array.of(valued(x))) for x in arrays]
    labels = [ascii_letters[i : i + 2] for i in range(len(values))]
    result = ["", ""]
    for end, last in ((0, 1), (-1, 0)):
        if values[end].ndim == 1:  # the vector has only the inner label
            labels[end] = labels[end][last]
        else:
            result[end] = labels[end][1 - last]
    return np.einsum(f"{','.join(labels)}->{''.join(result)}", *values, optimize=True)


@implements(np.linalg.tensorinv)
def tensorinv(a: ArrayLike, ind: int = 2) -> Result:
    x: Any = Array.of(valued(a))
    n = math.prod(x.shape[ind:])
    return inv(x.reshape(-1, n)).reshape(*x.shape[ind:], *x.shape[:ind])
