"""simplify: simplifications of derivatives that the native passes lack, as PDL patterns for MLIR's greedy driver.

    the identities of `dialect/identities.py` for neutral elements, negations, and broadcasts of splat constants
    add x, (dynamic_update_slice 0, u, i) -> dynamic_update_slice x, (add (dynamic_slice x, i), u), i
    add x, (scatter-add 0, i, u)          -> scatter-add x, i, u
    dot_general I, x                      -> x, transposed and broadcast, where I is a (broadcast) identity matrix

The two of `add` occur where a backward loop accumulates the cotangent of an array that each iteration slices: the sum
is then updated in place, and an iteration costs as much as its slice. The identity matrix holds the basis vectors of a
Jacobian or a Laplacian; its product with the weights of a first layer is these weights.

StableHLO's simplification does not apply these to floats. Matching PDL is native: Python is called only for an op
whose operand is the result of an op of the right name.
"""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from torch_mlir import ir, rewrite
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.dialect.context import context, stage
from tiduc.dialect.dependences import defined_by
from tiduc.dialect.graph import Definition, Value, operations
from tiduc.dialect.identities import IDENTITIES, NEUTRAL, is_splat_of

_PATTERN = """
pdl.pattern @{op}_{inner}_{side} : benefit(1) {{
  %type = pdl.type
  %narrow = pdl.type
  {other}
  %operands = pdl.operands
  %inner = pdl.operation "stablehlo.{inner}"(%operands : !pdl.range<value>) -> (%narrow : !pdl.type)
  %y = pdl.result 0 of %inner
  %op = pdl.operation "stablehlo.{op}"({read}) -> (%type : !pdl.type)
  pdl.apply_native_constraint "{rule}"(%op, %inner : !pdl.operation, !pdl.operation)
  pdl.rewrite %op {{
    %new = pdl.apply_native_rewrite "{rule}"(%op, %inner : !pdl.operation, !pdl.operation) : !pdl.value
    pdl.replace %op with (%new : !pdl.value)
  }}
}}
"""


@stage
def simplify(operation: Any) -> None:
    """Applies the patterns within an operation, in place, until none matches."""
    config = rewrite.GreedyRewriteConfig()
    config.region_simplification_level = rewrite.GreedySimplifyRegionLevel.DISABLED
    rewrite.apply_patterns_and_fold_greedily(operation, _patterns(), config)


def _matched() -> Iterator[tuple[str, int, str, str]]:
    """For each pattern: the op, the number of the operand that an inner op defines, the inner op, and the rule."""
    for name, (_, sides) in NEUTRAL.items():
        yield from ((name.removeprefix("stablehlo."), side, "constant", "neutral") for side in sides)
    yield "add", 1, "negate", "identity"
    yield "negate", 0, "negate", "identity"
    yield "broadcast_in_dim", 0, "constant", "identity"
    for inner in ("convert", "broadcast_in_dim"):
        yield from (("dot_general", side, inner, "unit") for side in (0, 1))
    for inner in ("dynamic_update_slice", "scatter"):
        yield from (("add", side, inner, "accumulate") for side in (0, 1))


@cache
def _patterns() -> Any:
    texts = []
    for op, side, inner, rule in _matched():
        is_unary = op in ("negate", "broadcast_in_dim")
        read = "%y : !pdl.value" if is_unary else ("%y, %x", "%x, %y")[side] + " : !pdl.value, !pdl.value"
        other = "" if is_unary else "%x = pdl.operand : %type" if op != "dot_general" else "%x = pdl.operand"
        texts.append(_PATTERN.format(op=op, inner=inner, side=side, rule=rule, read=read, other=other))
    with context(), ir.Location.unknown():
        module = ir.Module.parse("\n".join(texts))  # lives until its patterns are frozen
        patterns = rewrite.PDLModule(module)
        _register(patterns, "neutral", _is_neutral, lambda _, op, constant: _other(op, constant))
        _register(patterns, "identity", lambda *ops: _equal(*ops) is not None, _apply_identity)
        _register(patterns, "unit", _is_product_with_unit, _transposed)
        _register(patterns, "accumulate", _can_accumulate, _accumulate)
        return patterns.freeze()


