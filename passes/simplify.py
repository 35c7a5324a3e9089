"""simplify: what the native passes leave of a derivative's clean-up, as patterns for MLIR's own greedy driver.

    multiply x, 1 -> x      add x, 0 -> x      negate (negate x) -> x      broadcast_in_dim (splat) -> splat
    divide x, 1   -> x      subtract x, 0 -> x     add x, (negate y) -> subtract x, y

StableHLO's simplification keeps these for floats. All are exact, but that `x + 0` gives -0 where x is -0 and the sum
would be +0. `x * 0` stays, since it is NaN where x is not finite. The patterns are PDL, so matching is native; Python
is called only to look at a constant that stands where a neutral element could.
"""

from functools import cache, partial
from typing import Any

from torch_mlir import ir, rewrite

from tiduc.dialect.context import context, stage
from tiduc.passes.rules.identities import NEUTRAL, is_splat_of, widened

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
    with context(), ir.Location.unknown():
        module = ir.Module.parse("\n".join([*neutral, _NEGATED, _SPLAT]))  # lives until they are frozen
        patterns = rewrite.PDLModule(module)
        for number, which in enumerate(("zero", "one")):
            patterns.register_constraint_function(f"is_{which}", partial(_is_splat_of, number))
        patterns.register_constraint_function("is_splat", lambda _, __, values: _widened(*values) is None)
        patterns.register_rewrite_function(
            "widen", lambda _, results, values: results.append(_widened(*values))
        )
        return patterns.freeze()


def _is_splat_of(number: int, _: Any, __: Any, values: Any) -> bool:
    """False, as MLIR has success, where the constant is that number."""
    (constant,) = values
    return not is_splat_of(constant.attributes["value"], constant.result.type, number)


def _widened(constant: Any, type_: Any) -> Any | None:
    return widened(constant.attributes["value"], constant.result.type, type_)
