"""Cholesky factors in one dispatch: a = u^H u, row by row.

    row i of u:  row i of a, less conj(u_ji) times row j of u for each j < i, four at a time,
                 over the root of its diagonal entry

Two rows are computed together from the rows before their block, so that these are read once for both. A lower
factor is the adjoint of u, and the rows read are the adjoint of the lower triangle of a; both are transposed
in strips.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tiduc.backends.iree.emitter import Emitter, signless
from tiduc.backends.iree.fast.kernels import Kernel, dispatch
from tiduc.backends.iree.linear_algebra.lines import (
    Layout,
    Number,
    conjugate,
    each,
    integers,
    layout,
    less_product,
    lines,
    of_line,
    type_of_line,
)
from tiduc.dialect.types import shape

_TOGETHER = 4  # rows subtracted at once, so that a row of results is read and written once for them
_AT_ONCE = 2  # rows of results computed at once, so that the rows before are read once for them
_STRIP = 8  # columns that are read while as many rows are written


def rooted(b: Emitter, x: Any, *, lower: bool, kept: bool) -> tuple[Any, Any]:
    """Factors of a batch of matrices, and `info`: the first column (from one) with no positive root, or 0.

    The other triangle, which is not read, is zero, or unchanged if `kept`.
    """
    batch = shape(x)[0]
    types = [type_of_line(x), integers(batch, 1)]
    step = _Roots(layout(x), layout(x, turned=lower), lines(b, x), kept, b.fused)

    def fill(k: Kernel) -> Sequence[Any]:
        return each(k, 0, batch, [k.empty(type_) for type_ in types], step.of_matrix)

    factor, info = dispatch(b, types, fill)
    return of_line(b, factor, x.type), info


@dataclass(frozen=True)
class _Roots:
    """The layout of square matrices in a line, and the matrices to be factorized."""

    of: Layout
    of_a: Layout  # only the upper triangle is read
    a: Number
    kept: bool
    fused: bool

    def of_matrix(self, k: Kernel, batch: Any, u: Any, infos: Any) -> Sequence[Any]:
        """Factorizes one matrix of a batch."""
        n = k.index(self.of.rows)

        def block(k: Kernel, first: Any, u: Any, info: Any) -> Sequence[Any]:
            end = k.arith("minui", k.arith("addi", first, k.index(_TOGETHER)), n)
            (u,) = self._less_before(k, u, batch, first, end)

            def row(k: Kernel, i: Any, u: Any, info: Any) -> Sequence[Any]:
                (u,) = each(k, first, i, [u], lambda k, j, u: self._less(k, u, batch, [i], [j]))
                return self._over_root(k, u, batch, i, info)

            return each(k, first, end, [u, info], row)

        zero = k.index(0)
        u = self._begun(k, u, batch)
        u, info = k.loop(zero, n, k.index(_TOGETHER), [u, zero], block)
        u = self._ended(k, u, batch)
        return [u, k.put(k.cast(info, signless(32)), infos, batch)]

    def _less_before(self, k: Kernel, u: Any, batch: Any, first: Any, end: Any) -> Sequence[Any]:
        """Subtracts from the rows of a block their multiples of the rows before it."""
        ones = k.arith("remui", k.arith("subi", end, first), k.index(_AT_ONCE))
        last = k.arith("subi", end, ones)

        def rows(k: Kernel, u: Any, i: Any, count: int) -> Sequence[Any]:
            def together(k: Kernel, j: Any, u: Any) -> Sequence[Any]:
                return self._less(k, u, batch, _from(k, i, count), _from(k, j, _TOGETHER))

            return k.loop(k.index(0), first, k.index(_TOGETHER), [u], together)

        u = k.loop(first, last, k.index(_AT_ONCE), [u], lambda k, i, u: rows(k, u, i, _AT_ONCE))
        return each(k, last, end, u, lambda k, i, u: rows(k, u, i, 1))

    def _less(
        self, k: Kernel, u: Any, batch: Any, rows: Sequence[Any], others: Sequence[Any]
    ) -> Sequence[Any]:
        """`rows`, from the first diagonal entry on, less `others` times their entries in the rows' columns."""
        factors = [[conjugate(k, self.of.read(k, u, (batch, j, i))) for j in others] for i in rows]

        def entry(k: Kernel, c: Any, u: Any) -> Sequence[Any]:
            values = [self.of.read(k, u, (batch, i, c)) for i in rows]
            for n, j in enumerate(others):
                y = self.of.read(k, u, (batch, j, c))
                values = [
                    less_product(k, x, of_row[n], y, self.fused)
                    for x, of_row in zip(values, factors, strict=True)
                ]
            for x, i in zip(values, rows, strict=True):
                u = self.of.write(k, x, u, (batch, i, c))
            return [u]

        return each(k, rows[0], self.of.columns, [u], entry)

    def _over_root(self, k: Kernel, u: Any, batch: Any, i: Any, info: Any) -> Sequence[Any]:
        """Row i over the root of its diagonal entry, and `info`; a NaN is no root, either."""
        pivot, *_ = self.of.read(k, u, (batch, i, i))
        zero, after = k.zero(pivot.type), k.arith("addi", i, k.index(1))
        root = k.emit("math.sqrt", (pivot,), pivot.type)
        u = self.of.write(k, (root, zero) if self.of.complex else (root,), u, (batch, i, i))

        def entry(k: Kernel, c: Any, u: Any) -> Sequence[Any]:
            parts = self.of.read(k, u, (batch, i, c))
            return [self.of.write(k, tuple(k.arith("divf", x, root) for x in parts), u, (batch, i, c))]

        (u,) = each(k, after, self.of.columns, [u], entry)
        known = k.arith("ori", k.above(root, zero), k.differs_from_zero(info))
        return [u, k.either(known, info, after)]

    def _begun(self, k: Kernel, u: Any, batch: Any) -> Any:
        """The line with the matrix as given, also below the diagonal, where a block may write."""

        def entry(k: Kernel, i: Any, j: Any, u: Any) -> Any:
            v = self.of_a.given(k, self.a, (batch, i, j))
            return self.of.write(k, conjugate(k, v) if self.of_a.turned else v, u, (batch, i, j))

        return self._strips(k, u, entry)

    def _ended(self, k: Kernel, u: Any, batch: Any) -> Any:
        """The line with the factor that is wanted, and the other triangle."""

        def entry(k: Kernel, i: Any, j: Any, u: Any) -> Any:
            if not self.of_a.turned:
                return self.of.write(k, self._other(k, batch, i, j), u, (batch, i, j))
            u = self.of.write(k, conjugate(k, self.of.read(k, u, (batch, j, i))), u, (batch, i, j))
            return self.of.write(k, self._other(k, batch, i, j), u, (batch, j, i))

        return self._strips(k, u, entry, below=True)

    def _other(self, k: Kernel, batch: Any, i: Any, j: Any) -> Number:
        """The entry of the other triangle, for row i and column j of u."""
        if self.kept:
            return self.of_a.given(k, self.a, (batch, i, j))
        return tuple(k.zero(part.type.element_type) for part in self.a)

    def _strips(self, k: Kernel, u: Any, entry: Callable[..., Any], below: bool = False) -> Any:
        """The line after `entry(k, i, j, u)` for all entries, or those below the diagonal, by strips of columns."""
        n, width = k.index(self.of.rows), self.of.rows
        if self.of_a.turned:
            width = min(width, _STRIP)

        def strip(k: Kernel, first: Any, u: Any) -> Sequence[Any]:
            end = k.arith("minui", k.arith("addi", first, k.index(width)), n)

            def row(k: Kernel, i: Any, u: Any) -> Sequence[Any]:
                stop = k.arith("minui", end, i) if below else end
                return each(k, first, stop, [u], lambda k, j, u: [entry(k, i, j, u)])

            return each(k, first if below else 0, n, [u], row)

        return k.loop(k.index(0), n, k.index(width), [u], strip)[0]


def _from(k: Kernel, i: Any, count: int) -> list[Any]:
    """`count` numbers from i on."""
    return [k.arith("addi", i, k.index(more)) for more in range(count)]
