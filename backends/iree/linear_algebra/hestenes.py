"""Hestenes' one-sided Jacobi method in one dispatch: rotates rows of matrices until they are orthogonal.

    each row with each one after it:  the rotation that makes their product zero

If the rotations are asked for, rows of a unit matrix follow those of the matrix, and rotate with them. Sums
of products of rows may be reassociated, so that several terms are added at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.emitter import Emitter
from tiduc.backends.iree.fast.kernels import Kernel, dispatch
from tiduc.backends.iree.linear_algebra.jacobi import SWEEPS
from tiduc.backends.iree.linear_algebra.lines import (
    Layout,
    Number,
    added,
    conjugate,
    each,
    layout,
    lines,
    of_line,
    square,
    times,
)
from tiduc.backends.iree.linear_algebra.matrices import epsilon, real_type
from tiduc.backends.iree.linear_algebra.rotations import root, rotation, turned, width_of
from tiduc.dialect.types import is_complex, shape, with_shape


def made_orthogonal(b: Emitter, x: Any, most: float, vectors: bool) -> tuple[Any, Any, Any]:
    """The rotated rows; the product of the rotations, or None without `vectors`; the largest cosine left.

    Sweeps end once that cosine is at most `most`.
    """
    batch, n, m = shape(x)
    columns = m + n if vectors else m
    width = width_of(columns)
    end = batch * n * width * (2 if is_complex(x) else 1)
    of_lengths = Layout((batch, 1, n + 1), False, start=end)
    line = ir.RankedTensorType.get([end + batch * (n + 1)], real_type(x))
    of = Layout((batch, n, width), is_complex(x))
    step = _Sweeps(of, of_lengths, layout(x), lines(b, x), columns, (most, epsilon(x)), b.fused)
    (made,) = dispatch(b, [line], lambda k: each(k, 0, batch, [k.empty(line)], step.of_matrix))
    rows = of_line(b, b.slice(made, [0], [end], [1]), with_shape(x.type, [batch, n, width]))
    last = b.reshape(b.slice(made, [end], [end + batch * (n + 1)], [1]), [batch, n + 1])
    last = b.reshape(b.slice(last, [0, n], [batch, n + 1], [1, 1]), [batch])
    vh = b.slice(rows, [0, 0, m], [batch, n, columns], [1, 1, 1]) if vectors else None
    return b.slice(rows, [0, 0, 0], [batch, n, m], [1, 1, 1]), vh, last


@dataclass(frozen=True)
class _Sweeps:
    """Matrices in a line, with the rows of the rotations behind their rows; lengths of rows, and measures."""

    of: Layout
    of_lengths: Layout
    of_a: Layout
    a: Number
    columns: int  # in all; the matrix has the first ones
    limits: tuple[float, float]  # the largest cosine that may be left, and epsilon
    fused: bool

    def of_matrix(self, k: Kernel, batch: Any, x: Any) -> Sequence[Any]:
        """Rotates the rows of one matrix of a batch."""
        real = self.a[0].type.element_type
        most, least = (
            k.emit("arith.constant", (), real, {"value": ir.FloatAttr.get(real, limit)})
            for limit in self.limits
        )

        def sweep(k: Kernel, _: Any, x: Any) -> Sequence[Any]:
            (last,) = self.of_lengths.read(k, x, (batch, k.index(0), k.index(self.of.rows)))

            def swept(k: Kernel) -> Sequence[Any]:
                return [self._measured(k, self._swept(k, x, batch), batch, least)]

            return [k.choice(k.above(last, most), x.type, swept, lambda k: [x])]  # false for a NaN

        x = self._measured(k, self._begun(k, x, batch), batch, least)
        return each(k, 0, SWEEPS, [x], sweep)

    def _begun(self, k: Kernel, x: Any, batch: Any) -> Any:
        """The line with the matrix, and a unit matrix behind its rows."""
        real, m = self.a[0].type.element_type, self.of_a.columns
        none = (k.zero(real),) * len(self.a)

        def row(k: Kernel, i: Any, x: Any) -> Sequence[Any]:
            def given(k: Kernel, j: Any, x: Any) -> Sequence[Any]:
                return [self.of.write(k, self.of_a.given(k, self.a, (batch, i, j)), x, (batch, i, j))]

            (x,) = each(k, 0, m, [x], given)
            if self.columns == m:
                return [x]
            (x,) = each(k, m, self.columns, [x], lambda k, j, x: [self.of.write(k, none, x, (batch, i, j))])
            own = k.arith("addi", i, k.index(m))
            return [self.of.write(k, (k.one(real), *none[1:]), x, (batch, i, own))]

        return each(k, 0, self.of.rows, [x], row)[0]

    def _measured(self, k: Kernel, x: Any, batch: Any, least: Any) -> Any:
        """The line with the largest cosine between two rows.

        No row counts as shorter than epsilon times the longest one.
        """
        zero, none = k.index(0), k.zero(least.type)

        def length(k: Kernel, i: Any, x: Any, top: Any) -> Sequence[Any]:
            own = root(k, self._products(k, x, batch, i, i)[0])
            x = self.of_lengths.write(k, (own,), x, (batch, zero, i))
            return [x, k.arith("maximumf", top, own)]

        x, top = each(k, 0, self.of.rows, [x, none], length)
        least = k.arith("mulf", top, least)

        def first(k: Kernel, p: Any, most: Any) -> Sequence[Any]:
            def second(k: Kernel, q: Any, most: Any) -> Sequence[Any]:
                coupling = self._products(k, x, batch, p, q)[2:]
                lengths = (self.of_lengths.read(k, x, (batch, zero, i))[0] for i in (p, q))
                both = k.arith("mulf", *(k.arith("maximumf", own, least) for own in lengths))
                cosine = k.arith("divf", root(k, square(k, coupling)), both)
                return [k.arith("maximumf", most, k.either(k.is_zero(both), none, cosine))]

            return each(k, k.arith("addi", p, k.index(1)), self.of.rows, [most], second)

        (most,) = each(k, 0, self.of.rows, [none], first)
        return self.of_lengths.write(k, (most,), x, (batch, zero, k.index(self.of.rows)))

    def _swept(self, k: Kernel, x: Any, batch: Any) -> Any:
        """The line after one sweep, in which each row has met all others."""

        def first(k: Kernel, p: Any, x: Any) -> Sequence[Any]:
            def second(k: Kernel, q: Any, x: Any) -> Sequence[Any]:
                of_p, of_q, *coupling = self._products(k, x, batch, p, q)
                size = root(k, square(k, tuple(coupling)))

                def met(k: Kernel) -> Sequence[Any]:
                    turn = rotation(k, (of_p, of_q), tuple(coupling), size)
                    return [turned(k, x, self.of, (batch, p, q), self.columns, turn, self.fused)]

                return [k.choice(k.is_zero(size), x.type, lambda k: [x], met)]

            return each(k, k.arith("addi", p, k.index(1)), self.of.rows, [x], second)

        return each(k, 0, self.of.rows, [x], first)[0]

    def _products(self, k: Kernel, x: Any, batch: Any, p: Any, q: Any) -> tuple[Any, ...]:
        """|x|^2, |y|^2, and the parts of x y^H, for rows x and y."""

        def entry(k: Kernel, c: Any, *sums: Any) -> Sequence[Any]:
            x_p, x_q = (self.of.read(k, x, (batch, i, c)) for i in (p, q))
            more = (square(k, x_p), square(k, x_q), *times(k, x_p, conjugate(k, x_q)))
            return [added(k, *pair) for pair in zip(sums, more, strict=True)]

        zero = k.zero(self.a[0].type.element_type)
        return each(k, 0, self.of_a.columns, [zero] * (2 + len(self.a)), entry)
