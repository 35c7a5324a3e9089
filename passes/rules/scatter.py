"""scatter: its body combines updates with elements of operands, at positions that are computed at run time.

An update element that is out of range is dropped. Updates collide if they have one position. The tangent depends on the
body:

    add, subtract           the same scatter of the tangents, because it is linear in operand and updates together
    none ("set")            the tangent of the update that was written last, which a scatter of numbers identifies
    minimum, maximum        the mean of the tangents of all values that attain the result, including the operand's
    multiply                by the product rule; if updates may collide, with products of updates (scatter_product)
    compares and selects    the tangent of the selected value, whose number is selected together with the value
    any other               by applying the body to whole tensors, or window after window if updates may collide

A scatter of several operands is treated as several scatters if their bodies are independent and of the first 5 kinds.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from torch_mlir import ir

from tiduc.dialect.emitters.bodies import returned, self_contained
from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.graph.graph import Definition, Value, operations
from tiduc.dialect.ops.attributes import without
from tiduc.dialect.ops.verify import ACTIVE
from tiduc.dialect.shapes.types import element, is_empty, rank, shape, with_element
from tiduc.passes.rules.elementwise import upcast
from tiduc.passes.rules.expansion import expanded
from tiduc.passes.rules.landing import (
    add_updates,
    count_from_one,
    free_dimensions,
    is_unique,
    landed,
    scatter_like,
)
from tiduc.passes.rules.opset import linearize, transpose, unsupported
from tiduc.passes.rules.registry import Tangents
from tiduc.passes.rules.scatter_product import by_place
from tiduc.passes.rules.selection import numbering, selects
from tiduc.passes.rules.tensor_body import of_tensors

SET = "set"
ADD, SUBTRACT = "stablehlo.add", "stablehlo.subtract"
MULTIPLY = "stablehlo.multiply"
MINIMUM, MAXIMUM = "stablehlo.minimum", "stablehlo.maximum"
LONGEST = 64  # the largest number of windows that are unrolled
KINDS = frozenset((ADD, SUBTRACT, MULTIPLY, MINIMUM, MAXIMUM))


@linearize("stablehlo.scatter")
def scatter(b: StablehloBuilder, op: Definition, dx: Tangents) -> Sequence[Value | None]:
    count = len(op.results)
    if is_empty(op.operands[-1]):
        return [None if t is None else b.convert(t, element(y)) for t, y in zip(dx, op.results, strict=False)]
    if _promotes(op):
        return expanded(b, op.operands, dx, lambda *xs: _promoted(b, op, xs))
    kinds = [kind(op, i) for i in range(count)]
    if None in kinds and is_unique(op):
        return expanded(b, op.operands, dx, lambda *xs: _of_tensors(b, op, xs))
    if not all(kind or selects(op, i) and self_contained(op) for i, kind in enumerate(kinds)):
        return expanded(b, op.operands, dx, lambda *xs: _in_sequence(b, op, xs))
    return [_result(b, op, i, kinds[i], dx[i], dx[count + 1 + i]) for i in range(count)]


def _result(
    b: StablehloBuilder, op: Definition, i: int, kind: str | None, dx: Value | None, du: Value | None
) -> Value | None:
    """The tangent of one result, which depends only on its own operand and updates."""
    if dx is None and du is None or b.tangent_type(op.results[i].type) is None:
        return None
    if kind is None:
        return _winner(b, op, i, _numbered_selection(b, op, i), dx, du)
    if len(op.results) == 1:
        return _of_one(b, op, kind, dx, du)
    own = op.operands[i], op.operands[len(op.results) + 1 + i]
    reducer = None if kind == SET else kind
    return expanded(b, own, [dx, du], lambda x, u: [scatter_like(b, op, x, u, reducer, is_unique(op))])[0]


def _of_one(
    b: StablehloBuilder, op: Definition, kind: str | None, dx: Value | None, du: Value | None
) -> Value | None:
    """The tangent of a scatter with one operand, in most cases as a single scatter."""
    x, _, updates = op.operands
    if kind in (MINIMUM, MAXIMUM):
        return _extremum(b, op, dx, du)
    if kind == MULTIPLY:
        return _product(b, op, dx, du)
    if kind in (ADD, SUBTRACT) and du is None:
        return dx
    if kind == SET and du is not None and not is_unique(op):
        kept = b.zeros_like(x) if dx is None else b.reapply(op, {0: dx, 2: b.zeros_like(du)})[0]
        return add_updates(b, op, kept, _won(b, op, *_numbered_updates(b, op), du))
    dx, du = b.zeros_like(x) if dx is None else dx, b.zeros_like(updates) if du is None else du
    return b.reapply(op, {0: dx, 2: du})[0]


@transpose("stablehlo.scatter")
def scatter_transpose(b: StablehloBuilder, op: Definition, ct: Tangents, active: Sequence[bool]) -> list[Any]:
    """Transposes a linear scatter, and raises `Unsupported` for another.

    Add and subtract are linear, set if updates do not collide or are inactive, and multiply if updates are inactive.
    """
    if len(op.results) != 1 or _promotes(op):
        raise unsupported("transpose", op, "it has several operands or promotes their element types")
    name, updates = kind(op, 0), op.operands[2]
    of_updates = lambda: landed(b, op, ct[0])  # noqa: E731
    if name == ADD:
        return [ct[0], None, of_updates]
    if name == SUBTRACT:
        return [ct[0], None, lambda: b.negate(landed(b, op, ct[0]))]
    if name == SET and (is_unique(op) or not active[2]):
        return [lambda: b.reapply(op, {0: ct[0], 2: b.zeros_like(updates)})[0], None, of_updates]
    if name == MULTIPLY and not active[2]:
        return [b.reapply(op, {0: ct[0], 2: b.conj(updates)})[0], None, None]
    raise unsupported("transpose", op, "it is not linear")


# ---- kinds of bodies, and expansions -------------------------------------------------------------------------


def kind(op: Definition, i: int) -> str | None:
    """Returns the op that combines an element of operand i with an update, or `SET`, or None for any other body."""
    block, y = op.regions[0].blocks[0], returned(op)[i]
    count, arguments = len(op.results), list(block.arguments)
    of = [arguments[i], arguments[count + i]]
    if y == of[1]:
        return SET
    inner = next((inner for inner in operations(block) if y in inner.results), None)
    if inner is None or inner.name not in KINDS:
        return None
    combined = list(inner.operands)
    return inner.name if combined == of or combined == of[::-1] and inner.name != SUBTRACT else None


def _promotes(op: Definition) -> bool:
    """Whether the body computes in wider element types than operands and updates have."""
    return any(element(x) != element(y) for x, y in zip(op.operands, op.results, strict=False))


def _promoted(b: StablehloBuilder, op: Definition, operands: Sequence[Value]) -> Sequence[Value]:
    """Emits the scatter of operands and updates that are converted to the element types of the body."""
    count = len(op.results)
    to = [element(y) for y in op.results]
    xs = [b.convert(x, t) for x, t in zip(operands[:count], to, strict=True)]
    us = [b.convert(u, t) for u, t in zip(operands[count + 1 :], to, strict=True)]
    return b.reapply(op, dict(enumerate((*xs, operands[count], *us))))


def _of_tensors(b: StablehloBuilder, op: Definition, operands: Sequence[Value]) -> list[Value]:
    """Applies the body to the updates and the elements at their positions. Updates must not collide.

    For a dropped update, combines zero with zero, so that no NaN arises; the result of this is dropped.
    """
    count = len(op.results)
    xs, us = operands[:count], operands[count + 1 :]
    numbers = count_from_one(b, xs[0])
    is_inside = b.compare(landed(b, op, numbers), b.zero(with_element(us[0].type, element(numbers))), "NE")
    us = [b.select(is_inside, u, b.zeros_like(u)) for u in us]
    values = of_tensors(b, op, [*(landed(b, op, x) for x in xs), *us])
    return [scatter_like(b, op, x, v, None, True) for x, v in zip(xs, values, strict=True)]


def _in_sequence(b: StablehloBuilder, op: Definition, operands: Sequence[Value]) -> Sequence[Value]:
    """Emits one scatter for each window, in row-major order. Raises `Unsupported` for more than `LONGEST` windows."""
    count = len(op.results)
    xs, indices, us = operands[:count], operands[count], operands[count + 1 :]
    of_indices, of_updates = free_dimensions(op)
    sizes = [shape(us[0])[d] for d in of_updates]
    if prod(sizes) > LONGEST:
        reason = (
            f"two of its {prod(sizes)} windows may overlap, "
            "and its body is neither a single op nor a choice of one value"
        )
        raise unsupported("jvp", op, reason)
    for at in np.ndindex(*sizes):
        window = [_only(b, u, of_updates, at) for u in us]
        xs = b.reapply(op, dict(enumerate((*xs, _only(b, indices, of_indices, at), *window))))
    return xs


def _only(b: StablehloBuilder, v: Value, dimensions: Sequence[int], at: Sequence[int]) -> Value:
    """Returns the slice of v at the indices `at` of `dimensions`, which have size 1 in the slice."""
    start, limit = [0] * rank(v), shape(v)
    for d, i in zip(dimensions, at, strict=True):
        start[d], limit[d] = i, i + 1
    return b.slice(v, start, limit, [1] * rank(v))


# ---- tangents for bodies that are not linear -----------------------------------------------------------------


def _numbered_updates(b: StablehloBuilder, op: Definition) -> tuple[Value, Value]:
    """Returns for each element the number of the update that was written there last, or 0; and all updates' numbers."""
    numbers = count_from_one(b, op.operands[-1])
    none = b.zero(with_element(op.operands[0].type, element(numbers)))
    return scatter_like(b, op, none, numbers, None, False), numbers


