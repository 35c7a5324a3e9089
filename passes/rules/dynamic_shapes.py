"""Ops whose shapes are operands: as the static ops beside them, but what they take is computed when they run."""

from typing import Any

from tiduc.dialect.graph import Definition
from tiduc.dialect.origins import DYNAMIC
from tiduc.dialect.types import element, predicate, rank, shape, with_element, with_shape
from tiduc.passes.rules.opset import linear
from tiduc.passes.rules.shape import unbroadcast


@linear("stablehlo.dynamic_broadcast_in_dim", [0])
def dynamic_broadcast_in_dim(b: Any, op: Definition, ct: Any) -> list[Any]:
    """Sum over the dimensions that are new or were of size 1; put the others in the operand's order."""
    still, more = (
        list(op.attributes[name]) if name in op.attributes else []
        for name in ("known_nonexpanding_dimensions", "known_expanding_dimensions")
    )
    return [
        unbroadcast(b, ct, op.operands[0], list(op.attributes["broadcast_dimensions"]), still, more),
        None,
    ]


@linear("stablehlo.dynamic_reshape", [0])
def dynamic_reshape(b: Any, op: Definition, ct: Any) -> list[Any]:
    return [b.reshape(ct, shape(op.operands[0])), None]


@linear("stablehlo.dynamic_pad", [0, 1])
def dynamic_pad(b: Any, op: Definition, ct: Any) -> list[Any]:
    """Element k of the operand is at low + k (interior + 1); the padding value is wherever no element is."""
    x, value, low, high, interior = op.operands

    def of_operand() -> Any:
        """What negative paddings dropped comes back as zeros; then nothing is before the operand but `low`."""
        none, one = b.zeros_like(low), b.constant(1, low)
        before, after = (b.maximum(b.negate(end), none) for end in (low, high))
        whole = b.emit("stablehlo.dynamic_pad", (ct, b.zeros_like(value), before, after, none), _open(ct))
        start, step = b.maximum(low, none), b.add(interior, one)
        length = b.subtract(_sizes(b, x, low), one)
        last = b.add(start, b.add(b.multiply(length, step), one))
        # Of no elements at all the last one is before the start.
        limit = b.select(b.compare(length, none, "LT"), start, last)
        return b.emit("stablehlo.real_dynamic_slice", (whole, start, limit, step), x.type)

    def of_value() -> Any:
        boolean = element(predicate(value.type))
        operands = (b.repeated(True, boolean, x), b.repeated(False, boolean, value), low, high, interior)
        is_element = b.emit("stablehlo.dynamic_pad", operands, with_element(ct.type, boolean))
        return b.reduce_sum(b.select(is_element, b.zeros_like(ct), ct), range(rank(ct)))

    return [of_operand, of_value, None, None, None]


@linear("stablehlo.real_dynamic_slice", [0])
def real_dynamic_slice(b: Any, op: Definition, ct: Any) -> list[Any]:
    """Zeros before, between and after the elements that were taken."""
    x, start, _, strides = op.operands
    none, one = b.zeros_like(start), b.constant(1, start)
    taken = b.subtract(_sizes(b, ct, start), one)
    end = b.add(start, b.add(b.multiply(taken, strides), one))
    end = b.select(b.compare(taken, none, "LT"), start, end)
    after, between = b.subtract(_sizes(b, x, start), end), b.subtract(strides, one)
    zero = b.zero(with_shape(x.type, []))
    return [b.emit("stablehlo.dynamic_pad", (ct, zero, start, after, between), x.type), None, None, None]


def _sizes(b: Any, x: Any, like: Any) -> Any:
    """The sizes of a value as a vector of another one's element type."""
    return b.convert(b.sizes(shape(x)), element(like))


def _open(x: Any) -> Any:
    """The type of a value, with all its sizes open."""
    return with_shape(x.type, [DYNAMIC] * rank(x))
