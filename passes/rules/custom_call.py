"""custom_call: what it is, the name of its target says; the rules of targets are a table like that of ops.

`TARGETS` is an op set whose names are those of targets, so all forms are there: `TARGETS.inactive`, `TARGETS.linear`
and so on. A rule gets the `stablehlo.custom_call` as its `op`. One that emits ops in place of the call, as those of
linear algebra do, needs no transpose; a linear call that stays one does:

    @custom_call("lapack_spotrf_ffi", "lapack_dpotrf_ffi")      by hand, of several targets
    @TARGETS.linear("identity", [0])                            the call itself, on tangents; decorates the transpose
"""

from collections.abc import Callable, Sequence
from typing import Any

from torch_mlir import ir

from tiduc.dialect.graph import Definition
from tiduc.dialect.stablehlo import STATEFUL, StablehloBuilder
from tiduc.passes.rules.opset import linearize, transpose, unsupported
from tiduc.passes.rules.registry import LinearizeRule, OpSet, Tangents

TARGETS = OpSet(StablehloBuilder, STATEFUL)
UNKNOWN = "what it calls is not known: "


def custom_call(*targets: str) -> Callable[[LinearizeRule], LinearizeRule]:
    """Decorates the linearize rule of these targets."""

    def decorate(rule: LinearizeRule) -> LinearizeRule:
        for name in targets:
            TARGETS.linearize(name)(rule)
        return rule

    return decorate


def target(op: Definition) -> str:
    """The name of what the op calls."""
    return ir.StringAttr(op.attributes["call_target_name"]).value  # type: ignore[no-any-return]


@linearize("stablehlo.custom_call")
def of_target(b: Any, op: Definition, dx: Tangents) -> Sequence[Any | None]:
    """That of the target; zero too where integers are all that it gives."""
    name = target(op)
    if (rule := TARGETS.linearize_rules.get(name)) is not None:
        return rule(b, op, dx)
    if name in TARGETS.inactive_ops or not any(_may_vary(b, y.type) for y in op.results):
        return [None] * len(op.results)
    raise unsupported("jvp", op, _reason(name))


@transpose("stablehlo.custom_call")
def of_target_transpose(b: Any, op: Definition, ct: Tangents, active: Sequence[bool]) -> Sequence[Any]:
    """That of the target."""
    rule = TARGETS.transpose_rules.get(target(op))
    if rule is None:
        raise unsupported("transpose", op, _reason(target(op)))
    return rule(b, op, ct, active)


def _may_vary(b: Any, type_: Any) -> bool:
    """A value of the type has a tangent, or parts that may have some."""
    return isinstance(type_, ir.TupleType) or b.tangent_type(type_) is not None


def _reason(name: str) -> str:
    """Why the target has no rule."""
    return f"{name}: {TARGETS.refused_ops[name]}" if name in TARGETS.refused_ops else UNKNOWN + name


TARGETS.inactive("cu_threefry2x32", "cu_threefry2x32_ffi", "hip_threefry2x32", "hip_threefry2x32_ffi")
