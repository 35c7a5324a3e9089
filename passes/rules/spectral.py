"""Derivatives of programs that use eigenvectors or singular vectors, at matrices with equal values.

The vectors of equal values have an arbitrary basis, and therefore no derivative. A function of the matrix that is
computed from the vectors may have a derivative. Let a = v diag(w) v^H, and c = v^H da v. Then

    y = v phi(w) v^H    has the tangent    v (f c) v^H

with the elementwise product f c, where f_ij = (phi_j - phi_i) / (w_j - w_i), and f_ij = phi'(w_i) if w_i = w_j.

The rules of factorizations give dw = diag c, and a dv that does not rotate the vectors of equal values into each other.
With these dw and dv, the rules of the other ops give dy except for the terms phi'(w_i) c_ij of equal values w_i and
w_j, i != j. `couple` adds these terms to the tangent of each sum y = sum_j x_j z_j over the indices j of the vectors.
Here x_j is linear in vector j, and z_j is linear in its adjoint; both may depend on w_j, and on values other than
vectors. The terms are

    sum_ij (dx_i/dw_i c_ij z_j + x_i c_ij dz_j/dw_j)    over equal values w_i and w_j, i != j

`sums` finds these sums among the ops being linearized. It proves that the vectors affect the requested outputs through
such sums only. For example, a sum over some of the vectors is a projector. If the proof fails, the program is not known
to be a function of the matrix; then the tangents of the vectors of equal values are infinite. Each `linearize` needs a
new proof. Derivatives of the terms use the vectors in other ways. Derivatives of second order are therefore infinite,
unless the program does not use the first tangents of the vectors.

Source: Higham, "Functions of Matrices" (2008), sections 3.2 and 3.3.
"""

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from torch_mlir import ir

from tiduc.dialect.emitters.matrices import columns, compare_places, gaps, highest, is_within, scaled, some
from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.graph.view import BINDING
from tiduc.dialect.shapes.types import element, predicate, rank, shape, with_element, with_shape
from tiduc.passes.rules.elementwise import times
from tiduc.passes.rules.spectral_forms import End, Form, Unproven
from tiduc.passes.rules.spectral_outcomes import outcome

_MOST = 4096
"""The largest number of ops that are examined for one factorization."""


@dataclass(frozen=True)
class VectorSum:
    """A sum over eigenvectors or singular vectors: an op that contracts the dimension of the vectors' numbers.

    `forms` are the forms of its operands (`spectral_forms.py`). `slopes` are the derivatives of the operands with
    respect to the eigenvalue or singular value of each vector, for constant vectors.
    """

    op: Definition
    forms: tuple[Form, Form]
    slopes: tuple[Value | None, Value | None]


def sums(b: StablehloBuilder, values: Value, vectors: Mapping[Value, Form]) -> list[VectorSum] | None:
    """The sums through which vectors reach the outputs. None if vectors may reach an output in another way."""
    scheduled, readers, outputs = b.engine.scheduled, b.engine.readers, b.engine.outputs
    forms = {values: Form(tuple(range(rank(values) - 1)), rank(values) - 1), **vectors}
    waiting, seen, last = list[int](), set[int](), -1
    trail, found = list[Definition](), list[tuple[Definition, tuple[Form, Form]]]()

    def follow(x: Value) -> None:
        for i in readers.get(x, ()):
            if i not in seen:
                seen.add(i)
                heapq.heappush(waiting, i)

    for x, form in forms.items():
        follow(x)
        last = max([last, *readers.get(x, ())]) if form.is_vectors else last
    if not outputs or any(x in outputs for x in vectors):  # Taylor mode applies a rule to an op alone
        return None
    while waiting and waiting[0] <= last:  # no op after `last` reads vectors
        op = scheduled[heapq.heappop(waiting)]
        try:
            result = outcome(op, forms)
        except Unproven:
            return None
        if result is End.SUM:
            found.append((op, (forms[op.operands[0]], forms[op.operands[1]])))
        if isinstance(result, End):
            continue
        trail.append(op)
        for y in op.results:
            forms[y] = result
            follow(y)
            last = max([last, *readers.get(y, ())]) if result.is_vectors else last
        if len(seen) > _MOST or (result.is_vectors and op.result in outputs):
            return None
    slopes = _slopes(b, values, trail) if found else {}
    return [VectorSum(op, of, (slopes.get(op.operands[0]), slopes.get(op.operands[1]))) for op, of in found]


