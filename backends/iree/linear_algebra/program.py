"""Programs: arrays that change, loops and branches, from which run.py makes one dispatch.

    def body(p: Program, x: Matrix, y: Matrix) -> None:
        total = p.variable(0.0)
        with p.each(0, x.rows) as i:
            total.add(x[i, i])
            y[i, 0] = total.value * 2.0

The body of a `with` is emitted once. Loops and branches carry all arrays and variables; IREE's canonicalizer
removes those that a loop does not change.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from torch_mlir import ir

from tiduc.backends.iree.emitter import signless
from tiduc.backends.iree.fast.kernels import Kernel
from tiduc.backends.iree.linear_algebra.scalars import Int, Number, Scope

STRIP = 8
"""The columns that are read while as many rows are written, so that both stay in the cache."""


class Program(Scope):
    """Emits the body of a dispatch."""

    def __init__(self, k: Kernel, real: Any) -> None:
        super().__init__(k, real)
        self._variables: list[Any] = []  # with values, one for each of `parts`

    @contextmanager
    def each(self, start: Int | int, end: Int | int, step: int = 1) -> Iterator[Int]:
        """A loop over the indices from `start` to below `end`."""
        bounds, initial = [self.index(x).v for x in (start, end, step)], self._parts()
        arguments = [ir.IndexType.get(), *[x.type for x in initial]]
        results, (block,) = self._opened("scf.for", [*bounds, *initial], arguments, 1)
        with self._within(block, block.arguments[1:]):
            yield Int(self, (block.arguments[0],))
        self._set(results)

    @contextmanager
    def when(self, condition: Any) -> Iterator[None]:
        """A branch that runs if the condition holds."""
        results, (then, otherwise) = self._opened("scf.if", [condition], [], 2)
        with self._within(otherwise, self._parts()):
            pass
        with self._within(then, self._parts()):
            yield
        self._set(results)

    def _opened(self, name: str, operands: Sequence[Any], arguments: Sequence[Any], count: int) -> Any:
        """An op that gives new values for all variables: its results, and its blocks, which are to be filled."""
        blocks: list[Any] = []

        def fill(region: Any) -> None:
            blocks.append(region.blocks.append(*arguments, arg_locs=[self.k.location] * len(arguments)))

        types = [x.type for x in self._parts()]
        return self.k.emit_all(name, operands, types, None, [fill] * count), blocks

    @contextmanager
    def _within(self, block: Any, values: Sequence[Any]) -> Iterator[None]:
        """Fills a block, in which the variables begin with these values, and which gives their last values."""
        outer, before, count = self.k, self._parts(), len(self._variables)
        self.k = Kernel(ir.InsertionPoint(block), self.k.location)
        self._set(values)
        yield
        del self._variables[count:]
        self.k.emit_all("scf.yield", self._parts(), ())
        self.k = outer
        self._set(before)

    def _parts(self) -> list[Any]:
        return [part for variable in self._variables for part in variable.parts]

    def _set(self, values: Sequence[Any]) -> None:
        left = iter(list(values))
        for variable in self._variables:
            variable.parts = tuple(next(left) for _ in variable.parts)

    def array(self, value: Any) -> "Array":
        """An array that the program changes."""
        array = Array(value)
        self._variables.append(array)
        return array

    def variable(self, first: Number | float) -> "Variable[Number]":
        """A variable number, which exists until the end of the loop or branch that makes it."""
        variable = Variable(self.number(first))
        self._variables.append(variable)
        return variable

    def counter(self, first: Int | int) -> "Variable[Int]":
        """A variable index, which exists until the end of the loop or branch that makes it."""
        variable = Variable(self.index(first))
        self._variables.append(variable)
        return variable

    def groups(self, start: Int | int, stop: Int, count: int) -> Iterator[list[Int]]:
        """The indices from `start` to below `stop`, `count` at a time, then one by one.

        This is for a `for` of Python, whose body is emitted for both loops.
        """
        last = stop - (stop - start) % count
        with self.each(start, last, count) as i:
            yield [i + more for more in range(count)]
        with self.each(last, stop) as i:
            yield [i]


class Array:
    """An array of one dimension."""

    def __init__(self, value: Any) -> None:
        self.parts = (value,)

    @property
    def value(self) -> Any:
        """The array now."""
        return self.parts[0]


Scalar = TypeVar("Scalar", Int, Number)


class Variable(Generic[Scalar]):
    """A number or an index that a program changes; a Python number may be its new value."""

    def __init__(self, first: Scalar) -> None:
        self.value: Scalar = first

    @property
    def parts(self) -> tuple[Any, ...]:
        """The value, or the parts of a complex number."""
        return self.value.parts

    @parts.setter
    def parts(self, parts: tuple[Any, ...]) -> None:
        self.value = replace(self.value, parts=parts)

    def set(self, x: Scalar | float) -> None:
        """Changes the value."""
        self.value = self.value.like(x)

    def set_if(self, condition: Any, x: Scalar | float) -> None:
        """Changes the value if a condition holds."""
        self.value = self.value.replaced_if(condition, x)

    def add(self: "Variable[Number]", term: Number) -> None:
        """Adds a term of a sum, whose terms may be added in any order."""
        self.value = self.value.plus_term(term)


@dataclass(frozen=True)
class Matrix:
    """A view of a matrix in arrays; `x[i, j]` reads and writes an entry, and `x[j]` is `x[0, j]`.

    Real and imaginary parts are in one array each.
    """

    p: Program
    arrays: Sequence[Array]  # for each part
    start: Int | int  # the offset of the first entry
    rows: int
    columns: int
    width: int  # the distance of two rows, as stored
    transposed: bool = False
    conjugated: bool = False
    reversed: tuple[bool, bool] = (False, False)  # whether rows and columns count from the last one on

    @property
    def transpose(self) -> "Matrix":
        """The transpose, in the same place."""
        rows, columns = self.reversed
        return replace(
            self,
            rows=self.columns,
            columns=self.rows,
            transposed=not self.transposed,
            reversed=(columns, rows),
        )

    @property
    def adjoint(self) -> "Matrix":
        """The conjugate transpose, in the same place."""
        return replace(self.transpose, conjugated=not self.conjugated)

    @property
    def zero(self) -> Number:
        """0 with the parts of an entry."""
        return Number(self.p, self.p.number(0.0).padded(len(self.arrays)))

    def __getitem__(self, place: Any) -> Number:
        k, at = self.p.k, self._at(place)
        x = Number(self.p, tuple(k.element(array.value, at) for array in self.arrays))
        return x.conj if self.conjugated else x

    def __setitem__(self, place: Any, x: Number | float) -> None:
        x = self.p.number(x)
        parts = (x.conj if self.conjugated else x).padded(len(self.arrays))
        at = self._at(place)
        for array, part in zip(self.arrays, parts, strict=True):
            array.parts = (self.p.k.put(part, array.value, at),)

    def set_integer(self, place: Any, i: Int) -> None:
        """Writes an index to a matrix of i32."""
        k, (array,) = self.p.k, self.arrays
        array.parts = (k.put(k.cast(i.v, signless(32)), array.value, self._at(place)),)

    def _at(self, place: Any) -> Any:
        """The offset of an entry, as a value of type index."""
        i, j = place if isinstance(place, tuple) else (0, place)
        i = self.rows - 1 - i if self.reversed[0] else i
        j = self.columns - 1 - j if self.reversed[1] else j
        row, column = (j, i) if self.transposed else (i, j)
        return (self.p.index(row) * self.width + column + self.start).v

    def subtract(
        self, i: Int | int, terms: Sequence[tuple[Number, "Matrix", Int | int]], start: Any, end: Any
    ) -> None:
        """Subtracts rows of matrices times factors from row i, in the columns from `start` to below `end`."""
        with self.p.each(start, end) as c:
            x = self[i, c]
            for factor, other, j in terms:
                x = x - factor * other[j, c]
            self[i, c] = x

    def swap_rows(self, i: Int, j: Int) -> None:
        """Exchanges two rows."""
        with self.p.each(0, self.columns) as c:
            self[i, c], self[j, c] = self[j, c], self[i, c]

    def scale_row(self, i: Int, factor: Number) -> None:
        """Multiplies a row by a number."""
        with self.p.each(0, self.columns) as j:
            self[i, j] = factor * self[i, j]

    def set_identity(self) -> None:
        """Writes ones to the diagonal, and zeros elsewhere."""
        with self.p.each(0, self.rows) as i:
            with self.p.each(0, self.columns) as j:
                self[i, j] = 0.0
            self[i, i] = 1.0

    def copy(self, other: "Matrix") -> None:
        """Copies the entries of another matrix that are within both; of a transposed one, a strip at a time."""
        rows, columns = min(self.rows, other.rows), min(self.columns, other.columns)
        if not other.transposed:
            with self.p.each(0, rows) as i, self.p.each(0, columns) as j:
                self[i, j] = other[i, j]
            return
        with self.p.each(0, rows, STRIP) as first, self.p.each(0, columns) as j:
            with self.p.each(first, (first + STRIP).min(rows)) as i:
                self[i, j] = other[i, j]
