"""Declarations of rules of custom calls. Each call target has its own rule.

For example, `linear("stablehlo.custom_call @NAME", [0])` declares a rule of the target NAME. The decorator
`custom_call` declares a linearize rule for several targets, such as variants for element types and platforms. A rule
that emits only StableHLO ops, as in linear algebra, needs no transpose rule.
"""

from collections.abc import Callable

from torch_mlir import ir

from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.graph.graph import Definition
from tiduc.dialect.ops.control_ops import CUSTOM_CALL, call_target
from tiduc.passes.rules.opset import linearize, unsupported
from tiduc.passes.rules.registry import LinearizeRule, Tangents


def custom_call(*targets: str) -> Callable[[LinearizeRule], LinearizeRule]:
    """Decorates a linearize rule, and declares it for calls of these targets."""

    def decorate(rule: LinearizeRule) -> LinearizeRule:
        for target in targets:
            linearize(f"{CUSTOM_CALL} @{target}")(rule)
        return rule

    return decorate


@linearize(CUSTOM_CALL)
def unknown(b: StablehloBuilder, op: Definition, dx: Tangents) -> list[None]:
    """Returns no tangents if all results are integers. Raises `Unsupported` for any other call of an unknown target."""
    if any(isinstance(y.type, ir.TupleType) or b.tangent_type(y.type) is not None for y in op.results):
        raise unsupported(
            "jvp", op, f"unknown call target: {call_target(op)}; --rules names a module with its rule"
        )
    return [None] * len(op.results)
