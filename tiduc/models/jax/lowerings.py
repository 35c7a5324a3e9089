"""Keeps ops that `jax.export` would expand, and stops of gradients that it would drop, so that tiduc's rules apply.

    jax.lax.lgamma(x)         ->  stablehlo.custom_call @tiduc.chlo.lgamma(%x)       ->  chlo.lgamma %x
    jax.lax.stop_gradient(x)  ->  stablehlo.composite "tidu.stop_gradient" %x {...}

An export contains StableHLO only. Without these lowering rules, the export would lose each stop of gradients. Instead
of an op of CHLO, it would contain an approximation whose derivative is wrong or NaN at some points.
"""

import functools
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from torch_mlir import ir

from tiduc.dialect.facts.lapack import BY_TARGET
from tiduc.dialect.ops.ir_types import IrOp, IrValue
from tiduc.models.expansions import PREFIX
from tiduc.models.jax.derivative_functions import LoweringRules
from tiduc.models.jax.solves import equations_in, is_iterative
from tiduc.passes.rules.opset import OPSET

if TYPE_CHECKING:
    import jax


_CHLO = "chlo."


@functools.cache
def lowering_rules(jax: Any, stops: bool) -> LoweringRules:
    """Pairs of a primitive of JAX and its lowering rule. With `stops`, one of the rules is for `stop_gradient`.

    All exports use the same tuple object, because JAX caches lowered functions by their rules.
    """
    from jax.interpreters import mlir

    def stopped(x: "jax.Array") -> Any:
        return jax.lax.composite(lambda x: x, "tidu.stop_gradient")(x)

    functions = {primitive: _as_custom_call(jax, name) for name, primitive in _of_chlo(jax).items()}
    if stops:
        functions[jax.make_jaxpr(jax.lax.stop_gradient)(1.0).eqns[0].primitive] = stopped
    lowered = functools.partial(mlir.lower_fun, multiple_results=False)
    return tuple((primitive, lowered(function)) for primitive, function in functions.items())


def keeps_stops(jaxpr: "jax.extend.core.ClosedJaxpr") -> bool:
    """Whether the export of a traced function keeps `stop_gradient`s. False if the function calls a direct solver.

    `jnp.linalg.solve` stops the gradients of a matrix before factorizing it, because `custom_linear_solve` defines the
    derivative itself. An export loses that derivative, so tiduc differentiates the factorization. Solvers with loops
    keep their derivative.
    """
    calls = (each for each in equations_in(jaxpr) if each.primitive.name == "custom_linear_solve")
    return all(is_iterative(call.params["jaxprs"].solve) for call in calls)


def disabled_checks(jax: ModuleType) -> list[Any]:
    """JAX's safety checks that must be disabled, because they would reject custom calls for which tiduc has rules."""
    names = [*(PREFIX + name for name in _of_chlo(jax)), *BY_TARGET]
    return [jax.export.DisabledSafetyCheck.custom_call(name) for name in names]


def expansions(jax: ModuleType) -> dict[str, Callable[[Any, Any], Sequence[Any]]]:
    """Maps each custom call of `lowering_rules` to the function that emits the op of CHLO, for `expand_calls`."""
    return {name: functools.partial(_op_of_chlo, name) for name in _of_chlo(jax)}


def _of_chlo(jax: ModuleType) -> dict[str, Any]:
    """Maps CHLO's ops with operands and result of one type to JAX's primitives.

    Leaves out `conj`, the only linear op, because its operand may be real. Leaves out `square`, because its operand may
    be an integer; its expansion x * x is exact.
    """
    primitives = {}
    for name in OPSET.linearize_rules:
        if name.startswith(_CHLO) and OPSET.forms[name] != "linear" and name != "chlo.square":
            primitive = getattr(jax.lax, f"{name.removeprefix(_CHLO)}_p", None)
            if primitive is not None and not primitive.multiple_results:
                primitives[name] = primitive
    return primitives


def _as_custom_call(jax: Any, name: str) -> Callable[..., Any]:
    def call(*operands: "jax.Array", **_: object) -> Any:
        equal = jax.numpy.broadcast_arrays(*operands)  # an operand of polygamma may be a scalar
        like = jax.ShapeDtypeStruct(equal[0].shape, equal[0].dtype)
        return jax.ffi.ffi_call(PREFIX + name, like)(*equal)

    return call


def _op_of_chlo(name: str, call: IrOp, module: ir.Module) -> Sequence[IrValue]:
    return list(ir.Operation.create(name, [call.result.type], list(call.operands)).results)
