"""LU factorization with pivots, P a = L U, as LAPACK, cuSOLVER and TPU (XLA) calls; L is packed without its diagonal.

Source: de Hoog, Anderssen, Lukas, "Differentiation of matrix functionals using triangular factorization"
(2011).
"""

import functools
import math
from collections.abc import Callable
from typing import Any

from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.dialect.bodies import RegionBuilder
from tiduc.dialect.graph import Definition
from tiduc.dialect.lapack import targets
from tiduc.dialect.matrices import compare_places, matrix_product, solve, triangle
from tiduc.dialect.types import rank, shape, with_shape
from tiduc.passes.rules.custom_call import custom_call
from tiduc.passes.rules.registry import Tangents


@custom_call(*targets("getrf"))
def getrf(b: Any, op: Definition, dx: Tangents) -> list[Any | None]:
    """The permutation follows from the pivots: row i was swapped with row pivots[i] - 1, for each i in order."""
    lu, pivots, _ = op.results
    if 0 in shape(lu):
        return [None, None, None]
    permutation = exchanged(b, b.subtract(pivots, b.constant(1, pivots)), shape(lu)[-2])
    return [packed_tangent(b, lu, rows_taken(b, dx[0], permutation)), None, None]


@custom_call("LuDecomposition")
def lu_decomposition(b: Any, op: Definition, dx: Tangents) -> list[Any | None]:
    """The permutation is the last result."""
    lu, _, permutation = op.results
    if 0 in shape(lu):
        return [None, None, None]
    return [packed_tangent(b, lu, rows_taken(b, dx[0], permutation)), None, None]


def packed_tangent(b: Any, lu: Any, dx: Any) -> Any:
    """dL below the diagonal and dU on and above it, from dx = dL U + L dU.

    With c = L1^-1 dx1 U1^-1, where 1 denotes the leading square block: dL1 = L1 tril(c, -1), dU1 = triu(c)
    U1. For tall matrices dL = dx U^-1 - L triu(c), for wide ones dU = L^-1 dx - tril(c, -1) U.
    """
    m, n = shape(lu)[-2:]
    k = min(m, n)
    square = corner(b, lu, k, k)
    if m >= n:
        y = solve(b, square, dx, left=False, lower=False, adjoint=False)
        c = solve(b, square, corner(b, y, k, k), left=True, lower=True, adjoint=False, unit=True)
        upper = triangle(b, c, lower=False)
        du = matrix_product(b, upper, triangle(b, square, lower=False))
        dl = b.subtract(y, matrix_product(b, unit_lower(b, lu), upper))
    else:
        y = solve(b, square, dx, left=True, lower=True, adjoint=False, unit=True)
        c = solve(b, square, corner(b, y, k, k), left=False, lower=False, adjoint=False)
        below = triangle(b, c, lower=True, strict=True)
        dl = matrix_product(b, unit_lower(b, square), below)
        du = b.subtract(y, matrix_product(b, below, triangle(b, lu, lower=False)))
    return packed(b, dl, du, m, n)


def packed(b: Any, lower: Any, upper: Any, m: int, n: int) -> Any:
    """m by n matrices of `lower` below the diagonal and `upper` elsewhere; neither is larger than m by n."""
    lower, upper = corner(b, lower, m, n), corner(b, upper, m, n)
    return b.select(compare_places(b, lower, "GT"), lower, upper)


def unit_lower(b: Any, x: Any) -> Any:
    """The matrices in x below the diagonal, with ones on the diagonal."""
    below = triangle(b, x, lower=True, strict=True)
    return b.select(compare_places(b, x, "EQ"), b.constant(1, x), below)


def corner(b: Any, x: Any, m: int, n: int) -> Any:
    """The first m rows and n columns of the matrices in x, with zeros where x has fewer."""
    if shape(x)[-2:] == [m, n]:
        return x
    none = [0] * (rank(x) - 2)
    high = [*none, m - shape(x)[-2], n - shape(x)[-1]]
    if max(high) <= 0:
        return b.slice(x, [0] * rank(x), [*shape(x)[:-2], m, n], [1] * rank(x))
    return b.pad(x, b.zero(with_shape(x.type, [])), [*none, 0, 0], high, [*none, 0, 0])


def rows_taken(b: Any, x: Any, at: Any) -> Any:
    """The rows of the matrices in x with the row numbers `at`."""
    *batch, m, n = shape(x)
    count = math.prod(batch)
    flat = with_shape(at.type, [count, m])
    first = b.multiply(b.iota(0, flat), b.constant(m, flat))
    indices = b.reshape(b.add(b.reshape(at, [count, m]), first), [count * m, 1])
    numbers = hlo.GatherDimensionNumbers.get([1], [0], [], [], [0], 1)
    type_ = with_shape(x.type, [count * m, n])
    return b.reshape(b.gather(b.reshape(x, [count * m, n]), indices, numbers, [1, n], type_), shape(x))


def exchanged(b: Any, pivots: Any, count: int) -> Any:
    """The numbers 0 to `count` - 1 after swapping entries i and pivots[i], for each i in order."""
    numbers = with_shape(pivots.type, [*shape(pivots)[:-1], count])
    scalar = with_shape(pivots.type, [])
    operands = (b.zero(scalar), b.iota(rank(pivots) - 1, numbers), pivots)
    fills = _exchange(numbers, pivots.type)
    return b.emit_all("stablehlo.while", operands, [x.type for x in operands], {}, fills)[1]


@functools.cache  # the builder shares regions that one function fills
def _exchange(numbers: Any, pivots: Any) -> tuple[Callable[[Any], None], Callable[[Any], None]]:
    """The condition and the body of the loop over i. Selects instead of updates let it work on batched matrices."""
    last = pivots.rank - 1
    types = [with_shape(pivots, []), numbers, pivots]

    def condition(region: Any) -> None:
        body = RegionBuilder(region, types, ir.Location.unknown())
        i, _, _ = body.arguments
        body.returns(body.compare(i, body.constant(pivots.shape[last], i.type), "LT"))

    def exchange(region: Any) -> None:
        body = RegionBuilder(region, types, ir.Location.unknown())
        i, x, of = body.arguments
        start, one = [*[body.zero(i.type)] * last, i], [*pivots.shape[:last], 1]

        def everywhere(value: Any) -> Any:
            return body.broadcast_in_dim(value, range(len(value.type.shape)), x.type)

        other = everywhere(body.dynamic_slice(of, start, one))
        there = body.compare(body.iota(last, x.type), other, "EQ")
        here = body.compare(body.iota(last, x.type), everywhere(i), "EQ")
        at_other = body.reduce_sum(body.select(there, x, body.zero(x.type)), [last])
        at_i = everywhere(body.dynamic_slice(x, start, one))
        moved = body.select(here, everywhere(at_other), body.select(there, at_i, x))
        body.returns(body.add(i, body.constant(1, i.type)), moved, of)

    return condition, exchange
