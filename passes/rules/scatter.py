"""scatter: updates combined into an operand at run-time positions, by a body of one op.

An update that is out of range is dropped, element by element. Two updates may meet at one position; what then
becomes of the derivative depends on the body:

    add, subtract       linear in operand and updates together
    none ("set")        the winner's tangent: scattering numbers in place of the updates tells which it is
    minimum, maximum    the mean of the tangents of those that attain the result, the operand's included
    multiply            linear in the operand; in the updates only where no two meet
"""

import math
from collections.abc import Sequence
from typing import Any

from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.dialect.graph import Definition, operations
from tiduc.dialect.types import element, is_complex, predicate, rank, shape, with_element, with_shape
from tiduc.passes.rules.gather import clamp_indices, components, is_sorted, known_range, signed
from tiduc.passes.rules.opset import linearize, transpose, unsupported
from tiduc.passes.rules.registry import Tangents

SET = "set"
ADD, SUBTRACT, MULTIPLY, MINIMUM, MAXIMUM = (
    f"stablehlo.{name}" for name in ("add", "subtract", "multiply", "minimum", "maximum")
)


@linearize("stablehlo.scatter")
def scatter(b: Any, op: Definition, tangents: Tangents) -> list[Any]:
    if len(op.results) != 1:
        raise unsupported("jvp", op, "it has several operands")
    kind = body(op)
    if kind is None:
        raise unsupported(
            "jvp", op, "the body is neither set nor one add, subtract, multiply, minimum or maximum"
        )
    (x, _, updates), (dx, _, du) = op.operands, tangents
    if 0 in (*shape(x), *shape(updates)):
        return [dx]
    if kind in (MINIMUM, MAXIMUM):
        return [_extremum(b, op, dx, du)]
    if kind == MULTIPLY:
        return [_product(b, op, dx, du)]
    if kind in (ADD, SUBTRACT) and du is None:
        return [dx]
    if kind == SET and not is_unique(op):
        return [_winner(b, op, dx, du)]
    dx, du = b.zeros_like(x) if dx is None else dx, b.zeros_like(updates) if du is None else du
    return list(b.reapply(op, {0: dx, 2: du}))


@transpose("stablehlo.scatter")
def scatter_transpose(b: Any, op: Definition, ct: Tangents, active: Sequence[bool]) -> list[Any]:
    """Of the linear forms: set where no two updates meet, add, subtract, and multiply by inactive updates."""
    kind, updates = body(op), op.operands[2]
    of_updates = lambda: landed(b, op, ct[0])  # noqa: E731
    if kind == ADD:
        return [ct[0], None, of_updates]
    if kind == SUBTRACT:
        return [ct[0], None, lambda: b.negate(landed(b, op, ct[0]))]
    if kind == SET and is_unique(op):
        return [lambda: b.reapply(op, {0: ct[0], 2: b.zeros_like(updates)})[0], None, of_updates]
    if kind == MULTIPLY and not active[2]:
        return [b.reapply(op, {0: ct[0], 2: b.conj(updates)})[0], None, None]
    raise unsupported("transpose", op, "it is not linear")


def body(op: Definition) -> str | None:
    """The op that combines an element with an update, or `SET`; None where the body is anything else."""
    block = op.regions[0].blocks[0]
    *inner, last = operations(block)
    if any(element(value) != element(op.operands[0]) for value in (*block.arguments, op.result)):
        return None
    if not inner:
        return SET if last.operands[0] == block.arguments[1] else None
    if len(inner) != 1 or last.operands[0] != inner[0].results[0]:
        return None
    name, combined, arguments = inner[0].name, list(inner[0].operands), list(block.arguments)
    if combined == arguments:
        return name if name in (ADD, SUBTRACT, MULTIPLY, MINIMUM, MAXIMUM) else None
    return name if combined == arguments[::-1] and name in (ADD, MULTIPLY, MINIMUM, MAXIMUM) else None


def is_unique(op: Definition) -> bool:
    """No two updates meet: so the op says, or there is but one window of them."""
    if "unique_indices" in op.attributes and op.attributes["unique_indices"].value:
        return True
    window = hlo.ScatterDimensionNumbers(op.attributes["scatter_dimension_numbers"]).update_window_dims
    return all(n <= 1 for i, n in enumerate(shape(op.operands[2])) if i not in window)


