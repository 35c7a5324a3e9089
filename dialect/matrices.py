"""Batches of matrices and vectors: products, triangles, solves, and masks; as functions of a builder."""

from typing import Any

from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.dialect.types import element, is_complex, predicate, rank, shape, with_element, with_shape


def solve(b: Any, a: Any, y: Any, left: bool, lower: bool, adjoint: bool, unit: bool = False) -> Any:
    """The solution x of op(a) x = y (`left`), or of x op(a) = y.

    op(a) is the lower or upper triangle of a, with a `unit` diagonal or its own, or its adjoint.
    """
    turned = "ADJOINT" if is_complex(a) else "TRANSPOSE"
    attributes = {
        "left_side": ir.BoolAttr.get(left),
        "lower": ir.BoolAttr.get(lower),
        "unit_diagonal": ir.BoolAttr.get(unit),
        "transpose_a": hlo.TransposeAttr.get(turned if adjoint else "NO_TRANSPOSE"),
    }
    return b.emit("stablehlo.triangular_solve", (a, y), y.type, attributes)


def triangle(b: Any, x: Any, lower: bool, strict: bool = False) -> Any:
    """The matrices in x with zeros outside one triangle; a `strict` triangle excludes the diagonal."""
    return b.select(
        compare_places(b, x, ("GT" if lower else "LT") if strict else "GE" if lower else "LE"),
        x,
        b.zeros_like(x),
    )


def compare_places(b: Any, x: Any, direction: str) -> Any:
    """A mask: row number `direction` column number."""
    integer = with_element(x.type, ir.IntegerType.get_signless(32))
    row, column = (b.iota(rank(x) - i, integer, shape(x)) for i in (2, 1))
    return b.compare(row, column, direction)


def matrix_product(b: Any, x: Any, y: Any) -> Any:
    """The products of the matrices in x and y, at the highest precision."""
    batching, last = list(range(rank(x) - 2)), rank(x) - 1
    precision = ir.ArrayAttr.get([hlo.PrecisionAttr.get("HIGHEST")] * 2)
    attributes = {"precision_config": precision}
    return b.dot_general(x, y, [batching, batching], [[last], [last - 1]], attributes)


def adjoint(b: Any, x: Any) -> Any:
    """The adjoints of the matrices in x."""
    return b.conj(b.transpose(x, swapped(x)))


def swapped(x: Any) -> list[int]:
    """The permutation that swaps the last two dimensions."""
    return [*range(rank(x) - 2), rank(x) - 1, rank(x) - 2]


def columns(b: Any, x: Any, type_: Any) -> Any:
    """Matrices of the given type whose column j is filled with x_j."""
    return b.broadcast_in_dim(x, [*range(rank(x) - 1), rank(x)], type_)


def rows(b: Any, x: Any, type_: Any) -> Any:
    """Matrices of the given type whose row i is filled with x_i."""
    return b.broadcast_in_dim(x, range(rank(x)), type_)


def diagonal(b: Any, x: Any) -> Any:
    """The diagonals of the square matrices in x."""
    return b.reduce_sum(b.select(compare_places(b, x, "EQ"), x, b.zeros_like(x)), [rank(x) - 1])


def inverse(b: Any, x: Any, margin: Any) -> Any:
    """1 / x, and 0 where |x| is at most the margin, which has one number for each matrix or vector in x."""
    zero, one = b.zeros_like(x), b.constant(1, x)
    size = b.abs(x)
    none = b.compare(size, b.broadcast_in_dim(margin, range(rank(margin)), size.type), "LE")
    return b.select(none, zero, b.divide(one, b.select(none, one, x)))


def inverse_gaps(b: Any, w: Any, margin: Any) -> Any:
    """1 / (w_j - w_i) in row i and column j, and 0 where w_i and w_j differ by at most the margin."""
    return inverse(b, gaps(b, w), margin)


def gaps(b: Any, w: Any) -> Any:
    """w_j - w_i in row i and column j."""
    square = with_shape(w.type, [*shape(w), shape(w)[-1]])
    return b.subtract(columns(b, w, square), rows(b, w, square))


def largest(b: Any, w: Any) -> Any:
    """The largest |w| of each matrix's values w."""
    size = b.abs(w)
    return b.reduce(size, b.zero(with_shape(size.type, [])), [rank(w) - 1], "stablehlo.maximum")


def epsilon(x: Any) -> float:
    """The unit in the last place of 1, for an element type of 32 or 64 bits, or of twice as many if it is complex."""
    type_ = element(x)
    width = (type_.element_type if isinstance(type_, ir.ComplexType) else type_).width
    return float(2.0 ** (-52 if width == 64 else -23))


def some(b: Any, flags: Any, dimensions: list[int]) -> Any:
    """Whether some flags along the dimensions are true."""
    return b.reduce(flags, b.zero(with_shape(flags.type, [])), dimensions, "stablehlo.or")


def unless(b: Any, flags: Any, x: Any) -> Any:
    """The matrices in x, and NaN in each matrix whose flag is true."""
    everywhere = b.broadcast_in_dim(flags, range(rank(flags)), predicate(x.type))
    return b.select(everywhere, b.constant(float("nan"), x), x)


def scaled(b: Any, factor: Any, x: Any) -> Any:
    """factor * x, where the factor may be real and x complex."""
    return b.multiply(b.convert(factor, x.type.element_type), x)
