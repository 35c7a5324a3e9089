"""Represents a batched value as factor * core: all examples share the factor, and only the core is batched.

    d, c: one value for all examples        z: one value for each example
    c * (d * z)          is   (c * d) * z           the product of factors is one product for all examples
    c * z + d * z        is   (c + d) * z
    -z                   is   -1 * z
    (d * z) * z          is   d * (z * z)           so its sum over the batch is d * sum(z * z)

The products are multiplied in another order, so results may differ by rounding. Besides, z * z may overflow where d * z
* z does not. Only types with a large range therefore have factors: f64, f32, bf16, and complex numbers of f64 and f32.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from torch_mlir import ir

from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.shapes.types import element


@dataclass(frozen=True)
class Factored:
    """A value, as factor * core. A `factor` of None is 1. If `core` is None, all examples have the value `factor`."""

    factor: Value | None
    core: Value | None


def factored(
    b: StablehloBuilder, op: Definition, operands: Sequence[Factored], is_summed: bool
) -> Factored | None:
    """Emits the result of an op as a factor and a core. Returns None, and emits nothing, if the result has no factor.

    `operands` are the op's operands in the same form. `is_summed` says whether the result is summed over the batch. If
    it is not, a product of two batched values gets no factor, because each example's product is needed and takes a
    single multiplication.
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
