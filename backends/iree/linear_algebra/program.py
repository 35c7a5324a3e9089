"""Programs: algorithms on mutable matrices, with loops and branches, which run.py compiles to one dispatch.

    @program
    def scaled(p: MatrixProgram, x: Matrix) -> list[Matrix]:
        y = p.result(x.rows, x.columns)
        with p.each(0, x.rows) as i:
            total = p.sum(0, x.columns, lambda j: x[i, j])
            with p.each(0, x.columns) as j:
                y[i, j] = x[i, j] / total
        return [y]

    (y,) = scaled(b, x)      b: an Emitter; x, y: batches of real matrices

A program processes one matrix of static size. Python runs the body of a `with` once, and so emits the body's ops to a
region. A Python float is a number, and a Python int is an index: write `y[i, j] = 0.0`, not `0`. All arrays and
variables are loop-carried values of each loop, and results of each branch; IREE's canonicalizer removes those that a
loop does not change.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from torch_mlir import ir

from tiduc.backends.iree.emit.emitter import signless
from tiduc.backends.iree.emit.kernels import Kernel
from tiduc.backends.iree.linear_algebra.scalars import Int, Number, Scalar, ScalarScope
from tiduc.dialect.ops.ir_types import IrValue
from tiduc.dialect.shapes.types import with_shape

STRIP = 8
"""A transposed matrix is copied in strips of this many rows, so that all cache lines of a strip stay in the cache."""

_CACHED = 16  # the number of f32 values in a cache line

Kind = Literal["real", "complex", "integer"]
"""The kinds of entries: real and complex numbers of the program's precision, and i32."""

Target = TypeVar("Target", int, Scalar)

Place = Int | int | tuple[Int | int, Int | int]
"""The indices of an entry: row and column, or only the column, which means an entry of the first row."""


