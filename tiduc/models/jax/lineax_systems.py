"""The regular linear systems whose solutions give the result x = A^+ b of `lineax.linear_solve`.

A^+ is the pseudo-inverse of A, A^H the adjoint (the conjugated transpose), and P the projector onto a null space:

    A square and regular                          A x = b
    A of full rank, with at least as many rows    A^H A x = A^H b
    A of full rank, with more columns             A A^H w = b,  x = A^H w
    A of any rank                                 (A^H A + P) z = A^H b,  (A A^H + Q) w = A z,  x = A^H w

P = I - A^+ A and Q = I - A A^+ are constants of the last two systems. If A changes, but not its rank, then the range of
A^H A stays a complement of the range of P. So P z stays 0, and z stays a least-squares solution. In the same way, Q w
stays 0. The derivatives of x of any order are therefore those of A^+ b, as long as the rank of A is constant. The
matrices of all systems but the first are Hermitian.

Source: Golub and Pereyra, "The differentiation of pseudo-inverses and nonlinear least squares problems" (1973).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from operator import add, sub
from types import ModuleType
from typing import Protocol

from tiduc.dialect.ops.control_ops import SOLVE, TRANSPOSE_SOLVE


class LinearOperator(Protocol):
    """A linear operator A of lineax. Vectors are pytrees of arrays."""

    def mv(self, vector: object) -> object:
        """The product A x with x = `vector`."""

    def transpose(self) -> "LinearOperator":
        """The transposed operator."""

    def in_structure(self) -> object:
        """The pytree of the types of the arrays in x."""

    def out_structure(self) -> object:
        """The pytree of the types of the arrays in A x."""


class LinearSolver(Protocol):
    """A linear solver of lineax. A state, such as a factorization, belongs to a solver and an operator."""

    def compute(self, state: object, vector: object, options: object) -> tuple[object, object, object]:
        """Returns the solution, whether the solve succeeded, and statistics."""

    def transpose(self, state: object, options: object) -> tuple[object, object]:
        """Returns the state and the options for the transposed operator."""

    def assume_full_rank(self) -> bool:
        """Whether the solver assumes that the operator has full rank."""


class SystemMatrix(Enum):
    """The matrix of a system. P and Q are 0 if the solver assumes that A has full rank."""

    PLAIN = "A"
    OF_COLUMNS = "A^H A + P"
    OF_ROWS = "A A^H + Q"


@dataclass(frozen=True)
class Solved:
    """An operator A with a solver and the solver's state. The methods take and return pytrees of arrays.

    `fixed` is A without tangents. It may be missing if the solver assumes that A has full rank.
    """

    jax: ModuleType
    operator: LinearOperator
    state: object
    options: object
    solver: LinearSolver
    fixed: LinearOperator | None = None

    def product(self, x: object) -> object:
        """A x."""
        return self.operator.mv(x)

    def adjoint_product(self, y: object) -> object:
        """A^H y."""
        return self._conjugated(self.operator.transpose().mv(self._conjugated(y)))

    def solution(self, b: object) -> object:
        """A^+ b."""
        return self.solver.compute(self.state, b, self.options)[0]

    def adjoint_solution(self, c: object) -> object:
        """The pseudo-inverse of A^H, times c."""
        state, options = self.solver.transpose(self.state, self.options)
        return self._conjugated(self.solver.compute(state, self._conjugated(c), options)[0])

    def null_part(self, x: object) -> object:
        """P x, the part of x that A maps to 0. Its derivative with respect to A is not computed."""
        return self.minus(x, self.solution(self._fixed_product(x)))

    def residual(self, b: object) -> object:
        """Q b, the part of b outside of the range of A. Its derivative with respect to A is not computed."""
        return self.minus(b, self._fixed_product(self.solution(b)))

    def plus(self, x: object, y: object) -> object:
        """x + y."""
        return self.jax.tree_util.tree_map(add, x, y)

    def minus(self, x: object, y: object) -> object:
        """x - y."""
        return self.jax.tree_util.tree_map(sub, x, y)

    def _fixed_product(self, x: object) -> object:
        assert self.fixed is not None
        return self.fixed.mv(x)

    def _conjugated(self, x: object) -> object:
        return self.jax.tree_util.tree_map(self.jax.numpy.conj, x)


Part = Callable[[Solved, object], object]
"""A function of an operator with its solver, and of a vector."""


def gram_of_columns(a: Solved, x: object) -> object:
    """(A^H A + P) x."""
    y = a.adjoint_product(a.product(x))
    return y if a.solver.assume_full_rank() else a.plus(y, a.null_part(x))


def gram_of_rows(a: Solved, x: object) -> object:
    """(A A^H + Q) x."""
    y = a.product(a.adjoint_product(x))
    return y if a.solver.assume_full_rank() else a.plus(y, a.residual(x))


def solution_of_columns(a: Solved, b: object) -> object:
    """The solution x of (A^H A + P) x = b: the pseudo-inverse of A^H A, times b, plus P b."""
    y = a.adjoint_solution(b)
    return a.solution(y) if a.solver.assume_full_rank() else a.plus(b, a.solution(a.minus(y, a.product(b))))


def solution_of_rows(a: Solved, b: object) -> object:
    """The solution x of (A A^H + Q) x = b: the pseudo-inverse of A A^H, times b, plus Q b."""
    y = a.solution(b)
    if a.solver.assume_full_rank():
        return a.adjoint_solution(y)
    return a.plus(b, a.adjoint_solution(a.minus(y, a.adjoint_product(b))))


_SYSTEMS: dict[SystemMatrix, tuple[Part, Part]] = {
    SystemMatrix.PLAIN: (Solved.product, Solved.solution),
    SystemMatrix.OF_COLUMNS: (gram_of_columns, solution_of_columns),
    SystemMatrix.OF_ROWS: (gram_of_rows, solution_of_rows),
}
"""For each matrix: the product with it, and the solution of its system."""


def solution(matrix: SystemMatrix) -> Part:
    """The solution x of M x = b, as a function of b."""
    return _SYSTEMS[matrix][1]


def functions(matrix: SystemMatrix, name: str) -> Iterator[tuple[str, str, str, Part]]:
    """The functions that belong to the solver `name`. `LinearSolve.derivatives` describes the tuples."""
    yield "", SOLVE, "", _SYSTEMS[matrix][0]
    if matrix is SystemMatrix.PLAIN:
        yield ".transpose", TRANSPOSE_SOLVE, name, Solved.adjoint_solution
        yield ".transpose.system", SOLVE, f"{name}.transpose", Solved.adjoint_product
