"""Replaces or refuses ops that do not compile to SPIR-V.

The ops are f64 functions, counts of leading zeros of 64-bit integers, iotas of bf16, and some complex constants.
"""

from collections.abc import Sequence

from torch_mlir import ir

from tiduc.backends.iree.emit.emitter import ON_SPIRV, Emitter, legalize, signless
from tiduc.backends.iree.emit.refused import refused
from tiduc.backends.iree.fault import crash, missing
from tiduc.dialect.mlir.constants import is_splat
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.ops.traits import FUNCTIONS
from tiduc.dialect.shapes.types import bits, element, is_complex, is_float, with_element


@legalize(*sorted(name for name in FUNCTIONS if name.startswith("stablehlo.")), where=ON_SPIRV)
@missing(
    "For f64, SPIR-V has only square roots of real numbers; tiduc refuses other functions.",
    untested="refused",
)
def elementary(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Refuses functions of f64 other than real square roots. Returns None for all other ops."""
    x = op.operands[0]
    of_reals = is_float(x) and bits(x) == 64 and op.name not in ("stablehlo.sqrt", "stablehlo.rsqrt")
    if of_reals or (is_complex(x) and bits(x) == 128):
        raise refused(op, "Vulkan has no such function of f64; convert to f32, or choose another target")
    return None


@legalize("stablehlo.count_leading_zeros", where=ON_SPIRV)
@missing(
    "The op does not compile for 64-bit integers; tiduc counts in the upper half, or in the lower if the upper is 0.",
    "vulkan/leading_zeros",
)
def count_leading_zeros(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Counts the leading zeros of the upper half or, if it is 0, adds 32 to those of the lower half.

    Returns None for integers of other widths than 64 bits.
    """
    (x,) = op.operands
    if bits(x) != 64:
        return None
    i32, wide = signless(32), b.bitcast(x, signless(64))
    upper = b.convert(b.emit("stablehlo.shift_right_logical", (wide, b.constant(32, wide)), wide.type), i32)
    lower = b.convert(wide, i32)
    none = b.compare(upper, b.constant(0, upper), "EQ")
    zeros = b.emit(op.name, (b.select(none, lower, upper),), upper.type)
    return [b.convert(b.select(none, b.add(zeros, b.constant(32, zeros)), zeros), element(x))]


@legalize("stablehlo.constant", where=ON_SPIRV)
@crash(
    "Small complex constants do not compile unless they are splats; a barrier forces a load.",
    "vulkan/constant",
)
def constant(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Puts a barrier after a constant of complex f32 that is not a splat. Returns None for other constants."""
    type_ = op.results[0].type
    if not is_complex(type_) or bits(type_) == 128 or is_splat(op.attributes["value"]):
        return None
    return list(b.barrier(b.emit(op.name, (), type_, {"value": op.attributes["value"]})))


@legalize("stablehlo.iota", where=ON_SPIRV)
@missing("The op does not compile for bf16; tiduc converts an iota of integers.", "vulkan/iota")
def iota(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Converts an iota of integers to bf16. Returns None for other element types."""
    type_ = op.results[0].type
    if element(type_) != ir.BF16Type.get():
        return None
    dimension = ir.IntegerAttr(op.attributes["iota_dimension"]).value
    return [b.convert(b.iota(dimension, with_element(type_, signless(32))), element(type_))]
