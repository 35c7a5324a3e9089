"""Floats of 8 bits: what is computed of them is computed in f32, between conversions that are right.

%y = add %x, %x : f8E4M3FN      ->      %w = convert %x : f32    %s = add %w, %w : f32    %y = convert %s : f8E4M3FN

IREE's code for CPUs has arithmetic that takes the second NaN of f8E4M3FN, 0xFF, for -480, and rounds what lies between
the greatest subnormal number and the least normal one to 0; some ops it has not at all. f32 has all of these numbers
and more than twice their bits, so that a sum, product, quotient or root that is rounded to f32, and then again, is what
it is rounded once (Figueroa, "When is double rounding innocuous?", 1995). What regions of reductions, windows, scatters
and sorts compute is rounded op by op, as it is written; products of matrices and convolutions are when they are summed.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch_mlir import ir

from tiduc.backends.iree.emitter import Emitter, signless, within
from tiduc.backends.iree.refused import refused
from tiduc.dialect.types import element, is_complex, with_element

_LEAST = {"f8E4M3FN": (-6, 3), "f8E4M3FNUZ": (-7, 3), "f8E5M2": (-14, 2), "f8E5M2FNUZ": (-15, 2)}
"""The exponent of the least normal number, and the bits of the mantissa."""

_MOVES = frozenset(
    f"stablehlo.{name}"
    for name in (
        "after_all bitcast_convert broadcast broadcast_in_dim case composite concatenate constant custom_call "
        "dynamic_broadcast_in_dim dynamic_gather dynamic_pad dynamic_reshape dynamic_slice dynamic_update_slice gather "
        "get_dimension_size get_tuple_element if map optimization_barrier pad real_dynamic_slice reduce reduce_window "
        "reshape return reverse scatter select select_and_scatter set_dimension_size slice sort torch_index_select "
        "transpose tuple while"
    ).split()
)
"""Ops that compute nothing of their elements themselves."""


def computed_in_f32(module: Any) -> None:
    """Puts arithmetic of these types into f32, in place; `Unsupported` for random numbers of them."""
    for op in within(module.operation):
        if not op.name.startswith("stablehlo.") or op.name in _MOVES:
            continue
        if op.name == "stablehlo.convert" and not is_complex(op.results[0]):
            continue  # has a pattern
        if any(is_float8(x) for x in (*op.operands, *op.results)):
            _widen(op)


def _widen(op: Any) -> None:
    """The op, of f32 in the place of floats of 8 bits."""
    if op.name == "stablehlo.rng":
        raise refused(op, "random numbers of 8 bits may be the bound that is no part of their range")
    b = Emitter(ir.InsertionPoint(op), op.location)
    if "compare_type" in op.attributes and "TOTALORDER" in str(op.attributes["compare_type"]):
        results: Sequence[Any] = [_in_total_order(b, op)]
    else:
        f32 = ir.F32Type.get()
        replaced = {i: b.convert(x, f32) for i, x in enumerate(op.operands) if is_float8(x)}
        types = [with_element(y.type, f32) if is_float8(y) else y.type for y in op.results]
        if "algorithm" in op.attributes:  # of a product, which names the operands' types
            del op.attributes["algorithm"]
        wide = b.again(op, replaced, types)
        if op.name == "stablehlo.power":
            wide = (_without_error(b, wide[0]),)
        results = [
            b.convert(z, element(y)) if is_float8(y) else z for y, z in zip(op.results, wide, strict=True)
        ]
    for y, z in zip(op.results, results, strict=True):
        y.replace_all_uses_with(z)
    op.erase()


def _without_error(b: Emitter, x: Any) -> Any:
    """A power in f32 less its last bits, so that what is half way between two numbers of 8 bits is that.

    Of all pairs of such numbers one has a power that is nearer to half way than what is lost, and not there: 104 to the
    -0.0068359375 of f8E4M3FNUZ is 1, and would be 0.9375.
    """
    kept = {"exponent_bits": 8, "mantissa_bits": 16}
    attributes = {name: ir.IntegerAttr.get(signless(32), count) for name, count in kept.items()}
    return b.emit("stablehlo.reduce_precision", (x,), x.type, attributes)


def _in_total_order(b: Emitter, op: Any) -> Any:
    """A comparison by IEEE 754's total order: of the codes, those of negative numbers turned around.

    The types FNUZ have one NaN, without sign, in the place of -0: it comes last.
    """
    keys = []
    for x in op.operands:
        code = b.bitcast(x, signless(8))
        zero, one, most = (b.like(value, code) for value in (0, 1, 127))
        alone = str(element(x)).endswith("FNUZ")
        turned = b.emit("stablehlo.xor", (code, most), code.type)
        key = b.select(b.compare(code, zero, "LT"), turned, b.subtract(code, one) if alone else code)
        keys.append(b.select(b.compare(code, b.like(-128, code), "EQ"), most, key) if alone else key)
    direction = str(op.attributes["comparison_direction"]).split()[-1].rstrip(">")
    return b.compare(keys[0], keys[1], direction)


def is_float8(x: Any) -> bool:
    """Its elements are of one of these types."""
    type_ = x if isinstance(x, ir.Type) else x.type
    return isinstance(type_, ir.RankedTensorType) and str(type_.element_type) in _LEAST


def from_float8(b: Emitter, x: Any) -> Any:
    """The same numbers as f32, which has all of them; NaN is one in any case."""
    wide = b.convert(x, ir.F32Type.get())
    if str(element(x)) != "f8E4M3FN":
        return wide
    code = b.bitcast(x, signless(8))
    return b.select(b.compare(code, b.like(-1, code), "EQ"), b.like(np.nan, wide), wide)


def to_float8(b: Emitter, x: Any, to: Any) -> Sequence[Any]:
    """From f32, in which what rounds to the least normal number is that already."""
    x = b.real(x) if is_complex(x) else x
    wide = _to_odd(b, x) if element(x) == ir.F64Type.get() else b.convert(x, ir.F32Type.get())
    exponent, mantissa = _LEAST[str(to)]
    normal = 2.0**exponent
    size = b.abs(wide)
    below = b.compare(size, b.like(normal, wide), "LT")
    rounded = b.and_(below, b.compare(size, b.like(normal * (1 - 2.0 ** -(mantissa + 1)), wide), "GE"))
    least = b.select(b.compare(wide, b.like(0, wide), "LT"), b.like(-normal, wide), b.like(normal, wide))
    return [b.convert(b.select(rounded, least, wide), to)]


def _to_odd(b: Emitter, x: Any) -> Any:
    """f64 as f32, of the two neighbours of what f32 has not the one whose last bit is 1.

    Numbers half way between two of 8 bits end in zeros, so that none becomes one, and rounding again is rounding once
    (Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums", 2008, on rounding to odd).
    """
    near = b.convert(x, ir.F32Type.get())
    size, rounded = b.abs(x), b.abs(b.convert(near, ir.F64Type.get()))
    bits = b.bitcast(near, signless(32))
    one, zero = b.like(1, bits), b.like(0, bits)
    even = b.compare(b.and_(bits, one), zero, "EQ")
    up, down = (b.and_(even, b.compare(rounded, size, direction)) for direction in ("LT", "GT"))
    step = b.select(up, one, b.select(down, b.like(-1, bits), zero))
    return b.bitcast(b.add(bits, step), ir.F32Type.get())
