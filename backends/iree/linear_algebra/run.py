"""`program` compiles a program to one dispatch over batches of matrices (backends/iree/emit/kernels.py).

If the algorithm were a StableHLO loop, each iteration would run several dispatches over whole arrays. In contrast, a
loop of a program visits only the elements that an iteration changes. One thread runs the dispatch: it processes one
matrix after the other.
"""

import functools
import math
from collections.abc import Callable, Sequence

from torch_mlir import ir

from tiduc.backends.iree.emit.emitter import Emitter
from tiduc.backends.iree.emit.kernels import Kernel, dispatch
from tiduc.backends.iree.linear_algebra.program import Matrix, MatrixProgram
from tiduc.dialect.ops.ir_types import IrValue
from tiduc.dialect.shapes.types import is_complex, shape


def program(body: Callable[..., Sequence[Matrix]]) -> Callable[..., list[IrValue]]:
    """Turns `body`, which processes one matrix of each batch, into a function of batches of matrices.

    `body(p, *matrices, **options)` emits the program. It reads the matrices and returns matrices that `p.result`
    allocated. The returned function, `run(b, *batches, **options)`, returns the batches of these matrices, with three
    dimensions. If an input batch has two dimensions, each row is a matrix of one row.
    """

    @functools.wraps(body)
    def run(b: Emitter, *batches: IrValue, **options: int) -> list[IrValue]:
        lines = [_lines(b, x) for x in batches]
        holder = ir.Module.create(b.location)
        block = ir.Block.create_after(holder.body, ir.IndexType.get(), arg_locs=[b.location])
        count, real = shape(batches[0])[0], lines[0][0].type.element_type
        p = MatrixProgram(block, b.location, real, "complex" if is_complex(batches[0]) else "real", count)
        given = []
        for x, parts in zip(batches, lines, strict=True):
            *rows, columns = shape(x)[1:]
            given.append(p.given(parts, math.prod(rows), columns))
        results = body(p, *given, **options)
        p.k.emit_all("scf.yield", [line.array for line in p.arrays], ())
        return _joined(b, p, results, _dispatched(b, p))

    return run


def _dispatched(b: Emitter, p: MatrixProgram) -> Sequence[IrValue]:
    """Emits the dispatch with the loop over the batch. Returns the arrays that the program writes."""
    types = [line.array.type for line in p.arrays]

    def fill(k: Kernel) -> Sequence[IrValue]:
        bounds, arrays = [k.index(n) for n in (0, p.batch, 1)], [k.empty(type_) for type_ in types]
        return k.emit_all("scf.for", [*bounds, *arrays], types, None, [p.block.append_to])

    # The barrier keeps results that nothing reads: IREE's compilers for GPUs crash if such a result is removed.
    return b.barrier(*dispatch(b, types, fill))


def _joined(
    b: Emitter, p: MatrixProgram, results: Sequence[Matrix], lines: Sequence[IrValue]
) -> list[IrValue]:
    """Makes batches of a program's results. `lines` are the arrays that the dispatch returns.

    The entries of a batch are at the beginning of an array, or of two arrays if the batch is complex.
    """
    line_of = dict(zip(p.arrays, lines, strict=True))
    joined = []
    for y in results:
        count = p.batch * y.rows * y.columns
        parts = [b.slice(line_of[array], [0], [count], [1]) for array in y.arrays]
        if count == 1:
            # IREE rejects a one-element slice that is both a result of the program and read by an op.
            parts = list(b.barrier(*parts))
        first, *second = (b.reshape(part, [p.batch, y.rows, y.columns]) for part in parts)
        joined.append(b.complex(first, *second) if second else first)
    return joined


def _lines(b: Emitter, x: IrValue) -> Sequence[IrValue]:
    """Reshapes x to a one-dimensional array or, if x is complex, to two: its real and its imaginary parts.

    A barrier keeps the op that computes x out of the dispatch.
    """
    parts = [b.real(x), b.imag(x)] if is_complex(x) else [x]
    return b.barrier(*(b.reshape(part, [math.prod(shape(x))]) for part in parts))
