"""Windows over widened numbers: IREE's GPU code fuses the widening into the window and gives wrong values.

%w = convert %x : i8 to f32                      %w = convert %x : i8 to f32
reduce_window(%w ...)                    ->      %made = optimization_barrier %w
                                                 reduce_window(%made ...)

This holds for every conversion to a wider type that the window's operand depends on without another window,
reduction or product between: i8 or f16 to f32, i16 to i32, predicates to counts, and quantized numbers to
floats.
"""

from typing import Any

from torch_mlir.dialects import quant

from tiduc.backends.iree.dependences import computed_from
from tiduc.backends.iree.emitter import Emitter
from tiduc.dialect.traits import PRODUCTS
from tiduc.dialect.types import bits, element, with_element

_DEARER = PRODUCTS | {"stablehlo.optimization_barrier"}


def hide_widened(b: Emitter, op: Any, count: int) -> None:
    """Puts widened operands, among the first `count` of an op, behind barriers, in place."""
    for i, x in enumerate(list(op.operands)[:count]):
        if _is_widened(x):
            op.operands[i] = b.barrier(x)[0]


def _is_widened(x: Any) -> bool:
    """Whether a value is computed from one of a narrower type, without another window, reduction or product between."""
    return computed_from(x, _widens, lambda op: not len(op.regions) and op.name not in _DEARER)


def _widens(op: Any) -> bool:
    if op.name == "stablehlo.uniform_dequantize":
        return True
    return bool(op.name == "stablehlo.convert" and bits(op.operands[0]) < bits(op.results[0]))


def of_floats(b: Emitter, op: Any) -> None:
    """Changes an op on quantized numbers, in place, to an op on the floats that they stand for."""
    for i, x in enumerate(op.operands):
        if is_quantized(x):
            floats = b.emit("stablehlo.uniform_dequantize", (x,), _expressed(x.type))
            op.operands[i] = b.barrier(floats)[0]
    if is_quantized(op.results[0]):
        op.results[0].set_type(_expressed(op.results[0].type))


def is_quantized(x: Any) -> bool:
    """Whether the elements of a value, or of a type, are quantized numbers."""
    return isinstance(element(x), quant.QuantizedType)


def _expressed(type_: Any) -> Any:
    return with_element(type_, element(type_).expressed_type)
