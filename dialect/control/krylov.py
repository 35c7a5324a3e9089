"""Krylov methods: loops that solve A x = b by products A v, without the matrix of A.

    cg          conjugate gradients, for a symmetric definite A
    bicgstab    stabilized biconjugate gradients, for any regular A; two products in a step, memory for a few vectors
    gmres       minimal residuals, for any regular A; memory for two vectors for each step until a restart

x may be several arrays. They form one vector of real numbers, so A need only be linear over the real numbers. b is
first divided by its largest absolute value. One run of a method ends when the norm of its residual has fallen by a
factor of eps^0.75, or after a number of steps. The method then runs again on the residual of x, as in iterative
refinement, until the residual is below the tolerance or no longer falls. If the last residual is not small, x is NaN,
so that no derivative is silently wrong.

Sources: Hestenes and Stiefel (1952); van der Vorst, "Bi-CGSTAB" (1992); Walker and Zhou, "A simpler GMRES" (1994);
Jiranek and Rozloznik, "Adaptive version of simpler GMRES" (2010).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch_mlir import ir
from torch_mlir._mlir_libs import _stablehlo as hlo

from tiduc.dialect.control.control import Loop, emit_call, emit_loop
from tiduc.dialect.emitters.real_vectors import flattened, real_type, reals, unflattened
from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.graph.graph import Graph, Value
from tiduc.dialect.ops.control_ops import SOLVER
from tiduc.dialect.shapes.types import element, i64, with_shape

CG, BICGSTAB, GMRES = "cg", "bicgstab", "gmres"
LU = "lu"
"""The name of the direct method, which builds the matrix of A and factorizes it."""

_MOST_STEPS = 1000
"""The most steps of one run of cg or bicgstab, after which the residual is computed again from x."""

_RESTART = 30, 200
"""The least and the greatest number of steps of GMRES until a restart. Each step stores two vectors."""

_MOST_KEPT = 2**22
"""GMRES makes more than the least number of steps only if the step count times the size of x is at most this number."""

_FALLS = 0.8
"""GMRES uses the residual as the next direction if a step multiplies the residual's squared norm by less than 0.8."""

_ROUNDS = 20
"""If the user does not limit the iterations, the limit on the runs of a method is at least this number."""


@dataclass(frozen=True)
class Solver:
    """A method with its options: the tolerance of |b - A x| / |b|, and the most iterations.

    An option with the value 0 has its default.
    """

    method: str
    tolerance: float = 0.0
    iterations: int = 0

    def attribute(self) -> ir.Attribute:
        """The value of the attribute `SOLVER` for this method: a dictionary."""
        given: dict[str, ir.Attribute] = {"method": ir.StringAttr.get(self.method)}
        if self.tolerance:
            given["tolerance"] = ir.FloatAttr.get_f64(self.tolerance)
        if self.iterations:
            given["iterations"] = i64(self.iterations)
        return ir.DictAttr.get(given)


def solver_of(graph: Graph) -> Solver | None:
    """Returns the method that the attribute `SOLVER` of a graph describes, or None if the graph lacks the attribute."""
    if SOLVER not in graph.attributes:
        return None
    given = ir.DictAttr(graph.attributes[SOLVER])
    numbers: dict[str, Any] = {
        name: given[name].value for name in ("tolerance", "iterations") if name in given
    }
    return Solver(given["method"].value, **numbers)


@dataclass(frozen=True)
class _System:
    """A linear map as a graph (x..., known...) -> A x without captured values.

    `known` are the values on which A depends, and `like` are values with the types of the arrays of x.
    """

    graph: Graph
    like: tuple[Value, ...]

    @property
    def size(self) -> int:
        """The number of real numbers in x."""
        return sum(map(reals, self.like))

    @property
    def vector(self) -> ir.RankedTensorType:
        return real_type(self.like, [self.size])

    @property
    def real(self) -> ir.Type:
        """The type of real numbers."""
        own: ir.Type = element(self.vector)
        return own

    def flat(self, b: StablehloBuilder, arrays: Sequence[Value]) -> Value:
        """Flattens arrays to one vector of real numbers."""
        return flattened(b, arrays)

    def arrays(self, b: StablehloBuilder, v: Value) -> list[Value]:
        """Splits a vector of real numbers into arrays with the types of `like`."""
        return unflattened(b, v, self.like)

    def product(self, b: StablehloBuilder, v: Value, known: Sequence[Value]) -> Value:
        """The product A v."""
        return self.flat(b, emit_call(b, self.graph, [*self.arrays(b, v), *known]))


