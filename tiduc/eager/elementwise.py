"""NumPy's universal functions (ufuncs) on eager values. A table has an emitter of StableHLO for each function.

NumPy itself determines the element types of operands and results.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from torch_mlir import ir

from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.graph.graph import Value
from tiduc.dialect.shapes.types import element, is_complex, is_float, predicate, shape, with_element
from tiduc.eager.graphs import element_type
from tiduc.eager.record import EagerInput
from tiduc.eager.session import Dtypes, Known, Operand, Session, apply, number, session

Emitter = Callable[..., Any]
POWERS = {2: np.square, 1: np.positive, 0.5: np.sqrt, -1: np.reciprocal}
"""Maps an exponent to the function that computes this power. NumPy's operator `**` uses the same functions."""


def universal(ufunc: np.ufunc, operands: Sequence[Operand]) -> EagerInput | None:
    """The result of a universal function, with the type and shape that NumPy gives.

    Returns None if `EMITTERS` lacks the function.

    Raises NumPy's errors:
    - `TypeError` if NumPy does not define the function for the operand types, or if complex values are compared by
      order;
    - `ValueError` if the shapes do not broadcast, or for integers to negative integer powers.

    Also raises `ZeroDivisionError` if integers are divided by zero, and `OverflowError` if an integer quotient does not
    fit its type.
    """
    types = tuple([(x.data.dtype, x.data.shape) if isinstance(x, EagerInput) else type(x) for x in operands])
    here = session()
    known = here.universal.get((ufunc, types))
    if known is None:
        if ufunc.__name__ not in EMITTERS:
            return None
        known = here.universal[ufunc, types] = _known(here, ufunc, operands)
    dtypes, checked, graph = known
    values = [
        x if isinstance(x, EagerInput) else number(x, dtype)
        for x, dtype in zip(operands, dtypes, strict=False)
    ]
    if checked:
        _check_integers(ufunc.__name__, dtypes[0], values)
    (result,) = here.invoke(graph, values)
    return result


def _known(here: Session, ufunc: np.ufunc, operands: Sequence[Operand]) -> Known:
    """Returns the element types of operands and result, whether integers need a check, and the function's graph."""
    name = ufunc.__name__
    kinds = tuple([x.data.dtype if isinstance(x, EagerInput) else type(x) for x in operands])
    dtypes = _resolved(ufunc, kinds)
    specs = tuple(
        [
            (x.data.dtype, x.data.shape) if isinstance(x, EagerInput) else (dtype, ())
            for x, dtype in zip(operands, dtypes, strict=False)
        ]
    )
    emit = functools.partial(_emit, name, dtypes)
    graph = here.recorder.graphs.op(("universal", name, dtypes), specs, emit)
    return dtypes, name in _DIVIDING and dtypes[0].kind in "iu", graph


def broadcast(b: StablehloBuilder, x: Value, sizes: Sequence[int]) -> Value:
    """x broadcast to the shape `sizes` by NumPy's rules."""
    own = shape(x)
    if own == list(sizes):
        return x
    first = len(sizes) - len(own)
    kept = [d for d, n in enumerate(own) if n == sizes[first + d]]
    x = b.reshape(x, [own[d] for d in kept])
    return b.broadcast_in_dim(x, [first + d for d in kept], list(sizes))


def converted(b: StablehloBuilder, x: Value, dtype: "np.dtype[Any]") -> Value:
    """x converted to another element type. A conversion to booleans is true where x is not zero."""
    if dtype.kind == "b" and element(x) != element_type(dtype):
        return b.compare(x, b.zeros_like(x), "NE")
    return b.convert(x, element_type(dtype))


def convert(x: EagerInput, dtype: "np.dtype[Any]") -> EagerInput:
    """x converted to another element type. Raises `TypeError` if the conversion would drop an imaginary part."""
    if x.data.dtype == dtype:
        return x
    if x.data.dtype.kind == "c" and dtype.kind not in "cb":
        raise TypeError(f"{x.data.dtype} does not convert to {dtype}: take .real, .imag or np.abs")
    return apply(("convert", dtype), lambda b, x: [converted(b, x, dtype)], x)


