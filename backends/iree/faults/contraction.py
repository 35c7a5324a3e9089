"""Patterns for dot_general, convolution and batch_norm_grad, for the forms that IREE rejects or computes wrongly."""

from collections.abc import Sequence

from tiduc.backends.iree.emit.arrays import has_dynamic_shape
from tiduc.backends.iree.emit.convolutions_as_products import as_products, has_one_place
from tiduc.backends.iree.emit.emitter import Emitter, legalize
from tiduc.backends.iree.emit.refused import refused
from tiduc.backends.iree.fault import crash, missing, wrong
from tiduc.backends.iree.faults.windows import drop_excess
from tiduc.dialect.facts.windows import Layout, group_counts, reversal, window_of_convolution
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.shapes.types import element, is_complex, shape, with_element
from tiduc.passes.rules.batch_norm import gradient


@legalize("stablehlo.dot_general")
@crash("IREE crashes on dimensions of size 0; tiduc emits 0.", "dot_empty")
@crash(
    "Some forms with an `algorithm` do not compile; tiduc drops the algorithm, which makes no product less precise.",
    "dot_algorithm",
    upstream="https://github.com/iree-org/iree/issues/22954",
)
def dot_general(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Removes the attribute `algorithm`, in place. Returns 0 for the product if a dimension has size 0, else None."""
    if "algorithm" in op.attributes:
        del op.attributes["algorithm"]
    return _empty_sum(b, op)


@legalize("stablehlo.convolution")
@crash("IREE crashes on dimensions of size 0; tiduc emits 0.", "convolution_empty")
@crash(
    "IREE crashes on padded convolutions of complex numbers; tiduc emits four real ones.",
    "convolution_complex",
    upstream="https://github.com/iree-org/iree/issues/14072",
)
@crash(
    "If there is one window, and it does not reach all elements, the op does not compile; tiduc slices the rest off.",
    "convolution_excess",
)
@wrong(
    "IREE ignores the reversal of windows if there are groups; tiduc reverses the kernel.",
    "convolution_reversed_groups",
)
@crash("Some reversed windows do not compile; tiduc reverses the kernel.", "convolution_reversed")
@crash(
    "Depthwise convolutions do not compile if their results have another type; tiduc converts the operands.",
    "convolution_depthwise_widening",
)
@wrong("On GPUs, IREE adds wrong products if there is one window; tiduc emits a product.", "cuda/one_window")
@wrong(
    "On GPUs, grouped convolutions give zeros; tiduc emits products of slices.",
    "vulkan/convolution_groups",
)
def convolution(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Rewrites a convolution so that IREE compiles it correctly. The decorators above name the cases.

    Returns None if the op itself remains, perhaps changed in place.
    """
    type_ = op.results[0].type
    _reverse_kernel(b, op)
    _widen_depthwise(b, op)
    if has_dynamic_shape(op):
        return None
    if (zero := _empty_sum(b, op)) is not None:
        return zero
    drop_excess(b, op)
    if not b.cpu and (group_counts(op) != (1, 1) or has_one_place(op)):
        return [as_products(b, op)]
    window = window_of_convolution(op)
    if not is_complex(type_) or not any(window.low + window.high):
        return None
    real = with_element(type_, element(type_).element_type)
    (xr, xi), (yr, yi) = ((b.real(v), b.imag(v)) for v in op.operands)
    rr, ii, ri, ir_ = (
        b.clone(op, {0: u, 1: v}, [real])[0] for u, v in ((xr, yr), (xi, yi), (xr, yi), (xi, yr))
    )
    return [b.complex(b.subtract(rr, ii), b.add(ri, ir_))]


def _widen_depthwise(b: Emitter, op: IrOp) -> None:
    """Converts the operands of a depthwise convolution, in place, to the element type of the result.

    IREE requires a kernel of this type. It would remove the conversion of the kernel, but a barrier prevents this.
    """
    x, kernel = op.operands
    if group_counts(op)[0] == 1 or shape(kernel)[Layout.of(op).kernel[0]] != 1:
        return
    if element(kernel) != element(op.results[0]):
        op.operands[0] = b.convert(x, element(op.results[0]))
        op.operands[1] = b.barrier(b.convert(kernel, element(op.results[0])))[0]


def _reverse_kernel(b: Emitter, op: IrOp) -> None:
    """Reverses the kernel of a convolution with reversed windows, and removes `window_reversal`, in place."""
    turned = [d for d, backwards in zip(Layout.of(op).kernel[2:], reversal(op), strict=True) if backwards]
    if turned:
        op.operands[1] = b.reverse(op.operands[1], turned)
    if "window_reversal" in op.attributes:
        del op.attributes["window_reversal"]


def _empty_sum(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Returns zeros for the result of an op if the result or an operand has no elements, else None."""
    arrays = *op.operands, *op.results
    is_empty = not has_dynamic_shape(op) and any(0 in shape(x) for x in arrays)
    return [b.constant(0, op.results[0].type)] if is_empty else None


@legalize("stablehlo.batch_norm_grad")
@missing("The op does not compile; tiduc emits the formulas of its definition.", "batch_norm_grad")
def batch_norm_grad(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Expands the op to the formulas of its definition. Raises `Unsupported` for dynamic shapes."""
    if has_dynamic_shape(op):
        raise refused(op, "its shapes are dynamic")
    return gradient(b, op, *op.operands)
