"""Contractions of two tensors."""

import functools
from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.dialect.graph import Definition
from tiduc.dialect.types import element, is_empty, rank
from tiduc.passes.rules.opset import bilinear
from tiduc.passes.rules.uniform_quantize import dequantized

Pairs = tuple[tuple[int, ...], tuple[int, ...]]
"""Dimensions of the two operands."""


@bilinear("stablehlo.dot_general")
def dot_general(b: Any, op: Definition, ct: Any, side: int) -> Any | None:
    return _toward(b, op, ct, side, *_numbers(op.attributes["dot_dimension_numbers"]))


@bilinear("stablehlo.dot")
def dot(b: Any, op: Definition, ct: Any, side: int) -> Any | None:
    return _toward(b, op, ct, side, ((), ()), ((rank(op.operands[0]) - 1,), (0,)))


def _toward(b: Any, op: Definition, ct: Any, side: int, batching: Pairs, contracting: Pairs) -> Any | None:
    """Contract the cotangent with the other operand y, over the dimensions that only y had.

    The cotangent takes x's place, so that what is said of either side, as its precision, holds for the new.
    """
    x, y = op.operands[side], dequantized(b, op.operands[1 - side])
    if is_empty(ct) or is_empty(y):  # a sum of nothing, which some compilers crash on
        return None
    along, over, back = _dimensions(side, rank(x), rank(y), batching, contracting)
    wide = _wider(element(ct), element(y))
    operands = [b.convert(ct, wide), b.conj(b.convert(y, wide))]
    carried = {
        name: op.attributes[name] for name in ("precision_config", "algorithm") if name in op.attributes
    }
    product = b.dot_general(*(operands if side == 0 else operands[::-1]), along, over, carried)
    return b.convert(b.transpose(product, back), element(x))


@functools.cache  # a network has few kinds of contractions, and thousands of each
def _numbers(attribute: Any) -> tuple[Pairs, Pairs]:
    d = hlo.DotDimensionNumbers(attribute)
    return (
        (tuple(d.lhs_batching_dimensions), tuple(d.rhs_batching_dimensions)),
        (tuple(d.lhs_contracting_dimensions), tuple(d.rhs_contracting_dimensions)),
    )


@functools.cache
def _dimensions(
    side: int, rank_x: int, rank_y: int, batching: Pairs, contracting: Pairs
) -> tuple[Pairs, Pairs, tuple[int, ...]]:
    """Of the cotangent with y: the batch dimensions, the contracted ones, and the order that x has its own in."""
    (xb, xc), (yb, yc) = ((batching[i], contracting[i]) for i in (side, 1 - side))
    xk = [i for i in range(rank_x) if i not in (*xb, *xc)]
    yk = tuple(i for i in range(rank_y) if i not in (*yb, *yc))
    # A result is batch, lhs kept, rhs kept: so is the cotangent, and so is the product.
    first = len(xb) + (len(xk) if side == 0 else 0)
    yc_in_order = [xc[i] for i in np.argsort(yc)]
    axes = [*xb, *xk, *yc_in_order] if side == 0 else [*xb, *yc_in_order, *xk]
    over = tuple(range(first, first + len(yk))), yk
    along = tuple(range(len(xb))), yb
    back = tuple(int(i) for i in np.argsort(axes))
    return (along, over, back) if side == 0 else (along[::-1], over[::-1], back)


@functools.cache
def _wider(first: Any, second: Any) -> Any:
    """The element type that holds more; operands and result of a contraction need not have the same."""

    def width(element_type: Any) -> tuple[bool, bool, int]:
        is_complex = isinstance(element_type, ir.ComplexType)
        part = element_type.element_type if is_complex else element_type
        return is_complex, isinstance(part, ir.FloatType), part.width

    return max(first, second, key=width)
