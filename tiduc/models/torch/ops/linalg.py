"""Decompositions of PyTorch's linear algebra into factorizations, triangular solves and matrix products.

The last two dimensions of a tensor are those of a matrix. If a factorization fails, PyTorch raises an error, but the
decompositions return NaN.
"""

from itertools import combinations
from math import factorial, prod
from typing import Any

from tiduc.dialect.errors import Unsupported
from tiduc.models.torch.ops import factorizations as lapack
from tiduc.models.torch.ops.complexes import eye
from tiduc.models.torch.ops.framework import TABLE, aten, decomposes, torch

# ---- LU ----------------------------------------------------------------------------------------------------


def _split(factors: torch.Tensor) -> tuple[Any, Any]:
    """Splits the packed result of an LU factorization into L and U."""
    m, n = factors.shape[-2:]
    k = min(m, n)
    lower = torch.tril(factors[..., :k], -1) + eye(m, k, factors)
    return lower, torch.triu(factors[..., :k, :])


def _permuted(b: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    batch = torch.broadcast_shapes(b.shape[:-2], rows.shape[:-1])
    rows = rows.unsqueeze(-1).expand(*batch, *b.shape[-2:])
    return torch.gather(b.expand(*batch, *b.shape[-2:]), -2, rows)


def _solved(
    factors: torch.Tensor, pivots: torch.Tensor, b: torch.Tensor, adjoint: bool = False
) -> torch.Tensor:
    """The solution X of A X = B, or of A^H X = B if `adjoint`, given the LU factors of A."""
    rows = lapack.order(pivots, factors.shape[-1])
    if adjoint:
        y = lapack.triangular(factors, b, upper=True, transpose="ADJOINT")
        x = lapack.triangular(factors, y, upper=False, unit=True, transpose="ADJOINT")
        return _permuted(x, torch.argsort(rows, -1))
    y = lapack.triangular(factors, _permuted(b, rows), upper=False, unit=True)
    return lapack.triangular(factors, y, upper=True)


def _sign(pivots: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """The determinant of the permutation that the pivots describe: 1 or -1."""
    swaps = (pivots != torch.arange(1, pivots.shape[-1] + 1, dtype=torch.int32)).sum(-1)
    return (1 - 2 * (swaps % 2)).to(like.dtype)


@decomposes(aten._linalg_solve_ex.default)
def solve_ex(a: torch.Tensor, b: torch.Tensor, left: bool = True, check_errors: bool = False) -> Any:
    is_vector = b.dim() == 1 or (a.dim() - 1 == b.dim() and b.shape == a.shape[:-1])
    matrix, right = (a, b.unsqueeze(-1) if is_vector else b) if left or is_vector else (a.mT, b.mT)
    factors, pivots, info = lapack.lu(matrix)
    x = _solved(factors, pivots, right)
    x = x.squeeze(-1) if is_vector else x if left else x.mT
    return x, factors, pivots, info


@decomposes(aten.linalg_inv_ex.default)
def inv_ex(x: torch.Tensor, check_errors: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    n = x.shape[-1]
    factors, pivots, info = lapack.lu(x)
    return _solved(factors, pivots, eye(n, n, x).expand_as(x)), info


POLYNOMIAL = 4
"""The determinant of a matrix with at most this number of rows is computed as a polynomial in the elements.

The derivatives of a polynomial are finite at every matrix.
"""


@decomposes(aten._linalg_det.default)
def det(x: torch.Tensor) -> Any:
    """The determinant: a polynomial in the elements for at most `POLYNOMIAL` rows, otherwise the product of pivots.

    The derivatives of this product are finite unless a pivot before the last one is exactly 0.
    """
    factors, pivots, _ = lapack.lu(x)
    if 0 < x.shape[-1] <= POLYNOMIAL:
        return _polynomial(x), factors, pivots
    diagonal = torch.diagonal(factors, dim1=-2, dim2=-1)
    return torch.prod(diagonal, -1) * _sign(pivots, x), factors, pivots


def _polynomial(x: torch.Tensor) -> torch.Tensor:
    """The determinant by Laplace expansion: computes the minors of the last row, then of the last two rows, etc."""
    n = x.shape[-1]
    minors: dict[tuple[int, ...], Any] = {(i,): x[..., n - 1, i] for i in range(n)}
    for row in reversed(range(n - 1)):
        entries = [x[..., row, i] for i in range(n)]
        minors = {
            chosen: sum(
                (-1) ** k * entries[i] * minors[chosen[:k] + chosen[k + 1 :]] for k, i in enumerate(chosen)
            )
            for chosen in combinations(range(n), n - row)
        }
    return minors[tuple(range(n))]


@decomposes(aten._linalg_slogdet.default)
def slogdet(x: torch.Tensor) -> Any:
    factors, pivots, _ = lapack.lu(x)
    diagonal = torch.diagonal(factors, dim1=-2, dim2=-1)
    sign = torch.prod(torch.sgn(diagonal), -1) * _sign(pivots, x)
    return sign, torch.log(torch.abs(diagonal)).sum(-1), factors, pivots


@decomposes(aten.linalg_lu_factor_ex.default)
def lu_factor_ex(
    x: torch.Tensor, pivot: bool = True, check_errors: bool = False
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    _refuse(not pivot, "an LU factorization without pivots")
    return lapack.lu(x)


@decomposes(aten.linalg_lu.default)
def lu(x: torch.Tensor, pivot: bool = True) -> Any:
    _refuse(not pivot, "an LU factorization without pivots")
    return lu_unpack(*lapack.lu(x)[:2])


@decomposes(aten.lu_unpack.default)
def lu_unpack(
    factors: torch.Tensor, pivots: torch.Tensor, unpack_data: bool = True, unpack_pivots: bool = True
) -> Any:
    m = factors.shape[-2]
    rows = lapack.order(pivots, m)
    permutation = (rows.unsqueeze(-2) == torch.arange(m).unsqueeze(-1)).to(factors.dtype)
    return permutation, *_split(factors)


@decomposes(aten.linalg_lu_solve.default)
def lu_solve(
    factors: torch.Tensor, pivots: torch.Tensor, b: torch.Tensor, left: bool = True, adjoint: bool = False
) -> torch.Tensor:
    return _solved(factors, pivots, b, adjoint) if left else _solved(factors, pivots, b.mH, not adjoint).mH


# ---- triangular and definite matrices ----------------------------------------------------------------------


@decomposes(aten.linalg_solve_triangular.default)
def solve_triangular(
    a: torch.Tensor, b: torch.Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> torch.Tensor:
    return lapack.triangular(a, b, upper=upper, left=left, unit=unitriangular)


@decomposes(aten.triangular_solve.default)
def triangular_solve(
    b: torch.Tensor, a: torch.Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> Any:
    kind = "TRANSPOSE" if transpose else "NO_TRANSPOSE"
    return lapack.triangular(a, b, upper=upper, unit=unitriangular, transpose=kind), a.clone()


@decomposes(aten.linalg_cholesky_ex.default)
def cholesky_ex(x: torch.Tensor, *, upper: bool = False, check_errors: bool = False) -> Any:
    return cholesky(x, upper=upper), lapack.not_definite(x, upper)


@decomposes(aten.linalg_cholesky.default)
def cholesky(x: torch.Tensor, *, upper: bool = False) -> torch.Tensor:
    lower = lapack.cholesky(x, upper)
    return lower.mH if upper else lower


@decomposes(aten.cholesky_solve.default)
def cholesky_solve(b: torch.Tensor, factor: torch.Tensor, upper: bool = False) -> torch.Tensor:
    lower = factor.mH if upper else factor
    y = lapack.triangular(lower, b, upper=False)
    return lapack.triangular(lower, y, upper=False, transpose="ADJOINT")


@decomposes(aten.cholesky_inverse.default)
def cholesky_inverse(factor: torch.Tensor, upper: bool = False) -> torch.Tensor:
    return cholesky_solve(eye(factor.shape[-1], factor.shape[-1], factor).expand_as(factor), factor, upper)


# ---- orthogonal factorizations -----------------------------------------------------------------------------


@decomposes(aten.linalg_qr.default)
def qr(x: torch.Tensor, mode: str = "reduced") -> Any:
    m, n = x.shape[-2:]
    packed, tau = lapack.reflectors(x)
    if mode == "r":
        return x.new_empty([0]), torch.triu(packed[..., : min(m, n), :])
    k = m if mode == "complete" else min(m, n)
    # The rule of `orgqr` recognizes only the result of `geqrf` itself, so no pad of width 0 may be emitted.
    columns = torch.nn.functional.pad(packed, (0, k - n)) if k > n else packed[..., :k] if k < n else packed
    return lapack.product(columns, tau), torch.triu(packed[..., :k, :])


TABLE[aten.geqrf.default] = lapack.reflectors
TABLE[aten.linalg_householder_product.default] = lapack.product


@decomposes(aten.ormqr.default)
def ormqr(
    x: torch.Tensor, tau: torch.Tensor, b: torch.Tensor, left: bool = True, transpose: bool = False
) -> torch.Tensor:
    m = x.shape[-2]
    q = lapack.product(torch.nn.functional.pad(x, (0, m - x.shape[-1])), tau)
    q = q.mH if transpose else q
    return q @ b if left else b @ q


@decomposes(aten._linalg_svd.default)
def svd(
    x: torch.Tensor, full_matrices: bool = False, compute_uv: bool = True, driver: str | None = None
) -> Any:
    u, s, vh = lapack.singular(x, full_matrices and compute_uv)
    return (u, s, vh) if compute_uv else (x.new_empty([0]), s, x.new_empty([0]))


@decomposes(aten.linalg_pinv.atol_rtol_tensor)
def pinv(
    x: torch.Tensor,
    *,
    atol: torch.Tensor | None = None,
    rtol: torch.Tensor | None = None,
    hermitian: bool = False,
) -> torch.Tensor:
    if hermitian:
        s, u = lapack.hermitian(x)
        vh, size = u.mH, torch.abs(s)
    else:
        u, s, vh = lapack.singular(x)
        size = s
    default = torch.finfo(x.dtype).eps * max(x.shape[-2:]) if atol is None else 0.0
    least = size.amax(-1, keepdim=True) * (default if rtol is None else rtol.unsqueeze(-1))
    least = least if atol is None else torch.maximum(least, atol.unsqueeze(-1))
    inverse = torch.where(size > least, 1 / torch.where(size > least, s, 1), 0)
    return (vh.mH * inverse.unsqueeze(-2).to(x.dtype)) @ u.mH


# ---- eigenvalues -------------------------------------------------------------------------------------------


@decomposes(aten._linalg_eigh.default)
def eigh(x: torch.Tensor, uplo: str = "L", compute_v: bool = True) -> Any:
    values, vectors = lapack.hermitian(x, uplo.upper() == "U")
    return values, vectors if compute_v else x.new_empty([0])


TABLE[aten.linalg_eig.default] = lapack.general
TABLE[aten._linalg_eigvals.default] = TABLE[aten.linalg_eigvals.default] = lambda x: lapack.general(x)[0]


# ---- functions of a matrix ---------------------------------------------------------------------------------


@decomposes(aten.linalg_matrix_exp.default)
def matrix_exp(x: torch.Tensor) -> torch.Tensor:
    """The matrix exponential, by the Pade approximant of order 13 with scaling and squaring.

    Source: Higham 2005, SIAM J. Matrix Anal. Appl. 26.
    """
    order, greatest, squarings = 13, 5.371920351148152, 16
    norm = torch.abs(x.detach()).sum(-2).amax(-1)
    times = torch.clamp(torch.ceil(torch.log2(norm / greatest)), 0, squarings)[..., None, None]
    scaled = x * torch.exp2(-times).to(x.dtype)
    coefficients = [
        factorial(2 * order - j)
        * factorial(order)
        / (factorial(2 * order) * factorial(j) * factorial(order - j))
        for j in range(order + 1)
    ]
    power = square = scaled @ scaled
    unit = eye(x.shape[-1], x.shape[-1], x)
    even, odd = coefficients[0] * unit, coefficients[1] * unit
    for j in range(2, order, 2):
        even, odd = even + coefficients[j] * power, odd + coefficients[j + 1] * power
        power = power @ square
    odd = scaled @ odd
    y = solve_ex(even - odd, even + odd)[0]
    for i in range(squarings):
        is_squared = times > i
        safe = torch.where(is_squared, y, 0)  # so that a square that is not selected cannot overflow
        y = torch.where(is_squared, safe @ safe, y)
    return y


# ---- functions that check for failure ----------------------------------------------------------------------

# PyTorch's own decompositions of these ops raise an error if `info` is not 0, which an exported program cannot do.
# The decompositions below ignore `info`.


@decomposes(aten.linalg_ldl_factor.default, aten.linalg_ldl_factor_ex.default, aten.linalg_ldl_solve.default)
def ldl(*arguments: object, **keywords: object) -> Any:
    raise Unsupported("torch.linalg.ldl_factor has no lowering to StableHLO; use torch.linalg.lu_factor")


def tensorinv(x: torch.Tensor, ind: int = 2) -> torch.Tensor:
    n = prod(x.shape[ind:])
    return inv_ex(x.reshape(n, n))[0].reshape(*x.shape[ind:], *x.shape[:ind])


TABLE[aten.cholesky.default] = lambda x, upper=False: cholesky(x, upper=upper)
TABLE[aten.linalg_inv.default] = TABLE[aten.inverse.default] = lambda x: inv_ex(x)[0]
TABLE[aten.linalg_tensorinv.default] = tensorinv
TABLE[aten.linalg_lu_factor.default] = lambda x, pivot=True: lu_factor_ex(x, pivot)[:2]
TABLE[aten.linalg_solve.default] = lambda a, b, left=True: solve_ex(a, b, left)[0]


def _refuse(condition: bool, case: str) -> None:
    if condition:
        raise Unsupported(f"{case} is not supported")