class MatrixProgram(ScalarScope):
    """Emits a program as the body of a loop over a batch. Each iteration processes one matrix of every batch.

    The arguments of `block`, the body, are the index of the matrix in its batch, and the arrays that the program
    writes.
    """

    def __init__(
        self, block: ir.Block, location: ir.Location, real: ir.FloatType, kind: Kind, batch: int
    ) -> None:
        super().__init__(Kernel(ir.InsertionPoint(block), location), real)
        self.block = block
        self.kind = kind
        self.batch = batch
        self.arrays: list[Variable] = []
        self._variables: list[Variable] = []

    # ---- matrices -----------------------------------------------------------------------------------------------

    def given(self, arrays: Sequence[IrValue], rows: int, columns: int) -> "Matrix":
        """The current matrix of an input batch.

        `arrays` are the real part of the batch and, if the batch is complex, the imaginary part.
        """
        return self._in_batch([Variable(self, (x,)) for x in arrays], rows, columns)

    def result(self, rows: int, columns: int, kind: Kind | None = None) -> "Matrix":
        """Allocates a batch for a result. Returns its current matrix. The default `kind` is that of the first input."""
        return self._in_batch(self._allocated(self.batch * rows * columns, kind), rows, columns)

    def work(self, rows: int, columns: int, kind: Kind | None = None, padded: bool = False) -> "Matrix":
        """An uninitialized matrix for intermediate values.

        With `padded`, the row stride is an odd number of cache lines, so that the entries of a column are spread over
        all cache sets.
        """
        width = -(-columns // _CACHED) // 2 * 2 * _CACHED + _CACHED if padded else columns
        return Matrix(self, self._allocated(rows * width, kind), 0, rows, columns, (width, 1))

    def _in_batch(self, arrays: Sequence["Variable"], rows: int, columns: int) -> "Matrix":
        number = Scalar(self, (self.block.arguments[0],))
        return Matrix(self, arrays, number * (rows * columns), rows, columns, (columns, 1))

    def _allocated(self, size: int, kind: Kind | None) -> list["Variable"]:
        """Adds arrays of at least `size` entries to the arguments of the block, and returns them.

        A complex matrix has two arrays: the real and the imaginary parts. Each matrix has its own arrays, because
        IREE's bufferization takes time exponential in the number of successive loops that change one array. All arrays
        differ in type, because IREE would merge uninitialized arrays of one type, and then copy them to the stack,
        where large arrays do not fit. Arrays may therefore be longer than `size`. No array has a single element,
        because IREE would collapse it and then lose the order of some reads and writes.
        """
        assert self.k.place.block == self.block, "matrices are allocated outside of all loops and branches"
        types: dict[Kind, list[ir.Type]] = {
            "real": [self.real],
            "complex": [self.real] * 2,
            "integer": [signless(32)],
        }
        taken = {line.array.type for line in self.arrays}
        first = len(self.arrays)
        for type_ in types[kind or self.kind]:
            line = ir.RankedTensorType.get([max(size, 2)], type_)
            while line in taken:
                line = with_shape(line, [line.shape[0] + 1])
            taken.add(line)
            self.arrays.append(Variable(self, (self.block.add_argument(line, self.k.location),)))
        self._variables += self.arrays[first:]
        return self.arrays[first:]

    # ---- variables ----------------------------------------------------------------------------------------------

    def variable(self, first: Int | Number | float) -> "Variable":
        """A new variable for an index or a number, with the initial value `first`.

        The variable exists until the enclosing loop or branch ends.
        """
        variable = Variable(self, self.scalar(first).parts)
        self._variables.append(variable)
        return variable

    # ---- loops and branches -------------------------------------------------------------------------------------

    @contextmanager
    def each(self, start: Int | int, end: Int | int, step: int = 1) -> Iterator[Int]:
        """Emits a loop over the indices from `start` to below `end`. The context is the body of the loop."""
        bounds, initial = [self.scalar(x).v for x in (start, end, step)], self._parts()
        arguments = [ir.IndexType.get(), *[x.type for x in initial]]
        results, (block,) = self._with_regions("scf.for", [*bounds, *initial], arguments, 1)
        with self._filling(block, block.arguments[1:]):
            yield Scalar(self, (block.arguments[0],))
        self._set(results)

    @contextmanager
    def each_reversed(self, end: Int | int) -> Iterator[Int]:
        """Emits a loop over the indices below `end`, in descending order. The context is the body of the loop."""
        with self.each(0, end) as i:
            yield end - 1 - i

    @contextmanager
    def when(self, condition: IrValue) -> Iterator[None]:
        """Emits a branch that runs if the condition holds. The context is the body of the branch."""
        results, (then, otherwise) = self._with_regions("scf.if", [condition], [], 2)
        with self._filling(otherwise, self._parts()):
            pass
        with self._filling(then, self._parts()):
            yield
        self._set(results)

    def groups(self, start: Int | int, stop: Int | int, count: int) -> Iterator[list[Int]]:
        """Emits two loops over the indices from `start` to below `stop`: first `count` at a time, then one by one.

        Use it in a Python `for`, whose body is emitted for both loops.
        """
        last = stop - (stop - start) % count
        with self.each(start, last, count) as i:
            yield [i + more for more in range(count)]
        with self.each(last, stop) as i:
            yield [i]

    def _with_regions(
        self, name: str, operands: Sequence[IrValue], arguments: Sequence[ir.Type], count: int
    ) -> tuple[tuple[IrValue, ...], list[ir.Block]]:
        """Emits a loop or a branch whose results are the new values of all variables.

        Returns the results, and the blocks of the op's regions, which are empty.
        """
        blocks: list[ir.Block] = []

        def fill(region: ir.Region) -> None:
            blocks.append(region.blocks.append(*arguments, arg_locs=[self.k.location] * len(arguments)))

        types = [x.type for x in self._parts()]
        return self.k.emit_all(name, operands, types, None, [fill] * count), blocks

    @contextmanager
    def _filling(self, block: ir.Block, values: Sequence[IrValue]) -> Iterator[None]:
        """A context in which ops are emitted to `block`. At its end, the block yields the variables' values.

        Variables have the values `values` at the block's start, and their former values after the context.
        """
        outer, before, count = self.k, self._parts(), len(self._variables)
        self.k = Kernel(ir.InsertionPoint(block), self.k.location)
        self._set(values)
        yield
        del self._variables[count:]
        self.k.emit_all("scf.yield", self._parts(), ())
        self.k = outer
        self._set(before)

    def _parts(self) -> list[IrValue]:
        """The current values of all arrays and variables. A complex variable has two values: both its parts."""
        return [part for variable in self._variables for part in variable.parts]

    def _set(self, values: Sequence[IrValue]) -> None:
        left = iter(list(values))
        for variable in self._variables:
            variable.parts = tuple(next(left) for _ in variable.parts)

    # ---- reductions: loops from `start` to below `end` -----------------------------------------------------------

    def sum(
        self, start: Int | int, end: Int | int, term: Callable[[Int], Number], first: Number | float = 0.0
    ) -> Number:
        """`first` plus the sum of `term(i)`, added in any order. `first` must be complex if the terms are complex."""
        total = self.variable(first)
        with self.each(start, end) as i:
            total.add(term(i))
        return total.value

    def largest(self, start: Int | int, end: Int | int, entry: Callable[[Int], Number]) -> Number:
        """The largest absolute value of a real or imaginary part among `entry(i)`.

        Returns 0 if `start` is not below `end`, and NaN if a part is NaN.
        """
        top = self.variable(0.0)
        with self.each(start, end) as i:
            top.set(top.value.max(entry(i).largest_part))
        return top.value

    def place_of_largest(self, start: Int | int, end: Int | int, size: Callable[[Int], Number]) -> Int:
        """The first index i at which the real number `size(i)` is largest.

        Returns `start` if `size(start)` is NaN. Skips other NaNs.
        """
        at, most = self.variable(start), self.variable(size(self.scalar(start)))
        with self.each(start + 1, end) as i:
            own = size(i)
            larger = own > most.value
            at.set_if(larger, i)
            most.set_if(larger, own)
        return at.value

    def number_of_first(self, end: int, condition: Callable[[Int], IrValue]) -> Int:
        """One plus the first index below `end` for which `condition` holds, or 0 if there is no such index."""
        number = self.variable(0)
        with self.each(0, end) as i:
            number.set_if(self.logical_and(condition(i), number.value.equals(0)), i + 1)
        return number.value


class Variable:
    """An index, a number or an array that a program changes. `parts` is its value, or two if the number is complex."""

    def __init__(self, p: ScalarScope, parts: tuple[IrValue, ...]) -> None:
        self.p = p
        self.parts = parts

    @property
    def value(self) -> Scalar:
        """The current index or number."""
        return Scalar(self.p, self.parts)

    @property
    def array(self) -> IrValue:
        """The current array."""
        return self.parts[0]

    def set(self, x: Scalar | float) -> None:
        """Sets the value."""
        self.parts = self.p.scalar(x).padded(len(self.parts))

    def set_if(self, condition: IrValue, x: Scalar | float) -> None:
        """Sets the value if a condition holds."""
        self.set(self.p.select(condition, x, self.value))

    def add(self, term: Number) -> None:
        """Adds a term of a sum. The compiler may reorder these additions."""
        self.set(self.value.plus_term(term))


@dataclass(frozen=True)
class Matrix:
    """A strided view of arrays as a matrix. `x[i, j]` reads and writes an entry, and `x[j]` is `x[0, j]`.

    `arrays` has the array of real parts and, for complex entries, the array of imaginary parts. `start` is the offset
    of the first entry. `steps` has the stride between rows and the stride between columns. With `conjugated`, reads and
    writes conjugate the entries.
    """

    p: MatrixProgram
    arrays: Sequence[Variable]
    start: Int | int
    rows: int
    columns: int
    steps: tuple[int, int]
    conjugated: bool = False

    @property
    def transpose(self) -> "Matrix":
        """The transpose, as a view of the same arrays."""
        return replace(self, rows=self.columns, columns=self.rows, steps=self.steps[::-1])

    @property
    def adjoint(self) -> "Matrix":
        """The conjugate transpose, as a view of the same arrays."""
        return replace(self.transpose, conjugated=not self.conjugated)

    def flipped(self, *axes: int) -> "Matrix":
        """The matrix with rows (axis 0), columns (axis 1), or both reversed, as a view of the same arrays."""
        start, steps = self.start, list(self.steps)
        for axis in axes:
            start = ((self.rows, self.columns)[axis] - 1) * steps[axis] + start
            steps[axis] = -steps[axis]
        return replace(self, start=start, steps=(steps[0], steps[1]))

    @property
    def zero(self) -> Number:
        """The number zero. It is complex if the entries are complex."""
        return Scalar(self.p, self.p.scalar(0.0).padded(len(self.arrays)))

    def __getitem__(self, place: Place) -> Scalar:
        """Reads an entry. A matrix of kind "integer" has entries that are indices; other entries are numbers."""
        k, at = self.p.k, self._at(place)
        parts = [k.element(line.array, at) for line in self.arrays]
        if isinstance(parts[0].type, ir.IntegerType):
            return Scalar(self.p, (k.cast(parts[0], ir.IndexType.get()),))
        x = Scalar(self.p, tuple(parts))
        return x.conj if self.conjugated else x

    def __setitem__(self, place: Place, x: Scalar | float) -> None:
        """Writes an entry. A matrix of kind "integer" has entries that are indices; other entries are numbers."""
        k, at, x = self.p.k, self._at(place), self.p.scalar(x)
        if isinstance(x.v.type, ir.IndexType):
            x = Scalar(self.p, (k.cast(x.v, signless(32)),))
        parts = (x.conj if self.conjugated else x).padded(len(self.arrays))
        for line, part in zip(self.arrays, parts, strict=True):
            line.parts = (k.put(part, line.array, at),)

    def _at(self, place: Place) -> IrValue:
        """The offset of an entry, as a value of type index."""
        i, j = place if isinstance(place, tuple) else (0, place)
        down, along = self.steps
        return self.p.scalar(i * down + j * along + self.start).v

    def subtract(
        self,
        targets: Sequence[Target],
        factor: Callable[[Target, Int], Number],
        other: "Matrix",
        rows: tuple[Int | int, Int | int],
        columns: tuple[Int | int, Int | int],
    ) -> None:
        """Subtracts factor(i, j) * (row j of `other`) from row i, for all i of `targets` and j in the range `rows`.

        Only columns in the range `columns` change. Four rows j are subtracted at a time, so that each target row is
        read and written once for four rows.
        """
        for group in self.p.groups(*rows, 4):
            factors = [[factor(i, j) for i in targets] for j in group]
            with self.p.each(*columns) as c:
                values = [self[i, c] for i in targets]
                for j, of_row in zip(group, factors, strict=True):
                    y = other[j, c]
                    values = [x - own * y for x, own in zip(values, of_row, strict=True)]
                for i, x in zip(targets, values, strict=True):
                    self[i, c] = x

    def subtract_row(
        self,
        i: Int | int,
        factor: Number,
        other: "Matrix",
        j: Int | int,
        columns: tuple[int | Scalar, int | Scalar],
    ) -> None:
        """Subtracts `factor` times row j of `other` from row i, in the range `columns`."""
        with self.p.each(*columns) as c:
            self[i, c] = self[i, c] - factor * other[j, c]

    def swap_rows(self, i: Int, j: Int) -> None:
        """Exchanges two rows."""
        with self.p.each(0, self.columns) as c:
            self[i, c], self[j, c] = self[j, c], self[i, c]

    def set_identity(self) -> None:
        """Writes ones to the diagonal, and zeros elsewhere."""
        with self.p.each(0, self.rows) as i:
            with self.p.each(0, self.columns) as j:
                self[i, j] = 0.0
            self[i, i] = 1.0

    def copy(self, other: "Matrix") -> None:
        """Copies the entries of `other` in the rows and columns that both matrices have.

        A transposed matrix is copied in strips (`STRIP`).
        """
        rows, columns = min(self.rows, other.rows), min(self.columns, other.columns)
        if other.steps[1] == 1:
            with self.p.each(0, rows) as i, self.p.each(0, columns) as j:
                self[i, j] = other[i, j]
            return
        with self.p.each(0, rows, STRIP) as first, self.p.each(0, columns) as j:
            with self.p.each(first, (first + STRIP).min(rows)) as i:
                self[i, j] = other[i, j]
