"""dot_general and dot: contractions of two tensors."""

import functools
from typing import Any

import numpy as np
from torch_mlir import ir

from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.ops.contractions import Contraction, Pair
from tiduc.dialect.shapes.origins import sizes_in
from tiduc.dialect.shapes.types import element, is_empty
from tiduc.passes.rules.opset import bilinear
from tiduc.passes.rules.uniform_quantize import dequantized


@bilinear("stablehlo.dot")
@bilinear("stablehlo.dot_general")
def dot_general(b: StablehloBuilder, op: Definition, ct: Value, side: int) -> Value | None:
    """Contracts the cotangent with the other operand y, over the free dimensions of y (not batched or contracted).

    The cotangent takes the place of the operand x, so attributes with an entry per operand stay valid.
    """
    x, y = op.operands[side], op.operands[1 - side]
    is_plain = _is_plain(x.type, y.type, ct.type)
    if not is_plain:
        y = dequantized(b, y)
        if is_empty(ct) or is_empty(y):  # the sum would be empty, and some compilers crash on empty sums
            return None
        wide = _wider(element(ct), element(y))
        ct, y = b.convert(ct, wide), b.conj(b.convert(y, wide))
    along, over, back = _dimensions(side, x.type, y.type, Contraction.of(op))
    given = op.attributes
    carried = {name: given[name] for name in ("precision_config", "algorithm") if name in given}
    product = b.dot_general(*((ct, y) if side == 0 else (y, ct)), along, over, carried)
    turned = b.transpose(product, back)
    return turned if is_plain else b.convert(turned, element(x))


@functools.cache  # networks contain the same contractions thousands of times
def _is_plain(x: ir.RankedTensorType, y: ir.RankedTensorType, ct: ir.RankedTensorType) -> bool:
    """Whether the tensor types have one real float element type and none is empty."""
    alike = element(x) == element(y) == element(ct) and isinstance(element(x), ir.FloatType)
    return alike and all(0 not in sizes_in(type_) for type_ in (x, y, ct))


@functools.cache
def _dimensions(
    side: int, x: ir.RankedTensorType, y: ir.RankedTensorType, of: Contraction
) -> tuple[Pair, Pair, tuple[int, ...]]:
    """Returns the batching and contracted dimensions of ct with y, and the permutation of the result to x's order."""
    rank_x, rank_y = len(sizes_in(x)), len(sizes_in(y))
    (xb, xc), (yb, yc) = ((of.batches[i], of.summed[i]) for i in (side, 1 - side))
    xk, yk = of.kept(side, rank_x), tuple(of.kept(1 - side, rank_y))
    # The result of dot_general has the batching dimensions, then the free dimensions of lhs, then those of rhs. This
    # holds for ct, and for the product of ct with y.
    first = len(xb) + (len(xk) if side == 0 else 0)
    yc_in_order = [xc[i] for i in np.argsort(yc)]
    axes = [*xb, *xk, *yc_in_order] if side == 0 else [*xb, *yc_in_order, *xk]
    over = tuple(range(first, first + len(yk))), yk
    along = tuple(range(len(xb))), yb
    back = tuple(int(i) for i in np.argsort(axes))
    return (along, over, back) if side == 0 else (along[::-1], over[::-1], back)


@functools.cache
def _wider(first: ir.Type, second: ir.Type) -> ir.Type:
    """Returns the wider of two element types. Complex types are wider than real ones, and floats than integers."""

    def width(element_type: Any) -> tuple[bool, bool, int]:
        is_complex = isinstance(element_type, ir.ComplexType)
        part = element_type.element_type if is_complex else element_type
        return is_complex, isinstance(part, ir.FloatType), part.width

    return max(first, second, key=width)
