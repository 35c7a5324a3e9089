"""reduce: sums, maxima, minima, products, and bodies that only compare and select; each result by itself."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from torch_mlir import ir

from tiduc.dialect.bodies import reducer, self_contained
from tiduc.dialect.graph import Definition
from tiduc.dialect.types import element, shape
from tiduc.passes.rules.opset import linearize, transpose, unsupported
from tiduc.passes.rules.registry import Tangents
from tiduc.passes.rules.selection import by_result, is_identity, none, numbers, repeated, selected_by, selects

BODIES = "the body is none of add, maximum, minimum, multiply, nor does it only compare and select"


@linearize("stablehlo.reduce")
def reduce(b: Any, op: Definition, dx: Tangents) -> list[Any]:
    return by_result(dx, [_rule(b, op, i) for i in range(len(op.results))])


def _rule(b: Any, op: Definition, i: int) -> Any:
    """From the tangents of operand i and its initial value to that of result i; None where it has none."""
    if b.tangent_type(op.results[i].type) is None or 0 in shape(op.results[i]):
        return None
    name = reducer(op, i)
    if name == "stablehlo.add":
        return partial(_sum, b, op, i)
    if name in ("stablehlo.maximum", "stablehlo.minimum"):
        return partial(_extremum, b, op, i, name)
    if name == "stablehlo.multiply":
        return partial(_product, b, op, i)
    if selects(op, i) and self_contained(b, op):
        return partial(_selected, b, op, i)
    raise unsupported("jvp", op, BODIES)


def _sum(b: Any, op: Definition, i: int, dx: Any, dinit: Any) -> Any:
    """dy = dinit + sum dx."""
    terms = [] if dinit is None else [repeated(b, dinit, op.results[i])]
    return b.sum(terms if dx is None else [b.reduce_sum(dx, dropped(op)), *terms])


def _extremum(b: Any, op: Definition, i: int, name: str, dx: Any, dinit: Any) -> Any:
    """dy = (sum of dx where x = y, and dinit if init = y) / (the number of these): ties share evenly.

    An initial value that is known to change nothing (-inf for a maximum) is not counted, as in JAX. Tangents
    are selected, not multiplied by 0 and 1; the number of ties is an integer, exact in any element type.
    """
    x, init, y = op.operands[i], op.operands[len(op.results) + i], op.results[i]
    integer = ir.IntegerType.get_signless(32)
    ties = b.compare(x, b.broadcast_in_dim(y, kept(op), x.type), "EQ")
    number = b.reduce_sum(b.convert(ties, integer), dropped(op))
    terms = [] if dx is None else [b.reduce_sum(b.select(ties, dx, b.zero(x.type)), dropped(op))]
    if not is_identity(b, init, name):
        tie = b.compare(y, repeated(b, init, y), "EQ")
        number = b.add(number, b.convert(tie, integer))
        if dinit is not None:
            terms.append(b.select(tie, repeated(b, dinit, y), b.zero(y.type)))
    elif 0 in shape(x):
        return None
    return b.multiply(b.divide(b.constant(1, y.type), b.convert(number, element(y))), b.sum(terms))


def _product(b: Any, op: Definition, i: int, dx: Any, dinit: Any) -> Any:
    """The product rule in a tree of halves: linear work, no division, exact where factors are zero."""
    x, init, y = op.operands[i], op.operands[len(op.results) + i], op.results[i]
    order = [*dropped(op), *kept(op)]
    count = 1
    for d in dropped(op):
        count *= shape(x)[d]

    def in_front(value: Any) -> Any:
        return b.reshape(b.transpose(value, order), [count, *shape(y)])

    pair = in_front(x), None if dx is None else in_front(dx)
    while count > 1:
        half = count // 2
        rest = _part(b, pair, 2 * half, count) if count % 2 else None
        pair = product(b, _part(b, pair, 0, half), _part(b, pair, half, 2 * half))
        if rest:  # the odd one joins the first
            first, others = _part(b, pair, 0, 1), _part(b, pair, 1, half)
            pair = _joined(b, product(b, first, rest), others)
        count = half
    if count:
        flat = b.reshape(pair[0], shape(y)), None if pair[1] is None else b.reshape(pair[1], shape(y))
    else:
        flat = b.constant(1, y.type), None
    if is_identity(b, init, "stablehlo.multiply"):
        return flat[1]
    return product(b, flat, (repeated(b, init, y), None if dinit is None else repeated(b, dinit, y)))[1]


def product(b: Any, x: tuple[Any, Any], y: tuple[Any, Any]) -> tuple[Any, Any]:
    """The product of two values and its tangent, from values and tangents, which may be None."""
    terms = [b.multiply(u, dv) for u, dv in ((x[0], y[1]), (y[0], x[1])) if dv is not None]
    return b.multiply(x[0], y[0]), b.sum(terms) if terms else None


def _part(b: Any, pair: tuple[Any, Any], start: int, limit: int) -> Any:
    sizes = shape(pair[0])[1:]
    bounds = [start] + [0] * len(sizes), [limit, *sizes], [1] * (len(sizes) + 1)
    return tuple(None if v is None else b.slice(v, *bounds) for v in pair)


def _joined(b: Any, first: tuple[Any, Any], others: tuple[Any, Any]) -> Any:
    return tuple(None if u is None else b.concatenate([u, v], 0) for u, v in zip(first, others, strict=True))


def _selected(b: Any, op: Definition, i: int, dx: Any, dinit: Any) -> Any:
    """dy = dx of the element that the body selects, by a mask: sum (number = selected) dx."""
    x, y = op.operands[i], op.results[i]
    at = selected_by(b, op, i)
    terms = []
    if dx is not None:
        element_at = numbers(b, x)
        mask = b.compare(element_at, b.broadcast_in_dim(at, kept(op), element_at.type), "EQ")
        terms.append(b.reduce_sum(b.select(mask, dx, b.zero(x.type)), dropped(op)))
    if dinit is not None:
        mask = b.compare(at, repeated(b, none(b, x, at), at), "EQ")
        terms.append(b.select(mask, repeated(b, dinit, y), b.zero(y.type)))
    return b.sum(terms)


@transpose("stablehlo.reduce")
def reduce_transpose(b: Any, op: Definition, ct: Tangents, active: Sequence[bool]) -> list[Any]:
    """Of sums only, which is all that linearize makes."""
    count = len(op.results)
    if any(reducer(op, i) != "stablehlo.add" for i in range(count) if ct[i] is not None):
        raise unsupported("transpose", op, "the body is not a sum")

    def to_operand(i: int) -> Any:
        return b.broadcast_in_dim(ct[i], kept(op), op.operands[i].type)

    def to_init(i: int) -> Any:
        return b.reduce_sum(ct[i], range(len(kept(op))))

    return [None if ct[i] is None else partial(to, i) for to in (to_operand, to_init) for i in range(count)]


def dropped(op: Definition) -> list[int]:
    """The dimensions of a reduce that its results lack."""
    return list(op.attributes["dimensions"])


def kept(op: Definition) -> list[int]:
    """The dimensions of a reduce's operands that its results have."""
    return [i for i in range(op.operands[0].type.rank) if i not in dropped(op)]
