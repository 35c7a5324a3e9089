"""`MatrixOperand`: an operand of a matrix product, whose dimensions may be in any order."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tiduc.backends.iree.emit.sizes import SizeLike
from tiduc.backends.iree.emit.vectors import Vectors
from tiduc.backends.iree.fast.products.computed import Formula
from tiduc.dialect.ops.ir_types import IrValue
from tiduc.dialect.shapes.types import shape


@dataclass(frozen=True)
class MatrixOperand:
    """An operand of a matrix product: batch dimensions, one kept (free) and one summed (contracted) dimension.

    If only one operand has batch dimensions, the other operand is one matrix for all batches. If `formula` is not None,
    the code computes the elements of the operand from `arrays`, which the formula reads.
    """

    value: IrValue
    batches: tuple[int, ...]
    kept: int
    summed: int
    formula: Formula | None = None
    arrays: tuple[IrValue, ...] = ()

    @property
    def last(self) -> int:
        """The index of the last dimension, along which elements are adjacent in memory."""
        return len(self.value.type.shape) - 1

    @property
    def read(self) -> tuple[IrValue, ...]:
        """The arrays that the code of a product reads for this operand."""
        return self.arrays if self.formula else (self.value,)

    def reading(self, arrays: Sequence[IrValue]) -> "MatrixOperand":
        """The operand with `arrays` in place of its arrays `read`."""
        return replace(self, arrays=tuple(arrays)) if self.formula else replace(self, value=arrays[0])

    def load(self, k: Vectors, place: Sequence[SizeLike], mask: IrValue | None = None) -> IrValue:
        """The vector along the last dimension that begins at the indices `place`. Masked-off lanes are undefined."""
        return self.formula.at(k, self.arrays, place) if self.formula else k.load(self.value, place, mask)

    def of(self, d: int) -> int:
        """The size of dimension d, which must be static."""
        return int(shape(self.value)[d])

    def place(self, batches: Sequence[SizeLike], kept: SizeLike, summed: SizeLike) -> list[SizeLike]:
        """The indices in the array of the element that has these batch, kept and summed indices in the product."""
        place = [summed] * (self.last + 1)
        for d, at in zip(self.batches, batches if self.batches else (), strict=True):
            place[d] = at
        place[self.kept] = kept
        return place
