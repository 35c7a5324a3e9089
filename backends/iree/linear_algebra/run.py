"""Runs programs over batches of matrices, each as one dispatch (backends/iree/fast/kernels.py).

    (y,) = run(b, [x], [type_of_y], [], body)

Loops of StableHLO take several dispatches an iteration; those of a program visit only the elements that a step
changes. One thread runs a program, one matrix of a batch after the other.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.emitter import Emitter
from tiduc.backends.iree.fast.kernels import Kernel, dispatch
from tiduc.backends.iree.linear_algebra.matrices import real_type
from tiduc.backends.iree.linear_algebra.program import Matrix, Program
from tiduc.backends.iree.linear_algebra.scalars import Int
from tiduc.dialect.types import is_complex, shape, with_shape

_CACHED = 16  # f32 numbers in a cache line


def padded(columns: int) -> int:
    """The width of rows that are an odd number of cache lines apart, so that no column is in a few cache sets."""
    return -(-columns // _CACHED) // 2 * 2 * _CACHED + _CACHED


@dataclass(frozen=True)
class Work:
    """A matrix that a program uses for itself; `padded` says how its rows are apart."""

    rows: int
    columns: int
    complex: bool = False
    padded: bool = False

    @property
    def width(self) -> int:
        """The distance of two rows."""
        return padded(self.columns) if self.padded else self.columns

    @property
    def size(self) -> int:
        """The number of real numbers that the matrix takes."""
        return self.rows * self.width * (2 if self.complex else 1)


@dataclass(frozen=True)
class Lines:
    """A batch of matrices as flat arrays: real and imaginary parts apart, or one after the other in one array."""

    arrays: tuple[Any, ...]
    type: Any

    def tensor(self, b: Emitter) -> Any:
        """The batch as one value of StableHLO."""
        size = math.prod(self.type.shape)
        if not is_complex(self):
            return b.reshape(self._part(b, 0, size), self.type.shape)
        return b.complex(*(b.reshape(self._part(b, at, size), self.type.shape) for at in (0, size)))

    def _part(self, b: Emitter, at: int, size: int) -> Any:
        (line,) = self.arrays
        return line if shape(line) == [size] else b.slice(line, [at], [at + size], [1])


def lines(b: Emitter, x: Any) -> Lines:
    """The lines of a batch of matrices, behind a barrier that keeps the producer of x out of the kernel."""
    parts = [b.real(x), b.imag(x)] if is_complex(x) else [x]
    return Lines(b.barrier(*(b.reshape(part, [math.prod(shape(x))]) for part in parts)), x.type)


def run(
    b: Emitter, given: Sequence[Any], types: Sequence[Any], work: Sequence[Work], body: Callable[..., None]
) -> list[Lines]:
    """The batches of matrices, of the given types, that `body` computes in one dispatch.

    `body(program, *matrices)` is called once, for one matrix of the batch: it reads the matrices of `given`, which are
    values or lines, and writes those of `types` and of `work`, in this order. All are uninitialized, and those of
    `work` are of the real type of the first given value or of its complex type.
    """
    sources = [x if isinstance(x, Lines) else lines(b, x) for x in given]
    real = real_type(sources[0])
    results = [_line(type_) for type_ in types]
    if work:
        results.append(ir.RankedTensorType.get([sum(space.size for space in work)], real))
    results = _distinct(results)

    def fill(k: Kernel) -> Sequence[Any]:
        p = Program(k, real, b.fused)
        cells = [p.variable(k.empty(type_)) for type_ in results]
        with p.each(0, types[0].shape[0]) as n:
            matrices = [_matrix(p, source.arrays, source.type, n) for source in sources]
            matrices += [_matrix(p, cell, type_, n) for cell, type_ in zip(cells, types, strict=False)]
            at = 0
            for space in work:
                apart = space.size // 2 if space.complex else 0
                matrices.append(Matrix(p, cells[-1], space.rows, space.columns, space.width, at, apart))
                at += space.size
            body(p, *matrices)
        return [cell.parts[0] for cell in cells]

    # Behind a barrier, results without uses stay: IREE's compilers for GPUs crash where one is missing.
    made = b.barrier(*dispatch(b, results, fill))
    return [Lines((line,), type_) for line, type_ in zip(made, types, strict=False)]


def tensors(b: Emitter, *made: Any) -> list[Any]:
    """The values of StableHLO that lines stand for."""
    return [x.tensor(b) for x in made]


def _line(type_: Any) -> Any:
    of, count = type_.element_type, math.prod(type_.shape)
    if isinstance(of, ir.ComplexType):
        return ir.RankedTensorType.get([2 * count], of.element_type)
    return ir.RankedTensorType.get([count], of)


def _distinct(types: Sequence[Any]) -> list[Any]:
    """Types of lines, some with more elements, so that all differ and none has a single element.

    IREE merges uninitialized arrays of one type; the copies that it then needs are on the stack, where large ones do
    not fit. It collapses arrays of one element, and then loses the order of some reads and writes.
    """
    found: list[Any] = []
    for type_ in types:
        while type_ in found or type_.shape[0] < 2:
            type_ = with_shape(type_, [type_.shape[0] + 1])
        found.append(type_)
    return found


def _matrix(p: Program, array: Any, type_: Any, n: Int) -> Matrix:
    count, *rows, columns = type_.shape  # a row, if there is no number of rows
    rows = math.prod(rows)
    apart = count * rows * columns if isinstance(type_.element_type, ir.ComplexType) else 0
    return Matrix(p, array, rows, columns, columns, n * (rows * columns), apart)
