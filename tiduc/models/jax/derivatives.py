"""Keeps the derivatives that functions define with `jax.custom_jvp` and `jax.custom_vjp`, and those of some primitives.

    y = f(x)                                                     in the function, where f.defjvp(rule)
    %y = stablehlo.composite "tidu.own.0" %x {decomposition = @f}    in its export
    func.func private @f(%x) attributes {tidu.jvp = @tidu.own.0}     in the model; %y = call @f(%x)

@tidu.own.0 is exported separately, from (x, dx) -> JAX's JVP of f, or from (x, cy) -> JAX's VJP of f. Such a derivative
may call functions with derivatives of their own, perhaps without end: the derivative of `jnp.sinc` calls another such
function. After `LEVELS` levels, the ops of these functions are differentiated instead.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from torch_mlir import ir

from tiduc.dialect.errors import TiducError, Unsupported, first_line
from tiduc.dialect.graph.functions import functions_in, replace_by_call, symbol, within
from tiduc.dialect.ops.control_ops import DERIVATIVES, TRANSPOSE_SOLVE
from tiduc.dialect.ops.ir_types import IrValue
from tiduc.models.jax.solves import Jaxprs, LinearSolve
from tiduc.passes.rules.composite import NOT_DIFFERENTIABLE

if TYPE_CHECKING:
    import jax
    from jax.interpreters import mlir as lowering


Traceable = Callable[..., Any]
"""A function of arrays, which JAX can trace."""

Avals = Sequence["jax.ShapeDtypeStruct | jax.core.ShapedArray"]
"""The shapes and element types of arrays."""

MakeDerivative = Callable[[int, frozenset[int]], tuple[Traceable, Avals]]
"""(the number of captured arrays, rejected inputs) -> a derivative, and the types of its arguments."""

_PREFIX = "tidu.own."
LEVELS = 3
_COMPOSITE = "stablehlo.composite"
_DIFFERENTIATED_BY_OPS = ("relu", "relu6", "logaddexp", "_softmax", "_det", "_slogdet_lu")
"""JAX's functions whose ops have the derivative that JAX defines, or a better one: JAX's derivative of `det` is 0 where
a pivot before the last one is 0. tiduc finds `relu` and `relu6` by their names."""
_EXPANDED = ("igamma", "igammac")
"""JAX's primitives whose expansions have loops that end when the value has converged, before its derivative has."""
_HINT = "from_jax(..., custom_derivatives=False) differentiates the ops of all functions"


@dataclasses.dataclass(frozen=True)
class OwnDerivative:
    """A derivative to export: a function of arrays like `arguments`, for the composites named `name`.

    `attribute` is the entry of `NAMED_GRAPHS` for this kind of derivative. `level` is the level of derivatives of
    functions that this derivative calls. `of` names the composites, or the derivative, whose attribute refers to this
    derivative. An empty `of` stands for the composites `name`.
    """

    name: str
    attribute: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    level: int
    of: str = ""


