"""`Vectors`: emits loads, stores, products and sums of vectors. workgroups.py builds dispatches from such code.

IREE chooses vectors and tiles itself for StableHLO's ops. Code that is emitted on vectors controls the use of registers
instead: a loop-carried value of vector type stays in a register while enough registers are free.
"""

import functools
from collections.abc import Iterable, Sequence
from typing import Self

from torch_mlir import ir

from tiduc.backends.iree.emit.emitter import signless
from tiduc.backends.iree.emit.kernels import Kernel
from tiduc.backends.iree.emit.sizes import RunTimeSize, SizeLike, read
from tiduc.backends.iree.settings import Registers, Settings
from tiduc.dialect.ops.ir_types import IrValue
from tiduc.dialect.shapes.types import element

MASKED = 512
"""The width in bits of AVX-512's vectors. Only for them is a masked store as fast as a store of all lanes."""
_LATENCY = 4
"""The cycles from one addition to a sum until the next addition to this sum can start."""
_LOAD = 0.1
"""The cycles that a load adds to a step, although loads and multiplications run in parallel."""


def cycles_of_step(additions: int, loads: int) -> float:
    """The estimated cycles of a step that adds products to a tile's sums.

    A step is one iteration of the innermost loop. A CPU starts two multiply-adds and two loads in a cycle. `_LOAD`
    decides between tiles with equally many additions: in measurements, tiles with fewer loads are faster, above all if
    two threads share a core.
    """
    return max(additions / 2, loads / 2, _LATENCY) + _LOAD * loads


def lanes(x: IrValue, registers: Registers) -> int:
    """The number of elements of x that one vector register holds."""
    return registers.bits // int(element(x).width)


def quotient(n: SizeLike, by: SizeLike) -> SizeLike:
    """n // by, for nonnegative n."""
    if by == 1:
        return n
    return n // by if isinstance(n, int) else RunTimeSize(lambda k: k.arith("divui", n, by))


