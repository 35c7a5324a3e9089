"""Simplifications of products of matrices, which `simplify.py` applies.

    dot_general I, x                      -> x, transposed and broadcast, where I is a (broadcast) identity matrix
    dot_general 1, x                      -> reduce-add x, broadcast, where all elements of 1 are ones
    dot_general x, (broadcast y)          -> dot_general x, y, if y is repeated along batches: x gets more rows
    reduce-add (dot_general x, y)         -> dot_general x, y, which also contracts the batches, if these are added up

Identity matrices hold the basis vectors of Jacobians and Laplacians. In programs from PyTorch, a linear layer on arrays
of more than two dimensions repeats its weights along batches, and the gradient of the weights is a sum over the
batches.
"""

from collections.abc import Sequence

from torch_mlir import ir

from tiduc.dialect.emitters.bodies import IrEmitter
from tiduc.dialect.facts.identities import is_ones, is_splat_of
from tiduc.dialect.graph.graph import operations
from tiduc.dialect.graph.matching import defined_by
from tiduc.dialect.ops.contractions import NUMBERS, Contraction, Pair
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.dialect.shapes.types import is_wide

_PRODUCT = "stablehlo.dot_general"
_PLACES = "broadcast_dimensions"

# ---- a product with an identity matrix is the other operand --------------------------------------------------


def _multiplies_identity(op: IrOp, unit: IrOp) -> bool:
    """Whether a product without batches contracts one of the two dimensions of a broadcast identity matrix."""
    contracting, _ = _contracting(op, unit)
    types = [x.type.element_type for x in (*op.operands, op.result)]
    return (
        op.operands[0] != op.operands[1]
        and len(contracting) == 1
        and not Contraction.of(op).batches[0]
        and types.count(types[0]) == 3
        and contracting[0] in _dimensions_of_unit(unit)
    )


def _contracting(op: IrOp, unit: IrOp) -> Pair:
    """The contracted dimensions of `unit`, an operand of the product `op`, and those of the other operand."""
    both = Contraction.of(op).summed
    return both if op.operands[0] == unit.result else both[::-1]


def _dimensions_of_unit(unit: IrOp) -> list[int]:
    """The two dimensions along which a value is an identity matrix; empty if it is not one."""
    places, matrix = [0, 1], unit.result
    if unit.name == "stablehlo.broadcast_in_dim":
        places, matrix = list(unit.attributes[_PLACES]), unit.operands[0]
    convert = defined_by(matrix, "stablehlo.convert")
    sizes = list(matrix.type.shape)
    if convert is None or len(sizes) != 2 or sizes != [sizes[0]] * 2 or not _is_unit(convert.operands[0]):
        return []
    return places if [unit.result.type.shape[d] for d in places] == sizes else []


def _is_unit(flags: IrValue) -> bool:
    """Whether a matrix of booleans, in the form that `jacobian` emits, is true exactly on the diagonal."""
    compare = defined_by(flags, "stablehlo.compare")
    if (
        compare is None
        or str(compare.attributes["comparison_direction"]) != "#stablehlo<comparison_direction EQ>"
    ):
        return False
    return {_counts_along(x) for x in compare.operands} == {0, 1}


def _counts_along(x: IrValue) -> int | None:
    """The dimension of a matrix along which it holds 0, 1, 2, ...; None for any other matrix."""
    if (iota := defined_by(x, "stablehlo.iota")) is not None:
        return int(iota.attributes["iota_dimension"].value)
    spread = defined_by(x, "stablehlo.broadcast_in_dim")
    if spread is None or defined_by(spread.operands[0], "stablehlo.iota") is None:
        return None
    (dimension,) = spread.attributes[_PLACES]
    (count,) = spread.operands[0].type.shape
    return int(dimension) if count == x.type.shape[dimension] else None


def without_identity(op: IrOp, unit: IrOp) -> IrValue | None:
    """Emits the product of x and an identity matrix as x, transposed and broadcast. Returns None for other products.

    In the result, the contracted dimension of x is where the other dimension of the identity matrix would be.
    """
    if not _multiplies_identity(op, unit):
        return None
    ip = ir.InsertionPoint(op)
    (summed,), (at,) = _contracting(op, unit)
    x, is_left = other_operand(op, unit), op.operands[0] == unit.result
    rest = [d for d in range(x.type.rank) if d != at]
    free = [d for d in range(unit.result.type.rank) if d != summed]
    (kept,) = (free.index(d) for d in _dimensions_of_unit(unit) if d != summed)
    order = [at, *rest] if is_left else [*rest, at]
    behind = [len(free) + i for i in range(len(rest))]
    places = [kept, *behind] if is_left else [*range(len(rest)), len(rest) + kept]
    type_ = ir.RankedTensorType.get([x.type.shape[d] for d in order], x.type.element_type)
    moved = {"permutation": ir.DenseI64ArrayAttr.get(order)}
    y = ir.Operation.create("stablehlo.transpose", [type_], [x], moved, loc=op.location, ip=ip).result
    spread = {_PLACES: ir.DenseI64ArrayAttr.get(places)}
    name = "stablehlo.broadcast_in_dim"
    return ir.Operation.create(name, [op.result.type], [y], spread, loc=op.location, ip=ip).result


def other_operand(op: IrOp, inner: IrOp) -> IrValue:
    """The operand of a product other than the result of the inner op."""
    x: IrValue = op.operands[int(op.operands[0] == inner.result)]
    return x


# ---- a product with ones is a sum ------------------------------------------------------------------------------