class OwnDerivatives:
    """Collects the derivatives that functions define for themselves while JAX lowers the functions."""

    def __init__(self, jax: ModuleType, levels: int) -> None:
        self._jax = jax
        self._levels = levels
        self.collected: list[OwnDerivative] = []

    def lowering_rules(self, level: int) -> tuple[tuple[Any, Callable[..., Any]], ...]:
        """Pairs of a primitive of JAX and its lowering rule, for derivatives of this level.

        Each export needs new rules: JAX caches lowered functions by the rules, and then calls no rule.
        """
        from jax.extend.core import primitives

        if level == self._levels:
            return ()
        own = primitives.custom_jvp_call_p, primitives.custom_vjp_call_p
        calls = tuple(
            (primitive, functools.partial(self._lowered, primitive, attribute, level))
            for primitive, attribute in zip(own, DERIVATIVES[:2], strict=True)
        )
        expanded = [
            (primitive, functools.partial(self._lowered_primitive, primitive, level))
            for name in _EXPANDED
            if (primitive := getattr(self._jax.lax, f"{name}_p", None)) is not None
        ]
        return (*calls, *expanded, (primitives.linear_solve_p, functools.partial(self._lowered_solve, level)))

    def _lowered(
        self,
        primitive: "jax.extend.core.Primitive",
        attribute: str,
        level: int,
        ctx: "lowering.LoweringRuleContext",
        *operands: IrValue,
        **parameters: Any,
    ) -> Any:
        from jax.interpreters import mlir

        called = parameters["call_jaxpr"]
        function = self._jax.extend.core.jaxpr_as_fun(called)
        if self._is_kept(called):
            bound = functools.partial(primitive.bind, **primitive.get_bind_params(parameters))
            inputs = [self._jax.ShapeDtypeStruct(x.shape, x.dtype) for x in called.in_avals]
            make = functools.partial(
                self._jvp if attribute == DERIVATIVES[0] else self._vjp, bound, inputs, called.out_avals
            )
            rejected = self._rejected(make, inputs, parameters["num_consts"])
            if rejected:
                _forget_traces(parameters)
            kept = function
            if len(rejected) < sum(map(self._is_smooth, inputs)):
                name = f"{_PREFIX}{len(self.collected)}"
                given = make(parameters["num_consts"], frozenset(rejected))
                self.collected.append(OwnDerivative(name, attribute, *given, level + 1))
                kept = self._jax.lax.composite(function, name)
            function = self._rejecting(kept, rejected)
        return mlir.lower_fun(function, multiple_results=True)(ctx, *operands)

    def _lowered_primitive(
        self,
        primitive: "jax.extend.core.Primitive",
        level: int,
        ctx: "lowering.LoweringRuleContext",
        *operands: IrValue,
        **parameters: object,
    ) -> object:
        """Lowers a primitive with one result to a composite of its expansion, which the other rules lower."""
        from jax.interpreters import mlir

        function = functools.partial(primitive.bind, **parameters)
        if self._is_static([*ctx.avals_in, *ctx.avals_out]):
            name = f"{_PREFIX}{len(self.collected)}"
            inputs = [self._jax.ShapeDtypeStruct(x.shape, x.dtype) for x in ctx.avals_in]
            given = self._jvp(
                lambda *x: [primitive.bind(*x, **parameters)], inputs, ctx.avals_out, 0, frozenset()
            )
            self.collected.append(OwnDerivative(name, DERIVATIVES[0], *given, level + 1))
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
        """Lowers `jax.lax.custom_linear_solve` to a composite of its solver: (b..., constants...) -> (x...).

        A direct solver, such as `jnp.linalg.solve`, and a solver with auxiliary results are lowered to their ops.
        """
        from jax.interpreters import mlir

        call = LinearSolve(self._jax, const_lengths, jaxprs)
        function: Traceable = call.solve
        if call.is_kept and self._is_kept(jaxprs.solve):
            name = f"{_PREFIX}{len(self.collected)}"
            inputs = [self._jax.ShapeDtypeStruct(x.shape, x.dtype) for x in ctx.avals_in]
            for suffix, attribute, of, derivative in call.derivatives(name):
                given = derivative, tuple(call.in_order(inputs))
                self.collected.append(OwnDerivative(f"{name}{suffix}", attribute, *given, level + 1, of))
            function = self._jax.lax.composite(call.solve, name)
        return mlir.lower_fun(lambda *given: function(*call.in_order(given)), multiple_results=True)(
            ctx, *operands
        )

    def _rejected(
        self, make: MakeDerivative, inputs: Sequence["jax.ShapeDtypeStruct"], captured: int
    ) -> dict[int, str]:
        """The inputs whose tangents the function's derivative rejects by an exception, with the messages.

        `equinox.filter_custom_vjp` rejects tangents of all arguments except the first one.
        """
        smooth = frozenset(i for i, x in enumerate(inputs) if self._is_smooth(x))
        error = functools.cache(
            lambda rejected: self._error(make(captured, rejected))
        )  # JAX traces each function once
        if error(frozenset()) is None:
            return {}
        alone = {i: error(smooth - {i} if len(smooth) > 1 else frozenset()) for i in sorted(smooth)}
        rejected = {i: message for i, message in alone.items() if message is not None}
        if len(rejected) < len(smooth) and (message := error(frozenset(rejected))) is not None:
            return dict.fromkeys(smooth, message)
        return rejected

    def _error(self, given: tuple[Traceable, Avals]) -> str | None:
        """The message of the exception that a derivative raises while JAX traces it; None without an exception."""
        function, arguments = given
        try:
            self._jax.eval_shape(function, *arguments)
        except Exception as error:
            return first_line(error) or f"its derivative raises {type(error).__name__}"
        return None

    def _rejecting(self, function: Traceable, rejected: Mapping[int, str]) -> Callable[..., Any]:
        """The function, changed so that it refuses tangents of the `rejected` arguments."""

        def call(*given: "jax.Array") -> Any:
            composite = self._jax.lax.composite(lambda x, reason: x, NOT_DIFFERENTIABLE)
            return function(
                *(composite(x, reason=rejected[i]) if i in rejected else x for i, x in enumerate(given))
            )

        return call if rejected else function

    def _is_kept(self, called: "jax.extend.core.ClosedJaxpr") -> bool:
        where = called.jaxpr.debug_info.func_src_info or ""
        if "jax/_src" in where.replace("\\", "/") and where.partition(" ")[0] in _DIFFERENTIATED_BY_OPS:
            return False
        is_static = self._is_static([*called.in_avals, *called.out_avals])
        return is_static and not called.effects and any(map(self._is_smooth, called.out_avals))

    def _is_static(self, types: Avals) -> bool:
        return all(isinstance(n, int) for x in types for n in x.shape)

    def is_closed(self, derivative: OwnDerivative) -> bool:
        """Whether a derivative reads only its arguments and constants, not an array that an outer function traces.

        A derivative that reads a traced array cannot be exported by itself. Raises `Unsupported` for such a derivative
        if the exported function calls the function that has it. If only another derivative calls the function, the ops
        of the function are differentiated instead.
        """
        try:
            closed = self._jax.make_jaxpr(derivative.function)(*derivative.arguments)
        except TiducError:
            raise
        except Exception as error:
            raise TiducError(f"JAX cannot trace a custom derivative: {first_line(error)}; {_HINT}") from error
        if not any(isinstance(x, self._jax.core.Tracer) for x in closed.consts):
            return True
        if derivative.level > 1:
            return False
        raise Unsupported(
            "the derivative of a function with custom_jvp or custom_vjp reads a traced array that is not its argument; "
            f"arguments in nondiff_argnums must be constants; {_HINT}"
        )

    def _is_smooth(self, x: "jax.ShapeDtypeStruct | jax.core.ShapedArray") -> bool:
        return bool(self._jax.numpy.issubdtype(x.dtype, self._jax.numpy.inexact))

    def _zero(self, x: "jax.ShapeDtypeStruct | jax.core.ShapedArray") -> Any:
        """The tangent of an array of integers."""
        return self._jax.numpy.zeros(x.shape, self._jax.dtypes.float0)

    def _jvp(
        self,
        bound: Traceable,
        inputs: Avals,
        results: Avals,
        _: int,
        rejected: frozenset[int],
    ) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """The function (x..., dx...) -> (y..., dy...), and the types of its arguments.

        The function ignores tangents of the `rejected` inputs.
        """
        moving = [i for i in range(len(inputs)) if i not in rejected]

        def function(*given: "jax.Array") -> list[Any]:
            tangents = iter(given[len(inputs) :])
            dx = [next(tangents) if self._is_smooth(x) else self._zero(x) for x in inputs]
            along = _along(bound, given[: len(inputs)], moving)
            y, dy = self._jax.jvp(along, [given[i] for i in moving], [dx[i] for i in moving])
            return [*y, *(each for each, like in zip(dy, results, strict=True) if self._is_smooth(like))]

        return function, (*inputs, *filter(self._is_smooth, inputs))

    def _vjp(
        self,
        bound: Traceable,
        inputs: Avals,
        results: Avals,
        captured: int,
        rejected: frozenset[int],
    ) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """The function (x..., cy...) -> cx..., and the types of its arguments.

        Cotangents of the `rejected` inputs are zero. JAX's cotangents of complex numbers are the conjugates of tiduc's.
        """
        if any(map(self._is_smooth, inputs[:captured])):
            raise Unsupported(
                "a function with custom_vjp reads a traced array of an enclosing function; "
                f"it has no derivative in this array, which has to be an argument; {_HINT}"
            )
        numpy = self._jax.numpy
        moving = [i for i in range(captured, len(inputs)) if i not in rejected]

        def function(*given: "jax.Array") -> list[Any]:
            cotangents = iter(given[len(inputs) :])
            cy = [numpy.conj(next(cotangents)) if self._is_smooth(y) else self._zero(y) for y in results]
            along = _along(bound, given[: len(inputs)], moving)
            _, pullback = self._jax.vjp(along, *(given[i] for i in moving))
            of = dict(zip(moving, pullback(cy), strict=True))
            return [
                numpy.conj(of[i]) if i in of else numpy.zeros(x.shape, x.dtype)
                for i, x in enumerate(inputs)
                if i >= captured and self._is_smooth(x)
            ]

        return function, (*inputs, *filter(self._is_smooth, results))


