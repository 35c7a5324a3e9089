"""Splits `lineax.linear_solve` into functions: the solver and the linear map, for the system and for its transpose.

lineax computes the state of a solver, such as a factorization, from an operator whose gradients are stopped, because
the primitive has its own derivative rules. An export contains only the ops of the solver. The derivative of these ops
with respect to the operator would be zero.
"""

import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

from tiduc.dialect.ops.control_ops import SOLVE, TRANSPOSE_SOLVE
from tiduc.models.jax.derivative_functions import Parameters, is_smooth
from tiduc.models.jax.solves import SOLVABLE, Traceable, is_iterative

if TYPE_CHECKING:
    import jax
    from jax.extend.core import Primitive

    Types = Sequence[jax.ShapeDtypeStruct | jax.core.ShapedArray]


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

    def in_size(self) -> int:
        """The number of columns."""

    def out_size(self) -> int:
        """The number of rows."""


class LinearSolver(Protocol):
    """A linear solver of lineax. A state, such as a factorization, belongs to a solver and an operator."""

    def compute(self, state: object, vector: object, options: object) -> tuple[object, object, object]:
        """Returns the solution, whether the solve succeeded, and statistics."""

    def transpose(self, state: object, options: object) -> tuple[object, object]:
        """Returns the state and the options for the transposed operator."""

    def assume_full_rank(self) -> bool:
        """Whether the solver assumes that the operator has full rank."""


Part = Callable[[LinearOperator, object, object, object, LinearSolver], object]
"""A function of (operator, state, vector, options, solver)."""

Batch = tuple[int, tuple[int | None, ...]]
"""The size of a batch of `jax.vmap`, and for each operand its batched axis, or None."""


def primitives() -> "tuple[jax.extend.core.Primitive, ...]":
    """The primitives of a solve and of a batch of solves. Returns an empty tuple if lineax is not imported."""
    solve = getattr(sys.modules.get("lineax._solve"), "linear_solve_p", None)
    return () if solve is None else (solve, _internal("_vprim_p"))


def _internal(name: str) -> Any:
    """An attribute of equinox's private module of primitives."""
    return getattr(sys.modules["equinox.internal._primitive"], name)


