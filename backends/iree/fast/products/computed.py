"""`Formula`: an operand that the kernel of a product computes from smaller arrays.

    dot_general %x, (convert %codes) * (broadcast_in_dim %scales)        ->      a kernel that reads %codes and %scales

Weights that a model stores as integers and scales are such operands. IREE would compute the whole operand and store it.
The kernel of tiles.py computes each vector of the operand instead of loading it, and stores only copies of parts of the
operand (panels).
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
"""For each op, the ops of the dialect `arith` on floats and on integers."""
_SHIFTS = {"stablehlo.shift_left": "shli", "stablehlo.shift_right_arithmetic": "shrsi"}
"""For each shift, the op of the dialect `arith`, which is defined only for shifts by less than the number of bits."""

_CONVERT, _BROADCAST, _RESHAPE = "stablehlo.convert", "stablehlo.broadcast_in_dim", "stablehlo.reshape"
_CONCATENATE, _CONSTANT, _ARRAY = "stablehlo.concatenate", "stablehlo.constant", "array"
_MOST = 24
"""The most ops of a formula. The op of a value that several ops read is counted several times."""
_FEWER = 2
"""A formula is used only if the bytes of its result are at least this many times the bytes of the arrays it reads."""


@dataclass(frozen=True)
class Formula:
    """An expression for an array: an op, `name`, on other formulas. If `name` is "array", the kernel reads the array.

    `sizes` and `type` are the shape and the element type. `numbers` depends on `name`: it has the dimensions of a
    broadcast, the dimension of a concatenation, the number that fills a constant, or the index of the array to read.
    """

    name: str
    sizes: tuple[int, ...]
    type: str
    operands: tuple["Formula", ...] = ()
    numbers: tuple[float, ...] = ()

    def at(self, k: Vectors, arrays: Sequence[IrValue], place: Sequence[SizeLike]) -> IrValue:
        """Computes, from the arrays that the formula reads, the vector of elements that begins at the indices `place`.

        The vector runs along the last dimension. The last index of `place` must be a multiple of the vector's length.
        """
        last = smaller(
            place[-1], self.sizes[-1] - k.width
        )  # a tile that ends beyond the array does not use its last vectors
        return _Reader(k, arrays).value(self, [*place[:-1], k.held(last)], True)


def formula_of(x: IrValue, lanes: int) -> tuple[Formula, list[IrValue]] | None:
    """Returns the formula of a value for vectors of `lanes` elements, and the arrays that it reads.

    Returns None unless the formula reads integers, and its arrays have at most 1 / `_FEWER` of the bytes of the value.
    Also returns None if the formula has too many ops, or if `lanes` does not divide the last dimension.
    """
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
    """Builds a formula, collects the arrays that it reads, and counts its ops.

    Once the formula has more than `_MOST` ops, it reads all further values as arrays.
    """

    lanes: int
    ops: int = 0
    arrays: list[IrValue] = field(default_factory=list)

    def formula(self, x: IrValue) -> Formula:
        """Builds the formula of a value of static shape, and adds the arrays that it reads to `arrays`."""
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
    """Whether x is a static array of f32, f64, or signless integers of at least 8 bits."""
    if not isinstance(x.type, ir.RankedTensorType) or not is_static(x.type):
        return False
    of = element(x)
    is_integer = isinstance(of, ir.IntegerType) and of.is_signless and of.width >= 8
    return is_integer or isinstance(of, ir.F32Type | ir.F64Type)


def _numbers(op: IrOp, lanes: int) -> tuple[float, ...] | None:
    """The value of `Formula.numbers` for an op. Returns None if formulas cannot contain the op."""
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
        # The last dimension of the result must be the last dimension of the operand, so that vectors can be loaded, or
        # elements must repeat along it: then it is no dimension of the operand, or one of size 1.
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
        """Computes the vector of elements that begins at the indices `place` if `wide`, else the element at `place`."""
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
        """Computes `value` for a concatenation of `parts`. Only the ops of the part that contains `place` run."""
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
    """Converts the indices `place` of an element in the result of a reshape to its indices in the operand.

    The operand has the shape `to`, and the result has the shape `sizes`.
    """
    same = next(
        (i for i, (m, n) in enumerate(zip(sizes, to, strict=False)) if m != n), min(len(sizes), len(to))
    )
    rest = k.held(k.linear_index(sizes[same:], place[same:]))
    found: list[SizeLike] = []
    for n in reversed(to[same + 1 :]):
        found.append(rest % n)
        rest = rest // n
    return [*place[:same], *([rest] if len(to) > same else []), *reversed(found)]