def _register(patterns: Any, rule: str, holds: Callable[..., bool], new: Callable[..., Any]) -> None:
    """Names the functions of a rule: `holds(op, inner)`, and `new(ip, op, inner)`, which gives the new value."""
    patterns.register_constraint_function(rule, lambda _, __, ops: not holds(*ops))  # False is MLIR's success
    patterns.register_rewrite_function(
        rule, lambda rewriter, results, ops: results.append(new(rewriter.ip, *ops))
    )


def _is_neutral(op: Any, constant: Any) -> bool:
    """Whether a constant is the neutral element of an op, whose other operand has the type of both."""
    value, type_, number = constant.attributes["value"], constant.result.type, NEUTRAL[op.name][0]
    return is_splat_of(value, type_, number) and type_ == op.result.type


def _other(op: Any, inner: Any) -> Any:
    """The operand of a binary op that is not the result of the inner op."""
    return op.operands[int(op.operands[0] == inner.result)]


# ---- identities ----------------------------------------------------------------------------------------------


def _equal(op: Any, inner: Any) -> Value | Definition | None:
    """A value, or an op, that by an identity is equal to an op, and has the op's type."""
    graph: Any = None  # the records are in no graph
    location, result = op.location, inner.result
    defining = Definition(
        inner.name, _values(inner.operands), graph, given=inner.attributes, location=location
    )
    operands = _values(op.operands)
    for x in operands:
        x.definition = defining if x.mlir == result else None
    definition = Definition(op.name, operands, graph, given=op.attributes, location=location)
    definition.results = (Value(op.result.type, graph, definition),)
    equal = IDENTITIES[op.name](definition, operands)
    return None if isinstance(equal, Value) and equal.type != definition.result.type else equal


def _values(read: Any) -> tuple[Value, ...]:
    graph: Any = None
    values = tuple([Value(x.type, graph) for x in read])
    for value, x in zip(values, read, strict=True):
        value.mlir = x
    return values


def _apply_identity(ip: Any, op: Any, inner: Any) -> Any:
    equal = _equal(op, inner)
    if isinstance(equal, Definition):
        operands, types = [x.mlir for x in equal.operands], [equal.result.type]
        return ir.Operation.create(equal.name, types, operands, equal.given, loc=op.location, ip=ip).result
    return None if equal is None else equal.mlir


# ---- sums ----------------------------------------------------------------------------------------------------


def _can_accumulate(op: Any, update: Any) -> bool:
    """Whether an update of zeros sets a slice of static shape, or a scatter into zeros adds."""
    zeros = update.operands[0]
    if zeros.type != op.result.type or isinstance(zeros.owner, ir.Block):
        return False
    constant = zeros.owner.operation
    if constant.name != "stablehlo.constant" or not is_splat_of(constant.attributes["value"], zeros.type, 0):
        return False
    if update.name == "stablehlo.dynamic_update_slice":
        return bool(update.operands[1].type.has_static_shape)
    (block,) = update.regions[0].blocks
    add, *rest = operations(block)
    return add.name == "stablehlo.add" and len(rest) == 1 and set(add.operands) == set(block.arguments)


def _accumulate(ip: Any, op: Any, update: Any) -> Any:
    """The result of a copy of an update that adds to the other term of the sum `op`, instead of to zeros."""
    x = _other(op, update)
    copy = update.clone(ip).operation
    copy.operands[0] = x
    if update.name == "stablehlo.dynamic_update_slice":
        u, before = update.operands[1], ir.InsertionPoint(copy)
        sizes = {"slice_sizes": ir.DenseI64ArrayAttr.get(list(u.type.shape))}
        start = [x, *update.operands[2:]]
        name, add = "stablehlo.dynamic_slice", "stablehlo.add"
        old = ir.Operation.create(name, [u.type], start, sizes, loc=op.location, ip=before)
        sum_ = ir.Operation.create(add, [u.type], [old.result, u], loc=op.location, ip=before)
        copy.operands[1] = sum_.result
    return copy.result


