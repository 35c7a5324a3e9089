"""widen_float8: computes arithmetic of 8-bit floats in f32. Converts the operands to f32, and the results back.

%y = add %x, %x : f8E4M3FN      ->      %w = convert %x : f32    %s = add %w, %w : f32    %y = convert %s : f8E4M3FN

On CPUs, IREE reads 0xFF, one of the two NaNs of f8E4M3FN, as -480. It rounds numbers between the greatest subnormal
number and the least normal number to 0, and lacks some ops.

f32 has over twice as many mantissa bits as 8-bit floats. A sum, product, quotient or root that is rounded to f32 and
then to 8 bits therefore equals the result rounded once (Figueroa, "When is double rounding innocuous?", 1995). In the
regions of reductions, windows, scatters and sorts, each op rounds its result to 8 bits, as StableHLO says. Matrix
products and convolutions add in f32 and round only the sums.
"""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from torch_mlir import ir

from tiduc.backends.iree.emit.emitter import Emitter, signless
from tiduc.backends.iree.fault import missing, wrong
from tiduc.dialect.graph.functions import outer_first, replace
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.ops.traits import MOVING
from tiduc.dialect.shapes.types import element, is_complex, with_element

_LEAST = {"f8E4M3FN": (-6, 3), "f8E4M3FNUZ": (-7, 3), "f8E5M2": (-14, 2), "f8E5M2FNUZ": (-15, 2)}
"""For each 8-bit type, the exponent of its least normal number, and the number of its mantissa bits."""


@wrong(
    "IREE rounds products of f8E4M3FN just below the least normal number to 0; tiduc computes in f32.",
    "float8_small",
)
@missing("IREE lacks `abs` and other ops of 8-bit floats; tiduc computes in f32.", "float8_abs")
def widen_float8(module: ir.Module | IrOp) -> None:
    """Rewrites a module's arithmetic on 8-bit floats as arithmetic in f32, in place."""
    for op in outer_first(module.operation):
        if not op.name.startswith("stablehlo.") or op.name in MOVING:
            continue
        if op.name == "stablehlo.convert" and not is_complex(op.results[0]):
            continue  # a pattern handles these conversions
        if any(is_float8(x) for x in (*op.operands, *op.results)):
            _widen(op)


def _widen(op: IrOp) -> None:
    """Replaces an op on 8-bit floats by the same op on f32. Compares in total order as integers instead."""
    b = Emitter(ir.InsertionPoint(op), op.location)
    if "compare_type" in op.attributes and "TOTALORDER" in str(op.attributes["compare_type"]):
        results: Sequence[Any] = [_in_total_order(b, op)]
    else:
        f32 = ir.F32Type.get()
        replaced = {i: b.convert(x, f32) for i, x in enumerate(op.operands) if is_float8(x)}
        types = [with_element(y.type, f32) if is_float8(y) else y.type for y in op.results]
        if "algorithm" in op.attributes:  # this attribute names the former types of the operands
            del op.attributes["algorithm"]
        wide = b.clone(op, replaced, types)
        if op.name == "stablehlo.power":
            wide = (_without_error(b, wide[0]),)
        results = [
            b.convert(z, element(y)) if is_float8(y) else z for y, z in zip(op.results, wide, strict=True)
        ]
    replace(op, results)


def _without_error(b: Emitter, x: IrValue) -> IrValue:
    """Rounds x, a power computed in f32, to 16 mantissa bits.

    A power half way between two 8-bit floats thus becomes exactly half way. Otherwise the rounding error of f32 would
    decide how such a power is rounded to 8 bits. Removing the bits makes the result wrong for a single pair of 8-bit
    floats, whose power is very near half way: in f8E4M3FNUZ, 104 to the power -0.0068359375 gives 1 instead of 0.9375.
    """
    kept = {"exponent_bits": 8, "mantissa_bits": 16}
    attributes = {name: ir.IntegerAttr.get(signless(32), count) for name, count in kept.items()}
    return b.emit("stablehlo.reduce_precision", (x,), x.type, attributes)


def _in_total_order(b: Emitter, op: IrOp) -> IrValue:
    """Compares 8-bit floats in IEEE 754's total order, as integers.

    Before the comparison, inverts all bits of negative numbers except the sign bit. The FNUZ types have a single NaN,
    without a sign, whose code is that of -0 in other types. This NaN is the largest value in the order.
    """
    keys = []
    for x in op.operands:
        code = b.bitcast(x, signless(8))
        alone = str(element(x)).endswith("FNUZ")
        positive = b.subtract(code, 1) if alone else code
        key = b.select(b.compare(code, 0, "LT"), b.xor(code, 127), positive)
        keys.append(b.select(b.compare(code, -128, "NE"), key, 127) if alone else key)
    direction = str(op.attributes["comparison_direction"]).split()[-1].rstrip(">")
    return b.compare(keys[0], keys[1], direction)


def is_float8(x: IrValue) -> bool:
    """Whether the elements of a value, or of a tensor type, are 8-bit floats."""
    return _is_float8(x if isinstance(x, ir.Type) else x.type)


@functools.cache
def _is_float8(type_: ir.RankedTensorType) -> bool:
    return isinstance(type_, ir.RankedTensorType) and str(type_.element_type) in _LEAST


def from_float8(b: Emitter, x: IrValue) -> IrValue:
    """Converts 8-bit floats to f32, which represents all of them. Every encoding of NaN becomes NaN."""
    wide = b.convert(x, ir.F32Type.get())
    if str(element(x)) != "f8E4M3FN":
        return wide
    code = b.bitcast(x, signless(8))
    return b.select(b.compare(code, -1, "NE"), wide, np.nan)


def to_float8(b: Emitter, x: IrValue, to: ir.Type) -> Sequence[IrValue]:
    """Rounds x to the 8-bit type `to`. Drops the imaginary parts of complex numbers.

    Numbers that must round up to the least normal number are replaced by it first, because IREE would round them to 0.
    """
    x = b.real(x) if is_complex(x) else x
    wide = _to_odd(b, x) if element(x) == ir.F64Type.get() else b.convert(x, ir.F32Type.get())
    exponent, mantissa = _LEAST[str(to)]
    normal = 2.0**exponent
    size = b.abs(wide)
    rounded = b.and_(
        b.compare(size, normal, "LT"), b.compare(size, normal * (1 - 2.0 ** -(mantissa + 1)), "GE")
    )
    least = b.select(b.compare(wide, 0, "LT"), b.constant(-normal, wide), normal)
    return [b.convert(b.select(rounded, least, wide), to)]


def _to_odd(b: Emitter, x: IrValue) -> IrValue:
    """Rounds f64 to f32, "to odd": a number that is not an f32 becomes the neighbouring f32 whose last bit is 1.

    A number half way between two 8-bit floats ends in zeros, so rounding to odd never produces one. Rounding the result
    again therefore equals rounding once (Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums", 2008).
    """
    near = b.convert(x, ir.F32Type.get())
    size, rounded = b.abs(x), b.abs(b.convert(near, ir.F64Type.get()))
    bits = b.bitcast(near, signless(32))
    even = b.compare(b.and_(bits, 1), 0, "EQ")
    up, down = (b.and_(even, b.compare(rounded, size, direction)) for direction in ("LT", "GT"))
    step = b.select(up, b.constant(1, bits), b.select(down, b.constant(-1, bits), 0))
    return b.bitcast(b.add(bits, step), ir.F32Type.get())
