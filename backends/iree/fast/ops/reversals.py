"""Reverses large arrays by loops in one dispatch, on CPUs, because IREE's code computes the index of each element."""

from collections.abc import Sequence

from tiduc.backends.iree.emit.arrays import as_signless, restored
from tiduc.backends.iree.emit.emitter import ON_CPUS, Emitter, is_in_loop, legalize
from tiduc.backends.iree.emit.kernels import Kernel, dispatch, is_kernel_array
from tiduc.backends.iree.emit.sizes import SizeLike
from tiduc.backends.iree.fault import slow
from tiduc.dialect.graph.dependences import reached
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.ops.traits import PRODUCTS, VIEWS
from tiduc.dialect.shapes.types import element, shape


@legalize("stablehlo.reverse", where=ON_CPUS)
@slow(
    "IREE moves one element at a time and computes each index; tiduc emits loops in one dispatch.",
    "flags.py: reverse",
)
def reverse(b: Emitter, op: IrOp) -> Sequence[IrValue] | None:
    """Reverses a large array in one dispatch.

    Returns None for small arrays and inside loops. Also returns None if a product reads the result, because IREE
    reverses the operand of a product when it copies the operand for the product.
    """
    x = op.operands[0]
    plain = as_signless(b, x)
    # A loop keeps the op, because the loop may become a kernel, and a kernel must not contain another dispatch.
    if not is_kernel_array(plain.type, _LARGE) or is_in_loop(op) or _is_factor(op):
        return None
    y = _by_loops(b, plain, list(op.attributes["dimensions"]))
    return [restored(b, y, element(x))]


_LARGE = 2**12
"""The fewest elements for which loops are faster."""
_MOVES = VIEWS | {"stablehlo.convert", "stablehlo.optimization_barrier"}


def _is_factor(op: IrOp) -> bool:
    """Whether a product or convolution reads the result of an op, directly or through views, converts or barriers."""

    def moved(y: IrValue) -> list[IrValue]:
        uses = [use for use in y.uses if use.owner.name in _MOVES]
        # A barrier has one result per operand. Other ops have one result.
        return [use.owner.results[use.operand_number % len(use.owner.results)] for use in uses]

    return any(
        use.owner.name in PRODUCTS for y in reached(list[IrValue](op.results), moved) for use in y.uses
    )


def _by_loops(b: Emitter, x: IrValue, dimensions: Sequence[int]) -> IrValue:
    """Reverses x along `dimensions` in one dispatch.

    The loops are over an array without dimensions of size 1, because the compiler drops these.
    """
    kept = [i for i, n in enumerate(shape(x)) if n != 1]
    sizes = [shape(x)[i] for i in kept]
    y = b.stored(b.reshape(x, sizes))  # keeps the op that computes x out of the dispatch

    def move(k: Kernel, place: Sequence[SizeLike], out: IrValue) -> Sequence[IrValue]:
        moved = zip(kept, sizes, place, strict=True)
        source = [n - 1 - i if d in dimensions else i for d, n, i in moved]
        return [k.put(k.element(y, *source), out, *place)]

    (reversed_,) = dispatch(b, [y.type], lambda k: k.nest(sizes, [k.empty(y.type)], move))
    return b.reshape(reversed_, shape(x))
