"""ragged_dot: multiplies each group g of consecutive rows of x by the matrix y[g]. An operand holds the group sizes.

z[m, n] = sum_k x[m, k] y[g(m), k, n]          g(m): the group of row m; z is 0 in rows after the last group
toward x    sum_n ct[m, n] y[g(m), k, n]       a ragged_dot that contracts n
toward y    sum_m [g(m) = g] x[m, k] ct[m, n]  a dot_general with the rows of each group
"""

from collections.abc import Sequence

from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.graph.graph import Definition, Value
from tiduc.dialect.ops.attributes import present
from tiduc.dialect.shapes.types import element, predicate, rank, shape, with_shape
from tiduc.passes.rules.opset import linearize, transpose, unsupported
from tiduc.passes.rules.registry import Tangents

NUMBERS = "ragged_dot_dimension_numbers"
FORM = (
    "#chlo.ragged_dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], "
    "lhs_contracting_dimensions = [1], "
    "rhs_contracting_dimensions = [{}], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>"
)


@linearize("chlo.ragged_dot")
def ragged_dot(b: StablehloBuilder, op: Definition, dx: Tangents) -> list[Value]:
    """The product rule."""
    _contracted(op, "jvp")
    return [b.sum(b.reapply(op, {i: tangent})[0] for i, tangent in enumerate(dx) if tangent is not None)]


@transpose("chlo.ragged_dot")
def ragged_dot_transpose(
    b: StablehloBuilder, op: Definition, ct: Tangents, active: Sequence[bool]
) -> list[Value | None]:
    if active[0] and active[1]:
        raise unsupported("transpose", op, "a product of two active values is not linear")
    contracted = _contracted(op, "transpose")
    x, y, sizes = op.operands
    if 0 in (*shape(x), *shape(y), *shape(op.result)):
        return [None, None, None]
    rule, target, other = (_toward_rows, x, y) if active[0] else (_toward_matrices, y, x)
    cotangent = rule(b, op, ct[0], b.convert(other, element(op.result)), sizes, contracted)
    cotangent = b.convert(cotangent, element(target))
    return [cotangent, None, None] if active[0] else [None, cotangent, None]


def _toward_rows(
    b: StablehloBuilder, op: Definition, ct: Value, y: Value, sizes: Value, contracted: int
) -> Value:
    numbers = {NUMBERS: ir.Attribute.parse(FORM.format(3 - contracted))}
    attributes = present(op.attributes, "precision_config") | numbers
    type_ = with_shape(ct.type, shape(op.operands[0]))
    return b.emit(op.name, (ct, y, sizes), type_, attributes)


def _toward_matrices(
    b: StablehloBuilder, op: Definition, ct: Value, x: Value, sizes: Value, contracted: int
) -> Value:
    """Multiplies ct by one copy of x for each group. In each copy, the rows of the other groups are zero."""
    sizes = b.convert(sizes, ir.IntegerType.get_signless(64))
    copies = with_shape(x.type, [*shape(sizes), *shape(x)])
    places = with_shape(sizes.type, shape(sizes) + shape(x)[:1])
    ends, counts = (b.broadcast_in_dim(v, [0], places) for v in (_running_sums(b, sizes), sizes))
    row = b.iota(1, places)
    inside = b.and_(b.compare(row, b.subtract(ends, counts), "GE"), b.compare(row, ends, "LT"))
    inside = b.broadcast_in_dim(inside, [0, 1], predicate(copies))
    rows = b.select(inside, b.broadcast_in_dim(x, [1, 2], copies), b.zero(copies))
    product = b.dot_general(rows, ct, [[], []], [[1], [0]], _precision(op))
    return product if contracted == 1 else b.transpose(product, [0, 2, 1])


def _precision(op: Definition) -> dict[str, ir.ArrayAttr]:
    """Converts the precision attribute of CHLO (`#chlo<precision HIGH>`) to that of StableHLO."""
    if "precision_config" not in op.attributes:
        return {}
    words = [str(given).rstrip(">").split()[-1] for given in op.attributes["precision_config"]]
    return {"precision_config": ir.ArrayAttr.get([hlo.PrecisionAttr.get(word) for word in words])}


def _running_sums(b: StablehloBuilder, sizes: Value) -> Value:
    square = with_shape(sizes.type, [*shape(sizes), *shape(sizes)])
    up_to = b.compare(b.iota(1, square), b.iota(0, square), "LE")
    return b.reduce_sum(b.select(up_to, b.broadcast_in_dim(sizes, [1], square), b.zero(square)), [1])


def _contracted(op: Definition, rule: str) -> int:
    """Returns the dimension of y that is contracted, 1 or 2. Raises `Unsupported` for any other kind of product."""
    x, y, sizes = op.operands
    if (rank(x), rank(y), rank(sizes)) == (2, 3, 1):
        for dimension in (1, 2):
            if op.attributes[NUMBERS] == ir.Attribute.parse(FORM.format(dimension)):
                return dimension
    raise unsupported(rule, op, "only rows times matrices, without batching dimensions, have a rule")
