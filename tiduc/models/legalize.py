"""legalize: rewrites ops of other dialects, which exporters emit, to StableHLO. Unknown ops raise an error.

    %c = arith.constant dense<1> : tensor<1xi64>            ->  stablehlo.constant
    %d = tensor.dim %x, %c0                                     stablehlo.get_dimension_size
    %s = tensor.from_elements %d, %c3 : tensor<2xindex>         reshape, concatenate

A scalar becomes a tensor of rank 0, and `index` becomes i32, the type of StableHLO's sizes. Dynamic dimensions that a
broadcast combines are assumed to be equal and not 1, because exporters keep a dimension dynamic only if they have
checked this. Constraints in the exported program are dropped.
"""

from collections.abc import Callable, Collection, Sequence
from itertools import zip_longest
from math import prod
from typing import Any

from torch_mlir import ir

from tiduc.dialect.emitters.bodies import IrEmitter
from tiduc.dialect.errors import Unsupported
from tiduc.dialect.graph.functions import outer_first
from tiduc.dialect.graph.graph import operations
from tiduc.dialect.graph.matching import defined_by
from tiduc.dialect.mlir.context import run_passes, stage
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.ops.shardy import DIALECT as SHARDY
from tiduc.dialect.shapes.types import i64


class _Sizes(IrEmitter):
    """Emits tensors that hold shapes, and remembers the sizes in each of these tensors.

    A size is an integer, or a scalar in the program.
    """

    def __init__(
        self, ip: ir.InsertionPoint, location: ir.Location, known: dict[IrValue, list[int | IrValue]]
    ) -> None:
        super().__init__(ip, location)
        self._known = known

    def shape(self, sizes: Sequence[int | IrValue], element: ir.Type) -> IrValue:
        """Emits a one-dimensional tensor that holds these sizes."""
        numbers = [n for n in sizes if isinstance(n, int)]
        if len(numbers) == len(sizes):
            x = self.constant(numbers, ir.RankedTensorType.get([len(sizes)], element))
        else:
            scalar = ir.RankedTensorType.get([], element)
            scalars = [self.constant(n, scalar) if isinstance(n, int) else n for n in sizes]
            parts = [self.reshape(n, [1]) for n in scalars]
            x = parts[0] if len(parts) == 1 else self.concatenate(parts, 0)
        self._known[x] = list(sizes)
        return x

    def numbers(self, x: IrValue) -> list[int | IrValue]:
        """The sizes in a tensor that holds a shape. Emits scalars for sizes that are not remembered."""
        if x not in self._known:
            count = x.type.shape[0]
            parts = [self.slice(x, [i], [i + 1], [1]) for i in range(count)]
            self._known[x] = [self.reshape(part, []) for part in parts]
        return self._known[x]


Rule = Callable[[_Sizes, Any, list[Any]], Any]
"""Emits the result of an op. The last argument is the list of the op's operands, already converted to tensors."""

_KEPT = ("stablehlo", "chlo", "func", "builtin", SHARDY)
_OPTIMIZED = "builtin.module(func.func(remove-shape-constraints),canonicalize,cse)"
_BROADCAST, _RESHAPE = "stablehlo.dynamic_broadcast_in_dim", "stablehlo.dynamic_reshape"


