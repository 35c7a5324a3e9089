"""Programs: arrays that change, loops and branches, from which run.py makes a kernel.

    def body(p: Program, x: Matrix, y: Matrix) -> None:
        with p.each(0, x.rows) as i:
            y[i, 0] = x[i, i] * 2.0

The body of a `with` is emitted once. Loops and branches carry all arrays and variables; IREE's canonicalizer
removes those that a loop does not change.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.emitter import signless
from tiduc.backends.iree.fast.kernels import Kernel
from tiduc.backends.iree.linear_algebra.scalars import Int, Number, Scope

STRIP = 8
"""The columns that are read while as many rows are written, so that both stay in the cache."""


class Variable:
    """An array, or a number of one or two parts, that a program changes."""

    def __init__(self, parts: tuple[Any, ...]) -> None:
        self.parts = parts


class Program(Scope):
    """Emits the body of a kernel."""

    def __init__(self, k: Kernel, real: Any, fused: bool) -> None:
        super().__init__(k, real, fused)
        self._variables: list[Variable] = []

    # ---- control ------------------------------------------------------------------------------------------------

    @contextmanager
    def each(self, start: Any, end: Any, step: int = 1) -> Iterator["Int"]:
        """A loop from `start` to below `end`."""
        bounds = [self.index(x) for x in (start, end, step)]
        carried, outer = list(self._variables), self.k
        op, (block,) = self._regions("scf.for", bounds, carried, 1)
        with self._within(block):
            self._set(carried, block.arguments[1:])
            yield Int(self, block.arguments[0])
            self.k.emit_all("scf.yield", self._parts(carried), ())
        self.k, self._variables = outer, carried
        self._set(carried, op.results)

    @contextmanager
    def when(self, condition: Any) -> Iterator[None]:
        """A branch that runs if the condition holds."""
        carried, outer = list(self._variables), self.k
        before = self._parts(carried)
        op, (then, otherwise) = self._regions("scf.if", [condition], carried, 2)
        with self._within(otherwise):
            self.k.emit_all("scf.yield", before, ())
        with self._within(then):
            yield
            self.k.emit_all("scf.yield", self._parts(carried), ())
        self.k, self._variables = outer, carried
        self._set(carried, op.results)

    def _regions(self, name: str, operands: Sequence[Any], carried: Any, count: int) -> tuple[Any, list[Any]]:
        """An op that gives the carried variables; its blocks take an index and them if it is a loop."""
        initial = self._parts(carried)
        types, loop = [x.type for x in initial], name == "scf.for"
        made = {"loc": self.k.location, "ip": self.k.place}
        op = ir.Operation.create(
            name, types, [*operands, *(initial if loop else [])], None, regions=count, **made
        )
        arguments = [ir.IndexType.get(), *types] if loop else []
        places = [self.k.location] * len(arguments)
        return op, [region.blocks.append(*arguments, arg_locs=places) for region in op.regions]

    @contextmanager
    def _within(self, block: Any) -> Iterator[None]:
        self.k = Kernel(ir.InsertionPoint(block), self.k.location)
        yield

    def _parts(self, variables: Sequence[Variable]) -> list[Any]:
        return [part for variable in variables for part in variable.parts]

    def _set(self, variables: Sequence[Variable], values: Any) -> None:
        left = iter(list(values))
        for variable in variables:
            variable.parts = tuple(next(left) for _ in variable.parts)

    # ---- variables ------------------------------------------------------------------------------------------------

    def variable(self, *parts: Any) -> Variable:
        """A variable that exists until the loop or branch ends in which it is made."""
        self._variables.append(Variable(parts))
        return self._variables[-1]

    def several(self, start: Any, stop: Any, count: int) -> Iterator[list["Int"]]:
        """The indices from `start` to below `stop`, `count` at a time, then one by one.

        This is for a `for` of Python, whose body is emitted for both loops.
        """
        last = stop - (stop - start) % count
        with self.each(start, last, count) as i:
            yield [i + more for more in range(count)]
        with self.each(last, stop) as i:
            yield [i]

    def number(self, x: Any) -> "Cell":
        """A variable number with its first value, which may be a Python number."""
        x = self.constant(x) if isinstance(x, int | float) else x
        return Cell(self, self.variable(*x.parts))

    def place(self, i: Any) -> "Place":
        """A variable index with its first value."""
        return Place(self, self.variable(self.index(i)))


@dataclass(frozen=True)
class Cell:
    """A variable number."""

    p: Program
    of: Variable

    @property
    def value(self) -> Number:
        """The number now."""
        return Number(self.p, self.of.parts)

    def set(self, x: Any) -> None:
        """Changes the number."""
        self.of.parts = (self.p.constant(x) if isinstance(x, float) else x).parts

    def set_if(self, condition: Any, x: Number) -> None:
        """Changes the number if a condition holds."""
        self.set(self.p.either(condition, x, self.value))

    def add(self, x: Number) -> None:
        """Adds a term of a sum, in any order."""
        self.set(self.value.plus(x))


@dataclass(frozen=True)
class Place:
    """A variable index."""

    p: Program
    of: Variable

    @property
    def value(self) -> Int:
        """The index now."""
        return Int(self.p, self.of.parts[0])

    def set(self, i: Any) -> None:
        """Changes the index."""
        self.of.parts = (self.p.index(i),)

    def set_if(self, condition: Any, i: Any) -> None:
        """Changes the index if a condition holds."""
        self.of.parts = (self.p.k.either(condition, self.p.index(i), *self.of.parts),)


@dataclass(frozen=True)
class Matrix:
    """A matrix in an array that the program writes, or in arrays that it only reads; `x[i]` is `x[0, i]`.

    A `turned` matrix is read and written as its transpose. `back` counts rows and columns from the last one on.
    """

    p: Program
    array: Any  # a `Variable`, or a tuple of arrays
    rows: int
    columns: int
    width: int  # the distance of two rows, as stored
    start: Any  # the offset of the first element
    apart: int  # the distance from the real to the imaginary parts; 0 for real numbers
    turned: bool = False
    back: tuple[bool, bool] = (False, False)

    @property
    def transpose(self) -> "Matrix":
        """The transpose, in the same place."""
        back = self.back[1], self.back[0]
        return replace(self, rows=self.columns, columns=self.rows, turned=not self.turned, back=back)

    @property
    def zero(self) -> Number:
        """0 in the type of the elements."""
        return self.p.constant(*[0.0] * (2 if self.apart else 1))

    @property
    def one(self) -> Number:
        """1 in the type of the elements."""
        return self.p.constant(*[1.0, 0.0][: 2 if self.apart else 1])

    def __getitem__(self, place: Any) -> Number:
        k, at = self.p.k, self._at(place)
        arrays = self.array.parts if isinstance(self.array, Variable) else self.array
        if len(arrays) == 2:
            return Number(self.p, tuple(k.element(x, at.v) for x in arrays))
        return Number(self.p, tuple(k.element(arrays[0], i.v) for i in self._both(at)))

    def __setitem__(self, place: Any, x: Number) -> None:
        for part, i in zip(x.parts, self._both(self._at(place)), strict=True):
            self.array.parts = (self.p.k.put(part, self.array.parts[0], i.v),)

    def set_integer(self, place: Any, i: Int) -> None:
        """Writes an index to a matrix of i32."""
        k, at = self.p.k, self._at(place)
        self.array.parts = (k.put(k.cast(i.v, signless(32)), self.array.parts[0], at.v),)

    def less_row(self, i: Any, factor: Number, other: "Matrix", j: Any, start: Any, end: Any) -> None:
        """Subtracts a multiple of row j of another matrix from row i, from column `start` to below `end`."""
        with self.p.each(start, end) as c:
            self[i, c] = self[i, c].less(factor, other[j, c])

    def less_rows(self, i: Any, factors: Sequence[Number], rows: Sequence[Any], start: Any, end: Any) -> None:
        """Subtracts multiples of other rows from row i, in the columns from `start` to below `end`."""
        with self.p.each(start, end) as c:
            x = self[i, c]
            for factor, j in zip(factors, rows, strict=True):
                x = x.less(factor, self[j, c])
            self[i, c] = x

    def swap_rows(self, i: Any, j: Any, columns: int) -> None:
        """Exchanges the first elements of two rows."""
        with self.p.each(0, columns) as c:
            self[i, c], self[j, c] = self[j, c], self[i, c]

    def scale_row(self, i: Any, columns: int, factor: Number) -> None:
        """Multiplies the first elements of a row by a number."""
        with self.p.each(0, columns) as j:
            self[i, j] = factor * self[i, j]

    def unit(self) -> None:
        """Makes this the unit matrix."""
        with self.p.each(0, self.rows) as i:
            with self.p.each(0, self.columns) as j:
                self[i, j] = self.zero
            self[i, i] = self.one

    def copy(self, other: "Matrix", adjoint: bool = False) -> None:
        """Copies the elements of another matrix, or of its adjoint, that are within both."""
        rows, columns = (other.columns, other.rows) if adjoint else (other.rows, other.columns)
        rows, columns = min(rows, self.rows), min(columns, self.columns)
        if not adjoint:
            with self.p.each(0, rows) as i, self.p.each(0, columns) as j:
                self[i, j] = other[i, j]
            return
        with self.p.each(0, rows, STRIP) as first, self.p.each(0, columns) as j:
            with self.p.each(first, (first + STRIP).min(rows)) as i:
                self[i, j] = other[j, i].conj

    def _at(self, place: Any) -> Int:
        i, j = place if isinstance(place, tuple) else (0, place)
        i = self.rows - 1 - i if self.back[0] else i
        j = self.columns - 1 - j if self.back[1] else j
        if self.turned:
            i, j = j, i
        row = Int(self.p, self.p.index(i)) * self.width
        at: Int = row + j + self.start
        return at

    def _both(self, at: Int) -> list[Int]:
        return [at, at + self.apart] if self.apart else [at]