# ---- products with the identity matrix -----------------------------------------------------------------------


def _is_product_with_unit(op: Any, unit: Any) -> bool:
    """Whether an op contracts one of the two dimensions of a broadcast identity matrix."""
    numbers = hlo.DotDimensionNumbers(op.attributes["dot_dimension_numbers"])
    contracting, _ = _contracting(op, unit)
    types = [x.type.element_type for x in (*op.operands, op.result)]
    return (
        op.operands[0] != op.operands[1]
        and len(contracting) == 1
        and not len(numbers.lhs_batching_dimensions)
        and types.count(types[0]) == 3
        and contracting[0] in _dimensions_of_unit(unit)
    )


def _contracting(op: Any, unit: Any) -> tuple[list[int], list[int]]:
    """The dimensions that an op contracts, of its operand `unit` and of the other one."""
    numbers = hlo.DotDimensionNumbers(op.attributes["dot_dimension_numbers"])
    both = list(numbers.lhs_contracting_dimensions), list(numbers.rhs_contracting_dimensions)
    return both if op.operands[0] == unit.result else both[::-1]


def _dimensions_of_unit(unit: Any) -> list[int]:
    """The two dimensions of a value along which it is an identity matrix; empty if it is none."""
    places, matrix = [0, 1], unit.result
    if unit.name == "stablehlo.broadcast_in_dim":
        places, matrix = list(unit.attributes["broadcast_dimensions"]), unit.operands[0]
    convert = defined_by(matrix, "stablehlo.convert")
    sizes = list(matrix.type.shape)
    if convert is None or len(sizes) != 2 or sizes != [sizes[0]] * 2 or not _is_unit(convert.operands[0]):
        return []
    return places if [unit.result.type.shape[d] for d in places] == sizes else []


def _is_unit(flags: Any) -> bool:
    """Whether a matrix of booleans, as `jacobian` makes it, is true exactly where the indices agree."""
    compare = defined_by(flags, "stablehlo.compare")
    if (
        compare is None
        or str(compare.attributes["comparison_direction"]) != "#stablehlo<comparison_direction EQ>"
    ):
        return False
    return {_counts_along(x) for x in compare.operands} == {0, 1}


def _counts_along(x: Any) -> int | None:
    """The dimension of a matrix along which it holds 0, 1, 2, ...; None if it is another matrix."""
    if (iota := defined_by(x, "stablehlo.iota")) is not None:
        return int(iota.attributes["iota_dimension"].value)
    spread = defined_by(x, "stablehlo.broadcast_in_dim")
    if spread is None or defined_by(spread.operands[0], "stablehlo.iota") is None:
        return None
    (dimension,) = spread.attributes["broadcast_dimensions"]
    (count,) = spread.operands[0].type.shape
    return int(dimension) if count == x.type.shape[dimension] else None


def _transposed(ip: Any, op: Any, unit: Any) -> Any:
    """The operand besides the identity matrix, with its contracted dimension where the matrix has its free one."""
    (summed,), (at,) = _contracting(op, unit)
    x, is_left = _other(op, unit), op.operands[0] == unit.result
    rest = [d for d in range(x.type.rank) if d != at]
    free = [d for d in range(unit.result.type.rank) if d != summed]
    (kept,) = (free.index(d) for d in _dimensions_of_unit(unit) if d != summed)
    order = [at, *rest] if is_left else [*rest, at]
    behind = [len(free) + i for i in range(len(rest))]
    places = [kept, *behind] if is_left else [*range(len(rest)), len(rest) + kept]
    type_ = ir.RankedTensorType.get([x.type.shape[d] for d in order], x.type.element_type)
    moved = {"permutation": ir.DenseI64ArrayAttr.get(order)}
    y = ir.Operation.create("stablehlo.transpose", [type_], [x], moved, loc=op.location, ip=ip).result
    spread = {"broadcast_dimensions": ir.DenseI64ArrayAttr.get(places)}
    name = "stablehlo.broadcast_in_dim"
    return ir.Operation.create(name, [op.result.type], [y], spread, loc=op.location, ip=ip).result
