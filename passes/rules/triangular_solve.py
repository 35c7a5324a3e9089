"""triangular_solve: op(a) x = y, or x op(a) = y, where op(a) is a, its transpose or its adjoint.

The op reads one triangle of a, and reads the diagonal unless it is assumed to be ones. The derivative with respect to
elements that the op does not read is zero.
"""

from collections.abc import Sequence

from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.dialect.emitters.matrices import matrix_product, swapped, triangle
from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.ops.ir_types import AnyOp
from tiduc.dialect.shapes.types import is_complex
from tiduc.passes.rules.elementwise import difference
from tiduc.passes.rules.opset import linearize, transpose, unsupported
from tiduc.passes.rules.registry import Tangents


@linearize("stablehlo.triangular_solve")
def triangular_solve(b: StablehloBuilder, op: Definition, dx: Tangents) -> Sequence[Value | None]:
    """The tangent x' of the solution solves op(a) x' = y' - op(a') x, or x' op(a) = y' - x op(a')."""
    a, x, kind = op.operands[0], op.result, _kind(op)
    second = None
    if dx[0] is not None:
        da = triangle(b, dx[0], flag(op, "lower"), strict=flag(op, "unit_diagonal"))
        if kind != "NO_TRANSPOSE":
            da = b.transpose(da, swapped(a))
        if kind == "ADJOINT":
            da = b.conj(da)
        second = matrix_product(b, da, x) if flag(op, "left_side") else matrix_product(b, x, da)
    return b.reapply(op, {1: difference(b, dx[1], second)})


@transpose("stablehlo.triangular_solve")
def triangular_solve_transpose(
    b: StablehloBuilder, op: Definition, ct: Tangents, active: Sequence[bool]
) -> list[Value | None]:
    """A solve with the adjoint of op(a). If op(a) is the transpose of a, its adjoint is conj(a)."""
    if active[0]:
        raise unsupported("transpose", op, "a solution is not linear in its matrix")
    a, kind = op.operands[0], _kind(op)
    if kind == "NO_TRANSPOSE":
        turned = "ADJOINT" if is_complex(a) else "TRANSPOSE"
    else:
        turned = "NO_TRANSPOSE"
    matrix = b.conj(a) if kind == "TRANSPOSE" else a
    return [None, b.reapply(op, {0: matrix, 1: ct[0]}, {"transpose_a": hlo.TransposeAttr.get(turned)})[0]]


def flag(op: AnyOp, name: str) -> bool:
    """The value of a boolean attribute of an op; false if the op does not have the attribute."""
    return name in op.attributes and ir.BoolAttr(op.attributes[name]).value


def _kind(op: Definition) -> str:
    return str(hlo.TransposeAttr(op.attributes["transpose_a"]).value)
