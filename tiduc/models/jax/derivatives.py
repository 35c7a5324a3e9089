"""Keeps the custom derivatives of `jax.custom_jvp` and `jax.custom_vjp`, and JAX's derivatives of some primitives.

    y = f(x)                                                         in the function, after f.defjvp(rule)
    %y = stablehlo.composite "tidu.own.0" %x {decomposition = @f}    in the export of the function
    func.func private @f(%x) attributes {tidu.jvp = @tidu.own.0}     in the model; %y = call @f(%x)

@tidu.own.0 is exported separately, from (x, dx) -> JAX's JVP of f, or from (x, cy) -> JAX's VJP of f. All calls of f
with arguments of equal types share one derivative, and so do equal calls of solvers and primitives. A derivative may
call functions with custom derivatives, perhaps endlessly: the derivative of `jnp.sinc` calls another such function. A
derivative of order n is at level n. If the derivative of a function would be beyond the last level, the function
rejects tangents. The functions of a solver may be one level deeper.
"""

import dataclasses
import functools
from collections.abc import Callable, Hashable, Sequence, Set
from types import ModuleType
from typing import TYPE_CHECKING

from tiduc.dialect.errors import TiducError, Unsupported, first_line
from tiduc.dialect.ops.control_ops import DERIVATIVES
from tiduc.dialect.ops.ir_types import IrValue
from tiduc.models.jax import lineax_solves
from tiduc.models.jax.dependence import identity
from tiduc.models.jax.derivative_functions import (
    HINT,
    Avals,
    CalledFunction,
    Derivative,
    LoweringRules,
    MakeDerivative,
    Parameters,
    Traceable,
    forget_traces,
    hoisted,
    is_smooth,
)
from tiduc.models.jax.identity import RuleKeys
from tiduc.models.jax.lineax_solves import LineaxSolve, LineaxSystem
from tiduc.models.jax.naming import OwnDerivative
from tiduc.models.jax.rejections import rejecting, rejecting_tangents
from tiduc.models.jax.solves import Jaxprs, LinearSolve

if TYPE_CHECKING:
    import jax
    from jax.interpreters import mlir as lowering


_PREFIX = "tidu.own."
LEVELS = 4
"""The default number of levels: the highest order of custom derivatives that are exported."""
MOST = 1000
"""The number of derivatives from which on only those of level 1 are exported. It limits the time of an import."""
_EXPANDED = ("igamma", "igammac")
"""The names of JAX's primitives whose expansions have loops that end before the derivative has converged."""
_CAPTURED = (
    "a function with custom_vjp reads a traced array of an enclosing function; it has no derivative with respect to "
    f"this array; make the array an argument; {HINT}"
)
_TRACED = (
    "the derivative of a function with custom_jvp or custom_vjp reads a traced array that is not its argument; "
    f"arguments in nondiff_argnums must be constants; {HINT}"
)
_NO_SECOND = (
    "lineax.linear_solve has only first derivatives if its arrays have several types, or a type other than float32, "
    "float64, complex64 and complex128"
)
_DIFFERENTIATED_BY_OPS = ("relu", "relu6", "logaddexp", "_softmax", "_det", "_slogdet_lu")
"""The names of functions of JAX whose custom derivatives are ignored. The derivatives of their ops are equal or better:
JAX's derivative of `det` is 0 where a pivot before the last one is 0. tiduc recognizes `relu` and `relu6` by name."""


