"""The JVP and the VJP of a call, as functions of arrays that JAX can trace.

(x..., dx...) -> (y..., dy...)    a JVP                (x..., cy...) -> cx...    a VJP
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Protocol

from tiduc.models.jax.solves import equations_in

if TYPE_CHECKING:
    import jax
    from jax import Array


Traceable = Callable[..., Any]
"""A function of arrays, which JAX can trace."""

LoweringRules = tuple[tuple[Any, Traceable], ...]
"""Pairs of a primitive of JAX and its lowering rule."""

Avals = Sequence["jax.ShapeDtypeStruct | jax.core.ShapedArray"]
"""The shapes and element types of arrays."""


Derivative = tuple[Traceable, tuple[Any, ...]]
"""A function that computes a derivative, and the types of its arguments."""

Parameters = Mapping[str, Any]
"""The parameters of a call in a jaxpr."""


class MakeDerivative(Protocol):
    """Returns a function that computes a derivative, and the types of its arguments.

    The first `captured` inputs are arrays that the function captures, and `rejected` has the indices of inputs whose
    tangents are rejected. With `forward`, a VJP returns only the outputs of the primal function, which is faster to
    trace.
    """

    def __call__(
        self, captured: int = 0, rejected: frozenset[int] = frozenset(), forward: bool = False
    ) -> Derivative: ...


HINT = "from_jax(..., custom_derivatives=False) differentiates the ops of all functions"


@dataclass(frozen=True)
class CalledFunction:
    """A function that JAX can trace, with the types of its arguments and of its results."""

    jax: ModuleType
    bound: Traceable
    inputs: Avals
    results: Avals

    def jvp(self, captured: int = 0, rejected: Collection[int] = (), forward: bool = False) -> Derivative:
        """The JVP (x..., dx...) -> (y..., dy...). It ignores tangents of the `rejected` inputs."""
        jax, inputs = self.jax, self.inputs
        moving = [i for i in range(len(inputs)) if i not in rejected]

        def function(*given: "Array") -> list["Array"]:
            tangents = iter(given[len(inputs) :])
            dx = [next(tangents) if is_smooth(x) else _zero(jax, x) for x in inputs]
            along = _along(self.bound, given[: len(inputs)], moving)
            y, dy = jax.jvp(along, [given[i] for i in moving], [dx[i] for i in moving])
            return [*y, *(each for each, like in zip(dy, self.results, strict=True) if is_smooth(like))]

        return function, (*inputs, *filter(is_smooth, inputs))

    def vjp(self, captured: int = 0, rejected: Collection[int] = (), forward: bool = False) -> Derivative:
        """The VJP (x..., cy...) -> cx....

        The cotangents of the `rejected` inputs and of the first `captured` inputs are zero. Complex cotangents are
        conjugated before and after JAX's VJP, because JAX's convention differs from tiduc's.
        """
        jax, inputs, numpy = self.jax, self.inputs, self.jax.numpy
        moving = [i for i in range(captured, len(inputs)) if i not in rejected]

        def function(*given: "Array") -> list["Array"]:
            cotangents = iter(given[len(inputs) :])
            cy = [numpy.conj(next(cotangents)) if is_smooth(y) else _zero(jax, y) for y in self.results]
            along = _along(self.bound, given[: len(inputs)], moving)
            y, pullback = jax.vjp(along, *(given[i] for i in moving))
            if forward:
                return list(y)
            of = dict(zip(moving, pullback(cy), strict=True))
            return [
                numpy.conj(of[i]) if i in of else numpy.zeros(x.shape, x.dtype)
                for i, x in enumerate(inputs)
                if is_smooth(x)
            ]

        return function, (*inputs, *filter(is_smooth, self.results))


def hoisted(jax: ModuleType, function: Traceable, types: Avals) -> tuple[Traceable, list["Array"]]:
    """Returns a function of the arguments and of the constant arrays that `function` reads, and these arrays.

    Without this, JAX would pass the constant arrays to a composite as operands before the arguments.
    """
    closed = jax.make_jaxpr(function)(*types)
    run, count = jax.core.eval_jaxpr, len(types)
    return lambda *given: run(closed.jaxpr, given[count:], *given[:count]), list(closed.consts)


def is_smooth(x: "jax.ShapeDtypeStruct | jax.core.ShapedArray") -> bool:
    """Whether an array has tangents, because its elements are floats or complex numbers."""
    return str(x.dtype.name).startswith(("float", "bfloat", "complex"))


def _zero(jax: ModuleType, x: "jax.ShapeDtypeStruct | jax.core.ShapedArray") -> object:
    """The tangent of an array of integers or booleans."""
    return jax.numpy.zeros(x.shape, jax.dtypes.float0)


def _along(bound: Traceable, given: Sequence["jax.Array"], moving: Sequence[int]) -> Traceable:
    """A function of the arguments at the positions `moving`. The other arguments have the fixed values in `given`."""

    def along(*moved: "jax.Array") -> list["Array"]:
        of = dict(zip(moving, moved, strict=True))
        return list(bound(*(of.get(i, x) for i, x in enumerate(given))))

    return along


def forget_traces(value: object, seen: set[int]) -> None:
    """Clears JAX's caches of traced derivatives in `value`, which is a parameter of a call.

    If an exception ends a trace, a cache keeps an incomplete entry, which lacks the structure of the results. The
    caches are dictionaries in the closures of functions. The function also clears caches in calls of nested jaxprs.
    """
    if id(value) in seen:
        return
    seen.add(id(value))
    if hasattr(getattr(value, "jaxpr", value), "eqns"):
        for equation in equations_in(value):
            forget_traces(list(equation.params.values()), seen)
    elif isinstance(value, list | tuple):
        for each in value:
            forget_traces(each, seen)
    elif isinstance(value, FunctionType):
        for cell in value.__closure__ or ():
            if isinstance(cell.cell_contents, dict):
                cell.cell_contents.clear()
            else:
                forget_traces(cell.cell_contents, seen)
    elif type(value).__name__ == "WrappedFun":
        forget_traces(value.f, seen)  # type: ignore[attr-defined]