def with_ones(op: IrOp, ones: IrOp) -> IrValue | None:
    """Emits the product of x and an array of ones as a sum of x over its contracted dimensions, broadcast.

    Returns None for other products, and for products of narrow floats, which may be added up in a wider type.
    """
    x = other_operand(op, ones)
    types = [y.type.element_type for y in (*op.operands, op.result)]
    if types.count(types[0]) != 3 or not is_wide(types[0]) or not is_ones(ones.result) or is_ones(x):
        return None
    side, of = int(op.operands[0] == ones.result), Contraction.of(op)
    places = of.places(side, [y.type.rank for y in op.operands])
    along = [places[d] for d in range(x.type.rank) if d in places]
    static = x.type.has_static_shape and ones.result.type.has_static_shape
    if not of.summed[0] or along != sorted(along) or not static or "algorithm" in op.attributes:
        return None
    b = IrEmitter(ir.InsertionPoint(op), op.location)
    total = b.reduce_sum(x, of.summed[side])
    return total if total.type == op.result.type else b.broadcast_in_dim(total, along, op.result.type)


# ---- repeated batches become rows, and summed batches are contracted -----------------------------------------


def _equal_batches(op: IrOp, spread: IrOp) -> list[int]:
    """The indices of the batching dimensions along which the second operand is repeated.

    Empty if a shape is dynamic. Also empty if making these dimensions rows of the first operand would change the order
    of the result's dimensions.
    """
    if op.operands[1] != spread.result or not all(
        x.type.has_static_shape for x in (*op.operands, *spread.operands)
    ):
        return []
    of = Contraction.of(op)
    (left, right), full = of.batches, _full_dimensions(spread)
    equal = [i for i, d in enumerate(right) if d not in full]
    rest = [d for i, d in enumerate(left) if i not in equal]
    free = of.kept(0, op.operands[0].type.rank)
    moved = sorted([*free, *(left[i] for i in equal)])
    return equal if [*left, *free] == [*rest, *moved] else []


def _full_dimensions(spread: IrOp) -> dict[int, int]:
    """Maps dimensions of a broadcast's result to dimensions of its operand that have the same size."""
    x, y = (value.type.shape for value in (spread.operands[0], spread.result))
    return {place: d for d, place in enumerate(spread.attributes[_PLACES]) if x[d] == y[place]}


def without_equal_batches(op: IrOp, spread: IrOp) -> IrValue | None:
    """Emits the product with fewer batches. Batches along which the second operand repeats become rows of the first.

    Returns None if the second operand is not repeated or if a shape is dynamic. Also returns None if the order of the
    result's dimensions would change.
    """
    equal = _equal_batches(op, spread)
    if not equal:
        return None
    ip = ir.InsertionPoint(op)
    of = Contraction.of(op)
    dropped = [of.batches[1][i] for i in equal]
    remaining = [d for d in range(spread.result.type.rank) if d not in dropped]
    x = spread.operands[0]
    ones = [d for d, place in enumerate(spread.attributes[_PLACES]) if place in dropped]
    sizes = [n for d, n in enumerate(x.type.shape) if d not in ones]
    narrow = ir.RankedTensorType.get(sizes, x.type.element_type)
    if ones:
        x = ir.Operation.create("stablehlo.reshape", [narrow], [x], loc=op.location, ip=ip).result
    places = [remaining.index(place) for place in spread.attributes[_PLACES] if place not in dropped]
    type_ = ir.RankedTensorType.get([spread.result.type.shape[d] for d in remaining], x.type.element_type)
    if x.type != type_ or places != sorted(places):
        moved = {_PLACES: ir.DenseI64ArrayAttr.get(places)}
        wide = ir.Operation.create("stablehlo.broadcast_in_dim", [type_], [x], moved, loc=op.location, ip=ip)
        x = wide.result
    left, right = ([d for i, d in enumerate(own) if i not in equal] for own in of.batches)
    over_left, over_right = of.summed
    batches, summed = (left, map(remaining.index, right)), (over_left, map(remaining.index, over_right))
    return _copy(ip, op, [op.operands[0], x], op.result.type, Contraction.new(batches, summed))


def _adds_batches(op: IrOp, product: IrOp) -> bool:
    """Whether the reduction `op` starts from zero and adds up batches of a product that nothing else reads."""
    zero = defined_by(op.operands[1], "stablehlo.constant")
    if (
        len(op.operands) != 2
        or zero is None
        or not is_splat_of(zero.attributes["value"], zero.result.type, 0)
    ):
        return False
    body = [each.name for each in operations(op.regions[0].blocks[0])]
    if body != ["stablehlo.add", "stablehlo.return"] or len(list(product.result.uses)) != 1:
        return False
    reduced = list(op.attributes["dimensions"])
    return (
        bool(reduced)
        and max(reduced) < len(Contraction.of(product).batches[0])
        and op.result.type.element_type == product.result.type.element_type
    )


def contracting_batches(op: IrOp, product: IrOp) -> IrValue | None:
    """Emits a product that contracts the batches that the reduction `op` sums. Returns None for other reductions."""
    if not _adds_batches(op, product):
        return None
    ip = ir.InsertionPoint(op)
    reduced, of = list(op.attributes["dimensions"]), Contraction.of(product)
    batches = [[d for i, d in enumerate(own) if i not in reduced] for own in of.batches]
    summed = [[*(own[i] for i in reduced), *more] for own, more in zip(of.batches, of.summed, strict=True)]
    return _copy(ip, product, list(product.operands), op.result.type, Contraction.new(batches, summed))


def _copy(
    ip: ir.InsertionPoint,
    product: IrOp,
    operands: Sequence[IrValue],
    type_: ir.RankedTensorType,
    of: Contraction,
) -> IrValue:
    """A copy of a product with other operands, another type and another contraction."""
    given = {name: product.attributes[name] for name in product.attributes}
    given[NUMBERS] = of.attribute
    return ir.Operation.create(_PRODUCT, [type_], operands, given, loc=product.location, ip=ip).result