def _numbered_selection(b: StablehloBuilder, op: Definition, i: int) -> tuple[Value, Value]:
    """Like `_numbered_updates`, for a body that selects. Emits the op with numbers as a further operand and update."""
    count, numbers = len(op.results), count_from_one(b, op.operands[-1])
    none = b.zero(with_element(op.operands[0].type, element(numbers)))
    operands = [*op.operands[:count], none, *op.operands[count:], numbers]
    attributes = without(op.attributes, ACTIVE)
    types = [*(y.type for y in op.results), none.type]
    return b.emit_all(op.name, operands, types, attributes, [numbering(b, op, i, none)])[count], numbers


def _winner(
    b: StablehloBuilder, op: Definition, i: int, of: tuple[Value, Value], dx: Value | None, du: Value | None
) -> Value:
    """The tangent of each element: that of the update that was written there, or that of the operand if none was.

    The numbers of updates in `of` were scattered like the updates, so a deterministic target picks the same update.
    """
    (winners, numbers), x = of, op.operands[i]
    dy = b.zeros_like(x)
    if dx is not None:
        dy = b.select(b.compare(winners, b.zeros_like(winners), "EQ"), dx, dy)
    return dy if du is None else add_updates(b, op, dy, _won(b, op, winners, numbers, du))


def _won(b: StablehloBuilder, op: Definition, winners: Value, numbers: Value, du: Value) -> Value:
    """The tangents of the updates, with zero for each update that another update overwrites."""
    won = b.compare(landed(b, op, winners), numbers, "EQ")
    return b.select(won, du, b.zeros_like(du))


