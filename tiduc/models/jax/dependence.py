"""Finds the calls in a jaxpr that depend on certain inputs of the jaxpr, such as the tangents of a JVP.

In a JVP, a function of tangents is linear. JAX ignores the custom derivative of such a function, and differentiates the
ops of the function instead, because the custom derivative may call the function on tangents again, endlessly.
`from_jax` does the same.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tiduc.models.jax.identity import origin

if TYPE_CHECKING:
    import jax

RULES = ("jvp_jaxpr_fun", "flatten")
"""The parameters that identify a call with a custom derivative, because each call has its own objects as values."""


def calls_that_depend(closed: "jax.extend.core.ClosedJaxpr", first: int) -> set[int]:
    """The identities of the calls that depend on an input with index `first` or higher."""
    found: set[int] = set()
    _visit(closed.jaxpr, [i >= first for i in range(len(closed.jaxpr.invars))], found)
    return found - {0}  # 0 is the identity of equations without a custom derivative


def identity(parameters: Mapping[str, object]) -> int:
    """The identity of a call: that of its first parameter in `RULES`. Returns 0 if it has none of these parameters.

    A batch of equinox contains the parameters of the call as pairs in its parameter `params`.
    """
    inner: Any = parameters.get("params", ())
    given = dict(inner) if "prim" in parameters else parameters
    return next((origin(given[name]) for name in RULES if name in given), 0)


def _visit(jaxpr: "jax.extend.core.Jaxpr", moving: Sequence[bool], found: set[int]) -> list[bool]:
    """For each result of a jaxpr, whether it depends on an input whose flag in `moving` is set.

    Adds the identities of calls that depend on such an input to `found`.
    """
    dependent = {id(variable) for variable, moves in zip(jaxpr.invars, moving, strict=True) if moves}
    for equation in jaxpr.eqns:
        given = [id(x) in dependent for x in equation.invars]
        if any(given):
            found.add(identity(equation.params))
            results = _inside(equation, given, found)
            dependent |= {id(y) for y, moves in zip(equation.outvars, results, strict=True) if moves}
    return [id(y) in dependent for y in jaxpr.outvars]


def _inside(equation: "jax.extend.core.JaxprEqn", given: list[bool], found: set[int]) -> list[bool]:
    """For each result of an equation, whether it depends on an operand whose flag in `given` is set."""
    name, parameters = equation.primitive.name, equation.params
    everything = [True] * len(equation.outvars)
    if name == "scan":
        fixed, count = parameters["num_consts"], parameters["num_carry"]
        return _repeated(
            parameters["jaxpr"], given[:fixed], given[fixed : fixed + count], given[fixed + count :], found
        )
    if name == "while":
        skipped, fixed = parameters["cond_nconsts"], parameters["body_nconsts"]
        constants = given[skipped : skipped + fixed]
        return _repeated(parameters["body_jaxpr"], constants, given[skipped + fixed :], [], found)
    if name == "cond":
        branches = [_visit(branch.jaxpr, given[1:], found) for branch in parameters["branches"]]
        return everything if given[0] else [any(some) for some in zip(*branches, strict=True)]
    for parameter in parameters.values():
        inner = getattr(parameter, "jaxpr", parameter)
        if len(getattr(inner, "invars", ())) == len(given) and hasattr(inner, "eqns"):
            return _visit(inner, given, found)
    return everything


def _repeated(
    body: "jax.extend.core.ClosedJaxpr",
    constants: list[bool],
    carries: list[bool],
    others: list[bool],
    found: set[int],
) -> list[bool]:
    """For each result of a loop, whether it depends on an operand whose flag is set.

    A carry may depend on such an operand only after several iterations, so the flags are updated until they are stable.
    """
    while True:
        results = _visit(body.jaxpr, [*constants, *carries, *others], found)
        after = [x or y for x, y in zip(carries, results[: len(carries)], strict=True)]
        if after == carries:
            return [*carries, *results[len(carries) :]]
        carries = after