def solution(
    b: StablehloBuilder, apply: Graph, right: Sequence[Value], known: Sequence[Value], solver: Solver
) -> list[Value]:
    """Solves A x = `right` and returns the arrays of x, which are NaN if the residual does not become small.

    `apply` is a graph (x..., known...) -> A x without captured values, and A depends on the values `known`.
    """
    system = _System(apply, tuple(right))
    if not system.size:
        return list(right)
    eps = float(np.finfo(np.float64 if str(system.real) == "f64" else np.float32).eps)
    tolerance = solver.tolerance or 2 * eps
    rhs = system.flat(b, right)
    scale = b.reduce(b.abs(rhs), b.zero(_scalar(system)), [0], "stablehlo.maximum")
    scale = b.select(b.compare(scale, b.zeros_like(scale), "EQ"), b.constant(1, scale), scale)
    rhs = b.divide(rhs, b.broadcast_in_dim(scale, [], rhs.type))
    x, residual, least = _refined(b, system, rhs, known, solver, tolerance)
    most = max(float(np.sqrt(eps)), 10 * tolerance) ** 2
    is_small = b.compare(residual, b.multiply(least, b.constant(most, least)), "LE")
    x = b.multiply(x, b.broadcast_in_dim(scale, [], x.type))
    return system.arrays(b, b.select(is_small, x, b.constant(np.nan, x)))