def _slopes(b: StablehloBuilder, values: Value, trail: Sequence[Definition]) -> dict[Value, Value]:
    """Maps values to the derivatives of their elements with respect to the eigenvalues or singular values `values`."""
    slopes: dict[Value, Value] = {values: b.constant(1, values)}
    for op in trail:
        dx = [slopes.get(x) for x in op.operands]
        if op.name == BINDING and dx[0] is not None:
            slopes[op.result] = dx[0]
        elif len(op.results) == 1 and any(x is not None for x in dx):
            rule = b.engine.rule(op)
            (dy,) = rule(b, op, dx) if rule is not None else (None,)
            if dy is not None:
                slopes[op.result] = dy
    return slopes


# ---- these functions add the terms of equal values to the tangents -----------------------------------------


def couple(
    b: StablehloBuilder,
    found: Sequence[VectorSum],
    c: Value,
    equal: Value,
    zeros: Callable[[VectorSum], Value | None],
) -> None:
    """Adds the terms of equal eigenvalues or singular values to the tangents of the sums.

    `c` has the factors c_ij of the terms. `equal` flags each pair (i, j), i != j, of equal values. A sum over some of
    the vectors has no derivative if a vector in the sum and a vector outside of it have equal values. `zeros` flags
    vectors because of which a sum has no derivative for another reason.
    """
    coupling = b.select(equal, c, b.zeros_like(c))
    for each in found:
        terms = [
            term
            for side, slope in enumerate(each.slopes)
            if slope is not None
            for term in b.reapply(each.op, {side: _coupled(b, slope, each.forms[side], coupling)})
        ]
        flags: list[Value] = [x for x in (_cut(b, equal, each), zeros(each)) if x is not None]
        if flags:
            bad = flags[0] if len(flags) == 1 else b.or_(*flags)
            x, form = each.op.operands[0], each.forms[0]
            number = infinite(b, c, bad)
            everywhere = b.broadcast_in_dim(number, (*form.batch, form.number), with_shape(x.type, shape(x)))
            terms += b.reapply(each.op, {0: everywhere})
        if terms:
            b.notes.terms.setdefault(each.op.result, []).extend(terms)


def _coupled(b: StablehloBuilder, slope: Value, form: Form, coupling: Value) -> Value:
    """For vectors, the sum over i of slope_i c_ij; for their conjugates, the sum over j of c_ij slope_j."""
    first, count, last = form.start, shape(slope)[form.number], rank(coupling) - 1
    start, limit = [0] * rank(coupling), list(shape(coupling))
    start[-2:], limit[-2:] = [first] * 2, [first + count] * 2
    if shape(coupling) != limit:
        coupling = b.slice(coupling, start, limit, [1] * len(start))
    batch = range(last - 1)
    slope = b.convert(slope, element(coupling))
    over = [last if form.is_conjugate else last - 1]
    product = b.dot_general(slope, coupling, [form.batch, batch], [[form.number], over], highest())
    kept = [d for d in range(rank(slope)) if d not in (*form.batch, form.number)]
    order = [*form.batch, *kept, form.number]
    return b.transpose(product, [order.index(d) for d in range(len(order))])


def _cut(b: StablehloBuilder, equal: Value, each: VectorSum) -> Value | None:
    """Flags the vectors in a sum whose value equals that of a vector outside. None for a sum over all vectors."""
    form = each.forms[0]
    first, count, size = form.start, shape(each.op.operands[0])[form.number], shape(equal)[-1]
    if count == size:
        return None
    place = with_element(equal.type, ir.IntegerType.get_signless(32))
    column = b.iota(rank(equal) - 1, place)
    inside = b.and_(
        b.compare(column, b.constant(first, place), "GE"),
        b.compare(column, b.constant(first + count, place), "LT"),
    )
    outside = b.and_(equal, b.compare(inside, b.zeros_like(inside), "EQ"))
    flags = some(b, outside, [rank(equal) - 1])
    start, limit = [0] * rank(flags), list(shape(flags))
    start[-1], limit[-1] = first, first + count
    return b.slice(flags, start, limit, [1] * rank(flags))