class OwnDerivatives:
    """Collects the custom derivatives of functions while JAX lowers the functions."""

    def __init__(self, jax: ModuleType, levels: int) -> None:
        self._jax = jax
        self._levels = levels
        self._keys = RuleKeys()
        self._linear: Set[int] = frozenset()
        self._known: dict[Hashable, tuple[str, dict[int, str]]] = {}
        self.collected: list[OwnDerivative] = []

    def lowering_rules(self, level: int, linear: Set[int]) -> LoweringRules:
        """Pairs of a primitive of JAX and its lowering rule, for derivatives of this level.

        Calls whose identity is in `linear` are functions of tangents. Their ops are differentiated. Each export needs
        new rules, because JAX caches lowered functions by the rules, and calls no rule for a cached function.
        """
        from jax.extend.core import primitives

        if not self._levels:
            return ()
        self._linear = linear
        own = primitives.custom_jvp_call_p, primitives.custom_vjp_call_p
        calls = tuple(
            (primitive, functools.partial(self._lowered, primitive, attribute, level))
            for primitive, attribute in zip(own, DERIVATIVES[:2], strict=True)
        )
        solves = tuple(
            (primitive, functools.partial(self._lowered_by_lineax, primitive, level))
            for primitive in lineax_solves.primitives()
        )
        expanded = [
            (primitive, functools.partial(self._lowered_primitive, primitive, level))
            for name in _EXPANDED
            if (primitive := getattr(self._jax.lax, f"{name}_p", None)) is not None
        ]
        own_solve = primitives.linear_solve_p, functools.partial(self._lowered_solve, level)
        return (*calls, *solves, *expanded, own_solve)

    def _lowered(
        self,
        primitive: "jax.extend.core.Primitive",
        attribute: str,
        level: int,
        ctx: "lowering.LoweringRuleContext",
        *operands: IrValue,
        **of_call: object,
    ) -> object:
        from jax.interpreters import mlir

        parameters: Parameters = of_call
        called = parameters["call_jaxpr"]
        function = self._jax.extend.core.jaxpr_as_fun(called)
        if self._is_kept(called) and identity(parameters) not in self._linear:
            name, rejected = self._derivative(primitive, attribute, level, parameters)
            kept = self._jax.lax.composite(function, name) if name else function
            function = rejecting(self._jax, kept, rejected)
        return mlir.lower_fun(function, multiple_results=True)(ctx, *operands)

    def _derivative(
        self,
        primitive: "jax.extend.core.Primitive",
        attribute: str,
        level: int,
        parameters: Parameters,
    ) -> tuple[str, dict[int, str]]:
        """Returns the name of the derivative of a call, and a map from inputs whose tangents are rejected to reasons.

        The name is empty if the tangents of all inputs are rejected. Calls with equal keys share a derivative.
        """
        called = parameters["call_jaxpr"]
        rules = [parameters.get(name) for name in ("jvp_jaxpr_fun", "fwd_jaxpr_thunk", "bwd")]
        types = called.in_avals, called.out_avals, parameters["num_consts"], parameters["symbolic_zeros"]
        key = self._keys.key([attribute, *rules, *types])
        if key in self._known:
            return self._known[key]
        inputs = [self._jax.ShapeDtypeStruct(x.shape, x.dtype) for x in called.in_avals]
        smooth = [i for i, x in enumerate(inputs) if is_smooth(x)]
        if level >= self._levels or (level and len(self.collected) >= MOST):
            return "", dict.fromkeys(smooth, _too_deep(called, level, level >= self._levels))
        bound = functools.partial(primitive.bind, **primitive.get_bind_params(parameters))
        function = CalledFunction(self._jax, bound, inputs, called.out_avals)
        # JAX caches the trace of a function, so that tests and exports of one derivative trace it once.
        make = functools.cache(function.jvp if attribute == DERIVATIVES[0] else function.vjp)
        rejected, name = self._rejected(make, inputs, parameters), ""
        if attribute == DERIVATIVES[1]:
            rejected |= dict.fromkeys([i for i in smooth if i < parameters["num_consts"]], _CAPTURED)
        given = make(parameters["num_consts"], frozenset(rejected))
        if level == 0 and len(rejected) < len(smooth) and not self._is_closed(given):
            rejected = dict.fromkeys(smooth, _TRACED) | rejected
        if len(rejected) < len(smooth):
            name = f"{_PREFIX}{len(self.collected)}"
            self.collected.append(OwnDerivative(name, attribute, *given, level + 1, len(inputs)))
        self._known[key] = name, rejected
        return self._known[key]

    def _shared(self, key: Sequence[object], make: Callable[[str], Sequence[OwnDerivative]]) -> str:
        """The name of the derivatives of calls with a key. `make` returns these derivatives for a new name."""
        of = self._keys.key(key)
        if of not in self._known:
            name = f"{_PREFIX}{len(self.collected)}"
            self._known[of] = name, {}
            self.collected += make(name)
        return self._known[of][0]

    def _lowered_primitive(
        self,
        primitive: "jax.extend.core.Primitive",
        level: int,
        ctx: "lowering.LoweringRuleContext",
        *operands: IrValue,
        **parameters: object,
    ) -> object:
        """Lowers a primitive with one result to a composite, whose decomposition is the expansion of the primitive."""
        from jax.interpreters import mlir

        function = functools.partial(primitive.bind, **parameters)
        if level < self._levels and _is_static([*ctx.avals_in, *ctx.avals_out]):
            inputs = [self._jax.ShapeDtypeStruct(x.shape, x.dtype) for x in ctx.avals_in]
            bound: Traceable = lambda *x: [primitive.bind(*x, **parameters)]  # noqa: E731
            called = CalledFunction(self._jax, bound, inputs, ctx.avals_out)
            name = self._shared(
                [primitive, parameters, inputs],
                lambda name: [OwnDerivative(name, DERIVATIVES[0], *called.jvp(), level + 1, len(inputs))],
            )
            function = self._jax.lax.composite(function, name)
        chosen = ctx.module_context.lowering_parameters
        rules = tuple(rule for rule in chosen.override_lowering_rules if rule[0] is not primitive)
        within = ctx.module_context.replace(
            lowering_parameters=dataclasses.replace(chosen, override_lowering_rules=rules)
        )
        return mlir.lower_fun(function, multiple_results=False)(ctx.replace(module_context=within), *operands)

    def _lowered_solve(
        self,
        level: int,
        ctx: "lowering.LoweringRuleContext",
        *operands: IrValue,
        const_lengths: Sequence[int],
        jaxprs: Jaxprs,
    ) -> object:
        """Lowers `jax.lax.custom_linear_solve` to a composite (b..., constants...) -> x... that calls the solver.

        Direct solvers, such as `jnp.linalg.solve`, and solvers with auxiliary results are lowered to their ops instead.
        """
        from jax.interpreters import mlir

        call = LinearSolve(self._jax, const_lengths, jaxprs)
        function: Traceable = call.solve
        if call.is_kept and self._is_kept(jaxprs.solve):
            function = self._solver(call, ctx.avals_in, level)
        return mlir.lower_fun(lambda *given: function(*call.in_order(given)), multiple_results=True)(
            ctx, *operands
        )

    def _solver(self, call: "LinearSolve | LineaxSystem", types: Avals, level: int) -> Traceable:
        """A composite (b..., constants...) -> x... that calls a solver. Collects the derivatives of the solver."""
        inputs = call.in_order([self._jax.ShapeDtypeStruct(x.shape, x.dtype) for x in types])
        solve, constants = hoisted(self._jax, call.solve, inputs)
        arguments = (*inputs, *map(self._jax.typeof, constants))

        def derivatives(name: str) -> list[OwnDerivative]:
            return [
                OwnDerivative(
                    f"{name}{suffix}",
                    attribute,
                    _of_first(derivative, len(inputs)),
                    arguments,
                    level + 1,
                    len(arguments),
                    of,
                    call.is_symmetric,
                )
                for suffix, attribute, of, derivative in call.derivatives(name)
            ]

        name = self._shared([call.key, arguments], derivatives)
        composite = self._jax.lax.composite(solve, name)
        return lambda *given: composite(*given, *constants)

    def _lowered_by_lineax(
        self,
        primitive: "jax.extend.core.Primitive",
        level: int,
        ctx: "lowering.LoweringRuleContext",
        *operands: IrValue,
        **of_call: object,
    ) -> object:
        """Lowers `lineax.linear_solve`, if possible to composites.

        Each composite calls a solver, and tiduc differentiates it. If the arrays have several types, the derivative is
        lineax's JVP instead. Derivatives do not check whether a solve fails, because the check is not linear.
        """
        from jax.interpreters import mlir

        parameters: Parameters = of_call
        call = LineaxSolve(self._jax, primitive, ctx.avals_in, parameters)
        function: Traceable = functools.partial(call.whole, throws=level == 0)
        if not call.is_solve:  # a batch of another primitive of equinox, whose ops have derivatives
            return mlir.lower_fun(function, multiple_results=True)(ctx, *operands)
        stop = self._jax.lax.stop_gradient
        is_tangent = identity(parameters) in self._linear
        if call.is_kept:
            solvers = {each.matrix: self._solver(each, ctx.avals_in, level) for each in call.systems}

            def function(*given: "jax.Array") -> list["jax.Array"]:
                results = call.whole(*map(stop, given), throws=level == 0)
                x = call.solution(solvers, given)
                if level == 0:  # x gets the values in `results`, which are NaN if the solve failed
                    x = [z + stop(y - z) for y, z in zip(results, x, strict=False)]
                return [*x, *results[len(x) :]]

        elif not is_tangent and level < self._levels:
            function = self._with_jvp(
                function, call, ctx, level, functools.partial(primitive.bind, **parameters)
            )
        if not call.is_kept and level and (is_tangent or level >= self._levels):
            function = rejecting_tangents(self._jax, function, sorted(call.without_right_side()), _NO_SECOND)
        return mlir.lower_fun(function, multiple_results=True)(ctx, *operands)

    def _with_jvp(
        self,
        function: Traceable,
        call: LineaxSolve,
        ctx: "lowering.LoweringRuleContext",
        level: int,
        bound: Traceable,
    ) -> Traceable:
        """A composite that calls `function`, and whose derivative is the JVP that lineax defines for the call."""
        types = [self._jax.ShapeDtypeStruct(x.shape, x.dtype) for x in ctx.avals_in]
        whole, constants = hoisted(self._jax, function, types)
        arguments = (*types, *map(self._jax.typeof, constants))
        fixed = call.without_tangents() | set(range(len(types), len(arguments)))
        run = _of_first(bound, len(types))
        given = CalledFunction(self._jax, run, arguments, ctx.avals_out).jvp(rejected=fixed)
        name = self._shared(
            [call.key, arguments, "whole"],
            lambda name: [OwnDerivative(name, DERIVATIVES[0], *given, level + 1, len(arguments))],
        )
        composite = self._jax.lax.composite(whole, name)
        return lambda *given: composite(*given, *constants)

    def _rejected(
        self, make: MakeDerivative, inputs: Sequence["jax.ShapeDtypeStruct"], parameters: Parameters
    ) -> dict[int, str]:
        """Maps inputs for whose tangents the derivative raises an exception to the messages of the exceptions.

        For example, `equinox.filter_custom_vjp` rejects tangents of all arguments except the first one.
        """
        smooth = frozenset(i for i, x in enumerate(inputs) if is_smooth(x))
        captured, caches = parameters["num_consts"], list(parameters.values())
        if self._error(make(captured, frozenset()), caches) is None:
            return {}

        def rejected_among(some: Sequence[int], forward: bool) -> dict[int, str]:
            message = self._error(make(captured, smooth.difference(some), forward=forward), caches)
            if message is None or len(some) == 1:
                return {} if message is None else {some[0]: message}
            middle = len(some) // 2
            return rejected_among(some[:middle], forward) | rejected_among(some[middle:], forward)

        for forward in (True, False):  # some VJPs raise exceptions only in their backward pass
            rejected = rejected_among(sorted(smooth), forward)
            if len(rejected) == len(smooth):
                return rejected
            message = self._error(make(captured, frozenset(rejected)), caches)
            if message is None:
                return rejected
        return dict.fromkeys(smooth, str(message))

    def _error(self, given: Derivative, caches: Sequence[object]) -> str | None:
        """The message of the exception that a derivative raises while JAX traces it. Returns None if it raises none."""
        function, arguments = given
        try:
            self._jax.eval_shape(function, *arguments)
        except Exception as error:
            forget_traces(caches, set())
            return first_line(error) or f"its derivative raises {type(error).__name__}"
        return None

    def _is_kept(self, called: "jax.extend.core.ClosedJaxpr") -> bool:
        where = called.jaxpr.debug_info.func_src_info or ""
        if "jax/_src" in where.replace("\\", "/") and where.partition(" ")[0] in _DIFFERENTIATED_BY_OPS:
            return False
        is_static = _is_static([*called.in_avals, *called.out_avals])
        return is_static and not called.effects and any(map(is_smooth, called.out_avals))

    def is_closed(self, derivative: OwnDerivative) -> bool:
        """Whether a derivative reads only its arguments and constants, and no array that an outer function traces.

        A derivative that reads a traced array cannot be exported separately. At level 1, functions with such a
        derivative reject tangents, and solvers raise `Unsupported`. At higher levels, returns False, and the ops of the
        function are differentiated instead.
        """
        try:
            is_closed = self._is_closed((derivative.function, derivative.arguments))
        except TiducError:
            raise
        except Exception as error:
            raise TiducError(f"JAX cannot trace a custom derivative: {first_line(error)}; {HINT}") from error
        if not is_closed and derivative.level == 1:
            raise Unsupported(_TRACED)
        return is_closed

    def _is_closed(self, derivative: Derivative) -> bool:
        constants = self._jax.make_jaxpr(derivative[0])(*derivative[1]).consts
        return not any(isinstance(x, self._jax.core.Tracer) for x in constants)


def _is_static(types: Avals) -> bool:
    return all(isinstance(n, int) for x in types for n in x.shape)


def _of_first(function: Traceable, count: int) -> Traceable:
    """A function that calls `function` with its first `count` arguments, and ignores its other arguments."""
    return lambda *given: function(*given[:count])


def _too_deep(called: "jax.extend.core.ClosedJaxpr", level: int, is_last: bool) -> str:
    """The error message for a function whose derivative is beyond the last level, or else beyond the number `MOST`."""
    name = (called.jaxpr.debug_info.func_src_info or "a function").partition(" ")[0]
    if not is_last:
        return f"{name} has a custom derivative, but from_jax exports at most {MOST} derivatives; {HINT}"
    return (
        f"{name} has a custom derivative, of which from_jax exported {level} orders; "
        f"from_jax(..., custom_derivatives={level + 2}) exports more"
    )
