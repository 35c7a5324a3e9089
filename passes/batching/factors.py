"""Factors: batched values as the product of a factor, which all examples share, and a batched core.

    d, c: one value for all examples        z: one value for each example
    c * (d * z)          is   (c * d) * z           the product of factors is one product for all examples
    c * z + d * z        is   (c + d) * z
    -z                   is   -1 * z
    (d * z) * z          is   d * (z * z)           so its sum over the batch is d * sum(z * z)

Products are associated in another order, so results may differ in the last places. Besides, z * z may overflow where d
* z * z does not. Types of at most 16 bits are therefore excluded, except bf16, which has the range of f32.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from torch_mlir import ir

from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.shapes.types import element


@dataclass(frozen=True)
class Factored:
    """A value as factor * core. `factor` is None for 1. `core` is None if the value is the same for all examples."""

    factor: Value | None
    core: Value | None


def factored(
    b: StablehloBuilder, op: Definition, operands: Sequence[Factored], is_summed: bool
) -> Factored | None:
    """The result of an op as a factor and a core; None if the result has no factor.

    A product of two batched values has a factor only if it is summed over the batch. Otherwise a single op multiplies
    the values of the examples, which other ops may need anyway.
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
