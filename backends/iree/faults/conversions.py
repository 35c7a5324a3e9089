"""convert and bitcast_convert: saturation, 8-bit floats, complex types, and scalars that the host computes."""

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
@wrong(
    "On vmvx, a float becomes the nearest integer; tiduc drops the digits after the point.", "vmvx/convert"
)
@wrong("IREE reads 0xFF of f8E4M3FN, which is NaN, as -480; tiduc selects NaN.", "float8_nan")
@crash(
    "A scalar integer in a loop does not become a float; tiduc puts the integer behind a barrier.",
    "convert_counter",
    upstream="https://github.com/iree-org/iree/issues/19375",
)
@crash(
    "A scalar integer in a loop does not become unsigned; tiduc converts to signless integers, and bitcasts.",
    "convert_unsigned_counter",
)
@crash(
    "A scalar that depends on a dimension's size does not become unsigned; tiduc converts and bitcasts, too.",
    "dynamic/unsigned_size",
)
@crash(
    "A size that becomes a wider integer, and then a float, does not compile; a barrier separates the conversions.",
    "dynamic/size_in_floats",
    upstream="https://github.com/iree-org/iree/issues/19375",
)
@crash(
    "Where a CPU does not convert integers to bf16, IREE calls a function that is missing at run time; tiduc "
    "converts by way of f32.",
    untested="IREE's code depends on the CPU; test_iree_half_calls.py looks at the calls.",
)
@missing("On SPIR-V, integers do not become bf16; tiduc converts by way of f32.", "vulkan/convert")
def convert(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """The conversion, saturated for integers. Conversions of 8-bit floats, and of integers to bf16, go through f32."""
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
    if str(element(x)) not in ("bf16", "f32", "f64"):  # f16 cannot represent most bounds; f32 has the range
        x = b.convert(x, ir.F32Type.get())
    to = element(type_)
    lowest, beyond = (0, 2**to.width) if to.is_unsigned else (-(2 ** (to.width - 1)), 2 ** (to.width - 1))
    number = b.maximum(b.select(b.compare(x, x, "EQ"), x, 0), float(lowest))
    if not (b.cpu or b.settings.spirv):
        down, up = (b.emit(f"stablehlo.{name}", (number,), number.type) for name in ("floor", "ceil"))
        number = b.select(b.compare(number, 0, "LT"), up, down)
    is_beyond = b.compare(number, float(beyond), "GE")  # floats may lack the integer below this power
    y = b.emit("stablehlo.convert", (b.select(is_beyond, b.constant(0, x), number),), type_)
    greatest = b.not_(b.constant(0, y)) if to.is_unsigned else b.constant(beyond - 1, y)
    return [b.select(is_beyond, greatest, y)]


def _goes_by_f32(b: Emitter, x: IrValue, type_: ir.Type) -> bool:
    """Whether integers are converted to bf16 for a target without this conversion."""
    lacks = b.cpu or b.settings.spirv
    return lacks and element(type_) == ir.BF16Type.get() and isinstance(element(x), ir.IntegerType)


def _to_bf16(b: Emitter, x: IrValue) -> IrValue:
    """Converts integers to bf16 through f32. Adding 0 keeps MLIR from merging the two conversions."""
    wide = b.convert(x, ir.F32Type.get())
    return b.convert(b.add(wide, b.constant(0, wide)), ir.BF16Type.get())  # the sum is never -0


def _needs_barrier(x: IrValue, type_: ir.RankedTensorType) -> bool:
    """Whether the conversion of a scalar integer to a float compiles only behind a barrier.

    The host computes loop counters, but lacks some of these conversions.
    """
    to = str(element(type_))
    if type_.rank or not _is_signed(x) or not is_float(type_) or to == "f32":
        return False
    # IREE merges conversions of integers to wider ones with the conversion to a float.
    merged = [element(y) for y in traced(x, ["stablehlo.convert"])]
    return to != "f64" or any(isinstance(of, ir.IntegerType) and of.width < 64 for of in merged)


def _is_signed(x: IrValue) -> bool:
    """Whether the elements of a value are signed integers, predicates excluded."""
    return isinstance(element(x), ir.IntegerType) and not is_boolean(x) and not is_unsigned(x)


@legalize("stablehlo.bitcast_convert")
@crash(
    "Complex types crash the compiler; tiduc bitcasts the parts, along a trailing dimension of size 2.",
    "bitcast_convert",
    upstream="https://github.com/openxla/stablehlo/pull/2989",
)
def bitcast_convert(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Bitcasts complex numbers as pairs of parts along a trailing dimension of size 2. None for real types."""
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
    """The complex array whose real and imaginary parts lie along the last dimension of `parts`."""
    re, im = (b.reshape(b.cut(parts, type_.rank, i, i + 1), type_.shape) for i in range(2))
    return b.complex(re, im)


def _bits_to(b: Emitter, x: IrValue, type_: ir.RankedTensorType) -> IrValue:
    """x bitcast to `type_`, which has the same number of bits. Splits or merges the last dimension as needed."""
    split, merged = bits(x) // bits(type_), bits(type_) // bits(x)
    x = b.reshape(x, [*type_.shape, merged] if merged > 1 else type_.shape if merged else shape(x))
    of = with_shape(type_, [*shape(x), split]) if split > 1 else type_
    return b.reshape(b.emit("stablehlo.bitcast_convert", (x,), of), type_.shape)
