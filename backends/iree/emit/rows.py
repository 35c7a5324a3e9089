"""`Rows`: the operands of a sort as arrays of rows, each of which is sorted."""

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
    """The index of the sorted dimension, counted from the first dimension."""
    given = ir.IntegerAttr(op.attributes["dimension"]).value if "dimension" in op.attributes else -1
    return int(given % len(op.operands[0].type.shape))


@dataclass(frozen=True)
class Rows:
    """The operands of a sort as arrays of rows, each of which is sorted.

    A key of None stands for an iota along rows. `size` is the number of rows and the length of a row.
    """

    op: IrOp
    kinds: list[ir.Type]  # the operands' element types before `stored` converts them
    keys: list[IrValue | None]
    size: tuple[SizeLike, SizeLike]
    order: list[int]
    """The permutation that puts the sorted dimension last."""
    turned: list[SizeLike]
    """The operands' sizes in the order `order`."""

    @property
    def stored(self) -> list[IrValue]:
        """The operands that are stored in memory. There is at least one such operand."""
        return [key for key in self.keys if key is not None]

    def comes_first(self, k: Kernel, row: IndexLike, x: IndexLike, y: IndexLike) -> IrValue:
        """Whether the op's comparator puts element x of a row before element y."""
        pairs = []
        for kind, key in zip(self.kinds, self.keys, strict=True):
            for place in (x, y):
                scalar = k.cast(place, kind) if key is None else k.element(key, row, place)
                pairs.append(arrays.restored(k, k.scalar(scalar), kind))
        (first,) = k.inlined(self.op.regions[0], pairs)
        return k.element(first)

    def in_order(self, b: Emitter, places: IrValue) -> list[IrValue]:
        """The operands with the elements of each row reordered by `places`, which may have fewer columns."""
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
    """The operands of a sort, with the sorted dimension last and in element types that a dispatch accepts."""
    sizes = arrays.sizes_of(b, op.operands[0])
    order = [*(i for i in range(len(sizes)) if i != dimension), dimension]
    turned = [sizes[i] for i in order]
    size = math.prod(turned[:-1]), turned[-1]
    kinds = [element(x) for x in op.operands]
    iotas = [_is_iota(x, dimension) for x in op.operands]
    stored = [x for x, is_iota in zip(op.operands, iotas, strict=True) if not is_iota] or list(op.operands)
    # The barrier keeps the ops that compute the operands out of the dispatch, which otherwise fails to compile.
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
    """The index of each element of x along a dimension."""
    i32 = signless(32)
    if is_dynamic(x.type):
        return arrays.computed(
            b, arrays.sizes_of(b, x), i32, [], lambda k, places: k.cast(places[dimension], i32)
        )
    return b.iota(dimension, with_element(x.type, i32))


def at_index(dimension: int) -> Callable[[Kernel, Sequence[RunTimeSize], IrValue, IrValue], IrValue]:
    """A function for `arrays.computed` that reads x at the index that `indices` holds along `dimension`.

    `indices` has the shape of x, except along this dimension.
    """

    def fill(k: Kernel, places: Sequence[RunTimeSize], x: IrValue, indices: IrValue) -> IrValue:
        at = list(places)
        at[dimension] = read(k.index_at(indices, *places))
        return k.element(x, *at)

    return fill
