"""Functions that emit operations on batches of matrices and vectors: products, triangles, solves and permutations."""

import functools
import math
from collections.abc import Callable
from typing import Any, Never

from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.dialect.emitters.bodies import RegionBuilder
from tiduc.dialect.emitters.protocol import V
from tiduc.dialect.emitters.stablehlo_ops import StablehloOps
from tiduc.dialect.facts.lapack import lapack_call
from tiduc.dialect.ops.control_ops import CUSTOM_CALL
from tiduc.dialect.ops.ir_types import IrValue
from tiduc.dialect.shapes.types import element, is_complex, predicate, rank, shape, with_element, with_shape


def solve(
    b: StablehloOps[V, Never], a: V, y: V, left: bool, lower: bool, adjoint: bool, unit: bool = False
) -> V:
    """The solution x of op(a) x = y if `left`, else of x op(a) = y.

    op(a) is the lower triangle of a if `lower`, else the upper triangle. With `adjoint`, it is the adjoint of this
    triangle. With `unit`, the diagonal of the triangle is taken to be ones.
    """
    turned = "ADJOINT" if is_complex(a) else "TRANSPOSE"
    attributes = {
        "left_side": ir.BoolAttr.get(left),
        "lower": ir.BoolAttr.get(lower),
        "unit_diagonal": ir.BoolAttr.get(unit),
        "transpose_a": hlo.TransposeAttr.get(turned if adjoint else "NO_TRANSPOSE"),
    }
    return b.emit("stablehlo.triangular_solve", (a, y), y.type, attributes)


def triangle(b: StablehloOps[V, Never], x: V, lower: bool, strict: bool = False) -> V:
    """The lower triangles of the matrices in x if `lower`, else the upper ones. A `strict` one has a zero diagonal."""
    return b.select(
        compare_places(b, x, ("GT" if lower else "LT") if strict else "GE" if lower else "LE"),
        x,
        b.zeros_like(x),
    )


def compare_places(b: StablehloOps[V, Never], x: V, direction: str) -> V:
    """Compares the row index with the column index of each element of x. Returns a mask with the shape of x.

    For example, the mask for the direction GT is true below the diagonal.
    """
    integer = with_element(x.type, ir.IntegerType.get_signless(32))
    row, column = (b.iota(rank(x) - i, integer, shape(x)) for i in (2, 1))
    return b.compare(row, column, direction)


def matrix_product(b: StablehloOps[V, Never], x: V, y: V) -> V:
    """The products of the matrices in x and y, at the highest precision."""
    batching, last = list(range(rank(x) - 2)), rank(x) - 1
    return b.dot_general(x, y, [batching, batching], [[last], [last - 1]], highest())


def highest() -> dict[str, ir.Attribute]:
    """The attributes of a `dot_general` that is computed at the highest precision."""
    return {"precision_config": ir.ArrayAttr.get([hlo.PrecisionAttr.get("HIGHEST")] * 2)}


def adjoint(b: StablehloOps[V, Never], x: V) -> V:
    """The adjoints of the matrices in x."""
    return b.conj(b.transpose(x, swapped(x)))


def swapped(x: V) -> list[int]:
    """The permutation of the dimensions of x that swaps the last two."""
    return [*range(rank(x) - 2), rank(x) - 1, rank(x) - 2]


def columns(b: StablehloOps[V, Never], x: V, type_: ir.RankedTensorType) -> V:
    """Matrices of the given type whose column j is filled with x_j."""
    return b.broadcast_in_dim(x, [*range(rank(x) - 1), rank(x)], type_)


def rows(b: StablehloOps[V, Never], x: V, type_: ir.RankedTensorType) -> V:
    """Matrices of the given type whose row i is filled with x_i."""
    return b.broadcast_in_dim(x, range(rank(x)), type_)


def diagonal(b: StablehloOps[V, Never], x: V) -> V:
    """The diagonals of the square matrices in x."""
    return b.reduce_sum(b.select(compare_places(b, x, "EQ"), x, b.zeros_like(x)), [rank(x) - 1])


def inverse(b: StablehloOps[V, Never], x: V, margin: V) -> V:
    """1 / x, but 0 where |x| is at most the margin. `margin` has one number for each matrix or vector in x."""
    zero, one = b.zeros_like(x), b.constant(1, x)
    none = is_within(b, b.abs(x), margin)
    return b.select(none, zero, b.divide(one, b.select(none, one, x)))


def is_within(b: StablehloOps[V, Never], size: V, margin: V) -> V:
    """A mask that is true where an element of `size` is at most the margin.

    `margin` has one number for each matrix or vector in `size`.
    """
    return b.compare(size, b.broadcast_in_dim(margin, range(rank(margin)), size.type), "LE")


