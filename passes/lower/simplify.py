"""simplify: simplifications of derivatives that the native passes lack, as PDL patterns for MLIR's greedy driver.

    the identities of `dialect/facts/identities.py` for neutral elements, negations, and moved or converted splats
    add x, (dynamic_update_slice 0, u, i) -> dynamic_update_slice x, (add (dynamic_slice x, i), u), i
    add x, (scatter-add 0, i, u)          -> scatter-add x, i, u
    the rules of `products.py` for products of matrices

The two of `add` occur where a backward loop accumulates the cotangent of an array that each iteration slices: the sum
is then updated in place, and an iteration costs as much as its slice.

StableHLO's simplification does not apply these to floats. Matching PDL is native: Python is called only for an op
whose operand is the result of an op of the right name.
"""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from torch_mlir import ir, rewrite

from tiduc.dialect.facts.identities import IDENTITIES, NEUTRAL, is_splat_of
from tiduc.dialect.graph.graph import Definition, Value, operations
from tiduc.dialect.mlir.context import context, stage
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.passes.lower import products

_PATTERN = """
pdl.pattern @{rule}_{op}_{inner}_{side} : benefit(1) {{
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
def simplify(operation: IrOp) -> None:
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
    yield "convert", 0, "constant", "identity"
    yield "reshape", 0, "constant", "identity"
    for inner in ("convert", "broadcast_in_dim"):
        yield from (("dot_general", side, inner, "unit") for side in (0, 1))
    yield "dot_general", 1, "broadcast_in_dim", "repeated"
    yield "reduce", 0, "dot_general", "summed"
    for inner in ("dynamic_update_slice", "scatter"):
        yield from (("add", side, inner, "accumulate") for side in (0, 1))


@cache
def _patterns() -> Any:
    texts = []
    for op, side, inner, rule in _matched():
        is_unary = rule == "identity" and op != "add"
        read = "%y : !pdl.value" if is_unary else ("%y, %x", "%x, %y")[side] + " : !pdl.value, !pdl.value"
        of_type = "" if op in ("dot_general", "reduce") else " : %type"
        other = "" if is_unary else f"%x = pdl.operand{of_type}"
        texts.append(_PATTERN.format(op=op, inner=inner, side=side, rule=rule, read=read, other=other))
    with context(), ir.Location.unknown():
        module = ir.Module.parse("\n".join(texts))  # lives until its patterns are frozen
        patterns = rewrite.PDLModule(module)
        _register(patterns, "neutral", _is_neutral, lambda _, op, constant: _other(op, constant))
        _register(patterns, "identity", lambda *ops: _equal(*ops) is not None, _apply_identity)
        _register(patterns, "unit", products.multiplies_identity, products.without_identity)
        _register(patterns, "repeated", products.has_equal_batches, products.without_equal_batches)
        _register(patterns, "summed", products.adds_batches, products.contracting_batches)
        _register(patterns, "accumulate", _can_accumulate, _accumulate)
        return patterns.freeze()


def _register(patterns: Any, rule: str, holds: Callable[..., bool], new: Callable[..., Any]) -> None:
    """Names the functions of a rule: `holds(op, inner)`, and `new(ip, op, inner)`, which gives the new value."""
    patterns.register_constraint_function(rule, lambda _, __, ops: not holds(*ops))  # False is MLIR's success
    patterns.register_rewrite_function(
        rule, lambda rewriter, results, ops: results.append(new(rewriter.ip, *ops))
    )


def _is_neutral(op: IrOp, constant: IrOp) -> bool:
    """Whether a constant is the neutral element of an op, whose other operand has the type of both."""
    value, type_, number = constant.attributes["value"], constant.result.type, NEUTRAL[op.name][0]
    return is_splat_of(value, type_, number) and type_ == op.result.type


def _other(op: IrOp, inner: IrOp) -> Any:
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


def _apply_identity(ip: ir.InsertionPoint, op: IrOp, inner: IrOp) -> Any:
    equal = _equal(op, inner)
    if isinstance(equal, Definition):
        operands, types = [x.mlir for x in equal.operands], [equal.result.type]
        return ir.Operation.create(equal.name, types, operands, equal.given, loc=op.location, ip=ip).result
    return None if equal is None else equal.mlir


# ---- sums ----------------------------------------------------------------------------------------------------


def _can_accumulate(op: IrOp, update: IrOp) -> bool:
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


def _accumulate(ip: ir.InsertionPoint, op: IrOp, update: IrOp) -> IrValue:
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
