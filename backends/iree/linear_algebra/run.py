"""Runs programs over batches of matrices, each as one dispatch (backends/iree/fast/kernels.py).

Loops of StableHLO take several dispatches an iteration; those of a program visit only the elements that a step
changes. One thread runs a program, one matrix of a batch after the other.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from torch_mlir import ir

from tiduc.backends.iree.emitter import Emitter
from tiduc.backends.iree.fast.kernels import Kernel, dispatch
from tiduc.backends.iree.linear_algebra.program import Matrix, Program
from tiduc.dialect.types import is_complex, shape


def program(body: Callable[..., Sequence[Matrix]]) -> Callable[..., list[Any]]:
    """Makes a function of batches of matrices from a function of one matrix of each batch.

    `body(p, *matrices, **options)` is called once: it reads the matrices, and gives those of `p.result` that it has
    written. The function that results is `run(b, *batches, **options)`, and gives the batches of these matrices, with
    three dimensions. A batch that it is given may have two: one row for each matrix.
    """

    @functools.wraps(body)
    def run(b: Emitter, *batches: Any, **options: Any) -> list[Any]:
        lines = [_lines(b, x) for x in batches]
        holder = ir.Module.create(b.location)
        block = ir.Block.create_after(holder.body, ir.IndexType.get(), arg_locs=[b.location])
        count, real = shape(batches[0])[0], lines[0][0].type.element_type
        p = Program(block, b.location, real, "complex" if is_complex(batches[0]) else "real", count)
        given = []
        for x, parts in zip(batches, lines, strict=True):
            *rows, columns = shape(x)[1:]
            given.append(p.given(parts, math.prod(rows), columns))
        results = body(p, *given, **options)
        p.k.emit_all("scf.yield", [line.array for line in p.arrays], ())
        return _joined(b, p, results, _dispatched(b, p))

    return run


def _dispatched(b: Emitter, p: Program) -> Sequence[Any]:
    """The arrays that a program writes, from a dispatch with the loop over the batch."""
    types = [line.array.type for line in p.arrays]

    def fill(k: Kernel) -> Sequence[Any]:
        bounds, arrays = [k.index(n) for n in (0, p.batch, 1)], [k.empty(type_) for type_ in types]
        return k.emit_all("scf.for", [*bounds, *arrays], types, None, [p.block.append_to])

    # Behind a barrier, results without uses stay: IREE's compilers for GPUs crash where one is missing.
    return b.barrier(*dispatch(b, types, fill))


def _joined(b: Emitter, p: Program, results: Sequence[Matrix], lines: Sequence[Any]) -> list[Any]:
    """The batches of the results of a program, whose parts begin lines."""
    line_of = dict(zip(p.arrays, lines, strict=True))
    joined = []
    for y in results:
        count = p.batch * y.rows * y.columns
        parts = [b.slice(line_of[array], [0], [count], [1]) for array in y.arrays]
        first, *second = (b.reshape(part, [p.batch, y.rows, y.columns]) for part in parts)
        joined.append(b.complex(first, *second) if second else first)
    return joined


def _lines(b: Emitter, x: Any) -> Sequence[Any]:
    """The parts of a value as arrays of one dimension, behind a barrier that keeps producers out of the dispatch."""
    parts = [b.real(x), b.imag(x)] if is_complex(x) else [x]
    return b.barrier(*(b.reshape(part, [math.prod(shape(x))]) for part in parts))
