"""simplify: what the native passes leave of a derivative's clean-up, as patterns for MLIR's own greedy driver.

    multiply x, 1 -> x      add x, 0 -> x      negate (negate x) -> x      broadcast_in_dim (splat) -> splat
    divide x, 1   -> x      subtract x, 0 -> x     add x, (negate y) -> subtract x, y

StableHLO's simplification keeps these for floats. All are exact, but that `x + 0` gives -0 where x is -0 and the sum
would be +0. `x * 0` stays, since it is NaN where x is not finite. The patterns are PDL, so matching is native; Python
is called only to look at a constant that stands where a neutral element could.
"""

import functools
from typing import Any

from torch_mlir import ir, rewrite

from tiduc.dialect.context import context, stage

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


@stage
def simplify(operation: Any) -> None:
    """Applies the patterns to everything in an operation, in place, until none matches."""
    config = rewrite.GreedyRewriteConfig()
    config.region_simplification_level = rewrite.GreedySimplifyRegionLevel.DISABLED
    rewrite.apply_patterns_and_fold_greedily(operation, _patterns(), config)


@functools.cache
def _patterns() -> Any:
    right, left = "%x, %neutral", "%neutral, %x"
    neutral = [
        ("multiply", "one", right),
        ("multiply", "one", left),
        ("add", "zero", right),
        ("add", "zero", left),
    ]
    neutral += [("subtract", "zero", right), ("divide", "one", right)]
    texts = [
        _NEUTRAL.format(op=op, which=which, operands=operands, side="left" if operands == left else "right")
        for op, which, operands in neutral
    ]
    with context(), ir.Location.unknown():
        module = ir.Module.parse(
            "\n".join([*texts, _NEGATED, _SPLAT])
        )  # must live until the patterns are frozen
        patterns = rewrite.PDLModule(module)
        patterns.register_constraint_function("is_one", lambda _, __, values: not _is_splat_of(values[0], 1))
        patterns.register_constraint_function("is_zero", lambda _, __, values: not _is_splat_of(values[0], 0))
        patterns.register_constraint_function("is_splat", lambda _, __, values: not _can_widen(*values))
        patterns.register_rewrite_function(
            "widen", lambda _, results, values: results.append(_widened(*values))
        )
        return patterns.freeze()


# These get the constant's op and not its attribute, whose splat the bindings cannot give where it is complex.


def _is_splat_of(op: Any, number: int) -> bool:
    """The constant is one number everywhere."""
    if isinstance(op.results[0].type.element_type, ir.ComplexType):
        return f" dense<({number}.000000e+00,0.000000e+00)> " in op.get_asm(large_elements_limit=1)
    value = op.attributes["value"]
    return (
        isinstance(value, ir.DenseElementsAttr) and value.is_splat and value.get_splat_value().value == number
    )


def _can_widen(op: Any, type_: Any) -> bool:
    if isinstance(op.results[0].type.element_type, ir.ComplexType) or not type_.has_static_shape:
        return False
    value = op.attributes["value"]
    return isinstance(value, ir.DenseElementsAttr) and bool(value.is_splat)


def _widened(op: Any, type_: Any) -> Any:
    """The constant's splat, of another shape."""
    return ir.DenseElementsAttr.get_splat(type_, op.attributes["value"].get_splat_value())