def landed(b: Any, op: Definition, y: Any) -> Any:
    """For each update of a scatter, the element of y where it lands; zero where it is dropped.

    It is the transpose of adding the updates. For a window partly out of range y is padded, since a gather
    would move the window inside; what is wholly out of range is masked.
    """
    _, indices, updates = op.operands
    d = hlo.ScatterDimensionNumbers(op.attributes["scatter_dimension_numbers"])
    sizes = [1] * rank(y)
    of_window = (i for i in range(rank(y)) if i not in (*d.inserted_window_dims, *d.input_batching_dims))
    for i, dimension in zip(of_window, d.update_window_dims, strict=True):
        sizes[i] = shape(updates)[dimension]
    where = list(d.scattered_dims_to_operand_dims)
    least, greatest = known_range(b, indices)
    fits = not where or least >= 0 and all(greatest <= shape(y)[i] - sizes[i] for i in where)
    margin = [n - 1 if i in where and not fits else 0 for i, n in enumerate(sizes)]
    along, last = [margin[i] for i in where], [shape(y)[i] - 1 for i in where]
    inside = clamp_indices(b, indices, [-n for n in along], last, d.index_vector_dim)
    start = signed(b, inside, max(map(sum, zip(last, along, strict=True)), default=0))
    source = y
    if any(margin):
        start = b.add(start, components(b, along, start.type, d.index_vector_dim))
        source = b.pad(y, b.zero(with_shape(y.type, [])), margin, margin, [0] * rank(y))
    numbers = hlo.GatherDimensionNumbers.get(
        d.update_window_dims,
        d.inserted_window_dims,
        d.input_batching_dims,
        d.scatter_indices_batching_dims,
        d.scattered_dims_to_operand_dims,
        d.index_vector_dim,
    )
    sorted_ = is_sorted(op) and (inside is indices or len(where) == 1)
    found = b.gather(source, start, numbers, sizes, with_element(updates.type, element(y)), sorted_)
    if fits:
        return found
    is_inside = b.compare(inside, indices, "EQ")
    if len(where) == 1:
        is_inside = b.reshape(is_inside, [n for i, n in enumerate(shape(indices)) if i != d.index_vector_dim])
    else:
        true = b.constant(True, with_shape(is_inside.type, []))
        is_inside = b.reduce(is_inside, true, [d.index_vector_dim], "stablehlo.and")
    batch = [i for i in range(rank(updates)) if i not in d.update_window_dims]
    is_inside = b.broadcast_in_dim(is_inside, batch, predicate(updates.type))
    return b.select(is_inside, found, b.zeros_like(found))


# ---- the bodies that are not linear ---------------------------------------------------------------------


def _add_updates(b: Any, op: Definition, x: Any, updates: Any) -> Any:
    """The updates, other ones, added to another operand where the op puts them."""
    numbers = op.attributes["scatter_dimension_numbers"]
    return b.scatter(x, op.operands[1], updates, numbers, sorted_=is_sorted(op), unique=is_unique(op))


def _winner(b: Any, op: Definition, dx: Any | None, du: Any | None) -> Any:
    """The tangent of the update that won, or the operand's where there is none.

    Numbers from 1 are scattered as the updates are; on any deterministic target the same one wins.
    """
    x, indices, updates = op.operands
    count = math.prod(shape(updates))
    number = ir.IntegerType.get_signless(32 if count < 2**31 else 64)
    numbered, one = with_element(updates.type, number), b.constant(1, with_element(updates.type, number))
    numbers = b.add(b.reshape(b.iota(0, with_shape(numbered, [count])), shape(updates)), one)
    none = b.zero(with_element(x.type, number))
    winners = b.scatter(
        none,
        indices,
        numbers,
        op.attributes["scatter_dimension_numbers"],
        reducer=None,
        sorted_=is_sorted(op),
    )
    dy = b.zeros_like(x)
    if dx is not None:
        dy = b.select(b.compare(winners, none, "EQ"), dx, dy)
    if du is None:
        return dy
    won = b.compare(landed(b, op, winners), numbers, "EQ")
    return _add_updates(b, op, dy, b.select(won, du, b.zeros_like(du)))


def _extremum(b: Any, op: Definition, dx: Any | None, du: Any | None) -> Any:
    """The mean of the tangents of the elements that are equal to the result."""
    (x, _, updates), y = op.operands, op.result
    if is_complex(x):
        raise unsupported("jvp", op, "the order of complex values is no differentiable choice")
    zero, none = b.zeros_like(x), b.zeros_like(updates)
    is_x, is_update = b.compare(x, y, "EQ"), b.compare(updates, landed(b, op, y), "EQ")
    count = _add_updates(b, op, b.convert(is_x, element(x)), b.convert(is_update, element(x)))
    total = zero if dx is None else b.select(is_x, dx, zero)
    if du is not None:
        total = _add_updates(b, op, total, b.select(is_update, du, none))
    return b.divide(total, count)


def _product(b: Any, op: Definition, dx: Any | None, du: Any | None) -> Any:
    """The operand's tangent multiplied as the operand is; each update's, times the operand where it lands."""
    terms = [] if dx is None else [b.reapply(op, {0: dx})[0]]
    if du is not None:
        if not is_unique(op):
            raise unsupported("jvp", op, "active updates are multiplied, and two may meet at one position")
        x = op.operands[0]
        terms.append(_add_updates(b, op, b.zeros_like(x), b.multiply(landed(b, op, x), du)))
    return b.sum(terms)
