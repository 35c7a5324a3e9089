"""Splits `lineax.linear_solve` into regular systems (`lineax_systems.py`), each with a solver and a linear map.

lineax computes the state of a solver, such as a factorization, from an operator whose gradients are stopped, because
the primitive has its own derivative rules. An export contains only the ops of the solver. The derivative of these ops
with respect to the operator would be zero.
"""

import functools
import sys
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tiduc.models.jax.derivative_functions import Parameters, is_smooth
from tiduc.models.jax.lineax_systems import Matrix, Part, Solved, functions, solution
from tiduc.models.jax.solves import SOLVABLE, Traceable

if TYPE_CHECKING:
    import jax
    from jax.extend.core import Primitive

    Types = Sequence[jax.ShapeDtypeStruct | jax.core.ShapedArray]


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
    """A call of one of `primitives`: x = A^+ b."""

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

    @property
    def is_kept(self) -> bool:
        """Whether the call becomes solvers of tiduc, which have derivatives of any order.

        This requires arrays of one type of `SOLVABLE`.
        """
        types = {str(x.dtype) for x in self._leaves((self._in, self._out))} if self.is_solve else set()
        return len(types) == 1 and types <= SOLVABLE

    @property
    def systems(self) -> list["LineaxSystem"]:
        """The regular systems that `solution` solves."""
        full_rank = self._solver.assume_full_rank()
        shapes_in, shapes_out = ([x.shape for x in self._leaves(side)] for side in (self._in, self._out))
        if full_rank and shapes_in == shapes_out:
            return [LineaxSystem(self, Matrix.PLAIN)]
        columns, rows = LineaxSystem(self, Matrix.OF_COLUMNS), LineaxSystem(self, Matrix.OF_ROWS)
        if not full_rank:
            return [columns, rows]
        return [columns if _size(self._leaves(self._out)) >= _size(self._leaves(self._in)) else rows]

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

    def unknown(self, matrix: Matrix) -> object:
        """The pytree of the types of the arrays in the solution of the system with this matrix."""
        return self._in if matrix is Matrix.OF_COLUMNS else self._out

    def in_order(self, matrix: Matrix, types: "Types") -> list["jax.ShapeDtypeStruct"]:
        """The types of the arguments of the system's functions: the vector, and the operands except the right side."""
        right = [self._spread(x) for x in self._leaves(self.unknown(matrix))]
        return [*right, *(x for i, x in enumerate(types) if i not in self._right)]

    def solution(
        self, solvers: Mapping[Matrix, Traceable], operands: Sequence["jax.Array"]
    ) -> list["jax.Array"]:
        """Returns x = A^+ b. `solvers` solve the systems."""
        others = [x for i, x in enumerate(operands) if i not in self._right]
        x = [self._moved(operands[i], i) for i in self._right]

        def multiplied(by: Part, structure: object, x: Sequence["jax.Array"]) -> list["jax.Array"]:
            return self.call(by, structure, *x, *others)

        if Matrix.PLAIN in solvers:
            return list(solvers[Matrix.PLAIN](*x, *others))
        if Matrix.OF_COLUMNS in solvers:
            x = list(solvers[Matrix.OF_COLUMNS](*multiplied(Solved.adjoint_product, self._out, x), *others))
        if Matrix.OF_ROWS in solvers:
            if Matrix.OF_COLUMNS in solvers:
                x = multiplied(Solved.product, self._in, x)
            x = multiplied(Solved.adjoint_product, self._out, solvers[Matrix.OF_ROWS](*x, *others))
        return x

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

    def call(self, function: Part, structure: object, *given: "jax.Array") -> list["jax.Array"]:
        """Calls a function of the operator with its solver. `given` has the vector's arrays and the other operands."""
        count = len(self._leaves(structure))

        def single(*given: "jax.Array") -> list["jax.Array"]:
            vector = self._jax.tree_util.tree_unflatten(
                self._jax.tree_util.tree_structure(structure), given[:count]
            )
            rest = iter(given[count:])
            total = len(given) - count + len(self._right)
            operands = [None if i in self._right else next(rest) for i in range(total)]
            operator, state, _, options, solver, _ = self._arguments(operands)
            return list(self._leaves(function(Solved(self._jax, operator, state, options, solver), vector)))

        if self._batch is None:
            return single(*given)
        size, axes = self._batch
        rest = [axis for i, axis in enumerate(axes) if i not in self._right]
        return list(self._jax.vmap(single, in_axes=(*[0] * count, *rest), axis_size=size)(*given))


class LineaxSystem:
    """A regular system of a call, with the interface of `LinearSolve`.

    The arguments of the functions are the arrays of the vector, followed by the operands of the call except those of
    its right-hand side.
    """

    def __init__(self, call: LineaxSolve, matrix: Matrix) -> None:
        self._call, self.matrix = call, matrix
        self.is_symmetric = matrix is not Matrix.PLAIN
        self.key = [*call.key, matrix.value]

    def in_order(self, types: "Types") -> list["jax.ShapeDtypeStruct"]:
        """The types of the arguments of the functions. `types` are the types of the operands of the primitive."""
        return self._call.in_order(self.matrix, types)

    def solve(self, *given: "jax.Array") -> list["jax.Array"]:
        """The solution. The arguments are b and the other operands."""
        return self._call.call(solution(self.matrix), self._call.unknown(self.matrix), *given)

    def derivatives(self, name: str) -> Iterator[tuple[str, str, str, Traceable]]:
        """The functions that belong to the solver `name`. `LinearSolve.derivatives` describes the tuples."""
        unknown = self._call.unknown(self.matrix)
        for suffix, attribute, of, part in functions(self.matrix, name):
            yield suffix, attribute, of, functools.partial(self._call.call, part, unknown)


def _size(arrays: "Types") -> int:
    return sum(x.size for x in arrays)
