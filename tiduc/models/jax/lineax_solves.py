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

from tiduc.dialect.errors import Unsupported
from tiduc.models.jax.derivative_functions import Parameters, is_smooth
from tiduc.models.jax.lineax_systems import Part, Solved, SystemMatrix, functions, solution
from tiduc.models.jax.solves import SOLVABLE, Traceable

if TYPE_CHECKING:
    import jax
    from jax.extend.core import Primitive

    Types = Sequence[jax.ShapeDtypeStruct | jax.core.ShapedArray]


_ARGUMENTS = ("operator", "state", "vector", "options", "solver", "throw")
"""The arguments of lineax's primitive, in order."""

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
        self._batches: list[Batch] = []
        while "prim" in parameters:  # equinox's primitive for a batch
            self._batches.append((parameters["__axis_size"], tuple(parameters["__batch_axes"])))
            primitive, parameters = parameters["prim"], dict(parameters["params"])
        self._primitive, self._parameters = primitive, parameters
        self.is_solve = primitive.name == "linear_solve"
        if self.is_solve:
            places = self._arguments(range(len(operands)))
            if len(places) != len(_ARGUMENTS):
                raise Unsupported(f"from_jax expects that lineax.linear_solve has the arguments {_ARGUMENTS}")
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
            return [LineaxSystem(self, SystemMatrix.PLAIN)]
        columns, rows = LineaxSystem(self, SystemMatrix.OF_COLUMNS), LineaxSystem(self, SystemMatrix.OF_ROWS)
        if not full_rank:
            return [columns, rows]
        return [columns if _size(self._leaves(self._out)) >= _size(self._leaves(self._in)) else rows]

    @property
    def key(self) -> list[object]:
        """The key of the call for `RuleKeys`. Calls with equal keys share their derivatives.

        The derivatives do not check whether a solve fails.
        """
        chosen = dict(self._parameters)
        if self.is_solve:
            chosen["static"] = chosen["static"][:-1]  # the last argument of the primitive is `throw`
        return [self._primitive, chosen, self._batches]

    def without_tangents(self) -> frozenset[int]:
        """The operands of the primitive that have no tangents: all except those of the operator and the vector."""
        return frozenset(range(self._count)).difference(self._moving) if self.is_solve else frozenset()

    def without_right_side(self) -> frozenset[int]:
        """The real or complex operands of the primitive, except those of the vector."""
        smooth = {i for i, x in enumerate(self._types) if is_smooth(x)}
        return frozenset(smooth.difference(self._right) if self.is_solve else smooth)

    def unknown(self, matrix: SystemMatrix) -> object:
        """The pytree of the types of the arrays in the solution of the system with this matrix."""
        return self._in if matrix is SystemMatrix.OF_COLUMNS else self._out

    def in_order(self, matrix: SystemMatrix, types: "Types") -> list["jax.ShapeDtypeStruct"]:
        """The types of the arguments of the system's functions: the vector, and the operands except the right side."""
        right = [self._spread(x) for x in self._leaves(self.unknown(matrix))]
        return [*right, *(x for i, x in enumerate(types) if i not in self._right)]

    def solution(
        self, solvers: Mapping[SystemMatrix, Traceable], operands: Sequence["jax.Array"]
    ) -> list["jax.Array"]:
        """Returns x = A^+ b. `solvers` has the solver of each of `systems`, by the system's matrix."""
        others = [x for i, x in enumerate(operands) if i not in self._right]
        x = [self._moved(operands[i], i) for i in self._right]

        def multiplied(by: Part, structure: object, x: Sequence["jax.Array"]) -> list["jax.Array"]:
            return self.call(by, structure, *x, *others)

        if SystemMatrix.PLAIN in solvers:
            return list(solvers[SystemMatrix.PLAIN](*x, *others))
        if SystemMatrix.OF_COLUMNS in solvers:
            x = list(
                solvers[SystemMatrix.OF_COLUMNS](*multiplied(Solved.adjoint_product, self._out, x), *others)
            )
        if SystemMatrix.OF_ROWS in solvers:
            if SystemMatrix.OF_COLUMNS in solvers:
                x = multiplied(Solved.product, self._in, x)
            x = multiplied(Solved.adjoint_product, self._out, solvers[SystemMatrix.OF_ROWS](*x, *others))
        return x

    def whole(self, *operands: "jax.Array", throws: bool) -> list["jax.Array"]:
        """Calls the implementation of the primitive. Without `throws`, it does not check whether the solve failed."""
        chosen = dict(self._parameters)
        if self.is_solve and not throws:
            static = list(chosen["static"])
            chosen["static"] = (*static[:-1], False)  # the last argument of the primitive is `throw`
        call = functools.partial(_internal("_vprim_impl_registry")[self._primitive], **chosen)
        for size, axes in reversed(self._batches):
            call = self._jax.vmap(call, in_axes=axes, axis_size=size)
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
        """The type of an operand without the batch axes."""
        shape = list(x.shape)
        for _, axes in self._batches:
            if (axis := axes[place]) is not None:
                del shape[axis]
        return self._jax.ShapeDtypeStruct(tuple(shape), x.dtype)

    def _spread(self, x: "jax.ShapeDtypeStruct") -> "jax.ShapeDtypeStruct":
        """The type of an array with the batch axes as first axes."""
        return self._jax.ShapeDtypeStruct((*(size for size, _ in self._batches), *x.shape), x.dtype)

    def _moved(self, x: "jax.Array", place: int) -> "jax.Array":
        """The operand with index `place`, with the batch axes as first axes."""
        for level, (size, axes) in enumerate(self._batches):
            axis = axes[place]
            if axis is None:
                x = self._jax.numpy.broadcast_to(
                    self._jax.numpy.expand_dims(x, level), (*x.shape[:level], size, *x.shape[level:])
                )
            else:
                x = self._jax.numpy.moveaxis(x, level + axis, level)
        return x

    def call(self, function: Part, structure: object, *given: "jax.Array") -> list["jax.Array"]:
        """Calls a function of the operator with its solver. `given` has the vector's arrays and the other operands."""
        count, tree = len(self._leaves(structure)), self._jax.tree_util
        others = given[count:]
        # Composites, because from_jax drops `jax.lax.stop_gradient` beside direct solvers (`keeps_stops`).
        stop = self._jax.lax.composite(lambda x: x, "tidu.stop_gradient")
        fixed = () if self._solver.assume_full_rank() else tuple(map(stop, others))

        def single(*given: "jax.Array") -> list["jax.Array"]:
            vector = tree.tree_unflatten(tree.tree_structure(structure), given[:count])
            operator, state, _, options, solver, _ = self._operands(given[count : count + len(others)])
            constant = self._operands(given[-len(fixed) :])[0] if fixed else None
            solved = Solved(self._jax, operator, state, options, solver, constant)
            return list(self._leaves(function(solved, vector)))

        run: Traceable = single
        for size, axes in reversed(self._batches):
            rest = [axis for i, axis in enumerate(axes) if i not in self._right]
            run = self._jax.vmap(run, in_axes=(*[0] * count, *rest, *rest[: len(fixed)]), axis_size=size)
        return list(run(*given, *fixed))

    def _operands(self, others: Sequence["jax.Array"]) -> tuple[Any, ...]:
        """The arguments of the primitive, without the right-hand side. `others` are the other operands."""
        rest = iter(others)
        return self._arguments([None if i in self._right else next(rest) for i in range(self._count)])


class LineaxSystem:
    """A regular system of a call, with the interface of `LinearSolve`.

    The arguments of the functions are the arrays of the vector, followed by the operands of the call except those of
    its right-hand side.
    """

    def __init__(self, call: LineaxSolve, matrix: SystemMatrix) -> None:
        self._call, self.matrix = call, matrix
        self.is_symmetric = matrix is not SystemMatrix.PLAIN
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