@stage
def legalize(module: ir.Module, dialects: Collection[str] = ()) -> None:
    """Rewrites a module to StableHLO and CHLO, in place. Ops of `dialects` stay unchanged.

    Raises `Unsupported` for the first op of another dialect that has no rule.
    """
    kept = {*_KEPT, *dialects}
    if not any(_is_foreign(op, kept) for op in outer_first(module.operation)):
        return
    run_passes(module.operation, _OPTIMIZED)
    for op in operations(module.body):
        # Such a global is the state of a random number generator. An op that reads the state has no rule.
        if op.name == "ml_program.global":
            op.erase()
    tensors: dict[Any, Any] = {}
    known: dict[Any, list[Any]] = {}
    foreign = [op for op in outer_first(module.operation) if _is_foreign(op, kept)]
    for op in foreign:
        rule = _RULES.get(op.name)
        if rule is None:
            raise Unsupported(f"{op.name} has no lowering to StableHLO", op.location)
        b = _Sizes(ir.InsertionPoint(op), op.location, known)
        tensors[op.result] = rule(b, op, [tensors.get(x, x) for x in op.operands])
    for op in foreign:
        _replace(op.result, tensors[op.result], kept)
    for op in reversed(foreign):
        op.erase()
    for op in outer_first(module.operation):
        _without_reshape(op)
    run_passes(module.operation, "builtin.module(canonicalize,cse)", verify=True)


def _without_reshape(op: IrOp) -> None:
    """Removes a dynamic broadcast or reshape that has no effect.

    A reshape that only adds dimensions of size 1 becomes a broadcast.
    """
    if op.name not in (_BROADCAST, _RESHAPE):
        return
    x, sizes = op.operands
    if x.type == op.result.type and (op.name == _BROADCAST or _count_dynamic(x.type) == 1):
        op.result.replace_all_uses_with(x)
        op.erase()
    elif op.name == _RESHAPE and (kept := _added_ones(list(x.type.shape), list(op.result.type.shape))):
        b = IrEmitter(ir.InsertionPoint(op), op.location)
        dimensions = {"broadcast_dimensions": ir.DenseI64ArrayAttr.get(kept)}
        op.result.replace_all_uses_with(b.emit(_BROADCAST, (x, sizes), op.result.type, dimensions))
        op.erase()


def _count_dynamic(type_: ir.RankedTensorType) -> int:
    return sum(type_.is_dynamic_dim(i) for i in range(type_.rank))


def _added_ones(old: list[int], new: list[int]) -> list[int] | None:
    """The positions of the old dimensions in a new shape that only adds dimensions of size 1. None for other shapes.

    Exactly one old dimension must be dynamic. It has the same size in both shapes, because the numbers of elements and
    all other sizes are equal.
    """
    kept: list[int] = []
    for i, n in enumerate(new):
        if len(kept) < len(old) and old[len(kept)] == n:
            kept.append(i)
        elif n != 1:
            return None
    return kept if len(kept) == len(old) and sum(n < 0 for n in old) == 1 else None


def _is_foreign(op: IrOp, kept: Collection[str]) -> bool:
    return op.name.partition(".")[0] not in kept


def _replace(old: IrValue, new: IrValue, kept: Collection[str]) -> None:
    """Replaces a value by a tensor in StableHLO ops. Other ops keep their operands, because they are erased later."""
    for use in list(old.uses):
        owner = use.owner.operation
        if not _is_foreign(owner, kept):
            owner.operands[use.operand_number] = new


# ---- types -------------------------------------------------------------------------------------------------


def _tensor(type_: ir.Type) -> ir.RankedTensorType:
    """The tensor type that replaces a type. A scalar becomes a tensor of rank 0, and `index` becomes i32."""
    if isinstance(type_, ir.RankedTensorType):
        return ir.RankedTensorType.get(type_.shape, _element(type_.element_type))
    return ir.RankedTensorType.get([], _element(type_))


def _element(type_: ir.Type) -> ir.Type:
    return ir.IntegerType.get_signless(32) if isinstance(type_, ir.IndexType) else type_


# ---- arith -------------------------------------------------------------------------------------------------


def _constant(b: _Sizes, op: IrOp, operands: list[IrValue]) -> IrValue:
    value, type_ = op.attributes["value"], _tensor(op.result.type)
    if not isinstance(op.result.type, ir.RankedTensorType):
        entry = (
            ir.IntegerAttr.get(type_.element_type, ir.IntegerAttr(value).value)
            if _is_integer(type_)
            else value
        )
        value = ir.DenseElementsAttr.get_splat(type_, entry)
    elif isinstance(op.result.type.element_type, ir.IndexType):
        entries = [ir.IntegerAttr.get(type_.element_type, int(n)) for n in ir.DenseIntElementsAttr(value)]
        value = ir.DenseElementsAttr.get(entries, type_)
    return b.emit("stablehlo.constant", (), type_, {"value": value})


