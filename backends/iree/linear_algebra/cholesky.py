"""Cholesky factors, for StableHLO's op and for LAPACK's potrf and its variants."""

from collections.abc import Sequence
from typing import Any

from tiduc.backends.iree.calls import legalize_call
from tiduc.backends.iree.emitter import Emitter, legalize
from tiduc.backends.iree.fault import Fault
from tiduc.backends.iree.lapack import on_host
from tiduc.backends.iree.linear_algebra.matrices import (
    BLOCK,
    adjoint,
    as_element,
    as_scalar,
    batched,
    blocks,
    checked,
    compared,
    diagonal,
    failed_at,
    is_lower,
    loop,
    masked,
    on_diagonal,
    places,
    product,
    quotient,
    resized,
    restored,
    spread,
)
from tiduc.backends.iree.linear_algebra.roots import rooted
from tiduc.dialect.lapack import targets
from tiduc.dialect.types import is_empty, shape
from tiduc.passes.rules.triangular_solve import compare_places


@legalize(
    "stablehlo.cholesky",
    fault=Fault(
        "missing",
        "IREE lacks it; emits L with a = L L^H, by blocks of columns, or in one dispatch on CPUs.",
        witness="cholesky",
    ),
)
def cholesky(b: Emitter, op: Any) -> Sequence[Any] | None:
    """L with a = L L^H, by blocks of columns, or in one dispatch on CPUs.

    An upper factor is the adjoint of the adjoint's lower factor. The other triangle of the result is zero.
    """
    (a,) = checked(op).operands
    if is_empty(a):
        return [a]
    lower = "lower" in op.attributes and op.attributes["lower"].value
    return [restored(b, _factor(b, batched(b, a), lower), op.results[0].type)]


@legalize_call(*targets("potrf"))
def potrf(b: Emitter, op: Any) -> Sequence[Any]:
    """The factor in one triangle, the other one as it was; `info` is the first column without a root."""
    (a,) = checked(op).operands
    if is_empty(a):
        return [a, b.zero(op.results[1].type)]
    lower, x = is_lower(op), batched(b, a)
    if b.cpu and not b.lapack:
        y, info = rooted(b, x, lower=lower, kept=True)
        return [restored(b, y, op.results[0].type), restored(b, info, op.results[1].type)]
    factor = _factor(b, x, lower)
    root = b.real(diagonal(b, factor))
    info = failed_at(b, b.not_(b.compare(root, b.zeros_like(root), "GT")), op.results[1].type)
    y = b.select(compare_places(b, x, "GE" if lower else "LE"), factor, x)
    return [restored(b, y, op.results[0].type), info]


def _factor(b: Emitter, x: Any, lower: bool) -> Any:
    if b.cpu and not b.lapack:
        return rooted(b, x, lower=lower, kept=False)[0]
    given = x if lower else adjoint(b, x)
    _, n, _ = shape(x)
    count = blocks(n)
    if b.lapack:
        (factor,) = on_host(b, "cholesky", [given], [given.type])
    elif count == 1:
        factor = _columns(b, given, as_scalar(b, 0))
    else:
        factor = _by_blocks(b, given, count)
    return factor if lower else adjoint(b, factor)


def _by_blocks(b: Emitter, given: Any, count: int) -> Any:
    """The factor by blocks of columns: a product with the columns before is subtracted from a block first."""
    batch, n, _ = shape(given)
    size = count * BLOCK
    x = resized(b, given, size, size)
    beyond = b.and_(on_diagonal(b, x), compared(b, places(b, x, 1), as_scalar(b, n), "GE"))
    x = b.select(beyond, b.constant(1, x), x)

    def body(b: Emitter, k: Any, factor: Any) -> Sequence[Any]:
        zero, at = b.zeros_like(k), b.multiply(k, b.constant(BLOCK, k))
        rows = b.dynamic_slice(factor, (zero, at, zero), [batch, BLOCK, size])
        panel = b.dynamic_slice(x, (zero, zero, at), [batch, size, BLOCK])
        panel = b.subtract(panel, product(b, factor, adjoint(b, rows)))
        return [b.dynamic_update_slice(factor, _columns(b, panel, at), (zero, zero, at))]

    (factor,) = loop(b, count, [b.zeros_like(x)], body)
    return resized(b, factor, n, n)


def _columns(b: Emitter, given: Any, first: Any) -> Any:
    """The factor's columns; the first has its diagonal entry in row `first`. Entries above it are not read."""
    batch, n, width = shape(given)
    place = places(b, b.slice(given, [0, 0, 0], [batch, n, 1], [1, 1, 1]), 1)

    def body(b: Emitter, i: Any, factor: Any) -> Sequence[Any]:
        zero, j = b.zeros_like(i), b.add(first, i)
        row = b.dynamic_slice(factor, (zero, j, zero), [batch, 1, width])
        column = b.dynamic_slice(given, (zero, zero, i), [batch, n, 1])
        rest = b.subtract(column, product(b, factor, adjoint(b, row)))
        root = b.sqrt(b.real(b.dynamic_slice(rest, (zero, j, zero), [batch, 1, 1])))
        root = spread(b, root, [0, 1, 2], rest)
        below = masked(b, compared(b, place, j, "GT"), quotient(b, rest, root))
        new = b.select(compared(b, place, j, "EQ"), as_element(b, root, rest), below)
        return [b.dynamic_update_slice(factor, new, (zero, zero, i))]

    return loop(b, width, [b.zeros_like(given)], body)[0]
