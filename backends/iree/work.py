"""Estimates the work in a module. The estimate determines compiler flags and whether several threads run the module."""

import functools
import math
from dataclasses import dataclass

from torch_mlir import ir

from tiduc.backends.iree.emit.emitter import is_static
from tiduc.backends.iree.fast.loops.counters import trip_count
from tiduc.backends.iree.fast.loops.kernel_forms import contracted_size
from tiduc.dialect.facts.windows import Layout
from tiduc.dialect.graph.functions import outer_first
from tiduc.dialect.ops.contractions import Contraction
from tiduc.dialect.ops.ir_types import IrOp

TILED = 1024
"""Data tiling is used if a product's rows, columns and contracted size are all at least 1024.

Data tiling doubles the memory of the product. The time with data tiling, relative to the time without it, is:

    0.71    a product of two matrices of 1024 x 1024
    1       a product of two matrices of 512 x 512
    1.1     a product of two matrices of 256 x 256
    1.17    the gradient of a perceptron of width 768
    1.05    the gradient of a GPT of 6 layers of width 384, with 1.27 times the memory
"""

THREADED = 2**24
"""Several threads are faster than one thread if a call computes at least this many elements."""

_UNKNOWN = 8
"""The assumed trip count of a loop whose trip count is not known."""


@dataclass(frozen=True)
class ModuleWork:
    """Whether a module has products of large matrices, and enough work for several threads.

    `beside` is the work outside of loops: the number of computed elements, and of multiplications in products and
    convolutions.
    """

    tiled: bool
    threaded: bool
    beside: int = 0


def work(module: ir.Module | IrOp) -> ModuleWork:
    """Estimates the work of a module. Arrays of dynamic shape are not counted, and loop bodies count once.

    A single thread can run a loop of little work in one dispatch. Several threads would need many dispatches for each
    iteration, and starting these dispatches takes as long as computing `THREADED` elements. A program with loops is
    therefore `threaded` only if the loop bodies, or the whole program per iteration, have at least this much work.
    """
    tiled, total, in_loops = False, 0, 0
    ops = outer_first(module.operation)
    loops = [op for op in ops if op.name == "stablehlo.while"]
    looping = {op for loop in loops for op in outer_first(loop)}
    for op in ops:
        before = total
        sizes = [n for y in op.results if (n := _elements(y.type)) is not None]
        total += sum(sizes)
        is_product = op.name in ("stablehlo.dot", "stablehlo.dot_general")
        if is_product and sizes and all(is_static(x.type) for x in op.operands):
            least, multiplications, batches = _product(op)
            tiled |= least >= TILED
            total += multiplications * batches
        elif op.name == "linalg.generic" and sizes:
            total += _places(op)
        elif op.name == "stablehlo.convolution" and sizes and is_static(op.operands[1].type):
            kernel = op.operands[1].type.shape
            total += sizes[0] * math.prod(kernel) // max(kernel[Layout.of(op).kernel[1]], 1)
        in_loops += total - before if op in looping else 0
    iterations = sum(map(_iterations, loops))
    threaded = in_loops >= THREADED or total >= THREADED * max(iterations, 1)
    return ModuleWork(tiled, threaded, total - in_loops)


@functools.cache
def _elements(type_: ir.Type) -> int | None:
    """The number of elements of an array. None for an array of dynamic shape, and for other types than arrays."""
    return math.prod(type_.shape) if isinstance(type_, ir.RankedTensorType) and is_static(type_) else None


def _iterations(loop: IrOp) -> int:
    """The number of a loop's iterations in one call of the program: its trip count times those of enclosing loops."""
    count = 1
    op: ir.Operation | None = loop.operation
    while op is not None:
        if op.name == "stablehlo.while":
            known = trip_count(op)
            count *= _UNKNOWN if known is None else known
        op = op.parent
    return count


def _places(op: IrOp) -> int:
    """The number of iterations of a `linalg.generic`: the product of the sizes of its loops."""
    counts = {}
    for x, each in zip(op.operands, op.attributes["indexing_maps"], strict=True):
        for n, loop in zip(x.type.shape, each.value.results, strict=True):
            if isinstance(loop, ir.AffineDimExpr):
                counts[loop.position] = n
    return math.prod(counts.values())


def _product(op: IrOp) -> tuple[int, int, int]:
    """Returns the work of a product of matrices as three numbers.

    They are the smallest of its rows, columns and contracted size, the multiplications in each batch, and the batches.
    """
    (x, y), result = (v.type.shape for v in op.operands), math.prod(op.results[0].type.shape)
    summed = contracted_size(op)
    batches = max(math.prod(x[d] for d in Contraction.of(op).batches[0]), 1)
    rows = math.prod(x) // max(batches * summed, 1)
    columns = math.prod(y) // max(batches * summed, 1)
    return min(rows, columns, summed), result * summed // batches, batches