def _const_shape(b: _Sizes, op: IrOp, operands: list[IrValue]) -> IrValue:
    sizes = [int(n) for n in ir.DenseIntElementsAttr(op.attributes["shape"])]
    return b.shape(sizes, ir.IntegerType.get_signless(32))


def _is_integer(type_: ir.RankedTensorType) -> bool:
    return isinstance(type_.element_type, ir.IntegerType)


def _direct(name: str) -> Rule:
    """A rule that emits the StableHLO op `name` with the operands of the original op."""
    return lambda b, op, operands: b.emit(name, operands, operands[0].type)


def _converted(b: _Sizes, op: IrOp, operands: list[IrValue]) -> IrValue:
    return b.convert(operands[0], _tensor(op.result.type).element_type)


# The predicates of `arith.cmpi` in the order of their numbers. The predicates with higher numbers are unsigned.
_PREDICATES = ("EQ", "NE", "LT", "LE", "GT", "GE")


def _compare(b: _Sizes, op: IrOp, operands: list[IrValue]) -> IrValue:
    predicate = ir.IntegerAttr(op.attributes["predicate"]).value
    if predicate >= len(_PREDICATES):
        raise Unsupported(f"an unsigned {op.name} has no lowering to StableHLO", op.location)
    x, y = operands
    return b.compare(x, y, _PREDICATES[predicate])


def _select(b: _Sizes, op: IrOp, operands: list[IrValue]) -> IrValue:
    return b.select(*operands)


# ---- tensor ------------------------------------------------------------------------------------------------


def _dim(b: _Sizes, op: IrOp, operands: list[IrValue]) -> IrValue:
    index = defined_by(op.operands[1], "arith.constant")
    if index is None:
        raise Unsupported(f"{op.name} needs a constant index of the dimension", op.location)
    size = _size(b, operands[0], ir.IntegerAttr(index.attributes["value"]).value)
    return b.constant(size, _tensor(op.result.type)) if isinstance(size, int) else size


def _size(b: _Sizes, x: IrValue, dimension: int) -> int | IrValue:
    """The size of a dimension: an int, or a scalar in the program if the dimension is dynamic."""
    if not x.type.is_dynamic_dim(dimension):
        return int(x.type.shape[dimension])
    scalar = ir.RankedTensorType.get([], ir.IntegerType.get_signless(32))
    number = i64(dimension)
    return b.emit("stablehlo.get_dimension_size", (x,), scalar, {"dimension": number})


def _from_elements(b: _Sizes, op: IrOp, operands: list[IrValue]) -> IrValue:
    type_ = _tensor(op.result.type)
    x = b.shape(operands, type_.element_type)
    return x if type_.rank == 1 else b.reshape(x, type_.shape)


def _extract(b: _Sizes, op: IrOp, operands: list[IrValue]) -> IrValue:
    x, *start = operands
    return b.reshape(b.dynamic_slice(x, start, [1] * x.type.rank), []) if start else x


def _cast(b: _Sizes, op: IrOp, operands: list[IrValue]) -> IrValue:
    """Returns the operand. A cast that changes static sizes to dynamic sizes, or back, is not supported."""
    if list(operands[0].type.shape) != list(op.result.type.shape):
        raise Unsupported("a tensor.cast that changes the shape has no lowering to StableHLO", op.location)
    return operands[0]


# ---- shape -------------------------------------------------------------------------------------------------


