"""Rules of calls of functions with `tidu.linear_solve = @A`, whose results x solve the system A(x..., k...) = b.

    x = call @solve (b, k)      ->   dx = call @solve (db - dA, k),   dA: the tangent of A(x, k) along dk

`@A` is linear in x. `tidu.transpose_solve` names the function that solves the transposed system; for a symmetric A, it
is `@solve` itself. Without `tidu.transpose_solve`, the Krylov method that `tidu.solver` names, or GMRES, solves it.
"""

from collections.abc import Sequence

from torch_mlir import ir

from tiduc.dialect.control.control import Branches, branches, emit_call
from tiduc.dialect.control.krylov import GMRES, Solver, solver_of
from tiduc.dialect.control.systems import inputs_read, narrowed, solving_graph, whole
from tiduc.dialect.emitters.stablehlo import StablehloBuilder
from tiduc.dialect.graph.cache import Cache
from tiduc.dialect.graph.graph import Definition, Graph, Value
from tiduc.dialect.ops.control_ops import SOLVE, TRANSPOSE_SOLVE
from tiduc.dialect.shapes.types import is_empty
from tiduc.passes.rules.call import (
    OWN,
    OWN_TRANSPOSE,
    linearized_graphs,
    linearized_tangents,
    transpose_graph,
    values_read,
)
from tiduc.passes.rules.lent import Transposing
from tiduc.passes.rules.opset import unsupported
from tiduc.passes.rules.registry import Tangents

_TRANSPOSES = Cache[Graph, Graph]()
"""Caches, for each graph with `tidu.linear_solve`, the graph that solves the transposed system."""


def root_by_krylov(
    b: StablehloBuilder, op: Definition, dx: Tangents, equation: Graph, solver: Solver
) -> list[Value | None]:
    """Returns the tangents of y, where `equation` is f(x..., y...) = 0. `solver` solves the linearized equation."""
    ys, operands = op.results, (*op.operands, *op.results)
    record = Branches(None, operands, tuple(range(len(operands))), (equation,), equation.name)
    of_x = linearized_tangents(b, record, [*dx, *([None] * len(ys))])
    if all(t is None for t in of_x):
        return [None] * len(ys)
    linearized = linearized_graphs(b, record.graphs, [*([None] * len(op.operands)), *ys])
    if any(not flag and not is_empty(y) for flag, y in zip(linearized.outputs, ys, strict=True)):
        raise unsupported("jvp", op, f"a residual of @{equation.name} does not depend on the results")
    solve = solving_graph(b, whole(b, ys, linearized.linear[0], linearized.outputs), len(ys), solver)
    right = [b.zeros_like(y) if t is None else b.negate(t) for t, y in zip(of_x, ys, strict=True)]
    return list(emit_call(b, solve, [*right, *values_read(b, record, linearized)]))


def by_solve(b: StablehloBuilder, op: Definition, dx: Tangents, apply: Graph) -> list[Value | None]:
    """Returns the tangents of the solution, computed by another call of the function that solves the system.

    If the system A does not read an active argument of the function, a Krylov method computes the tangents.
    """
    (graph,), ys, n = branches(b.view, op).graphs, op.results, len(op.results)
    along, known = dx[n:], op.operands[n:]
    record = Branches(None, (*ys, *known), tuple(range(len(op.operands))), (apply,), apply.name)
    of_product = linearized_tangents(b, record, [*([None] * n), *along])
    if all(t is None for t in (*dx[:n], *of_product)):
        return [None] * n
    right = [b.zeros_like(y) if t is None else t for t, y in zip(dx, ys, strict=False)]
    right = [t if dy is None else b.subtract(t, dy) for t, dy in zip(right, of_product, strict=True)]
    read = inputs_read(b, apply)[n:]
    system = [x for x, flag in zip(known, read, strict=True) if flag]
    if any(t is not None and x not in system for x, t in zip(known, along, strict=True)):
        # Such an argument may depend on the right-hand side, as a tolerance times |b| does. It then does not fit the
        # right-hand side of the tangents, so `graph` is not called.
        solve = solving_graph(b, narrowed(b, apply, n), n, solver_of(graph) or Solver(GMRES))
        return list(emit_call(b, solve, [*right, *system]))
    return list(emit_call(b, graph, [*right, *known]))


def transposed_solve(
    b: StablehloBuilder, op: Definition, ct: Tangents, active: Sequence[bool], graph: Graph
) -> list[Value | None]:
    """Returns the cotangents of b, computed by a call of the function that solves the transposed system."""
    n = len(op.results)
    if any(active[n:]):
        raise unsupported("transpose", op, f"@{graph.name} is linear only in its first arguments")
    back = _TRANSPOSES.get(b.view, graph, lambda: _transposed(b, graph, n))
    given = [b.zeros_like(y) if c is None else c for c, y in zip(ct, op.results, strict=True)]
    cb = emit_call(b, back, [*given, *op.operands[n:]])
    return [*(c if flag else None for c, flag in zip(cb, active, strict=False)), *([None] * len(active[n:]))]


def _transposed(b: StablehloBuilder, graph: Graph, n: int) -> Graph:
    """Returns the graph that solves the transpose of the system that `graph` solves, for n unknowns."""
    if TRANSPOSE_SOLVE in graph.attributes:
        return b.view.graph(graph.attributes[TRANSPOSE_SOLVE].value)
    engine: Transposing = b.engine
    apply = b.view.graph(graph.attributes[SOLVE].value)
    inputs = list(apply.inputs.values())
    part = transpose_graph(b, apply, [i < n for i in range(len(inputs))], [True] * n)
    wanted = [x.type if c is None else c for x, c in zip(inputs[:n], part.outputs, strict=True)]
    closed = engine.close(b.view, wanted, [*part.inputs.values(), *inputs[n:]], name="apply_transpose")
    b.view.discard(part)
    back = solving_graph(b, closed, n, solver_of(graph) or Solver(GMRES))
    back.attributes[TRANSPOSE_SOLVE] = ir.FlatSymbolRefAttr.get(graph.name)
    return back


OWN[SOLVE] = by_solve
OWN_TRANSPOSE[SOLVE] = transposed_solve