class LineaxSolve:
    """A call of one of `primitives`, with the interface of `LinearSolve`.

    The solver solves M x = b. M is the operator A if A is square, A' A if A has more rows than columns, and A A' if A
    has more columns than rows. The arguments of the solver are b, followed by the operands of the call except those of
    the right-hand side.
    """

    def __init__(
        self, jax: ModuleType, primitive: "Primitive", operands: "Types", parameters: Parameters
    ) -> None:
        self._jax: Any = jax
        self._leaves = self._jax.tree_util.tree_leaves
        self._types, self._count = list(operands), len(operands)
        self._batch: Batch | None = None
        if "prim" in parameters:  # equinox's primitive for a batch
            self._batch = parameters["__axis_size"], tuple(parameters["__batch_axes"])
            primitive, parameters = parameters["prim"], dict(parameters["params"])
        self._primitive, self._parameters = primitive, parameters
        places = self._arguments(range(len(operands))) if primitive.name == "linear_solve" else ()
        self.is_solve = len(places) == 6
        if self.is_solve:
            self._right, self._moving = self._numbers(places[2]), self._numbers((places[0], places[2]))
            types = [self._single(x, i) for i, x in enumerate(operands)]
            self.operator, _, _, _, self._solver, _ = self._arguments(types)
            self._in, self._out = self.operator.in_structure(), self.operator.out_structure()
        self.size = len(self._leaves(self._unknown)) if self.is_solve else 0

    @property
    def is_kept(self) -> bool:
        """Whether the call becomes a solver of tiduc, which has derivatives of any order.

        This requires an operator of full rank, and arrays of one type.
        """
        return self.is_solve and self._solver.assume_full_rank() and self._has_one_type

    @property
    def is_kept_for_tangents(self) -> bool:
        """Whether a call on a tangent becomes a solver of tiduc. It does if the solver iterates, as LSMR does.

        The ops of an iterative solver are not linear.
        """
        if not self.is_solve or not self._has_one_type:
            return False
        types = self.in_order([self._jax.ShapeDtypeStruct(x.shape, x.dtype) for x in self._types])
        return is_iterative(self._jax.make_jaxpr(self.solve)(*types))

    @property
    def _has_one_type(self) -> bool:
        """Whether tiduc can solve M x = b, which requires that all arrays have one supported type."""
        arrays = self._leaves((self._in, self._out))
        types = {str(x.dtype) for x in arrays}
        is_square = [x.shape for x in self._leaves(self._in)] == [x.shape for x in self._leaves(self._out)]
        if not is_square and (self._columns == self._rows or not types <= {"float32", "float64"}):
            return False
        return len(types) == 1 and types <= SOLVABLE

    @property
    def key(self) -> list[object]:
        """What the derivatives of the call depend on, for `RuleKeys`. They do not check whether a solve fails."""
        chosen = dict(self._parameters)
        if self.is_solve:
            chosen["static"] = chosen["static"][:-1]  # the last argument of the primitive is `throw`
        return [self._primitive, chosen, self._batch]

    def without_tangents(self) -> frozenset[int]:
        """The operands of the primitive that have no tangents: all except those of the operator and the vector."""
        return frozenset(range(self._count)).difference(self._moving) if self.is_solve else frozenset()

    def without_right_side(self) -> frozenset[int]:
        """The real or complex operands of the primitive, except those of the vector."""
        smooth = {i for i, x in enumerate(self._types) if is_smooth(x)}
        return frozenset(smooth.difference(self._right) if self.is_solve else smooth)

    def in_order(self, types: "Types") -> list["jax.ShapeDtypeStruct"]:
        """The types of the arguments of the solver. `types` are the types of the operands of the primitive."""
        right = [self._spread(x) for x in self._leaves(self._unknown)]
        return [*right, *(x for i, x in enumerate(types) if i not in self._right)]

    def solution(self, solver: Traceable, operands: Sequence["jax.Array"]) -> list["jax.Array"]:
        """Solves A x = b by a solver of M x = b.

        If A has more rows than columns, x is the least-squares solution. If A has more columns, x has the least norm.
        """
        right = [operands[i] for i in self._right]
        others = [x for i, x in enumerate(operands) if i not in self._right]
        right = [self._moved(x, i) for x, i in zip(right, self._right, strict=True)]
        if self._rows > self._columns:
            right = self._call(_transposed_product, self._out, *right, *others)
        x = list(solver(*right, *others))
        return self._call(_transposed_product, self._out, *x, *others) if self._rows < self._columns else x

    def solve(self, *given: "jax.Array") -> list["jax.Array"]:
        """The solution x of M x = b. The arguments are b and the other operands."""
        return self._call(
            _solution if self._rows == self._columns else _normal_solution, self._unknown, *given
        )

    def derivatives(self, name: str) -> Iterator[tuple[str, str, str, Traceable]]:
        """The functions that belong to the solver `name`. `LinearSolve.derivatives` describes the tuples."""
        call = functools.partial
        if self._rows != self._columns:  # M is symmetric
            product = _product_of_rows if self._rows > self._columns else _product_of_columns
            yield "", SOLVE, "", call(self._call, product, self._unknown)
            return
        yield "", SOLVE, "", call(self._call, _product, self._unknown)
        back = f"{name}.transpose"
        yield ".transpose", TRANSPOSE_SOLVE, name, call(self._conjugated, _transposed_solution)
        yield ".transpose.system", SOLVE, back, call(self._conjugated, _transposed_product)

    def whole(self, *operands: "jax.Array", throws: bool) -> list["jax.Array"]:
        """Calls the implementation of the primitive. Without `throws`, it does not check whether the solve failed."""
        chosen = dict(self._parameters)
        if self.is_solve and not throws:
            static = list(chosen["static"])
            chosen["static"] = (*static[:-1], False)  # the last argument of the primitive is `throw`
        call = functools.partial(_internal("_vprim_impl_registry")[self._primitive], **chosen)
        if self._batch is not None:
            call = self._jax.vmap(call, in_axes=self._batch[1], axis_size=self._batch[0])
        return list(call(*operands))

    @property
    def _unknown(self) -> object:
        """The pytree structure of the solution of M x = b."""
        return self._in if self._rows > self._columns else self._out

    @property
    def _rows(self) -> int:
        return sum(x.size for x in self._leaves(self._out))

    @property
    def _columns(self) -> int:
        return sum(x.size for x in self._leaves(self._in))

    def _arguments(self, dynamic: Sequence[object]) -> tuple[Any, ...]:
        """The tuple (operator, state, vector, options, solver, throw). `dynamic` are its leaves that are not static."""
        rest, missing = iter(dynamic), _internal("_missing_dynamic")
        leaves = [next(rest) if x is missing else x for x in self._parameters["static"]]
        return tuple(self._jax.tree_util.tree_unflatten(self._parameters["treedef"], leaves))

    def _numbers(self, places: object) -> list[int]:
        """The operand indices among the leaves of `places`. Other leaves are static values."""
        return [x for x in self._leaves(places) if isinstance(x, int) and not isinstance(x, bool)]

    def _single(self, x: "jax.core.ShapedArray", place: int) -> "jax.ShapeDtypeStruct":
        """The type of an operand without the batch axis."""
        axis = None if self._batch is None else self._batch[1][place]
        shape = x.shape if axis is None else x.shape[:axis] + x.shape[axis + 1 :]
        return self._jax.ShapeDtypeStruct(shape, x.dtype)

    def _spread(self, x: "jax.ShapeDtypeStruct") -> "jax.ShapeDtypeStruct":
        """The type of an array with the batch axis as first axis."""
        shape = x.shape if self._batch is None else (self._batch[0], *x.shape)
        return self._jax.ShapeDtypeStruct(shape, x.dtype)

    def _moved(self, x: "jax.Array", place: int) -> "jax.Array":
        """The operand with index `place`, with the batch axis as first axis."""
        if self._batch is None:
            return x
        size, axes = self._batch
        if axes[place] is None:
            return self._jax.numpy.broadcast_to(x, (size, *x.shape))
        return self._jax.numpy.moveaxis(x, axes[place], 0)

    def _call(self, function: Part, structure: object, *given: "jax.Array") -> list["jax.Array"]:
        """Calls a function of (operator, state, vector, options, solver). `given` has the vector and other operands."""
        count = len(self._leaves(structure))

        def single(*given: "jax.Array") -> list["jax.Array"]:
            vector = self._jax.tree_util.tree_unflatten(
                self._jax.tree_util.tree_structure(structure), given[:count]
            )
            rest = iter(given[count:])
            total = len(given) - count + len(self._right)
            operands = [None if i in self._right else next(rest) for i in range(total)]
            operator, state, _, options, solver, _ = self._arguments(operands)
            return list(self._leaves(function(operator, state, vector, options, solver)))

        if self._batch is None:
            return single(*given)
        size, axes = self._batch
        rest = [axis for i, axis in enumerate(axes) if i not in self._right]
        return list(self._jax.vmap(single, in_axes=(*[0] * count, *rest), axis_size=size)(*given))

    def _conjugated(self, function: Part, *given: "jax.Array") -> list["jax.Array"]:
        """Calls a function of the transposed system for the adjoint system, by conjugating operands and results.

        tiduc's transpose of a complex linear map is the adjoint map.
        """
        conj = self._jax.numpy.conj
        turned = [conj(x) for x in given[: self.size]]
        return [conj(y) for y in self._call(function, self._unknown, *turned, *given[self.size :])]