class Vectors(Kernel):
    """Emits the body of a dispatch on vectors of `width` scalars. In all methods, a mask of None includes all lanes.

    A constant is emitted at the start of the body, and only once, even if the code uses it several times.
    """

    def __init__(
        self,
        block: ir.Block,
        location: ir.Location,
        element_type: ir.FloatType | ir.IntegerType,
        settings: Settings,
    ) -> None:
        super().__init__(ir.InsertionPoint(block), location, settings)
        self.element_type, self.width = element_type, settings.registers.bits // int(element_type.width)
        self._body, self._numbers = block, dict[tuple[float, ir.Type], IrValue]()

    def at(self, ip: ir.InsertionPoint) -> Self:
        inner = type(self)(ip.block, self.location, self.element_type, self.settings)
        inner._ip, inner._body, inner._numbers = ip, self._body, self._numbers
        return inner

    def number(self, value: float, type_: ir.Type) -> IrValue:
        if (value, type_) not in self._numbers:
            begin = Kernel(ir.InsertionPoint.at_block_begin(self._body), self.location)
            self._numbers[value, type_] = begin.number(value, type_)
        return self._numbers[value, type_]

    def held(self, n: SizeLike) -> SizeLike:
        """Emits the ops of a run-time size at the current position, so that later uses read their result.

        Integers are returned unchanged.
        """
        return n if isinstance(n, int) else read(self.index(n))

    def array(self, sizes: Sequence[SizeLike]) -> IrValue:
        """An uninitialized array of these sizes."""
        known = [n if isinstance(n, int) else ir.ShapedType.get_dynamic_size() for n in sizes]
        return self.empty(ir.RankedTensorType.get(known, self.element_type), sizes)

    def splat(self, v: IrValue) -> IrValue:
        """A vector with a scalar in all lanes."""
        return self.emit("vector.broadcast", (v,), ir.VectorType.get([self.width], v.type))

    def zeros(self) -> IrValue:
        """A vector of zeros."""
        return self.splat(self.number(0, self.element_type))

    def load(self, x: IrValue, place: Sequence[SizeLike], mask: IrValue | None = None) -> IrValue:
        """The vector of elements of x that starts at `place`, along the last dimension. Masked-off lanes are 0."""
        operands = x, *map(self.index, place), self.number(0, element(x)), *_given(mask)
        type_ = ir.VectorType.get([self.width], element(x))
        return self.emit(
            "vector.transfer_read", operands, type_, _transfer(len(place), False, mask is not None)
        )

    def store(
        self, v: IrValue, x: IrValue, place: Sequence[SizeLike], mask: IrValue | None = None
    ) -> IrValue:
        """Writes vector v to array x at `place`, along the last dimension. Returns the new array.

        Where lanes are masked off, the array keeps its elements.
        """
        operands = v, x, *map(self.index, place), *_given(mask)
        return self.emit(
            "vector.transfer_write", operands, x.type, _transfer(len(place), True, mask is not None)
        )

    def cleared(self, x: IrValue, sizes: Sequence[SizeLike]) -> IrValue:
        """Overwrites the array x, which has these sizes, with zeros. Returns the new array."""
        zero, *outer, size = self.zeros(), *sizes
        whole = self.held(quotient(size, self.width) * self.width)

        def row(k: "Vectors", place: Sequence[SizeLike], x: IrValue) -> list[IrValue]:
            (x,) = k.loop(0, whole, k.width, [x], lambda k, i, x: [k.store(zero, x, [*place, i])])
            return [x if size == whole else k.store(zero, x, [*place, whole], k.first(size - whole))]

        return self.nest(outer, [x], row)[0]

    def first(self, n: SizeLike) -> IrValue:
        """The mask of the first n lanes: of all lanes if n exceeds their number, and of no lane if n is negative."""
        return self.emit("vector.create_mask", (self.index(n),), ir.VectorType.get([self.width], signless(1)))

    def every(self, masks: Sequence[IrValue]) -> IrValue | None:
        """The mask of the lanes that are in all of `masks`. Returns None (all lanes) if `masks` is empty."""
        return functools.reduce(lambda x, y: self.arith("andi", x, y), masks) if masks else None

    def except_for(self, x: IrValue, y: IrValue) -> IrValue:
        """The mask of the lanes of x that are not lanes of y."""
        return self.arith("andi", x, self.arith("xori", y, self.splat(self.number(1, signless(1)))))

    def plus_products(
        self, xs: Iterable[IrValue], ys: Sequence[IrValue], sums: Iterable[IrValue]
    ) -> list[IrValue]:
        """Adds a product x y to a sum for each x of `xs` and each y of `ys`. Returns the new sums.

        `sums` has the sums for all y and the first x, then those for the second x, and so on. `xs` may be a generator
        that emits each x right before its products, so that x occupies no register earlier.
        """
        sums = iter(sums)
        return [self._plus_product(x, y, z) for x in xs for y, z in zip(ys, sums, strict=False)]

    def _plus_product(self, x: IrValue, y: IrValue, z: IrValue) -> IrValue:
        """x y + z.

        Uses fma only if the CPU has it, because otherwise IREE would call a library function for each fma.
        """
        if self.fused:
            return self.emit("vector.fma", (x, y, z), z.type)
        contract = {"fastmath": ir.Attribute.parse("#arith.fastmath<contract>")}
        product = self.emit("arith.mulf", (x, y), z.type, contract)
        return self.emit("arith.addf", (product, z), z.type, contract)

    def shuffled(self, x: IrValue, y: IrValue, places: Sequence[int]) -> IrValue:
        """The vector of the elements at indices `places` of the concatenation of x and y."""
        return self.emit("vector.shuffle", (x, y), x.type, {"mask": ir.DenseI64ArrayAttr.get(list(places))})

    def deinterleaved(self, x: IrValue, y: IrValue) -> list[IrValue]:
        """Two vectors: the elements of even index, and those of odd index, of the concatenation of x and y."""
        return [self.shuffled(x, y, range(e, 2 * self.width, 2)) for e in (0, 1)]

    def transposed(self, rows: Sequence[IrValue]) -> Sequence[IrValue]:
        """Transposes a square matrix: takes its rows, returns its columns.

        Successive steps exchange blocks of 1, 2, 4, ... elements between pairs of rows.
        """
        size, count = 1, len(rows)
        while size < count:
            upper = [j if not j & size else count + j - size for j in range(count)]
            lower = [j | size if not j & size else count + j for j in range(count)]
            pairs = {i: (rows[i], rows[i | size]) for i in range(count) if not i & size}
            rows = [self.shuffled(*pairs[i & ~size], lower if i & size else upper) for i in range(count)]
            size *= 2
        return rows

    def totals(self, vs: Sequence[IrValue]) -> IrValue:
        """Sums the elements of each vector: lane i of the result is the sum of the elements of `vs[i]`.

        There are at most as many vectors as lanes; the other lanes of the result are arbitrary. Each step halves the
        number of vectors, since one addition works on two of them: with two lanes, (a0, a1) and (b0, b1) become
        (a0 + a1, b0 + b1).
        """
        block = 1
        while block < self.width:
            # `at` selects alternate blocks of `block` lanes of x and y. At `at` + `block` are the blocks between them.
            at = [
                of + m + e
                for m in range(0, self.width, 2 * block)
                for of in (0, self.width)
                for e in range(block)
            ]
            pairs = [(vs[i], vs[min(i + 1, len(vs) - 1)]) for i in range(0, len(vs), 2)]
            halves = [
                [self.shuffled(*pair, [n + shift for n in at]) for shift in (0, block)] for pair in pairs
            ]
            vs = [self.arith("addf", *each) for each in halves]
            block *= 2
        return vs[0]


def _given(mask: IrValue | None) -> Sequence[IrValue]:
    return () if mask is None else (mask,)


@functools.cache
def _transfer(rank: int, writes: bool, masked: bool) -> dict[str, ir.Attribute]:
    """The attributes of a load or store of a vector along the last of `rank` dimensions."""
    last = ir.AffineMap.get(rank, 0, [ir.AffineExpr.get_dim(rank - 1)])
    segments = [1, 1, rank] if writes else [1, rank, 1]
    return {
        "permutation_map": ir.AffineMapAttr.get(last),
        "in_bounds": ir.ArrayAttr.get([ir.BoolAttr.get(True)]),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([*segments, int(masked)]),
    }
