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
from tiduc.backends.iree.linear_algebra.program import Array, Matrix, Program
from tiduc.backends.iree.linear_algebra.scalars import Int
from tiduc.dialect.types import is_complex, with_shape

_CACHED = 16  # f32 numbers in a cache line


@dataclass(frozen=True)
class Work:
    """A matrix that a program uses for itself.

    Rows of a `padded` matrix are an odd number of cache lines apart, so that no column is in a few cache sets.
    """

    rows: int
    columns: int
    complex: bool = False
    padded: bool = False

    @property
    def width(self) -> int:
        """The distance of two rows."""
        return -(-self.columns // _CACHED) // 2 * 2 * _CACHED + _CACHED if self.padded else self.columns

    def type(self, real: Any) -> Any:
        """The matrix with its padding as a type."""
        return ir.RankedTensorType.get(
            [self.rows, self.width], ir.ComplexType.get(real) if self.complex else real
        )


def run(
    b: Emitter, given: Sequence[Any], types: Sequence[Any], work: Sequence[Work], body: Callable[..., None]
) -> list[Any]:
    """The batches of matrices, of the given types, that `body` computes in one dispatch.

    `body(program, *matrices)` is called once, for one matrix of the batch: it reads the matrices of `given`, and writes
    those of `types` and of `work`, in this order. A type of two dimensions has one row for each matrix of the batch.
    Matrices that are written are uninitialized; those of `work` are of the real type of the first value, or complex.

    Each matrix has arrays of its own, since IREE's bufferization takes time exponential in the number of loops that
    change one array after one another.
    """
    read = [_parts(b, x) for x in given]
    real = read[0][0].type.element_type
    spaces = [space.type(real) for space in work]
    lines = _distinct([line for type_ in (*types, *spaces) for line in _lines(type_)])

    def fill(k: Kernel) -> Sequence[Any]:
        p = Program(k, real)
        arrays = [p.array(k.empty(line)) for line in lines]
        left = iter(arrays)

        def taken(type_: Any) -> list[Array]:
            return [next(left) for _ in _lines(type_)]

        with p.each(0, types[0].shape[0]) as n:
            matrices = [
                _matrix(p, x.type, [*map(Array, parts)], n) for x, parts in zip(given, read, strict=True)
            ]
            matrices += [_matrix(p, type_, taken(type_), n) for type_ in types]
            for space, type_ in zip(work, spaces, strict=True):
                matrices.append(Matrix(p, taken(type_), 0, space.rows, space.columns, space.width))
            body(p, *matrices)
        return [array.value for array in arrays]

    # Behind a barrier, results without uses stay: IREE's compilers for GPUs crash where one is missing.
    results = iter(b.barrier(*dispatch(b, lines, fill)))
    return [_joined(b, type_, [next(results) for _ in _lines(type_)]) for type_ in types]


def _matrix(p: Program, type_: Any, arrays: Sequence[Array], n: Int) -> Matrix:
    """Matrix n of a batch of this type."""
    *rows, columns = type_.shape[1:]
    start = n * (math.prod(rows) * columns)
    return Matrix(p, arrays, start, math.prod(rows), columns, columns)


def _parts(b: Emitter, x: Any) -> Sequence[Any]:
    """The parts of a value as arrays of one dimension, behind a barrier that keeps producers out of the dispatch."""
    parts = [b.real(x), b.imag(x)] if is_complex(x) else [x]
    return b.barrier(*(b.reshape(part, [_count(x.type)]) for part in parts))


def _joined(b: Emitter, type_: Any, lines: Sequence[Any]) -> Any:
    """The value of a type whose parts begin lines."""
    count = _count(type_)
    first, *second = (b.reshape(b.slice(line, [0], [count], [1]), type_.shape) for line in lines)
    return b.complex(first, *second) if second else first


def _count(type_: Any) -> int:
    return math.prod(type_.shape)


def _lines(type_: Any) -> list[Any]:
    """The types of the arrays of a batch of matrices, one for each part."""
    of_complex = is_complex(type_)
    real = type_.element_type.element_type if of_complex else type_.element_type
    return [ir.RankedTensorType.get([_count(type_)], real)] * (2 if of_complex else 1)


def _distinct(types: Sequence[Any]) -> list[Any]:
    """Types of lines, some with more elements, so that all differ and none has a single element.

    IREE merges uninitialized arrays of one type; the copies that it then needs are on the stack, where large ones do
    not fit. It collapses arrays of one element, and then loses the order of some reads and writes.
    """
    distinct: list[Any] = []
    for type_ in types:
        while type_ in distinct or type_.shape[0] < 2:
            type_ = with_shape(type_, [type_.shape[0] + 1])
        distinct.append(type_)
    return distinct
