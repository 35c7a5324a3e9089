"""Patterns for convert and bitcast_convert, for the types and scalars that IREE converts wrongly or rejects."""

from collections.abc import Sequence

from torch_mlir import ir

from tiduc.backends.iree.emit.emitter import Emitter, is_boolean, is_unsigned, legalize, signless
from tiduc.backends.iree.fault import crash, missing, wrong
from tiduc.backends.iree.faults.widen_float8 import from_float8, is_float8, to_float8
from tiduc.dialect.graph.matching import traced
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.shapes.types import bits, element, is_complex, is_float, shape, with_element, with_shape


@legalize("stablehlo.convert")
@wrong("Conversions of floats to integers do not saturate; tiduc clamps, and maps NaN to 0.", "convert_i32")
@wrong("On vmvx, IREE rounds floats to the nearest integer; tiduc rounds them toward zero.", "vmvx/convert")
@wrong("IREE reads 0xFF of f8E4M3FN, which is NaN, as -480; tiduc selects NaN.", "float8_nan")
@crash(
    "In a loop, the conversion of a scalar integer to a float does not compile; tiduc emits a barrier before it.",
    "convert_counter",
    upstream="https://github.com/iree-org/iree/issues/19375",
)
@crash(
    "In a loop, converting a scalar integer to unsigned does not compile; tiduc converts to signless, and bitcasts.",
    "convert_unsigned_counter",
)
@crash(
    "Converting a scalar that depends on a dynamic size to unsigned does not compile; tiduc converts and bitcasts.",
    "dynamic/unsigned_size",
)
@crash(
    "Converting a dynamic size to a wider integer, then to a float, does not compile; a barrier separates them.",
    "dynamic/size_in_floats",
    upstream="https://github.com/iree-org/iree/issues/19375",
)
@crash(
    "If a CPU cannot convert integers to bf16, IREE calls a function that is missing at run time; tiduc "
    "converts by way of f32.",
    untested="IREE's code depends on the CPU; test_iree_half_calls.py looks at the calls.",
)
@missing("On SPIR-V, integers cannot be converted to bf16; tiduc converts by way of f32.", "vulkan/convert")
def convert(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Emits a conversion of floats to integers that saturates. Emits other conversions in a form that IREE supports.

    Returns None if IREE's own conversion is right.
    """
    x, type_ = op.operands[0], op.results[0].type
    if is_float8(op.results[0]):
        return to_float8(b, from_float8(b, x) if is_float8(x) else x, element(type_))
    if is_boolean(type_) or is_complex(type_):
        return None
    if is_float8(x):
        x = from_float8(b, x)
        if is_float(type_):
            return [b.convert(x, element(type_))]
    if _goes_by_f32(b, x, type_):
        return [_to_bf16(b, x)]
    if is_float(type_) or not is_float(x):
        if not type_.rank and _is_signed(x) and is_unsigned(type_):
            return [b.bitcast(b.convert(x, signless(element(type_).width)), element(type_))]
        return [b.emit("stablehlo.convert", b.barrier(x), type_)] if _needs_barrier(x, type_) else None
    if str(element(x)) not in ("bf16", "f32", "f64"):  # most bounds exceed the range of f16, but not of f32
        x = b.convert(x, ir.F32Type.get())
    to = element(type_)
    lowest, beyond = (0, 2**to.width) if to.is_unsigned else (-(2 ** (to.width - 1)), 2 ** (to.width - 1))
    number = b.maximum(b.select(b.compare(x, x, "EQ"), x, 0), float(lowest))
    if not (b.cpu or b.settings.spirv):
        down, up = (b.emit(f"stablehlo.{name}", (number,), number.type) for name in ("floor", "ceil"))
        number = b.select(b.compare(number, 0, "LT"), up, down)
    is_beyond = b.compare(
        number, float(beyond), "GE"
    )  # with `beyond`, because `beyond - 1` may not be a float
    y = b.emit("stablehlo.convert", (b.select(is_beyond, b.constant(0, x), number),), type_)
    greatest = b.not_(b.constant(0, y)) if to.is_unsigned else b.constant(beyond - 1, y)
    return [b.select(is_beyond, greatest, y)]


def _goes_by_f32(b: Emitter, x: IrValue, type_: ir.Type) -> bool:
    """Whether x has integers, `type_` has bf16, and the target may lack the conversion of one to the other."""
    lacks = b.cpu or b.settings.spirv
    return lacks and element(type_) == ir.BF16Type.get() and isinstance(element(x), ir.IntegerType)


def _to_bf16(b: Emitter, x: IrValue) -> IrValue:
    """Converts integers to bf16 through f32. Adding 0 keeps MLIR from merging the two conversions."""
    wide = b.convert(x, ir.F32Type.get())
    return b.convert(b.add(wide, b.constant(0, wide)), ir.BF16Type.get())  # the sum is never -0


def _needs_barrier(x: IrValue, type_: ir.RankedTensorType) -> bool:
    """Whether the conversion of x to `type_` compiles only if a barrier comes before it.

    This is so for some scalar integers: the host computes loop counters, but IREE's code for the host lacks some
    conversions of integers to floats.
    """
    to = str(element(type_))
    if type_.rank or not _is_signed(x) or not is_float(type_) or to == "f32":
        return False
    # IREE merges conversions to wider integers with the conversion to a float, so the narrowest type counts.
    merged = [element(y) for y in traced(x, ["stablehlo.convert"])]
    return to != "f64" or any(isinstance(of, ir.IntegerType) and of.width < 64 for of in merged)


def _is_signed(x: IrValue) -> bool:
    """Whether the elements of a value are signed integers, predicates excluded."""
    return isinstance(element(x), ir.IntegerType) and not is_boolean(x) and not is_unsigned(x)


@legalize("stablehlo.bitcast_convert")
@crash(
    "Complex types crash the compiler; tiduc bitcasts arrays of parts with a trailing dimension of size 2.",
    "bitcast_convert",
    upstream="https://github.com/openxla/stablehlo/pull/2989",
)
def bitcast_convert(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Bitcasts from or to a complex type by way of an array of its parts, which has a trailing dimension of size 2.

    Returns None if both the operand and the result are real.
    """
    x, type_ = op.operands[0], op.results[0].type
    if not is_complex(x) and not is_complex(type_):
        return None
    if x.type == type_:
        return [x]
    if is_complex(x):
        pair = [b.reshape(part, [*shape(x), 1]) for part in (b.real(x), b.imag(x))]
        x = b.concatenate(pair, len(shape(x)))
    if not is_complex(type_):
        return [_bits_to(b, x, type_)]
    halves = with_element(with_shape(type_, [*type_.shape, 2]), element(type_).element_type)
    return [_joined(b, _bits_to(b, x, halves), type_)]


def _joined(b: Emitter, parts: IrValue, type_: ir.RankedTensorType) -> IrValue:
    """The complex array of type `type_` whose real and imaginary parts are `parts[..., 0]` and `parts[..., 1]`."""
    re, im = (b.reshape(b.cut(parts, type_.rank, i, i + 1), type_.shape) for i in range(2))
    return b.complex(re, im)


def _bits_to(b: Emitter, x: IrValue, type_: ir.RankedTensorType) -> IrValue:
    """Bitcasts x to `type_`, whose elements may have another width. Both types have equally many bits.

    StableHLO's bitcast splits each element along a new last dimension, or merges the elements along the last dimension.
    Reshapes before and after the bitcast therefore adapt the ranks.
    """
    split, merged = bits(x) // bits(type_), bits(type_) // bits(x)
    x = b.reshape(x, [*type_.shape, merged] if merged > 1 else type_.shape if merged else shape(x))
    of = with_shape(type_, [*shape(x), split]) if split > 1 else type_
    return b.reshape(b.emit("stablehlo.bitcast_convert", (x,), of), type_.shape)
