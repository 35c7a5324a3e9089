"""Householder reflections 1 - tau v v^H in one dispatch: QR factors, and products with the reflections.

    w = v^H x, row of x by row;  w = tau w;  x = x - v w, row by row

v is below the diagonal of the factorized matrix, and is one on it. A reflection with tau = 0 is skipped, as
in LAPACK. One line (lines.py) has the matrices, tau, and w.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.emitter import Emitter
from tiduc.backends.iree.fast.kernels import Kernel, dispatch
from tiduc.backends.iree.linear_algebra.lines import (
    Layout,
    Number,
    conjugate,
    copied,
    each,
    larger,
    less_product,
    lines,
    negated,
    of_line,
    quotient,
    square,
    times,
)
from tiduc.dialect.types import is_complex, shape, with_shape


def reflected_to_triangles(b: Emitter, x: Any) -> tuple[Any, Any]:
    """The packed factors of matrices, and tau for each column."""
    batch, m, n = shape(x)
    count = min(m, n)
    given, taus = lines(b, x), with_shape(x.type, [batch, 1, count])
    step = _Reflections(*_layouts(x, count), b.fused)

    def fill(k: Kernel) -> Sequence[Any]:
        return each(k, 0, batch, [copied(k, given, step.size)], step.factorized)

    (made,) = dispatch(b, [step.type_of(given)], fill)
    end = math.prod(shape(x)) * len(given)
    qr = of_line(b, b.slice(made, [0], [end], [1]), x.type)
    tau = of_line(b, b.slice(made, [end], [end + batch * count * len(given)], [1]), taus)
    return qr, b.reshape(tau, [batch, count])


def product_of_reflections(b: Emitter, qr: Any, taus: Any, c: Any, turned: bool) -> Any:
    """Q c, or Q^H c if `turned`, one reflection after the other."""
    batch, m, n = shape(qr)
    count = shape(taus)[1]
    of_v, of_tau = lines(b, qr), lines(b, taus)
    step = _Reflections(*_layouts(c, 0), b.fused)
    v_at = Layout((batch, m, n), is_complex(c))
    tau_at = Layout((batch, 1, count), is_complex(c))

    def of_matrix(k: Kernel, i: Any, x: Any) -> Sequence[Any]:
        def one(k: Kernel, s: Any, x: Any) -> Sequence[Any]:
            j = s if turned else k.arith("subi", k.index(count - 1), s)
            tau = tau_at.given(k, of_tau, (i, k.index(0), j))

            def v(k: Kernel, row: Any, _: Any) -> Number:
                return v_at.given(k, of_v, (i, row, j))

            return step.reflected(k, x, i, j, 0, v, conjugate(k, tau) if turned else tau)

        return each(k, 0, count, [x], one)

    given = lines(b, c)

    def fill(k: Kernel) -> Sequence[Any]:
        return each(k, 0, batch, [copied(k, given, step.size)], of_matrix)

    (made,) = dispatch(b, [step.type_of(given)], fill)
    return of_line(b, b.slice(made, [0], [math.prod(shape(c)) * len(given)], [1]), c.type)


def _layouts(x: Any, count: int) -> tuple[Layout, Layout, Layout]:
    """The layouts of matrices, of `count` tau for each, and of w, one after the other in a line."""
    batch, m, n = shape(x)
    numbers, parts = batch * m * n, 2 if is_complex(x) else 1
    taus = Layout((batch, 1, count), is_complex(x), start=numbers * parts)
    w = Layout((1, 1, n), is_complex(x), start=(numbers + batch * count) * parts)
    return Layout((batch, m, n), is_complex(x)), taus, w


@dataclass(frozen=True)
class _Reflections:
    """The layouts of matrices, tau and w."""

    of: Layout
    of_tau: Layout
    of_w: Layout
    fused: bool

    @property
    def size(self) -> int:
        """The length of the line."""
        return int(self.of_w.start) + self.of_w.columns * (2 if self.of.complex else 1)

    def type_of(self, given: Number) -> Any:
        """The type of the line."""
        return ir.RankedTensorType.get([self.size], given[0].type.element_type)

    def factorized(self, k: Kernel, batch: Any, x: Any) -> Sequence[Any]:
        """Factorizes one matrix, column by column."""

        def column(k: Kernel, j: Any, x: Any) -> Sequence[Any]:
            x, tau = self._reflector(k, x, batch, j)
            x = self.of_tau.write(k, tau, x, (batch, k.index(0), j))

            def v(k: Kernel, row: Any, x: Any) -> Number:
                return self.of.read(k, x, (batch, row, j))

            return self.reflected(k, x, batch, j, k.arith("addi", j, k.index(1)), v, conjugate(k, tau))

        return each(k, 0, self.of_tau.columns, [x], column)

    def _reflector(self, k: Kernel, x: Any, batch: Any, j: Any) -> tuple[Any, Number]:
        """The line with v and beta in column j, and tau; computed from entries scaled to about one."""
        after, alpha = k.arith("addi", j, k.index(1)), self.of.read(k, x, (batch, j, j))
        zero, one = k.zero(alpha[0].type), k.one(alpha[0].type)

        def most(k: Kernel, i: Any, top: Any) -> Sequence[Any]:
            return [larger(k, top, self.of.read(k, x, (batch, i, j)))]

        (top,) = each(k, after, self.of.rows, [larger(k, zero, alpha)], most)
        unit = k.either(k.above(top, zero), top, one)

        def more(k: Kernel, i: Any, total: Any) -> Sequence[Any]:
            return [k.arith("addf", total, square(k, self._scaled(k, x, (batch, i, j), unit)))]

        (rest,) = each(k, after, self.of.rows, [zero], more)
        first = self._scaled(k, x, (batch, j, j), unit)
        length = k.emit("math.sqrt", (k.arith("addf", rest, square(k, first)),), rest.type)
        beta = k.either(k.not_below(first[0], zero), k.emit("arith.negf", (length,), length.type), length)
        flat = k.is_zero(rest)
        if len(first) == 2:
            flat = k.arith("andi", flat, k.is_zero(first[1]))
        safe = k.either(flat, one, beta)
        tau = [k.arith("divf", k.arith("subf", beta, first[0]), safe)]
        if len(first) == 2:
            tau.append(k.arith("divf", k.emit("arith.negf", (first[1],), zero.type), safe))
        divisor = (k.either(flat, one, k.arith("subf", first[0], beta)), *first[1:])
        none = (zero,) * len(alpha)

        def entry(k: Kernel, i: Any, x: Any) -> Sequence[Any]:
            v = quotient(k, self._scaled(k, x, (batch, i, j), unit), divisor)
            v = tuple(k.either(flat, *pair) for pair in zip(none, v, strict=True))
            return [self.of.write(k, v, x, (batch, i, j))]

        (x,) = each(k, after, self.of.rows, [x], entry)
        made = (k.arith("mulf", beta, unit), *none[1:])
        made = tuple(k.either(flat, *pair) for pair in zip(alpha, made, strict=True))
        tau = [k.either(flat, zero, part) for part in tau]
        return self.of.write(k, made, x, (batch, j, j)), tuple(tau)

    def _scaled(self, k: Kernel, x: Any, place: Sequence[Any], unit: Any) -> Number:
        return tuple(k.arith("divf", part, unit) for part in self.of.read(k, x, place))

    def reflected(
        self, k: Kernel, x: Any, batch: Any, j: Any, start: Any, v: Callable[..., Number], tau: Number
    ) -> Sequence[Any]:
        """Subtracts tau v v^H times the matrix, from column `start` on; v is one in row j, and zero above it."""
        none = k.is_zero(tau[0])
        for part in tau[1:]:
            none = k.arith("andi", none, k.is_zero(part))
        return [
            k.choice(none, x.type, lambda k: [x], lambda k: self._reflected(k, x, (batch, j, start), v, tau))
        ]

    def _reflected(
        self, k: Kernel, x: Any, of: Sequence[Any], v: Callable[..., Number], tau: Number
    ) -> Sequence[Any]:
        batch, j, start = of
        zero, after = k.index(0), k.arith("addi", j, k.index(1))

        def columns(k: Kernel, x: Any, entry: Callable[[Kernel, Any, Any], Any]) -> Sequence[Any]:
            return each(k, start, self.of.columns, [x], lambda k, c, x: [entry(k, c, x)])

        def along(k: Kernel, i: Any, x: Any) -> Sequence[Any]:
            factor = negated(k, conjugate(k, v(k, i, x)))

            def entry(k: Kernel, c: Any, x: Any) -> Any:
                w = self.of_w.read(k, x, (zero, zero, c))
                w = less_product(k, w, factor, self.of.read(k, x, (batch, i, c)), self.fused)
                return self.of_w.write(k, w, x, (zero, zero, c))

            return columns(k, x, entry)

        def less(k: Kernel, i: Any, x: Any) -> Sequence[Any]:
            factor = v(k, i, x)

            def entry(k: Kernel, c: Any, x: Any) -> Any:
                y, w = self.of.read(k, x, (batch, i, c)), self.of_w.read(k, x, (zero, zero, c))
                return self.of.write(k, less_product(k, y, factor, w, self.fused), x, (batch, i, c))

            return columns(k, x, entry)

        def begun(k: Kernel, c: Any, x: Any) -> Any:
            return self.of_w.write(k, self.of.read(k, x, (batch, j, c)), x, (zero, zero, c))

        def turned(k: Kernel, c: Any, x: Any) -> Any:
            w = times(k, tau, self.of_w.read(k, x, (zero, zero, c)))
            y = self.of.read(k, x, (batch, j, c))
            y = tuple(k.arith("subf", *pair) for pair in zip(y, w, strict=True))
            return self.of.write(k, y, self.of_w.write(k, w, x, (zero, zero, c)), (batch, j, c))

        (x,) = columns(k, x, begun)
        (x,) = each(k, after, self.of.rows, [x], along)
        (x,) = columns(k, x, turned)
        return each(k, after, self.of.rows, [x], less)
