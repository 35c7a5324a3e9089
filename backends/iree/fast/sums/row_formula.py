"""`RowFormula`: the elements of an array of rows as an expression that a kernel computes vector by vector.

    (%x - broadcast %mean) * broadcast %scale          ->        a kernel that reads %x, %mean and %scale

The leading dimensions of an array number its rows, and the other dimensions number the elements of a row. An expression
reads arrays of this kind, arrays with one element for each row, and arrays with one row.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from tiduc.backends.iree.emit.emitter import Emitter
from tiduc.backends.iree.emit.sizes import SizeLike
from tiduc.backends.iree.emit.vectors import Vectors
from tiduc.dialect.graph.matching import definition
from tiduc.dialect.mlir.constants import is_splat, splat_number
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.ops.traits import ELEMENTWISE
from tiduc.dialect.shapes.types import element, shape

ARITHMETIC = {
    "stablehlo.add": "arith.addf",
    "stablehlo.subtract": "arith.subf",
    "stablehlo.multiply": "arith.mulf",
    "stablehlo.divide": "arith.divf",
    "stablehlo.negate": "arith.negf",
    "stablehlo.maximum": "arith.maximumf",
    "stablehlo.minimum": "arith.minimumf",
    "stablehlo.abs": "math.absf",
}
"""The elementwise ops of formulas, and the ops on vectors that compute them."""
_BROADCAST, _RESHAPE, _CONSTANT = "stablehlo.broadcast_in_dim", "stablehlo.reshape", "stablehlo.constant"
_MOST = 12
"""The most ops of a formula. An op whose result has several readers is counted several times."""


@dataclass(frozen=True)
class RowFormula:
    """An expression for an array of rows: the elementwise op `name` on other formulas, an array, or a number.

    If `name` is "rows", "scalars" or "row", the kernel reads the array at index `number`: an array of rows, an array
    with one element for each row, or an array with one row. If `name` is "number", all elements are `number`.
    """

    name: str
    operands: tuple["RowFormula", ...] = ()
    number: float = 0

    def at(
        self, k: Vectors, arrays: Sequence[IrValue], row: SizeLike, column: SizeLike, mask: IrValue | None
    ) -> IrValue:
        """Computes the vector of elements of a row that begins at `column`. Elements outside `mask` are undefined."""
        if self.name == "number":
            return k.splat(k.number(self.number, k.element_type))
        if self.name in ARITHMETIC:
            xs = [each.at(k, arrays, row, column, mask) for each in self.operands]
            return k.emit(ARITHMETIC[self.name], xs, xs[0].type)
        x = arrays[int(self.number)]
        if self.name == "scalars":
            return k.splat(k.element(x, row))
        return k.load(x, [row, column] if self.name == "rows" else [column], mask)


@dataclass
class Gathered:
    """Builds formulas for arrays of floats whose first `leading` dimensions number the rows.

    `arrays` has the arrays that the formulas read, as matrices or vectors, and `kinds` their names in formulas.
    """

    b: Emitter
    leading: int
    ops: int = 0
    values: list[tuple[str, IrValue]] = field(default_factory=list)
    arrays: list[IrValue] = field(default_factory=list)

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(kind for kind, _ in self.values)

    def formula(self, x: IrValue) -> RowFormula | None:
        """Returns the formula of an array of static shape.

        Returns None if it would have too many ops, or if an elementwise op that formulas lack computes an array only
        for this formula: IREE fuses this op with the reduction.
        """
        op = definition(x)
        if op is not None and op.name == _CONSTANT and is_splat(op.attributes["value"]):
            return RowFormula("number", (), splat_number(op.attributes["value"]))
        if op is not None and op.name == _BROADCAST:
            return self._broadcast(op)
        if op is not None and op.name in ELEMENTWISE and all(element(y) == element(x) for y in op.operands):
            self.ops += 1
            if self.ops > _MOST:
                return None
            if op.name in ARITHMETIC:
                operands = [self.formula(y) for y in op.operands]
                known = tuple(each for each in operands if each is not None)
                return RowFormula(op.name, known) if len(known) == len(operands) else None
        if op is not None and op.name in ELEMENTWISE and len(list(x.uses)) == 1:
            return None
        return self._array(
            "rows", x, [math.prod(shape(x)[: self.leading]), math.prod(shape(x)[self.leading :])]
        )

    def _broadcast(self, op: IrOp) -> RowFormula | None:
        """Returns the formula of a broadcast, unless it has some dimensions of the rows and some of the columns."""
        (x,), y = op.operands, op.results[0]
        own = [d for d, n in zip(op.attributes["broadcast_dimensions"], shape(x), strict=True) if n > 1]
        if not own:
            made = definition(x)
            if made is not None and made.name == _CONSTANT:
                return RowFormula("number", (), splat_number(made.attributes["value"]))
        for kind, dims in (("scalars", range(self.leading)), ("row", range(self.leading, len(shape(y))))):
            if set(own) <= set(dims):
                sizes = [shape(y)[d] for d in dims]
                if math.prod(shape(x)) != math.prod(sizes) or own != sorted(own):
                    places = [d - dims.start for d in own]
                    x = self.b.broadcast_in_dim(self.b.reshape(x, [shape(y)[d] for d in own]), places, sizes)
                return self._array(kind, x, [math.prod(sizes)])
        return None

    def _array(self, kind: str, x: IrValue, sizes: Sequence[int]) -> RowFormula:
        if (kind, x) not in self.values:
            self.values.append((kind, x))
            self.arrays.append(self.b.reshape(x, sizes))
        return RowFormula(kind, (), self.values.index((kind, x)))
