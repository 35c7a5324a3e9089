"""Computes exponential, logistic and tanh of f64 by a polynomial, which compiles to vector code.

    %0 = stablehlo.exponential %x : tensor<9xf64>    ->    2^n (1 + r + r^2 q(r)),  x = n log 2 + r,  |r| <= log(2) / 2

IREE would call the C library for each element. `emit/polynomials.py` has the polynomial. The largest errors are 1 unit
in the last place for exponential, 2 for exponential_minus_one and logistic, and 3 for tanh.
"""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from tiduc.backends.iree.emit.emitter import ON_CPUS, Emitter, legalize
from tiduc.backends.iree.emit.polynomials import exponential_minus_one, exponential_parts, with_sign
from tiduc.backends.iree.fault import slow
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.shapes.types import is_f64

Function = Callable[[Emitter, Any], Any]
"""A function `(b, x) -> y` that emits ops on each element of an f64 array x."""


def of_f64(name: str, text: str) -> Callable[[Function], Function]:
    """A decorator that registers a CPU pattern of the op `stablehlo.{name}` for f64. `text` describes the fault."""

    def register(function: Function) -> Function:
        @legalize(f"stablehlo.{name}", where=ON_CPUS)
        @slow(text, f"flags.py: {name}")
        @wraps(function)
        def pattern(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
            x = op.operands[0]
            return [function(b, x)] if is_f64(x) else None

        return function

    return register


@of_f64(
    "exponential",
    "For f64, IREE calls the C library for each element; tiduc emits a polynomial as vector code.",
)
def exponential(b: Emitter, x: IrValue) -> IrValue:
    """Computes e^x by a polynomial, as vector code."""
    powers = exponential_parts(b, x)
    y = b.add(powers.less, 1)
    return b.multiply(b.multiply(y, powers.first), powers.second)


@of_f64(
    "logistic",
    "For f64, IREE calls the C library for each element; tiduc emits 1 / (1 + e^-x), with a polynomial for e^-x.",
)
def logistic(b: Emitter, x: IrValue) -> IrValue:
    """Computes 1 / (1 + e^-x), with a polynomial for e^-x."""
    return b.divide(b.constant(1, x), b.add(exponential(b, b.negate(x)), 1))


@of_f64(
    "tanh",
    "For f64, IREE calls the C library; tiduc emits -m / (2 + m) with m = e^(-2 abs(x)) - 1, and the sign of x.",
)
def tanh(b: Emitter, x: IrValue) -> IrValue:
    """Computes |m| / (2 + m), where m = e^(-2 |x|) - 1, and gives it the sign of x."""
    size = b.abs(x)
    m = exponential_minus_one(b, b.negate(b.add(size, size)))
    return with_sign(b, b.abs(b.divide(m, b.add(m, 2))), x)
