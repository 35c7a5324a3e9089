"""Patterns for elementwise ops for which IREE computes special values wrongly or rejects element types."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.backends.iree.emit import arrays, polynomials
from tiduc.backends.iree.emit.emitter import (
    Emitter,
    is_boolean,
    is_directly_in,
    is_unsigned,
    legalize,
    signless,
)
from tiduc.backends.iree.emit.known import known_number
from tiduc.backends.iree.emit.powers_of_two import exponent_of, power_of_two
from tiduc.backends.iree.fault import crash, missing, wrong
from tiduc.dialect.mlir.constants import resource_name
from tiduc.dialect.mlir.resources import contents_of
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.shapes.types import bits, element, is_complex, is_f64, is_float, with_element


@legalize("stablehlo.add")
@wrong("IREE adds predicates modulo two; tiduc emits their disjunction.", "add_predicates")
def add(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Adds predicates by `or`. Returns None for other types."""
    return [b.or_(*op.operands)] if is_boolean(op.results[0]) else None


@legalize("stablehlo.constant")
@crash(
    "Constants of complex<f64>, with 128-bit elements, crash the compiler; tiduc emits a constant for each part.",
    "constant_c128",
)
@crash(
    "Constants of unsigned integers and 8-bit floats whose bytes are a resource do not compile; tiduc emits "
    "resources of signless integers, and bitcasts.",
    untested="resources follow the functions of a file, so no other program fits beside it; test_resources.py has it",
)
def constant(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Splits a complex<f64> constant into its real and its imaginary part, which become constants of f64.

    If the bytes of a constant are a resource, replaces it by a resource of a type that IREE reads. Returns None for
    other constants.
    """
    type_ = op.results[0].type
    if (name := resource_name(op.attributes["value"])) is not None:
        return _stored_apart(b, op, name)
    if not is_complex(type_) or bits(type_) != 128:
        return None
    part = with_element(type_, ir.F64Type.get())
    # The bindings cannot read elements of 128 bits, but StableHLO's interpreter returns their parts.
    both = hlo.eval_module(
        ir.Module.parse(
            f"""func.func @main() -> ({part}, {part}) {{
              %0 = stablehlo.constant {op.attributes["value"]}
              %1 = stablehlo.real %0 : ({type_}) -> {part}
              %2 = stablehlo.imag %0 : ({type_}) -> {part}
              return %1, %2 : {part}, {part}
            }}"""
        ),
        [],
    )
    return [b.complex(*(b.emit("stablehlo.constant", (), part, {"value": value}) for value in both))]


def _stored_apart(b: Emitter, op: IrOp, name: str) -> Sequence[IrValue] | None:
    """Replaces a constant whose bytes are the resource `name`. Returns None if IREE can read the constant's type.

    The parts of complex<f64> become two resources of f64. Unsigned integers and 8-bit floats become a resource of
    signless integers, and are bitcast.
    """
    value, type_ = op.attributes["value"], op.results[0].type
    is_wide = is_complex(type_) and bits(type_) == 128
    if not is_wide and not is_unsigned(type_) and not (is_float(type_) and bits(type_) == 8):
        return None
    whole = np.frombuffer(contents_of(value), np.float64 if is_wide else np.uint8)
    part = with_element(type_, ir.F64Type.get() if is_wide else signless(bits(type_)))
    parts = [
        b.emit(op.name, (), part, {"value": _resource(array, name, part)})
        for array in ((whole[::2], whole[1::2]) if is_wide else (whole,))
    ]
    return [b.complex(*parts) if is_wide else b.bitcast(parts[0], element(type_))]


def _resource(array: NDArray[Any], name: str, type_: ir.RankedTensorType) -> ir.Attribute:
    contents = np.ascontiguousarray(array)
    alignment = max(1, bits(type_) // 8)
    return ir.DenseResourceElementsAttr.get_from_buffer(contents, name, type_, alignment=alignment)


@legalize("stablehlo.power")
@wrong(
    "IREE computes exp(y log x), so x < 0 and 0^0 give NaN; tiduc emits abs(x)^y, then selects special cases.",
    "power",
)
@wrong(
    "IREE reads the last six bits of an integer exponent, so 0^64 gives 1; tiduc emits 0^1 for a power of 0.",
    "power_of_zero",
)
@wrong(
    "IREE's powers of 2 are off by up to 64 units in the last place; tiduc emits 2^n exp(f log 2), with an integer n.",
    "powers_of_two",
)
def power(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Computes |x|^y, with the sign of x if y is odd, and selects the results of special cases.

    IREE computes |x|^y wrongly only if y log |x| is a product of 0 and infinity. Returns None for complex types.
    """
    x, y = op.operands
    if not is_float(x):
        return None if is_complex(x) else _power_of_integers(b, x, y)
    number = known_number(y)
    if number is not None:
        return [_power_of_known(b, x, float(number))]
    base = known_number(x)
    exponent = exponent_of(float(base)) if base is not None else None
    if exponent is not None:
        return [power_of_two(b, b.multiply(y, exponent))]
    size = b.abs(x)
    whole, half = b.compare(b.floor(y), y, "EQ"), b.multiply(y, 0.5)
    odd = b.and_(whole, b.compare(b.floor(half), half, "NE"))
    magnitude = _power_of_size(b, size, y)
    # The sign is taken from the sign bit of x, because x < 0 is false for -0.
    signed = b.select(odd, polynomials.with_sign(b, magnitude, x), magnitude)
    result = b.select(b.or_(whole, b.not_(_is_below_0(b, x))), signed, np.nan)
    unit = b.and_(b.compare(size, 1, "EQ"), b.compare(b.abs(y), np.inf, "EQ"))
    ones = b.or_(b.or_(b.compare(y, 0, "EQ"), b.compare(x, 1, "EQ")), unit)
    return [b.select(ones, b.constant(1, x), result)]


def _power_of_integers(b: Emitter, x: IrValue, y: IrValue) -> Sequence[IrValue] | None:
    """Replaces 0^y by 0^1 if y > 0. IREE's other wrong powers are those that overflow.

    Returns None if y is known to be between 0 and 63, because IREE then computes the powers correctly.
    """
    number = known_number(y)
    if number is not None and 0 <= float(number) < 64:
        return None
    is_power_of_0 = b.and_(b.compare(x, 0, "EQ"), b.compare(y, 0, "GT"))
    return [b.power(x, b.select(is_power_of_0, b.constant(1, y), y))]


def _power_of_known(b: Emitter, x: IrValue, exponent: float) -> IrValue:
    """Computes x^y for a constant exponent y. Here y decides most special cases, so that these need no select."""
    if not exponent:
        return b.constant(1, x)
    magnitude = _power_of_size(b, b.abs(x), b.constant(exponent, x))
    if not exponent.is_integer():
        return b.select(_is_below_0(b, x), b.constant(np.nan, x), magnitude)
    return polynomials.with_sign(b, magnitude, x) if exponent % 2 else magnitude


def _is_below_0(b: Emitter, x: IrValue) -> IrValue:
    """Whether x is negative and finite."""
    return b.and_(b.compare(x, 0, "LT"), b.compare(b.abs(x), np.inf, "NE"))


def _power_of_size(b: Emitter, size: IrValue, y: IrValue) -> IrValue:
    """Computes size^y, where `size` is |x|. On GPUs, selects the result for |x| = 0, because IREE's is undefined."""
    if b.cpu:
        return b.power(size, y)
    is_zero, zero = b.compare(size, 0, "EQ"), b.constant(0, y)
    above = b.select(b.compare(y, 0, "GT"), zero, y)
    at_zero = b.select(b.compare(y, 0, "LT"), b.constant(np.inf, y), above)
    return b.select(is_zero, at_zero, b.power(b.select(is_zero, b.constant(1, y), size), y))


@legalize("stablehlo.atan2")
@wrong(
    "IREE divides first, so 0/0 and inf/inf give NaN; tiduc emits the angles of 0/1 and 1/1, with the signs kept.",
    "atan2",
)
def atan2(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Computes the angle of the point (x, y). Returns None for complex operands.

    If x and y are both 0, replaces x by 1 with the sign of x. If both are infinite, replaces each by 1 with its sign.
    The result gets the sign bit of y, because IREE ignores the sign of -0.
    """
    y, x = op.operands
    if not is_float(x):
        return None
    size, one = b.abs(y), b.constant(1, x)
    zeros = b.and_(b.compare(x, 0, "EQ"), b.compare(size, 0, "EQ"))
    infinities = b.and_(b.compare(b.abs(x), np.inf, "EQ"), b.compare(size, np.inf, "EQ"))
    of_x = b.select(b.or_(zeros, infinities), polynomials.with_sign(b, one, x), x)
    return [polynomials.with_sign(b, b.atan2(b.select(infinities, one, size), of_x), y)]


@legalize("stablehlo.ceil", "stablehlo.floor")
@wrong("IREE treats denormal numbers as 0; tiduc selects 1 (ceil) or -1 (floor) by their bits.", "{op}_f32")
def next_whole(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Selects 1 for the ceil of a positive denormal number, and -1 for the floor of a negative one.

    Returns None for 8-bit floats.
    """
    x = op.operands[0]
    if bits(x) < 16:  # 8-bit floats are computed in a wider type, in which their denormal numbers are normal
        return None
    codes, up = b.bitcast(x, signless(bits(x))), op.name == "stablehlo.ceil"
    lowest = -(1 << (bits(x) - 1))  # the bits of -0: also the least integer of this width
    count = (1 << MANTISSA[str(element(x))]) - 1
    # Maps the codes of the `count` positive (or negative) denormal numbers to the least signed integers.
    shifted = b.subtract(codes, 1 + lowest if up else 1)
    tiny = b.compare(shifted, lowest + count, "LT")
    return [b.select(tiny, b.constant(1 if up else -1, x), b.emit(op.name, (x,), x.type))]


MANTISSA = {"f16": 10, "bf16": 7, "f32": 23, "f64": 52}
"""The number of mantissa bits of each float type. In a denormal number, only these bits and the sign bit are set."""


@legalize("stablehlo.cbrt")
@missing(
    "The op does not compile for f64 and complex types; tiduc emits logarithms and exponentials.", "cbrt_f64"
)
@wrong("Infinities give NaN; tiduc selects the right values for them.", "cbrt_infinity")
def cbrt(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Computes the cube root. If x is a real infinity or zero, selects x itself."""
    x = op.operands[0]
    if is_complex(x):
        return [_complex_cbrt(b, x)]
    return [_real_cbrt(b, x)]


def _real_cbrt(b: Emitter, x: IrValue) -> IrValue:
    special = b.or_(b.compare(b.abs(x), np.inf, "EQ"), b.compare(x, 0, "EQ"))
    return b.select(special, x, _cbrt_f64(b, x) if bits(x) == 64 else b.cbrt(x))


def _cbrt_f64(b: Emitter, x: IrValue) -> IrValue:
    """Computes the cube root for f64: first exp(log|x| / 3), with the sign of x and a relative error e of 1e-13.

    Then a Halley step, whose error is of the order of e^3.
    """
    start = b.exponential(b.multiply(b.log(b.abs(x)), 1 / 3))
    y = b.multiply(start, b.sign(x))
    ratio = b.divide(b.multiply(y, b.multiply(y, y)), x)
    step = b.divide(b.subtract(ratio, 1), b.add(b.add(ratio, ratio), 1))
    return b.subtract(y, b.multiply(y, step))


def _complex_cbrt(b: Emitter, x: IrValue) -> IrValue:
    """Computes the principal cube root of a complex x from the modulus and the angle of x."""
    re, im = b.real(x), b.imag(x)
    angle = b.multiply(b.atan2(im, re), 1 / 3)
    size = _real_cbrt(b, b.abs(x))
    return b.complex(b.multiply(size, b.cosine(angle)), b.multiply(size, b.sine(angle)))


@legalize("stablehlo.log_plus_one")
@wrong(
    "IREE loses 11 bits of f64; tiduc emits log(u) + (rounding error of u) / u, u = 1 + x.", "log_plus_one"
)
def log_plus_one(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Computes log(u) + (rounding error of u) / u, where u = 1 + x, for f64. Returns None for other types.

    The error is at most 2 units in the last place if the error of log(u) is at most 1 unit.
    """
    x = op.operands[0]
    if not is_f64(x):
        return None
    u = b.add(x, 1)
    lost, logarithm = b.subtract(x, b.subtract(u, 1)), b.log(u)
    # The correction is omitted if it may be NaN: if u is exact, as for x = -1 (u = 0), or infinite.
    kept = b.or_(b.compare(lost, 0, "EQ"), b.compare(u, np.inf, "EQ"))
    return [polynomials.unless_zero(b, x, b.select(kept, logarithm, b.add(logarithm, b.divide(lost, u))))]


@legalize("stablehlo.exponential_minus_one")
@wrong("IREE loses 12 bits of f64; tiduc emits a polynomial.", "exponential_minus_one")
def exponential_minus_one(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Computes e^x - 1 by a polynomial, for f64. Returns None for other types."""
    (x,) = op.operands
    return [polynomials.exponential_minus_one(b, x)] if is_f64(x) else None


@legalize("stablehlo.maximum", "stablehlo.minimum")
@wrong(
    "Results of complex operands mix their parts; tiduc compares real parts, then imaginary parts, and selects.",
    "maximum_complex",
)
def extremum(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Compares complex numbers by real parts, then by imaginary parts, and selects. Returns None for real numbers."""
    x, y = op.operands
    if not is_complex(x):
        return None
    direction = "GT" if op.name == "stablehlo.maximum" else "LT"
    (xr, xi), (yr, yi) = ((b.real(z), b.imag(z)) for z in (x, y))
    tied = b.and_(b.compare(xr, yr, "EQ"), b.compare(xi, yi, direction))
    return [b.select(b.or_(b.compare(xr, yr, direction), tied), x, y)]


@legalize("stablehlo.clamp")
@wrong("Clamps of complex numbers are wrong; tiduc takes the maximum, then the minimum.", "clamp_complex")
def clamp(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Clamps complex numbers by a maximum with the lower bound, then a minimum with the upper bound.

    Returns None for real numbers.
    """
    low, x, high = op.operands
    if not is_complex(x):
        return None
    low, high = (z if z.type.rank else arrays.repeated(b, z, arrays.sizes_of(b, x)) for z in (low, high))
    return [b.minimum(b.maximum(low, x), high)]


@legalize("stablehlo.compare")
@wrong("On vmvx, x >= y holds for NaN, since x < y does not; tiduc emits y <= x.", "vmvx/compare")
def at_least(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Rewrites x >= y of floats as y <= x. Returns None for other comparisons, and in the comparator of a sort."""
    x, y = op.operands
    directed = str(hlo.ComparisonDirectionAttr(op.attributes["comparison_direction"]).value)
    kind = op.attributes["compare_type"] if "compare_type" in op.attributes else None
    total = kind is not None and str(hlo.ComparisonTypeAttr(kind).value) == "TOTALORDER"
    if directed != "GE" or total or not is_float(x) or is_directly_in(op, "stablehlo.sort"):
        return None
    return [b.compare(y, x, "LE")]


@legalize("stablehlo.is_finite")
@wrong("On vmvx, NaN is finite, since it is not infinite; tiduc emits abs(x) < infinity.", "vmvx/is_finite")
def finite(b: Emitter, op: IrOp) -> Sequence[IrValue]:
    """Computes the op as abs(x) < infinity."""
    x = op.operands[0]
    return [b.compare(b.abs(x), np.inf, "LT")]


@legalize("stablehlo.remainder")
@wrong("On vmvx, IREE rounds the quotient to nearest; tiduc corrects the sign.", "vmvx/remainder")
def remainder(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Adds |y|, with the sign of x, to IREE's remainder if the signs of x and the remainder differ.

    Returns None on CPUs, and for integers and 8-bit floats.
    """
    x, y = op.operands
    if b.cpu or not is_float(x) or bits(x) < 16:
        return None
    (r,) = b.clone(op, {})
    other = b.select(b.compare(x, 0, "LT"), b.compare(r, 0, "GT"), b.compare(r, 0, "LT"))
    return [b.select(other, b.add(r, polynomials.with_sign(b, b.abs(y), x)), r)]


@legalize("stablehlo.reduce_precision")
@wrong("With 0 mantissa bits, NaN must become infinity; tiduc selects infinity.", "reduce_precision")
@crash(
    "Excess bits for bf16 crash the compiler; tiduc caps them.",
    "reduce_precision_bf16",
    untested="does not crash on every machine",
)
def reduce_precision(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Selects infinity for NaN if the op keeps no mantissa bits. Otherwise returns None, and the op remains.

    For bf16, first limits the numbers of bits to those of bf16, in place. Returns x if the op keeps all of its bits.
    """
    x = op.operands[0]
    if element(x) == ir.BF16Type.get():
        most = {"exponent_bits": 8, "mantissa_bits": 7}
        counts = {name: min(ir.IntegerAttr(op.attributes[name]).value, most[name]) for name in most}
        if counts == most:
            return [x]
        for name, count in counts.items():
            op.attributes[name] = ir.IntegerAttr.get(signless(32), count)
    if ir.IntegerAttr(op.attributes["mantissa_bits"]).value:
        return None
    (y,) = b.clone(op, {})
    return [b.select(b.compare(x, x, "EQ"), y, np.inf)]
