"""custom_call: what it is, the name of its target says.

Each form can be said of one target, `linear("stablehlo.custom_call @NAME", [0])`; `custom_call` says the same of
several, as of those of each element type and platform. A rule that gives StableHLO ops in place of the call, as those
of linear algebra do, has no transpose.
"""

from collections.abc import Callable
from typing import Any

from torch_mlir import ir

from tiduc.dialect.graph import Definition
from tiduc.passes.rules.opset import linearize, unsupported
from tiduc.passes.rules.registry import LinearizeRule, Tangents

NAME = "stablehlo.custom_call"


def custom_call(*targets: str) -> Callable[[LinearizeRule], LinearizeRule]:
    """Decorates the linearize rule of the calls of these targets."""

    def decorate(rule: LinearizeRule) -> LinearizeRule:
        for target in targets:
            linearize(f"{NAME} @{target}")(rule)
        return rule

    return decorate


def target(op: Definition) -> str:
    """The name of what the op calls."""
    return op.attributes["call_target_name"].value  # type: ignore[no-any-return]


@linearize(NAME)
def unknown(b: Any, op: Definition, dx: Tangents) -> list[None]:
    """Zero where what it gives are integers; else it is refused by name."""
    if any(isinstance(y.type, ir.TupleType) or b.tangent_type(y.type) is not None for y in op.results):
        raise unsupported("jvp", op, f"what it calls is not known: {target(op)}")
    return [None] * len(op.results)