def _resolved(ufunc: np.ufunc, kinds: tuple[np.dtype[Any] | type, ...]) -> Dtypes:
    dtypes: Dtypes = ufunc.resolve_dtypes((*kinds, None))
    if ufunc.__name__.startswith("logical_"):  # the operands may have any type, and are compared with zero
        return (np.dtype(np.bool_),) * len(dtypes)
    return dtypes


def _emit(name: str, dtypes: Dtypes, b: StablehloBuilder, *operands: Value) -> list[Value]:
    sizes = np.broadcast_shapes(*[tuple(shape(x)) for x in operands])
    values = [broadcast(b, converted(b, x, t), sizes) for x, t in zip(operands, dtypes, strict=False)]
    table = BOOLEAN if dtypes[0].kind == "b" and name in BOOLEAN else EMITTERS
    return [converted(b, table[name](b, *values), dtypes[-1])]


_DIVIDING = ("floor_divide", "remainder", "fmod", "reciprocal", "power")


def _check_integers(name: str, dtype: "np.dtype[Any]", values: Sequence[EagerInput]) -> None:
    """Raises an error for integer operands that NumPy rejects, or that would crash the process on some machines."""
    first, last = values[0].data, values[-1].data
    if name == "power":
        if np.any(last < 0):
            raise ValueError("integers to negative integer powers are not allowed")
    elif not np.all(last):
        raise ZeroDivisionError(f"np.{name} of integers by zero")
    elif dtype.kind == "i" and np.any((first == np.iinfo(dtype).min) & (last == -1)):
        raise OverflowError(f"np.{name} of the least {dtype} by -1")


# ---- the functions -----------------------------------------------------------------------------------------


def _op(name: str) -> Emitter:
    return lambda b, x: b.emit(name, (x,), x.type)


def _rounded(name: str) -> Emitter:
    def emit(b: StablehloBuilder, x: Value) -> Value:
        if is_complex(x):
            return b.complex(emit(b, b.real(x)), emit(b, b.imag(x)))
        return b.emit(name, (x,), x.type) if is_float(x) else x

    return emit


def _compared(direction: str) -> Emitter:
    def emit(b: StablehloBuilder, x: Value, y: Value) -> Value:
        if is_complex(x) and direction not in ("EQ", "NE"):
            raise TypeError("complex values are not ordered: compare their parts")
        return b.compare(x, y, direction)

    return emit


def _scaled(function: str, factor: float) -> Emitter:
    return lambda b, x: b.multiply(getattr(b, function)(x), b.constant(factor, x))


def _is_finite(b: StablehloBuilder, x: Value) -> Value:
    if is_complex(x):
        return b.and_(_is_finite(b, b.real(x)), _is_finite(b, b.imag(x)))
    if is_float(x):
        return b.emit("stablehlo.is_finite", (x,), predicate(x.type))
    return b.compare(x, x, "EQ")


def _is_unsigned(x: Value) -> bool:
    return isinstance(element(x), ir.IntegerType) and element(x).is_unsigned


def _is_infinite(b: StablehloBuilder, x: Value) -> Value:
    if is_complex(x):
        return b.or_(_is_infinite(b, b.real(x)), _is_infinite(b, b.imag(x)))
    return b.compare(b.abs(x), b.constant(math.inf, x), "EQ") if is_float(x) else b.compare(x, x, "NE")


def _remainder(b: StablehloBuilder, x: Value, y: Value) -> Value:
    """The remainder of x / y that has the sign of y."""
    rest = b.remainder(x, y)
    return b.select(_is_across(b, rest, y), b.add(rest, y), rest)


def _is_across(b: StablehloBuilder, rest: Value, y: Value) -> Value:
    """For each element, whether `rest` and y have opposite signs. A zero has no sign here."""
    zero = b.zeros_like(y)
    below, above = (
        b.and_(b.compare(rest, zero, r), b.compare(y, zero, s)) for r, s in (("LT", "GT"), ("GT", "LT"))
    )
    return b.or_(below, above)


def _floor_divide(b: StablehloBuilder, x: Value, y: Value) -> Value:
    """The floor of the quotient. If y is the float 0, the result is x / y, as in NumPy."""
    rest = b.remainder(x, y)
    whole = b.divide(b.subtract(x, rest), y)
    quotient = b.select(_is_across(b, rest, y), b.subtract(whole, b.constant(1, whole)), whole)
    if not is_float(x):
        return quotient
    ratio, none = b.divide(x, y), b.zeros_like(y)
    quotient = b.select(b.compare(quotient, none, "EQ"), _copy_sign(b, none, ratio), quotient)
    return b.round_nearest_even(b.select(b.compare(y, none, "EQ"), ratio, quotient))