def _extremum(b: StablehloBuilder, op: Definition, dx: Value | None, du: Value | None) -> Value:
    """The mean of the tangents of all values that equal the result. An integer counts these values exactly."""
    (x, _, updates), y = op.operands, op.result
    integer = ir.IntegerType.get_signless(32)
    is_x, is_update = b.compare(x, y, "EQ"), b.compare(updates, landed(b, op, y), "EQ")
    count = add_updates(b, op, b.convert(is_x, integer), b.convert(is_update, integer))
    total = b.zeros_like(x) if dx is None else b.select(is_x, dx, b.zeros_like(x))
    if du is not None:
        total = add_updates(b, op, total, b.select(is_update, du, b.zeros_like(updates)))
    total = upcast(b, total)  # f16 may not represent the count
    return b.convert(b.divide(total, b.convert(count, element(total))), element(x))


def _product(b: StablehloBuilder, op: Definition, dx: Value | None, du: Value | None) -> Value:
    """The operand's tangent times the updates, plus the operand times the tangent of the product of the updates."""
    terms = [] if dx is None else [b.reapply(op, {0: dx})[0]]
    x, indices, updates = op.operands
    if du is not None and is_unique(op):
        terms.append(add_updates(b, op, b.zeros_like(x), b.multiply(landed(b, op, x), du)))
    elif du is not None:
        factors = expanded(b, [updates], [du], lambda u: [by_place(b, op, u)])[0]
        assert factors is not None
        terms.append(b.multiply(x, factors))
    return b.sum(terms)
