"""Splits `jax.lax.custom_linear_solve` into functions: the solver and the linear map, for A and for its transpose A'.

solve(b, constants) -> x, where A x = b             transpose_solve(y, constants) -> c, where A' c = y
"""

from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from tiduc.dialect.ops.control_ops import SOLVE, TRANSPOSE_SOLVE

if TYPE_CHECKING:
    import jax

Traceable = Callable[..., Any]
T = TypeVar("T")
SOLVABLE = {"float32", "float64", "complex64", "complex128"}
"""The element types of systems that tiduc solves."""


class Jaxprs(Protocol):
    """The four functions of a call, as jaxprs. The two functions of the transposed system may be None."""

    matvec: "jax.extend.core.ClosedJaxpr"
    vecmat: "jax.extend.core.ClosedJaxpr | None"
    solve: "jax.extend.core.ClosedJaxpr"
    transpose_solve: "jax.extend.core.ClosedJaxpr | None"


def equations_in(jaxpr: object) -> Iterator["jax.extend.core.JaxprEqn"]:
    """The equations of a jaxpr, and of the jaxprs in the parameters of these equations."""
    seen, stack = set(), [jaxpr]
    while stack:
        value = stack.pop()
        inner = getattr(value, "jaxpr", value)  # a closed jaxpr contains a jaxpr
        if isinstance(value, tuple | list):
            stack += value
        elif hasattr(inner, "eqns") and id(inner) not in seen:
            seen.add(id(inner))
            yield from inner.eqns
            stack += [parameter for equation in inner.eqns for parameter in equation.params.values()]


def is_iterative(solve: object) -> bool:
    """Whether a solver has a `while` loop. The ops of other solvers have derivatives in both modes."""
    return any(equation.primitive.name == "while" for equation in equations_in(solve))


class LinearSolve:
    """A call of `custom_linear_solve`, described by the parameters of JAX's primitive.

    The functions take the arrays of b, or of x, followed by the constants of all functions.
    """

    is_symmetric = False
    """Whether A equals its adjoint. If it does, JAX names `solve` as the solver of the transposed system, too."""

    def __init__(self, jax: ModuleType, const_lengths: Sequence[int], jaxprs: Jaxprs) -> None:
        self._jax, self._counts, self._jaxprs = jax, list(const_lengths)[:4], jaxprs
        self.size = len(jaxprs.matvec.out_avals)
        self.key = [self._counts, jaxprs]
        """What the solver depends on, for `RuleKeys`."""

    def in_order(self, given: Sequence[T]) -> list[T]:
        """The operands of the primitive in the order of the functions: b, which is last, becomes first."""
        first = len(given) - self.size
        return [*given[first:], *given[:first]]

    @property
    def is_kept(self) -> bool:
        """Whether the call becomes a solver of tiduc.

        This requires an iterative solver without auxiliary results, whose arrays have one type of `SOLVABLE`.
        """
        outputs = self._jaxprs.solve.out_avals
        if not is_iterative(self._jaxprs.solve):
            return False
        types = {str(x.dtype) for x in outputs}
        return len(outputs) == self.size and len(types) == 1 and types <= SOLVABLE

    def solve(self, *given: "jax.Array") -> list["jax.Array"]:
        """The solution x. The arguments are b and the constants."""
        return self._call("solve", 2, given)

    def derivatives(self, name: str) -> Iterator[tuple[str, str, str, Traceable]]:
        """The functions that belong to the solver `name`.

        Yields tuples: the suffix of the function's name, the attribute that refers to the function, the owner of the
        attribute ("" for the solver), and the function.
        """
        yield "", SOLVE, "", lambda *given: self._call("matvec", 0, given)
        if self._jaxprs.transpose_solve is not None:
            back = f"{name}.transpose"
            yield (
                ".transpose",
                TRANSPOSE_SOLVE,
                name,
                lambda *given: self._conjugated("transpose_solve", 3, given),
            )
            yield ".transpose.system", SOLVE, back, lambda *given: self._conjugated("vecmat", 1, given)

    def _call(self, function: str, number: int, given: Sequence["jax.Array"]) -> list["jax.Array"]:
        """Calls one of the four functions. `number` is the index of the function in the list of constant counts."""
        at = self.size + sum(self._counts[:number])
        constants = given[at : at + self._counts[number]]
        call = self._jax.extend.core.jaxpr_as_fun(getattr(self._jaxprs, function))
        return list(call(*constants, *given[: self.size]))

    def _conjugated(self, function: str, number: int, given: Sequence["jax.Array"]) -> list["jax.Array"]:
        """Calls a function of the transposed system for the adjoint system, by conjugating operands and results.

        tiduc's transpose of a complex linear map is the adjoint map.
        """
        conj = self._jax.numpy.conj
        turned = [conj(x) for x in given[: self.size]]
        return [conj(y) for y in self._call(function, number, [*turned, *given[self.size :]])]