# ---- functions of (operator, state, vector, options, solver) ----------------------------------------------


def _solution(
    operator: LinearOperator, state: object, b: object, options: object, solver: LinearSolver
) -> object:
    return solver.compute(state, b, options)[0]


def _transposed_solution(
    operator: LinearOperator, state: object, c: object, options: object, solver: LinearSolver
) -> object:
    turned, chosen = solver.transpose(state, options)
    return solver.compute(turned, c, chosen)[0]


def _normal_solution(
    operator: LinearOperator, state: object, b: object, options: object, solver: LinearSolver
) -> object:
    """The solution x of A' A x = b, or of A A' x = b, by the pseudo-inverses of A and A'."""
    if operator.out_size() > operator.in_size():
        y = _transposed_solution(operator, state, b, options, solver)
        return _solution(operator, state, y, options, solver)
    y = _solution(operator, state, b, options, solver)
    return _transposed_solution(operator, state, y, options, solver)


def _product(
    operator: LinearOperator, state: object, x: object, options: object, solver: LinearSolver
) -> object:
    return operator.mv(x)


def _transposed_product(
    operator: LinearOperator, state: object, x: object, options: object, solver: LinearSolver
) -> object:
    return operator.transpose().mv(x)


def _product_of_rows(
    operator: LinearOperator, state: object, x: object, options: object, solver: LinearSolver
) -> object:
    return operator.transpose().mv(operator.mv(x))


def _product_of_columns(
    operator: LinearOperator, state: object, x: object, options: object, solver: LinearSolver
) -> object:
    return operator.mv(operator.transpose().mv(x))
