"""Rules of sums, products, quotients, complex parts, conversions and selects, which are linear in some operands."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from tiduc.dialect.emitters.masks import Masked, apply_mask, has_infinite_slope, unless_masked
from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.facts.matchers import guards_call, log_add_exp, logistic
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.shapes.types import element, is_complex
from tiduc.passes.rules.determinant import determinant, of_determinant, sizes_of_pivots
from tiduc.passes.rules.elementwise import difference
from tiduc.passes.rules.expansion import of_present
from tiduc.passes.rules.opset import bilinear, linear, linearize, transpose, unsupported
from tiduc.passes.rules.registry import Tangents


@linearize("stablehlo.add")  # not `linear`, because a single tangent needs no add
def add(b: StablehloBuilder, op: Definition, dx: Tangents) -> list[Value]:
    if (parts := log_add_exp(op)) is not None and (dy := _log_add_exp(b, *parts)) is not None:
        return [dy]
    x, y = dx
    return [y if x is None else x if y is None else b.add(x, y)]


def _log_add_exp(b: StablehloBuilder, u: Value, v: Value, gap: Value) -> Value | None:
    """The tangent of log(exp u + exp v): w du + (1 - w) dv with w = logistic(u - v), and w = 1/2 where u - v is NaN.

    The program computes max(u, v) + log(1 + exp(-|u - v|)). Each term has a kink at u = v, but their sum has none.
    """
    w = b.logistic(b.select(b.compare(gap, gap, "EQ"), gap, b.zeros_like(gap)))
    du, dv = b.engine.tangent(u), b.engine.tangent(v)
    terms = [] if du is None else [b.multiply(w, du)]
    if dv is not None:
        terms.append(b.multiply(b.subtract(b.constant(1, w), w), dv))
    return b.sum(terms) if terms else None


@transpose("stablehlo.add")
def add_transpose(b: StablehloBuilder, op: Definition, ct: Tangents, active: Sequence[bool]) -> list[Value]:
    return [ct[0], ct[0]]


@linear("stablehlo.complex", [0, 1])
def complex_(b: StablehloBuilder, op: Definition, ct: Value) -> list[Any]:
    return [lambda: b.real(ct), lambda: b.imag(ct)]


@linearize("stablehlo.convert")  # not `linear`, because a conversion to integers has no tangent
def convert(b: StablehloBuilder, op: Definition, dx: Tangents) -> list[Value | None]:
    return [None] if b.tangent_type(op.result.type) is None else list(b.reapply(op, {0: dx[0]}))


@transpose("stablehlo.convert")
def convert_transpose(
    b: StablehloBuilder, op: Definition, ct: Tangents, active: Sequence[bool]
) -> list[Value]:
    """Converts the cotangent back. Between real and complex types, only the real part counts in both directions."""
    x = op.operands[0]
    if is_complex(x) == is_complex(op.result):
        return [unless_masked(b, ct[0], lambda c: b.convert(c, element(x)))]
    if is_complex(op.result):
        return [b.convert(b.real(ct[0]), element(x))]
    part = b.convert(ct[0], element(x).element_type)
    return [b.complex(part, b.zeros_like(part))]


@linearize("stablehlo.divide")
def divide(b: StablehloBuilder, op: Definition, dx: Tangents) -> list[Value]:
    """d(x / y) = (dx - (x / y) dy) / y. This formula does not overflow where 1 / y^2 would."""
    if dx[0] is None and (z := logistic(op)) is not None and (dz := b.engine.tangent(z)) is not None:
        y = op.result  # y (y - 1) dz is the derivative of 1 / (1 + exp z), and is 0 where exp z overflows
        return [b.multiply(b.multiply(y, b.subtract(y, b.constant(1, y))), dz)]
    second = None if dx[1] is None else b.multiply(op.result, dx[1])
    return [b.divide(difference(b, dx[0], second), op.operands[1])]


@transpose("stablehlo.divide")
def divide_transpose(
    b: StablehloBuilder, op: Definition, ct: Tangents, active: Sequence[bool]
) -> list[Value | None]:
    if active[1]:
        raise unsupported("transpose", op, "a quotient is not linear in its divisor")
    return [unless_masked(b, ct[0], lambda c: b.divide(c, b.conj(op.operands[1]))), None]


@linear("stablehlo.imag", [0])
def imag(b: StablehloBuilder, op: Definition, ct: Value) -> list[Value | None]:
    """Returns the cotangent i ct, because Re(ct Im(dx)) = Re(conj(i ct) dx), or None for a real operand."""
    return [b.complex(b.zeros_like(ct), ct) if is_complex(op.operands[0]) else None]


@bilinear("stablehlo.multiply", of_determinant, determinant)
def multiply(b: StablehloBuilder, op: Definition, ct: Value, side: int) -> Value:
    return unless_masked(b, ct, lambda c: b.multiply(b.conj(op.operands[1 - side]), c))


@linear("stablehlo.negate", [0])
def negate(b: StablehloBuilder, op: Definition, ct: Value) -> list[Value]:
    return [unless_masked(b, ct, b.negate)]


@linearize("stablehlo.optimization_barrier")  # not `linear`, because only active operands have tangents
def optimization_barrier(b: StablehloBuilder, op: Definition, dx: Tangents) -> Sequence[Value | None]:
    return of_present(b, op.name, dx, op.results, {})


@transpose("stablehlo.optimization_barrier")
def optimization_barrier_transpose(
    b: StablehloBuilder, op: Definition, ct: Tangents, active: Sequence[bool]
) -> Sequence[Value | None]:
    return optimization_barrier(b, op, ct)


@linear("stablehlo.real", [0])
def real(b: StablehloBuilder, op: Definition, ct: Value) -> list[Value]:
    return [b.complex(ct, b.zeros_like(ct)) if is_complex(op.operands[0]) else ct]


@linear("stablehlo.reduce_precision", [0])  # as in JAX, rounding counts as linear
def reduce_precision(b: StablehloBuilder, op: Definition, ct: Value) -> list[Value]:
    return list(b.reapply(op, {0: ct}))


@linearize("stablehlo.remainder")
def remainder(b: StablehloBuilder, op: Definition, dx: Tangents) -> list[Value]:
    """d(x - n y) = dx - n dy, where n = trunc(x / y). n is computed exactly, as (x - r) / y from the remainder r."""
    x, y = op.operands
    if is_complex(x):
        raise unsupported("jvp", op, "the remainder of complex values is not differentiable")
    second = None
    if dx[1] is not None:
        count = b.round_nearest_even(b.divide(b.subtract(x, op.result), y))
        second = b.multiply(count, dx[1])
    return [difference(b, dx[0], second)]


@linearize("stablehlo.select")  # not `linear`, because two kinds of selects need other tangents
def select(b: StablehloBuilder, op: Definition, dx: Tangents) -> Sequence[Value | None]:
    """The tangent of the chosen operand, except in two cases.

    If the select replaces the result of a failed call by NaN, the tangent is NaN, too. If the select computes the
    logarithm of a determinant, the tangent is that of its third operand, the sum of the logarithms of the pivots.
    """
    predicate, x, _ = op.operands
    if sizes_of_pivots(op) is not None:
        return [dx[2]]
    if guards_call(op):
        valid = b.select(predicate, b.constant(1, x), b.constant(float("nan"), x))
        return [b.multiply(valid, dx[1])]
    tangents = (b.zeros_like(op.result) if tangent is None else tangent for tangent in dx[1:])
    return list(b.reapply(op, dict(enumerate(tangents, 1))))


@transpose("stablehlo.select")
def select_transpose(b: StablehloBuilder, op: Definition, ct: Tangents, active: Sequence[bool]) -> list[Any]:
    predicate, *branches = op.operands
    moves, zero = any(has_infinite_slope(b, x) for x in branches), b.zeros_like(ct[0])
    masks = (Masked(predicate, keeps, ct[0], zero) for keeps in (True, False))
    return [None, *(partial(apply_mask, b, mask, moves) for mask in masks)]


@linearize("stablehlo.subtract")  # not `linear`, because a single tangent needs no subtract
def subtract(b: StablehloBuilder, op: Definition, dx: Tangents) -> list[Value]:
    return [difference(b, *dx)]


@transpose("stablehlo.subtract")
def subtract_transpose(
    b: StablehloBuilder, op: Definition, ct: Tangents, active: Sequence[bool]
) -> list[Any]:
    return [ct[0], lambda: unless_masked(b, ct[0], b.negate)]
