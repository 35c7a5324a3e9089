"""What SPIR-V has not: elementary functions of f64, some ops of 64-bit integers, integers as bf16, complex tables."""

from collections.abc import Sequence
from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.emitter import Emitter, legalize, signless
from tiduc.backends.iree.refused import refused
from tiduc.dialect.types import bits, element, is_complex, is_float, with_element

_FUNCTIONS = "atan2 cbrt exponential exponential_minus_one log log_plus_one logistic power rsqrt sqrt tanh"


@legalize(*(f"stablehlo.{name}" for name in _FUNCTIONS.split()), spirv=True)
def elementary(b: Emitter, op: Any) -> Sequence[Any] | None:
    """Of f64 there is none, but for roots of real numbers: refused."""
    if is_complex(op.operands[0]) or op.name not in ("stablehlo.sqrt", "stablehlo.rsqrt"):
        refuse_f64(op)
    return None


def refuse_f64(op: Any) -> None:
    """`Unsupported` for a function of f64, or of complex numbers of such."""
    x = op.operands[0]
    if is_complex(x) and bits(x) == 128 or is_float(x) and bits(x) == 64:
        raise refused(op, "Vulkan has no such function of f64; convert to f32, or choose another target")


@legalize("stablehlo.count_leading_zeros", spirv=True)
def count_leading_zeros(b: Emitter, op: Any) -> Sequence[Any] | None:
    """Of 64 bits it does not compile: those of the upper half, or of the lower one behind it."""
    (x,) = op.operands
    if bits(x) != 64:
        return None
    i32, wide = signless(32), b.bitcast(x, signless(64))
    upper = b.convert(b.emit("stablehlo.shift_right_logical", (wide, b.like(32, wide)), wide.type), i32)
    lower = b.convert(wide, i32)
    none = b.compare(upper, b.like(0, upper), "EQ")
    zeros = b.emit(op.name, (b.select(none, lower, upper),), upper.type)
    return [b.convert(b.select(none, b.add(zeros, b.like(32, zeros)), zeros), element(x))]


@legalize("stablehlo.constant", spirv=True)
def constant(b: Emitter, op: Any) -> Sequence[Any] | None:
    """Of complex numbers small ones do not compile, unless all are one: behind a barrier, so that code reads them."""
    type_ = op.results[0].type
    if not is_complex(type_) or bits(type_) == 128 or op.attributes["value"].is_splat:
        return None
    return list(b.barrier(b.emit(op.name, (), type_, {"value": op.attributes["value"]})))


@legalize("stablehlo.convert", spirv=True)
def convert(b: Emitter, op: Any) -> Sequence[Any] | None:
    """Of integers to bf16 it does not compile: to f32 first, then from a sum with 0, lest the two become one again."""
    x, type_ = op.operands[0], op.results[0].type
    if element(type_) != ir.BF16Type.get() or not isinstance(element(x), ir.IntegerType):
        return None
    return [b.convert(_kept(b, b.convert(x, ir.F32Type.get())), element(type_))]


@legalize("stablehlo.iota", spirv=True)
def iota(b: Emitter, op: Any) -> Sequence[Any] | None:
    """Of bf16 it does not compile: of f32, converted from a sum with 0."""
    type_ = op.results[0].type
    if element(type_) != ir.BF16Type.get():
        return None
    dimension = ir.IntegerAttr(op.attributes["iota_dimension"]).value
    return [b.convert(_kept(b, b.iota(dimension, with_element(type_, ir.F32Type.get()))), element(type_))]


def _kept(b: Emitter, x: Any) -> Any:
    """x, which is not -0, as the compiler does not see through it."""
    return b.add(x, b.like(0, x))