def _refined(
    b: StablehloBuilder,
    system: _System,
    rhs: Value,
    known: Sequence[Value],
    solver: Solver,
    tolerance: float,
) -> tuple[Value, Value, Value]:
    """Runs the method, and runs it again on the residual of x as long as the norm of the residual falls.

    Returns x, the squared norm of the residual of x, and the squared norm of `rhs`.
    """
    run, steps = _METHODS[solver.method], _steps(system, solver)
    rounds = -(-solver.iterations // steps) if solver.iterations else _rounds(system, solver)
    norm = _dot(b, rhs, rhs)
    limit = b.multiply(norm, b.constant(tolerance**2, norm))
    gain = float(np.finfo(np.float64 if str(system.real) == "f64" else np.float32).eps) ** 1.5
    count = ir.RankedTensorType.get([], ir.IntegerType.get_signless(32))
    is_true = b.compare(norm, norm, "EQ")

    def step(g: StablehloBuilder, carry: Sequence[Value], given: Sequence[Value]) -> list[Value]:
        k, x, r, n, _ = carry
        right, limit, *known = given
        found = g.add(
            x, run(g, system, r, g.maximum(limit, g.multiply(n, g.constant(gain, n))), known, steps)
        )
        left = g.subtract(right, system.product(g, found, known))
        square = _dot(g, left, left)
        falls = g.compare(square, n, "LT")
        kept = [g.select(falls, new, old) for new, old in ((found, x), (left, r), (square, n))]
        return [g.add(k, g.constant(1, k)), *kept, falls]

    def goes_on(g: StablehloBuilder, carry: Sequence[Value], given: Sequence[Value]) -> Value:
        k, _, _, n, falls = carry
        more = g.and_(g.compare(k, g.constant(rounds, k), "LT"), g.compare(n, given[1], "GT"))
        return g.and_(more, falls)

    inits = [b.constant(0, count), b.zeros_like(rhs), rhs, norm, is_true]
    _, x, _, square, _ = _loop(b, inits, [rhs, limit, *known], step, goes_on)
    return x, square, norm


def _steps(system: _System, solver: Solver) -> int:
    """The most steps of one run of the method."""
    if solver.method == GMRES:
        low, high = _RESTART
        steps = min(max(low, min(high, _MOST_KEPT // system.size)), system.size)
    else:
        steps = min(_MOST_STEPS, 2 * system.size)
    return min(steps, solver.iterations or steps)


def _rounds(system: _System, solver: Solver) -> int:
    """The limit on the runs of the method if the user does not limit the iterations.

    It allows at least `_ROUNDS` runs, and in all runs together ten steps for each real number in x.
    """
    return max(_ROUNDS, -(-10 * system.size // _steps(system, solver)))


# ---- each method approximates A^-1 r -----------------------------------------------------------------------


def _cg(
    b: StablehloBuilder, system: _System, r: Value, limit: Value, known: Sequence[Value], steps: int
) -> Value:
    """Emits an approximation of A^-1 r, by conjugate gradients."""

    def step(g: StablehloBuilder, carry: Sequence[Value], given: Sequence[Value]) -> list[Value]:
        k, d, r, p, square = carry
        q = system.product(g, p, given[1:])
        size = _quotient(g, square, _dot(g, p, q))
        r = g.subtract(r, _scaled(g, size, q))
        after = _dot(g, r, r)
        turned = g.add(r, _scaled(g, _quotient(g, after, square), p))
        return [g.add(k, g.constant(1, k)), g.add(d, _scaled(g, size, p)), r, turned, after]

    return _run(b, [b.zeros_like(r), r, r, _dot(b, r, r)], [limit, *known], step, 4, steps)


def _bicgstab(
    b: StablehloBuilder, system: _System, r: Value, limit: Value, known: Sequence[Value], steps: int
) -> Value:
    """Emits an approximation of A^-1 r, by stabilized biconjugate gradients."""

    def step(g: StablehloBuilder, carry: Sequence[Value], given: Sequence[Value]) -> list[Value]:
        k, d, r, _, p, v, before, alpha, omega = carry
        _, first, *known = given
        rho = _dot(g, first, r)
        beta = g.multiply(_quotient(g, rho, before), _quotient(g, alpha, omega))
        p = g.add(r, _scaled(g, beta, g.subtract(p, _scaled(g, omega, v))))
        v = system.product(g, p, known)
        alpha = _quotient(g, rho, _dot(g, first, v))
        s = g.subtract(r, _scaled(g, alpha, v))
        t = system.product(g, s, known)
        omega = _quotient(g, _dot(g, t, s), _dot(g, t, t))
        d = g.add(d, g.add(_scaled(g, alpha, p), _scaled(g, omega, s)))
        r = g.subtract(s, _scaled(g, omega, t))
        return [g.add(k, g.constant(1, k)), d, r, _dot(g, r, r), p, v, rho, alpha, omega]

    none, square = b.zeros_like(r), _dot(b, r, r)
    one = b.constant(1, square)
    return _run(b, [none, r, square, none, none, one, one, one], [limit, r, *known], step, 3, steps)


def _gmres(
    b: StablehloBuilder, system: _System, r: Value, limit: Value, known: Sequence[Value], steps: int
) -> Value:
    """Emits an approximation of A^-1 r, by GMRES. A maps row i of `inputs` to row i of `outputs`.

    The rows of `outputs` are orthonormal. Each step multiplies A by the next direction, and adds a row to both arrays.
    The next direction is the residual if the last step reduced the residual well (`_FALLS`), because the rows of
    `inputs` then stay far from linearly dependent. Otherwise the next direction is the newest row of `outputs`.
    """

    def step(g: StablehloBuilder, carry: Sequence[Value], given: Sequence[Value]) -> list[Value]:
        k, d, r, square, p, inputs, outputs = carry
        q = system.product(g, p, given[1:])
        for _ in range(2):  # twice, because rounding leaves components along the earlier rows
            along = _contracted(g, outputs, q, 1)
            q = g.subtract(q, _contracted(g, outputs, along, 0))
            p = g.subtract(p, _contracted(g, inputs, along, 0))
        size = _norm(g, q)
        q, p = (_scaled(g, _quotient(g, g.constant(1, size), size), x) for x in (q, p))
        zero = g.zeros_like(k)
        inputs, outputs = (
            g.dynamic_update_slice(rows, g.reshape(x, [1, system.size]), [k, zero])
            for rows, x in ((inputs, p), (outputs, q))
        )
        share = _dot(g, q, r)
        r, d = g.subtract(r, _scaled(g, share, q)), g.add(d, _scaled(g, share, p))
        after = _dot(g, r, r)
        falls = g.compare(after, g.multiply(square, g.constant(_FALLS, square)), "LT")
        direction = g.select(falls, _unit(g, r), q)
        return [g.add(k, g.constant(1, k)), d, r, after, direction, inputs, outputs]

    rows = b.zero(with_shape(system.vector, [steps, system.size]))
    return _run(
        b, [b.zeros_like(r), r, _dot(b, r, r), _unit(b, r), rows, rows], [limit, *known], step, 3, steps
    )


_METHODS = {CG: _cg, BICGSTAB: _bicgstab, GMRES: _gmres}
METHODS = tuple(_METHODS)

Step = Callable[[StablehloBuilder, Sequence[Value], Sequence[Value]], list[Value]]
"""A function that emits an iteration. It takes a builder, the loop-carried values and the loop invariants.

It returns the loop-carried values of the next iteration.
"""


def _run(
    b: StablehloBuilder, inits: Sequence[Value], given: Sequence[Value], step: Step, square: int, steps: int
) -> Value:
    """Emits a loop of at most `steps` steps, and returns the final value of `inits[0]`.

    The loop-carried values are the number of finished steps, which has index 0, followed by `inits`. The loop ends
    early if the loop-carried value with the index `square` is at most `given[0]`, the first of the loop invariants.
    """

    def goes_on(g: StablehloBuilder, carry: Sequence[Value], given: Sequence[Value]) -> Value:
        more = g.compare(carry[0], g.constant(steps, carry[0]), "LT")
        return g.and_(more, g.compare(carry[square], given[0], "GT"))

    count = ir.RankedTensorType.get([], ir.IntegerType.get_signless(32))
    return _loop(b, [b.constant(0, count), *inits], given, step, goes_on)[1]


# ---- loops and operations on vectors are emitted -----------------------------------------------------------


def private(b: StablehloBuilder, prefix: str) -> StablehloBuilder:
    """Returns a builder for a new private graph beside the graphs of `b`. The graph's name begins with `prefix`."""
    g = type(b)(b.view, b.view.fresh(prefix))
    g.graph.attributes["sym_visibility"] = ir.StringAttr.get("private")
    g.location = b.location
    return g


def inputs_of(g: StablehloBuilder, like: Sequence[Value | ir.Type]) -> list[Value]:
    """Adds an input to a new graph for each type or value in `like`, and returns the inputs."""
    types = [x if isinstance(x, ir.Type) else x.type for x in like]
    return [g.input(f"{g.graph.name}.{i}", type_) for i, type_ in enumerate(types)]


def _loop(
    b: StablehloBuilder,
    inits: Sequence[Value],
    given: Sequence[Value],
    step: Step,
    goes_on: Callable[[StablehloBuilder, Sequence[Value], Sequence[Value]], Value],
) -> tuple[Value, ...]:
    """Emits a loop with the loop invariants `given`, and returns the final loop-carried values."""
    count = len(inits)
    body = private(b, "step")
    own = inputs_of(body, [*inits, *given])
    stepped = body.finish(step(body, own[:count], own[count:]))
    test = private(b, "goes_on")
    own = inputs_of(test, [*inits, *given])
    condition = test.finish([goes_on(test, own[:count], own[count:])])
    return emit_loop(b, Loop(tuple(inits), (), tuple(given), stepped, condition, False, None, stepped.name))


def _scalar(system: _System) -> ir.RankedTensorType:
    return with_shape(system.vector, [])


def _dot(b: StablehloBuilder, x: Value, y: Value) -> Value:
    return b.reduce_sum(b.multiply(x, y), [0])


def _norm(b: StablehloBuilder, x: Value) -> Value:
    """Emits the norm of a vector so that no square overflows. The norm of a vector of zeros is 0."""
    most = b.reduce(b.abs(x), b.zero(with_shape(x.type, [])), [0], "stablehlo.maximum")
    scaled = _scaled(b, _quotient(b, b.constant(1, most), most), x)
    return b.multiply(most, b.sqrt(_dot(b, scaled, scaled)))


def _unit(b: StablehloBuilder, x: Value) -> Value:
    """Emits a vector divided by its norm. The result for a vector of zeros is a vector of zeros."""
    size = _norm(b, x)
    return _scaled(b, _quotient(b, b.constant(1, size), size), x)


def _scaled(b: StablehloBuilder, factor: Value, x: Value) -> Value:
    return b.multiply(b.broadcast_in_dim(factor, [], x.type), x)


def _quotient(b: StablehloBuilder, x: Value, y: Value) -> Value:
    """Emits x / y, or 0 if y is 0. If y is 0, the method has broken down or has found the solution."""
    is_zero = b.compare(y, b.zeros_like(y), "EQ")
    return b.select(is_zero, b.zeros_like(x), b.divide(x, b.select(is_zero, b.constant(1, y), y)))


def _contracted(b: StablehloBuilder, rows: Value, x: Value, dimension: int) -> Value:
    """Emits the product of a matrix and a vector, contracted along `dimension` of the matrix."""
    precision = {"precision_config": ir.ArrayAttr.get([hlo.PrecisionAttr.get("HIGHEST")] * 2)}
    return b.dot_general(rows, x, ([], []), ([dimension], [0]), precision)
