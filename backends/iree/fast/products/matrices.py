"""`MatrixOperand`: an operand of a matrix product. The dimensions of the operand may be in any order."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tiduc.backends.iree.emit.sizes import SizeLike
from tiduc.backends.iree.emit.vectors import Vectors
from tiduc.backends.iree.fast.products.computed import Formula
from tiduc.dialect.ops.ir_types import IrValue
from tiduc.dialect.shapes.types import shape


@dataclass(frozen=True)
class MatrixOperand:
    """An operand of a matrix product. It has batch dimensions, a kept (free) and a summed (contracted) dimension.

    If only one operand of a product has batch dimensions, the other operand is one matrix for all batches. If `formula`
    is not None, the code of the product computes the elements of the operand from `arrays`, which the formula reads.
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
        """A copy of this operand that reads `arrays` instead of the arrays in `read`."""
        return replace(self, arrays=tuple(arrays)) if self.formula else replace(self, value=arrays[0])

    def load(self, k: Vectors, place: Sequence[SizeLike], mask: IrValue | None = None) -> IrValue:
        """Loads or computes the vector along the last dimension that begins at `place`.

        Elements that `mask` excludes are undefined.
        """
        return self.formula.at(k, self.arrays, place) if self.formula else k.load(self.value, place, mask)

    def of(self, d: int) -> int:
        """The size of dimension d, which must be static."""
        return int(shape(self.value)[d])

    def place(self, batches: Sequence[SizeLike], kept: SizeLike, summed: SizeLike) -> list[SizeLike]:
        """Converts an element's batch, kept and summed indices to its list of indices in the array."""
        place = [summed] * (self.last + 1)
        for d, at in zip(self.batches, batches if self.batches else (), strict=True):
            place[d] = at
        place[self.kept] = kept
        return place
