"""Contractions of two tensors."""

from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.dialect.graph import Definition
from tiduc.dialect.stablehlo import element, rank, shape
from tiduc.passes.rules.opset import bilinear


@bilinear("stablehlo.dot_general")
def dot_general(b: Any, op: Definition, ct: Any, side: int) -> Any | None:
    d = hlo.DotDimensionNumbers(op.attributes["dot_dimension_numbers"])
    batching = d.lhs_batching_dimensions, d.rhs_batching_dimensions
    contracting = d.lhs_contracting_dimensions, d.rhs_contracting_dimensions
    return _toward(b, op, ct, side, batching, contracting)


@bilinear("stablehlo.dot")
def dot(b: Any, op: Definition, ct: Any, side: int) -> Any | None:
    return _toward(b, op, ct, side, ([], []), ([rank(op.operands[0]) - 1], [0]))


def _toward(b: Any, op: Definition, ct: Any, side: int, batching: Any, contracting: Any) -> Any | None:
    """Contract the cotangent with the other operand y, over the dimensions that only y had.

    The cotangent takes x's place, so that what is said of either side, as its precision, holds for the new.
    """
    x, y = op.operands[side], op.operands[1 - side]
    if 0 in (*shape(ct), *shape(y)):  # a sum of nothing, which some compilers crash on
        return None
    (xb, xc), (yb, yc) = ((batching[i], contracting[i]) for i in (side, 1 - side))
    xk = [i for i in range(rank(x)) if i not in [*xb, *xc]]
    yk = [i for i in range(rank(y)) if i not in [*yb, *yc]]
    # A result is batch, lhs kept, rhs kept: so is the cotangent, and so is the product.
    first = len(xb) + (len(xk) if side == 0 else 0)
    yc_in_order = [xc[i] for i in np.argsort(yc)]
    axes = [*xb, *xk, *yc_in_order] if side == 0 else [*xb, *yc_in_order, *xk]

    wide = max(element(ct), element(y), key=_width)
    operands = [b.convert(ct, wide), b.conj(b.convert(y, wide))]
    over = [list(range(first, first + len(yk))), yk]
    along = [list(range(len(xb))), yb]
    if side == 1:
        operands, over, along = operands[::-1], over[::-1], along[::-1]
    carried = {
        name: op.attributes[name] for name in ("precision_config", "algorithm") if name in op.attributes
    }
    product = b.dot_general(*operands, along, over, carried)
    return b.convert(b.transpose(product, np.argsort(axes)), element(x))


def _width(element_type: Any) -> tuple[bool, bool, int]:
    """Orders element types by what they hold; operands and result of a contraction need not have the same."""
    is_complex = isinstance(element_type, ir.ComplexType)
    part = element_type.element_type if is_complex else element_type
    return is_complex, isinstance(part, ir.FloatType), part.width
