"""`Formula`: an operand that the kernel of a product computes from smaller arrays.

    dot_general %x, (convert %codes) * (broadcast_in_dim %scales)        ->      a kernel that reads %codes and %scales

Weights that a model stores as integers and scales are such operands. IREE would store the whole operand. The kernel
computes each vector of the operand instead of loading it, and stores only panels (tiles.py).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from torch_mlir import ir

from tiduc.backends.iree.emit.emitter import is_static
from tiduc.backends.iree.emit.sizes import SizeLike, smaller
from tiduc.backends.iree.emit.vectors import Vectors
from tiduc.dialect.graph.matching import defined_by, definition
from tiduc.dialect.mlir.constants import is_splat, splat_number
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.shapes.types import element, shape

_ARITHMETIC = {
    "stablehlo.add": ("addf", "addi"),
    "stablehlo.subtract": ("subf", "subi"),
    "stablehlo.multiply": ("mulf", "muli"),
}
"""The ops of `arith` for floats and for integers."""
_SHIFTS = {"stablehlo.shift_left": "shli", "stablehlo.shift_right_arithmetic": "shrsi"}
"""The ops of `arith` for shifts by less than the number of bits."""

_CONVERT, _BROADCAST, _RESHAPE = "stablehlo.convert", "stablehlo.broadcast_in_dim", "stablehlo.reshape"
_CONCATENATE, _CONSTANT, _ARRAY = "stablehlo.concatenate", "stablehlo.constant", "array"
_MOST = 24
"""The most ops of a formula. A value that several ops read counts several times."""
_FEWER = 2
"""A formula is used if its result has at least this many times the bytes of its arrays."""


@dataclass(frozen=True)
class Formula:
    """An array as the result of an op.

    `numbers` depends on the op: the dimensions of a broadcast or concatenation, the number that a constant repeats, or
    the index of an array that the code reads.
    """

    name: str
    sizes: tuple[int, ...]
    type: str
    operands: tuple["Formula", ...] = ()
    numbers: tuple[float, ...] = ()

    def at(self, k: Vectors, arrays: Sequence[IrValue], place: Sequence[SizeLike]) -> IrValue:
        """The vector along the last dimension that starts at `place`, a multiple of the vector's length."""
        last = smaller(place[-1], self.sizes[-1] - k.width)  # lanes beyond the end are not used
        return _Reader(k, arrays).value(self, [*place[:-1], k.held(last)], True)


def formula_of(x: IrValue, lanes: int) -> tuple[Formula, list[IrValue]] | None:
    """The formula of a value for vectors of `lanes` elements, and its arrays. None if reading the value is as fast."""
    gathered = _Gathered(lanes)
    formula = gathered.formula(x)
    has_integers = any(isinstance(element(each), ir.IntegerType) for each in gathered.arrays)
    is_smaller = _FEWER * sum(map(_bytes, gathered.arrays)) <= _bytes(x)
    is_taken = has_integers and is_smaller and gathered.ops <= _MOST and formula.sizes[-1] % lanes == 0
    return (formula, gathered.arrays) if is_taken else None


def _bytes(x: IrValue) -> int:
    count: int = math.prod(shape(x)) * element(x).width
    return count


@dataclass
class _Gathered:
    """Collects the arrays of a formula and counts its ops. After more than `_MOST` ops, all values become arrays."""

    lanes: int
    ops: int = 0
    arrays: list[IrValue] = field(default_factory=list)

    def formula(self, x: IrValue) -> Formula:
        """The formula of a value of static shape."""
        op, sizes, kind = definition(x), tuple(shape(x)), str(element(x))
        numbers = None
        if op is not None and self.ops <= _MOST and all(map(_is_plain, (x, *op.operands))):
            numbers = _numbers(op, self.lanes)
        if op is None or numbers is None:
            if x not in self.arrays:
                self.arrays.append(x)
            return Formula(_ARRAY, sizes, kind, (), (self.arrays.index(x),))
        self.ops += 1
        return Formula(op.name, sizes, kind, tuple(map(self.formula, op.operands)), numbers)


def _is_plain(x: IrValue) -> bool:
    """Whether x is a static array of an element type that the kernel's `arith` ops take."""
    if not isinstance(x.type, ir.RankedTensorType) or not is_static(x.type):
        return False
    of = element(x)
    is_integer = isinstance(of, ir.IntegerType) and of.is_signless and of.width >= 8
    return is_integer or isinstance(of, ir.F32Type | ir.F64Type)