def zeros(b: StablehloBuilder, each: VectorSum, zero: Value, is_square: Sequence[bool]) -> Value:
    """Flags the vectors with singular value zero because of which a sum has no derivative.

    `zero` flags the values that are zero, and `is_square` says whether u and v are square. The sum has a derivative if
    its terms vanish to first order in the value. A sum of products of u and u^H (u square), or of v and v^H (v square),
    also has a derivative if its terms do not depend on the value.
    """
    form = each.forms[0]
    count, flags = shape(each.op.operands[0])[form.number], zero
    if count != shape(zero)[-1]:
        start, limit = [0] * rank(zero), list(shape(zero))
        start[-1], limit[-1] = form.start, form.start + count
        flags = b.slice(zero, start, limit, [1] * rank(zero))
    every = b.compare(flags, flags, "EQ")
    (x, z), (dx, dz) = (
        [every if y is None else _vanishes(b, y, of) for y, of in zip(pair, each.forms, strict=True)]
        for pair in (each.op.operands, each.slopes)
    )
    fine = b.or_(b.or_(b.and_(x, dx), b.and_(z, dz)), b.and_(x, z))
    if each.forms[0].side == each.forms[1].side and is_square[form.side]:
        fine = b.or_(fine, b.and_(dx, dz))
    return b.and_(flags, b.compare(fine, b.zeros_like(fine), "EQ"))


def _vanishes(b: StablehloBuilder, x: Value, form: Form) -> Value:
    """For each vector, whether all elements of x that belong to the vector are zero."""
    rest = [d for d in range(rank(x)) if d not in (*form.batch, form.number)]
    ordered = b.transpose(x, [*form.batch, form.number, *rest])
    differs = b.compare(ordered, b.zeros_like(ordered), "NE")
    first = len(form.batch) + 1
    flags = some(b, differs, list(range(first, rank(x)))) if rest else differs
    return b.compare(flags, b.zeros_like(flags), "EQ")


def vectors_of(x: Value, side: int = 0, is_adjoint: bool = False) -> Form:
    """The form of matrices whose columns are eigenvectors or singular vectors, or of the adjoints of such matrices."""
    number = rank(x) - (2 if is_adjoint else 1)
    batch = tuple(range(rank(x) - 2))
    return Form(batch, number, is_vectors=True, is_conjugate=is_adjoint, side=side)


def equal_values(b: StablehloBuilder, w: Value, margin: Value) -> Value:
    """Flags each pair (i, j), i != j, of eigenvalues or singular values that count as equal."""
    distances = b.abs(gaps(b, w))
    return b.and_(is_within(b, distances, margin), compare_places(b, distances, "NE"))


def unless_equal(b: StablehloBuilder, flags: Value, c: Value, dv: Value) -> Value:
    """Replaces the tangents of flagged vectors in dv, the tangents of all vectors, by infinities or NaN."""
    numbers = columns(b, infinite(b, c, flags), dv.type)
    return b.select(columns(b, flags, predicate(dv.type)), numbers, dv)


def unless_coupled(b: StablehloBuilder, inverses: Value, c: Value, dv: Value) -> Value:
    """Makes the tangent in dv of each vector infinite or NaN whose row of `inverses` has a 0 off the diagonal."""
    size = b.abs(inverses)
    equal = b.and_(b.compare(size, b.zeros_like(size), "EQ"), compare_places(b, size, "NE"))
    return unless_equal(b, some(b, equal, [rank(size) - 1]), c, dv)


def infinite(b: StablehloBuilder, c: Value, flags: Value, weights: Value | None = None) -> Value:
    """A number for each flag: not finite if the flag is set, else 0. The transpose maps 0 to 0, not to NaN.

    The number is a weighted sum of the elements of c, multiplied twice by a large number. The sum is not zero in
    practice. The large number depends on the flags, so that no compiler computes its square in advance.
    """
    row, column = (b.iota(rank(c) - i, b.real(c).type) for i in (2, 1))
    given = b.convert(b.sine(b.add(row, times(b, 1.618, column))), element(c))
    given = given if weights is None else b.add(given, weights)
    total = b.reduce_sum(b.multiply(given, c), [rank(c) - 2, rank(c) - 1])
    number = b.broadcast_in_dim(total, range(rank(total)), with_shape(c.type, shape(flags)))
    size = b.real(number)
    large = b.select(
        flags, b.constant(np.finfo(f"f{element(size).width // 8}").max, size), b.zeros_like(size)
    )
    return scaled(b, large, scaled(b, large, number))
