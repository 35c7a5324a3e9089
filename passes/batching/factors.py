"""Represents a batched value as factor * core: all examples share the factor, and only the core is batched.

Here, d and c are the same for all examples, and z differs between examples:
    c * (d * z)          is   (c * d) * z           c * d is computed once for all examples
    c * z + d * z        is   (c + d) * z
    -z                   is   -1 * z
    (d * z) * z          is   d * (z * z)           so its sum over the batch is d * sum(z * z)

The order of the multiplications changes, so results may differ by rounding. Besides, z * z may overflow where d * z * z
does not. Only types with a large range therefore have factors: f64, f32, bf16, and complex numbers of f64 and f32.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from torch_mlir import ir

from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.shapes.types import element


@dataclass(frozen=True)
class Factored:
    """The value factor * core. A `factor` of None means 1. If `core` is None, all examples have the value `factor`."""

    factor: Value | None
    core: Value | None


def factored(
    b: StablehloBuilder, op: Definition, operands: Sequence[Factored], is_summed: bool
) -> Factored | None:
    """Emits an op, and returns its result as a factor and a core. Returns None, and emits nothing, if no factor can be
    split off or if the factor would not save work.

    `operands` are the op's operands, each as a factor and a core. `is_summed` says whether the result is summed over
    the batch. If it is not, a factor saves no work in a product of two batched values.
    """
    rule = _RULES.get(op.name)
    if rule is None or not _has_range(element(op.result)):
        return None
    if rule is _multiply and not is_summed and all(x.core is not None for x in operands):
        return None
    factors = [x.factor for x in operands if x.factor is not None]
    cores = [x.core for x in operands if x.core is not None]
    return rule(b, op, factors, cores) if cores else None


def _multiply(
    b: StablehloBuilder, op: Definition, factors: Sequence[Value], cores: Sequence[Value]
) -> Factored | None:
    return Factored(_product(b, factors), _product(b, cores)) if factors else None


def _negate(
    b: StablehloBuilder, op: Definition, factors: Sequence[Value], cores: Sequence[Value]
) -> Factored | None:
    return Factored(b.negate(factors[0]) if factors else b.constant(-1, op.result), cores[0])


def _add(
    b: StablehloBuilder, op: Definition, factors: Sequence[Value], cores: Sequence[Value]
) -> Factored | None:
    is_multiple = len(factors) == len(cores) == 2 and cores[0] is cores[1]
    return Factored(b.add(*factors), cores[0]) if is_multiple else None


_RULES = {"stablehlo.add": _add, "stablehlo.multiply": _multiply, "stablehlo.negate": _negate}


def _product(b: StablehloBuilder, x: Sequence[Value]) -> Value:
    return x[0] if len(x) == 1 else b.multiply(*x)


def _has_range(type_: ir.Type) -> bool:
    if isinstance(type_, ir.ComplexType):
        type_ = ir.ComplexType(type_).element_type
    return isinstance(type_, (ir.F64Type, ir.F32Type, ir.BF16Type))
