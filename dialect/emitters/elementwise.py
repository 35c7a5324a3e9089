"""Emits elementwise ops of StableHLO and CHLO.

If the result of an op has the type of the first operand, one line defines the method that emits the op.
"""

from collections.abc import Callable

from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.dialect.emitters.dynamic_shapes import DynamicShapes
from tiduc.dialect.emitters.protocol import N, V
from tiduc.dialect.shapes.types import element, is_complex, predicate, with_element


def _unary(name: str) -> Callable[["Elementwise[V, N]", V], V]:
    def emit(b: "Elementwise[V, N]", x: V) -> V:
        return b.emit(name, (x,), x.type)

    emit.__doc__ = f"`{name}` of x; same type."
    return emit


def _binary(name: str) -> Callable[["Elementwise[V, N]", V, V | N], V]:
    def emit(b: "Elementwise[V, N]", x: V, y: V | N) -> V:
        return b.emit(name, (x, y), x.type)

    emit.__doc__ = f"`{name}` of x and y; same type."
    return emit


def _part(name: str) -> Callable[["Elementwise[V, N]", V], V]:
    def emit(b: "Elementwise[V, N]", x: V) -> V:
        return (
            b.emit(name, (x,), with_element(x.type, element(x).element_type))
            if is_complex(x)
            else b.part(name, x)
        )

    emit.__doc__ = f"`{name}` of x, a real tensor of the same shape."
    return emit


class Elementwise(DynamicShapes[V, N]):
    """Emits elementwise ops on operands of equal shapes.

    The condition of `select` and the bounds of `clamp` may also be scalars.
    """

    abs = _part("stablehlo.abs")
    and_ = _binary("stablehlo.and")
    atan2 = _binary("stablehlo.atan2")
    cbrt = _unary("stablehlo.cbrt")
    cosine = _unary("stablehlo.cosine")
    cosh = _unary("chlo.cosh")
    digamma = _unary("chlo.digamma")
    divide = _binary("stablehlo.divide")
    exponential = _unary("stablehlo.exponential")
    floor = _unary("stablehlo.floor")
    imag = _part("stablehlo.imag")
    log = _unary("stablehlo.log")
    logistic = _unary("stablehlo.logistic")
    maximum = _binary("stablehlo.maximum")
    minimum = _binary("stablehlo.minimum")
    negate = _unary("stablehlo.negate")
    not_ = _unary("stablehlo.not")
    or_ = _binary("stablehlo.or")
    polygamma = _binary("chlo.polygamma")
    power = _binary("stablehlo.power")
    real = _part("stablehlo.real")
    remainder = _binary("stablehlo.remainder")
    round_nearest_even = _unary("stablehlo.round_nearest_even")
    rsqrt = _unary("stablehlo.rsqrt")
    shift_left = _binary("stablehlo.shift_left")
    shift_right_logical = _binary("stablehlo.shift_right_logical")
    sign = _unary("stablehlo.sign")
    sine = _unary("stablehlo.sine")
    sinh = _unary("chlo.sinh")
    sqrt = _unary("stablehlo.sqrt")
    subtract = _binary("stablehlo.subtract")
    tan = _unary("stablehlo.tan")
    tanh = _unary("stablehlo.tanh")
    xor = _binary("stablehlo.xor")
    zeta = _binary("chlo.zeta")

    def add(self, x: V, y: V | N) -> V:
        return self.emit("stablehlo.add", (x, y), x.type)

    def multiply(self, x: V, y: V | N) -> V:
        return self.emit("stablehlo.multiply", (x, y), x.type)

    # ---- these methods need more than one line ----------------------------------------------------------------

    def conj(self, x: V) -> V:
        return self.complex(self.real(x), self.negate(self.imag(x))) if is_complex(x) else x

    def part(self, name: str, x: V) -> V:
        """The result of the op `name` for a real x: x for `real`, zeros for `imag`, and |x| for `abs`."""
        if name == "stablehlo.real":
            return x
        return self.constant(0, x) if name == "stablehlo.imag" else self.emit(name, (x,), x.type)

    def complex(self, re: V, im: V | N) -> V:
        """re + i im."""
        return self.emit(
            "stablehlo.complex", (re, im), with_element(re.type, ir.ComplexType.get(element(re)))
        )

    def convert(self, x: V, element_type: ir.Type) -> V:
        """x converted to an element type; x itself if it has that type."""
        if element(x) == element_type:
            return x
        return self.emit("stablehlo.convert", (x,), with_element(x.type, element_type))

    def compare(self, x: V, y: V | N, direction: str) -> V:
        """Compares x and y. `direction` is EQ, NE, GE, GT, LE or LT; complex values support only EQ and NE."""
        attributes = {"comparison_direction": hlo.ComparisonDirectionAttr.get(direction)}
        return self.emit("stablehlo.compare", (x, y), predicate(x.type), attributes)

    def select(self, condition: V | N, x: V, y: V | N) -> V:
        """x where the condition holds, else y."""
        return self.emit("stablehlo.select", (condition, x, y), x.type)

    def clamp(self, low: V | N, x: V, high: V | N) -> V:
        """x clamped to [low, high]. The bounds have x's type, or are scalars."""
        return self.emit("stablehlo.clamp", (low, x, high), x.type)