def inverse_gaps(b: StablehloOps[V, Never], w: V, margin: V) -> V:
    """Matrices with 1 / (w_j - w_i) in row i and column j, or 0 where w_i and w_j differ by at most the margin."""
    return inverse(b, gaps(b, w), margin)


def gaps(b: StablehloOps[V, Never], w: V) -> V:
    """Matrices with w_j - w_i in row i and column j."""
    square = with_shape(w.type, [*shape(w), shape(w)[-1]])
    return b.subtract(columns(b, w, square), rows(b, w, square))


def largest(b: StablehloOps[V, Never], w: V) -> V:
    """The largest |w_i| of each vector w."""
    size = b.abs(w)
    return b.reduce(size, b.zero(with_shape(size.type, [])), [rank(w) - 1], "stablehlo.maximum")


def epsilon(x: V) -> float:
    """The machine epsilon of the element type of x, or of its parts if it is complex. The type has 32 or 64 bits."""
    type_ = element(x)
    width = (type_.element_type if isinstance(type_, ir.ComplexType) else type_).width
    return float(2.0 ** (-52 if width == 64 else -23))


def some(b: StablehloOps[V, Never], flags: V, dimensions: list[int]) -> V:
    """Whether some flags along the dimensions are true: reduces the flags by `or`."""
    return b.reduce(flags, b.zero(with_shape(flags.type, [])), dimensions, "stablehlo.or")


def successive(b: StablehloOps[V, Never], flags: V, like: V) -> tuple[V, V, V]:
    """For each vector of flags, returns two one-hot vectors and a matrix of flags.

    The vectors mark the first and the last true flag. The matrix is true in row i and column j if j is the next true
    flag after the true flag i. The matrices have the shape of `like`, and the vectors have its element type.
    """
    last, of = rank(flags) - 1, element(like)
    ones = b.convert(flags, of)
    before = triangle(b, columns(b, ones, like.type), lower=True)
    until = b.reduce_sum(before, [last + 1])  # the number of true flags up to and including each flag
    count = b.reduce_sum(ones, [last])
    first = b.and_(flags, b.compare(until, b.constant(1, until), "EQ"))
    final = b.and_(flags, b.compare(until, b.broadcast_in_dim(count, range(last), until.type), "EQ"))
    next_ = b.compare(
        columns(b, until, like.type), b.add(rows(b, until, like.type), b.constant(1, like)), "EQ"
    )
    pairs = b.and_(rows(b, flags, next_.type), columns(b, flags, next_.type))
    return b.convert(first, of), b.convert(final, of), b.and_(next_, pairs)


def unless(b: StablehloOps[V, Never], flags: V, x: V) -> V:
    """The matrices in x. A matrix whose flag is true is replaced by NaN."""
    everywhere = b.broadcast_in_dim(flags, range(rank(flags)), predicate(x.type))
    return b.select(everywhere, b.constant(float("nan"), x), x)


def scaled(b: StablehloOps[V, Never], factor: V, x: V) -> V:
    """factor * x. The factor may be real if x is complex."""
    return b.multiply(b.convert(factor, x.type.element_type), x)


def packed(b: StablehloOps[V, Never], lower: V, upper: V, m: int, n: int) -> V:
    """m by n matrices with `lower` below the diagonal and `upper` elsewhere. Neither argument is larger than m by n."""
    lower, upper = corner(b, lower, m, n), corner(b, upper, m, n)
    return b.select(compare_places(b, lower, "GT"), lower, upper)


def unit_lower(b: StablehloOps[V, Never], x: V) -> V:
    """Unit lower triangular matrices: the elements of x below the diagonal, ones on it, and zeros above it."""
    below = triangle(b, x, lower=True, strict=True)
    return b.select(compare_places(b, x, "EQ"), b.constant(1, x), below)


def without_last(b: StablehloOps[V, Never], x: V) -> V:
    """The square matrices in x, but 1 replaces the element in the last row and column."""
    integer = with_element(x.type, ir.IntegerType.get_signless(32))
    places = b.add(*(b.iota(rank(x) - i, integer, shape(x)) for i in (2, 1)))
    return b.select(b.compare(places, b.constant(2 * shape(x)[-1] - 2, integer), "EQ"), b.constant(1, x), x)


def corner(b: StablehloOps[V, Never], x: V, m: int, n: int) -> V:
    """The first m rows and n columns of the matrices in x. Zeros replace missing rows and columns."""
    if shape(x)[-2:] == [m, n]:
        return x
    none = [0] * (rank(x) - 2)
    high = [*none, m - shape(x)[-2], n - shape(x)[-1]]
    if max(high) <= 0:
        return b.slice(x, [0] * rank(x), [*shape(x)[:-2], m, n], [1] * rank(x))
    return b.pad(x, b.zero(with_shape(x.type, [])), [*none, 0, 0], high, [*none, 0, 0])


