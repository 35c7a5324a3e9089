"""Which calls in a jaxpr depend on some of its inputs, such as the tangents of a JVP.

In a JVP, a function of tangents is linear. JAX differentiates its ops, without its custom derivative, which may call
the function again on tangents, without end. `from_jax` does so, too.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tiduc.models.jax.identity import origin

if TYPE_CHECKING:
    import jax

RULES = ("jvp_jaxpr_fun", "flatten")
"""The parameters of calls with derivatives of their own, of which each call has another object."""


def calls_that_depend(closed: "jax.extend.core.ClosedJaxpr", first: int) -> set[int]:
    """The identities of the rules of calls that depend on inputs from number `first` on."""
    found: set[int] = set()
    _visit(closed.jaxpr, [i >= first for i in range(len(closed.jaxpr.invars))], found)
    return found - {0}  # 0 stands for equations without a rule


def identity(parameters: Mapping[str, object]) -> int:
    """The identity of a call: that of the first of its rules; 0 if it has none."""
    return next((origin(parameters[name]) for name in RULES if name in parameters), 0)


def _visit(jaxpr: "jax.extend.core.Jaxpr", moving: Sequence[bool], found: set[int]) -> list[bool]:
    """Which results depend on the inputs that are `moving`. Adds the calls that depend on these inputs to `found`."""
    dependent = {id(variable) for variable, moves in zip(jaxpr.invars, moving, strict=True) if moves}
    for equation in jaxpr.eqns:
        given = [id(x) in dependent for x in equation.invars]
        if any(given):
            found.add(identity(equation.params))
            results = _inside(equation, given, found)
            dependent |= {id(y) for y, moves in zip(equation.outvars, results, strict=True) if moves}
    return [id(y) in dependent for y in jaxpr.outvars]


def _inside(equation: "jax.extend.core.JaxprEqn", given: list[bool], found: set[int]) -> list[bool]:
    """Which results of an equation depend on its operands that do."""
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
    """Which results of a loop depend: those of its last iteration."""
    while True:
        results = _visit(body.jaxpr, [*constants, *carries, *others], found)
        after = [x or y for x, y in zip(carries, results[: len(carries)], strict=True)]
        if after == carries:
            return [*carries, *results[len(carries) :]]
        carries = after
