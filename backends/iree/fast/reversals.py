"""reverse of large arrays as loops, on CPUs: IREE moves one element at a time and computes where each is."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch_mlir import ir

from tiduc.backends.iree.emitter import ON_CPUS, Emitter, is_in_loop, is_unsigned, legalize, signless
from tiduc.backends.iree.fast.kernels import Kernel, dispatch
from tiduc.backends.iree.fault import Fault
from tiduc.dialect.traits import PRODUCTS, VIEWS
from tiduc.dialect.types import element, is_open, shape


@legalize(
    "stablehlo.reverse",
    fault=Fault(
        "slow", "IREE moves one element at a time and computes where each is: loops in one dispatch instead."
    ),
    where=ON_CPUS,
)
def reverse(b: Emitter, op: Any) -> Sequence[Any] | None:
    """The reversal in one dispatch, for large arrays that no product reads: IREE reverses those while packing them."""
    x = op.operands[0]
    if not _is_large(op):
        return None
    plain = b.bitcast(x, signless(element(x).width)) if is_unsigned(x) else x
    y = _by_loops(b, plain, list(op.attributes["dimensions"]))
    return [b.bitcast(y, element(x)) if is_unsigned(x) else y]


_LARGE = 2**12, 2**20
"""The number of elements from which on loops are faster, and the most elements that one thread should get."""


def _is_large(op: Any) -> bool:
    """Whether a loop reverses the array faster. Inside a loop, which may become a kernel, the op stays."""
    x = op.operands[0]
    if is_in_loop(op) or _is_factor(op):
        return False
    kinds = ir.IntegerType, ir.F16Type, ir.BF16Type, ir.F32Type, ir.F64Type
    if is_open(x.type) or not isinstance(element(x), kinds) or element(x).width < 8:
        return False
    return _LARGE[0] <= int(np.prod(shape(x), dtype=np.int64)) <= _LARGE[1]


_MOVES = VIEWS | {"stablehlo.convert", "stablehlo.optimization_barrier"}


def _is_factor(op: Any) -> bool:
    """Whether a product or a convolution reads the result, directly or through ops that move elements."""
    todo = [op.results[0]]
    while todo:
        for use in todo.pop().uses:
            reader = use.owner
            if reader.name in PRODUCTS:
                return True
            if reader.name in _MOVES:  # a barrier has one result for each operand
                todo.append(reader.results[use.operand_number if len(reader.results) > 1 else 0])
    return False


def _by_loops(b: Emitter, x: Any, dimensions: Sequence[int]) -> Any:
    """x reversed, in one dispatch, without its dimensions of size 1, which the compiler drops."""
    kept = [i for i, n in enumerate(shape(x)) if n != 1]
    sizes = [shape(x)[i] for i in kept]
    (y,) = b.barrier(b.reshape(x, sizes))  # keeps the producer of x out of the dispatch

    def fill(k: Kernel) -> Sequence[Any]:
        one = k.index(1)

        def along(k: Kernel, of: Sequence[Any], to: Sequence[Any], out: Any) -> Any:
            d = len(of)
            if d == len(sizes):
                return k.put(k.element(y, *of), out, *to)
            last = k.index(sizes[d] - 1)

            def step(k: Kernel, i: Any, out: Any) -> Sequence[Any]:
                at = k.arith("subi", last, i) if kept[d] in dimensions else i
                return [along(k, [*of, at], [*to, i], out)]

            return k.loop(k.index(0), k.index(sizes[d]), one, [out], step)[0]

        return [along(k, [], [], k.empty(y.type))]

    return b.reshape(dispatch(b, [y.type], fill)[0], shape(x))
