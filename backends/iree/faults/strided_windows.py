"""Windows of one element with strides: tiduc slices the array with these strides first.

    %y = reduce_window %x, windows 1x1, strides 2x2     ->     %s = slice %x [0:14:2, 0:14:2]
                                                               %y = reduce_window %s, windows 1x1, strides 1x1

IREE turns such an op into an elementwise op that reads every second element of %x. If it then computes %x in the same
dispatch, it computes only these elements, and other ops that read %x get memory that was never written.
"""

import math
from collections.abc import Iterable, Sequence

from torch_mlir import ir

from tiduc.backends.iree.emit.arrays import has_dynamic_shape, not_fused
from tiduc.backends.iree.emit.emitter import Emitter, legalize
from tiduc.backends.iree.fault import wrong
from tiduc.dialect.facts.windows import Layout, Window, window_of, window_of_convolution
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.shapes.types import shape


@legalize("stablehlo.reduce_window")
@wrong(
    "IREE computes only the elements in windows of one element with strides, although other ops read all elements; "
    "tiduc slices first.",
    "strided_windows_of_one_element",
)
def reduce_window(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Slices the operands with the strides of windows of one element, and removes the strides. Changes op in place."""
    window = window_of(op)
    if math.prod(window.sizes) == 1:
        _slice_first(b, op, window, range(len(op.results)), range(len(window.sizes)))
    return None


@legalize("stablehlo.convolution")
@wrong(
    "IREE computes only the elements that a depthwise convolution by a kernel of one element with strides reads, "
    "although other ops read all elements; tiduc slices first.",
    "strided_scaling",
)
def convolution(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Slices the operand of a convolution that sums nothing with its strides. Changes op in place."""
    window, layout = window_of_convolution(op), Layout.of(op)
    if math.prod(window.sizes) == 1 and shape(op.operands[1])[layout.kernel[0]] == 1:
        _slice_first(b, op, window, [0], layout.input[2:])
    return None


def _slice_first(b: Emitter, op: IrOp, window: Window, operands: Iterable[int], along: Sequence[int]) -> None:
    """Slices the operands with these indices along the dimensions `along`, to which the window's dimensions belong.

    Padded and dilated dimensions keep their strides: IREE pads an array before it computes the windows. An operand of
    dynamic shape is stored by a barrier instead.
    """
    plain = [ends == (0, 0, 1) for ends in zip(window.low, window.high, window.base, strict=True)]
    taken = [stride if flag else 1 for stride, flag in zip(window.strides, plain, strict=True)]
    if math.prod(taken) == 1:
        return
    is_dynamic = has_dynamic_shape(op)
    for i in operands:
        x = op.operands[i]
        strides = dict(zip(along, taken, strict=True))
        sizes = shape(x)
        steps = [strides.get(d, 1) for d in range(len(sizes))]
        op.operands[i] = not_fused(b, x) if is_dynamic else b.slice(x, [0] * len(sizes), sizes, steps)
    if not is_dynamic:
        left = [stride // by for stride, by in zip(window.strides, taken, strict=True)]
        op.attributes["window_strides"] = ir.DenseI64ArrayAttr.get(left)
