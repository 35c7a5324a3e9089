"""`Rows`: the operands of a sort as matrices. The sort sorts each row of a matrix."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from torch_mlir import ir

from tiduc.backends.iree.emit import arrays
from tiduc.backends.iree.emit.emitter import Emitter, is_unsigned, signless
from tiduc.backends.iree.emit.kernels import Kernel
from tiduc.backends.iree.emit.sizes import IndexLike, RunTimeSize, SizeLike, read
from tiduc.dialect.graph.matching import defined_by
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.shapes.types import element, is_dynamic, shape, with_element


def sorted_dimension(op: IrOp) -> int:
    """The index of the dimension along which an op sorts, made nonnegative. The default is the last dimension."""
    given = ir.IntegerAttr(op.attributes["dimension"]).value if "dimension" in op.attributes else -1
    return int(given % len(op.operands[0].type.shape))


@dataclass(frozen=True)
class Rows:
    """The operands of a sort as matrices, each row of which is sorted.

    `keys` has a matrix for each operand, or None for an operand that is an iota along the rows, whose elements need not
    be stored. `size` is (number of rows, length of a row).
    """

    op: IrOp
    kinds: list[ir.Type]  # the operands' element types before `arrays.stored` converts them
    keys: list[IrValue | None]
    size: tuple[SizeLike, SizeLike]
    order: list[int]
    """The permutation that puts the sorted dimension last."""
    turned: list[SizeLike]
    """The operands' sizes in the order `order`."""

    @property
    def stored(self) -> list[IrValue]:
        """The matrices in `keys`. There is at least one."""
        return [key for key in self.keys if key is not None]

    def comes_first(self, k: Kernel, row: IndexLike, x: IndexLike, y: IndexLike) -> IrValue:
        """Emits the op's comparator on the elements at indices x and y of a row: whether x sorts before y."""
        pairs = []
        for kind, key in zip(self.kinds, self.keys, strict=True):
            for place in (x, y):
                scalar = k.cast(place, kind) if key is None else k.element(key, row, place)
                pairs.append(arrays.restored(k, k.scalar(scalar), kind))
        (first,) = k.inlined(self.op.regions[0], pairs)
        return k.element(first)

    def in_order(self, b: Emitter, places: IrValue) -> list[IrValue]:
        """The results of the sort: row r of a result has the elements of row r of the operand at `places[r]`.

        `places` may have fewer columns than the operands, if only the first elements of each row are needed.
        """
        size = self.size if is_dynamic(places.type) else shape(places)
        ys = [
            b.convert(places, kind)
            if x is None
            else arrays.computed(b, size, element(x), [x, places], at_index(1))
            for x, kind in zip(self.keys, self.kinds, strict=True)
        ]
        turned, back = [*self.turned[:-1], size[1]], np.argsort(self.order)
        results = [b.transpose(arrays.in_shape(b, y, turned), back) for y in ys]
        return [arrays.restored(b, y, kind) for y, kind in zip(results, self.kinds, strict=True)]


def rows_of(b: Emitter, op: IrOp, dimension: int) -> Rows:
    """Converts the operands of a sort to `Rows`: matrices of element types that a dispatch accepts."""
    sizes = arrays.sizes_of(b, op.operands[0])
    order = [*(i for i in range(len(sizes)) if i != dimension), dimension]
    turned = [sizes[i] for i in order]
    size = math.prod(turned[:-1]), turned[-1]
    kinds = [element(x) for x in op.operands]
    iotas = [_is_iota(x, dimension) for x in op.operands]
    stored = [x for x, is_iota in zip(op.operands, iotas, strict=True) if not is_iota] or list(op.operands)
    # Without this barrier, IREE fuses the ops that compute the operands into the dispatch, which then fails to compile.
    behind = arrays.behind_barrier(
        b, *(arrays.in_shape(b, b.transpose(arrays.stored(b, x), order), size) for x in stored)
    )
    key_of = dict(zip(stored, behind, strict=True))
    return Rows(op, kinds, [key_of.get(x) for x in op.operands], size, order, turned)


def _is_iota(x: IrValue, dimension: int) -> bool:
    """Whether x is an iota along `dimension` whose integers a kernel can compute from an index."""
    iota = defined_by(x, "stablehlo.iota")
    if iota is None or is_unsigned(x) or not isinstance(element(x), ir.IntegerType) or element(x).width < 32:
        return False
    return bool(ir.IntegerAttr(iota.attributes["iota_dimension"]).value == dimension)


def places_along(b: Emitter, x: IrValue, dimension: int) -> IrValue:
    """Emits an i32 array that holds, for each element of x, the index of the element along a dimension."""
    i32 = signless(32)
    if is_dynamic(x.type):
        return arrays.computed(
            b, arrays.sizes_of(b, x), i32, [], lambda k, places: k.cast(places[dimension], i32)
        )
    return b.iota(dimension, with_element(x.type, i32))


def at_index(dimension: int) -> Callable[[Kernel, Sequence[RunTimeSize], IrValue, IrValue], IrValue]:
    """Returns a function for `arrays.computed` that replaces the index of x along `dimension` by an entry of `indices`.

    For dimension 1 of matrices: y[i, j] = x[i, indices[i, j]]. `indices` has the shape of x except along `dimension`.
    """

    def fill(k: Kernel, places: Sequence[RunTimeSize], x: IrValue, indices: IrValue) -> IrValue:
        at = list(places)
        at[dimension] = read(k.index_at(indices, *places))
        return k.element(x, *at)

    return fill
