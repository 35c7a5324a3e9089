"""`MatrixOperand`: an operand of a product, with its dimensions in any order."""

from collections.abc import Sequence
from dataclasses import dataclass

from tiduc.backends.iree.emit.sizes import SizeLike
from tiduc.dialect.ops.ir_types import IrValue
from tiduc.dialect.shapes.types import shape


@dataclass(frozen=True)
class MatrixOperand:
    """An operand of a matrix product: batch dimensions, one free dimension, and one contracted dimension.

    An operand without batch dimensions is one matrix for all batches of the other operand.
    """

    value: IrValue
    batches: tuple[int, ...]
    kept: int
    summed: int

    @property
    def last(self) -> int:
        """The dimension whose elements are adjacent in memory."""
        return len(self.value.type.shape) - 1

    def of(self, d: int) -> int:
        """The size of a dimension, which must be static."""
        return int(shape(self.value)[d])

    def place(self, batches: Sequence[SizeLike], kept: SizeLike, summed: SizeLike) -> list[SizeLike]:
        """The index along each dimension."""
        place = [summed] * (self.last + 1)
        for d, at in zip(self.batches, batches if self.batches else (), strict=True):
            place[d] = at
        place[self.kept] = kept
        return place
