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

_UPDATED = """
pdl.pattern @add_update_{side} : benefit(1) {{
  %type = pdl.type
  %narrow = pdl.type
  %x = pdl.operand : %type
  %u = pdl.operand : %narrow
  %start = pdl.operands
  %constant = pdl.operation "stablehlo.constant" -> (%type : !pdl.type)
  %neutral = pdl.result 0 of %constant
  %inner = pdl.operation "stablehlo.dynamic_update_slice"
    (%neutral, %u, %start : !pdl.value, !pdl.value, !pdl.range<value>) -> (%type : !pdl.type)
  %y = pdl.result 0 of %inner
  pdl.apply_native_constraint "is_zero"(%constant : !pdl.operation)
  pdl.apply_native_constraint "is_static"(%narrow : !pdl.type)
  %op = pdl.operation "stablehlo.add"({operands} : !pdl.value, !pdl.value) -> (%type : !pdl.type)
  pdl.rewrite %op {{
    %sizes = pdl.apply_native_rewrite "sizes"(%narrow : !pdl.type) : !pdl.attribute
    %slice = pdl.operation "stablehlo.dynamic_slice"(%x, %start : !pdl.value, !pdl.range<value>)
      {{"slice_sizes" = %sizes}} -> (%narrow : !pdl.type)
    %old = pdl.result 0 of %slice
    %add = pdl.operation "stablehlo.add"(%old, %u : !pdl.value, !pdl.value) -> (%narrow : !pdl.type)
    %sum = pdl.result 0 of %add
    %new = pdl.operation "stablehlo.dynamic_update_slice"
      (%x, %sum, %start : !pdl.value, !pdl.value, !pdl.range<value>) -> (%type : !pdl.type)
    pdl.replace %op with %new
  }}
}}
pdl.pattern @add_scatter_{side} : benefit(1) {{
  %type = pdl.type
  %x = pdl.operand : %type
  %u = pdl.operand
  %i = pdl.operand
  %constant = pdl.operation "stablehlo.constant" -> (%type : !pdl.type)
  %neutral = pdl.result 0 of %constant
  %inner = pdl.operation "stablehlo.scatter"(%neutral, %i, %u : !pdl.value, !pdl.value, !pdl.value)
    -> (%type : !pdl.type)
  %y = pdl.result 0 of %inner
  pdl.apply_native_constraint "is_zero"(%constant : !pdl.operation)
  pdl.apply_native_constraint "adds"(%inner : !pdl.operation)
  %op = pdl.operation "stablehlo.add"({operands} : !pdl.value, !pdl.value) -> (%type : !pdl.type)
  pdl.rewrite %op {{
    %new = pdl.apply_native_rewrite "onto"(%inner, %x : !pdl.operation, !pdl.value) : !pdl.operation
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
    updated = [_UPDATED.format(side=i, operands=both) for i, both in enumerate(("%x, %y", "%y, %x"))]
    with context(), ir.Location.unknown():
        module = ir.Module.parse(
            "\n".join([*neutral, *updated, _NEGATED, _SPLAT])
        )  # lives until they are frozen
        patterns = rewrite.PDLModule(module)
        for number, which in enumerate(("zero", "one")):
            patterns.register_constraint_function(f"is_{which}", partial(_is_splat_of, number))
        patterns.register_constraint_function("is_splat", lambda _, __, values: _widened(*values) is None)
        patterns.register_constraint_function(
            "is_static", lambda _, __, values: not values[0].has_static_shape
        )
        patterns.register_constraint_function("adds", lambda _, __, values: not _adds(*values))
        rewrites: dict[str, Callable[..., Any]] = {
            "widen": lambda _, results, values: results.append(_widened(*values)),
            "sizes": lambda _, results, values: results.append(_sizes(*values)),
            "onto": lambda rewriter, results, values: results.append(_onto(rewriter.ip, *values)),
        }
        for name, function in rewrites.items():
            patterns.register_rewrite_function(name, function)
        return patterns.freeze()


def _is_splat_of(number: int, _: Any, __: Any, values: Any) -> bool:
    """False, which is MLIR's success, where the constant is a splat of that number."""
    (constant,) = values
    return not is_splat_of(constant.attributes["value"], constant.result.type, number)


def _widened(constant: Any, type_: Any) -> Any | None:
    return widened(constant.attributes["value"], constant.result.type, type_)


def _sizes(type_: Any) -> Any:
    return ir.DenseI64ArrayAttr.get(list(type_.shape))


def _adds(scatter: Any) -> bool:
    """Whether the body of a scatter is the sum of its arguments."""
    (block,) = scatter.regions[0].blocks
    add, *rest = operations(block)
    return add.name == "stablehlo.add" and len(rest) == 1 and set(add.operands) == set(block.arguments)


def _onto(ip: Any, scatter: Any, x: Any) -> Any:
    """A copy of the scatter, with another operand to scatter into."""
    copy = scatter.clone(ip).operation
    copy.operands[0] = x
    return copy
