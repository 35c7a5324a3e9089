"""convolution: y[o] = sum_j x[i] w[j], where o * stride + j * rhs_dilation = i * lhs_dilation + low_padding.

    toward x    sum_j ct[o] w[j]    ct convolved with the reversed kernel; stride and lhs_dilation are swapped
    toward w    sum_o x[i] ct[o]    x convolved with ct as the kernel; stride and rhs_dilation are swapped

Toward x, the kernel's output features are contracted, so they swap roles with the input features. Toward w, the batch
is contracted, so it swaps roles with the features. If q indexes the groups, the op is

    y[b, (q, o)] = sum_i x[b, (q, i)] w[i, (q, o)]    feature groups
    y[b, (q, o)] = sum_i x[(q, b), i] w[i, (q, o)]    batch groups

Toward w, feature groups become batch groups and vice versa. Toward x, both become feature groups,
and the kernel's dimensions i and (q, o) are regrouped to (q, i) and o.
"""

from torch_mlir import ir

from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.emitters.windows import convolution
from tiduc.dialect.facts.windows import Layout, group_counts, reversal, window_of_convolution
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.shapes.types import element, is_empty, shape
from tiduc.passes.rules.opset import bilinear
from tiduc.passes.rules.uniform_quantize import dequantized


@bilinear("stablehlo.convolution")
def convolution_transpose(b: StablehloBuilder, op: Definition, ct: Value, side: int) -> Value | None:
    """The transpose, computed in the element type of ct, which may be wider than that of the operands."""
    x = op.operands[side]
    if any(map(is_empty, (*op.operands, ct))):
        return None
    other = b.convert(b.conj(dequantized(b, op.operands[1 - side])), element(ct))
    dx = _toward_kernel(b, op, other, ct) if side else _toward_input(b, op, other, ct)
    return b.convert(dx, element(x))


def _toward_input(b: StablehloBuilder, op: Definition, w: Value, ct: Value) -> Value:
    layout, (features, batches) = Layout.of(op), group_counts(op)
    sizes = [shape(op.operands[0])[d] for d in layout.input[2:]]
    places = [shape(ct)[d] for d in layout.output[2:]]
    window = window_of_convolution(op).adjoint(sizes, places)
    i, o, *spatial = layout.kernel
    flipped = [
        d for d, reversed_ in zip(spatial, reversal(op), strict=True) if not reversed_ and shape(w)[d] > 1
    ]
    kernel = _move_groups(b, b.reverse(w, flipped) if flipped else w, features * batches, o, i)
    turned = Layout(layout.output, (o, i, *spatial), layout.input)
    dx = convolution(b, ct, kernel, window, turned, (features * batches, 1), _precision(op))
    return _move_groups(b, dx, batches, layout.input[1], layout.input[0])


def _toward_kernel(b: StablehloBuilder, op: Definition, x: Value, ct: Value) -> Value:
    layout, (features, batches) = Layout.of(op), group_counts(op)
    sizes = [shape(x)[d] for d in layout.input[2:]]
    places = [shape(ct)[d] for d in layout.output[2:]]
    window = window_of_convolution(op).correlation(sizes, places)
    batch, feature, *spatial = layout.input
    turned = Layout((feature, batch, *spatial), layout.output, layout.kernel)
    dw = convolution(b, x, ct, window, turned, (batches, features), _precision(op))
    flipped = [d for d, reversed_ in zip(layout.kernel[2:], reversal(op), strict=True) if reversed_]
    return b.reverse(dw, flipped) if flipped else dw


def _move_groups(b: StablehloBuilder, x: Value, groups: int, source: int, target: int) -> Value:
    """Moves the groups of x, the major part of dimension `source`, to be the major part of dimension `target`."""
    if groups == 1:
        return x
    sizes = shape(x)
    split = [*sizes[:source], groups, sizes[source] // groups, *sizes[source + 1 :]]
    order = [d if d < source else d + 1 for d in range(len(sizes))]  # x's dimensions after the reshape
    order[source] = source + 1
    order.insert(target, source)
    moved = b.transpose(b.reshape(x, split), order)
    sizes[source] //= groups
    sizes[target] *= groups
    return b.reshape(moved, sizes)


def _precision(op: Definition) -> ir.ArrayAttr | None:
    """The precision of each operand, or None. It fits the transpose, in which ct has the place of one operand."""
    return op.attributes["precision_config"] if "precision_config" in op.attributes else None