def rows_taken(b: StablehloOps[V, Never], x: V, at: V) -> V:
    """The matrices in x with permuted rows: row i of a result is row at[i] of x."""
    *batch, m, n = shape(x)
    count = math.prod(batch)
    flat = with_shape(at.type, [count, m])
    first = b.multiply(b.iota(0, flat), b.constant(m, flat))
    indices = b.reshape(b.add(b.reshape(at, [count, m]), first), [count * m, 1])
    numbers = hlo.GatherDimensionNumbers.get([1], [0], [], [], [0], 1)
    type_ = with_shape(x.type, [count * m, n])
    return b.reshape(b.gather(b.reshape(x, [count * m, n]), indices, numbers, [1, n], type_), shape(x))


def rows_exchanged(b: StablehloOps[V, Never], x: V, pivots: V) -> V:
    """The matrices in x after row i was swapped with row pivots[i] - 1, for each i in order, as in LAPACK's LU."""
    return rows_taken(b, x, exchanged(b, b.subtract(pivots, b.constant(1, pivots)), shape(x)[-2]))


def lu(b: StablehloOps[V, Never], a: V) -> tuple[V, V, V]:
    """LAPACK's LU factors of the matrices in a, the pivots, and the status of each matrix.

    The status is 0, or the number of a zero pivot, counted from 1.
    """
    *batch, m, n = shape(a)
    integer = ir.IntegerType.get_signless(32)
    types = (a.type, *(with_element(with_shape(a.type, x), integer) for x in ([*batch, min(m, n)], batch)))
    call = lapack_call("getrf", element(a), [2], [2, 1, 0], len(batch))
    factors, pivots, status = b.emit_all(CUSTOM_CALL, (a,), types, call)
    return factors, pivots, status


def solve_by_lu(b: StablehloOps[V, Never], a: V, y: V) -> tuple[V, V]:
    """The solutions x of a x = y by LU factorizations, and the status of each matrix as in `lu`."""
    factors, pivots, status = lu(b, a)
    z = solve(b, factors, rows_exchanged(b, y, pivots), left=True, lower=True, adjoint=False, unit=True)
    return solve(b, factors, z, left=True, lower=False, adjoint=False), status


def exchanged(b: StablehloOps[V, Never], pivots: V, count: int) -> V:
    """The lists 0, ..., `count` - 1 after entry i was swapped with entry pivots[i], for each i in order."""
    numbers = with_shape(pivots.type, [*shape(pivots)[:-1], count])
    scalar = with_shape(pivots.type, [])
    operands = (b.zero(scalar), b.iota(rank(pivots) - 1, numbers), pivots)
    fills = _exchange(numbers, pivots.type)
    return b.emit_all("stablehlo.while", operands, [x.type for x in operands], {}, fills)[1]


@functools.cache  # returns the same functions again, by which the builder caches regions
def _exchange(
    numbers: ir.RankedTensorType, pivots: ir.RankedTensorType
) -> tuple[Callable[[Any], None], Callable[[Any], None]]:
    """Functions that fill the condition and the body of the loop over i in `exchanged`.

    The body swaps entries by selects, not by updates, because the pivots of a batch differ.
    """
    last = pivots.rank - 1
    types = [with_shape(pivots, []), numbers, pivots]

    def condition(region: ir.Region) -> None:
        body = RegionBuilder(region, types, ir.Location.unknown())
        i, _, _ = body.arguments
        body.returns(body.compare(i, body.constant(pivots.shape[last], i.type), "LT"))

    def exchange(region: ir.Region) -> None:
        body = RegionBuilder(region, types, ir.Location.unknown())
        i, x, of = body.arguments
        start, one = [*[body.zero(i.type)] * last, i], [*pivots.shape[:last], 1]

        def everywhere(value: IrValue) -> IrValue:
            return body.broadcast_in_dim(value, range(len(value.type.shape)), x.type)

        other = everywhere(body.dynamic_slice(of, start, one))
        there = body.compare(body.iota(last, x.type), other, "EQ")
        here = body.compare(body.iota(last, x.type), everywhere(i), "EQ")
        at_other = body.reduce_sum(body.select(there, x, body.zero(x.type)), [last])
        at_i = everywhere(body.dynamic_slice(x, start, one))
        moved = body.select(here, everywhere(at_other), body.select(there, at_i, x))
        body.returns(body.add(i, body.constant(1, i.type)), moved, of)

    return condition, exchange


def shifted(b: StablehloOps[V, Never], x: V, by: int, dimension: int = -2) -> V:
    """x shifted by `by` positions along a dimension; zeros are shifted in."""
    low = [0] * rank(x)
    low[dimension] = by
    return b.pad(x, b.zero(with_shape(x.type, [])), low, [-n for n in low], [0] * rank(x))