def _shape_of(b: _Sizes, op: IrOp, operands: list[IrValue]) -> IrValue:
    sizes = [_size(b, operands[0], i) for i in range(operands[0].type.rank)]
    return b.shape(sizes, ir.IntegerType.get_signless(32))


def _num_elements(b: _Sizes, op: IrOp, operands: list[IrValue]) -> IrValue:
    """The product of the sizes, as products of scalars: StableHLO's passes can fold these, but not a reduction."""
    numbers = b.numbers(operands[0])
    known = prod(n for n in numbers if isinstance(n, int))
    product: IrValue = b.constant(known, ir.RankedTensorType.get([], operands[0].type.element_type))
    for size in numbers:
        product = product if isinstance(size, int) else b.multiply(product, size)
    return product


def _broadcast(b: _Sizes, op: IrOp, operands: list[IrValue]) -> IrValue:
    """The broadcast of shapes. The size of a dimension is a constant other than 1 if there is one.

    Otherwise, it is a dynamic size if there is one, else 1.
    """
    shapes = [b.numbers(x)[::-1] for x in operands]
    sizes: list[int | IrValue] = []
    for met in zip_longest(*shapes, fillvalue=1):
        numbers = [n for n in met if isinstance(n, int) and n != 1]
        scalars = [n for n in met if isinstance(n, ir.Value)]
        sizes.append(numbers[0] if numbers else scalars[0] if scalars else 1)
    return b.shape(sizes[::-1], operands[0].type.element_type)


def _forwarded(b: _Sizes, op: IrOp, operands: list[IrValue]) -> IrValue:
    return operands[0]


_RULES: dict[str, Rule] = {
    "arith.addf": _direct("stablehlo.add"),
    "arith.addi": _direct("stablehlo.add"),
    "arith.ceildivsi": lambda b, op, xs: b.negate(floor_divide(b, b.negate(xs[0]), xs[1])),
    "arith.cmpi": _compare,
    "arith.constant": _constant,
    "arith.divf": _direct("stablehlo.divide"),
    "arith.divsi": _direct("stablehlo.divide"),
    "arith.divui": _direct("stablehlo.divide"),
    "arith.extf": _converted,
    "arith.extsi": _converted,
    "arith.floordivsi": lambda b, op, xs: floor_divide(b, *xs),
    "arith.index_cast": _converted,
    "arith.maxsi": _direct("stablehlo.maximum"),
    "arith.minsi": _direct("stablehlo.minimum"),
    "arith.mulf": _direct("stablehlo.multiply"),
    "arith.muli": _direct("stablehlo.multiply"),
    "arith.remsi": _direct("stablehlo.remainder"),
    "arith.select": _select,
    "arith.sitofp": _converted,
    "arith.subf": _direct("stablehlo.subtract"),
    "arith.subi": _direct("stablehlo.subtract"),
    "arith.truncf": _converted,
    "arith.trunci": _converted,
    "shape.broadcast": _broadcast,
    "shape.const_shape": _const_shape,
    "shape.from_extents": _from_elements,
    "shape.num_elements": _num_elements,
    "shape.shape_of": _shape_of,
    "shape.to_extent_tensor": _forwarded,
    "tensor.cast": _cast,
    "tensor.dim": _dim,
    "tensor.extract": _extract,
    "tensor.from_elements": _from_elements,
}
"""The rule for each op outside StableHLO that exporters are known to leave in their programs."""


def floor_divide(b: IrEmitter, x: IrValue, y: IrValue) -> IrValue:
    """The quotient x / y rounded down. (StableHLO's `divide` rounds toward zero.)"""
    quotient, rest = b.divide(x, y), b.remainder(x, y)
    zero, one = b.constant(0, x.type), b.constant(1, x.type)
    differs = b.compare(b.compare(rest, zero, "LT"), b.compare(y, zero, "LT"), "NE")
    down = b.and_(b.compare(rest, zero, "NE"), differs)
    return b.select(down, b.subtract(quotient, one), quotient)