def _forget_traces(parameters: Mapping[str, object]) -> None:
    """Clears JAX's cache of traced derivatives of a call. Its keys are the sets of nonzero tangents.

    An exception that ends a trace leaves an incomplete entry, which lacks the structure of the results.
    """
    for value in parameters.values():
        for cell in getattr(getattr(value, "f", None), "__closure__", None) or ():
            if isinstance(cell.cell_contents, dict):
                cell.cell_contents.clear()


def _along(bound: Traceable, given: Sequence["jax.Array"], moving: Sequence[int]) -> Callable[..., list[Any]]:
    """A function of only the arguments at the positions `moving`; the other arguments are fixed."""

    def along(*moved: "jax.Array") -> list[Any]:
        of = dict(zip(moving, moved, strict=True))
        return list(bound(*(of.get(i, x) for i, x in enumerate(given))))

    return along


def name_derivatives(module: ir.Module, derivatives: Sequence[OwnDerivative]) -> None:
    """Replaces composites of functions that have derivatives by calls of these functions, which name the derivatives.

    A derivative's name is also the name of a function.
    """
    functions = {symbol(op): op for op in functions_in(module)}
    of_name: dict[str, list[OwnDerivative]] = {}
    for own in derivatives:
        of_name.setdefault(own.of or own.name, []).append(own)
        functions[own.name].attributes["sym_visibility"] = ir.StringAttr.get("private")
    for composite in within(module.operation, [_COMPOSITE]):
        name = ir.StringAttr(composite.attributes["name"]).value
        if name in of_name:
            callee = ir.FlatSymbolRefAttr(composite.attributes["decomposition"]).value
            for own in of_name[name]:
                functions[callee].attributes[own.attribute] = ir.FlatSymbolRefAttr.get(own.name)
                if own.attribute == TRANSPOSE_SOLVE:
                    functions[own.name].attributes[TRANSPOSE_SOLVE] = ir.FlatSymbolRefAttr.get(callee)
            replace_by_call(composite.operation, callee)
    of_derivatives = {own.name for own in derivatives if own.of}
    for own in derivatives:
        if own.of in of_derivatives:
            functions[own.of].attributes[own.attribute] = ir.FlatSymbolRefAttr.get(own.name)