def _numbers(op: IrOp, lanes: int) -> tuple[float, ...] | None:
    """The `numbers` of an op's formula. None if formulas cannot contain the op."""
    y = op.results[0]
    is_float = isinstance(element(y), ir.FloatType)
    if op.name in _SHIFTS:
        return () if _is_within(op.operands[1], element(y).width) else None
    if op.name in _ARITHMETIC:
        return ()
    if op.name == _CONVERT:
        return () if is_float and isinstance(element(op.operands[0]), ir.IntegerType) else None
    if op.name == _CONSTANT:
        return (splat_number(op.attributes["value"]),) if is_splat(op.attributes["value"]) else None
    sizes = [shape(each) for each in (*op.operands, y)]
    if op.name == _BROADCAST:
        order = tuple(op.attributes["broadcast_dimensions"])
        own, last = sizes[0], len(sizes[1]) - 1
        # The result's last dimension must be the operand's last, or not a dimension of the operand, or of size 1 there.
        moved = last in order[:-1] and own[order.index(last)] != 1
        return None if moved or (order and order[-1] == last and own[-1] % lanes and own[-1] != 1) else order
    whole = all(each and each[-1] % lanes == 0 for each in sizes)
    if op.name == _RESHAPE:
        return () if whole else None
    if op.name == _CONCATENATE:
        return (op.attributes["dimension"].value,) if whole else None
    return None


def _is_within(x: IrValue, width: int) -> bool:
    """Whether x is a splat constant of a number from 0 to `width` - 1."""
    constant = defined_by(x, _CONSTANT)
    value = None if constant is None else constant.attributes["value"]
    return value is not None and is_splat(value) and 0 <= splat_number(value) < width


@dataclass(frozen=True)
class _Reader:
    """Emits the ops that compute vectors, or single elements, of formulas."""

    k: Vectors
    arrays: Sequence[IrValue]

    def value(self, f: Formula, place: Sequence[SizeLike], wide: bool) -> IrValue:
        """The vector of elements that starts at a place if `wide`, else the element at that place."""
        k = self.k
        type_: ir.Type = ir.Type.parse(f.type)
        if f.name == _ARRAY:
            x = self.arrays[int(f.numbers[0])]
            return k.load(x, place) if wide else k.element(x, *place)
        if f.name == _CONSTANT:
            number = f.numbers[0] if isinstance(type_, ir.FloatType) else int(f.numbers[0])
            return self._spread(k.number(number, type_), wide)
        if f.name == _BROADCAST:
            return self._broadcast(f, place, wide)
        if f.name == _RESHAPE:
            return self.value(f.operands[0], _moved(f.sizes, f.operands[0].sizes, place, k), wide)
        if f.name == _CONCATENATE:
            return self._concatenated(f, list(f.operands), list(place), wide)
        xs = [self.value(each, place, wide) for each in f.operands]
        if f.name in _SHIFTS:
            return k.arith(_SHIFTS[f.name], *xs)
        if f.name in _ARITHMETIC:
            return k.arith(_ARITHMETIC[f.name][isinstance(type_, ir.IntegerType)], *xs)
        return k.emit("arith.sitofp", xs, ir.VectorType.get([k.width], type_) if wide else type_)

    def _spread(self, x: IrValue, wide: bool) -> IrValue:
        return self.k.splat(x) if wide else x

    def _broadcast(self, f: Formula, place: Sequence[SizeLike], wide: bool) -> IrValue:
        (x,), order = f.operands, [int(d) for d in f.numbers]
        at = [0 if n == 1 else place[d] for n, d in zip(x.sizes, order, strict=True)]
        along = bool(order) and order[-1] == len(f.sizes) - 1 and x.sizes[-1] != 1
        value = self.value(x, at, wide and along)
        return value if along else self._spread(value, wide)

    def _concatenated(self, f: Formula, parts: list[Formula], place: list[SizeLike], wide: bool) -> IrValue:
        """The value of a concatenation of `parts` at a place. Only the ops of the part that contains the place run."""
        first, *others = parts
        if not others:
            return self.value(first, place, wide)
        k, d = self.k, int(f.numbers[0])
        size, of = first.sizes[d], ir.Type.parse(f.type)
        inside = k.compared("ult", place[d], size)
        later = [*place[:d], place[d] - size, *place[d + 1 :]]
        type_ = ir.VectorType.get([k.width], of) if wide else of
        return k.if_(
            inside,
            [type_],
            lambda k: [_Reader(k, self.arrays).value(first, place, wide)],
            lambda k: [_Reader(k, self.arrays)._concatenated(f, others, later, wide)],
        )[0]


def _moved(sizes: Sequence[int], to: Sequence[int], place: Sequence[SizeLike], k: Vectors) -> list[SizeLike]:
    """Where an element was before a reshape. An array of sizes `to` became `sizes`; the element is now at `place`."""
    same = next(
        (i for i, (m, n) in enumerate(zip(sizes, to, strict=False)) if m != n), min(len(sizes), len(to))
    )
    rest = k.held(k.linear_index(sizes[same:], place[same:]))
    found: list[SizeLike] = []
    for n in reversed(to[same + 1 :]):
        found.append(rest % n)
        rest = rest // n
    return [*place[:same], *([rest] if len(to) > same else []), *reversed(found)]
