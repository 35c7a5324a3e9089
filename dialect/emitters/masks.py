"""masks: selects between a cotangent and zero. They give a zero gradient to the branch that a select does not choose.

    y = select(p, log x, 0)     if c is the cotangent of y, that of log x is select(p, c, 0), and that of x is
                                select(p, c / x, 0), not select(p, c, 0) / x, which is 0 / 0 at x = 0

If an elementwise op of the branch may have an infinite slope, the mask moves: it is applied to the result of the
transposed elementwise ops, not to their input. Otherwise, it is applied to their input, because a mask that moves costs
one select per operand.

If a `case` or a loop does not read a captured value at run time, the cotangent of the value is zero. If an op outside
of the `case` or loop may multiply this cotangent by an infinite slope, the transposed graph also returns a mask that is
true where the graph reads the value.
"""

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tiduc.dialect.emitters.stablehlo_ops import RecordEmitter
from tiduc.dialect.facts.matchers import splat
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.graph.matching import defined_by
from tiduc.dialect.ops.traits import ELEMENTWISE, FUNCTIONS
from tiduc.dialect.shapes.types import is_complex, is_dynamic, is_float, predicate, rank, with_shape

_SELECT = "stablehlo.select"

_DEEPEST = 4
"""The largest number of nested masks of one cotangent that the functions below remove and apply again later."""

_REACH = 32
"""The largest number of ops to examine in a branch, or in the computation of a slope.

If there are more ops, the slope is assumed to be infinite.
"""


@dataclass(frozen=True)
class Masked:
    """A mask: select(predicate, x, zero) if `keeps` is true, else select(predicate, zero, x)."""

    predicate: Value
    keeps: bool
    x: Value
    zero: Value


def masked(y: Value) -> Masked | None:
    """The select that computes y, as a `Masked`; None unless y is a select between a value and zero."""
    op = defined_by(y, _SELECT)
    if op is None:
        return None
    predicate, x, other = op.operands
    if splat(other) == 0:
        return Masked(predicate, True, x, other)
    return Masked(predicate, False, other, x) if splat(x) == 0 else None


def apply_mask(b: RecordEmitter, mask: Masked, moves: bool) -> Value:
    """Emits the select of a mask, and returns the masked cotangent y.

    With `moves`, records that the mask moves: if a linear op reads y, the op is applied first, and then the mask.
    """
    y = b.select(mask.predicate, *((mask.x, mask.zero) if mask.keeps else (mask.zero, mask.x)))
    if moves:
        b.notes.moving.add(y)
    return y


def moves(b: RecordEmitter, y: Value) -> bool:
    """Whether y is a masked cotangent whose mask moves: if a linear op reads y, the mask is applied after the op."""
    return y in b.notes.moving


def unless_masked(
    b: RecordEmitter, ct: Value, function: Callable[[Value], Value], depth: int = _DEEPEST
) -> Value:
    """Applies a linear elementwise function to the cotangent ct.

    If `moves(b, ct)`, applies the function to the unmasked cotangent instead, and then masks the result. If several
    masks are nested, treats at most `depth` of them in this way.
    """
    mask = masked(ct) if depth and moves(b, ct) else None
    if mask is None:
        return function(ct)
    x = unless_masked(b, mask.x, function, depth - 1)
    return apply_mask(b, Masked(mask.predicate, mask.keeps, x, b.zeros_like(x)), True)


def add_masked(b: RecordEmitter, terms: Sequence[Value], depth: int = _DEEPEST) -> Sequence[Value]:
    """Returns fewer terms with the same sum: terms whose masks have the same predicate are added, then masked once."""
    if not any([y.definition is not None and y.definition.name == _SELECT for y in terms]):
        return terms  # no term is masked
    summands, masks = [], dict[Any, list[tuple[Any, Masked]]]()
    for y in terms:
        if depth and (mask := masked(y)) is not None:
            masks.setdefault(mask.predicate, []).append((y, mask))
        else:
            summands.append(y)
    for of_predicate in masks.values():
        (y, mask), *others = of_predicate
        if others:
            sides = [[each.x for _, each in of_predicate if each.keeps is keeps] for keeps in (True, False)]
            x, z = (add(b, add_masked(b, side, depth - 1)) if side else None for side in sides)
            if x is not None and z is not None:
                y = _joined(b, mask.predicate, x, z)
            elif (one := z if x is None else x) is not None:
                y = apply_mask(b, replace(mask, x=one), moves(b, y))
        summands.append(y)
    # `masked` does not recognize a zero of dynamic shape, so terms with such a zero are returned as they are.
    if len(summands) > 1 and all([moves(b, y) and masked(y) is not None for y in summands]):
        own = [in_shape(b, kept, y) for y in summands if (kept := mask_of(b, y)) is not None]
        either = functools.reduce(b.or_, own)
        total = add(b, summands)
        return [apply_mask(b, Masked(either, True, total, b.zeros_like(total)), True)]
    return summands