def _log_add_exp(b: StablehloBuilder, x: Value, y: Value) -> Value:
    """log(exp x + exp y). To avoid overflow, factors out the exponential of the larger operand if it is finite."""
    larger = b.maximum(x, y)
    base = b.select(_is_finite(b, larger), larger, b.zeros_like(x))
    total = b.add(b.exponential(b.subtract(x, base)), b.exponential(b.subtract(y, base)))
    return b.add(b.log(total), base)


def _signbit(b: StablehloBuilder, x: Value) -> Value:
    if not is_float(x):
        return b.compare(x, b.zeros_like(x), "LT")
    bits = with_element(x.type, ir.IntegerType.get_signless(element(x).width))
    number = b.emit("stablehlo.bitcast_convert", (x,), bits)
    return b.compare(number, b.zeros_like(number), "LT")


def _copy_sign(b: StablehloBuilder, x: Value, y: Value) -> Value:
    size = b.abs(x)
    return b.select(_signbit(b, y), b.negate(size), size)


def _hypotenuse(b: StablehloBuilder, x: Value, y: Value) -> Value:
    """sqrt(x^2 + y^2). To avoid overflow, it is computed as the larger side times sqrt(1 + ratio^2).

    If one side is infinite, the result is infinite, even if the other side is NaN.
    """
    x, y = b.abs(x), b.abs(y)
    infinite = b.or_(_is_infinite(b, x), _is_infinite(b, y))
    one = b.constant(1, x)
    x, y = (b.select(infinite, one, side) for side in (x, y))
    larger, smaller = b.maximum(x, y), b.minimum(x, y)
    is_zero = b.compare(larger, b.zeros_like(x), "EQ")
    ratio = b.divide(smaller, b.select(is_zero, one, larger))
    size = b.multiply(larger, b.sqrt(b.add(one, b.multiply(ratio, ratio))))
    return b.select(infinite, b.constant(math.inf, x), size)


def _truncated(b: StablehloBuilder, x: Value) -> Value:
    return b.multiply(b.sign(x), _rounded("stablehlo.floor")(b, b.abs(x))) if is_float(x) else x


def _shifted(left: bool) -> Emitter:
    """A bit shift.

    If y is at least the width of the type, the result is 0, or -1 for a right shift of a negative number.
    """

    def emit(b: StablehloBuilder, x: Value, y: Value) -> Value:
        kind = "left" if left else "right_logical" if _is_unsigned(x) else "right_arithmetic"
        return b.emit(f"stablehlo.shift_{kind}", (x, y), x.type)

    return emit


def _not_a_number(larger: bool) -> Emitter:
    """`np.fmax` if `larger`, else `np.fmin`. If one operand is NaN, the result is the other operand."""

    def emit(b: StablehloBuilder, x: Value, y: Value) -> Value:
        chosen = b.maximum(x, y) if larger else b.minimum(x, y)
        x_is_nan, y_is_nan = (b.compare(v, v, "NE") for v in (x, y))
        return b.select(x_is_nan, y, b.select(y_is_nan, x, chosen))

    return emit


def _times(factor: float) -> Emitter:
    return lambda b, x: b.multiply(x, b.constant(factor, x))


