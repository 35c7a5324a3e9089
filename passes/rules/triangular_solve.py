"""triangular_solve: op(a) x = y, or x op(a) = y, where op(a) is a, its transpose or its adjoint.

The op reads one triangle of a, without the diagonal if that is unit; the derivative toward the rest is zero.
"""

from collections.abc import Sequence
from typing import Any

from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.dialect.graph import Definition
from tiduc.dialect.types import is_complex, is_empty, rank, shape, with_element
from tiduc.passes.rules.elementwise import difference
from tiduc.passes.rules.opset import linearize, transpose, unsupported
from tiduc.passes.rules.registry import Tangents


@linearize("stablehlo.triangular_solve")
def triangular_solve(b: Any, op: Definition, dx: Tangents) -> Sequence[Any | None]:
    """op(a) dx = dy - op(da) x: a solve with the same a."""
    a, x, kind = op.operands[0], op.result, _kind(op)
    if is_empty(x):
        return [None]
    second = None
    if dx[0] is not None:
        da = triangle(b, dx[0], flag(op, "lower"), strict=flag(op, "unit_diagonal"))
        if kind != "NO_TRANSPOSE":
            da = b.transpose(da, _swapped(a))
        if kind == "ADJOINT":
            da = b.conj(da)
        second = matrix_product(b, da, x) if flag(op, "left_side") else matrix_product(b, x, da)
    return b.reapply(op, {1: difference(b, dx[1], second)})  # type: ignore[no-any-return]


@transpose("stablehlo.triangular_solve")
def triangular_solve_transpose(b: Any, op: Definition, ct: Tangents, active: Sequence[bool]) -> list[Any]:
    """A solve with the adjoint of op(a); the adjoint of the transpose of a is conj(a)."""
    if active[0]:
        raise unsupported("transpose", op, "a solution is not linear in its matrix")
    a, kind = op.operands[0], _kind(op)
    if kind == "NO_TRANSPOSE":
        turned = "ADJOINT" if is_complex(a) else "TRANSPOSE"
    else:
        turned = "NO_TRANSPOSE"
    matrix = b.conj(a) if kind == "TRANSPOSE" else a
    return [None, b.reapply(op, {0: matrix, 1: ct[0]}, {"transpose_a": hlo.TransposeAttr.get(turned)})[0]]


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
    return b.conj(b.transpose(x, _swapped(x)))


def flag(op: Definition, name: str) -> bool:
    """A boolean attribute, false where it is absent."""
    return name in op.attributes and ir.BoolAttr(op.attributes[name]).value


def _kind(op: Definition) -> str:
    return str(hlo.TransposeAttr(op.attributes["transpose_a"]).value)


def _swapped(x: Any) -> list[int]:
    """The permutation that swaps the last two dimensions."""
    return [*range(rank(x) - 2), rank(x) - 1, rank(x) - 2]
