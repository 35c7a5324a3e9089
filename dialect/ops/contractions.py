"""`Contraction`, a Python class for the dimension numbers of `dot_general` and `dot`."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.dialect.ops.ir_types import AnyOp

NUMBERS = "dot_dimension_numbers"
"""The attribute of dot_general that holds its dimension numbers."""

Pair = tuple[tuple[int, ...], tuple[int, ...]]
"""Dimensions of the left operand, and the corresponding dimensions of the right operand."""


@dataclass(frozen=True)
class Contraction:
    """The batch dimensions of both operands, and the contracted dimensions, over which products are summed."""

    batches: Pair
    summed: Pair

    @staticmethod
    def of(op: AnyOp) -> "Contraction":
        """The contraction that a `dot_general` or `dot` computes. `op` is an MLIR operation or a `Definition`."""
        return _of(op.attributes[NUMBERS]) if NUMBERS in op.attributes else _of_dot(op.operands[0].type.rank)

    @staticmethod
    def new(batches: Iterable[Iterable[int]], summed: Iterable[Iterable[int]]) -> "Contraction":
        """The contraction with the batch dimensions `batches` and the contracted dimensions `summed`.

        Each argument is a pair: dimensions of the left operand, and the matching dimensions of the right operand.
        """
        (left, right), (over_left, over_right) = (map(tuple, pair) for pair in (batches, summed))
        return Contraction((left, right), (over_left, over_right))

    @property
    def attribute(self) -> hlo.DotDimensionNumbers:
        """The dimension numbers as an attribute."""
        (left, right), (over_left, over_right) = self.batches, self.summed
        return hlo.DotDimensionNumbers.get(left, right, over_left, over_right)

    @property
    def exchanged(self) -> "Contraction":
        """The contraction after the left and the right operand are exchanged."""
        return Contraction(self.batches[::-1], self.summed[::-1])

    def kept(self, side: int, count: int) -> list[int]:
        """The free dimensions of operand `side`: those that are neither batch dimensions nor contracted.

        `side` is 0 or 1, and `count` is the rank of the operand.
        """
        return [d for d in range(count) if d not in self.batches[side] and d not in self.summed[side]]

    def places(self, side: int, ranks: Sequence[int]) -> dict[int, int]:
        """Maps the batch and free dimensions of operand `side` to the corresponding dimensions of the result.

        `side` is 0 or 1, and `ranks` are the ranks of both operands.
        """
        count = len(self.batches[0])
        first = count if side == 0 else count + len(self.kept(0, ranks[0]))
        places = {d: i for i, d in enumerate(self.batches[side])}
        return {**places, **{d: first + i for i, d in enumerate(self.kept(side, ranks[side]))}}


@cache  # programs have thousands of contractions, but few different dimension numbers
def _of(attribute: ir.Attribute) -> Contraction:
    d = hlo.DotDimensionNumbers(attribute)
    return Contraction.new(
        (d.lhs_batching_dimensions, d.rhs_batching_dimensions),
        (d.lhs_contracting_dimensions, d.rhs_contracting_dimensions),
    )


@cache
def _of_dot(count: int) -> Contraction:
    """The contraction of a dot whose left operand has `count` dimensions."""
    return Contraction(((), ()), ((count - 1,), (0,)))


MATRICES = Contraction(((), ()), ((1,), (0,)))
"""The contraction of a product of two matrices."""