EMITTERS: dict[str, Emitter] = {
    "absolute": lambda b, x: x if _is_unsigned(x) else b.abs(x),
    "add": lambda b, x, y: b.add(x, y),
    "arccos": _op("chlo.acos"),
    "arccosh": _op("chlo.acosh"),
    "arcsin": _op("chlo.asin"),
    "arcsinh": _op("chlo.asinh"),
    "arctan": _op("chlo.atan"),
    "arctan2": lambda b, x, y: b.emit("stablehlo.atan2", (x, y), x.type),
    "arctanh": _op("chlo.atanh"),
    "bitwise_and": lambda b, x, y: b.and_(x, y),
    "bitwise_or": lambda b, x, y: b.or_(x, y),
    "bitwise_xor": lambda b, x, y: b.emit("stablehlo.xor", (x, y), x.type),
    "cbrt": lambda b, x: b.cbrt(x),
    "ceil": _rounded("stablehlo.ceil"),
    "conjugate": lambda b, x: b.conj(x),
    "copysign": _copy_sign,
    "cos": lambda b, x: b.cosine(x),
    "cosh": lambda b, x: b.cosh(x),
    "deg2rad": _times(math.pi / 180),
    "degrees": _times(180 / math.pi),
    "divide": lambda b, x, y: b.divide(x, y),
    "equal": _compared("EQ"),
    "exp": lambda b, x: b.exponential(x),
    "exp2": lambda b, x: b.exponential(b.multiply(x, b.constant(math.log(2), x))),
    "expm1": _op("stablehlo.exponential_minus_one"),
    "fabs": lambda b, x: b.abs(x),
    "float_power": lambda b, x, y: b.power(x, y),
    "floor": _rounded("stablehlo.floor"),
    "floor_divide": _floor_divide,
    "fmax": _not_a_number(larger=True),
    "fmin": _not_a_number(larger=False),
    "fmod": lambda b, x, y: b.remainder(x, y),
    "greater": _compared("GT"),
    "greater_equal": _compared("GE"),
    "heaviside": lambda b, x, y: b.select(
        b.compare(x, b.zeros_like(x), "EQ"), y, b.divide(b.add(b.sign(x), b.constant(1, x)), b.constant(2, x))
    ),
    "hypot": _hypotenuse,
    "invert": lambda b, x: b.not_(x),
    "isfinite": _is_finite,
    "isinf": _is_infinite,
    "isnan": lambda b, x: b.compare(x, x, "NE"),
    "left_shift": _shifted(left=True),
    "less": _compared("LT"),
    "less_equal": _compared("LE"),
    "log": lambda b, x: b.log(x),
    "log10": _scaled("log", 1 / math.log(10)),
    "log1p": _op("stablehlo.log_plus_one"),
    "log2": _scaled("log", 1 / math.log(2)),
    "logaddexp": _log_add_exp,
    "logical_and": lambda b, x, y: b.and_(x, y),
    "logical_not": lambda b, x: b.not_(x),
    "logical_or": lambda b, x, y: b.or_(x, y),
    "logical_xor": lambda b, x, y: b.emit("stablehlo.xor", (x, y), x.type),
    "maximum": lambda b, x, y: b.maximum(x, y),
    "minimum": lambda b, x, y: b.minimum(x, y),
    "multiply": lambda b, x, y: b.multiply(x, y),
    "negative": lambda b, x: b.negate(x),
    "nextafter": lambda b, x, y: b.emit("chlo.next_after", (x, y), x.type),
    "not_equal": _compared("NE"),
    "positive": lambda b, x: x,
    "power": lambda b, x, y: b.power(x, y),
    "rad2deg": _times(180 / math.pi),
    "radians": _times(math.pi / 180),
    "reciprocal": lambda b, x: b.divide(b.constant(1, x), x),
    "remainder": _remainder,
    "right_shift": _shifted(left=False),
    "rint": _rounded("stablehlo.round_nearest_even"),
    "sign": lambda b, x: b.minimum(x, b.constant(1, x)) if _is_unsigned(x) else b.sign(x),
    "signbit": _signbit,
    "sin": lambda b, x: b.sine(x),
    "sinh": lambda b, x: b.sinh(x),
    "sqrt": lambda b, x: b.sqrt(x),
    "square": lambda b, x: b.multiply(x, x),
    "subtract": lambda b, x, y: b.subtract(x, y),
    "tan": lambda b, x: b.tan(x),
    "tanh": lambda b, x: b.tanh(x),
    "trunc": _truncated,
}
"""Maps the name of each universal function to its emitter.

The operands of the emitter have equal shapes, and the element types that NumPy determined.
"""

BOOLEAN: dict[str, Emitter] = {
    "absolute": lambda b, x: x,
    "add": lambda b, x, y: b.or_(x, y),
    "maximum": lambda b, x, y: b.or_(x, y),
    "minimum": lambda b, x, y: b.and_(x, y),
    "multiply": lambda b, x, y: b.and_(x, y),
}
"""The emitters for boolean operands. A function that is missing here uses `EMITTERS` for booleans, too."""
