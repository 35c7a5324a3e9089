"""simplify: simplifications of derivatives that the native passes lack, as PDL patterns for MLIR's greedy driver.

    multiply x, 1 -> x      add x, 0 -> x      negate (negate x) -> x      broadcast_in_dim (splat) -> splat
    divide x, 1   -> x      subtract x, 0 -> x     add x, (negate y) -> subtract x, y
    add x, (dynamic_update_slice 0, u, i) -> dynamic_update_slice x, (add (dynamic_slice x, i), u), i
    add x, (scatter-add 0, i, u)          -> scatter-add x, i, u

The last two occur where a backward loop accumulates the cotangent of an array that each iteration slices: the sum is
then updated in place, and an iteration costs as much as its slice.

StableHLO's simplification does not apply these to floats. All are exact, except that `x + 0` becomes -0 where x is -0
and the sum would be +0. `x * 0` stays, since it is NaN where x is not finite. Matching PDL is native; Python is called
only to inspect a constant in the place of a neutral element.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

from torch_mlir import ir, rewrite

from tiduc.dialect.context import context, stage
from tiduc.dialect.graph import operations
from tiduc.dialect.identities import NEUTRAL, is_splat_of, widened

_NEUTRAL = """
pdl.pattern @{op}_{which}_{side} : benefit(1) {{
  %type = pdl.type
  %x = pdl.operand : %type
  %constant = pdl.operation "stablehlo.constant" -> (%type : !pdl.type)
  %neutral = pdl.result 0 of %constant
  pdl.apply_native_constraint "is_{which}"(%constant : !pdl.operation)
  %op = pdl.operation "stablehlo.{op}"({operands} : !pdl.value, !pdl.value) -> (%type : !pdl.type)
  pdl.rewrite %op {{ pdl.replace %op with (%x : !pdl.value) }}
}}
"""

_NEGATED = """
pdl.pattern @negate_negate : benefit(1) {
  %type = pdl.type
  %x = pdl.operand : %type
  %inner = pdl.operation "stablehlo.negate"(%x : !pdl.value) -> (%type : !pdl.type)
  %negated = pdl.result 0 of %inner
  %op = pdl.operation "stablehlo.negate"(%negated : !pdl.value) -> (%type : !pdl.type)
  pdl.rewrite %op { pdl.replace %op with (%x : !pdl.value) }
}
pdl.pattern @add_negate : benefit(1) {
  %type = pdl.type
  %x = pdl.operand : %type
  %y = pdl.operand : %type
  %inner = pdl.operation "stablehlo.negate"(%y : !pdl.value) -> (%type : !pdl.type)
  %negated = pdl.result 0 of %inner
  %op = pdl.operation "stablehlo.add"(%x, %negated : !pdl.value, !pdl.value) -> (%type : !pdl.type)
  pdl.rewrite %op {
    %new = pdl.operation "stablehlo.subtract"(%x, %y : !pdl.value, !pdl.value) -> (%type : !pdl.type)
    pdl.replace %op with %new
  }
}
"""

_SPLAT = """
pdl.pattern @broadcast_splat : benefit(1) {
  %type = pdl.type
  %narrow = pdl.type
  %constant = pdl.operation "stablehlo.constant" -> (%narrow : !pdl.type)
  %x = pdl.result 0 of %constant
  %op = pdl.operation "stablehlo.broadcast_in_dim"(%x : !pdl.value) -> (%type : !pdl.type)
  pdl.apply_native_constraint "is_splat"(%constant, %type : !pdl.operation, !pdl.type)
  pdl.rewrite %op {
    %wide = pdl.apply_native_rewrite "widen"(%constant, %type : !pdl.operation, !pdl.type) : !pdl.attribute
    %new = pdl.operation "stablehlo.constant" {"value" = %wide} -> (%type : !pdl.type)
    pdl.replace %op with %new
  }
}
"""

_ACCUMULATED = """
pdl.pattern @add_{name}_{side} : benefit(1) {{
  %type = pdl.type
  %x = pdl.operand : %type
  %rest = pdl.operands
  %constant = pdl.operation "stablehlo.constant" -> (%type : !pdl.type)
  %zero = pdl.result 0 of %constant
  %inner = pdl.operation "stablehlo.{name}"(%zero, %rest : !pdl.value, !pdl.range<value>) -> (%type : !pdl.type)
  %y = pdl.result 0 of %inner
  pdl.apply_native_constraint "is_zero"(%constant : !pdl.operation)
  pdl.apply_native_constraint "can_accumulate"(%inner : !pdl.operation)
  %op = pdl.operation "stablehlo.add"({operands} : !pdl.value, !pdl.value) -> (%type : !pdl.type)
  pdl.rewrite %op {{
    %new = pdl.apply_native_rewrite "accumulate"(%inner, %x : !pdl.operation, !pdl.value) : !pdl.operation
    pdl.replace %op with %new
  }}
}}
"""


@stage
def simplify(operation: Any) -> None:
    """Applies the patterns within an operation, in place, until none matches."""
    config = rewrite.GreedyRewriteConfig()
    config.region_simplification_level = rewrite.GreedySimplifyRegionLevel.DISABLED
    rewrite.apply_patterns_and_fold_greedily(operation, _patterns(), config)


@cache
def _patterns() -> Any:
    neutral = [
        _NEUTRAL.format(
            op=name.removeprefix("stablehlo."),
            side=side,
            which=("zero", "one")[number],
            operands=("%neutral, %x", "%x, %neutral")[side],
        )
        for name, (number, sides) in NEUTRAL.items()
        for side in sides
    ]
    accumulated = [
        _ACCUMULATED.format(name=name, side=i, operands=operands)
        for name in ("dynamic_update_slice", "scatter")
        for i, operands in enumerate(("%x, %y", "%y, %x"))
    ]
    with context(), ir.Location.unknown():
        # The module lives until its patterns are frozen.
        module = ir.Module.parse("\n".join([*neutral, *accumulated, _NEGATED, _SPLAT]))
        patterns = rewrite.PDLModule(module)
        constraints: dict[str, Callable[..., bool]] = {
            "is_zero": partial(_is_splat_of, 0),
            "is_one": partial(_is_splat_of, 1),
            "is_splat": lambda constant, type_: _widened(constant, type_) is not None,
            "can_accumulate": _can_accumulate,
        }
        for name, holds in constraints.items():  # False is MLIR's success
            patterns.register_constraint_function(name, lambda _, __, values, holds=holds: not holds(*values))
        rewrites: dict[str, Callable[..., Any]] = {
            "widen": lambda _, constant, type_: _widened(constant, type_),
            "accumulate": _accumulate,
        }
        for name, new in rewrites.items():
            patterns.register_rewrite_function(
                name, lambda rewriter, results, values, new=new: results.append(new(rewriter.ip, *values))
            )
        return patterns.freeze()


def _is_splat_of(number: int, constant: Any) -> bool:
    return is_splat_of(constant.attributes["value"], constant.result.type, number)


def _widened(constant: Any, type_: Any) -> Any | None:
    return widened(constant.attributes["value"], constant.result.type, type_)


def _can_accumulate(update: Any) -> bool:
    """Whether the body of a scatter is the sum of its arguments, or the updated slice has a static shape."""
    if update.name == "stablehlo.dynamic_update_slice":
        return bool(update.operands[1].type.has_static_shape)
    (block,) = update.regions[0].blocks
    add, *rest = operations(block)
    return add.name == "stablehlo.add" and len(rest) == 1 and set(add.operands) == set(block.arguments)


def _accumulate(ip: Any, update: Any, x: Any) -> Any:
    """A copy of an update of zeros, or of a scatter into zeros, that adds to x instead."""
    copy = update.clone(ip).operation
    copy.operands[0] = x
    if update.name == "stablehlo.dynamic_update_slice":
        u, before = update.operands[1], ir.InsertionPoint(copy)
        sizes = {"slice_sizes": ir.DenseI64ArrayAttr.get(list(u.type.shape))}
        old = ir.Operation.create(
            "stablehlo.dynamic_slice",
            [u.type],
            [x, *update.operands[2:]],
            sizes,
            loc=update.location,
            ip=before,
        )
        add = ir.Operation.create("stablehlo.add", [u.type], [old.result, u], loc=update.location, ip=before)
        copy.operands[1] = add.result
    return copy