def mask_of(b: RecordEmitter, y: Value) -> Value | None:
    """A predicate that is true where none of the nested masks of y sets y to zero. None if y has no mask.

    The predicate is a scalar, or has the shape of y.
    """
    kept: Value | None = None
    x = y
    while (mask := masked(x)) is not None:
        own, x = mask.predicate if mask.keeps else b.not_(mask.predicate), mask.x
        if kept is None or own is kept:
            kept = own
        else:
            kept = b.and_(in_shape(b, kept, y), in_shape(b, own, y))
    return kept


def in_shape(b: RecordEmitter, scalar: Value, like: Value) -> Value:
    """`scalar`, broadcast to the shape of `like`. If it has the rank of `like`, it is returned unchanged."""
    return scalar if rank(scalar) == rank(like) else b.broadcast_in_dim(scalar, [], like)


def set_steep(b: RecordEmitter, inputs: Iterable[Value]) -> None:
    """Records the inputs whose cotangents an op outside of the transposed graph may multiply by an infinite slope."""
    b.notes.steep = set(inputs)


def reached(b: RecordEmitter, ct: Value) -> Value:
    """A predicate that is true where no mask sets the cotangent to zero. It has the cotangent's shape.

    If there is no mask, the predicate is the constant true, broadcast if the shape is dynamic.
    """
    mask = mask_of(b, ct)
    if mask is None:
        mask = b.constant(True, predicate(with_shape(ct.type, [])))
        return b.constant(True, predicate(ct.type)) if not is_dynamic(ct.type) else in_shape(b, mask, ct)
    return in_shape(b, mask, ct)


def is_everywhere(reached: Value) -> bool:
    """Whether a predicate that the function `reached` returned is the constant true, perhaps broadcast."""
    while (scalar := defined_by(reached, "stablehlo.broadcast_in_dim")) is not None:
        (reached,) = scalar.operands
    return defined_by(reached, "stablehlo.constant") is not None


def everywhere(b: RecordEmitter, reached: Value) -> Value:
    """The scalar constant true, with the element type of `reached`."""
    return b.constant(True, with_shape(reached.type, []))


def mask_with(b: RecordEmitter, where: Value, ct: Value) -> Value:
    """Masks a cotangent: sets it to zero where the predicate `where` is false. The mask moves (see `apply_mask`)."""
    return apply_mask(b, Masked(where, True, ct, b.zeros_like(ct)), True)


def add(b: RecordEmitter, terms: Iterable[Value]) -> Value:
    """The sum of one or more values, added in order."""
    return functools.reduce(b.add, terms)


def _joined(b: RecordEmitter, predicate: Value, x: Value, y: Value) -> Value:
    """select(predicate, x, y). If x and y have the same mask, selects between the unmasked values, then masks once."""
    mask, other = masked(x), masked(y)
    if mask is None or other is None or (mask.predicate, mask.keeps) != (other.predicate, other.keeps):
        return b.select(predicate, x, y)
    return apply_mask(b, replace(mask, x=b.select(predicate, mask.x, other.x)), moves(b, x) or moves(b, y))


def has_infinite_slope(b: RecordEmitter, branch: Value) -> bool:
    """Whether one of the elementwise linear ops that compute the tangent `branch` may have an infinite slope.

    Also true if there are more than `_REACH` of these ops, or if `branch` depends on an input in `steep`, because an op
    outside of the graph may multiply the cotangent of such an input by an infinite slope.
    """
    known = b.notes.infinite
    waiting, seen, steep = [branch], set[Definition](), b.notes.steep
    while waiting:
        x = waiting.pop()
        if x in steep:
            return True
        op = x.definition
        if op is None or op.name not in ELEMENTWISE or op.active is None or op in seen:
            continue
        seen.add(op)
        for x, active in zip(op.operands, op.active, strict=True):
            if active:
                waiting.append(x)
            elif op.name == "stablehlo.divide":
                if _may_be_zero(x):
                    return True
            else:
                if x not in known:
                    known[x] = _may_be_infinite(x)
                if known[x]:
                    return True
        if len(seen) > _REACH:
            return True
    return False


def _may_be_infinite(slope: Value) -> bool:
    """Whether some elements of a slope may be infinite while others are finite.

    A broadcast scalar counts as finite: if it is infinite, so are all elements, even those that a mask keeps. True if
    the slope is computed by more than `_REACH` ops, because not all of them are examined.
    """
    waiting, seen = [slope], set[Definition]()
    while waiting:
        x = waiting.pop()
        op = x.definition
        if not (is_float(x) or is_complex(x)):  # skips the predicate of a select, because it has no slope
            continue
        if op is None:  # x is an argument of a function, or of a loop's body
            return True
        if op in seen or op.name not in ELEMENTWISE:
            number = splat(x)
            if number is not None and not math.isfinite(number):
                return True
            continue
        seen.add(op)
        divides = op.name == "stablehlo.divide" and _may_be_zero(op.operands[1])
        if op.name in FUNCTIONS or divides or len(seen) > _REACH:
            return True
        waiting += op.operands
    return False


def _may_be_zero(x: Value) -> bool:
    """Whether some elements of a divisor may be zero while others are not.

    This is assumed to be false for constants and broadcasts.
    """
    return x.definition is None or x.definition.name not in (
        "stablehlo.constant",
        "stablehlo.broadcast_in_dim",
    )
